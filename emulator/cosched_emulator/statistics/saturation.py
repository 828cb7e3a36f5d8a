"""Whether a run is saturated: more work arrives than the machine can do, and the queue grows as long as jobs are submitted.

The mean wait of a saturated run says how long the run was, not how good the scheduler is. The tests look at the queue Q, the work of
the pending jobs, up to the last submission, in k batches of equal time: 20, or fewer so that each lasts whole cycles of the load, a
day or more (more than 10 to 30 batches gain little, and shorter ones depend on each other: Schmeiser 1982, Oper. Res. 30:556). Batches
are counted back from the last submission; what is left over of a cycle at the begin does not count. With parts of a cycle in them the
queue of the day would look like growth.

- *Does it grow?* The growth of Q over a batch, as mean over batches with its interval by Student's t (batch means: Law and Kelton
  1991, section 9.5.3). The first batch is left out: the machine begins empty, so that any queue grows at first. The spread of the
  growth is that of Q, or that of the work that comes, whichever is larger: a queue that stays near 0 hides how much the work varies.
  Grows: the interval is above 0.
- *Does it come back?* At the border, where exactly as much work arrives as is done, Q is a random walk reflected at 0, and its mean
  over the run is s √k · X: s is the standard deviation of the growth over a batch, X the integral of |Brownian motion| over [0, 1]
  (Takács 1993, Ann. Appl. Probab. 3:186). A queue that comes back to 0 is far shorter than that. As it may be long at noon and empty
  at night, its mean M over the batches is taken at eight times of a batch, and the least of these counts. Comes back: M / (s √k) is
  below its 5 % quantile at the border.
- *Are there enough jobs?* Where few jobs have much of the work, a run with too few of them looks idle. There are enough if one of two
  conditions holds. The sum of the work W of the jobs is near enough to normal: its skewness, Σ W³ / (Σ W²)^1.5 for jobs that come
  independently, is at most 1/5 (Cochran 1977, Sampling Techniques, section 2.15: n > 25 G²). Or the machine could have done more
  besides, at the rate at which it works while jobs wait, than the work falls short of its mean by in 5 % of runs: √(2 ln 20) standard
  deviations, a bound for sums of positive variables of whatever distribution (Boucheron, Lugosi and Massart 2013, section 2.1; the
  standard deviation is √Σ W², or that of the batches). Both take the upper ends of intervals of Σ W³ and Σ W², 2 standard errors
  above, as rare jobs decide these.

Saturated: it grows, and does not come back. Not saturated: it comes back, does not grow, and there are enough jobs. Otherwise it is
not shown: the run is too short, its load too close to the border, or rare jobs decide. As measured
(docs/results/appendix/saturation.md), at loads of .8 to .98 at most 0.5 % of 200 runs were called saturated, and at 1.02 to 1.1 at
most 5.5 % not saturated, also with lognormal and Pareto run times and with days and nights. Not covered: days that depend on each
other, as where jobs come in campaigns of weeks (give a longer cycle).

The quantiles of M / (s √k) are for s measured over k batches, and were found by 40,000 random walks each, of 96 steps a batch. Growth
is in units of work an hour.

The work of a job is processors · run time: what the machine has to do, in whatever order. The number of pending jobs, with 1 for each
job, shows less: it follows crowds of small jobs, while large jobs pile up.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from cosched_emulator.statistics.intervals import (
    LEVEL,
    BoolArray,
    FloatArray,
    Interval,
    Verdict,
    mean_interval,
    t_critical,
    verdict_above,
)

# When jobs were submitted and left the queue, checked once for everything that looks at a run over time.
#
# Times are seconds, in order of submission. NaN in ``start_s`` is a job that never started, NaN in ``end_s`` one that
# never ended; a job leaves the queue when it starts, or when it ends without a start (cancelled, rejected), or not at
# all within the run.


def left_queue(submit_s: FloatArray, start_s: FloatArray, end_s: FloatArray) -> FloatArray:
    """Return when each job left the queue, infinity where it did not.

    Raises ValueError for columns of different lengths or without jobs, submissions that are not finite or not in order, and a job that
    left before it came.
    """
    if not submit_s.shape == start_s.shape == end_s.shape or submit_s.ndim != 1 or submit_s.size == 0:
        raise ValueError("submissions, starts and ends are columns of the same length, of one job at least")
    if not np.isfinite(submit_s).all() or (np.diff(submit_s) < 0).any():
        raise ValueError("submissions are finite and in order of time")
    left_s = np.where(np.isnan(start_s), end_s, start_s)
    left_s = np.where(np.isnan(left_s), np.inf, left_s)
    if (left_s < submit_s).any():
        raise ValueError("a job starts and ends after its submission")
    return np.asarray(left_s, dtype=np.float64)


# The steady part of a run: which jobs at its begin and at its end do not count.
#
# - Warm-up: the machine begins empty, so the first jobs wait too little. Rule MSER-5 (White 1997, Simulation 69:323; White,
#   Cobb and Spratt 2000): of the waits in order of submission, means z of batches of 5; cut the d batches for which Σ (z -
#   mean of the rest)² / (number of the rest)² over the rest is smallest. Of the rules for one run it is among the most
#   reliable (Hoad, Robinson and Davies 2010, J. Oper. Res. Soc. 61:1389). At most half of the batches are cut, so that a
#   quiet time at the end is not taken for the steady state; where all of that half is to be cut, the run never settles.
# - Cool-down: after the last submission the queue drains, and jobs that are still pending then meet a machine without
#   arrivals (Frachtenberg and Feitelson 2005, JSSPP, LNCS 3834:257). Cut the jobs submitted within the last w seconds before
#   the last submission, w being the time that 95 % of the jobs after the warm-up waited at most. The cut is by submission: to
#   leave out the jobs that had not started would leave out the long waits.
#
# A job that never started has no wait and does not count for the rules.

BATCH: Final = 5  # jobs of a batch of MSER-5
_FEWEST: Final = 10  # batches that tell where a series settles
_KEPT: Final = 0.25  # of the jobs, at least
_WAITED: Final = 95  # percent of the jobs that do not wait into the drain


class SteadyPart(NamedTuple):
    """How many jobs to cut, by (submission, id): what a selection of metrics takes.

    Where ``found`` is False the run has no steady part: it is too short, or never settles, and no job counts.
    """

    warmup: int  # first jobs that do not count
    cooldown: int  # last ones
    jobs: int  # all
    found: bool

    @property
    def counted(self) -> int:
        """How many jobs count."""
        return self.jobs - self.warmup - self.cooldown

    def mask(self) -> BoolArray:
        """Return which jobs count, in order of submission."""
        row = np.arange(self.jobs)
        return (row >= self.warmup) & (row < self.jobs - self.cooldown)


def steady_part(submit_s: FloatArray, start_s: FloatArray, end_s: FloatArray) -> SteadyPart:
    """Return the steady part of a run. Times are seconds in order of submission; NaN: never started, never ended.

    No steady part is found if the waits never settle or less than a quarter of the jobs is left. A part that is found can still be
    one of a queue that grows: ask `saturation` too. Raises ValueError for columns that do not fit each other and submissions out of
    order.
    """
    left_queue(submit_s, start_s, end_s)
    jobs = submit_s.size
    started = np.flatnonzero(~np.isnan(start_s))
    wait_s = start_s[started] - submit_s[started]
    cut = warm_up(wait_s)
    if cut is None:
        return SteadyPart(jobs, 0, jobs, False)
    warmup = int(started[cut]) if cut else 0
    drain_s = float(np.percentile(wait_s[cut:], _WAITED))
    cooldown = jobs - int(np.searchsorted(submit_s, submit_s[-1] - drain_s, side="right")) if drain_s > 0 else 0
    if jobs - warmup - cooldown < _KEPT * jobs:
        return SteadyPart(jobs, 0, jobs, False)
    return SteadyPart(warmup, cooldown, jobs, True)


def warm_up(values: FloatArray, batch: int = BATCH) -> int | None:
    """Return how many values at the begin of a series MSER cuts, a multiple of ``batch``; None where half of them does not suffice.

    None too for fewer than 10 batches. Raises ValueError for a batch below 1.
    """
    if batch < 1:
        raise ValueError(f"a batch has 1 value or more, not {batch}")
    batches = values.size // batch
    if batches < _FEWEST:
        return None
    means = values[: batches * batch].reshape(batches, batch).mean(axis=1)
    means = means - means.mean()  # sums of squares lose fewer digits
    left = np.arange(batches, batches - batches // 2 - 1, -1)
    total = np.cumsum(means[::-1])[::-1][: left.size]
    squares = np.cumsum(means[::-1] ** 2)[::-1][: left.size]
    error = np.maximum(squares - total**2 / left, 0.0) / left.astype(np.float64) ** 2
    cut = int(error.argmin())
    return cut * batch if cut < left.size - 1 else None


DAY_S: Final = 86_400.0
HOUR_S: Final = 3_600.0
MOST_BATCHES: Final = 20
FEWEST_BATCHES: Final = 4
_PARTS: Final = 8  # of a batch, at whose ends the queue is looked at
_ROUNDING: Final = 1e-12  # of all work: a queue shorter than that is empty
# The 5 % quantile of the queue's least mean at one time of a batch / (s √k) at the border, by the number k of batches.
_BATCHES: Final = (4, 5, 6, 8, 10, 12, 16, 20)
_SHORTEST: Final = (0.157, 0.182, 0.195, 0.206, 0.208, 0.213, 0.212, 0.210)

_SKEWNESS: Final = 0.2  # of the sum of the work, from which on a normal distribution is too far off
# A sum of positive variables falls short of its mean by more standard deviations in 5 % of cases at most.
_SHORT: Final = math.sqrt(2 * math.log(20))
_ABOVE: Final = 2.0  # standard errors


class Saturation(NamedTuple):
    """Whether the queue of a run grew, and the figures that say so; lengths are in the unit of the jobs' work."""

    saturated: Verdict
    growth: Interval  # an hour, after the first batch; NaN where the run has too few batches
    first_half: float  # mean work in the queue, from the first submission to the middle
    second_half: float  # from there to the last submission
    relative_length: float  # M / (s √k): below `shortest` it comes back; NaN where there are too few batches
    shortest: float
    batches: int
    enough: bool  # whether the jobs say enough for a queue that comes back

    def __str__(self) -> str:
        """Return the finding in words."""
        words = {
            Verdict.YES: "saturated",
            Verdict.NO: "not saturated",
            Verdict.NOT_SHOWN: "not shown to be saturated or not",
        }
        halves = f"the queue holds {self.first_half:.6g} in the first half of the submissions, {self.second_half:.6g} in the second"
        return f"{words[self.saturated]}: {halves}; growth an hour {self.growth}"


