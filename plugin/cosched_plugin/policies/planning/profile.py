"""Future availability with many reservations, for conservative backfilling.

`CountProfile` counts threads, which is exact for jobs that take any threads: a promise made by counting can always be kept,
because jobs that have not started can take other threads than planned. `NodeProfile` and `FullNodeProfile` count nodes, for jobs
that take whole ones that are all alike. `placed_profile` plans with individual threads, where counting is not exact.

A *promise* is a tuple of ints and runs that a note can hold: the start, and where places are planned the runs.

What is free over time is a `Timeline`: a step function of one number, with the searches that planning needs, for thousands of
steps. Searches begin near the present, where most end; numpy, which costs more to start, searches the rest.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from cosched_plugin import api

# Number of steps examined one by one before all others are examined together.
NEAR: Final = 48
SHORT: Final = 12  # number of steps that are changed one by one
FOREVER_US: Final = (1 << 62) - 1


class Change(NamedTuple):
    """An increase of what is free from one instant to another, perhaps for ever."""

    start_us: int
    end_us: int
    amount: int


# Around a step, the room for all needs from one number down to another: the place of the first in a list of needs, the second, which
# has more room, begin and end.
Gap: TypeAlias = tuple[int, int, int, int]


# After each change neighbouring steps must differ: promises come and go by the thousand, and each search is over steps.
# `times` and `values` cannot be resized while there is an array over them (`np.frombuffer`), so none may outlive its method.
class Timeline:
    """Steps: ``values[k]`` from ``times[k]`` on, up to the next; the last goes on for ever."""

    __slots__ = ("times", "values")

    def __init__(self, steps: Iterable[tuple[int, int]]) -> None:
        """``steps``: (instant, value from then on), ascending."""
        self.times = array("q")
        self.values = array("q")
        for at_us, value in steps:
            self.times.append(at_us)
            self.values.append(value)

    def replace(self, times: Sequence[int], values: Sequence[int]) -> None:
        """Take over other steps; neighbours must differ."""
        self.times = array("q", times)
        self.values = array("q", values)

    def advance(self, now_us: int) -> None:
        """Forget what lies before ``now_us``."""
        past = self.step_at(now_us)
        if past > 0:
            del self.times[:past]
            del self.values[:past]
        self.times[0] = now_us

    def step_at(self, at_us: int) -> int:
        """Return the step in which ``at_us`` lies."""
        step = bisect_left(self.times, at_us)
        return step if step < len(self.times) and self.times[step] == at_us else step - 1

    def cut(self, at_us: int) -> int:
        """Return the step that begins at ``at_us``, made if there is none."""
        times = self.times
        step = bisect_left(times, at_us)
        if step == len(times) or times[step] != at_us:
            times.insert(step, at_us)
            self.values.insert(step, self.values[step - 1])
        return step

    # Written out, without `cut`: compression moves reservations by the hundred thousand.
    def add(self, start_us: int, end_us: int, amount: int) -> tuple[int, int]:
        """Add an amount from ``start_us`` to ``end_us``; return the first step in which that is, and the first one after it."""
        times, values = self.times, self.values
        first = bisect_left(times, start_us)
        if first == len(times) or times[first] != start_us:
            times.insert(first, start_us)
            values.insert(first, values[first - 1])
        last = min(first + SHORT, len(times))
        if end_us >= FOREVER_US or (last < len(times) and times[last] < end_us):
            last = bisect_left(times, end_us, last) if end_us < FOREVER_US else len(times)
            np.frombuffer(values, np.int64)[first:last] += amount
            before = values[last - 1] - amount
        else:
            last = first
            before = 0
            for at_us in times[first : first + SHORT]:
                if at_us >= end_us:
                    break
                before = values[last]
                values[last] = before + amount
                last += 1
        if last < len(times) and times[last] == end_us:
            if values[last] == values[last - 1]:
                del values[last], times[last]
        elif end_us < FOREVER_US:
            times.insert(last, end_us)
            values.insert(last, before)
        if first and values[first] == values[first - 1]:
            del values[first], times[first]
            return first - 1, last - 1
        return first, last

    def add_all(self, starts_us: api.Ints, ends_us: api.Ints, amounts: api.Ints) -> bool:
        """Add an amount from each start to its end, unless a value would become negative; tell whether it was done."""
        values = np.frombuffer(self.values, np.int64)
        times = np.concatenate([np.frombuffer(self.times, np.int64), starts_us, ends_us])
        steps = np.concatenate([np.diff(values, prepend=0), amounts, -amounts])
        order = np.argsort(times, kind="stable")
        times = times[order]
        values = np.cumsum(steps[order])
        last = np.append(times[1:] != times[:-1], True)
        times, values = times[last], values[last]
        if values.min() < 0:
            return False
        differ = np.append(True, values[1:] != values[:-1])
        self.times = array("q", times[differ].tobytes())
        self.values = array("q", values[differ].tobytes())
        return True

    def least(self, start_us: int, end_us: int) -> int:
        """Return the least value between two instants."""
        return min(self.values[self.step_at(start_us) : bisect_left(self.times, end_us)])

    def most(self, start_us: int, end_us: int) -> int:
        """Return the greatest value between two instants."""
        return max(self.values[self.step_at(start_us) : bisect_left(self.times, end_us)])

    def earliest(self, need: int, span_us: int, first: int = 0) -> int | None:
        """Return the begin of the first step, from step ``first`` on, from which ``need`` is available for ``span_us``.

        None if not even the last step has enough; it has the most, because jobs end.
        """
        times, values = self.times, self.values
        if values[-1] < need:
            return None
        start = first
        end_us = 0
        near = slice(first, first + NEAR)
        for step, (at_us, value) in enumerate(zip(times[near], values[near], strict=True), first):
            if start == step:
                end_us = at_us + span_us
            elif at_us >= end_us:
                return times[start]
            if value < need:
                start = step + 1
        if len(times) <= first + NEAR:
            return times[start]
        blocked = np.flatnonzero(np.frombuffer(values, np.int64)[start:] < need)
        begins, ends = self._gaps(start, blocked)
        enough = ends >= begins + span_us
        return int(begins[enough.argmax()])

    def sooner(self, need: int, span_us: int, own_us: int, first: int) -> int | None:
        """Return the first instant before ``own_us`` at which the place at ``own_us`` could begin; None if there is none.

        Steps from ``first`` on count. Its own place counts as free.
        """
        times, values = self.times, self.values
        start = first
        end_us = 0
        for step in range(first, len(times)):
            at_us = times[step]
            if at_us >= own_us:
                break
            if start == step:
                end_us = at_us + span_us
            elif at_us >= end_us:
                break
            if values[step] < need:
                start = step + 1
        return times[start] if start < len(times) and times[start] < own_us else None

    def soonest(self, need: int, spans_us: api.Ints, owns_us: api.Ints) -> api.Ints:
        """Return what `sooner` returns, for many places with the same need; a place's own start where it returns None."""
        last = bisect_left(self.times, int(owns_us.max()))
        blocked = np.flatnonzero(np.frombuffer(self.values, np.int64)[:last] < need)
        begins, ends = self._gaps(0, blocked)
        # The last gap seems to have no end: it extends at least to the last place, and no place needs a wide gap beside itself.
        widest = np.maximum.accumulate(ends - begins)
        wide = begins[np.minimum(np.searchsorted(widest, spans_us), len(begins) - 1)]
        beside = begins[np.searchsorted(ends[:-1], owns_us)]
        return np.minimum(np.minimum(wide, beside), owns_us)

    def fits_first(self, needs: api.Ints, spans_us: api.Ints, owns_us: api.Ints) -> api.Bools:
        """Tell for places at ``owns_us``, after the first step, whether each could begin with the first step."""
        times, values = np.frombuffer(self.times, np.int64), np.frombuffer(self.values, np.int64)
        blocked = values < needs.min(initial=FOREVER_US)
        last = int(blocked.argmax()) if blocked.any() else len(values)
        least = np.minimum.accumulate(values[:last])
        ends_us = np.append(times[: last + 1], FOREVER_US)[np.searchsorted(-least, -needs, side="right")]
        fits: api.Bools = (needs <= values[0]) & ((spans_us <= ends_us - times[0]) | (owns_us <= ends_us))
        return fits

    def steps_in(self, change: Change) -> tuple[int, int]:
        """Return the first step that a change overlaps, and the first one after it."""
        first = bisect_right(self.times, change.start_us) - 1
        return first, bisect_left(self.times, change.end_us, first)

    def changes(self, before: Timeline) -> list[Change]:
        """Return the changes from a timeline that begins at the same instant, ascending."""
        if self.times == before.times and self.values == before.values:
            return []
        changes: list[Change] = []
        instants = sorted({*self.times, *before.times})
        for at_us, until_us in zip(instants, [*instants[1:], FOREVER_US], strict=True):
            amount = self.values[self.step_at(at_us)] - before.values[before.step_at(at_us)]
            if not amount:
                continue
            if changes and changes[-1].end_us == at_us and changes[-1].amount == amount:
                changes[-1] = changes[-1]._replace(end_us=until_us)
            else:
                changes.append(Change(at_us, until_us, amount))
        return changes

    def _gaps(self, first: int, blocked: NDArray[np.intp]) -> tuple[api.Ints, api.Ints]:
        """Return begin and end of the gaps between blocked steps; ``blocked`` counts from step ``first``."""
        times = np.frombuffer(self.times, np.int64)
        begins = np.empty(len(blocked) + 1, np.int64)
        ends = np.empty(len(blocked) + 1, np.int64)
        begins[0] = times[first]
        ends[-1] = FOREVER_US
        after = blocked + (first + 1)
        ends[:-1] = times[after - 1]
        if len(after) and after[-1] == len(times):
            begins[1:-1] = times[after[:-1]]
            begins[-1] = FOREVER_US
        else:
            begins[1:] = times[after]
        return begins, ends


