"""Placements that consider how many jobs each node has, in all slots: they choose the columns of a matrix of gang scheduling.

Feitelson 1996, *Packing Schemes for Gang Scheduling*, compares such ways to choose columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from cosched_plugin.api import (
    FIXED_RUN_TIMES,
    JobSpec,
    Layers,
    Machine,
    Needs,
    Offer,
    Placement,
    Run,
    Snapshot,
    View,
    any_layer,
    bits_of,
    each_node,
    fill_nodes,
)


class _ByLoad(Placement):
    """A placement that knows how many running jobs are on each node."""

    provides: ClassVar[Needs] = frozenset({FIXED_RUN_TIMES})

    def __init__(self) -> None:
        self._loads: Sequence[int] = ()  # a cache
        self._loads_of: tuple[View | None, int] = (None, 0)

    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job's place in ``snapshot``, or None."""
        view = snapshot.view
        free = view.open_to(job, snapshot.free)
        runs = self._choose(job, free, view.machine, snapshot.memory_for(job), self._jobs_on(view))
        return None if runs is None else self.offer_on(job, runs, snapshot)

    @abstractmethod
    def _choose(
        self, job: JobSpec, free: Layers, machine: Machine, memory_mb: Sequence[int], loads: Sequence[int]
    ) -> tuple[Run, ...] | None:
        """Return the place; ``loads``: the number of jobs on each node."""
        ...

    def _jobs_on(self, view: View) -> Sequence[int]:
        if self._loads_of != (view, view.version):
            loads = [0] * view.machine.nodes
            for running in view.running.values():
                for node, _ in each_node(running.runs):
                    loads[node] += 1
            self._loads, self._loads_of = loads, (view, view.version)
        return self._loads


class LeastLoaded(_ByLoad):
    """The nodes with the fewest jobs first, the lowest of equal ones."""

    def _choose(
        self, job: JobSpec, free: Layers, machine: Machine, memory_mb: Sequence[int], loads: Sequence[int]
    ) -> tuple[Run, ...] | None:
        nodes = sorted(bits_of(any_layer(free)), key=lambda node: (loads[node], node))
        return fill_nodes(job, free, machine, memory_mb, nodes)


class Buddy(_ByLoad):
    """The block with the fewest jobs, of aligned blocks of 1, 2, 4, ... nodes: of the smallest size that holds the job."""

    def _choose(
        self, job: JobSpec, free: Layers, machine: Machine, memory_mb: Sequence[int], loads: Sequence[int]
    ) -> tuple[Run, ...] | None:
        size = _block_size(job, machine)
        blocks = [range(first, min(first + size, machine.nodes)) for first in range(0, machine.nodes, size)]
        blocks.sort(key=lambda block: sum(loads[node] for node in block))  # stable: the lowest of equal ones
        for block in blocks:
            runs = fill_nodes(job, free, machine, memory_mb, block)
            if runs is not None:
                return runs
        return None


def _block_size(job: JobSpec, machine: Machine) -> int:
    """Return the smallest power of two such that some block of this many nodes holds the job when it is empty."""
    size = 1
    while size < machine.nodes:
        for first in range(0, machine.nodes, size):
            block = range(first, min(first + size, machine.nodes))
            if fill_nodes(job, machine.exists, machine, machine.memory_mb, block) is not None:
                return size
        size *= 2
    return size
