"""What was measured of a node, as records: rates alone, ratios of pairs, capacities, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles
from typing import Final, NamedTuple

from cosched_hwmodel.cli.measuring.host import Layout
from cosched_hwmodel.cli.measuring.kernels import Kernel
from cosched_hwmodel.topology import NodeShape

MB: Final = 1_000_000  # bytes: rates of nodes are in MB/s


class MeasuredFigure(NamedTuple):
    """The median of repeated measurements; ``spread`` is the middle half of them relative to it, None of a single one."""

    value: float
    spread: float | None
    repeats: int


class AloneRate(NamedTuple):
    """The rate of a kernel alone on a CPU of a seat, in units of the kernel for each second."""

    seat: str
    kernel: str
    rate: MeasuredFigure


class PairRatio(NamedTuple):
    """How many times as long ``row`` takes beside ``column``, on the two CPUs of a seat."""

    seat: str
    row: str
    column: str
    ratio: MeasuredFigure


class NodeMeasurement(NamedTuple):
    """A measured node. ``notes`` say what could not be measured, and why, a sentence each."""

    node: NodeShape
    layout: Layout
    made_by: str  # the compiler of the kernels, or numpy
    kernels: tuple[Kernel, ...]
    alone: tuple[AloneRate, ...]
    pairs: tuple[PairRatio, ...]
    capacities: dict[str, MeasuredFigure]  # of all CPUs together: kernel -> MB/s
    sources: dict[str, str]  # rate of the node -> where it comes from
    seconds: float
    notes: tuple[str, ...]


def figure_of(values: Sequence[float]) -> MeasuredFigure:
    """Return the median of some values and their spread."""
    if len(values) == 1:
        return MeasuredFigure(values[0], None, 1)
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return MeasuredFigure(median(values), (high - low) / middle if middle else 0.0, len(values))