class OpenTimeline:
    """The steps of a `Timeline` in lists, for many changes: a number in an array is made anew each time it is read."""

    __slots__ = ("times", "values")

    def __init__(self, timeline: Timeline) -> None:
        self.times: list[int] = timeline.times.tolist()
        self.values: list[int] = timeline.values.tolist()

    def first_fit(self, first: int, before_us: int, need: int, span_us: int) -> int | None:
        """Return the first step from ``first`` on, and before an instant, with which a place could begin; None if there is none.

        What lies after that instant counts as free.
        """
        times = self.times
        last = bisect_left(times, before_us, first)
        start = first
        for step, value in enumerate(self.values[first:last], first):
            if value < need:
                if start < step and times[step] >= times[start] + span_us:
                    break
                start = step + 1
        return start if start < last else None

    def add(self, first: int, end_us: int, amount: int) -> tuple[int, int]:
        """Add an amount from a step up to ``end_us``; return the first step in which that is, and the first one after it."""
        times, values = self.times, self.values
        last = bisect_left(times, end_us, first) if end_us < FOREVER_US else len(times)
        before = values[last - 1]
        if last - first == 1:
            values[first] += amount
        else:
            values[first:last] = [value + amount for value in values[first:last]]
        if last < len(times) and times[last] == end_us:
            if values[last] == values[last - 1]:
                del values[last], times[last]
        elif end_us < FOREVER_US:
            times.insert(last, end_us)
            values.insert(last, before)
        if first and values[first] == values[first - 1]:
            del values[first], times[first]
            return first - 1, last - 1
        return first, last

    def cut(self, at_us: int) -> int:
        """Return the step that begins at ``at_us``, made if there is none."""
        times = self.times
        step = bisect_left(times, at_us)
        if step == len(times) or times[step] != at_us:
            times.insert(step, at_us)
            self.values.insert(step, self.values[step - 1])
        return step


