"""A part by name, and the settings of parts: accepted values, defaults, meanings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Parameter(NamedTuple):
    """A setting of a part."""

    check: Callable[[object], bool]
    expected: str
    default: object
    text: str


class Entry(NamedTuple):
    """A part by name."""

    build: Callable[..., Any]  # None: nothing of this kind
    text: str
    parameters: Mapping[str, Parameter] = {}


def is_factor(value: object) -> bool:
    """Tell whether it is a number >= 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 1.0 <= value < float("inf")


def is_factors(value: object) -> bool:
    """Tell whether it is a list of numbers >= 1, not empty."""
    return isinstance(value, list | tuple) and len(value) > 0 and all(is_factor(item) for item in value)


def is_bool(value: object) -> bool:
    """Tell whether it is true or false."""
    return isinstance(value, bool)


def is_number(low: float, high: float) -> Callable[[object], bool]:
    """Return a check for numbers from ``low`` to ``high``."""
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def is_whole(low: int, high: int) -> Callable[[object], bool]:
    """Return a check for whole numbers from ``low`` to ``high``."""
    return lambda value: type(value) is int and low <= value <= high


def one_of(*names: str, text: str) -> Parameter:
    """Return a setting that is one of ``names``, the first by default."""
    return Parameter(lambda value: value in names, ", ".join(names[:-1]) + f" or {names[-1]}", names[0], text)


def extend_limit(default: bool) -> Parameter:
    """Return the placements' setting that lets limits grow with expected penalties."""
    return Parameter(
        is_bool, "true or false", default, "multiply estimate and limit by the penalty factor expected at the start"
    )
