"""The command ``losers``, and `Run.against`, which gives the same."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cosched_emulator import prepare, simulate
from cosched_emulator.cli.main import cli
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.results.harm import LaterRule, Loser, LoserClasses

# Four nodes of one core. In order of submission the jobs of 2 and 3 nodes wait for the first; EASY lets the last one in.
LOG = """; MaxProcs: 4
1 0 -1 1000 3 -1 -1 3 1000 -1 1 1 1 1 -1 -1 -1 -1
2 10 -1 500 4 -1 -1 4 500 -1 1 1 1 1 -1 -1 -1 -1
3 20 -1 600 1 -1 -1 1 600 -1 1 1 1 1 -1 -1 -1 -1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("log.swf").write_text(LOG)
    scenario = prepare({"workload": {"swf": "log.swf"}})
    for policy in ("easy", "fcfs"):
        simulate(scenario, policy, out=policy)
    other = LOG.replace("600 1 -1 -1 1 600", "600 2 -1 -1 2 600")
    Path("other.swf").write_text(other)
    simulate({"workload": {"swf": "other.swf"}}, "easy", out="other")
    return tmp_path


def losers(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["losers", *arguments])


def test_the_losers_of_fcfs(folder: Path) -> None:
    # Under EASY job 3 starts at once (response 600 s), under FCFS after job 2, at 1500 s (response 2080 s).
    result = losers("fcfs", "--baseline", "easy", "--csv", "jobs.csv")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("jobs completed in this run and in easy: 3\n")
    job = next(line.split() for line in result.output.splitlines() if line.startswith("3 "))
    assert job == ["3", "1", "0.33", "34.67", "10.00", "24.67", "3.47", "short", "narrow", "later", "start"]
    with open("jobs.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["id"] for row in rows] == ["3", "1", "2"]
    assert list(rows[0]) == list(Loser._fields)
    assert losers("fcfs", "--baseline", "easy", "--csv", "jobs.csv").exit_code == 1
    assert losers("fcfs", "--baseline", "easy", "--csv", "jobs.csv", "--force", "--jobs", "0").exit_code == 0


def test_python_gives_the_same(folder: Path) -> None:
    simulate({"workload": {"swf": "log.swf"}}, "fcfs", out="fcfs2")
    told: dict[str, Any] = json.loads(
        losers("fcfs", "--baseline", "easy", "--baseline", "fcfs2", "--json", "--jobs", "1").output
    )
    run = simulate({"workload": {"swf": "log.swf"}}, "fcfs")
    harm = run.against("easy", run)
    assert {**harm.as_dict(1), "run": "fcfs", "baselines": ["easy", "fcfs2"]} == told
    assert (harm.figures.h1, harm.figures.hshk, harm.figures.hshk_floor) == (0.333333, 0.0, 0.166667)
    assert run.against(Path("easy"), rule=LaterRule(4.0, 0)).figures.later == 0
    assert list(
        run.against(simulate({"workload": {"swf": "log.swf"}}, "easy"), classes=LoserClasses(500, 600)).by_class
    ) == ["short wide", "medium narrow", "long wide"]


def test_mistakes(folder: Path) -> None:
    same = losers("easy", "--baseline", "easy")
    assert isinstance(same.exception, ConfigurationError)
    assert str(same.exception) == "RUN_DIR: expected every run once, got easy twice"
    other = losers("easy", "--baseline", "other")
    assert isinstance(other.exception, ConfigurationError)
    assert str(other.exception).startswith("baseline: expected a run of the same jobs, got another job 3")
    assert isinstance(losers("easy", "--baseline", "nowhere").exception, InputError)
    classes = losers("easy", "--baseline", "fcfs", "--short-s", "9", "--medium-s", "8")
    assert str(classes.exception) == "--short-s: expected at most --medium-s, 8, got 9"
    assert "Missing option '--baseline'" in losers("easy").output
