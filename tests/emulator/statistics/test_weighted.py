"""Area-weighted means and figures by class: worked by hand, and what they do not depend on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cosched_emulator.statistics.weighted import (
    CLASS_NAMES,
    LENGTHS,
    WIDTHS,
    length_numbers,
    means,
    means_by_class,
    weighted_mean,
    width_numbers,
)

# Four jobs of a machine with 16 processors; the last one never starts.
SUBMIT_S = np.array([0.0, 0.0, 100.0, 100.0])
START_S = np.array([0.0, 300.0, 100.0, math.nan])
RUN_S = np.array([100.0, 1000.0, 4.0, 50.0])
END_S = START_S + RUN_S
PROCESSORS = np.array([1, 16, 2, 4])


def test_means_by_hand() -> None:
    found = means(SUBMIT_S, START_S, END_S, RUN_S, PROCESSORS)
    area = 100 + 16_000 + 8
    assert (found.jobs, found.area) == (3, area)
    assert (found.wait_s, found.response_s) == pytest.approx((100, (100 + 1300 + 4) / 3))
    assert found.slowdown == pytest.approx((1 + 1.3 + 1) / 3)  # 4 s count as 10
    assert found.wait_p95_s == pytest.approx(270)
    assert found.weighted_wait_s == pytest.approx(300 * 16_000 / area)
    assert found.weighted_response_s == pytest.approx((100 * 100 + 1300 * 16_000 + 4 * 8) / area)
    assert found.weighted_slowdown == pytest.approx((100 + 1.3 * 16_000 + 8) / area)


def test_cutting_a_job_into_narrow_ones_changes_no_weighted_mean() -> None:
    whole = means(SUBMIT_S, START_S, END_S, RUN_S, PROCESSORS)
    rows = np.array([0, *[1] * 16, 2, 3])
    pieces = means(SUBMIT_S[rows], START_S[rows], END_S[rows], RUN_S[rows], np.array([1, *[1] * 16, 2, 4]))
    assert pieces[-3:] == pytest.approx(whole[-3:])
    assert pieces.response_s > 2 * whole.response_s


def test_classes_hold_what_is_in_them() -> None:
    found = means_by_class(SUBMIT_S, START_S, END_S, RUN_S, PROCESSORS, RUN_S, 16)
    assert list(found) == ["all", *LENGTHS, *WIDTHS, *CLASS_NAMES]
    assert found["all"] == means(SUBMIT_S, START_S, END_S, RUN_S, PROCESSORS)
    counts = {name: each.jobs for name, each in found.items() if each.jobs}
    assert counts == {"all": 3, "short": 2, "medium": 1, "narrow": 2, "wide": 1, "short narrow": 2, "medium wide": 1}
    assert found["wide"].response_s == found["medium wide"].weighted_response_s == 1300
    empty = found["long wide"]
    assert (empty.jobs, empty.area) == (0, 0)
    assert all(math.isnan(value) for value in empty[2:])


def test_what_equals_a_bound_belongs_to_the_class_below_it() -> None:
    lengths = length_numbers(np.array([0.0, 600.0, 600.1, 10_800.0, 10_801.0]), 600, 10_800)
    assert [LENGTHS[each] for each in lengths] == ["short", "short", "medium", "medium", "long"]
    assert [WIDTHS[each] for each in width_numbers(np.array([1, 32, 33, 128]), 128)] == ["narrow"] * 2 + ["wide"] * 2


def test_what_has_no_mean_is_an_error_or_nan() -> None:
    assert math.isnan(weighted_mean(np.array([1.0]), np.array([0.0])))
    with pytest.raises(ValueError, match="a weight for each value"):
        weighted_mean(np.array([1.0]), np.array([-1.0]))
    with pytest.raises(ValueError, match="same length"):
        means(SUBMIT_S[1:], START_S, END_S, RUN_S, PROCESSORS)
    with pytest.raises(ValueError, match="bound of slowdowns"):
        means(SUBMIT_S, START_S, END_S, RUN_S, PROCESSORS, 0)
    with pytest.raises(ValueError, match="in order"):
        length_numbers(RUN_S, 600, 60)
    with pytest.raises(ValueError, match="processor"):
        width_numbers(PROCESSORS, 0)
