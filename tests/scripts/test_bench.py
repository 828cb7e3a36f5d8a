"""The parts of the benchmark, at tiny sizes: they return figures, or a reason if they cannot measure."""

from __future__ import annotations

import json
import multiprocessing
import operator
import os
import sys
import time
from pathlib import Path

import pytest
from scripts.bench import bench_tables
from scripts.bench import live as bench_live
from scripts.bench import peers as bench_peers
from scripts.bench import wire as bench_wire
from scripts.bench.process import Figures, in_process, memory_mb
from scripts.bench.runs import Goal, goals, model, offered_load, prepare_at, run_goal, sample, simulate


def silent(_text: str) -> None:
    pass


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the processes of measurements be forks of this one, with all modules loaded."""
    context = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda _method: context)


def test_a_process_returns_figures_or_the_reason() -> None:
    assert in_process(json.loads, '{"slept": 0.0}', timeout_s=20) == {"slept": 0.0}
    assert in_process(operator.call, time.sleep, 30.0, timeout_s=0.1) == {"reason": "more than 0 s"}
    assert in_process(operator.call, int, "no figures", timeout_s=20) == {
        "reason": "ValueError: invalid literal for int() with base 10: 'no figures'"
    }
    assert 1 < memory_mb("VmRSS") <= memory_mb("VmHWM")


@pytest.mark.parametrize(("policy", "load"), [("easy", 0.7), ("rua", 1.3), ("lomarc-r", 0.7), ("glts", 1.3)])
def test_a_run_has_the_requested_load(policy: str, load: float) -> None:
    table = model(policy, 60, 16)
    assert offered_load(prepare_at(table, load)) == pytest.approx(load, rel=0.001)
    found = simulate(table, load, policy, (), 1)
    assert found["jobs"] == 60
    assert found["offered_load"] == pytest.approx(load, rel=0.02)
    assert found["jobs_per_second"] == pytest.approx(60 / found["wall_s"], rel=0.05)


@pytest.mark.usefixtures("forks")
def test_goals_say_whether_they_are_reached() -> None:
    fast = Goal("fast", 1.0, "jobs/s", sample(10.23, 30), "easy")
    row = run_goal(fast, 20.0)
    assert row["jobs"] == 30
    assert row["measured"] == row["jobs_per_second"]
    assert row["reached"]
    assert not run_goal(fast._replace(goal=1e9), 20.0)["reached"]
    assert run_goal(fast._replace(goal=100.0, unit="s"), 20.0)["reached"]
    missing = run_goal(fast._replace(needs=Path("/no/such/log")), 20.0)
    assert missing["reason"] == "there is no /no/such/log"
    assert {goal.policy for goal in goals()} == {"easy", "conservative", "rua", "lomarc-r", "glts"}


@pytest.mark.slow
def test_two_processes_are_measured_beside_a_ping_pong() -> None:
    rows = bench_wire.compare(40, 1, silent)
    assert [row["apart"] for row in rows] == [False, True][: len(os.sched_getaffinity(0))]
    for found in rows:
        assert found["batches"] >= 40
        assert found["median_bytes_out"] > 40
        assert 0 < found["zmq_jobs_per_second"] < found["direct_jobs_per_second"]
        assert found["share"] == pytest.approx(found["bare_us"] / found["zmq_us"], abs=0.002)
    lines = bench_tables.wire_lines([*rows, {"apart": True, "reason": "more than 30 s"}])
    assert "as the system puts them" in lines[2]
    assert "> 30 s" in lines[len(rows) + 2]
    assert "**no**" not in lines[len(rows) + 2]


@pytest.mark.slow
def test_live_decisions_are_timed_by_the_plugins_own_metrics() -> None:
    extent = bench_live.Extent(queue=60, a_second=20.0, warm_up_s=0.5, timed_s=1.5)
    rows = list(bench_live.measure(["conservative"], "counted", extent, silent))
    assert [row["estimates"] for row in rows] == [False, True]
    for row in rows:
        assert "reason" not in row, row
        assert row["batches"] > 10
        assert 0 < row["queued"] < 120  # fewer than its 60 beside other work
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["most_ms"]
        assert 0 < row["cpu_ms"] < 1000
    failed: Figures = {"policy": "easy", "estimates": False, "queue": 10_000, "reason": "OSError: none"}
    text = "\n".join(bench_live.lines([failed, {**row, "queue": 10_000, "p99_ms": 50.5}]))
    assert "OSError: none" in text
    assert "**no**" in text


def test_peers_are_compared_by_their_schedules_before_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program whose waits differ is told apart from one that makes the same schedule, whatever its time."""
    monkeypatch.setattr(bench_peers, "LOADS", (0.91,))
    monkeypatch.setattr(bench_peers, "POLICIES", ("easy",))
    says = {"first": "print(1, 0)", "mean": "print(12.5)"}
    peers = [bench_peers.peer_of(f"{name}={sys.executable} -c '{code}' {{swf}}") for name, code in says.items()]
    rows = bench_peers.measure(20, 1, peers, silent)
    assert [row["program"] for row in rows[:3]] == [bench_peers.OURS, "first", "mean"]
    assert {(row["program"], row["same"]) for row in rows} == {(bench_peers.OURS, 20), ("first", 1), ("mean", None)}
    assert {row["mean_wait_s"] for row in rows if row["program"] == "mean"} == {12.5}
    assert len(bench_peers.lines(rows)) > len(rows)


def test_a_peer_that_says_nothing_of_its_schedule_is_refused() -> None:
    peers = [bench_peers.peer_of(f"silent={sys.executable} -c pass {{swf}}")]
    with pytest.raises(SystemExit, match="silent: expected a line NUMBER START"):
        bench_peers.measure(20, 1, peers, silent)
    with pytest.raises(ValueError, match="NAME=COMMAND"):
        bench_peers.peer_of("silent=echo")
