"""The commands for users: requests, output and errors, with a manager that gives prepared answers."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Commands, assert_one_line
from tests.emulator.cli.conftest import Run, asked
from tests.emulator.cli.fake_manager import FakeManager, always, fake_manager, job_row, node_row, overview
from tests.emulator.submissions import submit_job
from tests.processes import Ran, ended

from cosched_emulator.accounting.database_schema import migrate
from cosched_emulator.cli.job_options import job_options
from cosched_emulator.cli.main import COMMANDS
from cosched_emulator.errors import LinkError
from cosched_emulator.users import client, requests
from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.waiting import wait_for
from cosched_plugin.protocol.messages import JobSpec

QUICK = ("--timeout", "0.3")


CHANGED: dict[str, Any] = {"changed": [1], "unchanged": []}


def test_every_command_has_the_options_of_its_manager(run: Run) -> None:
    names = [*COMMANDS["Live cluster, jobs"], *COMMANDS["Live cluster, nodes and state"]]
    for name in names:
        ran = run(name, "--help", manager=False)
        assert ran.code == 0
        for option in ("--manager", "--timeout", "--json", "--key", "--manager-key"):
            assert option in ran.out, (name, option)
    assert "[default: 1:00:00]" in run("submit", "--help", manager=False).out


# ---------------------------------------------------------------- requests and output


def test_submit_sends_the_job_and_prints_its_id(run: Run, endpoint: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH -n 4 -t 2:00 -o x.out --mail-type=END\n#SBATCH -p batch\nhostname\n")
    result = {"job_ids": [12]}
    request, ran = asked(run, endpoint, result, "submit", "-t", "10", "--error", "e", str(script), "-H")
    assert isinstance(request, requests.SubmitJob)
    assert request.partitions == ("batch",)
    assert (request.job.processes, request.job.limit_us, request.job.name, request.held) == (
        4,
        600_000_000,
        "job.sh",
        True,
    )
    ignored = "note: without effect here: --output, --mail-type, --error\n"
    assert ran == Ran(0, "Submitted batch job 12\n", ignored)
    request, ran = asked(run, endpoint, result, "submit", "--parsable")
    assert request == submit_job(1, 3_600_000_000, 3_600_000_000)
    assert ran == Ran(0, "12\n", "")
    repeated = {"job_ids": [5], "repeated": True}
    request, ran = asked(run, endpoint, repeated, "submit", "-n", "1", "--token", "monday")
    assert isinstance(request, requests.SubmitJob)
    assert request.token == "monday"
    assert (ran.out, ran.err) == (
        "Submitted batch job 5\n",
        "note: submitted before with this token; nothing was submitted now\n",
    )
    request, ran = asked(run, endpoint, {"job_ids": [5, 6]}, "submit", "-a", "1-2", "--json")
    assert json.loads(ran.out) == {"job_ids": [5, 6]}
    request, ran = asked(run, endpoint, result, "submit", "-N", "4", "-n", "2")
    assert ran.err == "note: 2 processes take no more than 2 nodes\n"


def test_changes_of_jobs_and_nodes_send_their_requests(run: Run, endpoint: str) -> None:
    cases: list[tuple[tuple[str, ...], requests.Request]] = [
        (("cancel", "12", "13_4"), requests.CancelJobs((requests.Target(12), requests.Target(13, 4)))),
        (
            ("cancel", "12_[1-2,7]"),
            requests.CancelJobs((requests.Target(12, 1), requests.Target(12, 2), requests.Target(12, 7))),
        ),
        (("hold", "1"), requests.HoldJobs((requests.Target(1),))),
        (("release", "1"), requests.ReleaseJobs((requests.Target(1),))),
        (("drain", "0-2", "[7]", "1", "--reason", "new fans"), requests.DrainNodes((0, 1, 2, 7), "new fans")),
        (("resume", "3"), requests.ResumeNodes((3,))),
    ]
    for arguments, expected in cases:
        request, ran = asked(run, endpoint, CHANGED, *arguments)
        assert (request, ran) == (expected, Ran(0, "", ""))
    _, ran = asked(run, endpoint, CHANGED, "cancel", "1", "--json")
    assert json.loads(ran.out) == CHANGED
    unchanged = {"changed": [], "unchanged": [[1, "it runs"], [2, "it has ended"]]}
    _, ran = asked(run, endpoint, unchanged, "hold", "1", "2")
    assert assert_one_line(ran, 1) == "job 1: it runs; job 2: it has ended"
    _, ran = asked(run, endpoint, {"changed": [], "unchanged": [[n, "no"] for n in range(30)]}, "resume", "0-29")
    assert assert_one_line(ran, 1).endswith("node 19: no; 10 more")


def test_history_from_a_database_needs_no_manager(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "a b?.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        migrate(connection, 0)
        needed = [row[1] for row in connection.execute("PRAGMA table_info(jobs)") if row[3] and row[4] is None]
        for job_id, user, end_us in ((1, "ann", 5_500_000), (2, "bob", 9_000_000), (3, "ann", None)):
            values = {
                **dict.fromkeys(needed, 0),
                "id": job_id,
                "user": user,
                "name": "n",
                "state": "COMPLETED",
                "reason": "",
            }
            values.update(submit_us=1_000_000, start_us=2_000_000, end_us=end_us)
            names = ", ".join(values)
            connection.execute(
                f"INSERT INTO jobs ({names}) VALUES ({','.join('?' * len(values))})", list(values.values())
            )
        connection.commit()
        before = file.read_bytes()
        rows = json.loads(run("history", "--db", str(file), "--json", manager=False).out)["jobs"]
        assert [(row["job_id"], row["elapsed_s"], row["wait_s"]) for row in rows] == [(1, 3.5, 1.0), (2, 7.0, 1.0)]
        (row,) = json.loads(run("history", "--db", str(file), "--user", "ann", "--json", manager=False).out)["jobs"]
        assert row["job_id"] == 1
        (row,) = json.loads(run("history", "--db", str(file), "--most", "1", "--json", manager=False).out)["jobs"]
        assert row["job_id"] == 2
        assert file.read_bytes() == before
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version=99")
    assert "got version 99" in assert_one_line(run("history", "--db", str(file), manager=False), 2)
    file.write_text("no database at all, but some text that is long enough to be looked at")
    assert "expected a manager's database" in assert_one_line(run("history", "--db", str(file), manager=False), 2)
    assert "no such file" in assert_one_line(run("history", "--db", str(tmp_path / "none"), manager=False), 2)


def test_status_prints_the_state(run: Run, endpoint: str) -> None:
    status = overview([], [], latency_s={"p50": 0.0012, "max": None}, standby=False)["status"]
    request, ran = asked(run, endpoint, status, "status")
    assert request == requests.ShowStatus()
    found = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in ran.out.splitlines())
    assert found["now"] == "1-02:03:04"
    assert found["policy"] == "easy"
    assert found["jobs running"] == "2"
    assert found["latency p50"] == "1.2 ms"
    assert found["latency max"] == "-"
    assert found["standby"] == "no"
    assert json.loads(asked(run, endpoint, status, "status", "--json")[1].out) == status


def test_top_prints_one_picture_on_request(run: Run, endpoint: str) -> None:
    result = overview([job_row(1)], [node_row(0), node_row(1, state="MIXED", jobs=[1], threads_used=2)])
    request, ran = asked(run, endpoint, result, "top", "--once", "--most", "5")
    assert request == requests.ShowOverview(5)
    assert "emulated 1-02:03:04   speed 100   policy easy" in ran.out
    assert "[###############     ] 75 %, 12 of 16" in ran.out
    assert "start together 2, 3" in ran.out
    assert re.search(r"^ +1 +job1 +ann +R", ran.out, re.MULTILINE)
    assert json.loads(asked(run, endpoint, result, "top", "--json")[1].out) == result
    assert "a terminal (--once" in assert_one_line(run("top"), 2)


# ---------------------------------------------------------------- errors


def test_without_a_manager_commands_fail_in_time(run: Run, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "COSCHED_MANAGER" in assert_one_line(run("queue", manager=False), 2)
    assert assert_one_line(run("queue", *QUICK), 3) == f"{endpoint}: no manager there within 0.3 s"
    began = time.monotonic()
    told = assert_one_line(run("queue"), 3)
    assert told == f"{endpoint}: no manager there: there is no such socket; is the manager running?"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(endpoint.removeprefix("ipc://"))
    assert "no manager there: no process listens there" in assert_one_line(run("submit"), 3)
    monkeypatch.setattr("cosched_emulator.users.client.CONNECT_S", 0.2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        told = assert_one_line(run("queue", "--manager", f"tcp://127.0.0.1:{free.getsockname()[1]}", manager=False), 3)
    assert told.endswith("no manager there within 0.2 s")
    assert time.monotonic() - began < 8
    monkeypatch.setenv("COSCHED_MANAGER", endpoint)
    assert "no manager there" in assert_one_line(run("queue", *QUICK, manager=False), 3)
    for bad, why in (
        ("http://x", "expected ipc://PATH"),
        ("tcp://192.0.2.1:1", "not a loopback address"),
        ("tcp://127.0.0.1:*", "an endpoint to connect to"),
        ("ipc://" + "x" * 200, "at most 107 bytes"),
    ):
        assert why in assert_one_line(run("queue", "--manager", bad, manager=False), 2)


def test_requests_without_an_answer_are_not_repeated(run: Run, endpoint: str) -> None:
    with fake_manager(endpoint, lambda _: None) as manager:
        text = assert_one_line(run("submit", *QUICK), 3)
        assert "did not answer within 0.3 s; it may have carried out the request" in text
        assert assert_one_line(run("queue", *QUICK), 3).endswith("did not answer within 0.3 s")
    assert len(manager.requests) == 2  # no request was repeated
    with fake_manager(endpoint, lambda _: b"nonsense"):
        assert "expected the endpoint that serve has as --users, not as --bind" in assert_one_line(run("queue"), 3)


def test_commands_wait_for_a_manager_that_starts_later(run: Run, endpoint: str) -> None:
    managers: list[FakeManager] = []
    later = threading.Timer(0.3, lambda: managers.append(FakeManager(endpoint, always({"job_ids": [3]}))))
    later.start()
    try:
        assert run("submit", "--parsable", "--timeout", "5") == Ran(0, "3\n", "")
    finally:
        later.join(10)
        for manager in managers:
            manager.close()


def test_a_refusal_of_a_field_of_a_submission_names_its_option() -> None:
    told = {
        name: client.refusal_text(requests.Refused("value", "", name))
        for name in (*requests.SubmitJob._fields, *JobSpec._fields)
    }
    options = {name: text.split(": ")[1] for name, text in told.items() if "--" in text}
    assert set(told) - set(options) == {"job", "held", "requeue", "exit_code"}  # any value of these is fine
    known = {option for each in job_options() for option in each.opts} | {"--user", "--token"}
    others = {"id", "submit_us", "eligible", "profile"}  # nobody says them here
    assert {name for name, option in options.items() if option not in known} == others


def test_a_refusal_is_printed_in_one_line(run: Run, endpoint: str) -> None:
    refused = requests.Refused("permission", "job 3 is not yours", "jobs[0]")
    _, ran = asked(run, endpoint, refused, "cancel", "3")
    assert assert_one_line(ran, 1) == "refused: job 3 is not yours"
    _, ran = asked(run, endpoint, requests.Refused("value", "expected less", "after[1].job_id"), "submit")
    assert assert_one_line(ran, 1) == "refused: --dependency: expected less"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("cancel",), "Missing argument 'JOB...'"),
        (("cancel", "x"), "expected a job such as 12, 12_3 or 12_[1-3,7], got 'x'"),
        (("drain", "3-1"), "expected a range that ascends, not 3-1"),
        (("submit", "-n", "0"), "expected a whole number above 0, got '0'"),
        (("submit", "--quux"), "No such option"),
        (("queue", "--timeout", "0"), "--timeout"),
        (("queue", "--timeout", "nan"), "--timeout"),
        (("queue", "--key", "a"), "--manager-key: expected a key file, because --key is given"),
        (("queue", "extra"), "unexpected extra argument"),
    ],
)
def test_wrong_usage_is_an_error_in_one_line(arguments: tuple[str, ...], text: str, run: Run) -> None:
    assert text in assert_one_line(run(*arguments), 2)


# ---------------------------------------------------------------- waiting


class Story:
    """Answers to ShowJobs: each call gives the next one, repeating the last; None is silence."""

    def __init__(self, *chapters: Mapping[int, str] | requests.Refused | None) -> None:
        self.chapters = list(chapters)
        self.asked: list[tuple[requests.Target, ...]] = []

    def __call__(self, request: requests.Request) -> requests.Done | requests.Refused | None:
        if isinstance(request, requests.SubmitJob):
            return requests.Done({"job_ids": [1]})
        assert isinstance(request, requests.ShowJobs)
        self.asked.append(request.jobs)
        chapter = self.chapters.pop(0) if len(self.chapters) > 1 else self.chapters[0]
        if chapter is None or isinstance(chapter, requests.Refused):
            return chapter
        jobs = [job_row(number, state=state) for number, state in chapter.items()]
        missing = [str(target.job_id) for target in request.jobs if target.job_id not in chapter]
        return requests.Done({"now_s": 1.0, "jobs": jobs, "missing": missing})


def test_wait_until_all_have_ended(run: Run, endpoint: str) -> None:
    story = Story(
        {1: "PENDING", 2: "COMPLETED"}, requests.Refused("rate", "too fast"), {}, {1: "RUNNING"}, {1: "COMPLETED"}
    )
    with fake_manager(endpoint, story):
        assert run("wait", "1", "2") == Ran(0, "", "")
    assert story.asked == [(requests.Target(1), requests.Target(2))] + [(requests.Target(1),)] * 4
    with fake_manager(endpoint, Story({1: "FAILED", 2: "COMPLETED", 3: "TIMEOUT"})):
        ran = run("wait", "1", "2", "3")
        assert assert_one_line(ran, 1) == "2 of 3 jobs did not complete: 1 FAILED, 3 TIMEOUT"
        ran = run("wait", "1", "2", "3", "--json")
        assert [each["state"] for each in json.loads(ran.out)["jobs"]] == ["FAILED", "COMPLETED", "TIMEOUT"]
        assert ran.code == 1
    with fake_manager(endpoint, Story({})):
        assert assert_one_line(run("wait", "7"), 1) == "there is no such job: 7"
    with fake_manager(endpoint, Story({1: "RUNNING"})):
        assert assert_one_line(run("wait", "1", "--timeout", "0.2"), 1) == "1 of 1 jobs have not ended within 0.2 s"


def test_submit_can_wait_for_the_end(run: Run, endpoint: str) -> None:
    with fake_manager(endpoint, Story({1: "RUNNING"}, {1: "COMPLETED"})):
        assert run("submit", "--wait", "--parsable") == Ran(0, "1\n", "")
    with fake_manager(endpoint, Story({1: "CANCELLED"})):
        ran = run("submit", "--wait")
        assert (ran.code, ran.out) == (1, "Submitted batch job 1\n")


def test_waiting_survives_a_restart_but_ends_in_time(endpoint: str) -> None:
    told: list[tuple[int, int]] = []

    def tell(*counts: int) -> None:
        told.append((counts[0], counts[1]))

    first = FakeManager(endpoint, Story({1: "RUNNING"}))
    later: list[FakeManager] = []

    def restart() -> None:
        while not told:
            time.sleep(0.01)
        first.close()
        time.sleep(0.5)
        later.append(FakeManager(endpoint, Story(None, {1: "COMPLETED"})))

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        with ManagerConnection(endpoint, 0.2) as connection:
            (row,) = wait_for(connection, [requests.Target(1)], None, tell)
            assert row["state"] == "COMPLETED"
        assert told[0] == (0, 1)
        assert told[-1] == (1, 1)
    finally:
        thread.join(10)
        for manager in later:
            manager.close()
    with ManagerConnection(endpoint, 0.1) as connection, pytest.raises(LinkError, match="no manager there"):
        wait_for(connection, [requests.Target(1)], None, tell)
    gone = FakeManager(endpoint, Story({1: "RUNNING"}, None))
    try:
        began = time.monotonic()
        with ManagerConnection(endpoint, 0.1) as connection, pytest.raises(LinkError, match="did not answer"):
            wait_for(connection, [requests.Target(1)], None, tell, patience_s=0.5)
        assert 0.5 < time.monotonic() - began < 5
    finally:
        gone.close()


# ---------------------------------------------------------------- a real manager


def rows_when(commands: Commands, done: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Return the queue's rows once a condition holds, or after 10 s."""
    until = time.monotonic() + 10
    while True:
        rows: list[dict[str, Any]] = json.loads(commands.emulator("queue", "--json").out)["jobs"]
        if done(rows) or time.monotonic() > until:
            return rows


