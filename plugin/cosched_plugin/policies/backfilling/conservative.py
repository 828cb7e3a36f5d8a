"""Conservative backfilling: every job gets a promised start at submission, and no promise moves later except for co-location.

Mu'alem and Feitelson 2001, with compression: at every pass the promises whose time has come start; then, sweep after sweep, each
pending job in queue order is lifted and put at its earliest start given all others, until a sweep changes nothing; new jobs get
their promise last. Promises are notes with the manager, so a restarted scheduler keeps them.

Matching may start jobs together that gain by it: the first of the queue and its partners before any promise, others where that
breaks no promise. Under time slices promises are in the class's own time, and are made once its jobs may start somewhere.

A promise rests on estimates: when a running job outlives its own, or a node fails, promises that have become impossible are made
anew, in queue order. Where work is limited, promises that could be earlier may stay, and jobs at the end of a long queue may have
no promise yet.

Promises and the profile that they leave are kept from one pass to the next (`ReservationTable`). Only jobs that can start sooner
have a turn in a sweep (`compression`). When a job has moved, jobs that can move into its former place have their turn in the same
sweep if they stand further behind, else in the next one: the same turns, in the same order, as if every job had one in every
sweep. Where work is limited, turns are paid for and compression may be cut; it then begins anew in the next pass, at the head of the
queue. Payments follow from the promises and the running jobs: a turn of a job that can move, a first promise.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import ClassVar, Final

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.backfilling.compression import CountedJobs, MovableJobs, QueueColumns, TurnBudget
from cosched_plugin.policies.planning.placed_profile import NODE_PROFILES, PlacedProfile
from cosched_plugin.policies.planning.profile import (
    Change,
    CountProfile,
    FullNodeProfile,
    Profile,
    Promise,
    Promises,
    start_of,
)
from cosched_plugin.policies.planning.reservation import rejection

NOTE: Final = "promise"


# A pass must call, in this order: `follow` (or `restore`, from the notes alone), `due`, `compress`, `promise`, `due`, `changed`. Jobs
# with a promise move before new ones get theirs, so nobody is overtaken by a later arrival; what was freed since the last
# `compress` is in `_freed`. Where `follow` returns False, `renew` must be called: it does what `restore` would do with the notes, as a
# scheduler that was restarted has nothing else, and must decide alike. In running time that is so at nearly every start: it takes
# effect a little later than planned, and is in the way of the next one.
class ReservationTable:
    """The promises made so far, and the profile that they leave; the gate for other starts."""

    __slots__ = (
        "_columns", "_freed", "_new", "_running", "_unfinished", "before", "cut", "jobs", "pending", "profile", "promises",
    )  # fmt: skip
    reserved = None  # every job has a promise

    def __init__(self, profile: Profile, running: Profile, pending: list[api.JobSpec]) -> None:
        """``profile`` and ``running``: what running jobs leave free; plans change the first, the second stays as it is."""
        self.profile = profile
        self._running = running
        self.pending = pending
        self.promises: dict[int, Promise] = {}
        self.jobs: dict[int, api.JobSpec] = {}  # jobs that have a promise
        self.before: dict[int, api.NoteValue] = {}  # the notes of jobs that have got another promise in this pass
        self._columns = QueueColumns(len(pending))
        self.cut = False  # the work allowed was spent before every job that could had moved
        self._unfinished = False  # the same, or before every job had a promise
        self._freed: list[Change] = []  # what has become free since the last compression
        self._new: list[int] = []  # places of jobs that came with a promise for which nothing is reserved yet

    def restore(self, view: api.View) -> None:
        """Enter the promises in notes, in queue order; where one cannot be kept, a new one."""
        notes = {job_id: note for job_id, note in view.notes(NOTE).items() if isinstance(note, tuple)}
        places = [place for place, job in enumerate(self.pending) if job.id in notes] if notes else []
        if not places:
            return
        self.jobs = {job.id: job for job in map(self.pending.__getitem__, places)}
        self.promises = {job_id: notes[job_id] for job_id in self.jobs}
        starts_us = np.array([start_of(promise) for promise in self.promises.values()], np.int64)
        self._columns.enter_all(places, *self._needs(self.jobs.values()), starts_us)
        self._reserve_all(view)

    def follow(self, pending: list[api.JobSpec], running: Profile, view: api.View) -> bool:
        """Advance to the present; tell whether all promises can be kept. ``running``: what running jobs leave free now."""
        self.before.clear()
        self._take_new(self._take_queue(pending, view.now_us), view)
        before, self._running = self._running, running
        if self._columns.any_before(view.now_us):
            return False
        changes = self.profile.follow(before, running)
        if changes is None:
            return False
        self._freed += [change for change in changes if change.amount > 0]
        return self._reserve_new(view)

    def renew(self, profile: Profile, view: api.View) -> None:
        """Keep the promises, in queue order, as far as possible; ``profile``: what running jobs leave free now."""
        self.profile = profile
        self._new.clear()
        if not (profile.counts and profile.lasting):
            places = self._columns.promised()
            needs = self._needs([self.pending[place] for place in places])
            self._columns.enter_all(places, *needs, self._columns.starts_us[places])
        self._reserve_all(view)

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
        return now_us + api.prices.RETRY_US if first_us is None else first_us

    def next_start_us(self, now_us: int) -> int | None:
        """Return the first later instant that is promised to a job; None if there is none."""
        # The promise of a job that waits for an overdue one moves by a microsecond at every pass.
        return self._columns.first_after(now_us + 1)

    def changed(self) -> list[tuple[int, api.NoteValue, Promise | None]]:
        """Return (job id, noted promise, promise) of the pending jobs whose promise has changed, in queue order."""
        before, promises = self.before, self.promises
        if not before:
            return []
        if len(before) == 1:  # as after most events, and the queue may be long
            ((only, noted),) = before.items()
            promise = promises.get(only)
            is_pending = only in self.jobs or any(job.id == only for job in self.pending)
            return [(only, noted, promise)] if promise != noted and is_pending else []
        found = [job.id for job in self.pending if job.id in before]
        return [
            (job_id, before[job_id], promises.get(job_id)) for job_id in found if promises.get(job_id) != before[job_id]
        ]

    # Must be called after jobs were started as promised, before anything else is asked: the places of all jobs behind them change.
    def leave(self, places: Sequence[int]) -> None:
        """Forget the jobs at these places, which have been started as promised: they keep their part of the profile."""
        for place in places:
            job = self.pending[place]
            self._running.reserve(job, self.promises.pop(job.id))
            del self.jobs[job.id]
            self.before.pop(job.id, None)
        pending = [*self.pending]  # an order from outside may have made a tuple
        for place in reversed(places):  # ascending
            del pending[place]
        self.pending = pending
        self._columns.remove(places)

    def promise(self, view: api.View) -> None:
        """Promise all jobs without a promise their earliest start, in queue order; none to a job that the nodes cannot hold."""
        for place in self._columns.unpromised():
            if view.work.spent:
                self._unfinished = True  # and nothing is left for the others, which may be thousands
                return
            self._promise(place, view)

    def compress(self, view: api.View) -> None:
        """Put every job at its earliest start given all others, sweep after sweep, until none moves or the work allowed is done."""
        number = len(self.pending)
        budget = TurnBudget(view.work)
        allowed = budget.turns
        movable = self._find_movable(view.now_us, allowed)
        turns = movable.places  # sweep * number + place, a heap
        if allowed is not None and len(turns) >= allowed:  # others may have been left out
            view.work.cut = True
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

    def compress_to_now(self, view: api.View) -> None:
        """Promise the present to every job that can start now; all other promises stay as they are."""
        self._freed.clear()
        self._unfinished = False
        self.cut = not self._pull_to_now(view) and view.work.limited

    def _pull_to_now(self, view: api.View) -> bool:
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
    def admit(self, seat: api.Seat) -> bool:
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
        bounded = turns is not None and self.profile.counts
        if bounded:
            movable.add_unsure(now_us, turns)  # first: they may say that few can have a turn
        for change in self._freed:
            if change.end_us > now_us:  # what the last pass freed may have begun meanwhile: batches can be late
                movable.add_by(change._replace(start_us=max(change.start_us, now_us)))
        self._freed.clear()
        if not bounded:
            movable.add_unsure(now_us, turns)
        # A turn is paid for: a job that cannot move must not have one
        if turns is not None and not self.profile.counts:
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

    def _promise(self, place: int, view: api.View) -> None:
        """Promise the earliest possible start; none to a job that the nodes in service cannot hold."""
        if view.work.spent:
            self._unfinished = True
            return
        job = self.pending[place]
        promise = self.profile.earliest(job)
        # A job that cannot be held is not paid for: it would take work from others at every pass
        if promise is not None:
            view.work.pay(api.prices.PROMISE)
            self.profile.reserve(job, promise)
            self.before.setdefault(job.id, view.note(job.id, NOTE))
            self._enter(place, promise)

    def _needs(self, jobs: Iterable[api.JobSpec]) -> tuple[api.Ints, api.Ints]:
        """Return how much each job needs, and for how long."""
        needs, spans_us = np.array([self.profile.need(job) for job in jobs], np.int64).reshape(-1, 2).T
        return needs, spans_us

    # A new promise is the first that those before it leave, and those behind it only take more. So where counting decides, only jobs
    # that keep their promise may be able to move, into what those before had.
    def _reserve_all(self, view: api.View) -> None:
        """Reserve what was promised, in queue order, in a profile without promises; where it cannot be kept, a new promise."""
        columns, promises, pending = self._columns, self.promises, self.pending
        places = columns.promised()
        shares = (columns.needs[places], columns.spans_us[places], columns.starts_us[places])
        renewed = self.profile.renew(Promises(pending, promises, places, *shares), view.work)
        self._freed.clear()
        columns.unsure[places] = True
        for number, promise in renewed.items():
            place = places[number]
            job_id = pending[place].id
            self.before[job_id] = promises.pop(job_id)
            if promise is None:
                del self.jobs[job_id]
                columns.forget(place)
            else:
                promises[job_id] = promise
                columns.starts_us[place] = start_of(promise)
                columns.unsure[place] = not self.profile.counts

    def _take_new(self, places: Sequence[int], view: api.View) -> None:
        """Enter the noted promises of jobs that are new in the queue; nothing is reserved for them yet."""
        for place in places:
            job = self.pending[place]
            note = view.note(job.id, NOTE)
            if isinstance(note, tuple):
                self._enter(place, note)
                self._columns.unsure[place] = True
                self._new.append(place)

    def _reserve_new(self, view: api.View) -> bool:
        """Reserve what was promised to jobs that are new in the queue; tell whether it can be kept."""
        for place in self._new:
            job = self.pending[place]
            if not self.profile.fits(job, self.promises[job.id]):
                return False
            self.profile.reserve(job, self.promises[job.id])
        self._new.clear()
        return True

    def _enter(self, place: int, promise: Promise) -> None:
        """Enter a promise."""
        job = self.pending[place]
        self.promises[job.id] = promise
        self.jobs[job.id] = job
        self._columns.enter(place, *self.profile.need(job), start_of(promise))

    def _take_queue(self, pending: list[api.JobSpec], now_us: int) -> Sequence[int]:
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

    def _give_back(self, job: api.JobSpec, place: int, now_us: int) -> None:
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


class Conservative(api.Backfill):
    """A reservation for every job."""

    starts_only: ClassVar[bool] = False  # compression moves a promise to the present or not at all
    needs = frozenset({api.FIXED_RUN_TIMES})
    provides = frozenset({api.COMPANY, api.PROMISES})
    protocol_features = frozenset({"notes"})

    def __init__(self) -> None:
        self._last: ReservationTable | None = None  # a cache: the table of the last pass, as the notes describe it
        self._interventions = 0  # of the manager, by then

    def decide(self, context: api.Context) -> Iterator[api.Action]:
        """Yield the starts that are due or possible, then the promises that are new or earlier."""
        while context.view.queued and (yield from self._pass(context)):
            pass

    def _pass(self, context: api.Context) -> Generator[api.Action, None, bool]:
        """Yield the starts that one scan of the queue finds; tell whether a further scan may find more.

        That is so where a start was not planned, or where a pending job might join those that were started.
        """
        view = context.view
        pending = context.arranged().jobs
        queued = len(pending)
        last, self._last = self._last, None
        if self._interventions != view.interventions:
            self._interventions = view.interventions
            last = None  # promises may be about other jobs, and jobs run that the table has not seen
        table = _table_of(pending, context, last)
        if not (yield from _start_due(context, table, join=False)):
            return True
        if self.starts_only:
            table.compress_to_now(view)
        else:
            table.compress(view)
        table.promise(view)
        if not (yield from _start_due(context, table, join=True)):
            return True
        yield from _note_promises(table, view)
        yield from self._wake_for_rest(table, view)
        self._last = table
        return len(table.pending) < queued and not context.matching.settled

    def _wake_for_rest(self, table: ReservationTable, view: api.View) -> Iterator[api.Action]:
        """Yield a wake at which to continue where the work allowed was not enough, and the note that says so."""
        present_us = view.wall_us(view.now_us)
        if table.cut and view.note(None, api.CUT_SHORT) != present_us:
            yield api.SetNote(None, api.CUT_SHORT, present_us)
        again_us = table.unfinished_us(view.now_us) if view.work.limited else None
        if self.starts_only and again_us is None:
            again_us = table.next_start_us(view.now_us)  # perhaps no running job ends then
        if again_us is not None and "wakes" in view.features and view.wall_us(again_us) not in view.wakes():
            yield api.WakeAt(view.wall_us(again_us))


class ConservativeStarts(Conservative):
    """The same without a search for better promises: when something becomes free early, only jobs that can start now move.

    A job that cannot start now keeps its promise, which may be later than necessary. So an end costs one look at all pending jobs,
    and not a move of most of them.
    """

    starts_only: ClassVar[bool] = True


def _note_promises(table: ReservationTable, view: api.View) -> Iterator[api.Action]:
    """Yield notes of the promises that are new or earlier."""
    changed = table.changed()
    if view.trace is not None:
        _tell_promises(changed, view)
    for job_id, _, promise in changed:
        yield api.SetNote(job_id, NOTE, promise)


def _tell_promises(changed: Sequence[tuple[int, api.NoteValue, Promise | None]], view: api.View) -> None:
    """Record in the trace the promises that are gone, new, or later than before."""
    for job_id, before, promise in changed:
        if promise is None:
            view.tell("promise", job=job_id, start_us=None)
        elif _is_news(promise, before):
            view.tell("promise", job=job_id, start_us=view.wall_us(start_of(promise)))


def _table_of(pending: list[api.JobSpec], context: api.Context, last: ReservationTable | None) -> ReservationTable:
    """Return the promises made so far, with new ones for those that cannot be kept; ``last``: the table of the last pass."""
    view = context.view
    profile = _profile_maker(pending, context, last)
    running = profile()
    if last is not None and type(last.profile) is type(running):
        if not last.follow(pending, running, view):
            last.renew(profile(), view)
        return last
    table = ReservationTable(profile(), profile(), pending)
    table.restore(view)
    return table


def _profile_maker(
    pending: list[api.JobSpec], context: api.Context, last: ReservationTable | None
) -> Callable[[], Profile]:
    """Return the maker of a profile of what running jobs leave free: the simplest kind that is exact."""
    view, placement = context.view, context.placement
    if api.FOOTPRINTS in placement.provides:
        whole = api.whole_nodes(view)
        return partial(NODE_PROFILES[whole.counts_nodes], whole, context.footprints)
    if placement.counts:
        if view.counts and _are_plain(pending, view, last, CountProfile):
            return partial(CountProfile, view, placement)
        nodes = api.nodes_view(view)
        if nodes is not None and nodes.cores_per_node and _are_plain(pending, view, last, FullNodeProfile):
            return partial(FullNodeProfile, nodes, placement)
    return partial(PlacedProfile, view, placement)


def _are_plain(
    pending: list[api.JobSpec], view: api.View, last: ReservationTable | None, kind: type[CountProfile]
) -> bool:
    """Tell whether counting is exact for all jobs; a profile of this ``kind`` was made only where it was."""
    jobs = pending
    if last is not None and type(last.profile) is kind and pending[: len(last.pending)] == last.pending:
        jobs = pending[len(last.pending) :]  # the others are known, and running jobs were among them
    elif not all(api.is_plain(job.job) for job in view.running.values()):
        return False  # also on whole nodes: a start must not change how the next pass plans
    return all(map(api.is_plain, jobs))


def _is_news(promise: Promise, before: api.NoteValue) -> bool:
    """Tell whether a promise is the first, or later than the one before, which could not be kept."""
    return not isinstance(before, tuple) or start_of(promise) > start_of(before)


def _start_due(context: api.Context, table: ReservationTable, *, join: bool) -> Generator[api.Action, None, bool]:
    """Yield the starts of the jobs whose promised start has come. A started job keeps its place in the profile.

    Returns False if a start was not as planned: a co-located start, or a start of the first pending job beside running ones, which
    is sought if ``join`` is set.
    """
    view, matching, pending = context.view, context.matching, table.pending
    now_us = view.now_us
    places = table.due(now_us)
    if join:
        head = next((number for number, place in enumerate(places) if place != number), len(places))
        if head < len(pending):
            insort(places, head)
    started: list[int] = []
    for place in places:
        job = pending[place]
        promise = table.promises.get(job.id)
        offer = None
        if promise is not None and start_of(promise) == now_us:
            offer = table.profile.offer(job, promise)
        first = place == len(started)
        gate = api.UNRESERVED if first else table
        seat: api.Seat | None = None
        if offer is not None:
            # A settled matching examines no other job, and the queue may be long.
            gone = set(started)
            queue = [job] if matching.settled else [other for at, other in enumerate(pending) if at not in gone]
            seat = matching.seat(offer, context.over(api.PendingJobs(queue)), gate)
        elif first and join:
            if promise is None and table.profile.never(job):
                yield rejection(job, view)
                return False
            if matching.alone:
                continue
            seat = matching.join(job, context.over(api.PendingJobs(pending[place:])), gate)
        if seat is None:
            continue
        for job_id in seat.job_ids:
            note = view.note(job_id, NOTE)
            view.explain(job_id, partial(_reason, note, view, due=seat is offer))
            if note is not None:
                yield api.SetNote(job_id, NOTE, None)  # kept; if the job comes back, the old promise no longer holds
        yield from seat.decisions
        if seat is not offer:
            return False
        started.append(place)
    if started:
        table.leave(started)
    return True


def _reason(note: api.NoteValue, view: api.View, *, due: bool) -> dict[str, object]:
    """Return why a job starts: its promised start has come (``due``), or it is co-located and starts earlier."""
    promised_us = start_of(note) if isinstance(note, tuple) else view.now_us
    reason = "promise" if due or promised_us == view.now_us else "company"
    return {"reason": reason, "waiting": view.queued, "promised_us": view.wall_us(promised_us)}
