"""The steady part of a run: where the warm-up ends, and where the queue begins to drain."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.emulator.statistics.queueing import simulated

from cosched_emulator.statistics.saturation import SteadyPart, steady_part, warm_up


def slow_mser(values: list[float], batch: int) -> int | None:
    """Return the cut by the rule, word by word."""
    means = [sum(values[first : first + batch]) / batch for first in range(0, len(values) - batch + 1, batch)]
    errors = []
    for cut in range(len(means) // 2 + 1):
        rest = means[cut:]
        middle = sum(rest) / len(rest)
        errors.append(sum((each - middle) ** 2 for each in rest) / len(rest) ** 2)
    best = errors.index(min(errors))
    return best * batch if best < len(means) // 2 else None


def test_the_cut_is_that_of_the_rule() -> None:
    generator = np.random.default_rng(9)
    for count in (50, 61, 123, 500):
        values = np.exp(-np.arange(count) / 20) * 3 + generator.normal(size=count)
        assert warm_up(values) == slow_mser(values.tolist(), 5)
        assert warm_up(values, 3) == slow_mser(values.tolist(), 3)


def test_a_transient_is_cut() -> None:
    values = np.random.default_rng(9).normal(10.0, 1.0, 2000)
    values[:300] -= 8
    cut = warm_up(values)
    assert cut is not None
    assert 300 <= cut <= 350


def test_a_series_that_never_settles_has_no_cut() -> None:
    assert warm_up(np.arange(1000.0)) is None
    assert warm_up(np.zeros(49)) is None
    with pytest.raises(ValueError, match="batch"):
        warm_up(np.zeros(100), 0)


def test_jobs_that_wait_into_the_drain_are_cut_by_their_submission() -> None:
    submit_s = np.arange(1000.0)
    start_s = submit_s + 40.5
    found = steady_part(submit_s, start_s, start_s + 10)
    assert found == SteadyPart(0, 41, 1000, True)  # from 959 s on: those before have started when the last one comes
    assert found.counted == 959
    assert np.flatnonzero(found.mask()).tolist() == list(range(959))


def test_jobs_that_never_start_do_not_shift_the_cut() -> None:
    submit_s = np.arange(2000.0)
    wait_s = np.where(submit_s < 500, 0.0, 100 + np.random.default_rng(9).normal(size=2000))
    start_s = submit_s + wait_s
    start_s[100:200] = math.nan
    found = steady_part(submit_s, start_s, start_s + 1)
    assert (found.warmup, found.found) == (500, True)


def test_a_stable_queue_has_a_steady_part_and_a_growing_one_has_none() -> None:
    stable, growing = simulated([0.8, 1.3], 4_000, 4, np.random.default_rng(6))
    assert steady_part(*stable).counted > 2_000
    assert steady_part(*growing) == SteadyPart(4_000, 0, 4_000, False)


def test_waits_of_half_the_run_leave_nothing() -> None:
    submit_s = np.arange(1000.0)
    assert not steady_part(submit_s, submit_s + 800, submit_s + 801).found
    nothing = np.full(1000, math.nan)
    assert not steady_part(submit_s, nothing, nothing).found
