"""Workloads of Batsim's and logs become each other, with what jobs ask of nodes; Batsim's events are failures of nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Commands, assert_one_line
from tests.emulator.batsim.simulations import PROFILES, job

GONE = {"timestamp": 20, "type": "machine_unavailable"}
LUBLIN = ("workload", "lublin", "--jobs", "120", "--processors", "64", "--seed", "5")


def rows_of(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if not line.startswith(";")]


def test_a_log_becomes_json_and_a_log_again(commands: Commands) -> None:
    folder = commands.folder
    drawn = ("--characteristics", "M1", "--usage-out", "u.csv")
    assert commands.emulator(*LUBLIN, *drawn, "--out", "w.swf").code == 0
    ran = commands.emulator("workload", "convert", "w.swf", "--annotations", "u.csv", "--out", "w.json")
    assert (ran.code, ran.err, ran.out) == (0, "", "120 jobs written to w.json\n")
    content = json.loads((folder / "w.json").read_text())
    assert content["nb_res"] == 64
    assert len(content["jobs"]) == len(content["profiles"]) == 120
    assert all(set(each) == {"id", "subtime", "walltime", "res", "profile", "cosched"} for each in content["jobs"])
    ran = commands.emulator("workload", "convert", "w.json", "--usage-out", "u2.csv", "--out", "w2.swf")
    assert (ran.code, ran.err) == (0, "")
    assert rows_of(folder / "w2.swf") == rows_of(folder / "w.swf")
    assert (folder / "u2.csv").read_text() == (folder / "u.csv").read_text()


def test_both_files_are_the_same_simulation(commands: Commands) -> None:
    """For native runs and over Batsim's protocol; a job has the hosts that its processes fill."""
    folder = commands.folder
    assert commands.emulator(*LUBLIN, "--out", "w.swf").code == 0
    assert commands.emulator("workload", "convert", "w.swf", "--out", "w.json").code == 0
    for name, jobs in (
        ("log", ("--swf", "w.swf", "--nodes", "64", "--cores", "1")),
        ("json", ("-w", "w.json", "--nodes", "64")),
    ):
        plugin = commands.start("cosched_plugin", "batsim", "--bind", f"ipc://{folder}/b.sock", "--quiet")
        ran = commands.emulator("batsim", "--connect", f"ipc://{folder}/b.sock", *jobs, "--export", name)
        assert (ran.code, ran.err, plugin.wait()) == (0, "", 0)
    times = [
        [row.split(",")[8:11] for row in (folder / f"{name}_jobs.csv").read_text().splitlines()]
        for name in ("log", "json")
    ]
    assert sum(len(row) for row in times[0]) == 3 * 121
    short = [row for row in times[0] if row not in times[1]]
    assert len(short) < 121  # the log's estimates below a minute are raised, those of Batsim are as they are


def test_jobs_of_any_profile_and_name_become_rows(commands: Commands) -> None:
    folder = commands.folder
    jobs: list[dict[str, Any]] = [
        job("a", "two", walltime=50),
        job("b", "uneven", at=3, res=2),
        job("c", "d5", at=3.5, user="u7"),
    ]
    asked = {"usage": ["cpu", 1000000, 0, 0, 5], "memory_mb": 7, "profile": {"cpu_ppm": 500000}, "priority": 2}
    jobs[2] |= {"cosched": asked, "profile": "fails"}
    (folder / "w.json").write_text(json.dumps({"jobs": jobs, "profiles": PROFILES}))
    ran = commands.emulator("workload", "convert", "w.json", "--out", "w.swf")
    assert ran.code == 0
    warnings = ran.err.splitlines()
    told = (
        "what bounds jobs is lost",
        "what processes ask of nodes is lost",
        "jobs are numbered from 1",
        "1 jobs exchange messages (com)",
        "2 jobs have no walltime",
        "1 jobs fail (ret)",
        "1 jobs have a priority",
        "1 jobs have a user or a name",
    )
    assert all(line.startswith(f"warning: {text}") for line, text in zip(warnings, told, strict=True)), warnings
    fields = [row.split()[:10] for row in rows_of(folder / "w.swf")]
    assert [(row[0], row[1], row[3], row[4], row[8], row[9]) for row in fields] == [
        ("1", "0", "30", "1", "50", "-1"),
        ("2", "3", "30", "2", "86400", "-1"),
        ("3", "3.5", "10", "1", "86400", "7168"),
    ]
    ran = commands.emulator(
        "workload", "convert", "w.json", "--usage-out", "u.csv", "--profiles-out", "p.csv", "--out", "w2.swf"
    )
    assert "--usage-out" not in ran.err
    assert "--profiles-out" not in ran.err
    assert (folder / "u.csv").read_text().splitlines() == [
        "job,bound,cpu,network,disk,memory,priority",
        "3,cpu,1.000000,0.000000,0.000000,0.000005,2",
    ]


