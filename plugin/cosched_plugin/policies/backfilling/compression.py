"""Compression of promises: which jobs get a turn to move to an earlier start, and what their turns may cost.

A turn of a job that cannot start sooner changes nothing, so only jobs that can move get one. Once no job can move, a job can start
sooner only in room that includes something freed since: by a job that ended early, or by one that has moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cosched_plugin.api import Bools, Ints, Work, prices
from cosched_plugin.policies.backfilling.queue_columns import QueueColumns
from cosched_plugin.policies.planning.profile import Profile
from cosched_plugin.policies.planning.timeline import Change

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
