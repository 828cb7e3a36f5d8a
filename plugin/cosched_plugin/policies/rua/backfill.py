"""Resource-Usage-Aware backfilling: RUA paper, section 5.

For every job and each of several thresholds, LessConsume Threshold names a place; the one with the least expected slowdown is the
job's. The head of the queue (first come, first served) takes its place if that starts now, else it is reserved. The others that
could start now are taken in order of penalty factor, then estimate: the first that does not delay the reservation starts, and the
scan repeats until no job may start.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Sequence
from operator import attrgetter
from typing import ClassVar, NamedTuple, cast

from cosched_plugin import api
from cosched_plugin.policies.orders import Shortest
from cosched_plugin.policies.planning.losses import SAME
from cosched_plugin.policies.planning.reservation import PlacedReservation, rejection, take_seat
from cosched_plugin.policies.rua.lessconsume import is_rigid, pay_for_look

_processes = attrgetter("processes")
PAPER_THRESHOLDS = (1.15, 1.20, 1.25, 1.5)
_WORTH_A_CHECK = 8  # number of instants that are first examined as one


class Within(NamedTuple):
    """LessConsume Threshold with the threshold of the head's reservation."""

    placement: api.PenaltyPlacement
    threshold: float

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Offer | None:
        """Return a place with a factor within the threshold."""
        if not pay_for_look(job, snapshot.view):
            return None
        found = self.placement.find(job, snapshot, (self.threshold,))
        return None if found is None else found.offer()


