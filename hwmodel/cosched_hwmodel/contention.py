"""The contract of a contention model, the penalty of each job on one node; penalised time; the parameters of a frozen dataclass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, fields
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, runtime_checkable

from cosched_hwmodel.errors import HardwareModelError, UnknownNameError
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import ThreadMask


class Load(NamedTuple):
    """One job's processes, threads and demand on one node at one instant."""

    job_id: int  # the job
    processes: int  # how many of its processes are there
    thread_mask: ThreadMask  # the hardware threads of the node that they hold
    demand: tuple[int, int, int]  # of these processes together: memory bandwidth, network, disk


@runtime_checkable
class ContentionModel(Protocol):
    """A contention model: a pure function from the loads on a node to the penalty of each.

    A model gets further data of jobs beyond `Load` (fractions, drawn slowdowns, a row of a measured table) when it is built,
    and finds them by ``job_id``.
    """

    @property
    def name(self) -> str:
        """Return the model's name, as scenario files and the protocol's belief give it."""

    def penalties(self, node: NodeShape, loads: Sequence[Load]) -> list[float]:
        """Return the penalty of each load, in their order: 0 at full speed, p when work takes (1 + p) times as long.

        Depends only on the arguments, and on the order of ``loads`` only for the order of the answer. A
        penalty may differ between sharers, be above 0 for a job that is alone (its processes compete with each
        other), and below 0 where spreading a job out gains more than sharing costs, but is always above -1.
        """


# ---------------------------------------------------------------- penalised time


class Neighbour(NamedTuple):
    """A job's load on a node, there in [start_us, end_us)."""

    start_us: int  # instant from which it is there
    end_us: int  # instant from which it is not, as expected
    load: Load  # its load: a `NodeLoad`


def penalised_us(
    penalty: Callable[[tuple[Load, ...]], float], neighbours: Sequence[Neighbour], start_us: int, run_us: int
) -> float:
    """Return the penalised time, in us, of a job that is on a node in [start_us, start_us + run_us) (RUA paper, equation 3).

    The sum over the node's shared windows of length times penalty; ``penalty`` returns that of the job beside the given loads, which
    are in the order of ``neighbours``. The sum is exact and rounded once. It is below 0 where the job gains more than it loses.
    """
    end_us = start_us + run_us
    there = [neighbour for neighbour in neighbours if neighbour.start_us < end_us and neighbour.end_us > start_us]
    cuts = {start_us, end_us}
    for neighbour in there:
        cuts.update(at_us for at_us in neighbour[:2] if start_us < at_us < end_us)
    return math.fsum(
        (until_us - since_us)
        * penalty(tuple([item.load for item in there if item.start_us <= since_us and until_us <= item.end_us]))
        for since_us, until_us in pairwise(sorted(cuts))
    )


# ---------------------------------------------------------------- parameters

INT64: Final = (-(1 << 63), (1 << 63) - 1)  # smallest and largest


class ParameterError(HardwareModelError):
    """A parameter of a model with an invalid value."""

    def __init__(self, parameter: str, expected: str, value: object) -> None:
        self.parameter = parameter
        self.expected = expected
        self.value = value
        super().__init__(f"{parameter}: expected {expected}, not {value!r}")


class Parametric:
    """A model whose parameters are the fields of its dataclass."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    name: ClassVar[str]  # as scenario files and the protocol's belief give it

    def parameters(self) -> tuple[tuple[str, Any], ...]:
        """Return (name, value) of every field, in their order: the form in a belief."""
        return tuple((item.name, getattr(self, item.name)) for item in fields(self))

    @classmethod
    def from_parameters(cls, parameters: Iterable[tuple[str, object]]) -> Self:
        """Return the model of these parameters, with defaults for missing ones.

        Raises UnknownNameError for an unknown parameter name, and the model's `ParameterError` for an invalid value.
        """
        known = [item.name for item in fields(cls)]
        given: dict[str, Any] = {}
        for parameter, value in parameters:
            if parameter not in known:
                raise UnknownNameError(f"{cls.name} parameter", parameter, known)
            given[parameter] = value
        return cls(**given)
