"""Backfilling with no reservation for anyone (`none`) and with one for the head of the queue (`easy`, `sjbf`)."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from typing import ClassVar, Final, NamedTuple

from cosched_plugin.api import Action, JobSpec, View, is_plain
from cosched_plugin.policies.backfilling.easy_counted import Counting
from cosched_plugin.policies.orders.queue_orders import Fcfs, Shortest
from cosched_plugin.policies.placement.first_fit import FirstFit
from cosched_plugin.policies.planning.matching import NoMatching
from cosched_plugin.policies.planning.offers import Offer, snapshot_now
from cosched_plugin.policies.planning.parts import Matching, Order, Placement
from cosched_plugin.policies.planning.pending import PendingJobs
from cosched_plugin.policies.planning.reservation import Reservation, reserve
from cosched_plugin.policies.planning.seats import UNRESERVED, Gatekeeper
from cosched_plugin.policies.planning.starting import backfill_seat, start_in_order, take_seat

_NOTHING: Iterator[Action] = iter(())
LOOK: Final = 20  # units of work: a place for a job, and whether it leaves the reservation alone


class NoBackfill:
    """Start jobs in queue order until one does not fit."""

    name: ClassVar[str] = "none"

    def decide(self, view: View, order: Order, placement: Placement, matching: Matching) -> Iterator[Action]:
        """Yield the starts of the jobs at the head of the queue that fit."""
        if view.queued:
            yield from start_in_order(view, PendingJobs(order.arrange(view.queue, view)), placement, matching)


class Easy:
    """One reservation, for the first job that cannot start; others may run before it where that does not delay it.

    ``candidates`` orders those others: None as the queue does (EASY, Lifka 1995), shortest first for SJBF (Tsafrir et al. 2007).
    """

    name: ClassVar[str] = "easy"
    candidates: ClassVar[Order | None] = None

    def __init__(self) -> None:
        self._counting = Counting(self.candidates)

    def decide(self, view: View, order: Order, placement: Placement, matching: Matching) -> Iterator[Action]:
        """Return the starts of the queue's head, then those of the jobs that may overtake the first that has to wait."""
        queue = view.whole_queue
        if queue is not None:
            if not queue:
                return _NOTHING
            # What follows is a matter of numbers where nobody cares on which nodes he runs, beside whom, or in what order.
            alike = not queue.particular and type(view) is View and view.trace is None and type(order) is Fcfs
            if alike and type(matching) is NoMatching and isinstance(placement, FirstFit) and placement.counts:
                starts = self._counting.starts(queue, view, placement)
                return _NOTHING if starts is None else self._pass_by_numbers(starts, view, order, placement, matching)
        return self._passes(view, order, placement, matching)

    def _pass_by_numbers(
        self, starts: Generator[Action, None, bool], view: View, order: Order, placement: Placement, matching: Matching
    ) -> Iterator[Action]:
        if (yield from starts):
            yield from self._passes(view, order, placement, matching)

    def _passes(self, view: View, order: Order, placement: Placement, matching: Matching) -> Iterator[Action]:
        while view.queued and (yield from self._pass(view, order, placement, matching)):
            pass

    def _pass(
        self, view: View, order: Order, placement: Placement, matching: Matching
    ) -> Generator[Action, None, bool]:
        """Yield the starts that one look at the queue finds; tell whether another look may find more."""
        blocked = yield from _start_until_blocked(view, order, placement, matching)
        if blocked is None:
            return False
        reservation, fitting = blocked.reservation, blocked.fitting
        if view.trace is not None and (fitting or matching.join_candidates(blocked.pending, view)):
            head = blocked.pending.jobs[0]
            view.trace.tell("reserve", job=head.id, shadow_us=view.wall_us(reservation.shadow_us))
        # A job that the reservation lets join no running job may still join one that starts in this pass. Where the work is limited,
        # or not every job gets a look, the same jobs have to get one in either case.
        gate: Gatekeeper = reservation if placement.counts and not view.work.limited else UNRESERVED
        join_candidates = matching.join_candidates(blocked.pending, view, gate)
        if not (fitting or join_candidates):
            return False
        fitting = reservation.may_admit(fitting, view.free_threads)
        others = _candidates(blocked.behind, fitting, join_candidates)
        if not placement.counts:
            others = placement.promising(others, reservation.with_head(snapshot_now(view)))
        blocked = blocked._replace(fitting=fitting)
        return (yield from self._backfill(blocked, others, join_candidates, gate, view, placement, matching))

    def _backfill(
        self,
        blocked: _Blocked,
        others: list[JobSpec],
        join_candidates: Collection[int],
        gate: Gatekeeper,
        view: View,
        placement: Placement,
        matching: Matching,
    ) -> Generator[Action, None, bool]:
        """Yield the starts of those of ``others`` that leave the reserved job its start; tell whether another look may find more.

        ``join_candidates`` are those of them that ``gate`` lets join a running job.
        """
        others = self._arrange(others, view)
        pending, reservation = blocked.pending, blocked.reservation
        free = view.free_threads
        started: set[int] = set()
        place = 0
        while place < len(others):
            job = others[place]
            place += 1
            may_join = job.id in join_candidates
            if job.id in started or (job.processes > free and not may_join):
                continue
            if not view.work.spend(LOOK):
                break
            seat = backfill_seat(view, job, pending, placement, matching, reservation, may_join=may_join)
            if seat is None:
                continue
            if gate is reservation and isinstance(seat, Offer) and matching.may_host(job):  # others may join it
                gate = UNRESERVED
                join_candidates = matching.join_candidates(blocked.pending, view, gate)
                others = self._arrange(_candidates(blocked.behind, blocked.fitting, join_candidates), view)
                place = others.index(job) + 1
            yield from take_seat(seat, "backfill", view)
            started.update(seat.job_ids)
            pending = pending.without(seat.job_ids)
            free = view.free_threads
        # A start may have made way: the head has another place now, or another place is the best for a job refused before.
        return bool(started) and not (matching.settled and reservation.settled and all(map(is_plain, others)))

    def _arrange(self, others: list[JobSpec], view: View) -> list[JobSpec]:
        return others if self.candidates is None else self.candidates.arrange(others, view)