OF_5 = {
    "d10": {"type": "DelayProfile", "delay": 10},
    "flops": {"type": "ParallelTaskHomogeneousProfile", "cpu": 10e9, "com": 0},
    "each": {
        "type": "ParallelTaskHomogeneousProfile",
        "generation_strategy": "DefinedAmountsUsedForEachValue",
        "cpu": 10e9,
        "com": 0,
    },
    "total": {
        "type": "ParallelTaskHomogeneousProfile",
        "generation_strategy": "DefinedAmountsSpreadUniformly",
        "cpu": 40e9,
        "com": 0,
    },
    "uneven": {"type": "ParallelTaskProfile", "cpu": [10e9, 30e9]},
    "talk": {"type": "ParallelTaskProfile", "com": [0, 5, 5, 0]},
    "all": {"type": "SequentialCompositionProfile", "repeat": 2, "seq": ["d10", "flops", "talk"]},
    "draft": {"type": "sequential_composition", "seq": ["old", "older"]},
    "old": {
        "type": "ptask_homogeneous",
        "generation_strategy": "defined_amount_spread_uniformly",
        "cpu": 2e9,
        "com": 0,
    },
    "older": {"type": "ptask", "cpu": [1e9, 1e9], "com": [0, 0, 0, 0]},
}


def test_profiles_of_batsim_5_are_known_by_their_names(commands: Commands) -> None:
    """Case 17c. What no log holds of such a file is told."""
    jobs = [job(number, name, res=2, walltime=99) for number, name in enumerate(OF_5, 1)]
    jobs[0] |= {"extra_data": {"desired_allocation": "0"}, "dependencies": [2]}
    jobs[1] |= {"extra_data": "x\x1b[2J", "bad\nkey": 1}
    (commands.folder / "w.json").write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": OF_5}))
    ran = commands.emulator("workload", "convert", "w.json", "--out", "w.swf")
    assert (ran.code, ran.err.splitlines()) == (
        0,
        [
            "warning: a log cannot hold these fields of jobs: extra_data (2 jobs), dependencies (1 jobs), bad\\nkey (1 jobs)",
            "warning: 2 jobs exchange messages (com), which take no time in the emulator",
        ],
    )
    runs = {row.split()[0]: row.split()[3] for row in rows_of(commands.folder / "w.swf")}
    assert [runs[str(number)] for number in range(1, 11)] == [
        "10", "10", "10", "20", "30", "0.000001", "40", "2", "1", "1",
    ]  # fmt: skip


