"""Which pending jobs may start sooner than promised: those with more room than before, found without a search for each.

Promises are columns by place in the queue, so that one array operation examines all of them. When a job has moved, only those can
follow that meet the room it leaves: `MovableJobs.add_by` finds them. Where a job that fits by number fits (`CountedJobs`), that room
is a few steps of the timeline. From its greatest value, the room for smaller needs is a row of wider and wider *gaps*. A job can use
one if it is short enough, or if the gap reaches its own start, so that the job slides.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cosched_plugin.api import Bools, Ints, Work, prices
from cosched_plugin.policies.planning.profile import (
    FOREVER_US,
    Change,
    OpenTimeline,
    Profile,
    Timeline,
    gaps_around,
    peaks,
)

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
        """Enter promises."""
        self.needs[places] = needs
        self.spans_us[places] = spans_us
        self.starts_us[places] = starts_us

    def forget(self, place: int) -> None:
        """Remove a promise."""
        self.starts_us[place] = _UNPROMISED
        self.unsure[place] = False

    def unpromised(self) -> list[int]:
        """Return the places of the jobs that have no promise."""
        found: list[int] = np.flatnonzero(self.starts_us == _UNPROMISED).tolist()
        return found

    def promised(self) -> list[int]:
        """Return the places of the jobs that have a promise."""
        found: list[int] = np.flatnonzero(self.starts_us != _UNPROMISED).tolist()
        return found

    def due(self, at_us: int) -> list[int]:
        """Return the places of the jobs that are promised to start at that instant."""
        found: list[int] = np.flatnonzero(self.starts_us == at_us).tolist()
        return found

    def startable(self, timeline: Timeline, first: int) -> list[int]:
        """Return the places, from place ``first`` on, of the jobs with a later promise that could start now, by number."""
        later = first + np.flatnonzero(
            (self.starts_us > timeline.times[0])[first:] & (self.needs[first:] <= timeline.values[0])
        )
        fits = timeline.fits_first(self.needs[later], self.spans_us[later], self.starts_us[later])
        found: list[int] = later[fits].tolist()
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


# Which jobs get a turn to move to an earlier start, and what their turns may cost.
#
# A turn of a job that cannot start sooner changes nothing, so only jobs that can move get one. Once no job can move, a
# job can start sooner only in room that includes something freed since: by a job that ended early, or by one that has
# moved.

FEW: Final = 32  # with a budget, number of jobs in the first batch examined; batches grow
MANY_STEPS: Final = 64  # a change of more steps is not examined step by step
MANY_LOOKS: Final = 1 << 13  # from this many steps for all jobs on it pays to examine those with equal needs together
MANY_CHANGES: Final = 5  # from this change of a pass on it pays to know the least spans
BLOCKS: Final = 64  # of starts, in that table


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
        if not work.limited:
            return True
        if work.left <= self._rest:
            work.cut = True
            return False
        return work.pay(prices.TURN)


class MovableJobs:
    """The jobs that may start sooner than promised, and the instant from which each may have room."""

    __slots__ = ("_columns", "_move", "_profile", "_since_us", "moved")

    def __init__(self, columns: QueueColumns, profile: Profile, move: Callable[[int, int], Change | None]) -> None:
        """``columns`` and ``profile``: the promises, and the profile that they leave; both may change while this object is in use.

        ``move(place, since_us)`` moves one job and returns the room it leaves.
        """
        self._columns = columns
        self._profile = profile
        self._move = move
        self.moved: dict[int, int] = {}  # starts, by place, that are not yet entered as promises
        self._since_us: dict[int, int] = {}  # by place in the queue

    @property
    def places(self) -> list[int]:
        """Return the jobs' places in the queue, ascending."""
        return sorted(self._since_us)

    def turn(self, place: int) -> Sequence[int]:
        """Give a job a turn: move it if it still can. Return the jobs that can move now, and could not before."""
        freed = self._move(place, self._since_us.pop(place))
        return () if freed is None else self.add_by(freed)

    def give_back(self) -> None:
        """Leave the jobs that have had no turn to the next compression."""
        self._columns.unsure[list(self._since_us)] = True

    # A change after a job's own start helps, too: the job has some threads up to its end, but perhaps not the ones that it would need.
    def add_by(self, change: Change) -> list[int]:
        """Add the jobs that a change may let move, by number of threads or nodes; return those that are new."""
        columns, times = self._columns, self._profile.timeline.times
        meets = columns.starts_us + columns.spans_us > change.start_us
        return self._add_met(np.flatnonzero(meets & (columns.starts_us > times[0])), change)

    def add_unsure(self, now_us: int, turns: int | None) -> None:
        """Add the jobs that may be able to move but have not been examined: enough for ``turns`` turns, None: all.

        Turns must not depend on how jobs were found. Every job that can move is found, at least up to the last place that has a turn.
        """
        columns = self._columns
        unsure = np.flatnonzero(columns.unsure)
        size = len(unsure) if turns is None else FEW
        known = len(self._since_us)
        while len(unsure) and (turns is None or len(self._since_us) - known < turns):
            places, unsure = unsure[:size], unsure[size:]
            columns.unsure[places] = False
            self._add_any(places[columns.starts_us[places] > now_us])
            size *= 2

    def keep_certain(self, turns: int, can_move: Callable[[int, int], bool]) -> None:
        """Keep the first jobs that can move, as many as have turns, and drop the others.

        ``can_move(place, since_us)`` examines one job. The jobs that it does not examine stay marked as not examined.
        """
        found = 0
        for place in self.places:
            if found >= turns:
                self._columns.unsure[place] = True
            elif can_move(place, self._since_us[place]):
                found += 1
                continue
            del self._since_us[place]

    def _add_met(self, places: NDArray[np.intp], change: Change) -> list[int]:
        """Add those of these jobs, which a change meets, that have room anywhere before their start; return those that are new."""
        since_us = self._since_us
        known = [place for place in places.tolist() if place in since_us] if since_us else []
        if known:
            # They can move anyway, and search from the earliest start that overlaps the change.
            for place in known:
                meeting_us = change.start_us - int(self._columns.spans_us[place])
                since_us[place] = min(since_us[place], max(meeting_us, self._profile.timeline.times[0]))
            places = np.setdiff1d(places, known, assume_unique=True)
        return self._add_any(places)

    def _add_any(self, places: NDArray[np.intp]) -> list[int]:
        """Add those of these jobs for which there is room anywhere before their start; return their places."""
        columns = self._columns
        needs, spans_us, starts_us = columns.needs[places], columns.spans_us[places], columns.starts_us[places]
        found: list[int] = []
        for need in np.unique(needs).tolist():
            alike = needs == need
            soonest_us = self._profile.timeline.soonest(need, spans_us[alike], starts_us[alike])
            sooner = soonest_us < starts_us[alike]
            moving = places[alike][sooner].tolist()
            self._since_us.update(zip(moving, soonest_us[sooner].tolist(), strict=True))
            found += moving
        return found


