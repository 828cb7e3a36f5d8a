"""LessConsume and LessConsume Threshold: place a job where its expected loss to neighbours is least.

RUA paper, section 4. The search starts from first fit's allocation; a *bucket* is a place for one process. The worst
chosen bucket (largest penalised time of its node; ties: the last in node order) is exchanged for the next free bucket
not yet looked at, if the job would lose strictly less there. It ends when every free bucket has been looked at once,
when the job loses nothing, or, with a threshold, when the penalty factor is low enough.

The search reaches the least factor of all allocations at that instant: the tests compare it with enumeration. So
counting places, before any search, tells whether a threshold can be met. Factors only fall as running jobs end, so
bisection finds the first instant at which it can be met.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf
from typing import Final

from cosched_plugin.api import (
    LEAST_PENALTY,
    NONE,
    JobSpec,
    Layers,
    Needs,
    Offer,
    PenaltyPlacement,
    Price,
    Run,
    Snapshot,
    View,
    first_fit,
    is_plain,
    prices,
    size,
    snapshot_at,
)
from cosched_plugin.policies.planning.losses import losses_in
from cosched_plugin.policies.planning.penalties import factor, factor_of, penalised_offer, stretch
from cosched_plugin.policies.rua.bucket_exchange import Exchange
from cosched_plugin.policies.rua.losses import LossCache, Places

# Factors that differ only by rounding are equal: the same penalty summed over other windows.
SAME = 1e-9
_MOST_FLOORS: Final = 10_000  # cached


class LessConsume(PenaltyPlacement):
    """First fit's allocation, improved at the same start until the penalty factor is least, or within ``threshold``."""

    def __init__(self, *, threshold: float | None = None, extend_limit: bool = True) -> None:
        self.threshold = threshold
        self.extend_limit = extend_limit
        self._known = LossCache()
        self._floors: dict[object, float] = {}  # by kind
        self._floor_of: dict[int, tuple[JobSpec, float]] = {}
        self._floors_of: Layers = ()  # the nodes in service for which they are valid
        self._floors_at: tuple[View, int] | None = None  # when these were last checked

    @property
    def provides(self) -> Needs:
        """Return that the placement searches within any thresholds, where it has none of its own."""
        return frozenset({LEAST_PENALTY}) if self.threshold is None else NONE

    def settled(self, view: View) -> bool:
        """Tell whether threads of a node are alike."""
        return not self._known.losses(view).by_thread

    def offer_on(self, job: JobSpec, runs: tuple[Run, ...], snapshot: Snapshot) -> Offer:
        """Return the job on these threads, beside the neighbours that it has there."""
        by = factor_of(job, snapshot, runs)
        return penalised_offer(job, snapshot, runs, by, extend_limit=self.extend_limit)

    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job's place in ``snapshot``, or None; with a threshold, None also if none is good enough."""
        return self.least(job, snapshot, self._own(job, snapshot.view))

    def price(self, job: JobSpec, view: View) -> int:
        """Return the price of an examination of the places at one instant."""
        return _price(job).units(view.machine.nodes)

    def earliest(self, job: JobSpec, view: View) -> Offer | None:
        """Return the first place, as running jobs end, that is good enough."""
        first = self.first(job, view, self._own(job, view))
        return None if first is None else first[1].offer()

    def first(self, job: JobSpec, view: View, thresholds: Sequence[float]) -> tuple[int, Found] | None:
        """Return the first step of the view's availability in which `find` finds a place: the step's number and the place.

        Every check is paid for, but none is skipped: a reservation is made at any cost.
        """
        steps = view.availability()
        low = middle = steps.wide(job.processes)
        high = len(steps)
        walk = bool(thresholds) and is_rigid(job)  # it fits from some step on, but first fit may do worse later
        threshold = thresholds[-1] if thresholds and not walk else None
        while low < high:  # most jobs that can start at all have a good place: try the first instant first
            pay_for_look(job, view)
            if self.meets(job, snapshot_at(view, *steps[middle]), threshold):
                high = middle
            else:
                low = middle + 1
            middle = (low + high) // 2
        for index in range(low, len(steps)):
            found = self.find(job, snapshot_at(view, *steps[index]), thresholds)
            if found is not None:
                return index, found
            pay_for_look(job, view)
        return None

    def promising(self, jobs: list[JobSpec], snapshot: Snapshot) -> list[JobSpec]:
        """Return the jobs that may get an offer in ``snapshot``: with a threshold, those for which it can be met there."""
        if self.threshold is None:
            return jobs
        threads = size(snapshot.free)
        plain = [job for job in jobs if is_plain(job) and job.processes <= threads]
        if plain:
            self._known.places(plain[0], snapshot).foresee(plain, snapshot.planned)
        can = {
            job.id for job in plain if self.meets(job, snapshot, self.within_reach(job, snapshot.view, self.threshold))
        }
        return [job for job in jobs if job.id in can or not is_plain(job)]

    def meets(self, job: JobSpec, snapshot: Snapshot, threshold: float | None) -> bool:
        """Tell whether ``snapshot`` has a place for ``job``; with a threshold, one with a factor within it."""
        if is_rigid(job):
            return self.find(job, snapshot, () if threshold is None else (threshold,)) is not None
        places = self._known.places(job, snapshot)
        if job.processes > places.total:
            return False
        if threshold is None:
            return True
        return places.outlook(job, snapshot.planned).least_us(job.processes) <= _limit_us(job, threshold)

    def kind(self, job: JobSpec, view: View) -> Hashable:
        """Return the kind of the job."""
        if not is_plain(job):
            return job.id
        return (job.estimate_us, job.processes, job.limit_us, self._known.losses(view).kind(job))

    def _own(self, job: JobSpec, view: View) -> tuple[float, ...]:
        return () if self.threshold is None else (self.within_reach(job, view, self.threshold),)

    def within_reach(self, job: JobSpec, view: View, threshold: float) -> float:
        """Return ``threshold``, raised to the least factor that the empty machine allows a job like this one."""
        return max(threshold, self._least_ever(job, view))

    def all_within_reach(self, job: JobSpec, view: View, thresholds: tuple[float, ...]) -> tuple[float, ...]:
        """Return the ascending ``thresholds``, each raised to the least factor that the empty machine allows a job like this one."""
        least = self._least_ever(job, view)
        if least <= thresholds[0]:
            return thresholds
        return tuple(sorted({max(threshold, least) for threshold in thresholds}))

    def _least_ever(self, job: JobSpec, view: View) -> float:
        if self._floors_at != (view, view.version):
            self._floors_at = (view, view.version)
            in_service = view.in_service
            if in_service != self._floors_of:
                self._floors_of = in_service
                self._floors.clear()
                self._floor_of.clear()
        known = self._floor_of.get(job.id)
        if known is None or known[0] is not job:
            if len(self._floor_of) >= _MOST_FLOORS:
                self._floor_of.clear()
            known = self._floor_of[job.id] = (job, self._floor_of_kind(job, view))
        return known[1]

    def _floor_of_kind(self, job: JobSpec, view: View) -> float:
        losses = self._known.losses(view)
        if losses.loses_nothing(job):
            return 1.0
        key = (
            losses.kind(job),
            job.processes,
            job.ppn_min,
            job.ppn_max,
            job.threads_per_process,
            job.memory_mb,
            job.exclusive,
        )
        floor = self._floors.get(key)
        if floor is None:
            if len(self._floors) >= _MOST_FLOORS:
                self._floors.clear()
            everything = Snapshot(view, view.now_us, self._floors_of, (), view.machine.memory_mb)
            floor = self._floors[key] = self._floor(job, everything)
        return floor

    def _floor(self, job: JobSpec, everything: Snapshot) -> float:
        places = Places(job, everything, losses_in(everything.view, empty=True))
        if places.total < job.processes:
            return 1.0
        outlook = places.outlook(job, ())
        if is_rigid(job):
            return factor(job, outlook.exchange(job.processes, inf).worst_us)
        return factor(job, outlook.least_us(job.processes))

    def least(self, job: JobSpec, snapshot: Snapshot, thresholds: Sequence[float] = ()) -> Offer | None:
        """Return the place with the least factor; with ascending ``thresholds``, the first within the lowest that can be met.

        None where the job does not fit, or no threshold can be met.
        """
        found = self.find(job, snapshot, thresholds)
        return None if found is None else found.offer()

    def find(self, job: JobSpec, snapshot: Snapshot, thresholds: Sequence[float] = ()) -> Found | None:
        """Return the result of `least` before it is written out as an offer."""
        if is_rigid(job):
            offer = self._rigid(job, snapshot, thresholds)
            return None if offer is None else Found(job, snapshot, offer.factor, offer=offer)
        if job.processes > size(snapshot.free):
            return None
        places = self._known.places(job, snapshot)
        if job.processes > places.total:
            return None
        outlook = places.outlook(job, snapshot.planned)
        goal_us = 0.0
        if thresholds:
            least_us = outlook.least_us(job.processes)
            for threshold in thresholds:
                goal_us = _limit_us(job, threshold)
                if least_us <= goal_us:
                    break
            else:
                return None
        exchange = outlook.exchange(job.processes, goal_us)
        return Found(job, snapshot, factor(job, exchange.worst_us), places, exchange, extend_limit=self.extend_limit)

    def _rigid(self, job: JobSpec, snapshot: Snapshot, thresholds: Sequence[float]) -> Offer | None:
        """Place a job whose buckets cannot be exchanged one at a time."""
        view = snapshot.view
        runs = first_fit(job, view.open_to(job, snapshot.free), view.machine, snapshot.memory_for(job))
        if runs is None:
            return None
        by = factor_of(job, snapshot, runs)
        if thresholds and by > max(thresholds) + SAME:
            return None
        return penalised_offer(job, snapshot, runs, by, extend_limit=self.extend_limit)


