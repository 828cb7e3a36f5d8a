"""The worked examples of parts: they conform, and do what the page says."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.doc_files import fences, write_files

from cosched_emulator import simulate
from cosched_plugin.config import choose
from cosched_plugin.testing.check import check_policy

PAGE = "adding-a-part.md"
CHOICES = {
    "fair share": ("easy", ["order=fair_share:FairShare", "order.half_life_s=100"]),
    "fair share in slices": ("glts", ["order=fair_share:FairShare", "order.half_life_s=100"]),
    "one switch": ("easy", ["placement=one_switch:OneSwitch", "placement.nodes_per_switch=3"]),
    "by table": ("lomarc-r", ["matching=by_table:ByTable", 'matching.slowdowns=[["a", "b", 1.2], ["a", "a", 1.1]]']),
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Make the page's modules importable."""
    names = [path.stem for path in write_files(PAGE, tmp_path, ".py")]
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield names
    for name in names:
        sys.modules.pop(name, None)


def started(
    lines: list[str], folder: Path, policy: str, *settings: str, nodes: int = 1, preset: str = "single"
) -> dict[int, tuple[int, set[int]]]:
    """Return when, in seconds, and on which nodes each job of a log starts: lines of (submit, run, processes, user, program)."""
    log = folder / "jobs.swf"
    jobs = [line.split() for line in lines]
    log.write_text(
        "".join(
            f"{number} {submit} 0 {run_s} {size} -1 -1 {size} {run_s} -1 1 {user} 1 {program} 1 1 -1 -1\n"
            for number, (submit, run_s, size, user, program) in enumerate(jobs, 1)
        )
    )
    table = {"cluster": {"nodes": nodes, "preset": preset}, "workload": {"swf": str(log)}}
    finished = simulate(table, policy, settings=settings)
    return {
        record.job.spec.id: (
            round(stay.start_us / 1e6),
            {node for first, count, _, _ in stay.runs for node in range(first, first + count)},
        )
        for record in finished.records
        for stay in record.intervals
    }


def test_the_examples_are_short_typed_and_use_only_the_api() -> None:
    for fence in fences(PAGE):
        if (fence.option("file") or "").endswith(".py"):
            assert len(fence.text.splitlines()) <= 55
            assert not re.search(r"\bignore\b|\bAny\b|\bcast\b|noqa", fence.text)
            assert set(re.findall(r"^from (cosched\S*) import", fence.text, re.MULTILINE)) == {"cosched_plugin.api"}


@pytest.mark.parametrize(
    "example", [pytest.param(name, marks=[pytest.mark.slow] if name.endswith("slices") else []) for name in CHOICES]
)
def test_the_examples_conform(example: str) -> None:
    report = check_policy(choose(*CHOICES[example]).make, seed=5, runs=3)
    assert report.decisions > 30


def test_fair_share_starts_jobs_of_users_with_less_usage_first(tmp_path: Path) -> None:
    greedy = ["0 100 1 7 1"] * 4
    late = ["10 100 1 8 1"]
    order = "order=fair_share:FairShare"
    first_come = started(greedy + late, tmp_path, "easy")
    fair = started(greedy + late, tmp_path, "easy", order)
    assert first_come[5][0] == 400
    assert fair[5][0] == 100
    # Usage of a thousand half-lives ago counts nothing; with a half-life of a day, user 8 would have used less.
    later = ["0 900 1 7 1", "2000 100 1 9 1", "2010 100 1 7 1", "2020 100 1 8 1"]
    assert started(later, tmp_path, "easy", order)[4][0] == 2100
    assert started(later, tmp_path, "easy", order, "order.half_life_s=1")[3][0] == 2100


def test_one_switch_keeps_jobs_together(tmp_path: Path) -> None:
    settings = ("placement=one_switch:OneSwitch", "placement.nodes_per_switch=4")
    jobs = ["0 1000 3 1 1", "1 1000 3 1 1", "2 1000 1 1 1", "3 1000 4 1 1", "4 1000 1 1 1"]
    placed = started(jobs, tmp_path, "conservative", *settings, nodes=12)
    assert [nodes for _, nodes in placed.values()] == [{0, 1, 2}, {4, 5, 6}, {3}, {8, 9, 10, 11}, {7}]
    scattered = started(jobs, tmp_path, "conservative", nodes=12)
    assert scattered[2][1] == {3, 4, 5}


def test_by_table_starts_the_programs_together_that_slow_each_other_least(tmp_path: Path) -> None:
    slowdowns = 'matching.slowdowns=[["1", "2", 1.1], ["1", "1", 1.4], ["2", "2", 1.9]]'
    settings = ("order=fcfs", "matching=by_table:ByTable", "matching.most=1.5", slowdowns)
    jobs = ["0 4000 4 1 1", "0 3000 4 1 1", "0 3600 4 1 2", "60 1800 4 1 2"]
    placed = started(jobs, tmp_path, "pss", *settings, nodes=4, preset="lomarc-ht")
    assert {job: start_s for job, (start_s, _) in placed.items()} == {1: 0, 2: 4000, 3: 0, 4: 4000}
