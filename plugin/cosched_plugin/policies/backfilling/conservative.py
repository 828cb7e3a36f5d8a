"""Conservative backfilling: every job gets a start promised at submission, and none is moved later, but for company.

Mu'alem and Feitelson 2001, with compression: at every pass the promises whose time has come start; then, sweep after sweep, each
waiting job in queue order is lifted and put at its earliest start given all others, until a sweep changes nothing; new jobs get
their promise last. Promises are notes with the manager, so a restarted scheduler keeps them.

Matching may start jobs together that gain by it: the first of the queue and its company before anybody's promise, others where that
breaks no promise. Under time slices promises are in the class's own time, and are made once its jobs may start somewhere.

A promise rests on estimates: when a running job outlives its own, or a node fails, promises that have become impossible are made
anew, in queue order. Where work is limited, promises that could be better stay as they are for now, and jobs at the end of a long
queue may have none yet: they wait.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Generator, Iterator
from typing import ClassVar

from cosched_plugin.api import Action, JobSpec, NoteValue, RejectJob, SetNote, View, WakeAt, WholeNodesView, is_plain
from cosched_plugin.policies.backfilling.reservation_table import NOTE, ReservationTable
from cosched_plugin.policies.placement.spread import Spread
from cosched_plugin.policies.planning.parts import Matching, Order, Placement
from cosched_plugin.policies.planning.pending import PendingJobs
from cosched_plugin.policies.planning.placed_profile import PlacedProfile
from cosched_plugin.policies.planning.profile import CountProfile, NodeProfile, Profile, Promise, start_of
from cosched_plugin.policies.planning.seats import UNRESERVED, Seat
from cosched_plugin.policies.planning.starting import NEVER


class Conservative:
    """A reservation for every job."""

    name: ClassVar[str] = "conservative"

    def __init__(self) -> None:
        self._last: ReservationTable | None = None  # a cache: what the last pass left behind, as the notes tell it

    def decide(self, view: View, order: Order, placement: Placement, matching: Matching) -> Iterator[Action]:
        """Yield the starts that are due or possible, then the promises that are new or better."""
        while view.queued and (yield from self._pass(view, order, placement, matching)):
            pass

    def _pass(
        self, view: View, order: Order, placement: Placement, matching: Matching
    ) -> Generator[Action, None, bool]:
        """Yield what one look at the queue finds; tell whether another look may find more.

        That is so where something was started that nobody had planned, or where a job that waits might join those that were started.
        """
        pending = order.arrange(view.queue, view)
        queued = len(pending)
        last, self._last = self._last, None
        table = _table_of(pending, view, placement, last)
        if not (yield from _start_due(view, table, matching, join=False)):
            return True
        table.compress(view)
        table.promise(view)
        if not (yield from _start_due(view, table, matching, join=True)):
            return True
        for job in table.pending if table.before else ():
            if job.id not in table.before:
                continue
            before, promise = table.before[job.id], table.promises.get(job.id)
            if promise != before:
                if view.trace is not None and (promise is None or _is_news(promise, before)):
                    view.trace.tell("promise", job=job.id, start_us=promise and view.wall_us(start_of(promise)))
                yield SetNote(job.id, NOTE, promise)
        again_us = table.unfinished_us(view.now_us) if view.work.limited else None
        if again_us is not None and view.wall_us(again_us) not in view.wakes():
            yield WakeAt(view.wall_us(again_us))
        self._last = table
        return len(table.pending) < queued and not matching.settled


def _table_of(
    pending: list[JobSpec], view: View, placement: Placement, last: ReservationTable | None
) -> ReservationTable:
    """Return the promises made so far, those that cannot be kept made anew; ``last``: what the last pass left behind."""
    kind = _kind(pending, view, placement, last)
    if last is not None and type(last.profile) is kind and last.follow(pending, _profile(kind, view, placement), view):
        return last
    table = ReservationTable(_profile(kind, view, placement), _profile(kind, view, placement), pending)
    table.restore(view)
    return table


def _kind(pending: list[JobSpec], view: View, placement: Placement, last: ReservationTable | None) -> type[Profile]:
    """Return the simplest kind of profile that is exact."""
    if isinstance(placement, Spread):
        return NodeProfile
    jobs = pending
    if last is not None and type(last.profile) is CountProfile and pending[: len(last.pending)] == last.pending:
        jobs = pending[len(last.pending) :]  # of the others it is known, and those that run have been among them
    elif not all(is_plain(job.job) for job in view.running.values()):
        return PlacedProfile
    return CountProfile if all(map(is_plain, jobs)) else PlacedProfile


def _profile(kind: type[Profile], view: View, placement: Placement) -> Profile:
    """Return what running jobs leave free over time."""
    if isinstance(placement, Spread):
        assert isinstance(view, WholeNodesView)
        return NodeProfile(view, placement)
    return CountProfile(view, placement) if kind is CountProfile else PlacedProfile(view, placement)


def _is_news(promise: Promise, before: NoteValue) -> bool:
    """Tell whether a promise is the first, or later than the one before, which could not be kept."""
    return not isinstance(before, tuple) or start_of(promise) > start_of(before)


def _start_due(view: View, table: ReservationTable, matching: Matching, *, join: bool) -> Generator[Action, None, bool]:
    """Yield the starts of the jobs whose time has come. What started keeps its place in the profile.

    Returns False if a start was not as planned: with company, or of a job that is first in the queue and joins others that run,
    which is sought where ``join`` says so.
    """
    pending = table.pending
    places = table.due(view.now_us)
    if join:
        head = next((number for number, place in enumerate(places) if place != number), len(places))
        if head < len(pending):
            insort(places, head)
    started: list[int] = []
    for place in places:
        job = pending[place]
        promise = table.promises.get(job.id)
        offer = None
        if promise is not None and start_of(promise) == view.now_us:
            offer = table.profile.offer(job, promise)
        first = place == len(started)
        gate = UNRESERVED if first else table
        seat: Seat | None = None
        if offer is not None:
            # A matching that is settled looks at nobody else, and the queue may be long.
            gone = set(started)
            queue = [job] if matching.settled else [other for at, other in enumerate(pending) if at not in gone]
            seat = matching.seat(offer, PendingJobs(queue), view, gate)
        elif first and join:
            if promise is None and table.profile.never(job):
                yield RejectJob(job.id, NEVER.format(job.processes))
                return False
            seat = matching.join(job, PendingJobs(pending[place:]), view, gate)
        if seat is None:
            continue
        for job_id in seat.job_ids:
            note = view.note(job_id, NOTE)
            if view.trace is not None:
                _explain(job_id, note, view, due=seat is offer)
            if note is not None:
                yield SetNote(job_id, NOTE, None)  # kept; should the job come back, it has no claim to an old one
        yield from seat.decisions
        if seat is not offer:
            return False
        started.append(place)
    if started:
        table.leave(started)
    return True


def _explain(job_id: int, note: NoteValue, view: View, *, due: bool) -> None:
    """Tell a trace why a job starts: its time has come (``due``), or it is in company that has come before its time."""
    assert view.trace is not None
    promised_us = start_of(note) if isinstance(note, tuple) else view.now_us
    reason = "promise" if due or promised_us == view.now_us else "company"
    view.trace.explain(job_id, reason=reason, waiting=view.queued, promised_us=view.wall_us(promised_us))
