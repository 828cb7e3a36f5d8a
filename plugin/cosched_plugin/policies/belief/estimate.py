"""Estimated slowdowns of all pairs of applications, from the pairs that were measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from cosched_plugin.api import Floats
from cosched_plugin.policies.belief.note import MICRO, Sum

# What is believed before anything was measured, in logarithms, and the measurements that this counts as.
_PRIOR: Final = 0.1
_PRIOR_SPREAD: Final = 0.15  # standard deviation of an application's effect
_PRIOR_ERROR: Final = 0.1  # of a pair from the sum of two effects
_PRIOR_NOISE: Final = 0.02  # of one measurement from another of the same pair
_WEIGHT: Final = 2.0
_ROUNDS: Final = 10


class Estimates(NamedTuple):
    """Logarithms of slowdowns, and their standard errors: [application, the one beside it], the last row and column for any other."""

    applications: tuple[str, ...]
    means: Floats
    errors: Floats


def estimate(pairs: Mapping[tuple[str, str], Sum]) -> Estimates:
    """Return the estimates: a mean, an effect of the application, and one of its neighbour; a measured pair moves to its own mean.

    The sum of two effects fits the 809 measured pairs of NAS applications with a standard deviation of 6 %, for 13 % without.
    """
    names = tuple(sorted({name for pair in pairs for name in pair}))
    place = {name: number for number, name in enumerate(names)}
    size = len(names) + 1
    rows = np.array([place[own] for own, _ in pairs], dtype=np.int64)
    columns = np.array([place[other] for _, other in pairs], dtype=np.int64)
    counts = np.array([each.times for each in pairs.values()], dtype=np.float64)
    logs = np.array([each.mean for each in pairs.values()], dtype=np.float64) / MICRO
    variances = np.array([each.variance for each in pairs.values()], dtype=np.float64) / MICRO**2
    weights = counts / (counts + 1.0)
    total = float(weights.sum()) + _WEIGHT
    mean = (float((weights * logs).sum()) + _WEIGHT * _PRIOR) / total
    of_rows = np.bincount(rows, weights, size)
    of_columns = np.bincount(columns, weights, size)
    own, its = np.zeros(size), np.zeros(size)
    for _ in range(_ROUNDS):
        own = np.bincount(rows, weights * (logs - mean - its[columns]), size) / (of_rows + 1.0)
        its = np.bincount(columns, weights * (logs - mean - own[rows]), size) / (of_columns + 1.0)
    means = mean + own[:, None] + its[None, :]
    spread = _blend((weights * (logs - mean) ** 2).sum(), _PRIOR_SPREAD, total)
    error = _blend((weights * (logs - means[rows, columns]) ** 2).sum(), _PRIOR_ERROR, total)
    noise = _blend((counts * variances).sum(), _PRIOR_NOISE, float(counts.sum()) + _WEIGHT)
    squares = error + spread * (1.0 / (1.0 + of_rows[:, None]) + 1.0 / (1.0 + of_columns[None, :]))
    # A measured pair: its own mean, and what the others say of it, each by its precision.
    here = (rows, columns)
    precisions = counts * (counts + _WEIGHT) / (counts * variances + _WEIGHT * noise)
    before = 1.0 / squares[here]
    means[here] = (means[here] * before + logs * precisions) / (before + precisions)
    squares[here] = 1.0 / (before + precisions)
    return Estimates(names, means, np.sqrt(squares))


def _blend(squares: float, prior: float, total: float) -> float:
    return (float(squares) + _WEIGHT * prior**2) / total
