"""One scheduler, several couplings: the same workload and seed give the same run folder, byte for byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cosched_emulator.couplings.in_process import DirectLink, Link, LoopbackLink
from cosched_emulator.run.coupling import coupling
from cosched_emulator.run.prepare import prepare
from cosched_emulator.run.run import Finished, run
from cosched_emulator.run.store import store
from cosched_emulator.scenario.reader import read_scenario
from cosched_plugin.config import PolicyChoice, choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composed import PRESETS, resolve
from cosched_plugin.protocol.messages import Action, Event, Welcome

ROOT = Path(__file__).parents[2]
LINKS = ("direct", "loopback", "zmq")
# What a run folder may hold that two runs need not agree on.
MAY_DIFFER = "timing.json"


@pytest.fixture(autouse=True)
def plugin_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let plugin processes find the packages, and this test's own policies."""
    places = [str(ROOT / part) for part in ("hwmodel", "plugin", "emulator")] + [str(tmp_path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))


def lublin(**more: Any) -> dict[str, Any]:
    """Return an overloaded machine of 4-thread nodes, with demand, estimates that err and limits that kill."""
    return {
        "seed": 5,
        "requeue": True,
        "cluster": {"nodes": 6, "preset": "rua-4way"},
        "workload": {"lublin": 60, "aarr": 9.0, "mix": "60:20:20", "limits": "estimate", "estimates": "f-model", "run_factor": 0.3},
        **more,
    }  # fmt: skip


def write_swf(file: Path) -> str:
    """Write a log with coinciding submissions and ends, runs beyond their estimates, and a job too large for the machine."""
    random = Random(11)
    rows = []
    at = 0
    for number in range(1, 61):
        at += random.choice((0, 0, 30, 60, 600))
        run = random.choice((60, 300, 300, 900, 3600))
        size = random.choice((1, 2, 4, 4, 7, 16)) if number != 30 else 999
        estimate = random.choice((300, 600, 900, 3600))
        rows.append(f"{number} {at} -1 {run} {size} -1 -1 {size} {estimate} -1 1 {number % 5} 1 1 1 -1 -1 -1\n")
    file.write_text("; MaxProcs: 24\n" + "".join(rows))
    return str(file)


def swf(file: Path) -> dict[str, Any]:
    return {
        "requeue": True,
        "cluster": {"processors": 23, "preset": "rua-4way"},
        "truth": {"composition": "paper"},
        "workload": {"swf": write_swf(file), "cap_runs": False, "mix": "high"},
        "script": [
            {"at_s": 3200.0, "do": "fail-node", "node": 1},
            {"at_s": 3300.0, "do": "hold", "job": 16},
            {"at_s": 3400.0, "do": "cancel", "job": 18},
            {"at_s": 4000.0, "do": "return-node", "node": 1},
            {"at_s": 4000.0, "do": "cancel", "job": 21},
            {"at_s": 5000.5, "do": "release", "job": 16},
        ],
    }


def lomarc() -> dict[str, Any]:
    """Return a machine on which pairs are slower than the site believes, and are found out; nodes fail under them."""
    return {
        "seed": 5,
        "requeue": True,
        "cluster": {"nodes": 16, "preset": "lomarc-ht"},
        "truth": {"contention": "lomarc", "remainder": True},
        "belief": {"remainder": False, "usage_noise": 0.3, "usage_missing": 0.1},
        "monitoring": {"after_s": 200.0, "above": 1.2},
        "workload": {
            "lublin": 110, "aarr": 8.5, "gap_factor": 0.15, "run_factor": 0.3, "characteristics": "M1", "limits": "estimate",
            "estimates": "f-model",
        },
        "script": [
            {"at_s": 4000.0, "do": "fail-node", "node": 1},
            {"at_s": 7000.0, "do": "hold", "job": 51},
            {"at_s": 8000.0, "do": "cancel", "job": 106},
            {"at_s": 9000.0, "do": "fail-node", "node": 0},
            {"at_s": 9000.0, "do": "return-node", "node": 1},
            {"at_s": 9500.0, "do": "release", "job": 51},
            {"at_s": 20000.0, "do": "return-node", "node": 0},
        ],
    }  # fmt: skip