def gaps_around(times: Sequence[int], values: Sequence[int], peak: int, needs: Sequence[int]) -> list[Gap]:
    """Return the room around a step for each of ``needs``, distinct and ascending, that it has: smaller and smaller ones.

    Needs with the same room share a gap. The last one is the widest.
    """
    steps = len(times)
    number = bisect_right(needs, values[peak])
    found: list[Gap] = []
    first = peak
    last = peak + 1
    while number:
        need = needs[number - 1]
        while first and values[first - 1] >= need:
            first -= 1
        while last < steps and values[last] >= need:
            last += 1
        above = values[first - 1] if first else -1
        if last < steps:
            end_us = times[last]
            above = max(above, values[last])
        else:
            end_us = FOREVER_US
        number -= 1
        found.append((number, above, times[first], end_us))
        number = bisect_right(needs, above, 0, number)
    return found


def peaks(values: Sequence[int], first: int, last: int) -> list[int]:
    """Return the steps with more than their neighbours, from ``first`` to before ``last``.

    Any interval around a step also contains one of them.
    """
    inner = values[first:last]
    return [
        first + step
        for step, value in enumerate(inner)
        if (step == 0 or inner[step - 1] < value) and (step + 1 == len(inner) or inner[step + 1] <= value)
    ]


Promise: TypeAlias = tuple[api.NoteValue, ...]
# Number of promises entered one by one; after these, batches grow as long as all promises can be kept.
_ONE_BY_ONE: Final = 8
_GROWTH: Final = 4


