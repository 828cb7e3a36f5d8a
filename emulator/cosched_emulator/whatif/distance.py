"""How far a run of the whole log under the present policy is from what the log records: the waits of its jobs, and the idle processors.

All figures are of processors by counting: nodes, memory and GPUs of a site are not looked at. What they keep from starting shows as
processors that are idle while jobs wait, and as jobs that are held.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.scenario.machine import build_machine, cores_of
from cosched_emulator.scenario.reader import scenario_of_table
from cosched_emulator.statistics.intervals import Interval, mean_interval
from cosched_emulator.whatif.candidates import FORMULA
from cosched_emulator.whatif.question import Prepared
from cosched_emulator.whatif.waits import WEEK_S, FloatArray, Summary, classes_of, recorded_of, summary_of
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_hwmodel.units import SECOND_US

IntArray = NDArray[np.int64]
_PARTS: Final = 10  # of the log, over which the ratio's interval is made
_FEWEST: Final = 20  # jobs of a part, or of a week
PROCESSORS: Final = "processors"  # a kind of classes beside those of the log
_POINTS: Final = 4_096  # instants at which jobs that wait are looked at

# A baseline that is credible: the mean wait within a quarter, weeks that rise and fall as the recorded ones do, and most of them within
# a factor 2. A log of few weeks has jobs instead of weeks.
MOST_ERROR: Final = math.log(1.25)
LEAST_R: Final = 0.8
LEAST_WEEKS: Final = 0.75  # share within a factor 2
FEW_WEEKS: Final = 4


class Compared(NamedTuple):
    """The jobs of a log in order of submission, as they were recorded and as they ran; seconds, NaN: unknown, or none."""

    processors: int  # of the machine
    submit_s: FloatArray
    estimate_s: FloatArray
    size: IntArray  # processors
    recorded_s: FloatArray  # waits
    recorded_run_s: FloatArray
    simulated_s: FloatArray
    simulated_run_s: FloatArray
    classes: Mapping[str, Sequence[str]] = {}  # kind -> class of each job; empty: none


class ClassWait(NamedTuple):
    """The jobs of a class: mean waits in minutes, and in what share of their recorded wait enough processors were idle."""

    name: str
    jobs: int
    recorded: float
    simulated: float
    free_share: float  # NaN: they did not wait


class Distance(NamedTuple):
    """How far a run is from the record; shares are from 0 to 1, NaN: there is none."""

    jobs: int  # with a wait in both
    recorded: Summary
    simulated: Summary
    log_ratio: (
        Interval | None
    )  # logarithm of the ratio of the mean waits, over equal parts of the log; None: it has none
    spearman: float  # by job
    weekly_r: float  # of the mean waits by week, by Pearson
    weeks: int  # with enough jobs
    weeks_within_2: float  # share of them
    busy_recorded: float  # processors in use while jobs wait
    busy_simulated: float
    free_share: float  # of the recorded wait, as of a class
    held_share: float  # of the recorded wait, in which EASY would have started the job
    classes: Mapping[str, tuple[ClassWait, ...]]  # by kind; the most jobs first

    @property
    def ratio(self) -> float:
        """Return the simulated mean wait by the recorded one."""
        return self.simulated.mean / self.recorded.mean if self.recorded.mean else math.nan

    @property
    def error(self) -> float:
        """Return E, the logarithm of the ratio without its sign; infinite where only one of the mean waits is 0."""
        if self.recorded.mean == self.simulated.mean:
            return 0.0
        return abs(math.log(self.ratio)) if self.recorded.mean and self.simulated.mean else math.inf

    @property
    def error_most(self) -> float:
        """Return the largest E inside the interval; E itself where there is no interval."""
        found = self.log_ratio
        return max(abs(found.low), abs(found.high)) if found is not None and found.exists else self.error

    @property
    def why_not(self) -> tuple[str, ...]:
        """Return why the run is no credible baseline, in words; empty where it is one."""
        return tuple(_why_not(self))

    @property
    def credible(self) -> bool:
        """Tell whether a candidate may be compared with the run as if it were the site."""
        return not self.why_not


def _why_not(found: Distance) -> Iterator[str]:
    if not found.error_most <= MOST_ERROR:
        yield f"the mean wait may be off by a factor {math.exp(min(found.error_most, 700)):.3g} (at most {math.exp(MOST_ERROR):.3g})"
    if found.weeks < FEW_WEEKS:
        if not found.spearman >= LEAST_R:
            yield f"the order of the jobs' waits is another: r by job {found.spearman:.2f} (at least {LEAST_R})"
        return
    if not found.weekly_r >= LEAST_R:
        yield f"weeks rise and fall otherwise: r by week {found.weekly_r:.2f} (at least {LEAST_R})"
    if not found.weeks_within_2 >= LEAST_WEEKS:
        share, least = 100 * found.weeks_within_2, 100 * LEAST_WEEKS
        yield f"{share:.0f} % of the weeks are within a factor 2 (at least {least:.0f} %)"


# ---------------------------------------------------------------- from the whole run


def compared_of(prepared: Prepared) -> Compared | None:
    """Return the log beside its whole run; None where the log records no waits, or there is no such run."""
    recorded_s, whole = recorded_of(prepared), prepared.whole
    if whole is None or not whole.waits_s.size or not np.isfinite(recorded_s).any():
        return None
    jobs = columns_of(prepared.log.jobs)
    run_s = jobs.run_us.array / SECOND_US
    cluster = scenario_of_table({"cluster": prepared.hardware[FORMULA]["cluster"]}, {}).cluster
    return Compared(
        cores_of(build_machine(cluster)),
        jobs.submit_us.array / SECOND_US,
        jobs.estimate_us.array / SECOND_US,
        jobs.processes.array,
        recorded_s,
        run_s,
        whole.waits_s,
        whole.responses_s - whole.waits_s,
        {**classes_of(prepared), PROCESSORS: size_names(jobs.processes.array)},
    )


def size_names(size: IntArray) -> list[str]:
    """Return the class of each size: powers of 4."""
    powers = 4 ** np.ceil(np.log2(size) / 2 - 1e-9).astype(np.int64)
    names = {power: f"up to {power:,}" for power in np.unique(powers).tolist()}
    return [names[power] for power in powers.tolist()]


def distance_to_record(prepared: Prepared) -> Distance | None:
    """Return how far the whole run is from the record; None where that cannot be checked."""
    compared = compared_of(prepared)
    return None if compared is None else distance_of(compared)


def distance_of(compared: Compared) -> Distance | None:
    """Return how far the run is from the record; None unless some job has a wait in both."""
    both = np.isfinite(compared.recorded_s) & np.isfinite(compared.simulated_s)
    recorded_s, simulated_s = compared.recorded_s[both], compared.simulated_s[both]
    recorded, simulated = summary_of(recorded_s), summary_of(simulated_s)
    if recorded is None or simulated is None:
        return None
    record, run = (
        Held.of(compared, waits_s, run_s)
        for waits_s, run_s in (
            (compared.recorded_s, compared.recorded_run_s),
            (compared.simulated_s, compared.simulated_run_s),
        )
    )
    free_s = np.full(len(both), np.nan)
    free_s[record.rows] = record.free_s()
    weeks = np.array([*_weeks(compared.submit_s[both], recorded_s, simulated_s)]).reshape(-1, 2)
    return Distance(
        len(recorded_s),
        recorded,
        simulated,
        log_ratio(recorded_s, simulated_s),
        correlation(ranks_of(recorded_s), ranks_of(simulated_s)),
        correlation(*weeks.T) if len(weeks) > 2 else math.nan,
        len(weeks),
        float(_within_2(*weeks.T).mean()) if len(weeks) else math.nan,
        record.busy_share(),
        run.busy_share(),
        _share(free_s, compared.recorded_s),
        record.held_share(),
        {kind: _class_waits(names, both, compared, free_s) for kind, names in compared.classes.items()},
    )


def log_ratio(recorded_s: FloatArray, simulated_s: FloatArray) -> Interval | None:
    """Return the logarithm of the ratio of the means, with an interval over equal parts of the log; None where a mean is 0.

    By the jackknife: each part is left out once, and n times the whole's less n - 1 times the rest's varies as the estimate does
    (Tukey 1958). The mean of the parts' own logarithms would be about another quantity: a quiet part counts in it as a busy one.
    """
    count = min(_PARTS, len(recorded_s) // _FEWEST)
    if count < 2:
        return None
    bounds = np.linspace(0, len(recorded_s), count + 1).astype(np.int64)[:-1]
    sums = [np.add.reduceat(each, bounds) for each in (simulated_s, recorded_s)]
    rests = [each.sum() - each for each in sums]
    if min(each.min() for each in rests) <= 0:  # and with it every sum is above 0
        return None
    whole = math.log(sums[0].sum() / sums[1].sum())
    pseudo = count * whole - (count - 1) * np.log(rests[0] / rests[1])
    found = mean_interval(pseudo.tolist())
    return found._replace(mean=whole, low=found.low - found.mean + whole, high=found.high - found.mean + whole)


def _weeks(submit_s: FloatArray, *waits_s: FloatArray) -> Iterator[tuple[float, ...]]:
    """Yield the mean waits of each week with enough jobs."""
    weeks = (submit_s // WEEK_S).astype(np.int64)
    jobs = np.bincount(weeks)
    means = [np.bincount(weeks, weights=each) / np.maximum(jobs, 1) for each in waits_s]
    for week in np.flatnonzero(jobs >= _FEWEST).tolist():
        yield tuple(float(each[week]) for each in means)


def _within_2(one: FloatArray, other: FloatArray) -> NDArray[np.bool_]:
    within: NDArray[np.bool_] = (one <= 2 * other) & (other <= 2 * one)
    return within


def correlation(one: FloatArray, other: FloatArray) -> float:
    """Return Pearson's r; NaN where one of them is the same everywhere."""
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(np.corrcoef(one, other)[0, 1])


