"""Conservative backfilling: every job gets a start promised at submission, and none is ever moved later.

Mu'alem and Feitelson 2001, with compression: at every pass the promises whose time has come start; then, sweep after sweep, each
waiting job in queue order is lifted and put at its earliest start given all others, until a sweep changes nothing; new jobs get
their promise last. Promises are notes with the manager, so a restarted scheduler keeps them.

A promise rests on estimates: when a running job outlives its own, or a node fails, promises that have become impossible are made
anew, in queue order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import ClassVar

from cosched_plugin.api import Action, JobSpec, Layers, SetNote, View, is_plain
from cosched_plugin.policies.matching import Matching
from cosched_plugin.policies.orders import Order
from cosched_plugin.policies.placements import Placement
from cosched_plugin.policies.profile import CountProfile, PlacedProfile, Profile, Promise, start_of

NOTE = "promise"


class Conservative:
    """A reservation for every job."""

    name: ClassVar[str] = "conservative"

    def __init__(self) -> None:
        self._last: _Book | None = None  # a cache: what the last pass left behind

    def decide(self, view: View, order: Order, placement: Placement, matching: Matching) -> Iterator[Action]:  # noqa: ARG002 - none
        """Yield the starts that are due or possible, then the promises that are new or better."""
        last, self._last = self._last, None
        if not view.queued:
            return
        waiting = order.arrange(view.queue, view)
        kept = {job.id: note for job in waiting if isinstance(note := view.note(job.id, NOTE), tuple)}
        if last is not None and last.as_planned(view, waiting, kept):
            # Nothing has ended early, so compression, which the last pass has done, would move nothing.
            book = last
        else:
            simple = all(is_plain(job) for job in waiting) and all(is_plain(job.job) for job in view.running.values())
            book = _Book(CountProfile(view, placement) if simple else PlacedProfile(view, placement))
            for job in waiting:
                if job.id in kept:
                    book.keep(job, kept[job.id])
            waiting = yield from _start_due(waiting, view, book)
            while book.compress(waiting):
                pass
        for job in waiting:
            if job.id not in kept:
                book.promise(job)
        for job in (yield from _start_due(waiting, view, book)):
            promise = book.promises.get(job.id)
            if promise != kept.get(job.id):
                if view.trace is not None and (promise is None or _is_news(promise, kept.get(job.id))):
                    view.trace.tell("promise", job=job.id, start_us=promise and start_of(promise))
                yield SetNote(job.id, NOTE, promise)
        book.ends_us = {job_id: running.end_us for job_id, running in view.running.items()}
        book.in_service = view.in_service
        self._last = book


class _Book:
    """The promises made so far, and the profile that they leave."""

    __slots__ = ("ends_us", "in_service", "profile", "promises")

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.promises: dict[int, Promise] = {}
        self.ends_us: dict[int, int] = {}  # of the jobs that ran when the pass was over
        self.in_service: Layers = ()

    def as_planned(self, view: View, waiting: list[JobSpec], kept: Mapping[int, Promise]) -> bool:
        """Tell whether all that has happened since was planned: jobs ended on time, and new ones came. Goes on to now if so."""
        profile = self.profile
        if not isinstance(profile, CountProfile) or self.promises != kept or self.in_service != view.in_service:
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
        else:
            self.promise(job)

    def promise(self, job: JobSpec) -> None:
        """Promise the earliest start there is; none to a job that the nodes in service cannot hold."""
        promise = self.profile.earliest(job)
        if promise is not None:
            self.profile.reserve(job, promise)
            self.promises[job.id] = promise

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


def _start_due(waiting: list[JobSpec], view: View, book: _Book) -> Generator[Action, None, list[JobSpec]]:
    """Yield the starts of the jobs whose time has come; return the others. What started keeps its place in the profile."""
    left: list[JobSpec] = []
    for job in waiting:
        promise = book.promises.get(job.id)
        offer = None
        if promise is not None and start_of(promise) == view.now_us:
            offer = book.profile.offer(job, promise)
        if offer is None:
            left.append(job)
        else:
            del book.promises[job.id]
            note = view.note(job.id, NOTE)
            if view.trace is not None:
                promised_us = start_of(note) if isinstance(note, tuple) else view.now_us
                view.trace.explain(job.id, reason="promise", waiting=view.queued, promised_us=promised_us)
            if note is not None:
                yield SetNote(job.id, NOTE, None)  # kept; should the job come back, it has no claim to an old one
            yield offer.start()
    return left
