"""LessConsume and LessConsume Threshold: place a job where it should lose least to its neighbours.

RUA paper, section 4. The search starts from first fit's allocation; a *bucket* is a place for one process. The worst
chosen bucket (largest penalised time of its node; ties: the last in node order) is exchanged for the next free bucket
not yet looked at, if the job would lose strictly less there. It ends when every free bucket has been looked at once,
when the job loses nothing, or, with a threshold, when the penalty factor is low enough.

What the search reaches is the least factor that any allocation at that instant has: the tests compare it with
enumeration. So whether a threshold can be met is known from counting places before any search, and, because factors
only fall as running jobs leave, the first instant at which it can be is found by bisection.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import ClassVar

from cosched_plugin.api import (
    JobSpec,
    Layers,
    Run,
    View,
    first_fit,
    is_plain,
    lowest_threads,
    runs_from,
    size,
    thread_mask,
)
from cosched_plugin.policies.expectation import Outlook, extended, factor, factor_of, promising, stretch
from cosched_plugin.policies.offers import Offer, Plan, plan_at
from cosched_plugin.policies.placements import earliest_by_walk

# Factors that differ by rounding only are equal: the same penalty summed over other windows.
SAME = 1e-9


class LessConsume:
    """First fit's allocation, improved at the same start until the penalty factor is least, or within ``threshold``."""

    name: ClassVar[str] = "lessconsume"
    counts = False

    def __init__(self, *, threshold: float | None = None, extend_limit: bool = True) -> None:
        self.threshold = threshold
        self.extend_limit = extend_limit
        self._floors: dict[object, float] = {}
        self._floors_of: Layers = ()  # nodes in service that they hold for

    def offer(self, job: JobSpec, plan: Plan) -> Offer | None:
        """Return the job's place in ``plan``; with a threshold, None also if no place there is good enough."""
        if self.threshold is None:
            return self.least(job, plan)
        return self.least(job, plan, (self.within_reach(job, plan.view, self.threshold),))

    def earliest(self, job: JobSpec, view: View) -> Offer | None:
        """Return the first place as running jobs leave that is good enough."""
        if self.threshold is None or is_rigid(job):  # first fit may do worse later: no bisection
            return earliest_by_walk(self, job, view)
        threshold = self.within_reach(job, view, self.threshold)
        steps = [step for step in view.plan() if size(step[1]) >= job.processes]
        low, high = 0, len(steps)
        middle = 0  # most jobs that can start at all can start well: look at the first instant first
        while low < high:
            if self.meets(job, plan_at(view, *steps[middle]), threshold):
                high = middle
            else:
                low = middle + 1
            middle = (low + high) // 2
        return self.least(job, plan_at(view, *steps[low]), (threshold,)) if low < len(steps) else None

    def promising(self, jobs: list[JobSpec], plan: Plan) -> list[JobSpec]:
        """Return the jobs that may get an offer in ``plan``: with a threshold, those for which it can be met there."""
        if self.threshold is None:
            return jobs
        plain = [job for job in jobs if is_plain(job)]
        limits = [_limit_us(job, self.within_reach(job, plan.view, self.threshold)) for job in plain]
        can = {job.id for job in promising(plain, limits, plan)}
        return [job for job in jobs if job.id in can or not is_plain(job)]

    def meets(self, job: JobSpec, plan: Plan, threshold: float) -> bool:
        """Tell whether ``plan`` has a place for ``job`` with a factor within ``threshold``."""
        if is_rigid(job):
            return self.least(job, plan, (threshold,)) is not None
        outlook = Outlook(job, plan)
        return outlook.places >= job.processes <= outlook.places_within(_limit_us(job, threshold))

    def within_reach(self, job: JobSpec, view: View, threshold: float) -> float:
        """Return ``threshold``, raised to the least factor that the empty machine allows a job like this one."""
        if job.demand is None or not any(job.demand):
            return threshold
        everything = view.in_service
        if everything != self._floors_of:
            self._floors_of = everything
            self._floors.clear()
        key = (
            job.demand,
            job.processes,
            job.ppn_min,
            job.ppn_max,
            job.threads_per_process,
            job.memory_mb,
            job.exclusive,
        )
        floor = self._floors.get(key)
        if floor is None:
            floor = self._floor(job, Plan(view, view.now_us, everything, (), view.machine.memory_mb))
            self._floors[key] = floor
        return max(threshold, floor)

    def _floor(self, job: JobSpec, everything: Plan) -> float:
        outlook = Outlook(job, everything, everything.view.empty_node_table())
        if outlook.places < job.processes:
            return 1.0
        search = _Search(job, outlook)
        if not is_rigid(job):
            search.improve_until(0.0)
        return factor(job, search.worst_us)

    def least(self, job: JobSpec, plan: Plan, thresholds: Sequence[float] = ()) -> Offer | None:
        """Return the place with the least factor; with ``thresholds``, the first within the lowest that can be met.

        None where the job does not fit, or no threshold can be met.
        """
        found = self.find(job, plan, thresholds)
        return None if found is None else found.offer()

    def find(self, job: JobSpec, plan: Plan, thresholds: Sequence[float] = ()) -> Found | None:
        """Return what `least` does, before it is written out as an offer."""
        if is_rigid(job):
            offer = self._rigid(job, plan, thresholds)
            return None if offer is None else Found(job, plan, offer.factor, None, offer)
        if job.processes > size(plan.free):
            return None
        outlook = Outlook(job, plan)
        if outlook.places < job.processes:
            return None
        goal_us = 0.0
        if thresholds:
            limits = (_limit_us(job, threshold) for threshold in sorted(thresholds))
            reached = next((limit for limit in limits if outlook.places_within(limit) >= job.processes), None)
            if reached is None:
                return None
            goal_us = reached
        search = _Search(job, outlook)
        search.improve_until(goal_us)
        return Found(job, plan, factor(job, search.worst_us), search, None, extend_limit=self.extend_limit)

    def _rigid(self, job: JobSpec, plan: Plan, thresholds: Sequence[float]) -> Offer | None:
        """Place a job of which no single bucket can be exchanged."""
        runs = first_fit(job, plan.free, plan.view.machine, plan.memory_for(job))
        if runs is None:
            return None
        by = factor_of(job, plan, runs)
        if thresholds and by > max(thresholds) + SAME:
            return None
        return extended(job, plan, runs, by, extend_limit=self.extend_limit)


