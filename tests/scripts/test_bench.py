"""The parts of the benchmark, at tiny sizes: they return figures, or a reason if they cannot measure."""

from __future__ import annotations

import json
import multiprocessing
import operator
import os
import re
import sys
import time
from pathlib import Path

import pytest
from scripts.bench import batsim as bench_batsim
from scripts.bench import bench_tables
from scripts.bench import growth as bench_growth
from scripts.bench import latency as bench_latency
from scripts.bench import live as bench_live
from scripts.bench import main as bench
from scripts.bench import peers as bench_peers
from scripts.bench import report_page as bench_report
from scripts.bench import studies as bench_studies
from scripts.bench import turns as bench_turns
from scripts.bench import wire as bench_wire
from scripts.bench.process import Figures, in_process, memory_mb
from scripts.bench.runs import (
    STANDARD,
    Goal,
    goals,
    grid,
    machine_for,
    model,
    offered_load,
    prepare_at,
    run_goal,
    run_grid,
    sample,
    simulate,
)
from scripts.browser import CHROMIUM
from scripts.tables import aligned_table
from tests.processes import ROOT, run_python

from cosched_plugin.policies.composition.presets import PRESETS


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


@pytest.mark.parametrize("load", [0.7, 1.3])
@pytest.mark.parametrize("policy", ["easy", "rua", "lomarc-r", "glts"])
def test_a_run_has_the_requested_load(policy: str, load: float) -> None:
    table = model(policy, 60, 16)
    assert offered_load(prepare_at(table, load)) == pytest.approx(load, rel=0.001)
    found = simulate(table, load, policy, (), 1)
    assert found["jobs"] == 60
    assert found["offered_load"] == pytest.approx(load, rel=0.02)
    assert found["jobs_per_second"] == pytest.approx(60 / found["wall_s"], rel=0.05)


def test_every_preset_has_the_machine_it_is_made_for() -> None:
    assert {name: machine_for(name)["cluster"].get("preset") for name in PRESETS} == {
        **dict.fromkeys(("fcfs", "easy", "slurm", "sjbf", "conservative", "conservative-starts")),
        **dict.fromkeys(
            ("co-execution", "co-execution-shortest", "co-execution-easy", "spread")
        ),  # their tables of co-runs are files
        **dict.fromkeys(("lc", "lct", "rua"), "rua-4way"),
        **dict.fromkeys(("pss", "ac", "am", "lomarc-fm", "lomarc-u1", "lomarc-u2", "lomarc-r", "batch"), "lomarc-ht"),
        **dict.fromkeys(
            ("easy-shortest", "lomarc-u1-shortest", "symbiosis", "guests", "symbiosis-express"), "lomarc-ht"
        ),
        **dict.fromkeys(("easy-suspending", "easy-suspending-unreserved"), "lomarc-ht"),
        "lomarc-n": "lomarc-standard",
        **dict.fromkeys(("ssp", "glts", "cst", "cstws", "glts-fbo", "glts-ns", "glts-nh"), "g-lomarc-2x2"),
        **dict.fromkeys(("gang", "paired-gang", "paired-gang-bestfit", "blind", "gang-contiguous"), "single"),
        **dict.fromkeys(("coscheduling", "coscheduling-scattered", "batch-contiguous"), "1x1x3"),
    }
    assert machine_for("gang")["time_sharing"]
    assert machine_for("lomarc-n") is STANDARD
    assert [name for name in PRESETS if "time_sharing" in machine_for(name)] == [
        *bench_turns.POLICIES,
        "gang-contiguous",
    ]


@pytest.mark.slow
def test_the_grid_leaves_out_what_would_take_too_long() -> None:
    cells = [cell for cell in grid((20, 200), (8,), (0.7,)) if cell.policy in ("easy", "conservative")]
    rows = list(run_grid(cells, 20.0, 60.0, silent))
    assert [(row["policy"], row["jobs"]) for row in rows] == [
        ("easy", 20),
        ("conservative", 20),
        ("easy", 200),
        ("conservative", 200),
    ]
    assert not any("reason" in row for row in rows)
    assert [row["reason"] for row in run_grid(cells, 0.0, 60.0, silent)] == ["more than 0 s"] * 4
    assert [row["reason"] for row in run_grid(cells, 20.0, -1.0, silent)] == ["no time left"] * 4


