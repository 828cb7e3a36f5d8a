"""The figures of runs of the paired gang reproduction, on quanta and jobs written by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scripts.papers.paired_gang.over_time import figures_over_time, in_system, mean_between
from scripts.papers.paired_gang.quanta import (
    GUEST,
    PARTNER,
    ROW,
    Quanta,
    chosen,
    mean_share,
    moves_per_quantum,
    pair_share,
    pairs_where_possible,
    phase_figures,
    prediction_figures,
    predictions,
    slots_in_use,
)

NAN = math.nan


def quanta_of(*rows: tuple[int, int, int, int, float]) -> Quanta:
    """Return quanta of 1 s from rows of number, job, slot, role and share."""
    numbers, jobs, slots, roles, shares = (np.array(column) for column in zip(*rows, strict=True))
    ones, starts = np.ones(len(rows)), numbers - 1.0
    both = np.ones(len(rows), dtype=bool)
    return Quanta(numbers, starts, starts + 1, jobs, slots, roles, ones, ones * shares, shares, both)


# Two slots with a job each, that run together twice and alone once.
TWO = quanta_of(
    (1, 7, 0, ROW, 0.97),
    (1, 8, 1, PARTNER, 0.0),
    (2, 8, 1, ROW, 0.0),
    (3, 7, 0, ROW, 0.95),
    (3, 8, 1, PARTNER, NAN),
    (4, 7, 0, ROW, NAN),
)


def test_pairs_and_chosen_slots_are_shares_of_all_quanta() -> None:
    assert TWO.count == 4
    assert pair_share(TWO) == 0.5
    assert chosen(TWO, (7, 8, 9)) == [0, 0.5, 0]
    assert TWO.paired.tolist() == [True, True, False, True, True, False]


def test_shares_are_means_over_measured_quanta() -> None:
    assert mean_share(TWO, [7], paired=True) == pytest.approx(0.96)
    assert mean_share(TWO, [8], paired=False) == 0.0
    assert mean_share(TWO, [7], paired=False) is None


def test_slots_in_use_counts_jobs_that_wait_for_their_turn() -> None:
    rows = quanta_of((1, 7, 0, ROW, 0.9), (2, 7, 0, ROW, 0.9), (3, 8, 1, ROW, 0.9), (4, 7, 0, ROW, 0.9))
    life = {7: (0.0, 4.0), 8: (0.5, 3.0)}
    assert slots_in_use(rows, life).tolist() == [1, 2, 2, 1]
    # Quanta 2 and 3 have two slots and no pair; in the third one, job 8 is new.
    assert pairs_where_possible(rows, life) == (0.0, 0.5)


def test_slots_in_use_follows_jobs_that_move() -> None:
    rows = quanta_of(
        (1, 7, 0, ROW, 0.9),
        (1, 8, 0, ROW, 0.2),
        (2, 8, 1, ROW, 0.2),
        (2, 7, 0, GUEST, 0.2),
        (3, 7, 0, ROW, 0.9),
        (3, 8, 1, PARTNER, 0.9),
    )
    life = {7: (0.0, 9.0), 8: (0.0, 9.0)}
    assert slots_in_use(rows, life).tolist() == [1, 2, 2]
    assert moves_per_quantum(rows) == pytest.approx(1 / 3)
    assert pairs_where_possible(rows, life) == (0.5, 0.0)


def test_predictions_weigh_the_last_four_shares() -> None:
    shares = (0.1, 0.2, NAN, 0.3, 0.4, 0.5)
    found = predictions(quanta_of(*((number, 7, 0, ROW, share) for number, share in enumerate(shares, 1))))
    assert found.real.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert found.new.tolist() == [True, False, False, False, False]
    expected = [
        1.0,
        0.1,
        (0.4 * 0.2 + 0.3 * 0.1) / 0.7,
        (0.4 * 0.3 + 0.3 * 0.2 + 0.2 * 0.1) / 0.9,
        0.4 * 0.4 + 0.3 * 0.3 + 0.2 * 0.2 + 0.1 * 0.1,
    ]
    assert found.predicted.tolist() == pytest.approx(expected)


def test_predictions_of_jobs_do_not_mix() -> None:
    rows = quanta_of((1, 7, 0, ROW, 0.2), (1, 8, 1, PARTNER, 0.6), (2, 8, 1, ROW, 0.7), (3, 7, 0, ROW, 0.3))
    found = prediction_figures(rows)
    assert found["prediction_new"] == 0.5
    assert found["prediction_error"] == pytest.approx(0.1)
    assert found["prediction_correlation"] == pytest.approx(1.0)
    assert sorted(found["prediction_dots"]) == [[0.2, 0.3], [0.6, 0.7], [1.0, 0.2], [1.0, 0.6]]


def test_pairs_of_hungry_jobs_are_told_from_others() -> None:
    rows = quanta_of(
        (1, 7, 0, ROW, 0.9),
        (2, 7, 0, ROW, 0.49),
        (2, 8, 1, PARTNER, 0.49),
        (3, 8, 1, ROW, 0.49),
        (3, 7, 0, PARTNER, 0.49),
        (4, 7, 0, ROW, 0.1),
        (4, 8, 1, PARTNER, 0.1),
        (5, 8, 1, ROW, 0.1),
    )
    found = phase_figures(rows)
    assert found["phase_pairs_high"] == pytest.approx(2 / 3)
    assert found["phase_pairs_low"] == 0.5
    assert found["phase_hungry_pairs"] == pytest.approx(0.4)
    assert found["phase_stuck"] == 2


# ---------------------------------------------------------------- jobs over time


def test_jobs_in_the_system_are_counted_from_submission_to_end() -> None:
    times, counts = in_system(np.array([0.0, 1.0, 3.0]), np.array([2.0, 3.0, 5.0]))
    assert dict(zip(times.tolist(), counts.tolist(), strict=True)) == {0: 1, 1: 2, 2: 1, 3: 1, 5: 0}
    assert mean_between(times, counts, 0.0, 4.0) == pytest.approx((1 + 2 + 1 + 1) / 4)
    assert mean_between(times, counts, 4.0, 8.0) == pytest.approx(1 / 4)
    assert mean_between(times, counts, 4.0, 4.0) is None


def test_figures_over_time() -> None:
    submit, end = np.array([0.0, 600.0, 1200.0, 1800.0]), np.array([300.0, 700.0, 1300.0, 5400.0])
    found = figures_over_time(submit, end, np.ones(4), 0.0)
    assert [found[f"idle_third_{part}"] for part in (1, 2, 3)] == [1, 1, 1]
    assert found["idle_later"] == 2
    assert [found[f"jobs_third_{part}"] for part in (1, 2, 3)] == pytest.approx([0.5, 1 / 6, 1 / 6])
    assert (found["jobs_at_last"], found["jobs_max"]) == (1, 1)
    assert (found["drain_h"], found["run_h"]) == (1.0, 1.5)
    assert len(found["jobs_curve"]) == len(found["jobs_curve_h"])
    assert found["jobs_curve"][0] == 1
    assert found["jobs_curve"][-1] == 0
