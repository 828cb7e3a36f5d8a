"""What guests bring on a real Slurm and what they never do: the page of the stored runs, and, slow, new ones."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.plugin.slurm.bed import absent
from tests.plugin.slurm.guests.figures import most_by_accounts, pairs_of, report, summary, waits_of
from tests.plugin.slurm.guests.runs import COUNT, FOLDER, run
from tests.processes import ROOT

QUARTER = 0.75  # of the mean wait without guests


def check(found: Mapping[str, Any]) -> None:
    """Never more than two jobs a core, one of each partition; exclusive jobs alone; every job that Slurm has not lost ends once."""
    figures = summary(found)
    assert figures["most a core, seen"] <= 2
    most = figures["most a node, accounts"]
    assert max(most.values()) <= 2
    assert [most.get(name, 0) <= 1 for name in ("batch", "co", "guest")] == [True] * 3
    assert figures["exclusive shared"] == []
    assert figures["unexplained"] == []
    assert found["chaos"] or figures["ended once"] == COUNT


def test_the_page_has_the_rows_of_the_stored_runs() -> None:
    assert report(FOLDER) in (ROOT / "docs" / "results" / "appendix" / "slurm.md").read_text()


def test_who_met_whom_is_read_from_clocks_and_from_accounts() -> None:
    ran = [
        {"number": 0, "job": 7, "start_s": 0.0, "end_s": 9.0, "nodes": ["n0", "n1"], "partition": "co"},
        {"number": 1, "job": 8, "start_s": 2.0, "end_s": 6.0, "nodes": ["n1"], "partition": "guest"},
        {"number": 2, "job": 9, "start_s": 9.5, "end_s": 12.0, "nodes": ["n0"], "partition": "batch"},
    ]
    assert [tuple(pair) for pair in pairs_of({"ran": ran})] == [(0, 1, "guest", 4.0)]
    rows = [("co", 0, 9, "n[0-1]"), ("guest", 2, 6, "n1"), ("batch", 9, 12, "n0")]
    day = "2026-11-29T00:00:"
    lines = [f"1|r|COMPLETED|{name}|{day}{start:02}|{day}{end:02}|{nodes}|cpu=4" for name, start, end, nodes in rows]
    assert most_by_accounts(lines) == {"all": 2, "co": 1, "guest": 1, "batch": 1}


WHY = absent("24.11", "slurmdbd", "mariadbd")


@pytest.mark.slow
@pytest.mark.skipif(bool(WHY), reason=WHY)
def test_150_jobs_wait_a_quarter_less_with_guests() -> None:
    with ThreadPoolExecutor() as pool:  # eleven minutes, side by side: the jobs sleep
        alone, guests = pool.map(lambda kind: run(1, kind, "24.11"), ("alone", "guests"))
    for found in (alone, guests):
        check(found)
    assert mean_wait(guests) <= QUARTER * mean_wait(alone)


def mean_wait(found: Mapping[str, Any]) -> float:
    return statistics.fmean(waits_of(found).values())
