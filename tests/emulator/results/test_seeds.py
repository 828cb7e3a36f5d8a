"""Several seeds of a policy: which runs form a column, and the intervals of its figures."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.emulator.results.samples import TWO_NODES, six_jobs

from cosched_emulator.results.compared_runs import seed_columns
from cosched_emulator.results.figures.comparison import (
    PolicyRuns,
    SeedRow,
    change_text,
    compare_seeds,
    error_lengths,
    rows_as_json,
    rows_of,
)
from cosched_emulator.results.figures.metrics import summarise
from cosched_emulator.results.figures.plot import MOST_STEPS, distribution, mean_distribution, seed_bars
from cosched_emulator.statistics.intervals import Interval

SUMMARY = summarise(six_jobs(), TWO_NODES)
T2 = 4.302653  # Student's t for an interval of 95 % over three seeds

# ---------------------------------------------------------------- columns


def folder(at: Path, policy: str | None, seed: int | None, machine: int = 1, **settings: Any) -> Path:
    """Return a folder with the ``run.json`` of a run."""
    config: dict[str, Any] = {"seed": seed, "workload": {"load": settings.pop("load", None)}}
    if policy is not None:
        config["policy"] = {"name": policy, **settings}
    at.mkdir()
    (at / "run.json").write_text(json.dumps({"format": 1, "config": config, "machine": [{"nodes": machine}]}))
    return at


def columns_of(*folders: Path) -> list[tuple[str, tuple[int, ...], tuple[int | None, ...]]]:
    found = seed_columns(folders, [at.name for at in folders])
    return [(column.heading, column.runs, column.seeds) for column in found]


def test_runs_that_differ_in_the_seed_alone_are_one_column(tmp_path: Path) -> None:
    runs = [folder(tmp_path / f"{name}-{seed}", name, seed) for seed in (7, 3) for name in ("easy", "rua")]
    assert columns_of(*runs) == [("easy (2 seeds)", (0, 2), (7, 3)), ("rua (2 seeds)", (1, 3), (7, 3))]
    other = folder(tmp_path / "larger", "easy", 5, machine=2)
    assert columns_of(runs[0], other) == [("easy-7", (0,), (7,)), ("larger", (1,), (5,))]


def test_a_second_run_with_a_seed_is_another_column(tmp_path: Path) -> None:
    runs = [folder(tmp_path / f"{place}{seed}", "easy", seed) for place in "ab" for seed in (1, 2)]
    assert columns_of(*runs) == [("a1 (2 seeds)", (0, 1), (1, 2)), ("b1 (2 seeds)", (2, 3), (1, 2))]
    assert columns_of(runs[0], runs[2]) == [("a1", (0,), (1,)), ("b1", (1,), (1,))]


def test_columns_of_one_policy_are_named_by_what_differs(tmp_path: Path) -> None:
    settings: list[dict[str, Any]] = [{"load": 0.9}, {"load": 0.7}, {"load": 0.7, "order": {"name": "sjf"}}]
    runs = [
        folder(tmp_path / f"r{index}-{seed}", "easy", seed, **each)
        for index, each in enumerate(settings)
        for seed in (1, 2)
    ]
    assert [heading for heading, *_ in columns_of(*runs[:4])] == [
        "easy workload.load=0.9 (2 seeds)",
        "easy workload.load=0.7 (2 seeds)",
    ]
    assert columns_of(*runs)[2][0] == "easy workload.load=0.7 order.name=sjf (2 seeds)"
    many = {f"x{number}": number for number in range(4)}
    runs[4:] = [folder(tmp_path / f"many-{seed}", "easy", seed, **many) for seed in (1, 2)]
    assert columns_of(*runs)[2][0] == "many-1 (2 seeds)"


# ---------------------------------------------------------------- figures


def policy(name: str, waits: Sequence[float | None], seeds: Sequence[int] = (1, 2, 3), **machine: Any) -> PolicyRuns:
    """Return a column with a mean wait for each seed."""
    summaries = []
    for wait in waits:
        summary: dict[str, Any] = copy.deepcopy(SUMMARY)
        summary["finished"]["wait_s"]["mean"] = wait
        summary["machine"].update(machine)
        summaries.append(summary)
    return PolicyRuns(name, seeds[: len(waits)], summaries)


def wait_row(*policies: PolicyRuns, paired: bool = True, **settings: Any) -> SeedRow:
    return next(row for row in compare_seeds(policies, paired=paired, **settings) if row.figure.label == "wait, mean")


A = policy("a", [10, 20, 30])
FACTOR = math.exp(T2 * 10 / 3**0.5 / 20)  # of the interval of A's mean
HALVED = policy("b", [5, 10, 15])


def test_more_is_better_and_differences_where_there_is_no_row_of_changes() -> None:
    less, more = policy("less", [1, 2, 3], jobs_per_hour=100.0), policy("more", [1, 2, 3], jobs_per_hour=110.0)
    row = next(row for row in compare_seeds([less, more], paired=True) if row.figure.label == "throughput")
    assert (row.best, row.changes) == ((False, True), ())


def test_a_wait_of_zero_has_no_change_in_percent() -> None:
    # The differences 10, 19 and 29 have a mean of 19.33 and an interval of 19.33 +- 23.6; 20, 20, 21: 20.33 +- 1.43.
    zero = policy("zero", [0, 1, 1])
    assert (wait_row(A, zero).changes, wait_row(A, zero).unclear) == ((), True)
    assert wait_row(policy("d", [20, 21, 22]), zero).best == (False, True)


def test_an_interval_over_equal_runs_is_not_shown() -> None:
    same, lower = policy("same", [20, 20, 20]), policy("lower", [15, 15, 15])
    assert (same.repeats, A.repeats, policy("one", [20]).repeats) == (True, False, False)
    row = wait_row(same, lower)
    shown, change = rows_of([row], "same")
    assert shown.texts == ("20.00", "15.00")
    assert change.texts == ("", "-25.0")  # neither yes nor no
    assert (row.best, row.unclear) == ((False, False), True)
    # 15 / (10, 20, 30): the other policy depends on the seed, so there is an interval.
    against = wait_row(A, lower)
    assert against.changes[1] is not None
    assert against.changes[1].exists


def test_counts_that_are_the_same_for_all_seeds_are_whole() -> None:
    rows = {row.label: row.texts for row in rows_of(compare_seeds([A, HALVED], paired=True), "a")}
    assert rows["jobs counted"] == ("6", "6")


def test_intervals_as_json() -> None:
    (found,) = rows_as_json([wait_row(A, HALVED)], "finished")
    assert (found["label"], found["path"]) == ("wait, mean", ["finished", "wait_s", "mean"])
    assert found["intervals"][0]["seeds"] == 3
    assert found["intervals"][0]["low"] == pytest.approx(20 / FACTOR)
    assert found["change_percent"][0] is None
    assert found["change_percent"][1]["lower"] == "yes"
    assert found["best"] == [False, True]
    (alone,) = rows_as_json([wait_row(policy("one", [20]))], "finished")
    assert alone["intervals"] == [{"mean": 20, "low": None, "high": None, "seeds": 1}]


def test_bars_have_error_bars_in_the_unit_of_the_figure() -> None:
    bars = seed_bars(wait_row(policy("hours", [36_000, 72_000, 108_000]), policy("one", [3600, 3600, 3600])))
    assert (bars.unit, bars.values[0]) == ("h", 20)
    assert bars.errors is not None
    assert [side[0] for side in bars.errors] == pytest.approx([20 - 20 / FACTOR, 20 * FACTOR - 20])
    assert [side[1] for side in bars.errors] == [0, 0]
    assert error_lengths([None, Interval(5, 4, 8, 3, 0.95)], 2) == [[0, 0.5], [0, 1.5]]


# ---------------------------------------------------------------- distributions


def test_the_distribution_of_a_sample() -> None:
    found = distribution(np.array([3.0, 1.0, 1.0, 2.0]))
    assert found.values.tolist() == [1, 1, 1, 2, 3]
    assert found.share.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert found.band is None


def test_the_mean_distribution_has_a_pointwise_band() -> None:
    # At 1 the shares are 1/2, 1/4 and 0: mean 0.25, standard deviation 0.25. At 2: 1/2, 3/4, 1/2. At 3: 1 for all.
    samples = [np.array([1.0, 3.0]), np.array([2.0, 1.0, 2.0, 3.0]), np.array([2.0, 3.0])]
    found = mean_distribution(samples)
    assert found.values.tolist() == [1, 1, 2, 3]
    assert found.share.tolist() == pytest.approx([0, 0.25, 7 / 12, 1])
    assert found.band is not None
    low, high = found.band
    half = T2 * (1 / 48) ** 0.5 / 3**0.5  # variance of 1/2, 3/4, 1/2: (1/144 + 4/144 + 1/144) / 2 = 1/48
    assert low.tolist() == pytest.approx([0, 0, 7 / 12 - half, 1])
    assert high.tolist() == pytest.approx([0, 0.25 + T2 * 0.25 / 3**0.5, 7 / 12 + half, 1])
    same = mean_distribution([samples[0], samples[0]])
    assert (same.share.tolist(), same.band) == ([0, 0.5, 1], None)


def test_a_mean_distribution_of_many_values_is_thinned() -> None:
    found = mean_distribution([np.arange(10_000.0), np.arange(10_000.0) + 0.5])
    assert found.values.size == MOST_STEPS + 1
    assert (found.values[-1], found.share[-1]) == (9999.5, 1)


def test_a_bound_that_says_nothing_is_told_by_its_size() -> None:
    assert change_text(Interval(-12.34, -15.0, 5.04e43, 2, 0.95)) == "-12.3 (-15.0 to +5e+43)"
    assert change_text(Interval(-12.34, -15.0, 99_999.0, 3, 0.95), 0, " %") == "-12 % (-15 to +99999)"
