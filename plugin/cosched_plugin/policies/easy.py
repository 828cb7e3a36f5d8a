"""Backfilling with no reservation for anyone (`none`) and with one for the head of the queue (`easy`, `sjbf`)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import ClassVar, Protocol

from cosched_plugin.api import Action, JobSpec, View, is_plain
from cosched_plugin.policies.offers import Offer, plan_now
from cosched_plugin.policies.orders import Order, Shortest
from cosched_plugin.policies.placements import Placement
from cosched_plugin.policies.reservation import Reservation, reserve


class Backfill(Protocol):
    """The pass over the queue: who starts now."""

    name: ClassVar[str]

    def decide(self, view: View, order: Order, placement: Placement) -> Iterator[Action]:
        """Yield decisions until one more pass would find nothing to do."""
        ...


class NoBackfill:
    """Start jobs in queue order until one does not fit."""

    name: ClassVar[str] = "none"

    def decide(self, view: View, order: Order, placement: Placement) -> Iterator[Action]:
        """Yield the starts of the jobs at the head of the queue that fit."""
        if view.queued:
            yield from start_in_order(view, order.arrange(view.queue, view.now_us), placement)


class Easy:
    """One reservation, for the first job that cannot start; others may run before it where that does not delay it.

    ``candidates`` orders those others: None as the queue does (EASY, Lifka 1995), shortest first for SJBF (Tsafrir et al. 2007).
    """

    name: ClassVar[str] = "easy"
    candidates: ClassVar[Order | None] = None

    def decide(self, view: View, order: Order, placement: Placement) -> Iterator[Action]:
        """Yield the starts of the queue's head, then those of the jobs that may overtake the first that has to wait."""
        while view.queued and (yield from self._pass(view, order, placement)):
            pass

    def _pass(self, view: View, order: Order, placement: Placement) -> Generator[Action, None, bool]:
        """Yield the starts that one look at the queue finds; tell whether another look may find more."""
        waiting = order.arrange(view.queue, view.now_us)
        while True:
            waiting = yield from start_in_order(view, waiting, placement)
            free = view.free_threads
            others = [job for job in waiting[1:] if job.processes <= free]
            if not others:
                return False
            reservation = reserve(view, waiting[0], placement)
            if reservation is not None:
                break
            waiting = waiting[1:]  # more than the nodes in service: nothing to reserve, the next one is the head
        others = placement.promising(reservation.may_admit(others), reservation.plan(plan_now(view)))
        if self.candidates is not None:
            others = self.candidates.arrange(others, view.now_us)
        started = False
        left = others
        while left:
            job, left = left[0], left[1:]
            offer = backfill_offer(view, job, placement, reservation)
            if offer is not None:
                yield offer.start()
                started = True
                free = view.free_threads
                left = reservation.may_admit([job for job in left if job.processes <= free])
        # A start may have made way: the head has another place now, or another place is the best for a job refused before.
        return started and not (reservation.settled and all(map(is_plain, others)))


class Sjbf(Easy):
    """EASY whose backfilled jobs are taken shortest estimate first."""

    name: ClassVar[str] = "sjbf"
    candidates: ClassVar[Order | None] = Shortest()


def start_in_order(view: View, queue: list[JobSpec], placement: Placement) -> Generator[Action, None, list[JobSpec]]:
    """Yield the starts of the first jobs of ``queue``, until one has no place now; return that job and those behind it."""
    for index, job in enumerate(queue):
        offer = placement.offer(job, plan_now(view)) if job.processes <= view.free_threads else None
        if offer is None:
            return queue[index:]
        yield offer.start()
    return []


def backfill_offer(view: View, job: JobSpec, placement: Placement, reservation: Reservation) -> Offer | None:
    """Return a place for ``job`` now that delays the reservation not at all."""
    plan = reservation.plan(plan_now(view))
    offer = placement.offer(job, plan)
    if offer is None or reservation.admit(offer):
        return offer
    elsewhere = reservation.spare(plan)
    offer = None if elsewhere is None else placement.offer(job, elsewhere)
    return offer if offer is not None and reservation.admit(offer) else None