# While jobs have turns the timeline is in lists (`_open`): a number in an array is made anew each time it is read, and a burst of
# thousands has a million turns. `give_back` must be called after the last turn: it puts them into the timeline.
class CountedJobs(MovableJobs):
    """The same where a job that fits by number fits."""

    __slots__ = (
        "_bits",
        "_by_start",
        "_changes",
        "_distinct",
        "_last",
        "_least",
        "_needs",
        "_open_us",
        "_row_of",
        "_rows",
        "_spans_us",
        "_starts_us",
        "_steps",
    )

    def __init__(self, columns: QueueColumns, profile: Profile, move: Callable[[int, int], Change | None]) -> None:
        super().__init__(columns, profile, move)
        self._last: int | None = None  # after the last place that may have a turn; None: all may
        self._changes = 0  # examined
        self._least: LeastSpans | None = None  # made when there are many changes
        # Made at the first change. By step of the timeline:
        self._steps = OpenTimeline(Timeline(()))
        # By place in the queue:
        self._needs: list[int] = []
        self._spans_us: list[int] = []
        self._starts_us: list[int] = []
        self._distinct: list[int] = []  # needs, ascending
        self._rows: Ints | None = None  # the needs' places in `_distinct`; made when asked for
        self._row_of: list[int] = []  # the same
        self._open_us = 0  # the present
        self._bits = 0  # that hold a place
        # Starts, from the present on, ascending; each with the job's place in its last bits
        self._by_start: list[int] = []

    def turn(self, place: int) -> Sequence[int]:
        """Give a job a turn: move it if it still can. Return the jobs that can move now, and could not before."""
        if not self._steps.times:
            self._open()
        steps = self._steps
        times, values = steps.times, steps.values
        need, span_us, own_us = self._needs[place], self._spans_us[place], self._starts_us[place]
        start = first = bisect_right(times, self._since_us.pop(place)) - 1
        end_us = times[first] + span_us
        if min(values[first : bisect_left(times, end_us if end_us < own_us else own_us, first)]) < need:
            found = steps.first_fit(first, own_us, need, span_us)
            if found is None:
                return ()
            start = found
        else:
            # What it could slide along was noted up to the room that a change left, and goes on where more is free.
            while start and values[start - 1] >= need:
                start -= 1
        at_us = times[start]
        end_us = at_us + span_us
        own_end_us = own_us + span_us
        # It keeps what it has on both sides of the move.
        until_us, after_us = (own_us, end_us) if end_us > own_us else (end_us, own_us)
        steps.add(start, until_us, -need)
        first, last = steps.add(steps.cut(after_us), own_end_us, need)
        self.moved[place] = self._starts_us[place] = self._columns.starts_us[place] = at_us
        by_start, bits = self._by_start, self._bits
        del by_start[bisect_left(by_start, own_us - self._open_us << bits | place)]
        insort(by_start, at_us - self._open_us << bits | place)
        return self._add_in_steps(first, last, after_us)

    # A job that starts before a change begins covers what it frees up to its own end, and needs it no longer.
    def add_by(self, change: Change) -> list[int]:
        """Add the jobs that a change lets move; return those that are new."""
        columns, timeline = self._columns, self._profile.timeline
        first, last = timeline.steps_in(change)
        if last - first > MANY_STEPS:
            most = timeline.most(change.start_us, change.end_us)
            meets = (columns.needs <= most) & (columns.starts_us > change.start_us)
            return self._add_met(np.flatnonzero(meets[: self._last]), change)
        if not self._steps.times:
            self._open()
        return self._add_in_steps(first, last, change.start_us)

    # The jobs that have a turn are the first ones that can move, as many as turns, and those that can move because of them and are
    # before the last of these. What happens to others is not followed: they count as not examined in the next compression.
    def add_unsure(self, now_us: int, turns: int | None) -> None:
        """Add the jobs that may be able to move but have not been examined, up to the last that may have one of ``turns`` turns."""
        columns, since_us = self._columns, self._since_us
        unsure = np.flatnonzero(columns.unsure).tolist()
        if turns is None:
            if len(unsure) * len(self._profile.timeline.times) > MANY_LOOKS:
                super().add_unsure(now_us, None)
                return
            turns = len(columns.unsure) + 1
        if unsure and not self._steps.times:
            self._open()
        known = self.places
        before = 0  # known ones
        found: dict[int, int] = {}
        for place in unsure:
            while before < len(known) and known[before] < place:
                before += 1
            if before + len(found) >= turns:
                break
            columns.unsure[place] = False
            if self._starts_us[place] <= now_us:
                continue
            step = self._steps.first_fit(0, self._starts_us[place], self._needs[place], self._spans_us[place])
            if step is not None:
                (since_us if place in since_us else found)[place] = self._steps.times[step]
        since_us.update(found)
        if len(since_us) >= turns > 0:
            self._last = self.places[turns - 1] + 1
            columns.unsure[self._last :] |= columns.starts_us[self._last :] != _UNPROMISED

    def give_back(self) -> None:
        """Leave the jobs that have had no turn to the next compression."""
        super().give_back()
        if self.moved:
            self._profile.timeline.replace(self._steps.times, self._steps.values)

    def _open(self) -> None:
        columns, timeline = self._columns, self._profile.timeline
        self._steps = OpenTimeline(timeline)
        promised = (columns.starts_us != _UNPROMISED).nonzero()[0]
        number = int(promised[-1]) + 1 if len(promised) else 0  # most of a long queue may have no promise yet
        self._starts_us = columns.starts_us[:number].tolist()
        self._needs = columns.needs[:number].tolist()
        self._spans_us = columns.spans_us[:number].tolist()
        self._bits = bits = number.bit_length()
        self._open_us = self._steps.times[0]
        self._distinct = np.unique(columns.needs[promised]).tolist()
        self._by_start = np.sort(columns.starts_us[promised] - self._open_us << bits | promised).tolist()

    # A job that could not move before the change, and can now, slides along or fits into room that the change has made. Where it
    # slides, what was in its way was just before its start, so its start lies in these steps or at their end.
    def _add_in_steps(self, first: int, last: int, after_us: int) -> list[int]:
        """Add the jobs with a start after ``after_us`` that more room in some steps lets move; return those that are new."""
        self._changes += 1
        if self._changes == MANY_CHANGES and self._last is None:
            self._least = LeastSpans(self._columns, self._distinct)
        times, values, by_start, bits = self._steps.times, self._steps.values, self._by_start, self._bits
        steps = len(times)
        freed_us = times[last] if last < steps else FOREVER_US
        open_us = self._open_us
        begin = bisect_left(by_start, after_us - open_us + 1 << bits)
        end = bisect_left(by_start, freed_us - open_us + 1 << bits, begin)
        found: list[int] = []
        if begin < end:
            since_us, mask = self._since_us, (1 << bits) - 1
            till = mask if self._last is None else self._last
            step = first
            for entry in by_start[begin:end]:
                start_us = (entry >> bits) + open_us
                while step + 1 < last and times[step + 1] < start_us:
                    step += 1
                place = entry & mask
                if place < till and values[step] >= self._needs[place]:
                    at_us = times[step]
                    known_us = since_us.get(place)
                    if known_us is None:
                        found.append(place)
                        since_us[place] = at_us
                    elif at_us < known_us:
                        since_us[place] = at_us
        if last - first == 1:
            if self._may_fit(first):
                self._add_fitting(first, after_us, found)
            return found
        for peak in peaks(values, first, last):
            if self._may_fit(peak):
                self._add_fitting(peak, after_us, found)
        return found

    def _may_fit(self, peak: int) -> bool:
        """Tell whether some job that starts later may be short enough for the room around a step."""
        times, values, distinct = self._steps.times, self._steps.values, self._distinct
        row = bisect_right(distinct, values[peak])
        if self._least is None or self._last is not None or not row:
            return row > 0
        steps = len(times)
        first = peak
        last = peak + 1
        spans_us: list[int] | None = None
        while row:
            row -= 1
            need = distinct[row]
            while first and values[first - 1] >= need:
                first -= 1
            while last < steps and values[last] >= need:
                last += 1
            if last == steps:
                return True
            end_us = times[last]
            if spans_us is None:
                spans_us = self._least.after(end_us)
            if spans_us[row] <= end_us - times[first]:
                return True
            above = values[last]
            if first and values[first - 1] > above:
                above = values[first - 1]
            row = bisect_right(distinct, above, 0, row)
        return False

    def _add_fitting(self, peak: int, after_us: int, found: list[int]) -> None:
        """Add the jobs with a start after ``after_us`` that are short enough for the room around a step; extend ``found``."""
        distinct, columns, starts_us, since_us = self._distinct, self._columns, self._starts_us, self._since_us
        widths_us = [-1] * (len(distinct) + 1)  # one more: jobs without a promise may need more
        begins_us = [0] * len(distinct)
        for number, above, begin_us, end_us in gaps_around(self._steps.times, self._steps.values, peak, distinct):
            for row in range(bisect_right(distinct, above, 0, number), number + 1):
                widths_us[row] = end_us - begin_us
                begins_us[row] = begin_us
        if self._rows is None:
            self._rows = np.searchsorted(distinct, columns.needs)
            self._row_of = self._rows.tolist()
        reach = slice(self._last)
        fitting = columns.spans_us[reach] <= np.array(widths_us)[self._rows[reach]]
        fitting &= columns.starts_us[reach] > after_us
        for place in fitting.nonzero()[0].tolist():
            begin_us = begins_us[self._row_of[place]]
            if begin_us < starts_us[place]:
                known_us = since_us.get(place)
                if known_us is None:
                    found.append(place)
                    since_us[place] = begin_us
                elif begin_us < known_us:
                    since_us[place] = begin_us