def is_rigid(job: JobSpec) -> bool:
    """Tell whether the job wants whole nodes, or a least number of processes on each: then first fit's place is the only one."""
    return job.exclusive or job.ppn_min > 1


def _limit_us(job: JobSpec, threshold: float) -> float:
    return (threshold - 1.0 + SAME) * job.estimate_us


class Found:
    """The end of a search: the factor at once, the offer when it is asked for."""

    __slots__ = ("_extend_limit", "_offer", "_search", "factor", "job", "plan")

    def __init__(
        self,
        job: JobSpec,
        plan: Plan,
        by: float,
        search: _Search | None,
        offer: Offer | None,
        *,
        extend_limit: bool = True,
    ) -> None:
        self.job = job
        self.plan = plan
        self.factor = by
        self._search = search
        self._offer = offer
        self._extend_limit = extend_limit

    @property
    def end_us(self) -> int:
        """Return start + estimate x factor: when the job should end if it gets all the time that it needs."""
        return self.plan.at_us + stretch(self.job.estimate_us, self.factor)

    def offer(self) -> Offer:
        """Return the place."""
        if self._offer is None:
            assert self._search is not None  # one of the two is there
            runs = self._search.runs(self.plan)
            self._offer = extended(self.job, self.plan, runs, self.factor, extend_limit=self._extend_limit)
        return self._offer


class _Search:
    """The exchange of buckets, one improvement at a time. Nodes are rows of the outlook."""

    __slots__ = ("_job", "_lost", "_nodes", "_places", "_rooms", "_row", "_worst", "chosen")

    def __init__(self, job: JobSpec, outlook: Outlook) -> None:
        self._job = job
        self._nodes: list[int] = outlook.nodes.tolist()
        self._rooms: list[int] = outlook.rooms.tolist()
        self._lost: list[list[float]] = outlook.lost.tolist()
        self.chosen: dict[int, int] = {}  # row -> processes: first fit's allocation
        need = job.processes
        row = -1
        taken = 0
        while need:
            row += 1
            taken = min(self._rooms[row], need)
            self.chosen[row] = taken
            need -= taken
        self._row = row  # the node whose free buckets come next, and how many are left there
        self._places = self._rooms[row] - taken
        # (-penalised time, -row, processes): the worst node first. An entry with an outdated number of processes is void.
        self._worst: list[tuple[float, int, int]] = [
            (-self._lost[row][count - 1], -row, count) for row, count in self.chosen.items()
        ]
        heapify(self._worst)

    @property
    def worst_us(self) -> float:
        """Return what the job loses on its worst node."""
        return -self._worst[0][0]

    def improve_until(self, goal_us: float) -> None:
        """Exchange buckets until the worst node loses no more than ``goal_us``, or all free ones have been looked at."""
        while self.worst_us > goal_us and self._improve():
            pass

    def _improve(self) -> bool:
        """Exchange the worst bucket for the next free one that is better; False when all have been looked at."""
        while self._places or self._next_row():
            row = self._row
            count = self.chosen.get(row, 0) + 1
            worst_us, worst_row, worst_count = self._worst[0]
            if self._lost[row][count - 1] >= -worst_us:
                self._places = 0  # the other free buckets of this node are no better
                continue
            self._places -= 1
            heappop(self._worst)
            self._seat(-worst_row, worst_count - 1)
            self._seat(row, count)
            while self.chosen.get(-self._worst[0][1]) != self._worst[0][2]:
                heappop(self._worst)
            return True
        return False

    def runs(self, plan: Plan) -> tuple[Run, ...]:
        """Return the allocation: on every node the lowest free threads."""
        width = self._job.threads_per_process
        placed = []
        for row, count in self.chosen.items():
            node = self._nodes[row]
            placed.append((node, lowest_threads(thread_mask(plan.free, node), count * width), count))
        return runs_from(placed)

    def _seat(self, row: int, count: int) -> None:
        if not count:
            del self.chosen[row]
            return
        self.chosen[row] = count
        heappush(self._worst, (-self._lost[row][count - 1], -row, count))

    def _next_row(self) -> bool:
        self._row += 1
        if self._row == len(self._rooms):
            return False
        self._places = self._rooms[self._row]
        return True
