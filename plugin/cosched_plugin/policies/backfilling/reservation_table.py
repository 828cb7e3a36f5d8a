"""The promises that conservative backfilling has made, and how they are made better when something is free before its time.

Promises and the profile that they leave are kept from one pass to the next. Compression lifts, sweep after sweep, each job in queue
order and puts it at its earliest start given all others, until a sweep changes nothing. To lift a job that cannot move changes
nothing, so only those have a turn that can. Once none can move, one can only move again by room that includes something that has
become free since: by a job that ended early, or by one that has moved. All who can move by that are sought whenever it happens, and
have their turn in the same sweep if they stand further behind, else in the next: the same turns, in the same order.

Where work is limited, turns are paid for and compression may be cut; it then begins anew in the next pass, at the head of the queue.
What is paid for is what follows from the promises and the running jobs: a turn of a job that can move, a first promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cosched_plugin.api import (
    Ints,
    JobSpec,
    NoteValue,
    Seat,
    View,
    prices,
)
from cosched_plugin.policies.planning.profile import Profile, Promise, Promises, start_of
from cosched_plugin.policies.planning.timeline import Change

NOTE: Final = "promise"
FEW: Final = 32  # so many are looked at together where the work is limited
# A change of more steps is not looked at step by step.
MANY_STEPS: Final = 64
_UNPROMISED: Final = -1  # in place of a start


class ReservationTable:
    """The promises made so far, and the profile that they leave; the gate for those who are to start besides."""

    __slots__ = (
        "_freed", "_needs", "_restless", "_running", "_spans_us", "_starts_us", "_unfinished", "_unsure",
        "before", "jobs", "pending", "profile", "promises",
    )  # fmt: skip

    def __init__(self, profile: Profile, running: Profile, pending: list[JobSpec]) -> None:
        """``profile`` and ``running``: what running jobs leave free; the first is to be planned with, the second stays so."""
        self.profile = profile
        self._running = running
        self.pending = pending
        self.promises: dict[int, Promise] = {}
        self.jobs: dict[int, JobSpec] = {}  # that have a promise
        self.before: dict[int, NoteValue] = {}  # what notes tell of those who have got another promise in this pass
        # By place in the queue.
        self._needs: Ints = np.zeros(len(pending), np.int64)
        self._spans_us: Ints = np.zeros(len(pending), np.int64)
        self._starts_us: Ints = np.full(len(pending), _UNPROMISED, np.int64)
        self._unsure = np.zeros(len(pending), bool)  # who can move, for all that is known
        self._restless = np.zeros(
            len(pending), bool
        )  # while promises are compressed: who could move when last looked at
        self._unfinished = False  # whether the work allowed was spent before all had moved, or had a promise
        self._freed: list[Change] = []  # where others might find one

    def restore(self, view: View) -> None:
        """Enter the promises that notes tell of, in queue order; where one cannot be kept, a new one."""
        notes = [
            (place, note)
            for place, job in enumerate(self.pending)
            if isinstance(note := view.note(job.id, NOTE), tuple)
        ]
        if not notes:
            return
        places = [place for place, _ in notes]
        jobs = [self.pending[place] for place in places]
        promises = [note for _, note in notes]
        needs, spans_us = np.array([self.profile.need(job) for job in jobs], np.int64).T
        starts_us = np.array([start_of(promise) for promise in promises], np.int64)
        past = Promises(jobs, promises, needs, spans_us, starts_us)
        self._needs[places] = needs
        self._spans_us[places] = spans_us
        self._starts_us[places] = starts_us
        self._unsure[places] = True
        self.promises = {job.id: promise for job, promise in zip(jobs, promises, strict=True)}
        self.jobs = {job.id: job for job in jobs}
        done = 0
        while (done := self.profile.reserve_all(past, done)) < len(jobs):
            self.before[jobs[done].id] = promises[done]
            self._forget(places[done])
            self._promise(places[done], view)
            done += 1

    def follow(self, pending: list[JobSpec], running: Profile, view: View) -> bool:
        """Go on to now; tell whether all promises can be kept. ``running``: what running jobs leave free now."""
        self.before.clear()
        newcomers = self._arrange(pending, view.now_us)
        changes = self.profile.follow(self._running, running)
        if changes is None or ((self._starts_us < view.now_us) & (self._starts_us != _UNPROMISED)).any():
            return False
        self._running = running
        self._freed += [change for change in changes if change.amount > 0]
        for place in newcomers:
            job = pending[place]
            note = view.note(job.id, NOTE)
            if isinstance(note, tuple):
                if not self.profile.fits(job, note):
                    return False
                self.profile.reserve(job, note)
                self._enter(place, note)
                self._unsure[place] = True
        return True

    def due(self, now_us: int) -> list[int]:
        """Return the places in the queue of the jobs that were promised to start now."""
        found: list[int] = np.flatnonzero(self._starts_us == now_us).tolist()
        return found

    def unfinished_us(self, now_us: int) -> int | None:
        """Return when to look again where the work allowed was not enough: at the first start promised; None where it was.

        While all that can move has moved, something ends at the first start. Else it may be that nothing happens then.
        """
        if not self._unfinished:
            return None
        # Who waits for a job that is over its time has his promise put off by a microsecond at every look.
        later = self._starts_us[self._starts_us > now_us + 1]
        return int(later.min()) if len(later) else now_us + prices.RETRY_US

    def changed(self) -> list[tuple[int, NoteValue, Promise | None]]:
        """Return (job id, what its note tells, promise) of the pending jobs whose promise is another now, in queue order."""
        if not self.before:
            return []
        found = [
            (job.id, self.before[job.id], self.promises.get(job.id)) for job in self.pending if job.id in self.before
        ]
        return [(job_id, before, promise) for job_id, before, promise in found if promise != before]

    def leave(self, places: Sequence[int]) -> None:
        """Forget the jobs at these places, which have been started as promised: they keep what they have of the profile."""
        for place in places:
            job = self.pending[place]
            self._running.reserve(job, self.promises.pop(job.id))
            del self.jobs[job.id]
            self.before.pop(job.id, None)
        occupancy = np.ones(len(self.pending), bool)
        occupancy[places] = False
        self.pending = [job for job, occupancies in zip(self.pending, occupancy.tolist(), strict=True) if occupancies]
        self._needs = self._needs[occupancy]
        self._spans_us = self._spans_us[occupancy]
        self._starts_us = self._starts_us[occupancy]
        self._unsure = self._unsure[occupancy]
        self._restless = np.zeros(len(self.pending), bool)

    def promise(self, view: View) -> None:
        """Promise all who have no promise their earliest start, in queue order; none to a job that the nodes in service cannot hold."""
        for place in np.flatnonzero(self._starts_us == _UNPROMISED).tolist():
            self._promise(place, view)

    def compress(self, view: View) -> None:
        """Put every job at its earliest start given all others, sweep after sweep, until none moves or the work allowed is done."""
        number = len(self.pending)
        work = view.work
        least = max(0, work.left // prices.COMPRESSION_SHARE)  # the rest is for those who have no promise yet
        restless = self._restless
        since_us = self._find_movable(view, -(-(work.left - least) // prices.TURN.units()) if work.limited else number)
        turns: list[int] = np.flatnonzero(restless).tolist()  # sweep * number + place, a heap
        while turns:
            if work.limited and (work.left <= least or not work.pay(prices.TURN)):
                break
            turn = heappop(turns)
            place = turn % number
            restless[place] = False
            job = self.pending[place]
            old = self.promises[job.id]
            new = self.profile.sooner(job, old, int(since_us[place]))
            if new is None:
                continue
            self.profile.lift(job, old)
            self.profile.reserve(job, new)
            self.before.setdefault(job.id, old)
            self._enter(place, new)
            for other in self._stir(Change(*self.profile.span_freed_by(job, old, new), 0), since_us):
                # Who stands further behind has his turn in this sweep, others in the next.
                heappush(turns, turn - place + other + (0 if other > place else number))
        self._unsure |= restless
        restless[:] = False
        self._unfinished = work.limited and work.left <= least

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Tell that only a closer look will say."""
        return True

    def admit(self, seat: Seat) -> bool:
        """Tell whether ``seat`` breaks none of the promises made to others than those who start."""
        if seat.sole is not None:
            return (
                True  # it is what the job was promised, or takes more nodes while there are enough for all (low load)
            )
        jobs = [(self.jobs[job_id], self.promises[job_id]) for job_id in seat.job_ids if job_id in self.promises]
        for job, promise in jobs:
            self.profile.lift(job, promise)
        admitted = self.profile.admits(seat.occupancies)
        for job, promise in jobs:
            self.profile.reserve(job, promise)
        return admitted

    def _find_movable(self, view: View, looks: int) -> Ints:
        """Find out who can move, of those of whom it is not sure and by what was freed; of so many as can be looked at.

        Returns from when on there is room, by place. What is looked at later must not depend on how this was found out: whoever can
        move is found, down to the place in the queue that one look at each leads to.
        """
        since_us = self._starts_us.copy()
        for change in self._freed:
            self._stir(change, since_us)
        self._freed.clear()
        unsure = np.flatnonzero(self._unsure & ~self._restless)
        size = FEW if view.work.limited else len(unsure)
        found = 0
        while len(unsure) and found < looks:
            places, unsure = unsure[:size], unsure[size:]
            self._unsure[places] = False
            found += len(self._stir_all(places[self._starts_us[places] > view.now_us], since_us))
            size *= 2
        if view.work.limited and not self.profile.counts:
            self._check(looks, since_us)
        return since_us

    def _check(self, looks: int, since_us: Ints) -> None:
        """Have only those be restless who can move indeed; of who comes behind so many of them, it is not sure."""
        found = 0
        for place in np.flatnonzero(self._restless).tolist():
            job = self.pending[place]
            if found >= looks:
                self._unsure[place] = True
            elif self.profile.sooner(job, self.promises[job.id], int(since_us[place])) is not None:
                found += 1
                continue
            self._restless[place] = False

    def _stir(self, change: Change, since_us: Ints) -> list[int]:
        """Have those be restless who can move by what was freed there, going by numbers; return who was not before.

        ``since_us``: from when on there is room, by place; to be brought up to date.
        """
        timeline = self.profile.timeline
        if self.profile.counts:
            most = timeline.most(change.start_us, change.end_us)
            places = np.flatnonzero((self._needs <= most) & (self._starts_us > change.start_us))
        else:
            # On other threads what lies beyond a job's own start matters, too: up to his end he has some, but perhaps not those.
            meets = self._starts_us + self._spans_us > change.start_us
            places = np.flatnonzero(meets & (self._starts_us > timeline.times[0]))
        known = self._restless[places]
        restless = places[known]
        if len(restless):
            # What begins so late at least as to meet the change.
            meeting_us = np.maximum(change.start_us - self._spans_us[restless], timeline.times[0])
            since_us[restless] = np.minimum(since_us[restless], meeting_us)
            places = places[~known]
        if not len(places):
            return []
        if not self.profile.counts or timeline.steps_in(change) > MANY_STEPS:
            return self._stir_all(places, since_us)
        starts_us = self._starts_us[places]
        soonest_us = timeline.soonest_by(change, self._needs[places], self._spans_us[places], starts_us)
        return self._wake(places, soonest_us, since_us)

    def _stir_all(self, places: NDArray[np.intp], since_us: Ints) -> list[int]:
        """Do the same with these, wherever there may be room for them."""
        needs = self._needs[places]
        found: list[int] = []
        for need in np.unique(needs).tolist():
            those = places[needs == need]
            soonest_us = self.profile.timeline.soonest(need, self._spans_us[those], self._starts_us[those])
            found += self._wake(those, soonest_us, since_us)
        return found

    def _wake(self, places: NDArray[np.intp], soonest_us: Ints, since_us: Ints) -> list[int]:
        moving = soonest_us < self._starts_us[places]
        those = places[moving]
        since_us[those] = soonest_us[moving]
        self._restless[those] = True
        self._unsure[those] = False
        found: list[int] = those.tolist()
        return found

    def _promise(self, place: int, view: View) -> None:
        """Promise the earliest start there is; none to a job that the nodes in service cannot hold."""
        work = view.work
        if work.spent:
            self._unfinished = True
            return
        job = self.pending[place]
        promise = self.profile.earliest(job)
        if promise is not None:  # who cannot be held takes no work from those behind: he would at every pass
            work.pay(prices.PROMISE)
            self.profile.reserve(job, promise)
            self.before.setdefault(job.id, view.note(job.id, NOTE))
            self._enter(place, promise)

    def _enter(self, place: int, promise: Promise) -> None:
        """Write a promise down."""
        job = self.pending[place]
        self.promises[job.id] = promise
        self.jobs[job.id] = job
        self._needs[place], self._spans_us[place] = self.profile.need(job)
        self._starts_us[place] = start_of(promise)

    def _forget(self, place: int) -> None:
        job = self.pending[place]
        del self.promises[job.id], self.jobs[job.id]
        self._starts_us[place] = _UNPROMISED
        self._unsure[place] = False

    def _arrange(self, pending: list[JobSpec], now_us: int) -> Sequence[int]:
        """Take the queue as it is now; return the places of those who were not in it. Who has left it gives back what he had."""
        old = self.pending
        self.pending = pending
        if pending[: len(old)] == old:
            added = len(pending) - len(old)
            if added:
                nobody = np.zeros(added, np.int64)
                self._needs = np.append(self._needs, nobody)
                self._spans_us = np.append(self._spans_us, nobody)
                self._starts_us = np.append(self._starts_us, nobody + _UNPROMISED)
                self._unsure = np.append(self._unsure, nobody != 0)
                self._restless = np.zeros(len(pending), bool)
            return range(len(old), len(pending))
        places = {job.id: place for place, job in enumerate(old)}
        came_from = np.array([places.pop(job.id, -1) for job in pending], np.int64)
        for job_id, place in places.items():
            promise = self.promises.get(job_id)
            if promise is not None:
                self.profile.lift(old[place], promise)
                end_us = start_of(promise) + int(self._spans_us[place])
                if end_us > now_us:
                    self._freed.append(Change(max(start_of(promise), now_us), end_us, 0))
                del self.promises[job_id], self.jobs[job_id]
        there = came_from >= 0
        self._needs = np.where(there, self._needs[came_from], 0)
        self._spans_us = np.where(there, self._spans_us[came_from], 0)
        self._starts_us = np.where(there, self._starts_us[came_from], _UNPROMISED)
        self._unsure = there & self._unsure[came_from]
        self._restless = np.zeros(len(pending), bool)
        newcomers: list[int] = np.flatnonzero(~there).tolist()
        return newcomers
