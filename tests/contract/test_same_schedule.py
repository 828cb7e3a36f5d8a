"""One scheduler, several couplings: the same workload and seed give the same run folder, byte for byte."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.contract.cases import CASES, SLICED, lublin, scenario_of, statistical
from tests.contract.links import DigestLink
from tests.processes import Forked, environment, fork_program, killed_at_the_end, wait_until

from cosched_emulator import Run, prepare, simulate
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.run.run import run
from cosched_plugin.config import choose
from cosched_plugin.protocol.messages import Action, Event

LINKS = ("direct", "loopback", "zmq")
# The parts of a run folder in which two runs may differ.
MAY_DIFFER = "timing.json"


@pytest.fixture(autouse=True)
def plugin_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let plugin processes find the packages, and this test's own policies."""
    monkeypatch.setenv("PYTHONPATH", environment(tmp_path)["PYTHONPATH"])


# Together they contain every kind of event and action, and every kind of composition runs in a process of its own. The other
# cases use the codec in test_golden_schedules.py; with a second process they are slow tests.
COUPLED = [
    ("easy", "lublin"),
    ("conservative", "swf"),
    ("rua", "lublin"),
    ("lomarc-r", "lomarc"),
    ("glts", "statistical"),
    ("paired-gang", "time-shared"),
]


def play(table: dict[str, Any], policy: str, kind: str, out: Path) -> Run:
    """Run a scenario through one kind of coupling, and store it."""
    return simulate(table, policy, link=kind, out=out)


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != MAY_DIFFER}


def assert_same(folder: Path, other: Path) -> None:
    first, second = files_of(folder), files_of(other)
    assert sorted(first) == sorted(second)
    for name, content in first.items():
        assert second[name] == content, f"{other / name} differs"
    assert len(first) >= 6


@pytest.mark.parametrize(
    ("preset", "scenario"),
    [*COUPLED, *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES if case not in COUPLED)],
)
def test_every_coupling_gives_the_same_folder(preset: str, scenario: str, tmp_path: Path) -> None:
    table = scenario_of(scenario, tmp_path)
    runs = {kind: play(table, preset, kind, tmp_path / kind) for kind in LINKS}
    for kind in LINKS[1:]:
        assert_same(tmp_path / LINKS[0], tmp_path / kind)
        assert runs[kind].batches == runs["direct"].batches
        assert runs[kind].refused == runs["direct"].refused == 0


def test_every_event_and_action_passes_through_every_coupling(tmp_path: Path) -> None:
    said: set[str] = set()
    for preset, scenario in COUPLED:
        link = DigestLink(DirectLink(choose(preset).scheduler))
        run(prepare(scenario_of(scenario, tmp_path)), link)
        said |= set(link.kinds)
    everything = {kind.__name__ for kind in (*get_args(Event), *get_args(Action))}
    # Not here: an action that only a live manager refuses, those that none of our policies decides, one of a newer version, and what
    # a manager does by itself, which `test_difficult_manager` sends through every coupling.
    assert everything - said == {
        *("ActionRefused", "RejectJob", "RequeueJob", "KillJob", "SubmitJob", "UnknownAction"),
        *("JobStarted", "JobModified", "JobRevised", "JobSuspended", "JobResumed"),
    }


def test_the_scenarios_have_jobs_in_every_state(tmp_path: Path) -> None:
    """Jobs are pending, co-located, slowed, killed, requeued and rejected: without these the tests above would prove little."""
    first = play(scenario_of("lublin", tmp_path), "easy", "direct", tmp_path / "lublin").summary
    second = play(scenario_of("swf", tmp_path), "easy", "direct", tmp_path / "swf").summary
    assert first["states"]["TIMEOUT"] > 0
    assert second["states"]["TIMEOUT"] > 5
    assert (second["states"]["REJECTED"], second["states"]["CANCELLED"]) == (1, 2)
    for summary in (first, second):
        assert summary["machine"]["node_sharing"] > 0.05
        assert summary["all"]["wait_s"]["mean"] > 60
        assert summary["all"]["penalised_percent"]["mean"] > 1
    stays = (tmp_path / "swf" / "allocations.csv").read_text().splitlines()
    ran = (tmp_path / "swf" / "jobs.csv").read_text().splitlines()
    assert len(stays) > len(ran) - 2  # a job ran twice


