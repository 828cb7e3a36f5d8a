"""A study that is killed at any instant goes on where it stopped, and ends with the table of an undisturbed one."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from tests.emulator.studies.experiments import TWO_POLICIES, toml
from tests.processes import Forked, ended, fork_program, is_alive, wait_until

TABLES = ("results.csv", "results.sqlite", "intervals.csv", "losers.csv", "study.json")


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    file = tmp_path / "e.toml"
    file.write_text(toml({**TWO_POLICIES, "seeds": "1-2"}))  # 16 runs
    return file


def start(experiment: Path, out: Path) -> Forked:
    arguments = ("study", "run", str(experiment), "--out", str(out), "--jobs", "2")
    return fork_program("cosched_emulator", *arguments, folder=experiment.parent)


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


@pytest.mark.parametrize("most", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_however_often_it_is_killed_the_table_is_that_of_an_undisturbed_study(
    experiment: Path, tmp_path: Path, most: int
) -> None:
    quiet, out = tmp_path / "quiet", tmp_path / "killed"
    began = time.monotonic()
    assert ended(start(experiment, quiet)).code == 0
    whole_s = time.monotonic() - began
    draw = random.Random(5)
    kills, lives, workers = 0, 0, []
    while kills < most:
        process = start(experiment, out)
        lives += 1
        if lives % 2:  # any instant of its life, or one at which its workers are there
            time.sleep(draw.uniform(0, whole_s))
        else:
            wait_until(lambda: bool(children(process.pid)) or process.poll() is not None)  # noqa: B023 - called at once
            time.sleep(draw.uniform(0, whole_s / 4))
        workers += children(process.pid)
        process.kill()
        kills += process.wait(10) == -signal.SIGKILL
        if (out / "results.csv").exists():  # it came through; what it has lost it makes again
            for file in draw.sample(sorted((out / "cells").glob("*.json")), 8):
                file.unlink()
            (out / "results.csv").unlink()
        assert lives < 5 * most
    wait_until(lambda: not any(map(is_alive, workers)))
    assert workers
    ran = ended(start(experiment, out))
    assert ran.code == 0
    assert "0 failed" in ran.out
    for name in TABLES:
        assert (out / name).read_bytes() == (quiet / name).read_bytes(), name
    assert not list(out.rglob("*.partial"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_study_leaves_no_process_and_goes_on(
    experiment: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    out = tmp_path / "s"
    process = start(experiment, out)
    wait_until(lambda: len([*out.glob("cells/*.json")]) >= 3)
    workers = children(process.pid)
    process.send_signal(number)
    assert process.wait(20) == code
    assert len(workers) == 2
    wait_until(lambda: not any(map(is_alive, workers)))
    done = len([*out.glob("cells/*.json")])
    ran = ended(start(experiment, out))
    assert f"16 runs: {done} done before, {16 - done} made" in ran.out