def start_of(promise: Promise) -> int:
    """Return the instant that was promised."""
    return cast(int, promise[0])


class Promises:
    """Promises made before, in queue order; thousands, of which most are only looked at in columns."""

    __slots__ = ("_pending", "_places", "_promises", "needs", "spans_us", "starts_us")

    def __init__(
        self,
        pending: Sequence[api.JobSpec],
        promises: Mapping[int, Promise],
        places: Sequence[int],
        needs: api.Ints,
        spans_us: api.Ints,
        starts_us: api.Ints,
    ) -> None:
        """``promises``: by job; ``places``: in the queue, of the jobs that have one, as the columns."""
        self._pending = pending
        self._promises = promises
        self._places = places
        self.needs = needs
        self.spans_us = spans_us
        self.starts_us = starts_us

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: int) -> tuple[api.JobSpec, Promise]:
        job = self._pending[self._places[number]]
        return job, self._promises[job.id]


# What was reserved must be lifted with the same promise. A job that starts as promised keeps its part: `follow` then compares what
# running jobs leave free, before and now.
class Profile(Protocol):
    """Answers when a job may start, given all promises."""

    timeline: Timeline  # the number of free threads or nodes over time: `need` is compared with it
    counts: ClassVar[bool]  # whether a job that fits by number fits
    lasting: ClassVar[bool]  # whether the need of a job is always the same

    def need(self, job: api.JobSpec) -> tuple[int, int]:
        """Return the least amount of `timeline` that the job takes, and for how long."""

    def earliest(self, job: api.JobSpec) -> Promise | None:
        """Return the first place in time from which ``job`` fits for its whole estimate; None if it never does."""

    def sooner(self, job: api.JobSpec, promise: Promise, since_us: int) -> Promise | None:
        """Return the first place from ``since_us`` on that is before the one that ``job`` has by ``promise``; None if there is none."""

    def fits(self, job: api.JobSpec, promise: Promise) -> bool:
        """Tell whether ``job`` fits there for its whole estimate."""

    def reserve(self, job: api.JobSpec, promise: Promise) -> None:
        """Take what ``job`` needs; it must fit."""

    def renew(self, past: Promises, work: api.Work) -> dict[int, Promise | None]:
        """Reserve promises, in order, and in place of each that does not fit the earliest one given those before it.

        Return the new ones by number: None where the job never fits, or the work allowed is spent.
        """

    def lift(self, job: api.JobSpec, promise: Promise) -> None:
        """Undo `reserve`."""

    def follow(self, before: Self, after: Self) -> list[Change] | None:
        """Advance to the present with the new running jobs; return the changes, or None if they conflict with a promise.

        ``before`` and ``after``: what running jobs leave free, by the plans before and now.
        """

    def offer(self, job: api.JobSpec, promise: Promise) -> api.Offer | None:
        """Return the job's place now; its promise must be for now."""

    def admits(self, occupancies: Sequence[api.Occupancy]) -> bool:
        """Tell whether these jobs, all on whole nodes from now on, find them free besides what is reserved."""

    def never(self, job: api.JobSpec) -> bool:
        """Tell whether the job cannot be put on this machine, empty and with all nodes in service."""


