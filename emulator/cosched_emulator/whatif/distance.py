"""How far a run of the whole log under the present policy is from what the log records: the waits of its jobs, and the idle processors.

All figures are of processors by counting: nodes, memory and GPUs of a site are not looked at. What they keep from starting shows as
processors that are idle while jobs wait, and as jobs that are held.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.scenario.machine import build_machine, cores_of
from cosched_emulator.scenario.reader import scenario_of_table
from cosched_emulator.statistics.intervals import Interval, mean_interval
from cosched_emulator.whatif.candidates import FORMULA
from cosched_emulator.whatif.machine_use import FloatArray, IntArray, MachineUse
from cosched_emulator.whatif.question import Prepared
from cosched_emulator.whatif.waits import WEEK_S, Summary, classes_of, recorded_of, summary_of
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_hwmodel.units import SECOND_US

_PARTS: Final = 10  # of the log, over which the ratio's interval is made
_FEWEST: Final = 20  # jobs of a part, or of a week
PROCESSORS: Final = "processors"  # a kind of classes beside those of the log

# A baseline is credible if its mean wait is within a factor 2, and its weeks rise and fall as the recorded ones do; in a log of few
# weeks: its jobs. A candidate's change counts beyond E alone.
MOST_ERROR: Final = math.log(2)
LEAST_R: Final = 0.6
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
    log_ratio: Interval | None  # logarithm of the ratio of mean waits, over equal parts of the log
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
    def beyond(self) -> str:
        """Return the change of the mean wait above which a credible baseline can tell one."""
        return f"{100 * (math.exp(self.error_most) - 1):.0f} %"

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
        most = f"a factor of {math.exp(found.error_most):.3g}" if found.error_most < 100 else "any factor"
        yield f"the mean wait may be off by {most} (at most {math.exp(MOST_ERROR):.3g})"
    few = found.weeks < FEW_WEEKS
    if not (found.spearman if few else found.weekly_r) >= LEAST_R:
        told = f"by job {found.spearman:.2f}" if few else f"by week {found.weekly_r:.2f}"
        yield f"weekly waits rise and fall differently: r {told} (at least {LEAST_R})"


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


def distance_of(compared: Compared) -> Distance | None:
    """Return how far the run is from the record; None unless some job has a wait in both."""
    both = np.isfinite(compared.recorded_s) & np.isfinite(compared.simulated_s)
    recorded_s, simulated_s = compared.recorded_s[both], compared.simulated_s[both]
    recorded, simulated = summary_of(recorded_s), summary_of(simulated_s)
    if recorded is None or simulated is None:
        return None
    record, run = uses_of(compared)
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
        _held_share(record),
        {kind: _class_waits(names, both, compared, free_s) for kind, names in compared.classes.items()},
    )


def uses_of(compared: Compared) -> tuple[MachineUse, MachineUse]:
    """Return who held processors, and who waited, in the record and in the run."""
    return (
        _use_of(compared, compared.recorded_s, compared.recorded_run_s),
        _use_of(compared, compared.simulated_s, compared.simulated_run_s),
    )


def _use_of(compared: Compared, waits_s: FloatArray, run_s: FloatArray) -> MachineUse:
    rows = np.flatnonzero(np.isfinite(waits_s) & np.isfinite(run_s))
    submit_us, wait_us, run_us, estimate_us = (
        np.rint(each[rows] * SECOND_US).astype(np.int64)
        for each in (compared.submit_s, waits_s, run_s, compared.estimate_s)
    )
    start_us = submit_us + wait_us
    size = compared.size[rows]
    return MachineUse.of(compared.processors, rows, size, submit_us, start_us, start_us + run_us, estimate_us)


def _held_share(use: MachineUse) -> float:
    """Return the share of the wait in which EASY would start the job."""
    looks = [(count * len(look.startable) / len(look.queue), count) for look, count in use.looks_by_wait()]
    return math.fsum(held for held, _ in looks) / sum(count for _, count in looks) if looks else math.nan


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
    """Return Pearson's r; 1 where they are equal, else NaN where one of them is the same everywhere."""
    if len(one) > 1 and np.array_equal(one, other):
        return 1.0
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
    found = []
    for at, name in enumerate(distinct.tolist()):
        means = [float(each[at]) / int(jobs[at]) / 60 for each in (recorded, simulated)]
        share = float(free[at] / recorded[at]) if recorded[at] else math.nan
        found.append(ClassWait(name, int(jobs[at]), means[0], means[1], share))
    return tuple(sorted((one for one in found if one.name), key=lambda one: -one.jobs))


def _share(part_s: FloatArray, whole_s: FloatArray) -> float:
    whole = float(np.nansum(whole_s))
    return float(np.nansum(part_s)) / whole if whole else math.nan
