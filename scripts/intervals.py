"""95 % confidence intervals: of a mean by Student's t, of a median by order statistics."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

# Two-sided 95 % points of Student's t for 1, 2, ... degrees of freedom.
T_95: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
CONFIDENCE: Final = 0.95


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and half width of the 95 % confidence interval over seeds; the half width is nan for a single seed."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, T_95[min(len(values) - 2, len(T_95) - 1)] * statistics.stdev(values) / math.sqrt(len(values))


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return an interval that holds the median with 95 % confidence, whatever the distribution; None below six values.

    The interval lies between two order statistics: the number of values below the median is binomial with a share of one half.
    """
    count = len(values)
    ordered = sorted(values)
    outside, rank = 0.0, 0  # probability that the median lies outside the ranks so far
    while True:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        rank += 1
    return (ordered[rank - 1], ordered[count - rank]) if rank else None
