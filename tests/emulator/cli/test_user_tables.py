"""What users read of a manager: the queue, nodes, jobs, settings and the history, and what of it they select."""

from __future__ import annotations

import json
import os
import pwd

from tests.commands import assert_one_line
from tests.emulator.cli.conftest import Run, asked
from tests.emulator.cli.fake_manager import job_row, node_row, table

from cosched_emulator.users.requests import ListHistory, ListJobs, ListNodes, ShowConfig, ShowJobs, Target


def test_queue_prints_a_table(run: Run, endpoint: str) -> None:
    rows = [
        job_row(1, shares_with=[2], slowdown=1.234567),
        job_row(2, state="SUSPENDED", node_list="[3-5]", nodes=3, shares_with=[1], limit_s=None),
        *[
            job_row(n, array_id=4, array_index=n - 4, state="PENDING", reason=why, node_list="", elapsed_s=0.0)
            for n, why in ((4, "Resources"), (5, "Resources"), (6, "Resources"), (7, "JobHeldUser"), (9, "Resources"))
        ],
        job_row(10, name="x" * 99 + "\x1b[2J", user="", state="PENDING", reason="Depend\nency", node_list=""),
    ]
    result = {**table(rows), "now_s": 9.5, "left_out": 0}
    request, ran = asked(run, endpoint, result, "queue")
    assert request == ListJobs()
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines == [
        ["JOBID", "NAME", "USER", "ST", "TIME", "TIME_LIMIT", "NODES", "SHARES_WITH", "SLOWDOWN", "NODELIST(REASON)"],
        ["1", "job1", "ann", "R", "1:01:01", "1-01:00:00", "1", "2", "1.23", "3"],
        ["2", "job2", "ann", "S", "1:01:01", "UNLIMITED", "3", "1", "-", "[3-5]"],
        ["4_[0-2,5]", "job4", "ann", "PD", "0:00", "1-01:00:00", "1", "-", "-", "(Resources)"],
        ["4_3", "job7", "ann", "PD", "0:00", "1-01:00:00", "1", "-", "-", "(JobHeldUser)"],
        ["10", "x" * 31 + "+", "-", "PD", "1:01:01", "1-01:00:00", "1", "-", "-", "(Depend\\nency)"],
    ]
    assert (
        len({line.index("NODELIST") if "NODELIST" in line else line.rindex(" ") + 1 for line in ran.out.splitlines()})
        == 1
    )
    _, ran = asked(run, endpoint, result, "queue", "--array")
    assert [line.split()[0] for line in ran.out.splitlines()][3:8] == ["4_0", "4_1", "4_2", "4_3", "4_5"]
    _, ran = asked(run, endpoint, result, "queue", "--json")
    assert json.loads(ran.out) == {"now_s": 9.5, "jobs": rows}
    _, ran = asked(run, endpoint, {**table([]), "now_s": 9.5, "left_out": 0}, "queue")
    assert ran.out.count("\n") == 1
    assert asked(run, endpoint, result, "queue", "-u", "bob")[0] == ListJobs("bob")
    assert asked(run, endpoint, result, "queue", "--me")[0] == ListJobs(pwd.getpwuid(os.geteuid()).pw_name)
    assert "exclude each other" in assert_one_line(run("queue", "--me", "--user", "ann"), 2)


def test_queue_selects_by_state_name_and_partition(run: Run, endpoint: str) -> None:
    rows = [
        job_row(1, name="cfd-1", partitions=["short", "long"]),
        job_row(2, name="cfd-2", state="PENDING", node_list="", reason="Resources", priority=7),
        job_row(3, name="md", state="SUSPENDED", partitions=["long"]),
    ]
    result = {**table(rows), "now_s": 9.5, "left_out": 0}

    def shown(*words: str) -> list[str]:
        ran = asked(run, endpoint, result, "queue", *words)[1]
        assert ran.code == 0, ran.err
        return [line.split()[0] for line in ran.out.splitlines()[1:]]

    assert shown("--states", "pd,R") == ["1", "2"]
    assert shown("-t", "suspended") == ["3"]
    assert shown("--name", "cfd*,none") == ["1", "2"]
    assert shown("-p", "long", "-t", "R") == ["1"]
    assert shown("--sort=-jobid", "-o", "jobid") == ["3", "2", "1"]
    ran = asked(run, endpoint, result, "queue", "-o", "jobid,state,reason,priority", "-n", "cfd-2")[1]
    assert [line.split() for line in ran.out.splitlines()] == [
        ["JOBID", "STATE", "REASON", "PRIORITY"],
        ["2", "PENDING", "Resources", "7"],
    ]
    assert json.loads(asked(run, endpoint, result, "queue", "-t", "R", "--json")[1].out)["jobs"][0]["job_id"] == 1
    assert "expected some of PENDING, RUNNING" in assert_one_line(run("queue", "-t", "X"), 2)


