"""Allocations, sets of threads and drawn usage for tests, from plain numbers."""

from __future__ import annotations

import numpy as np

from cosched_emulator.workload.characteristics import CharacteristicsMix, _draw
from cosched_hwmodel.units import NodeSet, ThreadMask
from cosched_plugin.common.threads import Layers
from cosched_plugin.protocol.messages import Run, UsageTuple


def run_on(first: int, count: int, mask: int, processes: int) -> Run:
    """Return a run: first node, node count, thread mask, processes on each node."""
    return Run(first, count, ThreadMask(mask), processes)


def runs_on(*runs: tuple[int, int, int, int]) -> tuple[Run, ...]:
    """Return an allocation: a run for each four numbers, as `run_on` takes them."""
    return tuple([run_on(*run) for run in runs])


def layers_on(*nodes: int) -> Layers:
    """Return a set of threads: for each thread number the nodes, bit n for node n."""
    return tuple([NodeSet(each) for each in nodes])


def draw_usage(mix: CharacteristicsMix, seed: int, number: int) -> UsageTuple:
    """Return the usage that a workload of this mix and seed draws for the job of that number."""
    (usage,) = _draw(mix, seed, np.array([number], dtype=np.int64))[1].values(0, 1)
    return usage