class Rua(api.Backfill):
    """Backfilling that looks ahead in time and in the queue for places with little loss to neighbours."""

    needs: ClassVar[api.Needs] = frozenset({api.LEAST_PENALTY})
    ignores: ClassVar[api.Needs] = frozenset({api.FILLED_LAYOUTS})

    def __init__(self, *, thresholds: Sequence[float] = PAPER_THRESHOLDS) -> None:
        self.thresholds = tuple(sorted(set(thresholds)))
        self._by_length = Shortest()

    def decide(self, context: api.Context) -> Iterator[api.Action]:
        """Yield the starts of the queue's head, then those of the jobs that lose least."""
        view = context.view
        # It provides LEAST_PENALTY: the composition requires that
        placement = cast(api.PenaltyPlacement, context.placement)
        while view.queued and view.free_threads and (yield from self._pass(context, placement)):
            pass

    def _pass(self, context: api.Context, placement: api.PenaltyPlacement) -> Generator[api.Action, None, bool]:
        """Yield the starts that one scan of the queue finds; tell whether a further scan may find more."""
        view = context.view
        free = view.free_threads
        if view.any_threads and view.trace is None and not any(map(free.__ge__, map(_processes, view.queue))):
            return False  # a trace records the reservation in any case, and on whole nodes a job may never fit
        queue = context.order.arrange(view.queue, view)
        head: api.FoundPlace | None = None
        behind = 0
        for job in queue:
            if view.work.spent:
                return False
            behind += 1
            left = view.work.left
            best = self.best(job, view, placement)
            if best is None:
                # More than the nodes in service hold: there is nothing to reserve, and the jobs behind it do not pay for the check.
                view.work.refund(left)
                if placement.never(job, view):
                    yield rejection(job, view)
                continue
            if best.snapshot.at_us > view.now_us:
                head = best
                view.tell("reserve", job=job.id, shadow_us=best.snapshot.at_us)
                break
            yield from take_seat(best.offer(), "order", view, factor=best.factor)
        others = queue[behind:]
        if view.work.limited:
            free = view.free_threads
            others = context.within_budget([job for job in others if job.processes <= free])
        # Section 5: reservations are made first come, first served (parameter 3); jobs behind are backfilled shortest first.
        waiting = self._by_length.arrange(others, view)
        reservation: PlacedReservation | None = None
        if head is not None:
            extra = api.size(head.snapshot.free) - head.job.processes
            if not api.short_or_narrow(waiting, view.free_threads, head.snapshot.at_us - view.now_us, extra):
                return False  # the head's place is not needed
            reservation = self._reserve(head, placement)
        started = False
        # Section 5, step 2(b): each start changes what the others lose, so all places are looked for again.
        while offer := self._next(waiting, view, placement, reservation):
            yield from take_seat(offer, "backfill", view, factor=offer.factor)
            waiting.remove(offer.job)
            started = True
        # The starts may have worsened the head's reserved place: a start now may be better.
        if not started or reservation is None:
            return False
        return reservation.moved or is_rigid(reservation.head.job) or not placement.settled(view)

    def _reserve(self, head: api.FoundPlace, placement: api.PenaltyPlacement) -> PlacedReservation:
        """Return the reservation of a job at its best place, with the lowest threshold that the place meets."""
        view = head.snapshot.view
        thresholds = self._thresholds(head.job, view, placement)
        threshold = min((t for t in thresholds if head.factor <= t + SAME), default=thresholds[-1])
        return PlacedReservation(view, head.offer(), Within(placement, threshold))

    def best(self, job: api.JobSpec, view: api.View, placement: api.PenaltyPlacement) -> api.FoundPlace | None:
        """Return the place with the least expected slowdown among those that the thresholds name (ties: lower factor).

        The expected slowdown is (start - submission + estimate x factor) / estimate, so the earliest expected end wins.
        None for a job that the nodes in service cannot hold.
        """
        thresholds = self._thresholds(job, view, placement)
        first = placement.first(job, view, thresholds)
        if first is None:
            return None
        index, best = first
        for better in self._better(best, index + 1, thresholds, placement, None):
            best = better
        return best

    def _next(
        self,
        waiting: list[api.JobSpec],
        view: api.View,
        placement: api.PenaltyPlacement,
        reservation: PlacedReservation | None,
    ) -> api.Offer | None:
        """Return the place for a start now of the pending job with the least (factor, estimate) that does not delay the reservation."""
        free = view.free_threads
        now = api.snapshot_now(view) if reservation is None else reservation.with_head(api.snapshot_now(view))
        lossy: list[api.FoundPlace] = []
        looked_at: set[Hashable] = set()  # kinds of jobs: users submit identical ones by the dozen
        # By ascending estimate: the first one that loses nothing is the one to take.
        narrow = (job for job in waiting if job.processes <= free)
        for job in narrow if reservation is None else reservation.may_admit(waiting, free):
            kind = placement.kind(job, view)
            if kind in looked_at:
                continue
            if not pay_for_look(job, view):
                break
            looked_at.add(kind)
            found = placement.find(job, now, self._thresholds(job, view, placement))
            if found is None:
                continue
            # Section 5, step 1: by penalty factor, then by length. The queue comes by length, so the first factor of 1 is the least.
            if found.factor > 1.0:
                lossy.append(found)
            elif reservation is None or reservation.admit(found.offer()):
                return found.offer()
        lossy.sort(key=_factor)
        for found in lossy:
            if self._best_is_now(found, view, placement, reservation) and (
                reservation is None or reservation.admit(found.offer())
            ):
                return found.offer()
        return None

    def _best_is_now(
        self,
        now: api.FoundPlace,
        view: api.View,
        placement: api.PenaltyPlacement,
        reservation: PlacedReservation | None,
    ) -> bool:
        """Tell whether a job's best place is ``now``, where a later one counts only if it spares the reservation."""
        thresholds = self._thresholds(now.job, view, placement)
        later = self._better(now, 1, thresholds, placement, reservation)
        return next(later, None) is None and not view.work.spent  # a spent budget may have ended the scan early

    def _better(
        self,
        best: api.FoundPlace,
        since: int,
        thresholds: Sequence[float],
        placement: api.PenaltyPlacement,
        reservation: PlacedReservation | None,
    ) -> Iterator[api.FoundPlace]:
        """Yield places from the step ``since`` on, each better than ``best`` and the places before.

        For each threshold they are the first that meets it.
        """
        job, view = best.job, best.snapshot.view
        steps = view.availability()
        unmet = _stricter(thresholds, best.factor)
        best_end_us = best.end_us
        rigid = is_rigid(job)  # first fit may do worse later, so every instant is examined for such a job
        promising = rigid
        for index in range(since, len(steps)):
            if not unmet or steps.instant_us(index) + job.estimate_us > best_end_us:
                break
            if not promising:
                # Factors only fall with time, and a reservation only raises them: if the last relevant step does
                # not meet a threshold without it, no step before does.
                last = steps.by(best_end_us - job.estimate_us, index) - 1
                many = last - index >= _WORTH_A_CHECK and pay_for_look(job, view)
                if many and not placement.meets(job, api.snapshot_at(view, *steps[last]), unmet[-1]):
                    break
                promising = True
            if not pay_for_look(job, view):
                break
            snapshot = api.snapshot_at(view, *steps[index])
            found = placement.find(job, snapshot if reservation is None else _spare(snapshot, job, reservation), unmet)
            if found is None:
                continue
            unmet = _stricter(unmet, found.factor)
            if (found.end_us, found.factor) < (best_end_us, best.factor):
                best, best_end_us = found, found.end_us
                promising = rigid
                yield best

    def _thresholds(self, job: api.JobSpec, view: api.View, placement: api.PenaltyPlacement) -> tuple[float, ...]:
        """Return the thresholds for ``job``, ascending, none below what the empty machine allows."""
        return placement.all_within_reach(job, view, self.thresholds)


def _stricter(thresholds: Sequence[float], factor: float) -> list[float]:
    return [threshold for threshold in thresholds if threshold + SAME < factor]


def _spare(snapshot: api.Snapshot, job: api.JobSpec, reservation: PlacedReservation) -> api.Snapshot:
    """Return a later plan without the reserved threads, where the job would still be there when the head starts."""
    head = reservation.head
    snapshot = reservation.with_head(snapshot)
    if snapshot.at_us < head.end_us and snapshot.at_us + job.estimate_us > head.start_us:
        return reservation.spare(snapshot)
    return snapshot


# Jobs that lose alike may differ in the last digit here, which depends on the unit of time: the same jobs with all times ten times
# as long may then start in another order. Nothing else in the search depends on it.
def _factor(found: api.FoundPlace) -> float:
    return found.factor
