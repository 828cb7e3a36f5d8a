"""A replay starts each job when and where its log says, and tells what of the record cannot have been."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Commands, assert_one_line
from tests.emulator.whatif.made import write_log
from tests.emulator.workload.test_site_facts import NAMES, SITE

from cosched_emulator import simulate
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.sacct.sacct_log import ImportOptions, import_dump
from cosched_plugin.common.errors import UsageError

_AS_LOGGED = {"limits": "none", "cap_runs": False, "minimum_estimate_s": 0.0}


def _log(file: Path, jobs: Iterable[tuple[int, ...]], processors: int = 4) -> str:
    """Write a log of jobs: submission, wait, run time, processors, estimate (ten times the run time)."""
    rows = [
        f"{number} {submit} {wait} {run} {size} -1 -1 {size} {estimate[0] if estimate else 10 * run} -1 1 1 -1 1 1 -1 -1 -1"
        for number, (submit, wait, run, size, *estimate) in enumerate(jobs, 1)
    ]
    file.write_text("\n".join([f"; MaxProcs: {processors}", *rows, ""]))
    return str(file)


def _replayed(log: str, policy: str = "replay", cluster: Mapping[str, Any] | None = None, **sections: Any) -> Any:
    workload = {"swf": log, **_AS_LOGGED, **sections.pop("workload", {})}
    scenario = {"cluster": cluster or {}, "truth": {"contention": "none"}, "workload": workload, **sections}
    return simulate(scenario, policy)


def _held(folder: Path) -> dict[tuple[str, str, str], set[int]]:
    """Return the nodes of each stay of a job: its number, start and end."""
    found: dict[tuple[str, str, str], set[int]] = {}
    with open(folder / "allocations.csv", newline="") as stream:
        for row in csv.DictReader(stream):
            first, count = int(row["first_node"]), int(row["node_count"])
            found.setdefault((row["job_id"], row["start_s"], row["end_s"]), set()).update(range(first, first + count))
    return found


def _ran_on(folder: Path, file: Path) -> str:
    """Write where the jobs of a run were, as annotations."""
    rows = [f"{job},{';'.join(map(str, sorted(nodes)))}\n" for (job, _, _), nodes in _held(folder).items()]
    file.write_text("job,ran_on\n" + "".join(rows))
    return str(file)


@pytest.mark.parametrize("policy", ["easy", "conservative", "sjbf"])
@pytest.mark.parametrize("shape", ["1x1x1", "1x4x1"])
def test_a_run_that_is_replayed_from_its_schedule_is_the_same_run(tmp_path: Path, policy: str, shape: str) -> None:
    """The run folder's own schedule is a log with starts, and its allocations say where: the same files come out."""
    nodes = {"nodes": 8 if shape == "1x1x1" else 2, "preset": shape}
    log = write_log(tmp_path / "log.swf", 300)
    workload = {"swf": str(log), "limits": "none"}
    first = tmp_path / "first"
    simulate({"cluster": nodes, "workload": workload}, policy, out=first)
    said = _ran_on(first, tmp_path / "jobs.csv")
    run = _replayed(str(first / "schedule.swf"), cluster=nodes, workload={"annotations": said})
    again = run.write(tmp_path / "again")
    if shape == "1x1x1":
        for name in ("jobs.csv", "allocations.csv"):
            assert (again / name).read_bytes() == (first / name).read_bytes()
    # Of nodes that jobs share the record does not say which threads
    assert _held(again) == _held(first)
    assert {key: run.summary["record"][key] for key in ("later", "elsewhere", "sooner", "unknown")} == {
        "later": 0,
        "elsewhere": 0,
        "sooner": 0,
        "unknown": 0,
    }


def test_the_figures_are_those_of_the_record(tmp_path: Path) -> None:
    """A job that waits although processors are idle waits on, and its wait is the recorded one to the microsecond."""
    run = _replayed(_log(tmp_path / "log.swf", [(0, 0, 100, 2), (10, 55, 100, 2), (20, 200, 30, 4)]))
    assert run.summary["all"]["wait_s"]["mean"] == pytest.approx(255 / 3)
    assert run.jobs.start_s.tolist() == [0, 65, 220]
    assert run.policy == "replay"


def test_what_contradicts_the_machine_is_counted_and_starts_as_soon_as_there_is_room(tmp_path: Path) -> None:
    """The second job held a processor of the first one for 40 s, the third one the node of the first."""
    log = _log(tmp_path / "log.swf", [(0, 0, 100, 3), (10, 50, 100, 2), (20, 0, 30, 1)])
    said = tmp_path / "jobs.csv"
    said.write_text("job,ran_on\n1,0-2\n3,0\n")
    run = _replayed(log, workload={"annotations": str(said)})
    assert run.jobs.start_s.tolist() == [0, 100, 20]
    assert run.summary["record"] == {
        "jobs": 3,
        "unknown": 0,
        "later": 1,
        "later_h": round(40 / 3600, 3),
        "elsewhere": 1,
        "sooner": 0,
        "sooner_won_h": 0,
        "longer": 0,
        "longer_h": 0,
    }


def test_nothing_but_room_keeps_a_job_from_its_recorded_start(tmp_path: Path) -> None:
    """The site held what throttles, limits and dependencies ask for, in an order that it chose: the second task came first here."""
    log = _log(tmp_path / "log.swf", [(0, 80, 40, 1), (0, 10, 60, 1), (0, 20, 60, 1)])
    said = tmp_path / "jobs.csv"
    said.write_text("job,array,at_once,after\n1,1,1,\n2,1,1,\n3,,,after:1\n")
    run = _replayed(log, workload={"annotations": str(said)}, limits=[{"jobs": 1}])
    assert run.jobs.start_s.tolist() == [80, 10, 20]


