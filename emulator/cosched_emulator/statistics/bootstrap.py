"""Bootstrap intervals within one run, by moving blocks.

Neighbouring jobs have similar waits, so blocks of consecutive values are resampled (Künsch 1989, Ann. Statist. 17:1217; Liu and Singh
1992; for quantiles Sun and Lahiri 2006, Sankhya 68:130), of the length that `block_length` gives. The interval is the percentile
interval, expanded for few blocks: of the figures of the resamples not the quantiles 2.5 and 97.5 %, but Φ(±t · √(n / (n - 1))) with n
the number of blocks and t Student's quantile for n - 1 degrees of freedom (Hesterberg 2015, Am. Stat. 69:371). It refers to a longer
run of this workload, not to other seeds. SciPy has no block bootstrap: its own resamples single values.

Generators are `numpy.random.Generator` and decide the resamples: the same generator state gives the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Final, TypeAlias

import numpy as np

from cosched_emulator.statistics.intervals import LEVEL, FloatArray, Interval, t_critical

# How long the blocks of a block bootstrap are, from the series itself.
#
# Rule: the twentieth part of the series, or the length that its correlation asks for if that is more. More than 20 to
# 30 blocks hardly make an interval narrower, and shorter ones miss correlation (Schmeiser 1982, Oper. Res. 30:556).
# Where correlation asks for more than a twentieth, the series is too short for an interval.
#
# What correlation asks for (Politis and White 2004, Econometric Reviews 23:53, corrected by Patton, Politis and White
# 2009, 28:372): with R(k) the autocovariance at lag k and w the flat-top window, w(x) = 1 up to x = 1/2 and 2 (1 - x)
# from there to 1, over lags up to M on both sides,
#
#     length = (2 G² / D)^(1/3) · n^(1/3),  G = Σ w(k/M) |k| R(k),  D = 4/3 · (Σ w(k/M) R(k))²
#
# M is twice the lag after which max(5, √log10 n) autocorrelations in a row are below 2 √(log10 n / n). The length is
# rounded up and is at most min(3 √n, n / 3). Lags and lengths count values.

BLOCKS: Final = 20  # blocks of a series, unless its correlation asks for longer ones


def block_length(values: FloatArray) -> int:
    """Return how many values in order of time make a block. Raises ValueError without values."""
    return max(1, values.size // BLOCKS, correlation_length(values))


def correlation_length(values: FloatArray) -> int:
    """Return the length of blocks that the correlation asks for; 1 for a series that never changes. Raises as `block_length`."""
    count = values.size
    if count == 0:
        raise ValueError("a series without values has no blocks")
    correlation = _autocorrelation(values)
    if correlation.size == 0:
        return 1
    reach = max(5, math.isqrt(math.ceil(math.log10(count))))
    small = np.abs(correlation[1:]) < 2 * math.sqrt(math.log10(count) / count)
    # Beyond the lags that are there, the correlation counts as small.
    padded = np.concatenate([small.astype(np.float64), np.ones(reach)])
    last = int(np.flatnonzero(np.convolve(padded, np.ones(reach), "valid") == reach)[0])
    window = min(2 * max(last, 1), correlation.size - 1)
    lag = np.arange(1, window + 1)
    weighted = np.minimum(1.0, 2 * (1 - lag / window)) * correlation[1 : window + 1]
    spectrum = 1 + 2 * float(weighted.sum())
    slope = 2 * float((lag * weighted).sum())
    longest = math.ceil(min(3 * math.sqrt(count), count / 3))
    if spectrum <= 0:
        return longest
    asked = math.cbrt(1.5 * (slope / spectrum) ** 2 * count)
    return max(1, min(longest, math.ceil(asked)))


def _autocorrelation(values: FloatArray) -> FloatArray:
    """Return the autocorrelations at lags 0, 1, ... √n and a few more; none for a constant series."""
    count = values.size
    centred = values - values.mean()
    variance = float(centred @ centred)
    lags = min(math.isqrt(count) + 10, count - 1)
    if variance <= 0 or lags < 1:
        return np.empty(0)
    size = 1 << (count + lags).bit_length()
    transform = np.fft.rfft(centred, size)
    covariance = np.fft.irfft(transform.real**2 + transform.imag**2, size)[: lags + 1]
    return np.asarray(covariance / variance, dtype=np.float64)


# A figure of each row of values, along the last axis: numpy.median with axis=-1, for instance.
Statistic: TypeAlias = Callable[[FloatArray], FloatArray]

RESAMPLES: Final = 4_999
FEWEST: Final = 5  # blocks of a given length that give an interval
_AT_ONCE: Final = 2_000_000  # values that are resampled together, so that memory stays small


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
    Raises ValueError without values, for values that are not finite, and for a length below 1 or above the number of values.
    """
    _check(values)
    if length is None:
        return _percentile_interval(values, block_length(values), BLOCKS, statistic, generator, level, resamples)
    if not 1 <= length <= values.size:
        raise ValueError(f"a block has 1 to {values.size} values, not {length}")
    return _percentile_interval(values, length, FEWEST, statistic, generator, level, resamples)


def block_percentile(
    values: FloatArray, percent: float, generator: np.random.Generator, level: float = LEVEL, resamples: int = RESAMPLES
) -> Interval:
    """Return a percentile (0 to 100) of values in order of time within a run, with its moving-block interval.

    The length of blocks is that of "value ≤ percentile", a series of 0 and 1: the error of a percentile comes from its correlation,
    and values far out in the tail do not decide it (Sun and Lahiri 2006). Raises ValueError as `block_bootstrap`.
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
