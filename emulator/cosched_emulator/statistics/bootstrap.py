"""Bootstrap intervals: over seeds, and within one run by moving blocks.

**Over seeds**, for the mean: the studentised bootstrap (bootstrap-t; Efron 1979, Hall 1988, Ann. Statist. 16:927). Of each resample
(m*, s*) of the seeds t* = (m* - m) / (s* / √n); the interval is m - t*(97.5 %) · s / √n to m - t*(2.5 %) · s / √n. Like BCa it is
second-order accurate for skewed figures; unlike BCa and the plain percentile interval it allows for how badly a few seeds determine
the spread, and those two are too narrow for the 5 to 30 seeds that studies have (Hesterberg 2015, Am. Stat. 69:371).

**Over seeds**, for any other statistic: the percentile interval, expanded for few values: of the statistics of the resamples not the
quantiles 2.5 and 97.5 %, but Φ(±t · √(n / (n - 1))) with t Student's quantile for n - 1 degrees of freedom (Hesterberg 2015).

**Within one run**: neighbouring jobs wait alike, so blocks of consecutive values are resampled (Künsch 1989, Ann. Statist. 17:1217;
Liu and Singh 1992; for quantiles Sun and Lahiri 2006, Sankhya 68:130), of the length that `block_length` gives. The interval is the
expanded percentile interval with n the number of blocks. It speaks of this workload and how it goes on, not of other seeds.

Generators are `numpy.random.Generator` and decide the resamples: the same generator state gives the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Final, TypeAlias

import numpy as np

from cosched_emulator.statistics.arrays import FloatArray
from cosched_emulator.statistics.block_length import BLOCKS, block_length
from cosched_emulator.statistics.intervals import LEVEL, Interval
from cosched_emulator.statistics.student import t_critical

# A figure of each row of values, along the last axis: numpy.median with axis=-1, for instance.
Statistic: TypeAlias = Callable[[FloatArray], FloatArray]

RESAMPLES: Final = 4_999
FEWEST: Final = 5  # seeds that give an interval
_AT_ONCE: Final = 2_000_000  # values that are resampled together, so that memory stays small


def bootstrap_mean(
    values: FloatArray, generator: np.random.Generator, level: float = LEVEL, resamples: int = RESAMPLES
) -> Interval:
    """Return the mean of one value a seed with its studentised bootstrap interval; below 5 seeds there is none.

    Raises ValueError without values and for values that are not finite.
    """
    _check(values)
    mean = float(values.mean())
    count = values.size
    if count < FEWEST:
        return Interval(mean, math.nan, math.nan, count, level)
    spread = float(values.std(ddof=1))
    if spread == 0:
        return Interval(mean, mean, mean, count, level)
    drawn = values[generator.integers(0, count, (resamples, count))]
    away = drawn.mean(axis=1) - mean
    spreads = drawn.std(axis=1, ddof=1)
    # A resample of equal values is infinitely far away.
    ratio = np.where(spreads > 0, away / np.where(spreads > 0, spreads, 1.0), np.copysign(np.inf, away))
    tail = (1 - level) / 2
    low, high = np.quantile(ratio, [tail, 1 - tail], method="inverted_cdf").tolist()
    return Interval(mean, mean - high * spread, mean - low * spread, count, level)


def bootstrap_statistic(
    values: FloatArray,
    statistic: Statistic,
    generator: np.random.Generator,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> Interval:
    """Return any statistic of one value a seed with its expanded percentile interval; below 5 seeds there is none.

    The interval lies within what resamples of these seeds can give: with few seeds use `bootstrap_mean` where it is a mean.
    Raises ValueError as `bootstrap_mean`.
    """
    _check(values)
    return _percentile_interval(values, 1, FEWEST, statistic, generator, level, resamples)


def block_bootstrap(
    values: FloatArray,
    statistic: Statistic,
    generator: np.random.Generator,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    length: int | None = None,
) -> Interval:
    """Return a statistic of values in order of time within a run, with its moving-block interval; its n is the number of blocks.

    ``length`` is that of a block, `block_length` of the values by default; where the series is too short for that, below 20 blocks,
    there is no interval. With a length of your own, 5 blocks give one.
    Raises ValueError as `bootstrap_mean`, and for a length below 1 or above the number of values.
    """
    _check(values)
    if length is None:
        return _percentile_interval(values, block_length(values), BLOCKS, statistic, generator, level, resamples)
    if not 1 <= length <= values.size:
        raise ValueError(f"a block has 1 to {values.size} values, not {length}")
    return _percentile_interval(values, length, FEWEST, statistic, generator, level, resamples)


def block_percentile(
    values: FloatArray,
    percent: float,
    generator: np.random.Generator,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> Interval:
    """Return a percentile (0 to 100) of values in order of time within a run, with its moving-block interval.

    The length of blocks is that of "value ≤ percentile", a series of 0 and 1: the error of a percentile comes from its correlation,
    and values far out in the tail do not decide it (Sun and Lahiri 2006). Raises ValueError as `bootstrap_mean`.
    """
    _check(values)
    if not 0 <= percent <= 100:
        raise ValueError(f"a percentile lies between 0 and 100, not at {percent}")
    below = (values <= np.percentile(values, percent)).astype(np.float64)

    def statistic(rows: FloatArray) -> FloatArray:
        return np.asarray(np.percentile(rows, percent, axis=-1))

    return _percentile_interval(values, block_length(below), BLOCKS, statistic, generator, level, resamples)


def _percentile_interval(
    values: FloatArray,
    length: int,
    fewest: int,
    statistic: Statistic,
    generator: np.random.Generator,
    level: float,
    resamples: int,
) -> Interval:
    """Return the statistic with the expanded percentile interval of resamples that are made of blocks."""
    count = values.size
    blocks = count // length
    found = float(statistic(values))
    if blocks < fewest:
        return Interval(found, math.nan, math.nan, blocks, level)
    windows = np.lib.stride_tricks.sliding_window_view(values, length)
    needed = -(-count // length)
    rows = max(1, _AT_ONCE // count)
    drawn = np.empty(resamples)
    for first in range(0, resamples, rows):
        some = min(rows, resamples - first)
        begins = generator.integers(0, len(windows), (some, needed))
        drawn[first : first + some] = statistic(windows[begins].reshape(some, -1)[:, :count])
    tail = _expanded_tail(level, blocks)
    low, high = np.quantile(drawn, [tail, 1 - tail], method="weibull").tolist()
    return Interval(found, low, high, blocks, level)


def _expanded_tail(level: float, count: int) -> float:
    """Return the share of resamples beyond each bound, for ``count`` independent values."""
    return NormalDist().cdf(-t_critical(level, count - 1) * math.sqrt(count / (count - 1)))


def _check(values: FloatArray) -> None:
    """Refuse what has no statistic."""
    if values.ndim != 1 or values.size == 0:
        raise ValueError("a bootstrap resamples one row of values, at least one")
    if not np.isfinite(values).all():
        raise ValueError("a bootstrap needs finite values")
