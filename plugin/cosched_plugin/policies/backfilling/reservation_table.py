"""The promises that conservative backfilling has made, and their compression when something becomes free early.

Promises and the profile that they leave are kept from one pass to the next. Compression lifts, sweep after sweep, each job in queue
order and puts it at its earliest start given all others, until a sweep changes nothing. Only jobs that can start sooner have a turn
(`compression`). When a job has moved, jobs that can move into its former place have their turn in the same sweep if they stand
further behind, else in the next one: the same turns, in the same order, as if every job had one in every sweep.

Where work is limited, turns are paid for and compression may be cut; it then begins anew in the next pass, at the head of the queue.
Payments follow from the promises and the running jobs: a turn of a job that can move, a first promise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cosched_plugin.api import Bools, Ints, JobSpec, NoteValue, Seat, View, Work, prices
from cosched_plugin.policies.planning.profile import Change, Profile, Promise, Promises, start_of

# Promises to pending jobs as columns by place in the queue, so that one array operation examines all of them.

_UNPROMISED: Final = -1  # in place of a start


class QueueColumns:
    """One row for each pending job, in queue order. A job without a promise has no start; its other numbers mean nothing."""

    __slots__ = ("needs", "spans_us", "starts_us", "unsure")

    def __init__(self, rows: int) -> None:
        self.needs: Ints = np.zeros(rows, np.int64)
        self.spans_us: Ints = np.zeros(rows, np.int64)
        self.starts_us: Ints = np.full(rows, _UNPROMISED, np.int64)
        self.unsure: Bools = np.zeros(rows, np.bool_)  # jobs that may be able to start sooner: not examined since

    def enter(self, place: int, need: int, span_us: int, start_us: int) -> None:
        """Enter a promise."""
        self.needs[place] = need
        self.spans_us[place] = span_us
        self.starts_us[place] = start_us

    def enter_all(self, places: Sequence[int], needs: Ints, spans_us: Ints, starts_us: Ints) -> None:
        """Enter promises that may be too late: whether the jobs could start sooner is not known."""
        self.needs[places] = needs
        self.spans_us[places] = spans_us
        self.starts_us[places] = starts_us
        self.unsure[places] = True

    def forget(self, place: int) -> None:
        """Remove a promise."""
        self.starts_us[place] = _UNPROMISED
        self.unsure[place] = False

    def unpromised(self) -> list[int]:
        """Return the places of the jobs that have no promise."""
        found: list[int] = np.flatnonzero(self.starts_us == _UNPROMISED).tolist()
        return found

    def due(self, at_us: int) -> list[int]:
        """Return the places of the jobs that are promised to start at that instant."""
        found: list[int] = np.flatnonzero(self.starts_us == at_us).tolist()
        return found

    def any_before(self, at_us: int) -> bool:
        """Tell whether any job is promised a start before that instant."""
        return bool(((self.starts_us < at_us) & (self.starts_us != _UNPROMISED)).any())

    def first_after(self, at_us: int) -> int | None:
        """Return the first start that is promised after that instant; None if there is none."""
        later = self.starts_us[self.starts_us > at_us]
        return int(later.min()) if len(later) else None

    def append(self, rows: int) -> None:
        """Add rows without a promise at the end."""
        added = np.zeros(rows, np.int64)
        self.needs = np.append(self.needs, added)
        self.spans_us = np.append(self.spans_us, added)
        self.starts_us = np.append(self.starts_us, added + _UNPROMISED)
        self.unsure = np.append(self.unsure, added != 0)

    def remove(self, places: Sequence[int]) -> None:
        """Remove the rows of jobs that have left the queue."""
        stays = np.ones(len(self.starts_us), np.bool_)
        stays[places] = False
        self.needs = self.needs[stays]
        self.spans_us = self.spans_us[stays]
        self.starts_us = self.starts_us[stays]
        self.unsure = self.unsure[stays]

    def rearrange(self, came_from: Ints) -> list[int]:
        """Rearrange the rows; ``came_from``: the old place of each, -1 for a new one. Return the places of the new ones."""
        there = came_from >= 0
        self.needs = np.where(there, self.needs[came_from], 0)
        self.spans_us = np.where(there, self.spans_us[came_from], 0)
        self.starts_us = np.where(there, self.starts_us[came_from], _UNPROMISED)
        self.unsure = there & self.unsure[came_from]
        new: list[int] = np.flatnonzero(~there).tolist()
        return new


# Compression of promises: which jobs get a turn to move to an earlier start, and what their turns may cost.
#
# A turn of a job that cannot start sooner changes nothing, so only jobs that can move get one. Once no job can move, a
# job can start sooner only in room that includes something freed since: by a job that ended early, or by one that has
# moved.

FEW: Final = 32  # with a budget, number of jobs in the first batch examined; batches grow
MANY_STEPS: Final = 64  # a change of more steps is not examined step by step


class TurnBudget:
    """The work that compression may cost: a share of the decision's remaining work. The rest is for jobs without a promise."""

    __slots__ = ("_rest", "_work")

    def __init__(self, work: Work) -> None:
        self._work = work
        self._rest = max(0, work.left // prices.COMPRESSION_SHARE)

    @property
    def turns(self) -> int | None:
        """Return the number of turns allowed, the last of which may cost more than is left; None: any number."""
        work = self._work
        return -(-(work.left - self._rest) // prices.TURN.units()) if work.limited else None

    @property
    def spent(self) -> bool:
        """Tell whether the share is spent."""
        return self._work.limited and self._work.left <= self._rest

    def pay(self) -> bool:
        """Pay for a turn; tell whether anything was left."""
        work = self._work
        return not work.limited or (work.left > self._rest and work.pay(prices.TURN))


class MovableJobs:
    """The jobs that may start sooner than promised, and the instant from which each may have room."""

    __slots__ = ("_columns", "_movable", "_profile", "_since_us")

    def __init__(self, columns: QueueColumns, profile: Profile) -> None:
        """``columns`` and ``profile``: the promises, and the profile that they leave; both may change while this object is in use."""
        self._columns = columns
        self._profile = profile
        self._movable: Bools = np.zeros(len(columns.starts_us), np.bool_)  # by place in the queue
        self._since_us = columns.starts_us.copy()  # likewise

    @property
    def places(self) -> list[int]:
        """Return the jobs' places in the queue."""
        found: list[int] = np.flatnonzero(self._movable).tolist()
        return found

    def take(self, place: int) -> int:
        """Remove a job, to give it a turn; return the instant from which there may be room for it."""
        self._movable[place] = False
        return int(self._since_us[place])

    def give_back(self) -> None:
        """Leave the jobs that have had no turn to the next compression."""
        self._columns.unsure |= self._movable

    def add_by(self, change: Change) -> list[int]:
        """Add the jobs that a change may let move, by number of threads or nodes; return those that are new."""
        columns, timeline = self._columns, self._profile.timeline
        places = self._meet(change)
        known = self._movable[places]
        again = places[known]
        if len(again):
            self._widen(again, change)
            places = places[~known]
        if not len(places):
            return []
        if not self._profile.counts or timeline.steps_in(change) > MANY_STEPS:
            return self._add_any(places)
        starts_us = columns.starts_us[places]
        soonest_us = timeline.soonest_by(change, columns.needs[places], columns.spans_us[places], starts_us)
        return self._add(places, soonest_us)

    def add_unsure(self, now_us: int, turns: int | None) -> None:
        """Add the jobs that may be able to move but have not been examined: enough for ``turns`` turns, None: all.

        Turns must not depend on how jobs were found. Every job that can move is found, at least up to the last place that has a turn.
        """
        columns = self._columns
        unsure = np.flatnonzero(columns.unsure & ~self._movable)
        size = len(unsure) if turns is None else FEW
        found = 0
        while len(unsure) and (turns is None or found < turns):
            places, unsure = unsure[:size], unsure[size:]
            columns.unsure[places] = False
            found += len(self._add_any(places[columns.starts_us[places] > now_us]))
            size *= 2

    def keep_certain(self, turns: int, can_move: Callable[[int, int], bool]) -> None:
        """Keep the first jobs that can move, as many as have turns, and drop the others.

        ``can_move(place, since_us)`` examines one job. The jobs that it does not examine stay marked as not examined.
        """
        found = 0
        for place in self.places:
            if found >= turns:
                self._columns.unsure[place] = True
            elif can_move(place, int(self._since_us[place])):
                found += 1
                continue
            self._movable[place] = False

    def _meet(self, change: Change) -> NDArray[np.intp]:
        """Return the places of the jobs that a change may let move."""
        columns, timeline = self._columns, self._profile.timeline
        if self._profile.counts:
            most = timeline.most(change.start_us, change.end_us)
            return np.flatnonzero((columns.needs <= most) & (columns.starts_us > change.start_us))
        # Where particular threads count, a change after a job's own start helps, too: the job has some threads up to its end, but
        # perhaps not the ones that it would need.
        meets = columns.starts_us + columns.spans_us > change.start_us
        return np.flatnonzero(meets & (columns.starts_us > timeline.times[0]))

    def _widen(self, places: NDArray[np.intp], change: Change) -> None:
        """Make jobs that can move anyway search for room from the earliest start that overlaps the change."""
        meeting_us = np.maximum(change.start_us - self._columns.spans_us[places], self._profile.timeline.times[0])
        self._since_us[places] = np.minimum(self._since_us[places], meeting_us)

    def _add_any(self, places: NDArray[np.intp]) -> list[int]:
        """Add those of these jobs for which there is room anywhere before their start; return their places."""
        columns = self._columns
        needs = columns.needs[places]
        found: list[int] = []
        for need in np.unique(needs).tolist():
            alike = places[needs == need]
            soonest_us = self._profile.timeline.soonest(need, columns.spans_us[alike], columns.starts_us[alike])
            found += self._add(alike, soonest_us)
        return found

    def _add(self, places: NDArray[np.intp], soonest_us: Ints) -> list[int]:
        """Add those of these jobs whose soonest start is before the promised one; return their places."""
        columns = self._columns
        sooner = soonest_us < columns.starts_us[places]
        moving = places[sooner]
        self._since_us[moving] = soonest_us[sooner]
        self._movable[moving] = True
        columns.unsure[moving] = False
        found: list[int] = moving.tolist()
        return found


NOTE: Final = "promise"


# A pass must call, in this order: `follow` (or `restore`, from the notes alone), `due`, `compress`, `promise`, `due`, `changed`. Jobs
# with a promise move before new ones get theirs, so nobody is overtaken by a later arrival; what was freed since the last
# `compress` is in `_freed`. Where `follow` returns False the table is void, and the pass makes another one from the notes: a
# scheduler that was restarted has nothing else, and must decide alike.
class ReservationTable:
    """The promises made so far, and the profile that they leave; the gate for other starts."""

    __slots__ = ("_columns", "_freed", "_running", "_unfinished", "before", "jobs", "pending", "profile", "promises")

    def __init__(self, profile: Profile, running: Profile, pending: list[JobSpec]) -> None:
        """``profile`` and ``running``: what running jobs leave free; plans change the first, the second stays as it is."""
        self.profile = profile
        self._running = running
        self.pending = pending
        self.promises: dict[int, Promise] = {}
        self.jobs: dict[int, JobSpec] = {}  # jobs that have a promise
        self.before: dict[int, NoteValue] = {}  # the notes of jobs that have got another promise in this pass
        self._columns = QueueColumns(len(pending))
        self._unfinished = False  # the work allowed was spent before every job had moved, or had a promise
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
        # The promise of a job that waits for an overdue one moves by a microsecond at every pass.
        first_us = self._columns.first_after(now_us + 1)
        return now_us + prices.RETRY_US if first_us is None else first_us

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
            freed = self._move_sooner(place, movable.take(place))
            if freed is None:
                continue
            for other in movable.add_by(freed):
                # A job further behind has its turn in this sweep, others in the next.
                heappush(turns, turn - place + other + (0 if other > place else number))
        movable.give_back()
        self._unfinished = budget.spent

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
        movable = MovableJobs(self._columns, self.profile)
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
        self.profile.lift(job, old)
        self.profile.reserve(job, new)
        self.before.setdefault(job.id, old)
        self._enter(place, new)
        return Change(*self.profile.span_freed_by(job, old, new), 0)

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
