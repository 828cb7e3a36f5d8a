"""The measurement of start estimates, on a small log."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from scripts.bench import starts
from scripts.bench.start_tables import error_lines, grouped, interval_score, range_lines


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    folder = tmp_path_factory.mktemp("logs")
    random = np.random.default_rng(1)
    lines, at = [], 0
    for number in range(1, 301):
        at += int(random.exponential(500))
        run, size = int(random.exponential(4000)) + 1, int(2 ** random.integers(0, 7))
        lines.append(f"{number} {at} -1 {run} {size} -1 -1 {size} {run * 2} -1 1 {number % 5 + 1} 1 1 1 1 -1 -1")
    with gzip.open(folder / starts.WORKLOADS["SDSC-SP2"][0], "wt") as file:
        file.write("\n".join(lines) + "\n")
    out = folder / "rows.jsonl"
    starts.run("SDSC-SP2", "easy", 300, 80, out, folder)
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_rows_hold_what_was_known_then_and_what_happened(rows: list[dict[str, object]]) -> None:
    """A row of a job that had started already would count as a perfect estimate."""
    assert {row["kind"] for row in rows} == {"submission", "later"}
    assert len(rows) > 100
    for row in rows:
        assert isinstance(row["wait"], int)
        assert row["wait"] > 0
        assert all(isinstance(row[name], int) for name in ("head", "conservative", "predicted"))


def test_the_tables_have_a_row_for_each_policy_log_and_moment(rows: list[dict[str, object]]) -> None:
    groups = grouped(rows)
    errors, ranges = [*error_lines(groups)], [*range_lines(groups)]
    assert [line.split(" | ")[:3] for line in errors[2:]] == [
        ["| easy", "SDSC-SP2", kind] for kind in ("submission", "later")
    ]
    assert [line.split(" | ")[1] for line in ranges[2:]] == ["SDSC-SP2", "SDSC-SP2", "all", "all"]


def test_a_range_that_misses_is_charged_for_the_distance() -> None:
    assert interval_score(10, 20, 15) == 10
    assert interval_score(10, 20, 8) == pytest.approx(10 + 10 * 2)
    assert interval_score(10, 20, 23) == pytest.approx(10 + 10 * 3)