def ranks_of(values: FloatArray) -> FloatArray:
    """Return the ranks of values, equal ones sharing the mean of theirs: Pearson's r of ranks is Spearman's."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: FloatArray = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def _class_waits(
    names: Sequence[str], both: NDArray[np.bool_], compared: Compared, free_s: FloatArray
) -> tuple[ClassWait, ...]:
    distinct, places = np.unique(np.array(names)[both], return_inverse=True)
    jobs = np.bincount(places)
    known = (compared.recorded_s, compared.simulated_s, np.nan_to_num(free_s))
    recorded, simulated, free = (np.bincount(places, weights=each[both]) for each in known)
    found = [
        ClassWait(
            name, int(jobs[at]), *((each[at] / jobs[at] / 60).item() for each in (recorded, simulated)),
            (free[at] / recorded[at]).item() if recorded[at] else math.nan,
        )
        for at, name in enumerate(distinct.tolist()) if name
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: -one.jobs))


def _share(part_s: FloatArray, whole_s: FloatArray) -> float:
    whole = float(np.nansum(whole_s))
    return float(np.nansum(part_s)) / whole if whole else math.nan


# ---------------------------------------------------------------- who held processors while others waited


class Held(NamedTuple):
    """Which jobs waited for, and held, processors when: those whose wait is known, in order of submission.

    Times are in whole microseconds, so that ends meet starts.
    """

    processors: int
    rows: IntArray  # of the log
    submit_us: IntArray
    start_us: IntArray
    end_us: IntArray
    ends_by_us: IntArray  # as the user said
    size: IntArray
    now_us: IntArray  # instants at which something changes
    idle: IntArray  # processors, from each instant on
    waiting: IntArray  # jobs, likewise

    @classmethod
    def of(cls, compared: Compared, waits_s: FloatArray, run_s: FloatArray) -> Held:
        """Return the jobs that waited so long, and ran so long."""
        rows = np.flatnonzero(np.isfinite(waits_s) & np.isfinite(run_s))
        submit_us, wait_us, run_us, estimate_us = (
            np.rint(each[rows] * SECOND_US).astype(np.int64)
            for each in (compared.submit_s, waits_s, run_s, compared.estimate_s)
        )
        start_us, size = submit_us + wait_us, compared.size[rows]
        end_us = start_us + run_us
        now_us = np.unique(np.concatenate([submit_us, start_us, end_us]))

        def sums(changes: tuple[tuple[IntArray, Any], ...]) -> IntArray:
            total = np.zeros(len(now_us), dtype=np.int64)
            for times_us, change in changes:
                np.add.at(total, np.searchsorted(now_us, times_us), change)
            return np.cumsum(total)

        used = sums(((start_us, size), (end_us, -size)))
        waiting = sums(((submit_us, 1), (start_us, -1)))
        times = (submit_us, start_us, end_us, start_us + estimate_us)
        return cls(compared.processors, rows, *times, size, now_us, compared.processors - used, waiting)

    @property
    def lasts_us(self) -> IntArray:
        """Return how long each instant's state lasts; that of the last one does not."""
        return np.append(np.diff(self.now_us), 0)

    def busy_share(self) -> float:
        """Return the share of the processors in use while jobs wait."""
        while_us = np.where(self.waiting > 0, self.lasts_us, 0).astype(np.float64)
        used = (self.processors - self.idle).clip(0, self.processors)
        return float(used @ while_us / (self.processors * while_us.sum())) if while_us.any() else math.nan

    def free_s(self) -> FloatArray:
        """Return for how long of its wait each job could have had its processors, in seconds: so many were idle."""
        first, last = (np.searchsorted(self.now_us, each) for each in (self.submit_us, self.start_us))
        lasts_us, found = self.lasts_us, np.zeros(len(self.size))
        for size in np.unique(self.size[last > first]).tolist():
            until_us = np.concatenate([[0], np.cumsum(np.where(self.idle >= size, lasts_us, 0))])
            own = np.flatnonzero((self.size == size) & (last > first))
            found[own] = (until_us[last[own]] - until_us[first[own]]) / SECOND_US
        return found

    def held_share(self) -> float:
        """Return the share of the wait in which EASY, asked at the last change before, would start the job.

        At instants that are evenly spread over the wait of all jobs together.
        """
        wait_us = np.cumsum(self.waiting * self.lasts_us.astype(np.float64))
        if not len(wait_us) or wait_us[-1] <= 0:
            return math.nan
        points = (np.arange(_POINTS) + 0.5) * (wait_us[-1] / _POINTS)
        places, points_at = np.unique(np.searchsorted(wait_us, points), return_counts=True)
        order = np.argsort(self.start_us, kind="stable")
        began, latest_end, latest_start = (
            self.start_us[order],
            np.maximum.accumulate(self.end_us[order]),
            np.maximum.accumulate(self.start_us),
        )
        held = 0.0
        for place, count in zip(places.tolist(), points_at.tolist(), strict=True):
            now_us = int(self.now_us[place])
            running = order[np.searchsorted(latest_end, now_us, "right") : np.searchsorted(began, now_us, "right")]
            running = running[self.end_us[running] > now_us]
            last = np.searchsorted(self.submit_us, now_us, "right")
            queue = np.arange(np.searchsorted(latest_start, now_us, "right"), last)
            queue = queue[self.start_us[queue] > now_us]
            held += count * self._would_start(now_us, int(self.idle[place]), running, queue) / len(queue)
        return held / _POINTS

    def _would_start(self, now_us: int, idle: int, running: IntArray, queue: IntArray) -> int:
        """Return how many jobs of the queue EASY would start, beside those that run."""
        size = self.size[queue]
        if idle < size.min():
            return 0
        fits = int(np.searchsorted(np.cumsum(size), idle, "right"))  # from the head on
        if fits == len(queue):
            return fits
        idle -= int(size[:fits].sum())
        estimate_us = self.ends_by_us - self.start_us
        ends_us = np.concatenate([self.ends_by_us[running].clip(now_us), now_us + estimate_us[queue[:fits]]])
        order = np.argsort(ends_us, kind="stable")
        freed = idle + np.cumsum(np.concatenate([self.size[running], size[:fits]])[order])
        at = int(np.searchsorted(freed, size[fits]))
        if at == len(freed):  # it is larger than the machine
            shadow_us, extra = math.inf, 0
        else:
            shadow_us = int(ends_us[order[at]])
            last = int(np.searchsorted(ends_us[order], shadow_us, "right")) - 1
            extra = int(freed[last]) - int(size[fits])
        started = fits
        for job, before in zip(
            size[fits + 1 :].tolist(), (now_us + estimate_us[queue[fits + 1 :]] <= shadow_us).tolist(), strict=True
        ):
            if job <= idle and (before or job <= extra):
                started += 1
                idle -= job
                extra -= 0 if before else job
                if not idle:
                    break
        return started