def test_commands_with_a_real_manager(commands: Commands) -> None:
    """A real manager with a scheduler, at a hundredfold speed, instead of the fake one."""
    commands.environment |= {"COSCHED_MANAGER": f"ipc://{commands.folder}/users"}
    place = f"ipc://{commands.folder}/plugin"
    clock = ("--clock", "scaled", "--speed", "500", "--nodes", "4", "--node", "rua-4way")
    manager = commands.start(
        "cosched_emulator",
        "serve",
        *clock,
        "--users",
        f"ipc://{commands.folder}/users",
        "--bind",
        place,
        "--db",
        "c.db",
        "--out",
        "run",
    )
    plugin = commands.start("cosched_plugin", "serve", "--connect", place, "--policy", "easy")
    assert commands.emulator("submit", "-n", "4", "-t", "10", "--run", "60", "--wait", "--timeout", "30") == Ran(
        0, "Submitted batch job 1\n", ""
    )
    assert commands.emulator("submit", "--run", "5", "--exit-code", "3", "-t", "1", "--parsable").out == "2\n"
    assert assert_one_line(commands.emulator("wait", "1", "2"), 1) == "1 of 2 jobs did not complete: 2 FAILED"
    assert commands.emulator("submit", "-a", "1,3", "-H", "--exclusive").code == 0
    rows = json.loads(commands.emulator("queue", "--me", "--json").out)["jobs"]
    assert [(row["array_index"], row["reason"]) for row in rows] == [(1, "JobHeldUser"), (3, "JobHeldUser")]
    none = "no estimates: this manager makes no estimates of starts: serve it with --estimate-starts"
    held = "".join(f"job 3_{task}: JobHeldUser: it is held\n" for task in (1, 3))
    assert commands.emulator("why", "3") == Ran(0, f"{held}{none}\n", "")  # without estimates, the reason of `queue`
    assert none.partition(": ")[2] in assert_one_line(commands.emulator("queue", "--start"), 1)
    assert json.loads(commands.emulator("why", "3", "--json").out)["jobs"][0]["reason"] == "JobHeldUser"
    assert commands.emulator("drain", "2-3", "--reason", "fans").code == 0
    assert re.search(r"DRAINED +2 .* \[2-3\] +fans", commands.emulator("nodes").out)
    assert commands.emulator("cancel", "3_[1,3]") == Ran(0, "", "")
    assert "refused: there is no job 3" in assert_one_line(commands.emulator("cancel", "3"), 1)
    ended_jobs = json.loads(commands.emulator("history", "--json").out)["jobs"]
    assert [row["state"] for row in ended_jobs] == ["COMPLETED", "FAILED", "CANCELLED", "CANCELLED"]
    assert json.loads(commands.emulator("status", "--json").out)["nodes"]["drained"] == 2
    assert json.loads(commands.emulator("status", "--json").out)["plans_cut_short_s"] is None
    assert re.search(r"^plans cut short +-$", commands.emulator("status").out, re.MULTILINE)
    assert "policy easy" in commands.emulator("top", "--once").out
    settings = dict(line.split(maxsplit=1) for line in commands.emulator("config").out.splitlines())
    assert (settings["clock.speed"], settings["cluster.preset"]) == ("500", "rua-4way")
    assert commands.emulator("submit", "--begin=now+1hour", "-t", "60").err == ""
    assert commands.emulator("submit", "-n", "2", "-t", "1000000", "--mem=0", "-N", "1").code == 0
    rows = rows_when(commands, lambda rows: rows[0]["state"] == "RUNNING")
    assert [(row["job_id"], row["state"], row["reason"]) for row in rows] == [
        (6, "RUNNING", ""),
        (5, "PENDING", "BeginTime"),
    ]
    manager.terminate()
    said = ended(manager).err
    assert re.search(r": operator \w+ \(localhost:\d+:\d+:\d+\): drain nodes=2,3 reason=fans\n", said)
    assert re.search(r": operator \w+ \(localhost:\d+:\d+:\d+\): cancel jobs=3_1,3_3\n", said)
    assert ended(plugin).code == 0
    cut_short = [
        line.split(",") for line in (Path(commands.folder) / "run" / "allocations.csv").read_text().splitlines()
    ]
    assert [(row[0], row[3], row[4]) for row in cut_short[-1:]] == [("6", "", "0")]
    from_file = json.loads(commands.emulator("history", "--db", "c.db", "--json").out)["jobs"]
    assert [row["job_id"] for row in from_file] == [row["job_id"] for row in ended_jobs]


