"""The share of jobs at or below a value (ECDF): of one run, or the mean over seeds with a band.

The band is pointwise: at each value, the mean of the runs' shares with its interval by Student's t, cut to 0 and 1. So it covers the
true share at one value with the stated probability, and not the whole curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_emulator.statistics.intervals import LEVEL
from cosched_emulator.statistics.student import t_critical

FloatArray: TypeAlias = npt.NDArray[np.float64]
MOST_STEPS = 4000  # of the mean of several runs: more cannot be seen


class Distribution(NamedTuple):
    """Steps of an ECDF: the share holds from its value to the next one. The first share is 0."""

    values: FloatArray
    share: FloatArray
    band: tuple[FloatArray, FloatArray] | None = None  # lowest and highest share


def distribution(sample: FloatArray) -> Distribution:
    """Return the ECDF of a sample that is not empty."""
    ordered = np.sort(sample)
    share = np.arange(1, ordered.size + 1) / ordered.size
    return Distribution(np.concatenate([ordered[:1], ordered]), np.concatenate([[0.0], share]))


def mean_distribution(samples: Sequence[FloatArray], level: float = LEVEL) -> Distribution:
    """Return the mean ECDF of samples that are not empty, one a seed; there is no band where all are equal, or there is only one.

    Raises ValueError without samples.
    """
    ordered = [np.sort(sample) for sample in samples]
    values = np.unique(np.concatenate(ordered))
    if values.size > MOST_STEPS:
        values = values[np.linspace(0, values.size - 1, MOST_STEPS).round().astype(np.int64)]
    shares = np.array([np.searchsorted(sample, values, side="right") / sample.size for sample in ordered])
    mean = shares.mean(axis=0)
    edges = np.concatenate([values[:1], values])
    count = len(ordered)
    if count == 1 or all(np.array_equal(ordered[0], other) for other in ordered[1:]):
        return Distribution(edges, _from_0(mean))
    half = t_critical(level, count - 1) * shares.std(axis=0, ddof=1) / np.sqrt(count)
    return Distribution(
        edges, _from_0(mean), (_from_0(np.clip(mean - half, 0, 1)), _from_0(np.clip(mean + half, 0, 1)))
    )


def _from_0(share: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], share])
