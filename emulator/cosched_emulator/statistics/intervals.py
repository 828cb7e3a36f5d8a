"""Confidence intervals over seeds: of a mean, and of what two policies differ by under the same seeds.

Two policies that run with the same seed meet the same jobs (common random numbers), so they are compared seed by seed: what both
have in common cancels (Law and Kelton 1991, section 11.2).

- Mean of n seeds: m ± t(n - 1) · s / √n, t being Student's quantile and s the standard deviation (divided by n - 1).
- Difference: the interval of the mean of x - y over seeds.
- Ratio: exp of the interval of the mean of log(x / y), so the geometric mean of the ratios. The arithmetic mean of ratios depends on
  which policy is the base: halved under one seed and doubled under another is + 25 % both ways (Fleming and Wallace 1986,
  CACM 29:218). Percent change: 100 · (ratio - 1).

One seed gives a mean and no interval: its bounds are NaN, and every verdict on it is *not shown* (`verdicts`). Values have any unit;
mean and bounds have the same, but a ratio has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.statistics.student import t_critical

LEVEL: Final = 0.95  # of confidence, unless something else is asked for
_NAMED: Final = 5  # seeds that an error lists at most


class Interval(NamedTuple):
    """An estimate with its confidence interval; the bounds are NaN where there are too few values for one."""

    mean: float  # or another estimate: the function that made it says which
    low: float
    high: float
    n: int  # values that vary independently: seeds, or blocks of a run
    level: float  # probability that the interval covers the true value

    @property
    def exists(self) -> bool:
        """Whether there are bounds: a single seed gives none."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    @property
    def half(self) -> float:
        """Half the interval's width, NaN where it does not exist; of use where the interval is symmetric."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        """Return the estimate and its interval in words: ``12.5 (10 to 15, 95 %, n = 6)``."""
        if not self.exists:
            return f"{self.mean:.6g} (n = {self.n}: no interval)"
        return f"{self.mean:.6g} ({self.low:.6g} to {self.high:.6g}, {100 * self.level:g} %, n = {self.n})"


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the mean of one value a seed, with its interval by Student's t; a single value has no interval.

    Raises ValueError without values, for values that are not finite, and for a level that is not between 0 and 1.
    """
    count = len(values)
    if count == 0:
        raise ValueError("the mean of no values does not exist")
    if not all(map(math.isfinite, values)):
        raise ValueError("a mean needs finite values")
    mean = math.fsum(values) / count
    critical = t_critical(level, max(count - 1, 1))
    if count == 1:
        return Interval(mean, math.nan, math.nan, count, level)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = critical * math.sqrt(variance / count)
    return Interval(mean, mean - half, mean + half, count, level)


def matched(values: Mapping[int, float], base: Mapping[int, float]) -> dict[int, tuple[float, float]]:
    """Return (value, base) of each seed, in order of seeds. Raises ConfigurationError that names seeds which only one of them has."""
    alone = [f"{_listed(only)} only in {side}" for only, side in _unmatched(values, base) if only]
    if alone:
        raise ConfigurationError("seeds", "the same seeds under both policies", "; ".join(alone))
    return {seed: (values[seed], base[seed]) for seed in sorted(values)}


def paired_difference(values: Mapping[int, float], base: Mapping[int, float], level: float = LEVEL) -> Interval:
    """Return the mean of value - base over seeds, with its interval. Both map a seed to a figure of the run with that seed.

    Raises ConfigurationError for seeds that only one of them has, and ValueError as `mean_interval`.
    """
    return mean_interval([value - other for value, other in matched(values, base).values()], level)


def paired_ratio(values: Mapping[int, float], base: Mapping[int, float], level: float = LEVEL) -> Interval:
    """Return the geometric mean of value / base over seeds, with its interval: 0.8 is a fifth less.

    Raises ConfigurationError for seeds that only one of them has and where a figure is not above 0, ValueError as `mean_interval`.
    """
    pairs = matched(values, base)
    bad = [seed for seed, pair in pairs.items() if min(pair) <= 0]
    if bad:
        raise ConfigurationError("ratio", "figures above 0 for every seed; a difference takes any", _listed(bad))
    of_logs = mean_interval([math.log(value / other) for value, other in pairs.values()], level)
    return of_logs._replace(mean=math.exp(of_logs.mean), low=math.exp(of_logs.low), high=math.exp(of_logs.high))


def percent_change(values: Mapping[int, float], base: Mapping[int, float], level: float = LEVEL) -> Interval:
    """Return by how many percent the values are above the base, seed by seed: `paired_ratio` as 100 · (ratio - 1).

    Raises what `paired_ratio` raises.
    """
    ratio = paired_ratio(values, base, level)
    return ratio._replace(mean=100 * (ratio.mean - 1), low=100 * (ratio.low - 1), high=100 * (ratio.high - 1))


def median_interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float] | None:
    """Return an interval that holds the median, whatever the distribution; None for too few values (below six at 95 %).

    It lies between two order statistics: the number of values below the median is binomial with a share of one half
    (Conover 1999, section 3.2), so its probability is ``level`` or more.
    """
    count = len(values)
    ordered = sorted(values)
    outside, rank = 0.0, 0  # probability that the median lies outside the ranks so far
    while True:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - level:
            break
        rank += 1
    return (ordered[rank - 1], ordered[count - rank]) if rank else None


def _unmatched(values: Mapping[int, float], base: Mapping[int, float]) -> Iterable[tuple[list[int], str]]:
    yield sorted(values.keys() - base.keys()), "the values"
    yield sorted(base.keys() - values.keys()), "the base"


def _listed(seeds: Sequence[int]) -> str:
    """Return seeds in words: ``seed 3``, ``seeds 3, 4``; the first five of many."""
    shown = ", ".join(map(str, seeds[:_NAMED])) + (f" and {len(seeds) - _NAMED} more" if len(seeds) > _NAMED else "")
    return f"seed{'s' if len(seeds) > 1 else ''} {shown}"
