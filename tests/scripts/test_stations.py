"""The files that a decision enters: goals that hold in this tree, and what is counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.bench import stations
from scripts.processes import environment

PLUGIN = {
    "__init__.py": "",
    "core/__init__.py": "",
    "core/engine.py": """
from cosched_plugin.policies.orders import by_arrival
class StartJob: pass
class SetNote: pass
class SchedulerCore:
    def handle(self, now_us, events):
        return [{"start": StartJob, "note": SetNote}[event]() for event in by_arrival(events)]
""",
    "policies/__init__.py": "",
    "policies/orders.py": """
def by_arrival(events):
    for event in events:
        yield event
""",
}
EMULATOR = {
    "__init__.py": "",
    "__main__.py": """
import sys
from cosched_plugin.core.engine import SchedulerCore
assert sys.argv[1:] == ["simulate"]
print("an answer")
for batch in ([], ["start"], ["note"], ["start", "note"]):
    SchedulerCore().handle(0, batch)
""",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a source tree with a scheduler of two files in two folders."""
    for package, files in (("plugin/cosched_plugin", PLUGIN), ("emulator/cosched_emulator", EMULATOR)):
        for name, text in files.items():
            file = tmp_path / package / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return tmp_path


def test_batches_with_decisions_are_counted(tree: Path) -> None:
    command = [sys.executable, "-P", str(stations.ENTERED), str(tree), "simulate"]
    ran = subprocess.run(command, env=environment(tree), capture_output=True, text=True, timeout=60, check=True)
    batches = [json.loads(line) for line in ran.stdout.splitlines()]
    files = ["cosched_plugin/core/engine.py", "cosched_plugin/policies/orders.py"]
    # The list's frame, the generator for each event, and once more for its end.
    one = {"files": files, "switches": 1}
    assert batches == [{**one, "starts": True}, {**one, "starts": False}, {**one, "starts": True}]
    assert stations.medians(batches) == {"batches": 3, "files": 2, "files_starting": 2, "switches": 1}


def test_a_run_that_fails_has_a_reason(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stations.count("easy", tree)["reason"] == "AssertionError"
    monkeypatch.setattr(stations, "RUN_S", 0.01)
    assert stations.count("easy", tree) == {"subject": "easy", "reason": "more than 0 s"}
    table = stations.lines([stations.count("easy", tree)])
    assert "more than 0 s" in table[2]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in ("easy", "conservative"))) for name in stations.JOBS],
)
def test_a_decision_enters_few_files(name: str) -> None:
    """A file more than the goal is a file more to read for everybody who follows a decision."""
    row = stations.count(name)
    assert row["batches"] > 100
    assert row["files"] <= stations.GOALS[name]
    assert row["switches"] <= stations.MOST_SWITCHES[name]
