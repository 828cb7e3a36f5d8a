"""The promises that conservative backfilling has made, and their compression when something becomes free early.

Promises and the profile that they leave are kept from one pass to the next. Compression lifts, sweep after sweep, each job in queue
order and puts it at its earliest start given all others, until a sweep changes nothing. Only jobs that can start sooner have a turn
(`compression`). When a job has moved, jobs that can move into its former place have their turn in the same sweep if they stand
further behind, else in the next one: the same turns, in the same order, as if every job had one in every sweep.

Where work is limited, turns are paid for and compression may be cut; it then begins anew in the next pass, at the head of the queue.
Payments follow from the promises and the running jobs: a turn of a job that can move, a first promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

import numpy as np

from cosched_plugin.api import JobSpec, NoteValue, Seat, View, prices
from cosched_plugin.policies.backfilling.compression import CountedJobs, MovableJobs, QueueColumns, TurnBudget
from cosched_plugin.policies.planning.profile import Profile, Promise, Promises, start_of
from cosched_plugin.policies.planning.timeline import Change

NOTE: Final = "promise"


# A pass must call, in this order: `follow` (or `restore`, from the notes alone), `due`, `compress`, `promise`, `due`, `changed`. Jobs
# with a promise move before new ones get theirs, so nobody is overtaken by a later arrival; what was freed since the last
# `compress` is in `_freed`. Where `follow` returns False the table is void, and the pass makes another one from the notes: a
# scheduler that was restarted has nothing else, and must decide alike.
class ReservationTable:
    """The promises made so far, and the profile that they leave; the gate for other starts."""

    __slots__ = (
        "_columns",
        "_freed",
        "_running",
        "_unfinished",
        "before",
        "cut",
        "jobs",
        "pending",
        "profile",
        "promises",
    )

    def __init__(self, profile: Profile, running: Profile, pending: list[JobSpec]) -> None:
        """``profile`` and ``running``: what running jobs leave free; plans change the first, the second stays as it is."""
        self.profile = profile
        self._running = running
        self.pending = pending
        self.promises: dict[int, Promise] = {}
        self.jobs: dict[int, JobSpec] = {}  # jobs that have a promise
        self.before: dict[int, NoteValue] = {}  # the notes of jobs that have got another promise in this pass
        self._columns = QueueColumns(len(pending))
        self.cut = False  # the work allowed was spent before every job that could had moved
        self._unfinished = False  # the same, or before every job had a promise
        self._freed: list[Change] = []  # what has become free since the last compression

    def restore(self, view: View) -> None:
        """Enter the promises in notes, in queue order; where one cannot be kept, a new one."""
        noted = [
            (place, note)
            for place, job in enumerate(self.pending)
            if isinstance(note := view.note(job.id, NOTE), tuple)
        ]
        if not noted:
            return
        places = [place for place, _ in noted]
        past = self._past([self.pending[place] for place in places], [promise for _, promise in noted])
        self._columns.enter_all(places, past.needs, past.spans_us, past.starts_us)
        self.jobs = {job.id: job for job in past.jobs}
        self.promises = dict(zip(self.jobs, past.promises, strict=True))
        done = 0
        while (done := self.profile.reserve_all(past, done)) < len(places):
            self._break_promise(places[done])
            self._promise(places[done], view)
            done += 1

    def follow(self, pending: list[JobSpec], running: Profile, view: View) -> bool:
        """Advance to the present; tell whether all promises can be kept. ``running``: what running jobs leave free now."""
        self.before.clear()
        new = self._take_queue(pending, view.now_us)
        changes = self.profile.follow(self._running, running)
        if changes is None or self._columns.any_before(view.now_us):
            return False
        self._running = running
        self._freed += [change for change in changes if change.amount > 0]
        return self._restore_new(new, view)

    def due(self, now_us: int) -> list[int]:
        """Return the places in the queue of the jobs that were promised to start now."""
        return self._columns.due(now_us)

    def unfinished_us(self, now_us: int) -> int | None:
        """Return when to continue where the work allowed was not enough: at the first promised start; None where it was enough.

        Where every job that can move has moved, a running job ends at the first start. Otherwise it may be that nothing happens then.
        """
        if not self._unfinished:
            return None
        first_us = self.next_start_us(now_us)
        return now_us + prices.RETRY_US if first_us is None else first_us

    def next_start_us(self, now_us: int) -> int | None:
        """Return the first later instant that is promised to a job; None if there is none."""
        # The promise of a job that waits for an overdue one moves by a microsecond at every pass.
        return self._columns.first_after(now_us + 1)

    def changed(self) -> list[tuple[int, NoteValue, Promise | None]]:
        """Return (job id, noted promise, promise) of the pending jobs whose promise has changed, in queue order."""
        before, promises = self.before, self.promises
        if not before:
            return []
        if len(before) == 1:  # as after most events, and the queue may be long
            ((only, noted),) = before.items()
            promise = promises.get(only)
            return [(only, noted, promise)] if promise != noted and self._is_pending(only) else []
        found = [job.id for job in self.pending if job.id in before]
        return [
            (job_id, before[job_id], promises.get(job_id)) for job_id in found if promises.get(job_id) != before[job_id]
        ]

    def _is_pending(self, job_id: int) -> bool:
        return job_id in self.jobs or any(job.id == job_id for job in self.pending)

    # Must be called after jobs were started as promised, before anything else is asked: the places of all jobs behind them change.
    def leave(self, places: Sequence[int]) -> None:
        """Forget the jobs at these places, which have been started as promised: they keep their part of the profile."""
        for place in places:
            job = self.pending[place]
            self._running.reserve(job, self.promises.pop(job.id))
            del self.jobs[job.id]
            self.before.pop(job.id, None)
        pending = self.pending.copy()
        for place in reversed(places):  # ascending
            del pending[place]
        self.pending = pending
        self._columns.remove(places)

    def promise(self, view: View) -> None:
        """Promise all jobs without a promise their earliest start, in queue order; none to a job that the nodes cannot hold."""
        for place in self._columns.unpromised():
            self._promise(place, view)

    def compress(self, view: View) -> None:
        """Put every job at its earliest start given all others, sweep after sweep, until none moves or the work allowed is done."""
        number = len(self.pending)
        budget = TurnBudget(view.work)
        movable = self._find_movable(view.now_us, budget.turns)
        turns = movable.places  # sweep * number + place, a heap
        while turns and budget.pay():
            turn = heappop(turns)
            place = turn % number
            for other in movable.turn(place):
                # A job further behind has its turn in this sweep, others in the next.
                heappush(turns, turn - place + other + (0 if other > place else number))
        movable.give_back()
        self.cut = self._unfinished = budget.spent
        for place, start_us in movable.moved.items():
            job_id = self.pending[place].id
            self.before.setdefault(job_id, self.promises[job_id])
            self.promises[job_id] = (start_us,)
        if self.cut:
            self._pull_to_now(view)

    def compress_to_now(self, view: View) -> None:
        """Promise the present to every job that can start now; all other promises stay as they are."""
        self._freed.clear()
        self._unfinished = False
        self.cut = not self._pull_to_now(view) and view.work.limited

    def _pull_to_now(self, view: View) -> bool:
        """Promise the present to each job in queue order, sweep after sweep, until none can start now or the work allowed is done.

        Return whether none can.
        """
        budget = TurnBudget(view.work)
        first = 0
        moved = False
        while True:
            for place in self._columns.startable(self.profile.timeline, first):
                if not budget.pay():
                    return False
                if self._move_to_now(place, view.now_us):
                    first, moved = place + 1, True
                    break  # there is less room now
            else:
                if not moved:
                    return True
                first, moved = 0, False

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Return True: only `admit` decides."""
        return True

    # The promises of the jobs that the seat starts are lifted while it is examined, and must be back when this returns, whatever the
    # answer.
    def admit(self, seat: Seat) -> bool:
        """Tell whether ``seat`` breaks none of the promises made to jobs that it does not start."""
        if seat.sole is not None:
            return True  # it is as promised, or takes more nodes while there are enough for all (low load)
        jobs = [(self.jobs[job_id], self.promises[job_id]) for job_id in seat.job_ids if job_id in self.promises]
        for job, promise in jobs:
            self.profile.lift(job, promise)
        admitted = self.profile.admits(seat.occupancies)
        for job, promise in jobs:
            self.profile.reserve(job, promise)
        return admitted

    def _find_movable(self, now_us: int, turns: int | None) -> MovableJobs:
        """Return the jobs that can start sooner because something has become free, or may be able to for other reasons."""
        kind = CountedJobs if self.profile.counts else MovableJobs
        movable = kind(self._columns, self.profile, self._move_sooner)
        for change in self._freed:
            movable.add_by(change)
        self._freed.clear()
        movable.add_unsure(now_us, turns)
        if (
            turns is not None and not self.profile.counts
        ):  # a turn is paid for: a job that cannot move must not have one
            movable.keep_certain(turns, self._can_move)
        return movable

    def _can_move(self, place: int, since_us: int) -> bool:
        job = self.pending[place]
        return self.profile.sooner(job, self.promises[job.id], since_us) is not None

    def _move_sooner(self, place: int, since_us: int) -> Change | None:
        """Promise a job the first start from ``since_us`` on, if that is sooner; return the room it leaves, None if it stays."""
        job = self.pending[place]
        old = self.promises[job.id]
        new = self.profile.sooner(job, old, since_us)
        if new is None:
            return None
        return self._exchange(place, old, new)

    def _exchange(self, place: int, old: Promise, new: Promise) -> Change:
        """Replace a promise by an earlier one; return where more may be free because of that."""
        job = self.pending[place]
        self.profile.lift(job, old)
        self.profile.reserve(job, new)
        self.before.setdefault(job.id, old)
        self._enter(place, new)
        return Change(start_of(old), start_of(old) + self.profile.need(job)[1], 0)

    def _move_to_now(self, place: int, now_us: int) -> bool:
        job = self.pending[place]
        old = self.promises[job.id]
        new = self.profile.sooner(job, old, now_us)
        if new is None or start_of(new) != now_us:
            return False
        self._freed.append(self._exchange(place, old, new))
        return True

    def _promise(self, place: int, view: View) -> None:
        """Promise the earliest possible start; none to a job that the nodes in service cannot hold."""
        if view.work.spent:
            self._unfinished = True
            return
        job = self.pending[place]
        promise = self.profile.earliest(job)
        if (
            promise is not None
        ):  # a job that cannot be held is not paid for: it would take work from others at every pass
            view.work.pay(prices.PROMISE)
            self.profile.reserve(job, promise)
            self.before.setdefault(job.id, view.note(job.id, NOTE))
            self._enter(place, promise)

    def _past(self, jobs: list[JobSpec], promises: list[Promise]) -> Promises:
        """Return earlier promises, in columns."""
        needs, spans_us = np.array([self.profile.need(job) for job in jobs], np.int64).T
        starts_us = np.array([start_of(promise) for promise in promises], np.int64)
        return Promises(jobs, promises, needs, spans_us, starts_us)

    def _restore_new(self, places: Sequence[int], view: View) -> bool:
        """Enter the noted promises of jobs that are new in the queue; tell whether they can be kept."""
        for place in places:
            job = self.pending[place]
            note = view.note(job.id, NOTE)
            if not isinstance(note, tuple):
                continue
            if not self.profile.fits(job, note):
                return False
            self.profile.reserve(job, note)
            self._enter(place, note)
            self._columns.unsure[place] = True
        return True

    def _enter(self, place: int, promise: Promise) -> None:
        """Enter a promise."""
        job = self.pending[place]
        self.promises[job.id] = promise
        self.jobs[job.id] = job
        self._columns.enter(place, *self.profile.need(job), start_of(promise))

    def _break_promise(self, place: int) -> None:
        """Forget a promise that cannot be kept; it holds nothing in the profile."""
        job_id = self.pending[place].id
        self.before[job_id] = self.promises.pop(job_id)
        del self.jobs[job_id]
        self._columns.forget(place)

    def _take_queue(self, pending: list[JobSpec], now_us: int) -> Sequence[int]:
        """Take over the present queue; return the places of new jobs. Jobs that have left release their part of the profile."""
        old = self.pending
        self.pending = pending
        if pending[: len(old)] == old:
            if len(pending) > len(old):
                self._columns.append(len(pending) - len(old))
            return range(len(old), len(pending))
        places = {job.id: place for place, job in enumerate(old)}
        came_from = np.array([places.pop(job.id, -1) for job in pending], np.int64)
        for place in places.values():
            self._give_back(old[place], place, now_us)
        return self._columns.rearrange(came_from)

    def _give_back(self, job: JobSpec, place: int, now_us: int) -> None:
        """Forget a job that has left the queue, and release its part of the profile from now on."""
        promise = self.promises.pop(job.id, None)
        if promise is None:
            return
        del self.jobs[job.id]
        self.profile.lift(job, promise)
        start_us = start_of(promise)
        end_us = start_us + int(self._columns.spans_us[place])
        if end_us > now_us:
            self._freed.append(Change(max(start_us, now_us), end_us, 0))
