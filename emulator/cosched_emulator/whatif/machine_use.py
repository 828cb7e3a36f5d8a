"""Who held processors while others waited: the starts and ends of a log, or of a run, replayed; and whom EASY would have started then.

Processors are counted: nodes, memory and GPUs are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.units import SECOND_US

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
_POINTS: Final = 4_096  # instants at which jobs that wait are looked at


class Look(NamedTuple):
    """One instant: rows of `MachineUse`."""

    at_us: int  # the last change before
    idle: int  # processors
    running: IntArray
    queue: IntArray  # jobs that wait, in order of submission
    startable: IntArray  # places in the queue of those that EASY would start


class MachineUse(NamedTuple):
    """Jobs whose wait is known, in order of submission; times in whole microseconds, so that ends meet starts."""

    processors: int
    rows: IntArray  # of the log
    submit_us: IntArray
    start_us: IntArray
    end_us: IntArray
    estimate_us: IntArray
    size: IntArray
    now_us: IntArray  # instants at which something changes
    idle: IntArray  # processors, from each instant on; below 0 where more ran at once than there are
    waiting: IntArray  # jobs, likewise

    @classmethod
    def of(cls, processors: int, rows: IntArray, size: IntArray, *times_us: IntArray) -> MachineUse:
        """Return the use of a machine; times: submission, start, end, and the user's estimate."""
        submit_us, start_us, end_us, estimate_us = times_us
        now_us = np.unique(np.concatenate([submit_us, start_us, end_us]))

        def sums(*changes: tuple[IntArray, Any]) -> IntArray:
            total = np.zeros(len(now_us), dtype=np.int64)
            for times, change in changes:
                np.add.at(total, np.searchsorted(now_us, times), change)
            return np.cumsum(total)

        used = sums((start_us, size), (end_us, -size))
        waiting = sums((submit_us, 1), (start_us, -1))
        return cls(processors, rows, submit_us, start_us, end_us, estimate_us, size, now_us, processors - used, waiting)

    @property
    def lasts_us(self) -> IntArray:
        """Return how long each instant's state lasts; that of the last one does not."""
        return np.append(np.diff(self.now_us), 0)

    @property
    def used(self) -> IntArray:
        """Return the processors in use from each instant on."""
        return (self.processors - self.idle).clip(0, self.processors)

    def busy_share(self) -> float:
        """Return the share of the processors in use while jobs wait; NaN: none ever waits."""
        while_us = np.where(self.waiting > 0, self.lasts_us, 0).astype(np.float64)
        return float(self.used @ while_us / (self.processors * while_us.sum())) if while_us.any() else math.nan

    def free_s(self) -> FloatArray:
        """Return for how long of its wait each job could have had its processors, in seconds: so many were idle."""
        first, last = (np.searchsorted(self.now_us, each) for each in (self.submit_us, self.start_us))
        lasts_us, found = self.lasts_us, np.zeros(len(self.size))
        for size in np.unique(self.size[last > first]).tolist():
            until_us = np.concatenate([[0], np.cumsum(np.where(self.idle >= size, lasts_us, 0))])
            own = np.flatnonzero((self.size == size) & (last > first))
            found[own] = (until_us[last[own]] - until_us[first[own]]) / SECOND_US
        return found

    def most_at_once(self, owners: IntArray, weights: IntArray | None = None, *, asked: bool = False) -> IntArray:
        """Return how many jobs of each owner, numbered from 0, ran at once at most; with ``asked`` also those that waited.

        ``owners``: of each job. ``weights``: what counts instead of each job, such as its size.
        """
        count = np.ones(len(owners), dtype=np.int64) if weights is None else weights
        begin_us = self.submit_us if asked else self.start_us
        whose = np.concatenate([owners, owners])
        change = np.concatenate([count, -count])
        order = np.lexsort((change, np.concatenate([begin_us, self.end_us]), whose))  # at one instant ends come first
        sums = np.cumsum(change[order])
        return np.maximum.reduceat(sums, np.searchsorted(whose[order], np.arange(int(owners.max()) + 1)))

    def looks_by_wait(self) -> Iterator[tuple[Look, int]]:
        """Yield instants that are evenly spread over the wait of all jobs together, and how many of those each stands for."""
        wait_us = np.cumsum(self.waiting * self.lasts_us.astype(np.float64))
        if len(wait_us) and wait_us[-1] > 0:
            points = (np.arange(_POINTS) + 0.5) * (wait_us[-1] / _POINTS)
            places, counts = np.unique(np.searchsorted(wait_us, points), return_counts=True)
            yield from zip(self.looks(places), counts.tolist(), strict=True)

    def looks_by_time(self, points: int) -> Iterator[tuple[float, Look]]:
        """Yield instants that are evenly spread over the log's time, each with its time in microseconds, where jobs wait."""
        times_us = np.linspace(self.now_us[0], self.now_us[-1], points, endpoint=False)
        places = np.searchsorted(self.now_us, times_us, "right") - 1
        some = self.waiting[places] > 0
        yield from zip(times_us[some].tolist(), self.looks(places[some]), strict=True)

    def looks(self, places: IntArray) -> Iterator[Look]:
        """Yield how things stand from these instants on, places of ``now_us`` at which jobs wait."""
        order = np.argsort(self.start_us, kind="stable")
        began = self.start_us[order]
        latest_end = np.maximum.accumulate(self.end_us[order])
        latest_start = np.maximum.accumulate(self.start_us)
        for place in places.tolist():
            now_us = int(self.now_us[place])
            running = order[np.searchsorted(latest_end, now_us, "right") : np.searchsorted(began, now_us, "right")]
            running = running[self.end_us[running] > now_us]
            last = np.searchsorted(self.submit_us, now_us, "right")
            queue = np.arange(np.searchsorted(latest_start, now_us, "right"), last)
            queue = queue[self.start_us[queue] > now_us]
            idle = int(self.idle[place])
            yield Look(now_us, idle, running, queue, self._startable(now_us, idle, running, queue))

    def startable(self, look: Look, out: int, until_us: float) -> IntArray:
        """Return the places in the queue of the jobs that EASY would start then, if so many idle processors were out of service.

        They return at ``until_us``, as EASY knows; where that is infinite, it expects them never.
        """
        return self._startable(look.at_us, look.idle - out, look.running, look.queue, (until_us, out))

    def starts(self) -> IntArray:
        """Return when jobs that waited start: at most so many instants, evenly spread over all."""
        times_us = np.unique(self.start_us[self.start_us > self.submit_us])
        return times_us[np.linspace(0, len(times_us) - 1, min(_POINTS, len(times_us))).astype(np.int64)]

    def out_of_turn(self, times_us: IntArray, out: Sequence[int] = (), until_us: float = math.inf) -> float:
        """Return the share of the starts at these instants that EASY would not have made then; NaN: there are none.

        ``out``: processors out of service at each, until ``until_us``, as of `startable`.
        """
        begun = others = 0
        for at, look in enumerate(self.looks(np.searchsorted(self.now_us, times_us))):
            now = np.flatnonzero(self.start_us == look.at_us)  # those, and what they hold, are still to come
            queue = np.sort(np.concatenate([look.queue, now]))
            running = look.running[self.start_us[look.running] < look.at_us]
            absent = out[at] if out else 0
            idle = look.idle + int(self.size[now[self.end_us[now] > look.at_us]].sum()) - absent
            turn = queue[self._startable(look.at_us, idle, running, queue, (until_us, absent))]
            begun += len(now)
            others += len(now) - len(np.intersect1d(now, turn))
        return others / begun if begun else math.nan

    def _startable(
        self, now_us: int, idle: int, running: IntArray, queue: IntArray, out: tuple[float, int] = (math.inf, 0)
    ) -> IntArray:
        """Return the places in the queue of the jobs that EASY would start, beside those that run; ``out``: return, processors."""
        back, absent = out
        if absent and not math.isfinite(back):  # EASY passes over what is larger than all that it has
            able = np.flatnonzero(self.size[queue] <= self.processors - absent)
            return able[self._startable(now_us, idle, running, queue[able])]
        size, estimate_us = self.size[queue], self.estimate_us[queue]
        if not len(queue) or idle < size.min():
            return np.empty(0, dtype=np.int64)
        fits = int(np.searchsorted(np.cumsum(size), idle, "right"))  # from the head on
        started = [*range(fits)]
        if fits < len(queue):
            idle -= int(size[:fits].sum())
            expected_us = (self.start_us[running] + self.estimate_us[running]).clip(now_us)  # an overdue job ends now
            again = np.full(int(math.isfinite(back)), back if math.isfinite(back) else 0, dtype=np.int64)
            ends_us = np.concatenate([expected_us, now_us + estimate_us[:fits], again])
            held = np.concatenate([self.size[running], size[:fits], np.full(len(again), absent)])
            shadow_us, extra = _reservation(idle, int(size[fits]), ends_us, held)
            before = (now_us + estimate_us <= shadow_us).tolist()
            for place, wanted in enumerate(size[fits + 1 :].tolist(), fits + 1):
                if wanted <= idle and (before[place] or wanted <= extra):
                    started.append(place)
                    idle -= wanted
                    extra -= 0 if before[place] else wanted
                    if not idle:
                        break
        return np.array(started, dtype=np.int64)


def _reservation(idle: int, head: int, ends_us: IntArray, held: IntArray) -> tuple[float, int]:
    """Return EASY's shadow time of a head that does not fit, and the processors that it leaves over then."""
    order = np.argsort(ends_us, kind="stable")
    ends_us, freed = ends_us[order], idle + np.cumsum(held[order])
    at = int(np.searchsorted(freed, head))
    if at == len(freed):  # it is larger than the machine
        return math.inf, 0
    last = int(np.searchsorted(ends_us, ends_us[at], "right")) - 1
    return float(ends_us[at]), int(freed[last]) - head
