"""LessConsume and LessConsume Threshold: place a job where it should lose least to its neighbours.

RUA paper, section 4. The search starts from first fit's allocation; a *bucket* is a place for one process. The worst chosen bucket
(largest penalised time of its node; ties: the last in node order) is exchanged for the next free bucket not yet looked at, if the
job would lose strictly less there. It ends when every free bucket has been looked at once, when the job loses nothing, or, with a
threshold, when the penalty factor is low enough. What the search reaches is the least factor that any allocation at that instant
has (`tests/policies/test_lessconsume.py` compares it with enumeration), so factors only fall from one instant to a later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import ClassVar

from cosched_plugin.api import (
    JobSpec,
    Run,
    View,
    any_layer,
    bits_of,
    first_fit,
    lowest_threads,
    room_on,
    runs_from,
    size,
    thread_mask,
)
from cosched_plugin.policies.expectation import Expectation, extended, factor_of
from cosched_plugin.policies.offers import NOBODY, Offer, Plan, plan_at
from cosched_plugin.policies.placements import earliest_by_walk

# Factors that differ by rounding only are equal: the same penalty summed over other windows.
SAME = 1e-9


class LessConsume:
    """First fit's allocation, improved at the same start until the job's penalty factor is least, or no more than ``threshold``."""

    name: ClassVar[str] = "lessconsume"

    def __init__(self, *, threshold: float | None = None, extend_limit: bool = True) -> None:
        self.threshold = threshold
        self.extend_limit = extend_limit
        self._floors: dict[object, float] = {}

    counts = False

    def offer(self, job: JobSpec, plan: Plan) -> Offer | None:
        """Return the job's place in ``plan``; with a threshold, None also if no place there is good enough."""
        if self.threshold is None:
            return self.least(job, plan)
        return self.below(job, plan, self.within_reach(job, plan.view, self.threshold))

    def earliest(self, job: JobSpec, view: View) -> Offer | None:
        """Return the first place as running jobs leave that is good enough.

        With a threshold the instant is found by bisection, because factors only fall with time.
        """
        if self.threshold is None:
            return earliest_by_walk(self, job, view)
        threshold = self.within_reach(job, view, self.threshold)
        steps = [step for step in view.plan() if size(step[1]) >= job.processes]
        found = self.below(job, plan_at(view, *steps[0]), threshold) if steps else None
        if found is not None:
            return found
        low, high = 1, len(steps)
        while low < high:
            middle = (low + high) // 2
            offer = self.below(job, plan_at(view, *steps[middle]), threshold)
            if offer is None:
                low = middle + 1
            else:
                found, high = offer, middle
        return found

    def below(self, job: JobSpec, plan: Plan, threshold: float) -> Offer | None:
        """Return the first place that the search finds with a factor of at most ``threshold``; None if there is none."""
        offer = self.least(job, plan, (threshold,))
        return None if offer is None or offer.factor > threshold + SAME else offer

    def within_reach(self, job: JobSpec, view: View, threshold: float) -> float:
        """Return ``threshold``, raised to the least factor that the empty machine allows a job like this one."""
        if job.demand is None or not any(job.demand):
            return threshold
        everything = view.in_service
        key = (
            everything,
            job.processes,
            job.demand,
            job.ppn_min,
            job.ppn_max,
            job.threads_per_process,
            job.memory_mb,
            job.exclusive,
        )
        floor = self._floors.get(key)
        if floor is None:
            offer = self.least(job, _EmptyPlan(view, view.now_us, everything, NOBODY))
            floor = 1.0 if offer is None else offer.factor
            self._floors[key] = floor
        return max(threshold, floor)

    def least(self, job: JobSpec, plan: Plan, thresholds: Sequence[float] = ()) -> Offer | None:
        """Return the job's place in ``plan``; None where it does not fit.

        One search serves all ``thresholds``: the place returned is the first that meets the lowest threshold that can be met, or
        the best of all where none can (or none is given).
        """
        if job.exclusive or job.ppn_min > 1:
            # Whole nodes, or a least number on each: there is no single bucket to exchange.
            runs = first_fit(job, plan.free, plan.view.machine, plan.memory_for(job))
            if runs is None:
                return None
            return extended(job, plan, runs, factor_of(job, plan, runs), extend_limit=self.extend_limit)
        if job.processes > size(plan.free):
            return None
        search = _Search(job, plan)
        if not search.fits:
            return None
        unmet = sorted(thresholds)
        best = (search.factor, search.chosen)
        met = None
        while True:
            factor, chosen = best
            while unmet and factor <= unmet[-1] + SAME:
                unmet.pop()
                met = best
            if factor == 1.0 or (thresholds and not unmet) or not search.improve():
                break
            best = (search.factor, dict(search.chosen) if thresholds else search.chosen)
        factor, chosen = met or best
        return extended(job, plan, search.runs(chosen), factor, extend_limit=self.extend_limit)