def is_rigid(job: JobSpec) -> bool:
    """Tell whether the job wants whole nodes, or a least number of processes on each: then first fit's place is the only one."""
    return job.exclusive or job.ppn_min > 1


def _limit_us(job: JobSpec, threshold: float) -> float:
    return (threshold - 1.0 + SAME) * job.estimate_us


def pay_for_look(job: JobSpec, view: View) -> bool:
    """Pay for an examination of the places at one instant; tell whether the budget allowed it."""
    return not view.work.limited or view.work.pay(_price(job), view.machine.nodes)


def _price(job: JobSpec) -> Price:
    return prices.PLACES if is_plain(job) else prices.PLACES_BY_NODE


class Found:
    """The end of a search: the factor at once, the offer on request."""

    __slots__ = ("_exchange", "_extend_limit", "_offer", "_places", "factor", "job", "snapshot")

    def __init__(
        self,
        job: JobSpec,
        snapshot: Snapshot,
        by: float,
        places: Places | None = None,
        exchange: Exchange | None = None,
        offer: Offer | None = None,
        *,
        extend_limit: bool = True,
    ) -> None:
        self.job = job
        self.snapshot = snapshot
        self.factor = by
        self._places = places
        self._exchange = exchange
        self._offer = offer
        self._extend_limit = extend_limit

    @property
    def end_us(self) -> int:
        """Return start + estimate x factor: the job's expected end without a limit."""
        return self.snapshot.at_us + stretch(self.job.estimate_us, self.factor)

    def offer(self) -> Offer:
        """Return the place."""
        if self._offer is None:
            assert self._places is not None  # set together, or the offer is set
            assert self._exchange is not None
            runs = self._places.runs(self.job, self._exchange)
            self._offer = penalised_offer(self.job, self.snapshot, runs, self.factor, extend_limit=self._extend_limit)
        return self._offer