def test_a_job_without_a_recorded_start_does_not_run_unless_it_was_cancelled(tmp_path: Path) -> None:
    log = _log(tmp_path / "log.swf", [(0, 0, 100, 2), (10, -1, 100, 2), (20, -1, 30, 1)])
    said = tmp_path / "jobs.csv"
    said.write_text("job,cancel_s\n3,60\n")
    run = _replayed(log, workload={"annotations": str(said)})
    assert [record.state for record in run.records] == ["COMPLETED", "REJECTED", "CANCELLED"]
    assert run.summary["record"]["unknown"] == 1
    assert not run.unfinished


def test_replay_is_refused_where_there_is_no_record(tmp_path: Path, commands: Commands) -> None:
    log = write_log(tmp_path / "log.swf", 20)
    with pytest.raises(ConfigurationError, match="says how long jobs waited"):
        _replayed(str(log))
    made = commands.emulator("simulate", "--lublin", "20", "--policy", "replay")
    assert "says how long jobs waited" in assert_one_line(made, 2)
    recorded = _log(tmp_path / "recorded.swf", [(0, 0, 100, 2)])
    with pytest.raises(UsageError, match="no other process has the record"):
        simulate({"workload": {"swf": recorded}}, "replay", link="zmq")


def test_the_command_tells_what_was_not_as_recorded(tmp_path: Path, commands: Commands) -> None:
    log = _log(tmp_path / "log.swf", [(0, 0, 100, 3), (10, 50, 100, 2)])
    made = commands.emulator("simulate", "--swf", log, "--policy", "replay", "--out", str(tmp_path / "run"))
    assert made.code == 0
    assert "of 2 jobs 1 began later, 0.0 h in all, for want of room" in " ".join(made.err.split())
    report = commands.emulator("report", str(tmp_path / "run"), "-o", str(tmp_path / "page.html"))
    assert report.code == 0
    assert "of 2 jobs 1 began later" in (tmp_path / "page.html").read_text()


# ---------------------------------------------------------------- guests in the recorded schedule

_PAIRS = "application,a,b\na,1.0,1.2\nb,1.1,1.0\n"


def _with_guests(tmp_path: Path, jobs: Iterable[tuple[int, ...]], policy: str = "replay-guests", **more: Any) -> Any:
    """Replay on nodes of two threads; the first job is program a, others are b, and each is slowed down as the table says."""
    (tmp_path / "pairs.csv").write_text(_PAIRS)
    (tmp_path / "names.csv").write_text("job,user,name\n1,,a\n,1,b\n")
    return _replayed(
        _log(tmp_path / "log.swf", jobs, 2),
        policy,
        {"nodes": 2, "preset": "1x1x2"},
        truth={"contention": "pairs", "pairs": str(tmp_path / "pairs.csv")},
        workload={"annotations": str(tmp_path / "names.csv")},
        **more,
    )


def test_a_pending_job_joins_a_running_one_before_its_recorded_start(tmp_path: Path) -> None:
    """It ends 80 s sooner; its host runs 1.2 times as long beside it, ends later, and the job that was recorded after it waits."""
    jobs = [(0, 0, 1000, 2), (10, 990, 100, 2), (20, 1090, 50, 2)]
    plain, run = (_with_guests(tmp_path, jobs, policy) for policy in ("replay", "replay-guests"))
    assert plain.summary["record"]["later"] == 0
    found = run.summary["record"]
    assert run.jobs.start_s[1] == 10
    assert found["sooner"] >= 1
    assert found["sooner_won_h"] > 0
    assert (found["longer"], found["longer_h"] > 0) == (1, True)
    host, before = run.jobs.end_s[0], plain.jobs.end_s[0]
    assert host > before == 1000


def test_without_a_belief_of_pairs_nobody_joins(tmp_path: Path) -> None:
    """Guests are those of the scheduler's belief: where it knows no pair, the schedule is the recorded one."""
    jobs = [(0, 0, 1000, 2), (10, 990, 100, 2)]
    run = _with_guests(tmp_path, jobs, belief={"pairs": "unknown"})
    assert run.jobs.start_s.tolist() == [0, 1000]
    assert run.summary["record"]["sooner"] == 0


def test_a_job_that_a_guest_keeps_from_its_nodes_is_told(tmp_path: Path) -> None:
    """The guest outlives its host, which ends long before its limit: the next recorded job waits for it."""
    jobs = [(0, 0, 100, 2, 9_000), (10, 490, 300, 2, 3_000), (20, 80, 50, 2, 9_000)]
    found = _with_guests(tmp_path, jobs).summary["record"]
    assert (found["sooner"], found["later"]) == (1, 1)
    assert found["later_h"] > 0


# ---------------------------------------------------------------- a site


@pytest.mark.skipif(not SITE.is_dir(), reason=f"{SITE} is not there")
def test_a_site_is_replayed_as_its_scheduler_placed_its_jobs(tmp_path: Path) -> None:
    """Nodes, memory, GPUs, partitions and outages of the import leave room for each job where and when it ran."""
    (tmp_path / "sacct.txt").write_bytes(gzip.decompress((SITE / "sacct.txt.gz").read_bytes()))
    facts = tuple(str(SITE / f"{name}.txt") for name in NAMES)
    for options in (ImportOptions(facts=facts), ImportOptions()):
        site = tmp_path / f"site{len(options.facts)}"
        import_dump(str(tmp_path / "sacct.txt"), site, options)
        run = simulate(str(site / "scenario.toml"), "replay", overrides={"workload": {"jobs": 500, **_AS_LOGGED}})
        found = run.summary["record"]
        assert found["jobs"] > 450
        assert (found["later"], found["elsewhere"], found["unknown"]) == (0, 0, 0)
