"""Backfilling by gain: of the jobs that may start, the one whose place adds most work goes first.

One job has a reservation: the first of the queue, when it has no place. Pending jobs of equal size that follow each other in the
queue compete: the best gain wins, whoever came first. Smaller or larger ones further back come after them, and must leave the
reservation alone. So with `widest` the large jobs are placed first, each with its best neighbours, and smaller ones fill what is
left; and with equal jobs the whole queue is searched.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import ClassVar, NamedTuple, cast

from cosched_plugin.api import (
    COMPANY,
    HALVES,
    UNRESERVED,
    Action,
    Backfill,
    Context,
    Gate,
    JobSpec,
    Needs,
    Offer,
    PendingJobs,
    Snapshot,
    View,
    prices,
    snapshot_now,
)
from cosched_plugin.policies.coexecution.halves import Halves, OpenNodes, Place
from cosched_plugin.policies.planning.reservation import PlacedReservation, rejection, take_seat


class _Head:
    """The placer of the reserved job: jobs that start in this pass count as its neighbours."""

    def __init__(self, placement: Halves) -> None:
        self.planned: list[Offer] = []
        self._placement = placement

    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job's place in ``snapshot``."""
        return self._placement.offer_among(job, snapshot, self.planned)


class _Candidate(NamedTuple):
    """A pending job that has a place now."""

    rank: int  # 0: it may start whatever that does to the queue's head
    place: Place


class ByGain(Backfill):
    """One reservation, for the head of the queue; jobs that add most work first.

    ``lookahead``: kinds of pending jobs that are compared, at most. Jobs of one name and size, with equal estimates, are of one kind.
    """

    needs: ClassVar[Needs] = frozenset({HALVES})
    provides: ClassVar[Needs] = frozenset({COMPANY})

    def __init__(self, *, lookahead: int = 100) -> None:
        self._lookahead = lookahead

    def decide(self, context: Context) -> Iterator[Action]:
        """Yield starts, the best first, until no pending job may start."""
        while context.view.queued and context.view.free_threads and (yield from self._pass(context)):
            pass

    def _pass(self, context: Context) -> Generator[Action, None, bool]:
        """Yield the start of one job; tell whether there was one."""
        view = context.view
        placement = cast(Halves, context.placement)  # it provides HALVES: the composition requires that
        queue = context.order.arrange(view.queue, view)
        now = snapshot_now(view)
        there = placement.sides(view).open_nodes(now)
        candidates = self._candidates(queue, there, placement, view)
        first = [each for each in candidates if not each.rank]
        if first or not candidates:
            refused = next((job for job in queue if placement.never(job, view)), None) if not candidates else None
            if refused is not None:
                yield rejection(refused, view)
                return True
            return (yield from self._start(first, UNRESERVED, there, context))
        head = queue[0]
        if placement.never(head, view):
            yield rejection(head, view)
            return True
        placer = _Head(placement)
        offer = placement.earliest(head, view)
        if offer is None:  # nodes are out of service: nothing can be reserved
            return (yield from self._start(candidates, UNRESERVED, there, context))
        view.tell("reserve", job=head.id, shadow_us=view.wall_us(offer.start_us))
        reservation = PlacedReservation(view, offer, placer, shortens=True)
        return (yield from self._start(candidates, reservation, there, context, placer))

    def _start(
        self, candidates: list[_Candidate], gate: Gate, there: OpenNodes, context: Context, placer: _Head | None = None
    ) -> Generator[Action, None, bool]:
        """Yield the start of the first candidate that the gate admits; tell whether there was one."""
        view = context.view
        placement = cast(Halves, context.placement)
        for candidate in sorted(candidates, key=_order):
            place = candidate.place
            offer = placement.write_out(place, there, snapshot_now(view))
            if placer is not None:
                placer.planned = [offer]
            view.explain(place.job.id, gain=place.gain, compared=len(candidates))
            seat = context.matching.seat(offer, context.over(PendingJobs([place.job])), gate)
            if seat is not None:
                yield from take_seat(seat, "backfill" if candidate.rank else "order", view)
                return True
        return False

    def _candidates(self, queue: list[JobSpec], there: OpenNodes, placement: Halves, view: View) -> list[_Candidate]:
        """Return the first job of each kind that has a place now."""
        kinds: dict[object, tuple[int, JobSpec]] = {}
        others: dict[object, JobSpec] = {}  # a second one of the kind: its partner may be of its own kind
        rank = 0
        before = queue[0]
        for job in queue:
            rank += job.processes != before.processes
            before = job
            kind = _kind(job)
            if kind not in kinds:
                if len(kinds) == self._lookahead or not view.work.pay(prices.CANDIDATE):
                    break
                kinds[kind] = (rank, job)
            else:
                others.setdefault(kind, job)
        pending = [*[job for _, job in kinds.values()], *others.values()]
        empty = there.empty.bit_count()
        found = []
        for rank, job in kinds.values():
            partner = placement.partner(job, pending, view) if placement.may_spread_on(job, empty, view) else None
            place = placement.best(job, there, view, partner)
            if place is not None:
                found.append(_Candidate(rank, place))
        return found


def _order(candidate: _Candidate) -> tuple[int, float]:
    return candidate.rank, -candidate.place.gain


def _kind(job: JobSpec) -> object:
    """Return what jobs of one kind have in common; a job without a name is of its own kind."""
    return job._replace(id=0, submit_us=0) if job.name else job.id
