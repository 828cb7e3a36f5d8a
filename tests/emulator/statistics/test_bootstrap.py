"""Bootstrap intervals: what they are made of, and where there is none. How often they cover: test_coverage.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cosched_emulator.statistics.bootstrap import (
    BLOCKS,
    block_bootstrap,
    block_length,
    block_percentile,
    correlation_length,
)
from cosched_emulator.statistics.intervals import FloatArray


def generator() -> np.random.Generator:
    return np.random.default_rng(7)


def median(rows: FloatArray) -> FloatArray:
    return np.asarray(np.median(rows, axis=-1))


def mean(rows: FloatArray) -> FloatArray:
    return np.asarray(rows.mean(axis=-1))


def test_the_generator_decides() -> None:
    values = np.random.default_rng(1).normal(size=30)
    found = block_bootstrap(values, mean, generator(), length=1)
    assert found == block_bootstrap(values, mean, generator(), length=1)
    assert found != block_bootstrap(values, mean, np.random.default_rng(8), length=1)


def test_a_statistic_lies_within_the_values() -> None:
    """With blocks of one value the interval is the expanded percentile interval of independent values."""
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 50.0])
    found = block_bootstrap(values, median, generator(), length=1)
    assert (found.mean, found.low, found.high) == (4.0, 1.0, 50.0)  # few values: as wide as they can tell
    many = block_bootstrap(np.arange(101.0), median, generator(), length=1)
    assert 35 < many.low < 45
    assert 55 < many.high < 65
    assert not block_bootstrap(np.array([1.0, 2.0, 3.0, 6.0]), median, generator(), length=1).exists


def autoregressive(count: int, factor: float) -> FloatArray:
    values = generator().normal(size=count)
    for index in range(1, count):
        values[index] += factor * values[index - 1]
    return values


def test_correlated_series_have_longer_blocks() -> None:
    lengths = [correlation_length(autoregressive(4000, factor)) for factor in (0.0, 0.5, 0.8, 0.95)]
    assert lengths[0] <= 3
    assert lengths == sorted(lengths)
    # The best length for an autoregressive series: n^(1/3) · (6 f² / (1 - f²)²)^(1/3), by Politis and White.
    assert lengths[2] == pytest.approx((4000 * 6 * 0.64 / 0.36**2) ** (1 / 3), rel=0.25)
    assert block_length(autoregressive(4000, 0.5)) == 4000 // BLOCKS


def test_a_series_without_change_has_short_blocks() -> None:
    assert correlation_length(np.ones(50)) == 1
    assert all(correlation_length(generator().normal(size=count)) >= 1 for count in range(1, 60))
    assert [block_length(np.ones(count)) for count in (1, 19, 50)] == [1, 1, 2]
    with pytest.raises(ValueError, match="without values"):
        block_length(np.empty(0))


def test_blocks_widen_the_interval_of_a_correlated_series() -> None:
    values = autoregressive(2000, 0.8)
    blocks = block_bootstrap(values, mean, generator(), resamples=999)
    single = block_bootstrap(values, mean, generator(), resamples=999, length=1)
    assert blocks.n == BLOCKS
    assert blocks.half > 2 * single.half  # three times, in a long series


def test_a_series_that_is_too_short_for_its_correlation_has_no_interval() -> None:
    values = np.cumsum(autoregressive(400, 0.5))
    assert not block_percentile(values, 50, generator(), resamples=99).exists
    assert not block_bootstrap(np.arange(19.0), mean, generator(), resamples=99).exists
    assert block_bootstrap(np.arange(19.0), mean, generator(), resamples=99, length=2).exists


def test_a_percentile_is_numpys() -> None:
    values = autoregressive(1000, 0.3)
    found = block_percentile(values, 95, generator(), resamples=299)
    assert found.mean == float(np.percentile(values, 95))
    assert found.low < found.mean < found.high


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [[1.0, 2.0]]])
def test_what_cannot_be_resampled_is_an_error(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"one row|finite"):
        block_bootstrap(np.array(values), mean, generator())


def test_impossible_blocks_and_percentiles_are_errors() -> None:
    with pytest.raises(ValueError, match="1 to 9 values, not 10"):
        block_bootstrap(np.arange(9.0), mean, generator(), length=10)
    with pytest.raises(ValueError, match="not at 101"):
        block_percentile(np.arange(9.0), 101, generator())