def statistical() -> dict[str, Any]:
    """Return a machine for groups of jobs, over many intervals of time slices; nodes fail with what is on their disks."""
    return {
        "seed": 3,
        "requeue": True,
        "cluster": {"nodes": 16, "preset": "g-lomarc-2x2"},
        "truth": {"contention": "statistical"},
        "belief": {"self_noise": 0.1},
        "preemption": {"resume_s": 60.0},
        "monitoring": {"after_s": 300.0, "above": 1.1},
        "workload": {
            "lublin": 160, "aarr": 8.83, "gap_factor": 0.4, "run_factor": 0.6, "self_slowdowns": "table4", "lublin_size": "nodes",
            "limits": "estimate", "estimates": "f-model", "estimate_factor": 0.5,
        },
        "script": [
            {"at_s": 18000.0, "do": "fail-node", "node": 1},
            {"at_s": 20000.0, "do": "hold", "job": 133},
            {"at_s": 21000.0, "do": "cancel", "job": 136},
            {"at_s": 30000.0, "do": "fail-node", "node": 0},
            {"at_s": 30000.0, "do": "return-node", "node": 1},
            {"at_s": 40500.0, "do": "release", "job": 133},
            {"at_s": 45000.0, "do": "return-node", "node": 0},
        ],
    }  # fmt: skip


def scenario_of(name: str, folder: Path) -> dict[str, Any]:
    made = {"lublin": lublin, "lomarc": lomarc, "statistical": statistical}
    return made[name]() if name != "swf" else swf(folder / "jobs.swf")


# Policies that take whole nodes on the machine made for them, and two of them where the site says nothing of pairs.
WHOLE_NODES = [name for name in PRESETS if resolve({"preset": name})["shape"]["name"] == "nodes"]
SLICED = [name for name in WHOLE_NODES if resolve({"preset": name})["slices"]["name"] != "none"]
CASES = [
    *[(name, scenario) for name in PRESETS if name not in WHOLE_NODES for scenario in ("lublin", "swf")],
    *[(name, "statistical" if name in SLICED else "lomarc") for name in WHOLE_NODES],
    ("ac", "swf"),
    ("lomarc-r", "swf"),
    ("glts", "lomarc"),
]
# Among those of LOMARC, and those of G-LOMARC-TS, nothing differs that could matter to a coupling.
ONE_OF_A_KIND = (("lomarc-r", "lomarc"), ("ac", "swf"), ("ssp", "statistical"), ("glts", "statistical"))
COUPLED = [case for case in CASES if case[0] not in WHOLE_NODES or case in ONE_OF_A_KIND]


def play(table: dict[str, Any], choice: PolicyChoice, kind: str, out: Path) -> Finished:
    """Run a scenario through one kind of coupling, and store it."""
    prepared = prepare(read_scenario(None, table))
    with coupling(kind, choice, prepared) as link:
        finished = run(prepared, link)
    store(finished, str(out), policy={"name": choice.name, **choice.settings}, link=kind, force=False)
    return finished


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != MAY_DIFFER}


def assert_same(folder: Path, other: Path) -> None:
    first, second = files_of(folder), files_of(other)
    assert sorted(first) == sorted(second)
    for name, content in first.items():
        assert second[name] == content, f"{other / name} differs"
    assert len(first) >= 6


@pytest.mark.parametrize(("preset", "scenario"), COUPLED)
def test_every_coupling_gives_the_same_folder(preset: str, scenario: str, tmp_path: Path) -> None:
    table = scenario_of(scenario, tmp_path)
    choice = choose(preset)
    runs = {kind: play(table, choice, kind, tmp_path / kind) for kind in LINKS}
    for kind in LINKS[1:]:
        assert_same(tmp_path / LINKS[0], tmp_path / kind)
        assert runs[kind].batches == runs["direct"].batches
        assert runs[kind].refused == runs["direct"].refused == 0
    play(table, choice, "direct", tmp_path / "again")
    assert_same(tmp_path / "direct", tmp_path / "again")


