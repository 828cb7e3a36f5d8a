"""Tables that compare runs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.emulator.results.samples import TWO_NODES, six_jobs

from cosched_emulator.results.figures.comparison import (
    COMMON,
    FIGURES,
    NOTHING,
    Figure,
    compare,
    energy_unit,
    figure_texts,
    markdown_table,
    number_texts,
    text_table,
    time_unit,
    unit_of,
)
from cosched_emulator.results.figures.metrics import summarise


@pytest.fixture
def pair() -> list[dict[str, Any]]:
    first = summarise(six_jobs(), TWO_NODES)
    second = copy.deepcopy(first)
    second["finished"]["wait_s"]["mean"] = 5400.0
    second["killed"] = {"count": 0, "share": 0.0}
    second["machine"]["jobs_per_hour"] = 200.0
    second["finished"]["penalised_percent"]["p95"] = None
    return [first, second]


def row_of(pair: list[dict[str, Any]], label: str, population: str = "finished") -> tuple[str, list[str], list[bool]]:
    row = next(row for row in compare(pair, population) if row.label == label)
    return row.unit, list(row.texts), list(row.best)


def test_every_figure_is_in_a_summary(pair: list[dict[str, Any]]) -> None:
    assert len({figure.label for figure in FIGURES}) == len(FIGURES)
    for row in compare(pair[:1]):
        assert row.texts[0] != NOTHING, row.label


def test_less_is_better_and_units_are_shared(pair: list[dict[str, Any]]) -> None:
    assert row_of(pair, "wait, mean") == ("min", ["0.44", "90.00"], [True, False])
    assert row_of(pair, "killed, share") == ("%", ["25.00", "0.00"], [False, True])


def test_for_throughput_more_is_better(pair: list[dict[str, Any]]) -> None:
    assert row_of(pair, "throughput") == ("jobs/h", ["101.9", "200.0"], [False, True])


def test_no_best_is_marked_for_equal_or_missing_values(pair: list[dict[str, Any]]) -> None:
    assert row_of(pair, "makespan") == ("s", ["106.0", "106.0"], [False, False])
    assert row_of(pair, "penalised run time, p95")[1:] == (["47.50", NOTHING], [False, False])
    assert row_of(pair, "utilisation, threads")[2] == [False, False]


def test_the_population_can_be_chosen(pair: list[dict[str, Any]]) -> None:
    assert row_of(pair, "wait, mean", "all") == ("s", ["22.50", "22.50"], [False, False])


def test_values_with_equal_text_are_marked_alike(pair: list[dict[str, Any]]) -> None:
    third = copy.deepcopy(pair[0])
    third["finished"]["wait_s"]["mean"] += 0.001
    assert row_of([*pair, third], "wait, mean")[2] == [True, False, True]


def test_text_table_of_two_runs(pair: list[dict[str, Any]]) -> None:
    lines = text_table(["easy", "a-long-name"], compare(pair)).splitlines()
    assert lines[0].split() == ["easy", "a-long-name"]
    assert set(lines[1]) == {"-"}
    assert lines[-1] == "* best of the row"
    wait = next(line for line in lines if line.startswith("wait, mean"))
    assert wait.split() == ["wait,", "mean", "min", "0.44*", "90.00"]
    # The digits of a column are aligned at the end of its name.
    ends = {len(line.rstrip("* ")) for line in [lines[0], *lines[2:-1]] if NOTHING not in line}
    assert len(ends) == 1
    assert all(line == line.rstrip() for line in lines)


def test_text_table_of_one_run_marks_nothing(pair: list[dict[str, Any]]) -> None:
    assert "*" not in text_table(["easy"], compare(pair[:1]))


def test_markdown_table_of_two_runs(pair: list[dict[str, Any]]) -> None:
    lines = markdown_table(["easy", "odd|name"], compare(pair)).splitlines()
    assert lines[:2] == ["|  | easy | odd\\|name |", "| --- | ---: | ---: |"]
    assert "| wait, mean [min] | **0.44** | 90.00 |" in lines
    assert f"| penalised run time, p95 [%] | 47.50 | {NOTHING} |" in lines


@pytest.mark.parametrize(
    ("largest_s", "unit"), [(0, "s"), (119.9, "s"), (120, "min"), (7199, "min"), (7200, "h"), (1e9, "h")]
)
def test_the_unit_of_time_depends_on_the_largest_value(largest_s: float, unit: str) -> None:
    assert time_unit(largest_s)[1] == unit


@pytest.mark.parametrize(
    ("largest_j", "unit"),
    [(0, "J"), (999.9, "J"), (1e3, "kJ"), (999_999, "kJ"), (1e6, "MJ"), (1e9, "GJ"), (1e15, "GJ")],
)
def test_the_unit_of_energy_depends_on_the_largest_value(largest_j: float, unit: str) -> None:
    assert energy_unit(largest_j)[1] == unit


def test_energies_share_the_unit_of_the_largest() -> None:
    energy = Figure("energy", ("energy", "total_j"), "joules")
    assert figure_texts(energy, [2_500_000.0, 1e4, None]) == ("MJ", ["2.50", "0.01", NOTHING])
    assert unit_of(energy, [3e9, None]) == (1e9, "GJ")


def test_numbers_have_the_precision_of_the_largest() -> None:
    assert number_texts([1234.5, 0.5]) == ["1,234", "0"]  # both at the precision of the largest
    assert number_texts([123.45, None]) == ["123.5", NOTHING]
    assert number_texts([-0.0001, 1]) == ["0.00", "1.00"]
    assert number_texts([]) == []


def test_runs_that_completed_different_jobs_have_no_best_but_for_numbers_of_jobs(pair: list[dict[str, Any]]) -> None:
    marked = {row.label for row in compare(pair, same_jobs=False) if any(row.best)}
    assert marked == {"killed at limit", "killed, share"}
    assert {"wait, mean", "throughput"} < {row.label for row in compare(pair) if any(row.best)}


def test_jobs_that_completed_in_all_runs_are_comparable(pair: list[dict[str, Any]]) -> None:
    common = [{**summary, COMMON: summary["finished"]} for summary in pair]
    rows = {row.label: row for row in compare(common, COMMON, same_jobs=False)}
    assert rows["wait, mean"].best == (True, False)
    assert rows["throughput"].best == (False, False)
    assert rows["completed in all runs"].texts == ("3", "3")
    assert "completed in all runs" not in {row.label for row in compare(pair)}


def test_efficiency_has_a_row_for_each_shape(pair: list[dict[str, Any]]) -> None:
    three = [*copy.deepcopy(pair), copy.deepcopy(pair[0])]
    for summary, value in zip(three, (0.5, 0.25, 0.75), strict=True):
        summary["machine"]["node_efficiency"] = value
    rows = [row for row in compare(three, shapes=("threads", "nodes", "threads")) if "efficiency" in row.label]
    assert [(row.label, row.texts, row.best) for row in rows] == [
        ("efficiency, shape threads", ("50.00", NOTHING, "75.00"), (False, False, True)),
        ("efficiency, shape nodes", (NOTHING, "25.00", NOTHING), (False, False, False)),
    ]
    (row,) = [row for row in compare(three, shapes=(None, None, None)) if "efficiency" in row.label]
    assert (row.label, row.texts) == ("efficiency, nodes", ("50.00", "25.00", "75.00"))
