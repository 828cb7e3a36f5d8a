"""The emulated hardware: what runs where, how fast, and when each job will be done. The truth, which the scheduler never sees.

A change on a node touches only the jobs resident there. Remaining work is a float that is settled only when the job's slowdown
changes; everything that decides order is an integer.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched_hwmodel.bandwidth import BandwidthModel
from cosched_hwmodel.composition import Composition, end_us, progress, work_done_us
from cosched_plugin.protocol.allocation import Machine, each_node
from cosched_plugin.protocol.messages import DemandTuple, Run


class _Resident:
    """A job on its nodes."""

    __slots__ = ("nodes", "processes", "remaining", "run_us", "since_us", "slowdowns")

    def __init__(self, runs: Sequence[Run], run_us: int, now_us: int, composition: Composition) -> None:
        placed = list(each_node(runs))
        self.nodes = [node for node, _ in placed]
        self.processes = [count for _, count in placed]
        self.run_us = run_us
        self.remaining = composition.works(run_us, len(placed))  # in work time, as of `since_us`
        self.slowdowns = [0.0]  # unknown until the first settlement
        self.since_us = now_us


class Cluster:
    """Nodes under contention, with jobs that progress at 1/(1 + penalty) in work time."""

    __slots__ = (
        "_capacity",
        "_composition",
        "_demand_sum",
        "_demands",
        "_jobs",
        "_model",
        "_penalty",
        "_there",
        "_touched",
    )

    def __init__(self, machine: Machine, model: BandwidthModel, composition: Composition) -> None:
        self._capacity = machine.capacity_of
        self._model = model
        self._composition = composition
        self._demand_sum: list[DemandTuple] = [(0, 0, 0)] * machine.nodes
        self._penalty = [0.0] * machine.nodes
        self._there: list[tuple[int, ...]] = [()] * machine.nodes  # jobs on each node
        self._jobs: dict[int, _Resident] = {}
        self._demands: dict[int, DemandTuple] = {}
        self._touched: dict[int, None] = {}  # nodes that changed since the last settlement

    def seat(self, job_id: int, runs: Sequence[Run], run_us: int, demand: DemandTuple | None, now_us: int) -> None:
        """Put a job on its nodes; `settle` will tell when it ends."""
        resident = _Resident(runs, run_us, now_us, self._composition)
        self._jobs[job_id] = resident
        self._demands[job_id] = demand or (0, 0, 0)
        for node, count in zip(resident.nodes, resident.processes, strict=True):
            self._there[node] += (job_id,)
            self._add(node, job_id, count)

    def leave(self, job_id: int, now_us: int) -> int:
        """Take a job off its nodes; return the work that it did, in microseconds."""
        resident = self._jobs.pop(job_id)
        for node, count in zip(resident.nodes, resident.processes, strict=True):
            self._there[node] = tuple([other for other in self._there[node] if other != job_id])
            self._add(node, job_id, -count)
        del self._demands[job_id]
        return work_done_us(
            resident.run_us, progress(resident.remaining, resident.slowdowns, now_us - resident.since_us)
        )

    def settle(self, now_us: int) -> list[tuple[int, int]]:
        """Work out the penalties of all nodes touched since the last call; return (job, end) for every job whose end moved."""
        affected: set[int] = set()
        for node in self._touched:
            penalty = self._model.penalty(self._demand_sum[node], self._capacity[node])
            if penalty != self._penalty[node]:
                self._penalty[node] = penalty
                affected.update(self._there[node])
            else:
                affected.update([job_id for job_id in self._there[node] if self._jobs[job_id].slowdowns[0] == 0.0])
        self._touched.clear()
        moved = []
        for job_id in sorted(affected):
            resident = self._jobs[job_id]
            slowdowns = self._composition.slowdowns([self._penalty[node] for node in resident.nodes])
            if slowdowns == resident.slowdowns:
                continue
            if resident.slowdowns[0] != 0.0:
                elapsed_us = now_us - resident.since_us
                resident.remaining = progress(resident.remaining, resident.slowdowns, elapsed_us)
            resident.slowdowns = slowdowns
            resident.since_us = now_us
            moved.append((job_id, end_us(now_us, resident.remaining, slowdowns)))
        return moved

    def check(self) -> None:
        """Re-derive demand sums and penalties from the residents; AssertionError where they differ."""
        sums: list[DemandTuple] = [(0, 0, 0)] * len(self._demand_sum)
        for job_id, resident in self._jobs.items():
            for node, count in zip(resident.nodes, resident.processes, strict=True):
                sums[node] = _plus(sums[node], self._demands[job_id], count)
        if sums != self._demand_sum:
            raise AssertionError("demand on nodes differs from that of the jobs there")
        if not self._touched:
            penalties = [self._model.penalty(sums[node], self._capacity[node]) for node in range(len(sums))]
            if penalties != self._penalty:
                raise AssertionError("penalties are not settled")

    def _add(self, node: int, job_id: int, processes: int) -> None:
        self._demand_sum[node] = _plus(self._demand_sum[node], self._demands[job_id], processes)
        self._touched[node] = None


def _plus(total: DemandTuple, demand: DemandTuple, times: int) -> DemandTuple:
    return (total[0] + demand[0] * times, total[1] + demand[1] * times, total[2] + demand[2] * times)
