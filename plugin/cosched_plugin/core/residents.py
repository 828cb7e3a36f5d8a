"""The running jobs of slot 0 on each node and their demands: a node table that is kept up to date."""

from __future__ import annotations

from collections.abc import Iterable

from cosched_hwmodel.bandwidth.matrix import NodeTable
from cosched_hwmodel.bandwidth.model import BandwidthModel, Resident
from cosched_plugin.common.allocation import Machine
from cosched_plugin.core.contention import empty_table
from cosched_plugin.core.running import Running


class Residents:
    """The running jobs of slot 0 by node. Outdated rows of the table are rewritten when the table is read."""

    __slots__ = ("_changed", "_on_node", "_table")

    def __init__(self, model: BandwidthModel, machine: Machine, jobs: Iterable[Running]) -> None:
        self._on_node: dict[int, list[Resident]] = {}
        self._changed: set[int] = set()  # nodes whose row in the table is out of date
        self._table = empty_table(model, machine)
        for running in jobs:
            if not (running.on_disk or running.slot):
                self.add(running)

    def table(self) -> NodeTable:
        """Return the table, up to date."""
        if self._changed:
            self._table.put({node: self._on_node[node] for node in self._changed})
            self._changed.clear()
        return self._table

    def add(self, running: Running) -> None:
        """Enter a job on its nodes."""
        on_node = self._on_node
        for resident, nodes in self._resident_on(running):
            for node in nodes:
                there = on_node.get(node)
                if there is None:
                    on_node[node] = [resident]
                else:
                    there.append(resident)

    def remove(self, running: Running) -> None:
        """Take a job off its nodes."""
        on_node = self._on_node
        for resident, nodes in self._resident_on(running):
            for node in nodes:
                on_node[node].remove(resident)

    def _resident_on(self, running: Running) -> list[tuple[Resident, range]]:
        """Return a job's entries in the table with its nodes, run by run; the rows of these nodes become outdated."""
        self._table.note(running.end_us)
        found = []
        for first, count, _, processes in running.runs:
            nodes = range(first, first + count)
            self._changed.update(nodes)
            found.append((_resident(running, processes), nodes))
        return found


def _resident(running: Running, processes: int) -> Resident:
    bandwidth, network, disk = running.job.demand or (0, 0, 0)
    return Resident(running.start_us, running.end_us, (bandwidth * processes, network * processes, disk * processes))
