"""The steady part of a run: which jobs at its begin and at its end do not count.

- Warm-up: the machine begins empty, so the first jobs wait too little. Rule MSER-5 (White 1997, Simulation 69:323; White, Cobb and
  Spratt 2000): of the waits in order of submission, means z of batches of 5; cut the d batches for which
  Σ (z - mean of the rest)² / (number of the rest)² over the rest is smallest. Of the rules for one run it is among the most reliable
  (Hoad, Robinson and Davies 2010, J. Oper. Res. Soc. 61:1389). At most half of the batches are cut, so that a quiet time at the end is
  not taken for the steady state; where all of that half is to be cut, the run never settles.
- Cool-down: after the last submission the queue drains, and jobs that are still pending then meet a machine without arrivals
  (Frachtenberg and Feitelson 2005, JSSPP, LNCS 3834:257). Cut the jobs submitted within the last w seconds before the last submission,
  w being the time that 95 % of the jobs after the warm-up waited at most. The cut is by submission: to leave out the jobs that had not
  started would leave out the long waits.

A job that never started has no wait and does not count for the rules.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from cosched_emulator.statistics.arrays import BoolArray, FloatArray
from cosched_emulator.statistics.times import left_queue

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
