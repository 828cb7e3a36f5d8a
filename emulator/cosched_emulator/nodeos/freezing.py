"""Nodes of an exact cluster on which time stands still, and later goes on as if nothing had been."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heapify, heappush

from cosched_emulator.nodeos.kernel.cpu import OF_NODES, RELEASE, Cpu, Event
from cosched_emulator.nodeos.kernel.devices import FifoServer
from cosched_emulator.nodeos.messaging.execution import Execution
from cosched_emulator.nodeos.simulated_process import ParallelJob, Process


class Freezer:
    """Takes the events of nodes out of the heap, and enters them again, later by the time for which they were frozen.

    All that nodes keep as an instant moves with them: CPUs, local schedulers, devices and processes. Frozen nodes must
    have all processes of the jobs that may run there. A release belongs to the node of its job's first process.
    """

    def __init__(
        self,
        events: list[Event],
        cpus: Sequence[Cpu],
        swaps: Sequence[FifoServer],
        execution: Execution,
        jobs: Mapping[int, ParallelJob],
        processes: Mapping[int, Process],
    ) -> None:
        self._events = events
        self._cpus = cpus
        self._swaps = swaps
        self._execution = execution
        self._jobs = jobs
        self._processes = processes
        self._since_us: dict[int, int] = {}  # of frozen nodes
        self._kept: dict[int, list[Event]] = {}  # their events
        self._server_nodes: frozenset[int] = frozenset()  # with which the shared server is frozen

    def freeze(self, nodes: Collection[int], now_us: int, *, server: bool) -> None:
        """Let time stand still on nodes from now on, with ``server`` also for the server that all nodes share."""
        if server:
            self._server_nodes = frozenset(nodes)
        for node in nodes:
            self._cpus[node].hold(now_us)
            self._since_us[node] = now_us
            self._kept[node] = []
        left = []
        for event in self._events:
            node = self._node_of(event)
            if node in nodes:
                self._kept[node].append(event)
            else:
                left.append(event)
        self._events[:] = left
        heapify(self._events)

    def thaw(self, nodes: Collection[int], now_us: int) -> None:
        """Let time go on on frozen nodes from now on."""
        by_us = {node: now_us - self._since_us.pop(node) for node in nodes}
        for node, late_us in by_us.items():
            self._cpus[node].go_on_later(late_us)
            self._swaps[node].free_us += late_us
            self._execution.disks[node].free_us += late_us
            self._execution.layer.network.shift(node, late_us)
            for time_us, kind, where, index, generation in self._kept.pop(node):
                heappush(self._events, (time_us + late_us, kind, where, index, generation))
        if self._server_nodes and self._server_nodes <= by_us.keys():
            self._execution.shared_disk.free_us += max(by_us[node] for node in self._server_nodes)
            self._server_nodes = frozenset()
        for process in self._processes.values():
            late = by_us.get(process.node)
            if late:
                process.allowed_since_us += late
                process.port.shift(late)

    def forget(self, job: int, indices: Collection[int]) -> None:
        """Drop what is to happen to the processes of a job."""
        for events in (self._events, *self._kept.values()):
            events[:] = [
                event
                for event in events
                if event[1] in OF_NODES or (event[3] != job if event[1] == RELEASE else event[3] not in indices)
            ]
        heapify(self._events)

    def _node_of(self, event: Event) -> int:
        return self._jobs[event[3]].processes[0].node if event[1] == RELEASE else event[2]
