"""Tables that compare runs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.emulator.results.samples import TWO_NODES, six_jobs

from cosched_emulator.results.figures.comparison import FIGURES, NOTHING, compare, text_table
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


def test_for_throughput_more_is_better(pair: list[dict[str, Any]]) -> None:
    assert row_of(pair, "throughput") == ("jobs/h", ["101.9", "200.0"], [False, True])


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