def saturation(
    submit_s: FloatArray,
    start_s: FloatArray,
    end_s: FloatArray,
    work: FloatArray,
    cycle_s: float = DAY_S,
    level: float = LEVEL,
) -> Saturation:
    """Test whether a run is saturated. Times are seconds in order of submission; NaN: never started, never ended.

    ``work`` is what each job adds to the queue: processors · run time. ``cycle_s`` is the length of the load's cycle, 0 where it has
    none: batches are whole cycles, so that the queue of a day does not count as growth. A log whose gaps are multiplied has longer
    days. Below 4 batches nothing is shown. Raises ValueError for columns that do not fit each other, submissions out of order, and a
    negative cycle or work.
    """
    left_s = left_queue(submit_s, start_s, end_s)
    if work.shape != submit_s.shape or not (np.isfinite(work) & (work >= 0)).all():
        raise ValueError("work is a column of finite numbers, 0 or more, one for each job")
    if not (math.isfinite(cycle_s) and cycle_s >= 0):
        raise ValueError(f"a cycle has 0 seconds or more, not {cycle_s}")
    first_s, last_s = float(submit_s[0]), float(submit_s[-1])
    middle_s = (first_s + last_s) / 2
    halves = (
        _mean_queue(submit_s, left_s, work, first_s, middle_s),
        _mean_queue(submit_s, left_s, work, middle_s, last_s),
    )
    batches, length_s = _batches(last_s - first_s, cycle_s)
    if batches < FEWEST_BATCHES or last_s == first_s:
        unknown = Interval(math.nan, math.nan, math.nan, batches, level)
        return Saturation(Verdict.NOT_SHOWN, unknown, *halves, math.nan, math.nan, batches, False)
    edges_s = np.linspace(last_s - batches * length_s, last_s, batches * _PARTS + 1)
    arrived = _arrived(submit_s, work, edges_s)
    queue = arrived - _arrived(left_s, work, edges_s)
    queue[np.abs(queue) < _ROUNDING * work.sum()] = 0.0
    came = np.diff(arrived[::_PARTS])
    growth = _growth(queue[::_PARTS], came, length_s / HOUR_S, level)
    increments = queue[_PARTS:] - queue[:-_PARTS]  # of all batches that begin at one of the edges
    spread = math.sqrt(float((increments**2).mean()) * batches)
    mean = float(queue[1:].reshape(batches, _PARTS).mean(axis=0).min())
    relative = mean / spread if spread > 0 else 0.0 if not queue.any() else math.inf
    shortest = float(np.interp(batches, _BATCHES, _SHORTEST))
    spare = _capacity(start_s, end_s, work, edges_s, queue) * batches * length_s - float(came.sum())
    enough = _says_enough(work, spare, float(came.std(ddof=1)) * math.sqrt(batches))
    verdict = _verdict(growth, relative < shortest, enough)
    return Saturation(verdict, growth, *halves, relative, shortest, batches, enough)


