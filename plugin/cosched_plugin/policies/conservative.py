"""Conservative backfilling: every job gets a start promised at submission, and none is moved later, but for company.

Mu'alem and Feitelson 2001, with compression: at every pass the promises whose time has come start; then, sweep after sweep, each
waiting job in queue order is lifted and put at its earliest start given all others, until a sweep changes nothing; new jobs get
their promise last. Promises are notes with the manager, so a restarted scheduler keeps them.

Matching may start jobs together that gain by it: the first of the queue and its company before anybody's promise, others where that
breaks no promise. Under time slices promises are in the class's own time, and are made once its jobs may start somewhere.

A promise rests on estimates: when a running job outlives its own, or a node fails, promises that have become impossible are made
anew, in queue order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import ClassVar

from cosched_plugin.api import Action, JobSpec, Layers, NoteValue, RejectJob, SetNote, View, WholeNodesView, is_plain
from cosched_plugin.policies.easy import NEVER
from cosched_plugin.policies.matching import Matching
from cosched_plugin.policies.offers import Offer, Seat
from cosched_plugin.policies.orders import Order
from cosched_plugin.policies.placements import Placement
from cosched_plugin.policies.profile import CountProfile, NodeProfile, PlacedProfile, Profile, Promise, start_of
from cosched_plugin.policies.reservation import Unreserved
from cosched_plugin.policies.spread import Spread
from cosched_plugin.policies.waiting import Waiting

NOTE = "promise"
_UNRESERVED = Unreserved()


class Conservative:
    """A reservation for every job."""

    name: ClassVar[str] = "conservative"

    def __init__(self) -> None:
        self._last: _Book | None = None  # a cache: what the last pass left behind

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
        last, self._last = self._last, None
        waiting = order.arrange(view.queue, view)
        queued = len(waiting)
        kept = {job.id: note for job in waiting if isinstance(note := view.note(job.id, NOTE), tuple)}
        if last is not None and last.as_planned(view, waiting, kept):
            # Nothing has ended early, so compression, which the last pass has done, would move nothing.
            book = last
        else:
            book = _Book(_profile(waiting, view, placement))
            for job in waiting:
                if job.id in kept:
                    book.keep(job, kept[job.id])
            left = yield from _start_due(waiting, view, book, matching, join=False)
            if left is None:
                return True
            waiting = left
            while book.compress(waiting):
                pass
        for job in waiting:
            if job.id not in kept:
                book.promise(job)
        left = yield from _start_due(waiting, view, book, matching, join=True)
        if left is None:
            return True
        for job in left:
            promise = book.promises.get(job.id)
            if promise != kept.get(job.id):
                if view.trace is not None and (promise is None or _is_news(promise, kept.get(job.id))):
                    view.trace.tell("promise", job=job.id, start_us=promise and view.wall_us(start_of(promise)))
                yield SetNote(job.id, NOTE, promise)
        book.ends_us = {job_id: running.end_us for job_id, running in view.running.items()}
        book.in_service = view.in_service
        self._last = book
        return len(left) < queued and not matching.settled


def _profile(waiting: Sequence[JobSpec], view: View, placement: Placement) -> Profile:
    """Return what is free over time, in the simplest form that is exact."""
    if isinstance(placement, Spread):
        assert isinstance(view, WholeNodesView)
        return NodeProfile(view, placement)
    simple = all(is_plain(job) for job in waiting) and all(is_plain(job.job) for job in view.running.values())
    return CountProfile(view, placement) if simple else PlacedProfile(view, placement)


class _Book:
    """The promises made so far, and the profile that they leave; the gate for those who are to start besides."""

    __slots__ = ("ends_us", "in_service", "jobs", "profile", "promises")

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.promises: dict[int, Promise] = {}
        self.jobs: dict[int, JobSpec] = {}  # that have a promise, or had one
        self.ends_us: dict[int, int] = {}  # of the jobs that ran when the pass was over
        self.in_service: Layers = ()

    def as_planned(self, view: View, waiting: list[JobSpec], kept: Mapping[int, Promise]) -> bool:
        """Tell whether all that has happened since was planned: jobs ended on time, and new ones came. Goes on to now if so."""
        profile = self.profile
        if type(profile) is not CountProfile or self.promises != kept or self.in_service != view.in_service:
            return False
        if not all(is_plain(job) for job in waiting if job.id not in kept):
            return False
        if any(start_of(promise) < view.now_us for promise in kept.values()):
            return False
        ends_us = self.ends_us
        for job_id, running in view.running.items():
            if ends_us.get(job_id) != running.end_us or running.end_us <= view.now_us:
                return False
        if any(end_us > view.now_us for job_id, end_us in ends_us.items() if job_id not in view.running):
            return False
        profile.advance()
        return True

    def keep(self, job: JobSpec, promise: Promise) -> None:
        """Enter a promise made before; where it cannot be kept, a new one."""
        if self.profile.fits(job, promise):
            self.profile.reserve(job, promise)
            self.promises[job.id] = promise
            self.jobs[job.id] = job
        else:
            self.promise(job)

    def promise(self, job: JobSpec) -> None:
        """Promise the earliest start there is; none to a job that the nodes in service cannot hold."""
        promise = self.profile.earliest(job)
        if promise is not None:
            self.profile.reserve(job, promise)
            self.promises[job.id] = promise
            self.jobs[job.id] = job

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:  # noqa: ARG002 - part of Gate
        """Tell that only a closer look will say."""
        return True

    def admit(self, seat: Seat) -> bool:
        """Tell whether ``seat`` breaks none of the promises made to others than those who start."""
        if isinstance(seat, Offer):
            return (
                True  # it is what the job was promised, or takes more nodes while there are enough for all (low load)
            )
        assert isinstance(self.profile, NodeProfile)
        jobs = [(self.jobs[job_id], self.promises[job_id]) for job_id in seat.job_ids if job_id in self.promises]
        for job, promise in jobs:
            self.profile.lift(job, promise)
        admitted = self.profile.admits(seat.stays)
        for job, promise in jobs:
            self.profile.reserve(job, promise)
        return admitted

    def compress(self, waiting: list[JobSpec]) -> bool:
        """Put every job at its earliest start given all others; tell whether any moved."""
        moved = False
        for job in waiting:
            old = self.promises.get(job.id)
            if old is None:
                continue
            self.profile.lift(job, old)
            new = self.profile.earliest(job)
            if new is None or start_of(new) >= start_of(old):
                new = old
            self.profile.reserve(job, new)
            self.promises[job.id] = new
            moved = moved or new is not old
        return moved


def _is_news(promise: Promise, before: Promise | None) -> bool:
    """Tell whether a promise is the first, or later than the one before, which could not be kept."""
    return before is None or start_of(promise) > start_of(before)


def _start_due(
    waiting: list[JobSpec], view: View, book: _Book, matching: Matching, *, join: bool
) -> Generator[Action, None, list[JobSpec] | None]:
    """Yield the starts of the jobs whose time has come; return the others. What started keeps its place in the profile.

    Returns None if a start was not as planned: with company, or of a job that is first in the queue and joins others that run,
    which is sought where ``join`` says so.
    """
    left: list[JobSpec] = []
    for index, job in enumerate(waiting):
        promise = book.promises.get(job.id)
        offer = None
        if promise is not None and start_of(promise) == view.now_us:
            offer = book.profile.offer(job, promise)
        first = not left
        gate = _UNRESERVED if first else book
        seat: Seat | None = None
        if offer is not None:
            # A matching that is settled looks at nobody else, and the queue may be long.
            queue = [job] if matching.settled else [*left, *waiting[index:]]
            seat = matching.seat(offer, Waiting(queue), view, gate)
        elif first and join:
            if promise is None and book.profile.never(job):
                yield RejectJob(job.id, NEVER.format(job.processes))
                return None
            seat = matching.join(job, Waiting(waiting[index:]), view, gate)
        if seat is None:
            left.append(job)
            continue
        for job_id in seat.job_ids:
            promise = book.promises.pop(job_id, None)
            note = view.note(job_id, NOTE)
            if view.trace is not None:
                _explain(job_id, note, view, due=seat is offer)
            if note is not None:
                yield SetNote(job_id, NOTE, None)  # kept; should the job come back, it has no claim to an old one
        yield from seat.decisions
        if seat is not offer:
            return None
    return left


def _explain(job_id: int, note: NoteValue, view: View, *, due: bool) -> None:
    """Tell a trace why a job starts: its time has come (``due``), or it is in company that has come before its time."""
    assert view.trace is not None
    promised_us = start_of(note) if isinstance(note, tuple) else view.now_us
    reason = "promise" if due or promised_us == view.now_us else "company"
    view.trace.explain(job_id, reason=reason, waiting=view.queued, promised_us=view.wall_us(promised_us))