class LeastSpans:
    """The least span of all jobs with at most some need that start after some instant: whether any can fit into a gap.

    Jobs that have moved since are found where they were. As they start earlier now, none is missed.
    """

    __slots__ = ("_edges_us", "_spans_us")

    def __init__(self, columns: QueueColumns, needs: list[int]) -> None:
        """``needs``: all different ones, ascending."""
        promised = columns.starts_us != _UNPROMISED
        starts_us, spans_us = columns.starts_us[promised], columns.spans_us[promised]
        edges_us = np.sort(starts_us)[:: max(1, len(starts_us) // BLOCKS)]
        least = np.full((len(edges_us), len(needs)), FOREVER_US)
        row = np.searchsorted(needs, columns.needs[promised])
        block = np.searchsorted(edges_us, starts_us, side="right") - 1
        np.minimum.at(least, (block, row), spans_us)
        least = np.minimum.accumulate(least, axis=1)
        self._edges_us: list[int] = edges_us.tolist()
        self._spans_us: list[list[int]] = np.minimum.accumulate(least[::-1], axis=0)[::-1].tolist()

    def after(self, at_us: int) -> list[int]:
        """Return the least span for each need of the jobs that start after an instant, or a little before."""
        return self._spans_us[max(0, bisect_right(self._edges_us, at_us) - 1)]
