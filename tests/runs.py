"""Allocations and sets of threads for tests, from plain numbers."""

from __future__ import annotations

from cosched_hwmodel.units import NodeSet, ThreadMask
from cosched_plugin.common.allocation import Layers
from cosched_plugin.protocol.messages import Run


def run_on(first: int, count: int, mask: int, processes: int) -> Run:
    """Return a run: first node, node count, thread mask, processes on each node."""
    return Run(first, count, ThreadMask(mask), processes)


def runs_on(*runs: tuple[int, int, int, int]) -> tuple[Run, ...]:
    """Return an allocation: a run for each four numbers, as `run_on` takes them."""
    return tuple([run_on(*run) for run in runs])


def layers_on(*nodes: int) -> Layers:
    """Return a set of threads: for each thread number the nodes, bit n for node n."""
    return tuple([NodeSet(each) for each in nodes])