class _EmptyPlan(Plan):
    """A plan in which nobody runs."""

    __slots__ = ()

    def residents(self, node: int) -> tuple[()]:  # noqa: ARG002 - nobody, whichever the node
        """Return nobody."""
        return ()


class _Search:
    """The exchange of buckets for one job in one plan, one improvement at a time."""

    __slots__ = ("_expectation", "_free", "_job", "_node", "_places", "_rooms", "_worst", "chosen", "fits")

    def __init__(self, job: JobSpec, plan: Plan) -> None:
        self._job = job
        self._free = plan.free
        self._expectation = Expectation(job, plan)
        self._rooms = _rooms(job, plan)
        self.chosen: dict[int, int] = {}  # node -> processes
        need = job.processes
        self._node = self._places = 0  # the node whose free buckets come next, and how many are left there
        while need and self._next_node():
            taken = min(self._places, need)
            self.chosen[self._node] = taken
            self._places -= taken
            need -= taken
        self.fits = not need
        # (-penalised time, -node, processes): the worst node first. An entry with an outdated number of processes is void.
        lost = self._expectation.penalised_us
        self._worst = [(-lost(node, count), -node, count) for node, count in self.chosen.items()]
        heapify(self._worst)

    @property
    def factor(self) -> float:
        """Return the penalty factor of the job where it is now."""
        return self._expectation.factor(-self._worst[0][0])

    def improve(self) -> bool:
        """Exchange the worst bucket for the next free one that is better; False when all have been looked at."""
        while self._places or self._next_node():
            node = self._node
            count = self.chosen.get(node, 0) + 1
            lost_us = self._expectation.penalised_us(node, count)
            worst_us, worst_node, worst_count = self._worst[0]
            if lost_us >= -worst_us:
                self._places = 0  # the other free buckets of this node are no better
                continue
            self._places -= 1
            heappop(self._worst)
            self._seat(-worst_node, worst_count - 1)
            self._seat(node, count)
            while self.chosen.get(-self._worst[0][1]) != self._worst[0][2]:
                heappop(self._worst)
            return True
        return False

    def runs(self, chosen: dict[int, int]) -> tuple[Run, ...]:
        """Return an allocation as runs: on every node the lowest free threads."""
        width = self._job.threads_per_process
        free = self._free
        return runs_from(
            (node, lowest_threads(thread_mask(free, node), count * width), count) for node, count in chosen.items()
        )

    def _seat(self, node: int, count: int) -> None:
        if not count:
            del self.chosen[node]
            return
        self.chosen[node] = count
        heappush(self._worst, (-self._expectation.penalised_us(node, count), -node, count))

    def _next_node(self) -> bool:
        self._node, self._places = next(self._rooms, (self._node, 0))
        return self._places > 0


def _rooms(job: JobSpec, plan: Plan) -> Iterator[tuple[int, int]]:
    """Yield (node, processes of ``job`` that fit there) for the nodes that take any, in node order."""
    free = plan.free
    machine = plan.view.machine
    memory = plan.memory_for(job)
    for node in bits_of(any_layer(free)):
        room = room_on(job, thread_mask(free, node).bit_count(), machine.threads_of[node], memory[node])
        if room:
            yield node, room