def test_the_time_slices_have_many_intervals_and_jobs_on_disk(tmp_path: Path) -> None:
    """There are many intervals; jobs go to disk, are lost with their images, share nodes and are killed."""
    link = DigestLink(DirectLink(choose("glts").scheduler))
    finished = run(prepare(statistical()), link)
    records = finished.records
    assert max(record.end_us or 0 for record in records) > 8 * 3_600_000_000
    assert sum(len(record.disk) for record in records) > 200
    assert {"ResumeJob", "ReviseJob", "JobRequeued", "JobHeld", "ProgressMeasured", "StartTogether"} <= set(link.kinds)
    assert finished.summary["states"]["TIMEOUT"] > 0
    lost = [record for record in records if record.starts > 1]
    assert any(stay.resumed for record in lost for stay in record.intervals)


def test_another_seed_or_policy_gives_another_folder(tmp_path: Path) -> None:
    play(lublin(), "easy", "direct", tmp_path / "easy")
    play(lublin(), "fcfs", "direct", tmp_path / "fcfs")
    play({**lublin(), "seed": 6}, "easy", "direct", tmp_path / "seed")
    contents = [(tmp_path / name / "jobs.csv").read_bytes() for name in ("easy", "fcfs", "seed")]
    assert len(set(contents)) == 3


# ---------------------------------------------------------------- kill -9 of the plugin

SLOW = """
import os, time
from cosched_plugin.policies.composition.composed import compose

class Slow:
    "A policy of ours, slow enough to be killed in the middle; every pass leaves a byte behind."

    def __init__(self):
        self._policy = compose({"preset": os.environ["SLOW_PRESET"]})

    def decide(self, view):
        with open(os.environ["SLOW_MARK"], "a") as mark:
            mark.write(".")
        time.sleep(0.005)
        return self._policy.decide(view)
"""


PLAIN = """
seed = 5
cluster = {nodes = 6, preset = "rua-4way"}
workload = {lublin = 60, mix = "high", limits = "estimate"}
"""
TIME_SLICES = """
seed = 3
cluster = {nodes = 16, preset = "g-lomarc-2x2"}
truth = {contention = "statistical"}
preemption = {resume_s = 60.0}
[workload]
lublin = 150
aarr = 8.83
gap_factor = 0.4
self_slowdowns = "table4"
lublin_size = "nodes"
"""


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., Forked]]:
    """Yield a function that starts one of the two commands; whatever still runs at the end is killed."""
    with killed_at_the_end() as children:

        def start(package: str, *arguments: str) -> Forked:
            child = fork_program(package, *arguments, env=environment(tmp_path))
            children.append(child)
            return child

        yield start


@pytest.mark.parametrize("preset", ["conservative", pytest.param("ssp", marks=pytest.mark.slow), "glts"])
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_plugin_that_is_killed_and_restarted_changes_nothing(
    kills: int, preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launch: Callable[..., Forked]
) -> None:
    (tmp_path / "slow_policy.py").write_text(SLOW)
    monkeypatch.setenv("SLOW_PRESET", preset)
    mark = tmp_path / "mark"
    mark.touch()
    monkeypatch.setenv("SLOW_MARK", str(mark))
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(TIME_SLICES if preset in SLICED else PLAIN)
    with tempfile.TemporaryDirectory(
        prefix="kill-", dir="/tmp"
    ) as short:  # pytest's paths may be too long for a socket
        endpoint = f"ipc://{short}/socket"
        manager = launch(
            "cosched_emulator", "serve", str(scenario), "--bind", endpoint, "--out", str(tmp_path / "killed")
        )

        def plugin() -> Forked:
            return launch("cosched_plugin", "serve", "--connect", endpoint, "--policy", "slow_policy:Slow", "--quiet")

        for _ in range(kills):
            before = mark.stat().st_size
            victim = plugin()
            wait_until(lambda: mark.stat().st_size >= before + 20)  # noqa: B023 - waited for at once
            assert manager.poll() is None, "the run was over before the plugin could be killed"
            victim.send_signal(signal.SIGKILL)
            assert victim.wait(10) == -signal.SIGKILL
        last = plugin()
        _, errors = manager.communicate(timeout=60)
        assert manager.returncode == 0, errors
        assert last.wait(10) == 0
    whole = launch(
        "cosched_emulator", "simulate", str(scenario), "--policy", "slow_policy:Slow", "--out", str(tmp_path / "whole")
    )
    whole.communicate(timeout=60)
    assert whole.returncode == 0
    assert_same(tmp_path / "whole", tmp_path / "killed")