class CountProfile:
    """Free threads over time; on whole nodes, where every node has one core."""

    __slots__ = ("_placement", "_view", "timeline")
    counts: ClassVar[bool] = True
    lasting: ClassVar[bool] = True

    def __init__(self, view: api.View, placement: api.Placement) -> None:
        self._view = view
        self._placement = placement
        self.timeline = Timeline(view.free_steps())

    def need(self, job: api.JobSpec) -> tuple[int, int]:
        """Return the job's threads and its estimate."""
        return job.processes, job.estimate_us

    def earliest(self, job: api.JobSpec) -> Promise | None:
        """Return the first instant from which there is enough for the whole estimate."""
        start_us = self.timeline.earliest(*self.need(job))
        return None if start_us is None else (start_us,)

    def sooner(self, job: api.JobSpec, promise: Promise, since_us: int) -> Promise | None:
        """Return the first instant before the promised one from which there is enough."""
        need, span_us = self.need(job)
        timeline = self.timeline
        start_us = timeline.sooner(need, span_us, start_of(promise), timeline.step_at(since_us))
        return None if start_us is None else (start_us,)

    def fits(self, job: api.JobSpec, promise: Promise) -> bool:
        """Tell whether there is enough for the whole estimate."""
        need, span_us = self.need(job)
        start_us = start_of(promise)
        return start_us >= self._view.now_us and self.timeline.least(start_us, start_us + span_us) >= need

    def reserve(self, job: api.JobSpec, promise: Promise) -> None:
        """Take what the job needs."""
        need, span_us = self.need(job)
        start_us = start_of(promise)
        self.timeline.add(start_us, start_us + span_us, -need)

    def renew(self, past: Promises, work: api.Work) -> dict[int, Promise | None]:
        """Reserve promises, or the earliest start in place of each that does not fit: many at once, where all fit."""
        renewed: dict[int, Promise | None] = {}
        done, size = 0, _ONE_BY_ONE
        while done < len(past):
            until = min(done + size, len(past))
            if size > _ONE_BY_ONE and self._reserve_at_once(past, slice(done, until)):
                done = until
                size *= _GROWTH
            else:
                done = self._renew_one_by_one(past, done, work, renewed)
                size = _ONE_BY_ONE * _GROWTH
        return renewed

    def _renew_one_by_one(self, past: Promises, first: int, work: api.Work, renewed: dict[int, Promise | None]) -> int:
        """Reserve promises from number ``first`` on, until several in a row fit; return the number of the next one.

        What is in ``renewed``, new promises by number, is extended.
        """
        steps, now_us = OpenTimeline(self.timeline), self._view.now_us
        times, values = steps.times, steps.values
        kept = 0
        columns = (past.needs[first:].tolist(), past.spans_us[first:].tolist(), past.starts_us[first:].tolist())
        for done, (need, span_us, start_us) in enumerate(zip(*columns, strict=True), first):
            at = bisect_right(times, start_us) - 1
            if start_us >= now_us and min(values[at : bisect_left(times, start_us + span_us, at)]) >= need:
                kept += 1
                at = steps.cut(start_us)
            else:
                kept = 0
                found = None if work.spent else steps.first_fit(0, FOREVER_US, need, span_us)
                if found is None:
                    renewed[done] = None
                    continue
                work.pay(api.prices.PROMISE)
                at = found
                renewed[done] = (times[at],)
            steps.add(at, times[at] + span_us, -need)
            if kept == _ONE_BY_ONE:
                break
        self.timeline.replace(times, values)
        return done + 1

    def lift(self, job: api.JobSpec, promise: Promise) -> None:
        """Give back what the job needs."""
        need, span_us = self.need(job)
        start_us = start_of(promise)
        self.timeline.add(start_us, start_us + span_us, need)

    def follow(self, before: CountProfile, after: CountProfile) -> list[Change] | None:
        """Advance to the present with the new running jobs; None if there would be less than promised."""
        timeline = self.timeline
        now_us = self._view.now_us
        timeline.advance(now_us)
        before.timeline.advance(now_us)
        changes = after.timeline.changes(before.timeline)
        for change in changes:
            timeline.add(*change)
            if change.amount < 0 and timeline.least(change.start_us, change.end_us) < 0:
                return None
        return changes

    def offer(self, job: api.JobSpec, promise: Promise) -> api.Offer | None:
        """Return the job's place now, on threads or nodes that the placement chooses."""
        return self._placement.offer(job, api.snapshot_now(self._view))

    def admits(self, occupancies: Sequence[api.Occupancy]) -> bool:
        """Tell whether there are enough nodes. (Nodes that several jobs share count once.)"""
        nodes = 0
        # The longest first: others add only to its nodes while they last
        for occupancy in sorted(occupancies, reverse=True):
            nodes |= occupancy.nodes
            if self.timeline.least(self.timeline.times[0], occupancy.end_us) < nodes.bit_count():
                return False
        return True

    def never(self, job: api.JobSpec) -> bool:
        """Tell whether the job does not fit on this machine."""
        return self._placement.never(job, self._view)

    def _reserve_at_once(self, past: Promises, which: slice) -> bool:
        """Reserve the needs of all these jobs, if all fit."""
        starts_us = past.starts_us[which]
        if starts_us.min() < self._view.now_us:
            return False
        return self.timeline.add_all(starts_us, starts_us + past.spans_us[which], -past.needs[which])