def test_the_scenarios_are_worth_it(tmp_path: Path) -> None:
    """Jobs wait, share, are slowed, killed, requeued and rejected in them: else the tests above would prove little."""
    first = play(scenario_of("lublin", tmp_path), choose("easy"), "direct", tmp_path / "lublin").summary
    second = play(scenario_of("swf", tmp_path), choose("easy"), "direct", tmp_path / "swf").summary
    assert first["states"]["TIMEOUT"] > 0
    assert second["states"]["TIMEOUT"] > 5
    assert (second["states"]["REJECTED"], second["states"]["CANCELLED"]) == (1, 2)
    for summary in (first, second):
        assert summary["machine"]["node_sharing"] > 0.05
        assert summary["all"]["wait_s"]["mean"] > 60
        assert summary["all"]["penalised_percent"]["mean"] > 1
    stays = (tmp_path / "swf" / "allocations.csv").read_text().splitlines()
    ran = (tmp_path / "swf" / "jobs.csv").read_text().splitlines()
    assert len(stays) > len(ran) - 2  # somebody ran twice


def test_the_time_slices_are_worth_it(tmp_path: Path) -> None:
    """Many intervals, jobs that go to disk, are lost with their images, share nodes and are killed."""
    link = RestartLink(choose("glts").scheduler, 0, 0.0)
    finished = run(prepare(read_scenario(None, statistical())), link)
    records = finished.records
    assert max(record.end_us or 0 for record in records) > 8 * 3_600_000_000
    assert sum(len(record.disk) for record in records) > 200
    assert {"ResumeJob", "ReviseJob", "JobRequeued", "JobHeld", "ProgressMeasured", "StartTogether"} <= set(link.seen)
    assert finished.summary["states"]["TIMEOUT"] > 0
    lost = [record for record in records if record.starts > 1]
    assert any(stay.resumed for record in lost for stay in record.intervals)


def test_another_seed_or_policy_gives_another_folder(tmp_path: Path) -> None:
    play(lublin(), choose("easy"), "direct", tmp_path / "easy")
    play(lublin(), choose("fcfs"), "direct", tmp_path / "fcfs")
    play({**lublin(), "seed": 6}, choose("easy"), "direct", tmp_path / "seed")
    contents = [(tmp_path / name / "jobs.csv").read_bytes() for name in ("easy", "fcfs", "seed")]
    assert len(set(contents)) == 3


# ---------------------------------------------------------------- shadow: a core that was restarted before every batch