@pytest.mark.usefixtures("forks")
def test_goals_are_not_judged_with_fewer_jobs_than_they_state(monkeypatch: pytest.MonkeyPatch) -> None:
    goal = Goal("fast", 1.0, "jobs/s", sample(10.23, 30), "easy")
    grown = [
        {"name": "growth", "goal": 1.5, "unit": "x", "jobs": 30, "measured": 1.0, "reached": True, "peak_mb": 50.0}
    ]
    monkeypatch.setattr(bench, "goals", lambda _part: [goal, goal._replace(needs=Path("/no/such/log"))])
    monkeypatch.setattr(bench, "growth", lambda *_: grown)
    quick = bench.measure_goals(bench.QUICK, silent)
    assert [row.get("reached", "none") for row in quick] == [None, "none", None]
    assert " - |" in bench_tables.goal_lines(quick)[2]
    assert [row.get("reached") for row in bench.measure_goals(bench.FULL, silent)] == [True, None, True]


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


@pytest.mark.parametrize("budget", bench_latency.BUDGETS)
@pytest.mark.parametrize("policy", ["easy", "rua", "lomarc-r", "glts"])
def test_decisions_are_timed_with_a_full_queue(policy: str, budget: str) -> None:
    found = bench_latency.decide(policy, budget, bench_latency.Extent(30, 10, 20.0))
    assert found["batches"] == 10
    assert 20 <= found["queued"] <= 31
    assert 0 < found["p50_ms"] <= found["p99_ms"]


def test_percentiles_are_nearest_ranks() -> None:
    assert bench_latency.percentiles([index / 1000 for index in range(1, 201)]) == {"p50_ms": 100.0, "p99_ms": 198.0}
    assert bench_latency.percentiles([0.002]) == {"p50_ms": 2.0, "p99_ms": 2.0}


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
def test_batsims_protocol_is_measured_beside_a_ping_pong() -> None:
    rows = bench_batsim.compare(40, 1, silent)
    assert [row["apart"] for row in rows] == [False, True][: len(os.sched_getaffinity(0))]
    for found in rows:
        assert found["messages"] >= 40
        assert found["share"] == pytest.approx(found["jobs_per_second"] / found["bare_jobs_per_second"], abs=0.002)
    lines = bench_batsim.lines([*rows, {"apart": True, "reason": "more than 30 s"}])
    assert "where the system puts them" in lines[2]
    assert "more than 30 s" in lines[len(rows) + 2]


def test_tables_are_aligned_and_say_why_a_figure_is_missing() -> None:
    lines = aligned_table(("what", "a"), [("x", 1), ("longer", 1000)], 1)
    assert lines == ["| what   |    a |", "| ------ | ---: |", "| x      |    1 |", "| longer | 1000 |", ""]
    late = {"policy": "easy", "nodes": 8, "load": 0.7, "jobs": 20, "reason": "more than 5 s"}
    assert "> 5 s" in bench_tables.direct_lines([late])[2]
    lost = {"name": "rua", "goal": 20.0, "unit": "s", "reason": "there is no log"}
    assert "there is no log" in bench_tables.goal_lines([lost])[2]
    slow = {"policy": "easy", "budget": "counted", "queue": 1000, "batches": 3, "p50_ms": 1.0, "p99_ms": 5.01}
    assert "**5.01**" in bench_tables.latency_lines([slow])[2]
    assert "**5.00**" not in bench_tables.latency_lines([{**slow, "p99_ms": 5.0}])[2]


@pytest.mark.slow
def test_a_study_is_compared_with_a_loop() -> None:
    rows = bench_studies.measure(2, 20, 1, silent)
    assert [row["way"] for row in rows] == ["study --jobs 2", "study --jobs 1", "xargs -P 2"]
    assert rows[0]["two_workers_faster"] == 1.0
    assert all(row["wall_s"] > 0 for row in rows)
    assert "| 1.8 x |" in "\n".join(bench_studies.lines(rows))


def test_quanta_are_timed_on_both_kinds_of_nodes() -> None:
    rows = [{"nodes": nodes, **bench_turns.some(nodes, 5)} for nodes in bench_turns.KINDS]
    assert [row["quanta"] for row in rows] == [5, 5]
    assert all(row["again_ms"] > 0 for row in rows)
    lines = bench_turns.lines([*rows, {"preset": "gang", "reason": "more than 5 s"}])
    assert any(line.startswith("| exact |") for line in lines)
    assert "more than 5 s" in lines[2]


@pytest.mark.slow
def test_runs_in_turns_are_timed_in_one_process_and_two() -> None:
    found = bench_turns.whole("gang", 4)
    assert found["quanta"] > 10
    assert 0 < found["direct_s"] < found["zmq_s"]
    late = {"preset": "gang", **found, "jobs": bench_turns.GOAL_JOBS, "first_s": 15.01}
    assert "**15.01**" in bench_turns.lines([late])[2]


