"""A job's progress under the penalties of its nodes.

A job carries one or several amounts of *remaining work*, in microseconds of run time at full speed (float). A
*slowdown* 1 + p is the elapsed time that one unit of work takes: a window that holds L of work lasts L·(1 + p). While
slowdowns are constant, `progress` and `end_us` give past progress and the end; an emulator calls them only when a
slowdown changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Protocol

from cosched_hwmodel.errors import UnknownNameError
from cosched_hwmodel.units import round_up_us


class Composition(Protocol):
    """The number of works of a job, and the node whose penalty slows each of them."""

    @property
    def name(self) -> str:
        """Return the name by which scenario files and the protocol's belief call it."""

    def works(self, run_us: int, nodes: int) -> list[float]:
        """Return the remaining works of a job that starts, of ``run_us`` alone, on ``nodes`` nodes (at least 1)."""

    def slowdowns(self, penalties: Sequence[float]) -> list[float]:
        """Return the slowdown of each work, from the penalties of the job's nodes, always in the same node order."""


class BulkSynchronous:
    """One work, slowed by the worst node at every instant: a loosely synchronous job waits for its slowest process."""

    __slots__ = ()
    name = "bulk-synchronous"

    def works(self, run_us: int, nodes: int) -> list[float]:  # noqa: ARG002
        """Return the one work of the job."""
        return [float(run_us)]

    def slowdowns(self, penalties: Sequence[float]) -> list[float]:
        """Return one slowdown: 1 + the largest penalty."""
        return [1.0 + max(penalties)]


class Paper:
    """One work for each node, progressing by itself; the job ends with the slowest (RUA paper, section 3.3).

    The job keeps its nodes, and its demand on each, until it ends, as its allocation states.
    """

    __slots__ = ()
    name = "paper"

    def works(self, run_us: int, nodes: int) -> list[float]:
        """Return the whole run time once for each node."""
        return [float(run_us)] * nodes

    def slowdowns(self, penalties: Sequence[float]) -> list[float]:
        """Return 1 + penalty for each node."""
        return [1.0 + penalty for penalty in penalties]


COMPOSITIONS: MappingProxyType[str, Composition] = MappingProxyType(
    {composition.name: composition for composition in (BulkSynchronous(), Paper())}
)


def composition_named(name: str) -> Composition:
    """Return the composition of that name; raises UnknownNameError, which suggests the closest."""
    found = COMPOSITIONS.get(name)
    if found is None:
        raise UnknownNameError("composition", name, COMPOSITIONS)
    return found


def progress(remaining: Sequence[float], slowdowns: Sequence[float], elapsed_us: int) -> list[float]:
    """Return the works that remain after ``elapsed_us`` at these slowdowns; a work that is done stays at 0."""
    return [max(0.0, work - elapsed_us / slowdown) for work, slowdown in zip(remaining, slowdowns, strict=True)]


def time_left_us(remaining: Sequence[float], slowdowns: Sequence[float]) -> float:
    """Return the time until the last work is done, if the slowdowns stay as they are."""
    return max(work * slowdown for work, slowdown in zip(remaining, slowdowns, strict=True))


def end_us(now_us: int, remaining: Sequence[float], slowdowns: Sequence[float]) -> int:
    """Return when the job ends if the slowdowns stay as they are, rounded up to whole microseconds."""
    return now_us + round_up_us(time_left_us(remaining, slowdowns))


def work_done_us(run_us: int, remaining: Sequence[float]) -> int:
    """Return the completed work of a job of ``run_us``, rounded down: that of its slowest part."""
    return run_us - round_up_us(max(remaining))