def test_a_conversion_of_a_log_tells_what_it_drops(commands: Commands) -> None:
    head = ("; MaxProcs: 4", "; UnixStartTime: 5", "; TimeZone: 0")
    rows = ("1 0 7 10 2 9 64 4 60 -1 5 7 8 -1 3 4 -1 -1", "2 5 -1 10 2 -1 -1 2 60 -1 1 7 -1 -1 0 -1 1 30")
    left_out = ("3 5 -1 0 2 -1 -1 2 60 -1 0 7 -1 -1 0 -1 -1 -1", "2 5 -1 10 2 -1 -1 2 60 -1 1 7 -1 -1 0 -1 1 30 6")
    (commands.folder / "w.swf").write_text("".join(f"{line}\n" for line in (*head, *rows, *left_out)))
    ran = commands.emulator("workload", "convert", "w.swf", "--out", "w.json")
    assert (ran.code, ran.err.splitlines()) == (
        0,
        [
            "4 rows, 3 usable jobs; 1 rows run time <= 0: dropped; 1 rows of more than 18 fields: the others are ignored; "
            "2 rows with a preceding job: they do not wait for it",
            "warning: a Batsim workload cannot hold these fields of the log: wait time (1 rows), "
            "average CPU time (1 rows), used memory (1 rows), preceding job (2 rows), think time (2 rows), "
            "requested processors (1 rows)",
            "warning: a Batsim workload cannot hold when the log began (UnixStartTime, TimeZone)",
            "warning: 1 rows stand twice, equal in all fields to a row above: each is a job",
        ],
    )
    told = json.loads((commands.folder / "w.json").read_text())["jobs"]
    assert [(each.get("group"), each["status"]) for each in told] == [(8, 5), (None, 1), (None, 1)]
    assert commands.emulator("workload", "convert", "w.json", "--out", "w2.swf").code == 0
    assert [row.split()[10:13] for row in rows_of(commands.folder / "w2.swf")][:2] == [
        ["5", "7", "8"],
        ["1", "7", "-1"],
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("w.json", "--out", "x.json"), "expected one log in SWF"),
        (("w.swf", "--usage-out", "u", "--out", "x.json"), "--usage-out does not go with a log"),
        (("w.json", "--mix", "high", "--out", "x.swf"), "--mix does not go with workloads of Batsim's"),
        (("none.json", "--out", "x.swf"), "none.json: expected a file that can be read"),
        (("bad.json", "--out", "x.swf"), "bad.json: field 'jobs': expected a list"),
        (("w.json", "--out", "w.json.swf"), "w.json.swf: expected a new file"),
    ],
)
def test_wrong_conversions_are_told(arguments: tuple[str, ...], told: str, commands: Commands) -> None:
    folder = commands.folder
    (folder / "w.json").write_text(json.dumps({"jobs": [job(1)], "profiles": PROFILES}))
    (folder / "bad.json").write_text('{"jobs": 3, "profiles": {}}')
    (folder / "w.json.swf").write_text("")
    assert told in assert_one_line(commands.emulator("workload", "convert", *arguments), 2)


def test_batsims_events_are_failures_of_nodes(commands: Commands) -> None:
    events = [
        {"timestamp": 200, "type": "machine_unavailable", "resources": "0-1 3"},
        {"timestamp": 700, "type": "machine_available", "resources": "0-1 3"},
        {"timestamp": 900, "type": "power_cap", "watts": 500},
    ]
    entries = [("fail", 200, node) for node in (0, 1, 3)] + [("return", 700, node) for node in (0, 1, 3)]
    folder = commands.folder
    (folder / "events.txt").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    (folder / "plan.toml").write_text(
        "".join(f'[[at]]\nat_s = {at}\ndo = "{do}"\nnode = {node}\n' for do, at, node in entries)
    )
    for plan in ("events.txt", "plan.toml"):
        ran = commands.emulator(
            "simulate", "--lublin", "60", "--nodes", "8", "--faults", plan, "--out", plan.partition(".")[0]
        )
        assert ran.code == 0
    assert (folder / "events" / "jobs.csv").read_text() == (folder / "plan" / "jobs.csv").read_text()
    (folder / "events.txt").write_text("{}\n")
    ran = commands.emulator("simulate", "--lublin", "60", "--nodes", "8", "--faults", "events.txt")
    assert assert_one_line(ran, 2).startswith("events.txt:1: field 'timestamp': expected a time")


@pytest.mark.parametrize(
    ("plan", "text", "told"),
    [
        ("e.txt", "".join(f"{json.dumps(GONE | {'resources': hosts})}\n" for hosts in ("0-1", "7")), "e.txt:2: field 'resources'"),
        ("e.toml", '[[at]]\nat_s = 1\ndo = "fail"\nnode = 7\n', "e.toml: faults.at[0].node"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", [("simulate",), ("serve", "--bind", "ipc://s.sock")])
def test_a_node_that_the_machine_lacks_is_told_with_its_place(
    command: tuple[str, ...], plan: str, text: str, told: str, commands: Commands
) -> None:
    (commands.folder / plan).write_text(text)
    ran = commands.emulator(*command, "--lublin", "20", "--nodes", "4", "--faults", plan)
    assert assert_one_line(ran, 2) == f"{told}: expected a node from 0 to 3, got 7"