def test_nodes_are_selected_by_number_state_and_partition(run: Run, endpoint: str) -> None:
    rows = [node_row(0), node_row(1, state="DOWN", reason="fans"), node_row(2, partitions=["long"])]
    result = {**table(rows), "now_s": 9.5}
    for words, expected in {
        ("-n", "1-2"): ["1", "2"],
        ("-t", "down,idle", "-n", "0-1"): ["0", "1"],
        ("-p", "long"): ["2"],
    }.items():
        ran = asked(run, endpoint, result, "nodes", "--long", *words)[1]
        assert [line.split()[0] for line in ran.out.splitlines()[1:]] == expected


def test_nodes_prints_a_table(run: Run, endpoint: str) -> None:
    rows = [
        node_row(0, state="MIXED", threads_used=2, jobs=[1, 2], memory_used_mb=7),
        node_row(1, slowed=1.5),
        node_row(2),
        node_row(3, state="DRAINED", reason="fans"),
        node_row(4),
    ]
    request, ran = asked(run, endpoint, {**table(rows), "now_s": 9.5}, "nodes")
    assert request == ListNodes()
    assert [line.split() for line in ran.out.splitlines()] == [
        ["STATE", "NODES", "THREADS", "USED", "MEMORY_MIB", "NODELIST", "REASON"],
        ["DRAINED", "1", "4", "0/4", "100", "3", "fans"],
        ["IDLE", "3", "4", "0/12", "100", "[1-2,4]", "-"],
        ["MIXED", "1", "4", "2/4", "100", "0", "-"],
    ]
    _, ran = asked(run, endpoint, {**table(rows), "now_s": 9.5}, "nodes", "--long")
    assert [line.split() for line in ran.out.splitlines()][:3] == [
        ["NODE", "STATE", "THREADS", "MEMORY_MIB", "SLOWED", "JOBS", "REASON"],
        ["0", "MIXED", "2/4", "7/100", "-", "1,2", "-"],
        ["1", "IDLE", "0/4", "0/100", "1.50", "-", "-"],
    ]
    _, ran = asked(run, endpoint, {**table(rows), "now_s": 9.5}, "nodes", "--json")
    assert json.loads(ran.out)["nodes"] == rows


def test_job_prints_all_fields(run: Run, endpoint: str) -> None:
    row = job_row(
        12, array_id=11, array_index=1, allocation=[[0, 2, "0x3", 2]], exclusive=True, submit_s=0.5, memory_mb=512
    )
    request, ran = asked(run, endpoint, {"now_s": 1.0, "jobs": [row], "missing": []}, "job", "11_1")
    assert request == ShowJobs((Target(11, 1),))
    assert ran.out.startswith("job                    11_1\n")
    assert "allocation             [0,2,0x3,2]\n" in ran.out
    assert "exclusive              yes\n" in ran.out
    assert "memory                 512 MiB\n" in ran.out
    assert "elapsed                1:01:01\n" in ran.out
    assert "submit                 500 ms\n" in ran.out
    request, ran = asked(run, endpoint, {"now_s": 1.0, "jobs": [row], "missing": ["99"]}, "job", "11", "99", "--json")
    assert json.loads(ran.out)["jobs"] == [row]
    assert (ran.code, ran.err) == (1, "cosched-emulator: error: there is no such job: 99\n")


def test_config_prints_all_settings_with_their_sections(run: Run, endpoint: str) -> None:
    config = {
        "seed": 1,
        "clock": {"speed": 100.0, "mode": None},
        "script": [{"at_s": 5, "nodes": [1, 2]}],
        "requeue": True,
    }
    result = {"now_s": 1.0, "run": "abc", "config": config}
    request, ran = asked(run, endpoint, result, "config")
    assert request == ShowConfig()
    assert [line.split() for line in ran.out.splitlines()] == [
        ["SETTING", "VALUE"], ["seed", "1"], ["clock.speed", "100"], ["clock.mode", "-"], ["script.0.at_s", "5"],
        ["script.0.nodes", "1,2"], ["requeue", "yes"],
    ]  # fmt: skip
    assert asked(run, endpoint, result, "config", "clock")[1].out.count("\n") == 3
    assert json.loads(asked(run, endpoint, result, "config", "--json")[1].out) == result


def test_history_prints_a_table(run: Run, endpoint: str) -> None:
    ended = [
        {"job_id": n, "array_id": None, "name": "a", "user": "ann", "state": "COMPLETED", "submit_s": 1.0, "start_s": 61.0,
         "end_s": 100.0 * n, "elapsed_s": 5.0, "wait_s": 60.0, "starts": 1, "reason": ""}
        for n in (2, 1)
    ]  # fmt: skip
    request, ran = asked(run, endpoint, {"now_s": 1.0, "jobs": ended}, "history", "--user", "ann", "--most", "7")
    assert request == ListHistory("ann", 7)
    assert [line.split() for line in ran.out.splitlines()] == [
        ["JOBID", "NAME", "USER", "STATE", "SUBMIT", "START", "END", "ELAPSED", "WAIT", "STARTS", "REASON"],
        ["1", "a", "ann", "COMPLETED", "0:01", "1:01", "1:40", "0:05", "1:00", "1", "-"],
        ["2", "a", "ann", "COMPLETED", "0:01", "1:01", "3:20", "0:05", "1:00", "1", "-"],
    ]
