"""Placements that consider how many jobs each node has, in all slots: they choose the columns of a matrix of gang scheduling.

Feitelson 1996, *Packing Schemes for Gang Scheduling*, compares such ways to choose columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from cosched_plugin.api import (
    FIXED_RUN_TIMES,
    JobSpec,
    Layers,
    Needs,
    Offer,
    Placement,
    Snapshot,
    View,
    any_layer,
    bits_of,
    fill_nodes,
)
from cosched_plugin.policies.placement.residents import Residents


class _ByLoad(Placement):
    """A placement that knows how many running jobs are on each node."""

    provides: ClassVar[Needs] = frozenset({FIXED_RUN_TIMES})

    def __init__(self) -> None:
        self._residents = Residents()

    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job's place in ``snapshot``, or None."""
        free = snapshot.view.open_to(job, snapshot.free)
        memory_mb = snapshot.memory_for(job)
        for nodes in self._choices(job, free, snapshot.view):
            runs = fill_nodes(job, free, snapshot.view.machine, memory_mb, nodes)
            if runs is not None:
                return self.offer_on(job, runs, snapshot)
        return None

    @abstractmethod
    def _choices(self, job: JobSpec, free: Layers, view: View) -> Iterable[Sequence[int]]:
        """Return the sets of nodes that the job may take, the best first; it fills the nodes of the first one with room, in order."""
        ...


class LeastLoaded(_ByLoad):
    """The nodes with the fewest jobs first, the lowest of equal ones."""

    def _choices(self, job: JobSpec, free: Layers, view: View) -> Iterable[Sequence[int]]:
        loads = self._residents.now(view)
        return [sorted(bits_of(any_layer(free)), key=lambda node: (loads[node], node))]


class Buddy(_ByLoad):
    """Aligned blocks of 1, 2, 4, ... nodes, of the smallest size that holds the job; the block with the fewest jobs first.

    Nodes out of service count as missing: where no block is left that holds the job, it gets a block of twice the size.
    """

    def _choices(self, job: JobSpec, free: Layers, view: View) -> Iterable[Sequence[int]]:
        loads = self._residents.now(view)
        blocks = _blocks_for(job, view)
        blocks.sort(key=lambda block: sum([loads[node] for node in block]))  # stable: the lowest of equal ones
        return blocks


def _blocks_for(job: JobSpec, view: View) -> list[range]:
    """Return all blocks of the smallest size of which one holds the job when it is empty."""
    machine = view.machine
    empty = view.open_to(job, view.in_service)
    size = 1
    while size * machine.depth < job.processes * job.threads_per_process:
        size *= 2
    while True:
        blocks = [range(first, min(first + size, machine.nodes)) for first in range(0, machine.nodes, size)]
        if size >= machine.nodes or any(
            fill_nodes(job, empty, machine, machine.memory_mb, block) is not None for block in blocks
        ):
            return blocks
        size *= 2