class Sjbf(Easy):
    """EASY whose backfilled jobs are taken shortest estimate first."""

    name: ClassVar[str] = "sjbf"
    candidates: ClassVar[Order | None] = Shortest()


class _Blocked(NamedTuple):
    """The queue when its first job has to wait."""

    pending: PendingJobs  # the first of them is the one with the reservation
    behind: list[JobSpec]  # the others
    fitting: list[JobSpec]  # those of them for which enough threads are free
    reservation: Reservation


def _start_until_blocked(
    view: View, order: Order, placement: Placement, matching: Matching
) -> Generator[Action, None, _Blocked | None]:
    """Yield starts in queue order until a job has to wait; return it with its reservation, None if no job may start before it."""
    pending = PendingJobs(order.arrange(view.queue, view))
    reason = "order"
    while True:
        left = view.work.left
        pending = yield from start_in_order(view, pending, placement, matching, reason)
        free = view.free_threads
        behind = pending.jobs[1:]
        fitting = [job for job in behind if job.processes <= free]
        if not fitting and not (behind and matching.has_hosts(view)):
            return None
        reservation = reserve(view, pending.jobs[0], placement)
        if reservation is not None:
            return _Blocked(pending, behind, fitting, reservation)
        if not fitting and not matching.join_candidates(pending, view):
            return None
        # The nodes in service cannot hold this job, so there is nothing to reserve. The next one takes its place as the head. The look
        # at this one is not charged to those behind it: else jobs that could start might never be looked at.
        view.work.left = left
        pending = PendingJobs(behind)
        reason = "overtake"


def _candidates(jobs: list[JobSpec], fitting: list[JobSpec], join_candidates: Collection[int]) -> list[JobSpec]:
    """Return the jobs that might start before the reserved one: on free nodes, or with a running job."""
    if not join_candidates:
        return fitting
    may = {job.id for job in fitting}
    return [job for job in jobs if job.id in may or job.id in join_candidates]
