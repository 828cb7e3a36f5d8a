"""The emulated hardware: the place, speed and end of each running job. This is the truth; the scheduler never sees it.

A change on a node affects only the jobs resident there. Remaining work is a float that is updated only when the job's slowdown
changes; every value that decides an order is an integer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cosched_hwmodel.composite.node_classes import shape_of
from cosched_hwmodel.composition import Composition, end_us, progress, work_done_us
from cosched_hwmodel.contention import ContentionModel, Load
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.usage import demand_of
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol.messages import DemandTuple, Run


class _Resident:
    """A job on its nodes."""

    __slots__ = ("loads", "remaining", "run_us", "since_us", "slowdowns", "suspended")

    def __init__(self, loads: list[tuple[int, Load]], run_us: int, now_us: int, composition: Composition) -> None:
        self.loads = loads  # (node, the job's share of it)
        self.run_us = run_us
        self.remaining = composition.works(run_us, len(loads))  # remaining work time, as of `since_us`
        self.slowdowns = [0.0]  # unknown until the first settlement
        self.since_us = now_us  # no progress before this time
        self.suspended = False

    def settle(self, now_us: int) -> None:
        """Bring the remaining work up to date."""
        if now_us <= self.since_us:
            return  # the job is still coming back from disk
        if self.slowdowns[0] != 0.0:
            self.remaining = progress(self.remaining, self.slowdowns, now_us - self.since_us)
        self.since_us = now_us

    def remaining_at(self, now_us: int) -> list[float]:
        """Return the remaining work at ``now_us`` without changing anything."""
        if now_us <= self.since_us or self.slowdowns[0] == 0.0:
            return self.remaining
        return progress(self.remaining, self.slowdowns, now_us - self.since_us)


class NoContention:
    """A contention model without contention, for a cluster that is needed only because nodes may be slow."""

    __slots__ = ()
    name = "none"

    def penalties(self, node: NodeShape, loads: Sequence[Load]) -> list[float]:  # noqa: ARG002 - ContentionModel
        """Return 0 for every load."""
        return [0.0] * len(loads)


class ContendedNodes:
    """Nodes under contention, with jobs that progress at 1/(1 + penalty) in work time."""

    def __init__(self, machine: Machine, model: ContentionModel, composition: Composition) -> None:
        self._model = model
        self._composition = composition
        self._shapes: list[NodeShape] = []
        self._kinds: list[int] = []  # class of each node
        for kind, item in enumerate(machine.classes):
            shape = shape_of(item)
            self._shapes += [shape] * item.nodes
            self._kinds += [kind] * item.nodes
        self._loads: list[tuple[Load, ...]] = [()] * machine.nodes  # loads of the jobs on each node, by job
        # Their penalties, as of the last settlement
        self._penalties: list[dict[int, float]] = [{} for _ in range(machine.nodes)]
        self._jobs: dict[int, _Resident] = {}
        self._touched: dict[int, None] = {}  # nodes that changed since the last settlement
        self.slow: dict[int, float] = {}  # slow nodes: by how many times everything takes longer

    def seat(self, job_id: int, runs: Sequence[Run], run_us: int, demand: DemandTuple | None, now_us: int) -> None:
        """Put a job on its nodes; `settle` returns its end."""
        loads = []
        for first, count, mask, processes in runs:
            load = Load(job_id, processes, mask, demand_of(demand or (0, 0, 0), processes))
            loads += [(node, load) for node in range(first, first + count)]
        self._jobs[job_id] = _Resident(loads, run_us, now_us, self._composition)
        self._change(loads, adds=True)

    def leave(self, job_id: int, now_us: int) -> int:
        """Take a job off its nodes; return its work done, in microseconds."""
        resident = self._jobs.pop(job_id)
        if not resident.suspended:
            self._change(resident.loads, adds=False)
        resident.settle(now_us)
        return work_done_us(resident.run_us, resident.remaining)

    def work_us(self, job_id: int, now_us: int) -> int:
        """Return the work that a job has done, without changing anything."""
        resident = self._jobs[job_id]
        return work_done_us(resident.run_us, resident.remaining_at(now_us))

    def suspend(self, job_id: int, now_us: int) -> int:
        """Suspend a job: it puts no load on its nodes and makes no progress. Returns its work done."""
        resident = self._jobs[job_id]
        resident.settle(now_us)
        resident.suspended = True
        resident.slowdowns = [math.inf] * len(resident.remaining)
        self._change(resident.loads, adds=False)
        return work_done_us(resident.run_us, resident.remaining)

    def resume(self, job_id: int, now_us: int, after_us: int = 0) -> None:
        """Resume a suspended job, ``after_us`` from now; `settle` returns its end.

        It loads its nodes immediately.
        """
        resident = self._jobs[job_id]
        resident.settle(now_us)
        resident.suspended = False
        resident.since_us = now_us + after_us
        self._change(resident.loads, adds=True)

    def progress_of(self, job_id: int) -> dict[str, Any]:
        """Return the progress of a job in plain values, for `take_over`."""
        resident = self._jobs[job_id]
        return {"remaining": resident.remaining, "slowdowns": resident.slowdowns, "since_us": resident.since_us}

    def take_over(
        self,
        job_id: int,
        runs: Sequence[Run],
        run_us: int,
        demand: DemandTuple | None,
        progress_so_far: Mapping[str, Any],
        *,
        suspended: bool,
    ) -> None:
        """Put a job on its nodes with the progress that it had elsewhere; `settle` must follow, and finds no other end for it."""
        self.seat(job_id, runs, run_us, demand, progress_so_far["since_us"])
        resident = self._jobs[job_id]
        resident.remaining = list(progress_so_far["remaining"])
        resident.slowdowns = list(progress_so_far["slowdowns"])
        resident.suspended = suspended
        if suspended:
            self._change(resident.loads, adds=False)

    def set_slowdown(self, node: int, factor: float | None) -> None:
        """Slow everything on a node by ``factor`` (at least 1) from the next settlement on, in addition to contention.

        None: the node has its normal speed again.
        """
        before = self.slow.pop(node, 1.0)
        if factor is not None:
            self.slow[node] = factor
        if (factor or 1.0) != before:
            self._touched[node] = None

    def slowdown(self, job_id: int) -> float:
        """Return the present slowdown of the job's slowest part, relative to a run alone."""
        return max(self._jobs[job_id].slowdowns)

    def disturbed_jobs(self) -> list[int]:
        """Return the ids of the jobs with a node that changed since the last settlement."""
        return sorted({load.job_id for node in self._touched for load in self._loads[node]})

    # Must be called after any `seat`, `leave`, `suspend`, `resume` or `set_slowdown`, before time goes on: progress since a job's
    # last settlement is counted at its old slowdown, which is right only if nothing on its nodes has changed since. Only nodes that
    # were touched are looked at, and only jobs whose slowdown has changed get a new end.
    def settle(self, now_us: int) -> list[tuple[int, int]]:
        """Compute the penalties of all nodes changed since the last call; return (job, end) for every job with a new end."""
        affected: set[int] = set()
        # A job's load is the same on most of its nodes.
        known: dict[tuple[int, float, tuple[Load, ...]], dict[int, float]] = {}
        last: tuple[int, float, tuple[Load, ...]] | None = None  # the node before
        penalties: dict[int, float] = {}
        changed: tuple[dict[int, float], dict[int, float]] | None = None  # penalties before and after, examined last
        for node in self._touched:
            alike = (self._kinds[node], self.slow.get(node, 1.0), self._loads[node])
            if alike != last:  # mostly the same objects, which are compared in less time than they are hashed
                last = alike
                found = known.get(alike)
                penalties = known[alike] = self._penalties_on(node) if found is None else found
            before = self._penalties[node]
            if penalties != before:
                self._penalties[node] = penalties.copy()
                if (before, penalties) != changed:
                    changed = (before, penalties)
                    affected.update([job_id for job_id, penalty in penalties.items() if before.get(job_id) != penalty])
        self._touched.clear()
        moved = []
        for job_id in sorted(affected):
            resident = self._jobs[job_id]
            slowdowns = self._composition.slowdowns([self._penalties[node][job_id] for node, _ in resident.loads])
            if slowdowns == resident.slowdowns:
                continue
            resident.settle(now_us)
            resident.slowdowns = slowdowns
            moved.append((job_id, end_us(resident.since_us, resident.remaining, slowdowns)))
        return moved

    def check(self) -> None:
        """Recompute loads and penalties from the residents; AssertionError if they differ."""
        loads: list[list[Load]] = [[] for _ in self._loads]
        for _, resident in sorted(self._jobs.items()):
            for node, load in () if resident.suspended else resident.loads:
                loads[node].append(load)
        if [tuple(there) for there in loads] != self._loads:
            raise AssertionError("loads on nodes differ from those of the jobs there")
        if not self._touched and [self._penalties_on(node) for node in range(len(loads))] != self._penalties:
            raise AssertionError("penalties are not settled")

    def _penalties_on(self, node: int) -> dict[int, float]:
        loads = self._loads[node]
        penalties = self._model.penalties(self._shapes[node], loads) if loads else []
        factor = self.slow.get(node, 1.0)
        if factor != 1.0:
            penalties = [(1.0 + penalty) * factor - 1.0 for penalty in penalties]
        return {load.job_id: penalty for load, penalty in zip(loads, penalties, strict=True)}

    def _change(self, loads: Sequence[tuple[int, Load]], *, adds: bool) -> None:
        """Add the loads of a job to those of its nodes, or take them away."""
        last: tuple[tuple[Load, ...], Load] | None = None  # the node before, on which most was the same
        after: tuple[Load, ...] = ()
        for node, load in loads:
            there = self._loads[node]
            if last is None or there is not last[0] or load is not last[1]:
                last = (there, load)
                after = tuple(sorted((*there, load)) if adds else [other for other in there if other is not load])
            self._loads[node] = after
            self._touched[node] = None
            if not adds:  # if it comes back at this instant, its end must be reported again
                self._penalties[node].pop(load.job_id, None)