def test_the_table_of_a_study_says_what_is_not_reached() -> None:
    two = {"way": "study --jobs 2", "runs": 3, "jobs": 1000, "wall_s": 2.0, "two_workers_faster": 1.0}
    rows = [
        {**two, "goal": None, "reached": None},
        {**two, "way": "xargs -P 2", "wall_s": 2.4, "two_workers_faster": 1.2, "goal": 1.3, "reached": False},
    ]
    first, second, _, about = bench_studies.lines(rows)[2:6]
    assert [cell.strip() for cell in first.split("|")[1:-1]] == ["study --jobs 2", "2.00", "1.00 x", "", ""]
    assert [cell.strip() for cell in second.split("|")[1:-1]] == ["xargs -P 2", "2.40", "1.20 x", "1.3 x", "**no**"]
    assert about.startswith("3 runs of 1,000 jobs")


@pytest.mark.slow  # quick tests cover its parts (above) and its start (below)
def test_the_command_measures_one_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures.json"
    monkeypatch.setattr(bench, "QUICK", bench.QUICK._replace(starts=1))
    monkeypatch.setattr(sys, "argv", ["bench.py", "--quick", "--only", "start-up", "--json", str(out)])
    bench.main()
    said = capsys.readouterr()
    assert said.err == ""  # progress is for terminals
    figures = json.loads(out.read_text())
    assert sorted(figures) == ["machine", "start-up"]
    assert [row["command"] for row in figures["start-up"]] == list(bench.COMMANDS)
    assert re.search(r"\| `python -m cosched_plugin --help` +\| +\d+ \| +\d+ \| +[\d.]+ \|", said.out)


def test_the_script_starts() -> None:
    ran = run_python(str(ROOT / "scripts" / "bench.py"), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "--quick" in ran.out


def test_growth_is_an_exponent_of_the_last_step(forks: None) -> None:
    sizes = bench_growth.Sizes(burst=(20, 40), overload=(30,), nodes=(8, 16), threads=(4,), jobs=20)
    rows = list(bench_growth.measure(["easy"], sizes, 20.0, silent))
    assert [(row["kind"], len(row["runs"])) for row in rows] == [
        ("burst", 2),
        ("overload", 1),
        ("nodes", 2),
        ("threads", 1),
    ]
    assert in_process(bench_growth.run_one, "gang", "burst", 5, 0, 60.0, timeout_s=60)["cpu_s"] >= 0
    assert all(run["cpu_s"] >= 0 and run["peak_mb"] > 10 for row in rows for run in row["runs"])
    assert rows[1]["exponent"] is None
    grown: list[Figures] = [
        {"size": size, "cpu_s": s, "mb": mb} for size, s, mb in ((9, 9.0, 5), (10, 1.0, 3), (40, 8.0, 12))
    ]
    assert bench_growth.exponent(grown, "cpu_s") == 1.5
    assert bench_growth.exponent(grown, "mb", 2.0) == 1.0
    assert bench_growth.exponent(grown, "mb", 3.0) is None  # too little to tell
    sizes = bench_growth.Sizes(
        burst=(400, 800), overload=(600,), nodes=(8, 16), threads=(4, 8), jobs=400
    )  # long enough for coarse clocks
    slow = bench_growth.measure(["easy"], sizes, 1e-6, silent, patience=2e7)
    assert [len(row["runs"]) for row in slow] == [1, 1, 1, 1]  # no larger run after one that took long
    failed: Figures = {"policy": "easy", "kind": "burst", "runs": [], "reason": "more than 5 s", "exponent": None}
    failed["mb_exponent"] = None
    steep = {**rows[0], "exponent": 1.62}
    text = "\n".join(bench_growth.lines([failed, rows[1], steep]))
    assert "more than 5 s" in text
    assert "**1.62**" in text


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


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
def test_the_page_of_a_report_is_measured() -> None:
    rows = list(bench_report.measure(bench_report.Extent(40, 60, 80, 100), silent))
    assert [row["kind"] for row in rows] == ["shared", "many", "picture"]
    for row in rows[:2]:
        assert row["mb"] > 0
        if CHROMIUM is not None:
            assert min(row["frames"].values()) > 0
    text = "\n".join(bench_report.lines(rows))
    assert "(30)" in text or CHROMIUM is None


def test_peers_are_compared_by_their_schedules_before_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program whose waits differ is told apart from one that makes the same schedule, whatever its time."""
    monkeypatch.setattr(bench_peers, "LOADS", (0.91,))
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
