"""Conservative backfilling: every job gets a promised start at submission, and no promise moves later except for co-location.

Mu'alem and Feitelson 2001, with compression: at every pass the promises whose time has come start; then, sweep after sweep, each
pending job in queue order is lifted and put at its earliest start given all others, until a sweep changes nothing; new jobs get
their promise last. Promises are notes with the manager, so a restarted scheduler keeps them.

Matching may start jobs together that gain by it: the first of the queue and its partners before any promise, others where that
breaks no promise. Under time slices promises are in the class's own time, and are made once its jobs may start somewhere.

A promise rests on estimates: when a running job outlives its own, or a node fails, promises that have become impossible are made
anew, in queue order. Where work is limited, promises that could be earlier may stay, and jobs at the end of a long queue may have
no promise yet.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import ClassVar

from cosched_plugin.api import (
    COMPANY,
    COUNTABLE,
    CUT_SHORT,
    FIXED_RUN_TIMES,
    FOOTPRINTS,
    PROMISES,
    UNRESERVED,
    Action,
    Backfill,
    Context,
    JobSpec,
    NoteValue,
    PendingJobs,
    Seat,
    SetNote,
    View,
    WakeAt,
    is_plain,
    nodes_view,
    whole_nodes,
)
from cosched_plugin.policies.backfilling.reservation_table import NOTE, ReservationTable
from cosched_plugin.policies.planning.placed_profile import PlacedProfile
from cosched_plugin.policies.planning.profile import (
    CountProfile,
    FullNodeProfile,
    NodeProfile,
    Profile,
    Promise,
    start_of,
)
from cosched_plugin.policies.planning.reservation import rejection


class Conservative(Backfill):
    """A reservation for every job."""

    starts_only: ClassVar[bool] = False  # compression moves a promise to the present or not at all
    needs = frozenset({FIXED_RUN_TIMES})
    provides = frozenset({COMPANY, PROMISES})
    uses = frozenset({"notes"})
    ignores = frozenset({COUNTABLE})  # promises are about threads and memory

    def __init__(self) -> None:
        self._last: ReservationTable | None = None  # a cache: the table of the last pass, as the notes describe it
        self._interventions = 0  # of the manager, by then

    def decide(self, context: Context) -> Iterator[Action]:
        """Yield the starts that are due or possible, then the promises that are new or earlier."""
        while context.view.queued and (yield from self._pass(context)):
            pass

    def _pass(self, context: Context) -> Generator[Action, None, bool]:
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

    def _wake_for_rest(self, table: ReservationTable, view: View) -> Iterator[Action]:
        """Yield a wake at which to continue where the work allowed was not enough, and the note that says so."""
        present_us = view.wall_us(view.now_us)
        if table.cut and view.note(None, CUT_SHORT) != present_us:
            yield SetNote(None, CUT_SHORT, present_us)
        again_us = table.unfinished_us(view.now_us) if view.work.limited else None
        if self.starts_only and again_us is None:
            again_us = table.next_start_us(view.now_us)  # perhaps no running job ends then
        if again_us is not None and "wakes" in view.features and view.wall_us(again_us) not in view.wakes():
            yield WakeAt(view.wall_us(again_us))


class ConservativeStarts(Conservative):
    """The same without a search for better promises: when something becomes free early, only jobs that can start now move.

    A job that cannot start now keeps its promise, which may be later than necessary. So an end costs one look at all pending jobs,
    and not a move of most of them.
    """

    starts_only: ClassVar[bool] = True


def _note_promises(table: ReservationTable, view: View) -> Iterator[Action]:
    """Yield notes of the promises that are new or earlier."""
    changed = table.changed()
    if view.trace is not None:
        _tell_promises(changed, view)
    for job_id, _, promise in changed:
        yield SetNote(job_id, NOTE, promise)


def _tell_promises(changed: Sequence[tuple[int, NoteValue, Promise | None]], view: View) -> None:
    """Record in the trace the promises that are gone, new, or later than before."""
    for job_id, before, promise in changed:
        if promise is None:
            view.tell("promise", job=job_id, start_us=None)
        elif _is_news(promise, before):
            view.tell("promise", job=job_id, start_us=view.wall_us(start_of(promise)))


def _table_of(pending: list[JobSpec], context: Context, last: ReservationTable | None) -> ReservationTable:
    """Return the promises made so far, with new ones for those that cannot be kept; ``last``: the table of the last pass."""
    view = context.view
    profile = _profile_maker(pending, context, last)
    running = profile()
    if last is not None and type(last.profile) is type(running) and last.follow(pending, running, view):
        return last
    table = ReservationTable(profile(), profile(), pending)
    table.restore(view)
    return table


def _profile_maker(pending: list[JobSpec], context: Context, last: ReservationTable | None) -> Callable[[], Profile]:
    """Return the maker of a profile of what running jobs leave free: the simplest kind that is exact."""
    view, placement = context.view, context.placement
    if FOOTPRINTS in placement.provides:
        return partial(NodeProfile, whole_nodes(view), context.footprints)
    if placement.counts:
        if view.counts and _are_plain(pending, view, last, CountProfile):
            return partial(CountProfile, view, placement)
        nodes = nodes_view(view)
        if nodes is not None and nodes.cores_per_node and _are_plain(pending, view, last, FullNodeProfile):
            return partial(FullNodeProfile, nodes, placement)
    return partial(PlacedProfile, view, placement)


def _are_plain(pending: list[JobSpec], view: View, last: ReservationTable | None, kind: type[CountProfile]) -> bool:
    """Tell whether counting is exact for all jobs; a profile of this ``kind`` was made only where it was."""
    jobs = pending
    if last is not None and type(last.profile) is kind and pending[: len(last.pending)] == last.pending:
        jobs = pending[len(last.pending) :]  # the others are known, and running jobs were among them
    elif not all(is_plain(job.job) for job in view.running.values()):
        return False  # also on whole nodes: a start must not change how the next pass plans
    return all(map(is_plain, jobs))


def _is_news(promise: Promise, before: NoteValue) -> bool:
    """Tell whether a promise is the first, or later than the one before, which could not be kept."""
    return not isinstance(before, tuple) or start_of(promise) > start_of(before)


def _start_due(context: Context, table: ReservationTable, *, join: bool) -> Generator[Action, None, bool]:
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
        gate = UNRESERVED if first else table
        seat: Seat | None = None
        if offer is not None:
            # A settled matching examines no other job, and the queue may be long.
            gone = set(started)
            queue = [job] if matching.settled else [other for at, other in enumerate(pending) if at not in gone]
            seat = matching.seat(offer, context.over(PendingJobs(queue)), gate)
        elif first and join:
            if promise is None and table.profile.never(job):
                yield rejection(job, view)
                return False
            if matching.alone:
                continue
            seat = matching.join(job, context.over(PendingJobs(pending[place:])), gate)
        if seat is None:
            continue
        for job_id in seat.job_ids:
            note = view.note(job_id, NOTE)
            view.explain(job_id, partial(_reason, note, view, due=seat is offer))
            if note is not None:
                yield SetNote(job_id, NOTE, None)  # kept; if the job comes back, the old promise no longer holds
        yield from seat.decisions
        if seat is not offer:
            return False
        started.append(place)
    if started:
        table.leave(started)
    return True


def _reason(note: NoteValue, view: View, *, due: bool) -> dict[str, object]:
    """Return why a job starts: its promised start has come (``due``), or it is co-located and starts earlier."""
    promised_us = start_of(note) if isinstance(note, tuple) else view.now_us
    reason = "promise" if due or promised_us == view.now_us else "company"
    return {"reason": reason, "waiting": view.queued, "promised_us": view.wall_us(promised_us)}