class ShadowLink:
    """A link that compares its scheduler, at every batch, with one made from the manager's inventory just before."""

    def __init__(self, link: DirectLink | LoopbackLink, factory: Callable[[Welcome], SchedulerCore]) -> None:
        self._link = link
        self._factory = factory
        self._inventory: Callable[[], Welcome] | None = None
        self.batches = 0

    def open(self, inventory: Callable[[], Welcome]) -> None:
        self._inventory = inventory
        self._link.open(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        assert self._inventory is not None
        welcome = self._inventory()
        assert welcome.seq == seq - 1
        shadow = self._factory(welcome)
        shadow.check()
        expected = shadow.handle(now_us, events)
        shadow.check()
        actions = list(self._link.exchange(seq, now_us, events))
        assert actions == expected, f"batch {seq}: the scheduler has a memory that its manager does not know"
        core = self._link.scheduler
        assert isinstance(core, SchedulerCore)
        core.check()
        assert shadow.handle(now_us, ()) == [], f"batch {seq}: a second pass still finds something to do"
        self.batches += 1
        return actions

    def close(self) -> None:
        self._link.close()


@pytest.mark.parametrize(("preset", "scenario"), CASES)
def test_a_scheduler_restarted_before_every_batch_decides_the_same(preset: str, scenario: str, tmp_path: Path) -> None:
    prepared = prepare(read_scenario(None, scenario_of(scenario, tmp_path)))
    choice = choose(preset)
    results = []
    for inner in (DirectLink, LoopbackLink):
        link = ShadowLink(inner(choice.scheduler), choice.scheduler)
        finished = run(prepared, link)
        assert link.batches == finished.batches > 60
        results.append(finished.records)
    assert results[0] == results[1]
    plain: Link = DirectLink(choice.scheduler)
    assert run(prepared, plain).records == results[0]


class RestartLink(DirectLink):
    """A link whose scheduler is replaced, before some of the batches, by one made from the manager's inventory."""

    def __init__(self, factory: Callable[[Welcome], SchedulerCore], seed: int, share: float) -> None:
        super().__init__(factory)
        self._random = Random(seed)
        self._share = share
        self._inventory: Callable[[], Welcome] | None = None
        self.seen: Counter[str] = Counter()  # kinds of events and actions
        self.restarts = 0

    def open(self, inventory: Callable[[], Welcome]) -> None:
        self._inventory = inventory
        super().open(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        assert self._inventory is not None
        if self._random.random() < self._share:
            self.restarts += 1
            super().open(self._inventory)
        actions = super().exchange(seq, now_us, events)
        self.seen.update(type(item).__name__ for item in (*events, *actions))
        return actions


@pytest.mark.parametrize("monitoring", [True, False])
@pytest.mark.parametrize("preset", ["lomarc-r", "lomarc-n", "am", "ac", "ssp", "glts"])
def test_restarts_at_any_time_change_no_schedule(preset: str, monitoring: bool) -> None:
    scenario = statistical() if preset in SLICED else lomarc()
    prepared = prepare(read_scenario(None, scenario if monitoring else {**scenario, "monitoring": {}}))
    choice = choose(preset)
    never = RestartLink(choice.scheduler, 0, 0.0)
    records = run(prepared, never).records
    for seed, share in ((1, 0.05), (2, 0.5)):
        link = RestartLink(choice.scheduler, seed, share)
        assert run(prepared, link).records == records
        assert link.seen == never.seen
        assert link.restarts > 200 * share / 2
    wanted = {"JobRequeued", "JobHeld", "SetNote"}
    wanted |= {"SuspendJob", "ResumeJob", "WakeAt"} if preset in SLICED else set()
    wanted |= {"StartTogether", "ReviseJob"} if preset != "ssp" else set()
    if monitoring and preset != "ssp":
        wanted |= {"ProgressMeasured"} | ({"SuspendJob", "ResumeJob"} if preset.startswith("lomarc") else set())
    assert wanted <= set(never.seen), "the scenario is too quiet to prove anything"
    assert monitoring or not never.seen["ProgressMeasured"]


@pytest.mark.parametrize("preset", ["lomarc-r", "lomarc-fm", "am", "ac", "easy"])
def test_whoever_listens_to_the_trace_changes_nothing(preset: str) -> None:
    prepared = prepare(read_scenario(None, lomarc()))
    choice = choose(preset)
    told: list[dict[str, Any]] = []
    plain = RestartLink(choice.scheduler, 0, 0.0)
    traced = RestartLink(lambda welcome: SchedulerCore(choice.make(), welcome, told.append), 0, 0.0)
    assert run(prepared, plain).records == run(prepared, traced).records
    assert plain.seen == traced.seen
    kinds = Counter(record["kind"] for record in told)
    assert kinds["start"] == traced.seen["StartJob"] + 2 * traced.seen["StartTogether"]
    assert (kinds["suspend"], kinds["resume"]) == (traced.seen["SuspendJob"], traced.seen["ResumeJob"])
    assert kinds["reserve"] > 0
    assert json.loads(json.dumps(told, allow_nan=False)) == told


# ---------------------------------------------------------------- kill -9 of the plugin

SLOW = """
import os, time
from cosched_plugin.policies.composed import compose

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
def launch() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Yield a function that starts one of the two commands; whatever still runs at the end is killed."""
    children: list[subprocess.Popen[bytes]] = []

    def start(package: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", package, *arguments]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return children[-1]

    yield start
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate(timeout=10)


def wait_until(happened: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


@pytest.mark.parametrize("preset", ["conservative", "ssp", "glts"])
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_plugin_that_is_killed_and_restarted_changes_nothing(
    kills: int,
    preset: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    launch: Callable[..., subprocess.Popen[bytes]],
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

        def plugin() -> subprocess.Popen[bytes]:
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
        assert manager.returncode == 0, errors.decode()
        assert last.wait(10) == 0
    whole = launch(
        "cosched_emulator", "simulate", str(scenario), "--policy", "slow_policy:Slow", "--out", str(tmp_path / "whole")
    )
    whole.communicate(timeout=60)
    assert whole.returncode == 0
    assert_same(tmp_path / "whole", tmp_path / "killed")