def _batches(span_s: float, cycle_s: float) -> tuple[int, float]:
    """Return the number of batches in a span of time, and their length in seconds: whole cycles."""
    if not cycle_s:
        return MOST_BATCHES, span_s / MOST_BATCHES
    cycles = int(span_s // cycle_s)
    each = -(-cycles // MOST_BATCHES)
    return (cycles // each, each * cycle_s) if cycles else (0, cycle_s)


def _growth(queue: FloatArray, came: FloatArray, hours: float, level: float) -> Interval:
    """Return the growth of the queue an hour, after the first batch: of its length at the batches' ends, and the work that came."""
    found = mean_interval((np.diff(queue)[1:] / hours).tolist(), level)
    spread = float(came.std(ddof=1)) / hours / math.sqrt(found.n)
    half = max(found.half, t_critical(level, found.n - 1) * spread)
    return found._replace(low=found.mean - half, high=found.mean + half)


def _capacity(
    start_s: FloatArray, end_s: FloatArray, work: FloatArray, edges_s: FloatArray, queue: FloatArray
) -> float:
    """Return the work a second that the machine does while jobs wait; where none ever waits, the most that it does."""
    runs = end_s > start_s  # of jobs that never started or ended, nothing is known
    if not runs.any():
        return 0.0
    rate = work[runs] / (end_s[runs] - start_s[runs])
    times_s = np.concatenate([start_s[runs], end_s[runs]])
    order = np.argsort(times_s, kind="stable")
    times_s = times_s[order]
    rates = np.cumsum(np.concatenate([rate, -rate])[order])
    waits = (queue[1:] > 0) & (queue[:-1] > 0)
    if not waits.any():
        return float(rates.max())
    done = np.concatenate([[0.0], np.cumsum(rates[:-1] * np.diff(times_s))])
    return float(np.diff(np.interp(edges_s, times_s, done))[waits].mean()) / float(edges_s[1] - edges_s[0])


def _says_enough(work: FloatArray, spare: float, spread: float) -> bool:
    """Return whether the jobs that came say enough about those that may come.

    ``spare`` is what the machine could have done besides, ``spread`` the standard deviation of all work, as its batches have it.
    """
    largest = float(work.max())
    if largest == 0:
        return True
    square, cube, fourth, sixth = (float(((work / largest) ** power).sum()) for power in (2, 3, 4, 6))
    if cube + _ABOVE * math.sqrt(sixth) <= _SKEWNESS * square**1.5:
        return True
    deviation = largest * math.sqrt(square + _ABOVE * math.sqrt(fourth))
    return spare >= _SHORT * max(deviation, spread)


def _verdict(growth: Interval, comes_back: bool, enough: bool) -> Verdict:
    """Return whether the run is saturated; where the tests contradict each other nothing is shown."""
    grows = verdict_above(growth) is Verdict.YES
    if grows == comes_back:
        return Verdict.NOT_SHOWN
    if grows:
        return Verdict.YES
    return Verdict.NO if enough else Verdict.NOT_SHOWN


def _arrived(times_s: FloatArray, work: FloatArray, until_s: FloatArray) -> FloatArray:
    """Return the work of what happened up to each of some times."""
    order = np.argsort(times_s, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(work[order])])
    return np.asarray(total[np.searchsorted(times_s[order], until_s, side="right")])


def _mean_queue(submit_s: FloatArray, left_s: FloatArray, work: FloatArray, begin_s: float, end_s: float) -> float:
    """Return the mean work in the queue over a span of time; over none, 0."""
    if end_s == begin_s:
        return 0.0
    pending_s = np.clip(left_s, begin_s, end_s) - np.clip(submit_s, begin_s, end_s)
    return float(pending_s @ work) / (end_s - begin_s)
