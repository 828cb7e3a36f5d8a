"""What annotations say of a field on the wire beside its type: bounds, forms, features, and what an absent field stands for.

A record of the protocol is a named tuple; `vocabulary` makes its form on the wire from these annotations alone. An absent field has
the tuple's default; without one it is None where the type allows that, and an error elsewhere.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple, TypeAlias

from cosched_plugin.protocol.limits import INT64_MAX, INT64_MIN, MAX_NODES, MAX_SLOTS, MAX_THREADS


class Range(NamedTuple):
    """An integer in [low, high]; an ``int`` without a range is not negative."""

    low: int
    high: int = INT64_MAX


class Items(NamedTuple):
    """A list with at least and at most so many items; 0: as many as a list may have."""

    least: int = 0
    most: int = 0


class Form(NamedTuple):
    """A form of its own, by its name among those of `vocabulary`."""

    name: str


class Feature(NamedTuple):
    """A field that a peer does not know which lacks these features, all of them: it is told the default."""

    names: tuple[str, ...]


class Inline(NamedTuple):
    """On the first field of a tuple, a record: its fields stand in the same map as the others, but for these.

    What is left out has its default, or 0.
    """

    without: tuple[str, ...]


class Sparse:
    """A list that is left out where it is empty, although the tuple has no default for it."""


SPARSE: Final = Sparse()

Positive: TypeAlias = Annotated[int, Range(1)]
AnyInteger: TypeAlias = Annotated[int, Range(INT64_MIN)]
NodeNumber: TypeAlias = Annotated[int, Range(0, MAX_NODES - 1)]
NodeCount: TypeAlias = Annotated[int, Range(1, MAX_NODES)]
ThreadCount: TypeAlias = Annotated[int, Range(1, MAX_THREADS)]  # of CPUs, cores or threads of a node
SlotNumber: TypeAlias = Annotated[int, Range(0, MAX_SLOTS - 1)]
Name: TypeAlias = Annotated[str, Form("name")]  # a short text