def test_commands_with_a_manager_with_keys(commands: Commands) -> None:
    for name in ("alice", "eve"):
        assert commands.emulator("keys", "new", "own", name).code == 0
    assert commands.emulator("keys", "manager", "ring").code == 0
    assert commands.emulator("keys", "allow", "ring", "user", "alice", "own/alice.key").code == 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    clock = ("--clock", "scaled", "--speed", "100", "--nodes", "4")
    manager = commands.start(
        "cosched_emulator", "serve", *clock, "--users", place, "--bind", "ipc://s", "--keys", "ring"
    )
    commands.environment |= {"COSCHED_MANAGER": place, "COSCHED_MANAGER_KEY": "ring/manager.key"}
    commands.environment["COSCHED_KEY"] = "own/alice.key_secret"
    assert commands.emulator("submit", "--parsable", "--timeout", "30") == Ran(0, "1\n", "")
    (row,) = json.loads(commands.emulator("queue", "--me", "--json").out)["jobs"]
    assert row["user"] == "alice"
    assert "only operators" in assert_one_line(commands.emulator("drain", "1"), 1)
    commands.environment["COSCHED_KEY"] = "own/eve.key_secret"
    told = assert_one_line(commands.emulator("queue", "--timeout", "3"), 3)
    assert told.endswith("does not accept this connection: expected other keys, or another endpoint")
    commands.environment["COSCHED_KEY"] = "own/eve.key"
    told = assert_one_line(commands.emulator("queue"), 2)
    assert told == "own/eve.key: expected a secret key, got a public one; the secret key is own/eve.key_secret"
    manager.terminate()
    said = ended(manager).err
    assert re.search(r"user alice \([\d.:]*\) was refused: only operators drain and resume nodes\n", said)
    assert re.search(r"key \S{40} was refused: it is no user's", said)
