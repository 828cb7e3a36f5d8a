"""Runs of a study: the same table however it is made, failures of single runs, locks, and places that cannot be written."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.commands import assert_one_line
from tests.emulator.studies.experiments import SHARED, SMALL, TWO_POLICIES, toml
from tests.processes import ended, fork_program

from cosched_emulator import Run, study
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.studies.cells import make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.runner import Made, Way, run_plan
from cosched_emulator.studies.study_folder import StudyFolder
from cosched_emulator.studies.study_result import StudyResult, read_study
from cosched_plugin.api import Action, StartJob, View, first_fit

MODULE = "tests.emulator.studies.test_running"
TABLES = ("results.csv", "results.sqlite", "intervals.csv", "losers.csv", "study.json")


class Sometimes:
    """Starts jobs in order, and does something else on machines of 9 or more nodes."""

    def __init__(self, otherwise: str) -> None:
        self.otherwise = otherwise

    def decide(self, view: View) -> Iterator[Action]:
        if view.machine.nodes > 8:
            if self.otherwise == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.otherwise == "interrupt":
                raise KeyboardInterrupt
            if self.otherwise == "hang":
                time.sleep(3600)
            raise RuntimeError("no idea\nat all")
        for job in view.queue:
            runs = first_fit(job, view.free, view.machine, view.free_memory_mb)
            if runs is not None:
                yield StartJob(job.id, runs, job.estimate_us, job.limit_us)


def count_waiting(run: Run) -> Mapping[str, Any]:
    """Count the jobs that waited: a measure."""
    return {"waited": int((run.jobs.wait_s > 0).sum()), "policy_words": {"name": run.policy}}


def count_decisions(run: Run) -> Mapping[str, Any]:
    """Count the records of the decision trace: a measure that needs it."""
    assert run.trace is not None
    return {"decisions": len(run.trace)}


count_decisions.needs_trace = True  # type: ignore[attr-defined]


def clashing(_run: Run) -> Mapping[str, Any]:
    """Return a figure that exists: a wrong measure."""
    return {"makespan_s": 0}


def sometimes(otherwise: str) -> dict[str, Any]:
    return {
        "scenario": SMALL,
        "policies": ["easy", {"name": "S", "policy": f"{MODULE}:Sometimes", "set": {"otherwise": otherwise}}],
        "hardware": [{"name": "8", "cluster": {"nodes": 8}}, {"name": "9", "cluster": {"nodes": 9}}],
    }


def run_into(out: Path, table: Mapping[str, Any] = TWO_POLICIES, **way: Any) -> Made:
    return run_plan(make_plan(read_experiment(table)), StudyFolder(out), Way(**way))


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in TABLES}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study") / "one"
    made = run_into(out, jobs=1)
    assert (made.wanted, made.made, made.failures) == (24, 24, ())
    return out


def test_the_table_does_not_depend_on_the_number_of_processes(undisturbed: Path, tmp_path: Path) -> None:
    run_into(tmp_path / "three", jobs=3)
    assert tables(tmp_path / "three") == tables(undisturbed)


def test_what_is_done_is_not_done_again_and_what_is_lost_is(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "again"
    run_into(out, jobs=2)
    cells = sorted((out / "cells").glob("*.json"))
    before = {cell: cell.stat().st_mtime_ns for cell in cells}
    made = run_into(out)
    assert (made.done_before, made.made) == (24, 0)
    cells[3].unlink()
    (out / "cells" / f"{cells[5].stem}.npz").unlink()
    (out / "cells" / ".half.json.partial").write_text("{")
    made = run_into(out)
    assert (made.done_before, made.made) == (22, 2)
    changed = {cell for cell in cells if cell.stat().st_mtime_ns != before[cell]}
    assert changed == {cells[3], cells[5]}
    assert tables(out) == tables(undisturbed)
    assert not list((out / "cells").glob(".*"))


def test_a_larger_experiment_runs_only_what_is_new(tmp_path: Path) -> None:
    run_into(tmp_path / "s", {"scenario": SMALL, "policies": ["easy"], "seeds": "1-3"})
    made = run_into(tmp_path / "s", {"scenario": SMALL, "policies": ["sjbf", "easy"], "seeds": "2-4"})
    assert (made.wanted, made.done_before, made.made) == (6, 2, 4)
    assert [row["cell"] for row in made.result.rows] == [*range(1, 7)]


@pytest.mark.parametrize(
    ("otherwise", "expected"),
    [
        ("raise", "RuntimeError: no idea at all"),
        ("interrupt", "KeyboardInterrupt"),
        ("die", r"the worker process was killed by SIGKILL \(out of memory\?\)"),
        ("hang", r"no result within 1 s \(--timeout\)"),
    ],
)
def test_a_run_that_fails_stops_no_other(tmp_path: Path, otherwise: str, expected: str) -> None:
    made = run_into(tmp_path / "s", sometimes(otherwise), jobs=2, timeout_s=1.0 if otherwise == "hang" else 60.0)
    ((cell, failure),) = made.failures
    assert cell.text == "hardware=9 policy=S"
    assert re.search(expected, failure.text)
    assert [row["cell"] for row in made.result.rows] == [1, 2, 3]
    assert [(stored.number, why.text) for stored, why in made.result.failures] == [(4, failure.text)]
    again = run_into(tmp_path / "s", sometimes(otherwise), only=(4,), timeout_s=1.0)
    assert (again.wanted, again.made, len(again.failures)) == (1, 0, 1)


def test_a_failure_is_forgotten_when_the_run_succeeds(tmp_path: Path) -> None:
    made = run_into(tmp_path / "s", {"scenario": SMALL, "measures": [f"{MODULE}:clashing"]})
    assert "expected a name of its own, got 'makespan_s', which exists" in made.failures[0][1].text
    assert made.result.rows == []
    table = {"scenario": SMALL, "measures": [f"{MODULE}:count_waiting", f"{MODULE}:count_decisions"]}
    made = run_into(tmp_path / "s", table)
    (row,) = made.result.rows
    assert not made.failures
    assert not made.result.failures
    assert row["waited"] > 0
    assert row["decisions"] > 0
    assert row["policy_words"] == {"name": "easy"}
    assert not (tmp_path / "s" / "failures.json").exists()


def test_a_measure_that_does_not_exist_is_an_error_before_any_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="measures: expected functions, each as MODULE:FUNCTION, got gone:f: "):
        run_into(tmp_path / "s", {"scenario": SMALL, "measures": ["gone:f"]})
    assert not (tmp_path / "s").exists()


def test_a_folder_has_one_runner(tmp_path: Path) -> None:
    out = tmp_path / "s"
    run_into(out, {"scenario": SMALL})
    with open(out / "lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate()
        lock.write(b"123")
        lock.flush()
        with pytest.raises(
            InputError, match="expected a study that no other process runs, got one that is running, process 123"
        ):
            run_into(out, {"scenario": SMALL})
        assert StudyFolder(out).runner() == 123
    assert StudyFolder(out).runner() is None


def test_another_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    (tmp_path / "lock").touch()
    with pytest.raises(InputError, match="expected a new folder, or a study's, got another one, which is not empty"):
        run_into(tmp_path, {"scenario": SMALL})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["letter.txt", "lock"]


def test_run_folders_are_kept_only_on_request(tmp_path: Path) -> None:
    table = {"scenario": SMALL, "seeds": [1, 2]}
    run_into(tmp_path / "s", table)
    assert not (tmp_path / "s" / "runs").exists()
    made = run_into(tmp_path / "s", table, keep=True)
    assert made.made == 2  # again, as their folders were not there
    folders = sorted((tmp_path / "s" / "runs").iterdir())
    assert [folder.name for folder in folders] == sorted(row["key"] for row in made.result.rows)
    assert all((folder / "jobs.csv").exists() for folder in folders)
    assert run_into(tmp_path / "s", table, keep=True).made == 0


@pytest.mark.parametrize("way", [{"jobs": -1}, {"timeout_s": 0}, {"timeout_s": float("nan")}])
def test_ways_to_run_that_make_no_sense_are_refused(way: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"^(jobs|timeout_s): expected"):
        study({"scenario": SMALL}, **way)


def test_from_python_a_study_needs_no_folder() -> None:
    result = study({"scenario": SMALL, "seeds": [1, 2]}, jobs=1)
    assert isinstance(result, StudyResult)
    assert result.folder is None
    assert result.columns["seed"].tolist() == [1, 2]
    assert np.isnan(result.columns["load"]).all()  # not declared
    assert result.columns["makespan_s"].dtype == float
    assert result.columns["states_COMPLETED"].tolist() == [12, 12]


def test_a_worker_with_another_source_of_a_policy_makes_no_run(tmp_path: Path) -> None:
    plan = make_plan(read_experiment(sometimes("raise")))
    other = [cell._replace(sources={MODULE: "another"}) if cell.sources else cell for cell in plan.cells]
    made = run_plan(replace(plan, cells=tuple(other)), StudyFolder(tmp_path / "s"), Way(jobs=1))
    assert [cell.number for cell, _ in made.failures] == [2, 4]
    assert {failure.text for _, failure in made.failures} == {
        f"this worker has another version of {MODULE}: start the workers again"
    }


def test_what_a_policy_prints_stays_out_of_the_output(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "import os\nprint('imported')\nclass P:\n    def decide(self, view):\n"
        "        print('deciding')\n        os.system('echo more')\n        return ()\n"
    )
    (tmp_path / "e.toml").write_text(toml({"scenario": SMALL, "policies": [{"name": "P", "policy": "loud:P"}]}))
    ran = ended(fork_program("cosched_emulator", "study", "run", "e.toml", "--out", "s", "--json", folder=tmp_path))
    assert json.loads(ran.out)["made"] == 1
    assert {"imported", "deciding", "more"} <= {*ran.err.splitlines()}


def test_files_that_are_damaged_are_named_with_what_helps(tmp_path: Path) -> None:
    out = tmp_path / "s"
    run_into(out, {"scenario": SMALL, "policies": ["easy", "fcfs"]})
    folder = StudyFolder(out)
    key = folder.read_plan().cells[1].key
    figures, jobs = out / "cells" / f"{key}.json", out / "cells" / f"{key}.npz"
    for file, content in (
        (figures, b"[]"),
        (figures, b"{"),
        (figures, b'{"format": 0}'),
        (figures, b'{"format": 1}'),
        (figures, b"[" * 100_000),
        (figures, figures.read_bytes().replace(b'"notes": []', b'"notes": [[]]')),
        (jobs, jobs.read_bytes()[:-400]),
        (jobs, jobs.read_bytes().replace(b"PK", b"KP")),
        (jobs, bytearray(jobs.read_bytes())[:60] + bytes(200) + jobs.read_bytes()[260:]),
    ):
        whole = file.read_bytes()
        file.write_bytes(content)
        with pytest.raises(InputError, match=rf"{file}: .*remove this file, and the run is made again"):
            read_study(folder)
        file.write_bytes(whole)
    plan = (out / "study.json").read_bytes()
    for name, content in (
        ("study.json", b"[]"),
        ("study.json", b'{"format": 1}'),
        ("study.json", plan.replace(b'"title": ""', b'"title": 7')),
        ("study.json", plan.replace(b'"number": 1', b'"number": 1e999')),
        ("study.json", plan.replace(b'"policies": "easy"', b'"policies": ["easy"]')),
        ("study.json", plan.replace(f'"key": "{key}"'.encode(), b'"key": "../../../etc"')),
        ("study.json", plan.replace(b'"seeds": ""', b'"seeds": "soon"')),
        ("study.json", plan.replace(b'"baselines": {', b'"baselines": {"0a": [[]],')),
        ("failures.json", b"[3]"),
    ):
        assert content != plan
        whole = (out / name).read_bytes() if (out / name).exists() else b'{"format": 1, "failures": []}'
        (out / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{out / name}: "):
            read_study(folder)
        (out / name).write_bytes(whole)
    assert len(read_study(folder).rows) == 2


@pytest.mark.parametrize("limit", [600, 6_000])  # bytes of a file: too few for the plan, for a run's figures
def test_what_cannot_be_written_is_one_clear_line_and_nothing_is_lost(tmp_path: Path, limit: int) -> None:
    file, out = tmp_path / "e.toml", tmp_path / "s"
    file.write_text(toml({"scenario": SHARED, "seeds": [1, 2]}))
    command = ("study", "run", str(file), "--out", str(out), "--jobs", "1")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))  # of the fork
    try:
        done = fork_program("cosched_emulator", *command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    reason = assert_one_line(ended(done), 2)
    assert reason.endswith(": expected a place that can be written, got File too large")
    assert not list(out.rglob("*.partial"))
    ran = ended(fork_program("cosched_emulator", *command))
    assert (ran.code, len((out / "results.csv").read_text().splitlines())) == (0, 3)
