"""Intervals over seeds: worked examples, pairs, and what is refused.

Quantiles of Student's t: against scipy, against closed forms, and at the ends.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import strategies as st
from tests.properties import drawn

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.statistics import intervals


def test_the_interval_of_a_mean_is_students() -> None:
    found = intervals.mean_interval([1.0, 2.0, 3.0])
    assert (found.mean, found.n, found.level) == (2.0, 3, 0.95)
    assert found.half == pytest.approx(4.302652729911275 / math.sqrt(3))
    assert found[1:3] == pytest.approx((2 - found.half, 2 + found.half))
    assert intervals.mean_interval([5.0, 5.0])[:3] == (5.0, 5.0, 5.0)
    ten = [float(value) for value in range(10)]
    assert intervals.mean_interval(ten, 0.9).half == pytest.approx(
        1.8331129326536335 * math.sqrt(110 / 12) / math.sqrt(10)
    )


def test_one_seed_has_no_interval_and_says_so() -> None:
    found = intervals.mean_interval([5.0])
    assert (found.mean, found.exists, found.n) == (5.0, False, 1)
    assert str(found) == "5 (n = 1: no interval)"
    assert str(intervals.mean_interval([1.0, 2.0, 3.0])) == "2 (-0.484138 to 4.48414, 95 %, n = 3)"
    assert math.isnan(intervals.paired_difference({1: 3.0}, {1: 2.0}).half)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf, 1.0]])
def test_a_mean_needs_values(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"no values|finite"):
        intervals.mean_interval(values)


def test_pairs_are_compared_seed_by_seed() -> None:
    base = {1: 100.0, 2: 1000.0, 3: 10.0}
    values = {3: 9.0, 2: 998.0, 1: 99.0}  # another order
    assert intervals.paired_difference(values, base).mean == pytest.approx(-4 / 3)
    fifth = {seed: 0.8 * value for seed, value in base.items()}
    assert intervals.paired_ratio(fifth, base)[:3] == pytest.approx((0.8, 0.8, 0.8))
    assert intervals.percent_change(fifth, base)[:3] == pytest.approx((-20, -20, -20))


def test_a_ratio_does_not_depend_on_which_is_the_base() -> None:
    one, other = {1: 2.0, 2: 1.0, 3: 5.0}, {1: 1.0, 2: 2.0, 3: 4.0}
    there, back = intervals.paired_ratio(one, other), intervals.paired_ratio(other, one)
    assert there.mean == pytest.approx(1 / back.mean)
    assert (there.low, there.high) == pytest.approx((1 / back.high, 1 / back.low))
    assert intervals.paired_ratio({1: 2.0, 2: 1.0}, {1: 1.0, 2: 2.0}).mean == pytest.approx(1)


def test_seeds_without_a_partner_are_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        intervals.paired_difference({1: 1.0, 2: 1.0, 9: 1.0}, {1: 1.0, **dict.fromkeys(range(20, 28), 1.0)})
    assert str(caught.value) == (
        "seeds: expected the same seeds under both policies, got seeds 2, 9 only in the values; "
        "seeds 20, 21, 22, 23, 24 and 3 more only in the base"
    )


def test_ratios_need_figures_above_0() -> None:
    with pytest.raises(ConfigurationError, match=r"got seed 2$"):
        intervals.percent_change({1: 1.0, 2: 3.0}, {1: 1.0, 2: 0.0})


def of(low: float, high: float) -> intervals.Interval:
    return intervals.Interval((low + high) / 2, low, high, 5, 0.95)


def test_a_claim_is_shown_by_the_whole_interval() -> None:
    assert [intervals.verdict_above(of(*ends)) for ends in ((1, 2), (0, 2), (-1, 2), (-1, 0), (-2, -1))] == [
        intervals.Verdict.YES,
        intervals.Verdict.NOT_SHOWN,
        intervals.Verdict.NOT_SHOWN,
        intervals.Verdict.NO,
        intervals.Verdict.NO,
    ]
    assert [intervals.verdict_below(of(*ends), 3) for ends in ((1, 2), (1, 3), (3, 4))] == ["yes", "not shown", "no"]
    bands = ((-1, 1), (-2, 2), (-2.1, 1), (2.1, 3), (-5, -3), (-9, 9))
    assert [intervals.verdict_within(of(*ends), -2, 2) for ends in bands] == [
        "yes",
        "yes",
        "not shown",
        "no",
        "no",
        "not shown",
    ]


def test_one_seed_shows_nothing() -> None:
    alone = intervals.mean_interval([5.0])
    assert {
        intervals.verdict_above(alone),
        intervals.verdict_below(alone, 9),
        intervals.verdict_within(alone, 0, 9),
    } == {intervals.Verdict.NOT_SHOWN}


def test_a_band_has_an_order() -> None:
    with pytest.raises(ValueError, match="band"):
        intervals.verdict_within(of(0, 1), 2, 1)


TAILS = (1e-50, 1e-20, 1e-8, 1e-4, 0.004, 0.0099, 0.0101, 0.025, 0.1, 0.2499, 0.2501, 0.4, 0.4999, 0.5 - 1e-6)
FREEDOMS = (1, 1.7, 2, 3, 4, 4.5, 5, 9, 29, 31, 99.5, 300, 4_999, 5_001, 20_000, 1e5, 1e6)


def test_quantiles_are_those_of_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    for freedom in FREEDOMS:
        probabilities = [*TAILS, *(1 - tail for tail in TAILS[2:])]
        for probability, expected in zip(probabilities, special.stdtrit(freedom, probabilities).tolist(), strict=True):
            assert intervals.t_quantile(probability, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-9), (
                probability,
                freedom,
            )


@pytest.mark.parametrize("freedom", [1, 2, 4, 9, 100, 1e5])
def test_tails_are_those_of_the_quantiles(freedom: float) -> None:
    for probability in (1e-100, 1e-9, 0.001, 0.025, 0.2, 0.4, 0.5):
        t = -intervals.t_quantile(probability, freedom)
        if math.isfinite(t):
            assert intervals.t_tail(t, freedom) == pytest.approx(probability, rel=1e-9)
            assert intervals.t_tail(-t, freedom) == pytest.approx(1 - probability, rel=1e-9)


def test_a_tail_tells_the_same_as_the_interval_on_each_scale() -> None:
    values = {1: 0.7, 2: 0.9, 3: 0.8, 4: 0.85}
    base = dict.fromkeys(values, 1.0)
    for found in (
        intervals.mean_interval([*values.values()]),
        intervals.paired_ratio(values, base),
        intervals.percent_change(values, base),
    ):
        assert intervals.tail_of(found, found.low, above=True) == pytest.approx(0.025)
        assert intervals.tail_of(found, found.high, above=False) == pytest.approx(0.025)
        assert intervals.tail_of(found, found.high, above=True) == pytest.approx(0.975)
    assert intervals.tail_of(intervals.paired_ratio(values, base), 1.0, above=False) == pytest.approx(
        intervals.tail_of(intervals.percent_change(values, base), 0.0, above=False)
    )
    assert intervals.tail_of(intervals.mean_interval([1.0]), 0.0, above=True) is None


def test_seeds_needed_are_the_fewest_whose_interval_does_not_reach_a_bound() -> None:
    found = intervals.mean_interval([1.0, 2.0, 3.0, 4.0])  # mean 2.5, standard deviation 1.291
    assert intervals.seeds_needed(found, 1.5, 1_000) == 9  # 2.306 x 1.291 / 3 is .99
    assert intervals.seeds_needed(found, 2.5, 1_000) == math.inf
    assert intervals.seeds_needed(found, 2.49, 1_000) == math.inf
    assert math.isnan(intervals.seeds_needed(intervals.mean_interval([1.0]), 0.0, 1_000))


def test_the_interval_of_an_amount_never_reaches_below_0() -> None:
    skewed = intervals.amount_of({1: 1.0, 2: 2.0, 3: 30.0})
    assert skewed is not None
    assert skewed.mean == 11.0
    student = intervals.mean_interval([1.0, 2.0, 30.0])
    assert student.low < 0
    assert (skewed.low, skewed.high) == pytest.approx(
        (11 * math.exp(-student.half / 11), 11 * math.exp(student.half / 11))
    )
    near = intervals.amount_of({1: 100.0, 2: 101.0, 3: 99.0})
    assert near is not None
    assert near[:3] == pytest.approx(intervals.mean_interval([100.0, 101.0, 99.0])[:3], rel=1e-3)
    for values, like in (
        ({1: 0.0, 2: 0.0, 3: 3.0}, (1.0, 0.0, 1 + 4.302653)),
        ({1: -1.0, 2: 3.0}, intervals.mean_interval([-1.0, 3.0])[:3]),
    ):
        found = intervals.amount_of(values)
        assert found is not None
        assert found[:3] == pytest.approx(like, rel=1e-6)
    assert intervals.amount_of({1: 0.0, 2: 0.0}) == intervals.mean_interval([0.0, 0.0])
    share = intervals.amount_of({1: 0.1, 2: 0.9}, most=1.0)
    assert share is not None
    assert (share.low > 0, share.high) == (True, 1.0)
    alone, tiny = intervals.amount_of({1: 2.0}), intervals.amount_of({1: 1e-300, 2: 1.0}, 0.9999999)
    assert alone is not None
    assert not alone.exists
    assert tiny is not None
    assert 0 < tiny.low < tiny.high < math.inf
    assert intervals.amount_of({}) is None


def test_holm_holds_the_least_against_all() -> None:
    assert intervals.holm([0.01, 0.04, 0.03, 0.005]) == [True, False, False, True]
    assert intervals.holm([0.03, 0.02]) == [True, True]
    assert intervals.holm([0.03, 0.03]) == [False, False]
    assert intervals.holm([]) == []


@drawn(st.lists(st.lists(st.floats(0.2, 5), min_size=3, max_size=6), min_size=1, max_size=6), few=100, many=5_000)
def test_an_interval_that_is_judged_with_others_excludes_none_exactly_where_its_verdict_stands(
    groups: list[list[float]],
) -> None:
    """Else a table would contradict the sentence about it."""
    for one in (lambda ratios: intervals.mean_interval([math.log(each) for each in ratios]), _change):
        found = [one(ratios) for ratios in groups]
        tails = [intervals.tail_of(each, 0, above=each.mean > 0) or 0.0 for each in found]
        wide = intervals.judged_together([None, *found])
        for before, after, stands in zip(found, wide[1:], intervals.holm(tails, 0.025), strict=True):
            assert after is not None
            assert after.mean == before.mean
            assert after.level >= before.level
            if min(abs(after.low), abs(after.high)) > 1e-6:  # rounding decides at the bound itself
                assert (after.low > 0 or after.high < 0) == stands
    assert intervals.judged_together([intervals.mean_interval([1.0]), None])[1] is None


def _change(ratios: list[float]) -> intervals.Interval:
    return intervals.percent_change(dict(enumerate(ratios)), dict.fromkeys(range(len(ratios)), 1.0))


@pytest.mark.parametrize("tail", [1e-200, 1e-9, 0.001, 0.05, 0.3])
def test_quantiles_are_those_of_closed_forms(tail: float) -> None:
    assert intervals.t_quantile(tail, 1) == pytest.approx(-1 / math.tan(math.pi * tail), rel=1e-12)
    assert intervals.t_quantile(tail, 2) == pytest.approx((2 * tail - 1) / math.sqrt(2 * tail * (1 - tail)), rel=1e-12)
    assert intervals.t_quantile(tail, 1e18) == pytest.approx(NormalDist().inv_cdf(tail), rel=1e-12)
    assert intervals.t_quantile(tail, math.inf) == NormalDist().inv_cdf(tail)


def test_quantiles_of_tables() -> None:
    table = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)  # two-sided 95 %, for 1, 2, ... degrees
    assert [round(intervals.t_critical(0.95, freedom), 3) for freedom in range(1, 10)] == list(table)


def test_the_middle_is_0_and_both_sides_are_alike() -> None:
    assert intervals.t_quantile(0.5, 3) == 0
    assert intervals.t_quantile(0.75, 3.5) == -intervals.t_quantile(0.25, 3.5)
    assert intervals.t_quantile(5e-324, 1) == -math.inf


@pytest.mark.parametrize(("probability", "freedom"), [(0, 3), (1, 3), (math.nan, 3), (0.5, 0.9), (0.5, math.nan)])
def test_what_has_no_quantile_is_an_error(probability: float, freedom: float) -> None:
    with pytest.raises(ValueError, match=r"probability|degree"):
        intervals.t_quantile(probability, freedom)
    with pytest.raises(ValueError, match="level"):
        intervals.t_critical(95, 3)