class NodeProfile(CountProfile):
    """Free nodes over time, under a placement that knows how many a job takes."""

    __slots__ = ("_spread",)
    lasting = False  # a footprint may depend on the nodes in service

    def __init__(
        self, view: api.WholeNodesView, placement: api.NodePlacement, besides: Sequence[api.Occupancy] = ()
    ) -> None:
        """``besides``: further jobs, counted as if they ran from now on."""
        self._view = view
        self._placement = self._spread = placement
        self.timeline = Timeline((at_us, nodes.bit_count()) for at_us, nodes in view.steps(besides))

    def need(self, job: api.JobSpec) -> tuple[int, int]:
        """Return the job's nodes, and how long it takes on them; more than there are, if it has no place since it was modified."""
        footprint = self._spread.footprint(job, self._view)
        if footprint is None:
            return self._view.machine.nodes + 1, job.estimate_us
        return footprint.nodes, footprint.run_us

    def earliest(self, job: api.JobSpec) -> Promise | None:
        """Return the first instant from which there are enough nodes for the job's whole run time on them."""
        return None if self._spread.footprint(job, self._view) is None else super().earliest(job)


class FullNodeProfile(CountProfile):
    """Free nodes over time, all of as many cores, for plain jobs that fill each of their nodes but the last."""

    __slots__ = ("_cores",)

    def __init__(self, view: api.WholeNodesView, placement: api.Placement) -> None:
        self._view = view
        self._placement = placement
        self._cores = view.cores_per_node
        self.timeline = Timeline((at_us, nodes.bit_count()) for at_us, nodes in view.steps())

    def need(self, job: api.JobSpec) -> tuple[int, int]:
        """Return the job's nodes and its estimate."""
        return -(-job.processes // self._cores), job.estimate_us
