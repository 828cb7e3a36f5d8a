"""Quantiles of Student's t: against scipy, against closed forms, and at the ends."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from cosched_emulator.statistics.intervals import t_critical, t_quantile

TAILS = (1e-50, 1e-20, 1e-8, 1e-4, 0.004, 0.0099, 0.0101, 0.025, 0.1, 0.2499, 0.2501, 0.4, 0.4999, 0.5 - 1e-6)
FREEDOMS = (1, 1.7, 2, 3, 4, 4.5, 5, 9, 29, 31, 99.5, 300, 4_999, 5_001, 20_000, 1e5, 1e6)


def test_quantiles_are_those_of_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    for freedom in FREEDOMS:
        probabilities = [*TAILS, *(1 - tail for tail in TAILS[2:])]
        for probability, expected in zip(probabilities, special.stdtrit(freedom, probabilities).tolist(), strict=True):
            assert t_quantile(probability, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-9), (
                probability,
                freedom,
            )


@pytest.mark.parametrize("tail", [1e-200, 1e-9, 0.001, 0.05, 0.3])
def test_quantiles_are_those_of_closed_forms(tail: float) -> None:
    assert t_quantile(tail, 1) == pytest.approx(-1 / math.tan(math.pi * tail), rel=1e-12)
    assert t_quantile(tail, 2) == pytest.approx((2 * tail - 1) / math.sqrt(2 * tail * (1 - tail)), rel=1e-12)
    assert t_quantile(tail, 1e18) == pytest.approx(NormalDist().inv_cdf(tail), rel=1e-12)
    assert t_quantile(tail, math.inf) == NormalDist().inv_cdf(tail)


def test_quantiles_of_tables() -> None:
    table = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)  # two-sided 95 %, for 1, 2, ... degrees
    assert [round(t_critical(0.95, freedom), 3) for freedom in range(1, 10)] == list(table)


def test_the_middle_is_0_and_both_sides_are_alike() -> None:
    assert t_quantile(0.5, 3) == 0
    assert t_quantile(0.75, 3.5) == -t_quantile(0.25, 3.5)
    assert t_quantile(5e-324, 1) == -math.inf


@pytest.mark.parametrize(("probability", "freedom"), [(0, 3), (1, 3), (math.nan, 3), (0.5, 0.9), (0.5, math.nan)])
def test_what_has_no_quantile_is_an_error(probability: float, freedom: float) -> None:
    with pytest.raises(ValueError, match=r"probability|degree"):
        t_quantile(probability, freedom)
    with pytest.raises(ValueError, match="level"):
        t_critical(95, 3)
