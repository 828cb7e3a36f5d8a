"""A 95 % interval covers the true value in 93 to 97 % of 2,000 repetitions; of 600 where one takes long, and the rest is slow."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import NormalDist

import numpy as np
import pytest

from cosched_emulator.statistics.bootstrap import block_bootstrap, block_percentile
from cosched_emulator.statistics.intervals import (
    FloatArray,
    Interval,
    amount_of,
    mean_interval,
    paired_difference,
    paired_ratio,
)

REPETITIONS = 2_000
FEW_OR_ALL = pytest.mark.parametrize("repetitions", [600, pytest.param(REPETITIONS, marks=pytest.mark.slow)])


def coverage(found: Iterable[Interval], truth: float, repetitions: int = REPETITIONS) -> float:
    """Return the share of the intervals that cover; those that do not exist do not count, and must be few."""
    intervals = list(found)
    there = [each for each in intervals if each.exists]
    assert len(intervals) == repetitions
    assert len(there) > 0.99 * repetitions
    return sum([each.low <= truth <= each.high for each in there]) / len(there)


def autoregressive(generator: np.random.Generator, count: int, factor: float, repetitions: int) -> FloatArray:
    """Return a row of values with mean 0 and variance 1 for each repetition, stationary from the first one."""
    rows = generator.normal(size=(count, repetitions))
    noise = (1 - factor**2) ** 0.5
    for index in range(1, count):
        rows[index] = factor * rows[index - 1] + noise * rows[index]
    return np.ascontiguousarray(rows.T)


def test_paired_intervals_cover() -> None:
    generator = np.random.default_rng(1)
    # What both policies share, the workload of the seed, is ten times what they differ by.
    workload = generator.gamma(4.0, 250.0, (REPETITIONS, 5))
    base = workload * generator.lognormal(0.0, 0.05, workload.shape)
    values = 0.8 * workload * generator.lognormal(0.0, 0.05, workload.shape)
    ratios = [
        paired_ratio(dict(enumerate(mine)), dict(enumerate(theirs)))
        for mine, theirs in zip(values.tolist(), base.tolist(), strict=True)
    ]
    assert 0.93 <= coverage(ratios, 0.8) <= 0.97
    changed = workload + generator.normal(-20.0, 30.0, workload.shape)
    differences = [
        paired_difference(dict(enumerate(mine)), dict(enumerate(theirs)))
        for mine, theirs in zip(changed.tolist(), workload.tolist(), strict=True)
    ]
    assert 0.93 <= coverage(differences, -20.0) <= 0.97


def test_intervals_of_means_cover() -> None:
    for seeds in (2, 3, 10):
        rows = np.random.default_rng(seeds).normal(100.0, 15.0, (REPETITIONS, seeds)).tolist()
        assert 0.93 <= coverage(map(mean_interval, rows), 100.0) <= 0.97


def test_the_interval_of_an_amount_covers_the_mean_more_often_than_students() -> None:
    for seeds, covered, students in ((3, 0.93, 0.90), (6, 0.92, 0.90), (30, 0.92, 0.95)):
        rows = np.random.default_rng(seeds).exponential(100.0, (REPETITIONS, seeds)).tolist()
        found = [each for row in rows if (each := amount_of(dict(enumerate(row)))) is not None]
        assert covered <= coverage(found, 100.0) <= 0.97
        assert coverage(map(mean_interval, rows), 100.0) <= students
        assert all(each.low > 0 for each in found)
    plain = np.random.default_rng(7).normal(100.0, 15.0, (REPETITIONS, 5)).tolist()
    symmetric = [each for row in plain if (each := amount_of(dict(enumerate(row)))) is not None]
    assert 0.93 <= coverage(symmetric, 100.0) <= 0.97


@FEW_OR_ALL
def test_moving_blocks_cover_the_mean_of_correlated_values(repetitions: int) -> None:
    generator = np.random.default_rng(4)
    rows = autoregressive(generator, 1000, 0.7, repetitions)
    found = [block_bootstrap(row, lambda each: each.mean(axis=-1), generator, resamples=199) for row in rows]
    assert 0.93 <= coverage(found, 0.0, repetitions) <= 0.97


@FEW_OR_ALL
def test_moving_blocks_cover_a_percentile_of_correlated_values(repetitions: int) -> None:
    generator = np.random.default_rng(5)
    rows = autoregressive(generator, 400, 0.5, repetitions)
    found = [block_percentile(row, 75, generator, resamples=99) for row in rows]
    assert 0.93 <= coverage(found, NormalDist().inv_cdf(0.75), repetitions) <= 0.97
