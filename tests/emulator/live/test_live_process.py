"""A live manager as a process: the disk under its database is full for a while; its status, metrics and log."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import urllib.request
from contextlib import closing
from typing import Any, Final

from tests.commands import Commands
from tests.processes import ended, wait_until

from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import CancelJobs, ListJobs, Refused, ShowJobs, ShowStatus, SubmitJob, Target

SECOND_US: Final = 1_000_000
FULL: Final = "[[disk]]\nat_s = 2400\nfor_s = 1800\n"  # at the speed below from second 4 to second 7
LIVE: Final = ("--nodes", "2", "--node", "rua-4way", "--clock", "scaled", "--speed", "600")


def submission(name: str, run_s: int, processes: int = 1) -> SubmitJob:
    return SubmitJob(processes, 3600 * SECOND_US, run_us=run_s * SECOND_US, name=name)


def accounting(user: ManagerConnection) -> dict[str, Any]:
    found: dict[str, Any] = user.result(ShowStatus())["accounting"]
    return found


def state(user: ManagerConnection, job_id: int) -> str:
    return str(user.result(ShowJobs((Target(job_id),)))["jobs"][0]["state"])


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_full_disk_refuses_submissions_and_stops_no_job(commands: Commands) -> None:
    (commands.folder / "plan.toml").write_text(FULL)
    place, users = (f"ipc://{commands.folder}/{name}" for name in ("scheduler", "users"))
    address = f"127.0.0.1:{free_port()}"
    options = ("--metrics", address, "--log-json")
    files = ("--db", "accounts.db", "--faults", "plan.toml")
    manager = commands.start("cosched_emulator", "serve", *LIVE, *files, *options, "--bind", place, "--users", users)
    plugin = commands.start("cosched_plugin", "serve", "--connect", place, "--quiet")
    with ManagerConnection(users, 20.0) as user:
        assert user.result(submission("before", 2500, 4))["job_ids"] == (1,)
        assert accounting(user)["trouble"] == ""
        wait_until(lambda: state(user, 1) == "RUNNING")
        wait_until(lambda: bool(accounting(user)["trouble"]))
        refused = user.ask(submission("meanwhile", 10))
        assert isinstance(refused, Refused)
        assert refused.code == "accounting"
        assert "the manager cannot write to its database at present" in refused.text
        wait_until(lambda: not user.result(ListJobs())["rows"])  # the job has ended nevertheless
        waiting = accounting(user)
        assert waiting["backlog"] > 0
        assert waiting["trouble"] == "database or disk is full"
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            told = page.read().decode()
        assert re.search(r"^cosched_manager_uptime_seconds [\d.]+$", told, re.MULTILINE)
        assert "\ncosched_manager_plans_cut_short_microseconds -1\n" in told
        wait_until(lambda: accounting(user) == {"backlog": 0, "trouble": ""})
        assert user.result(submission("afterwards", 10))["job_ids"] == (2,)
        wait_until(lambda: state(user, 2) == "COMPLETED")
    manager.terminate()
    ran = ended(manager)
    assert ran.code == 143
    assert ended(plugin).code == 0
    events = [json.loads(line)["event"] for line in ran.err.splitlines()]
    assert events[0] == "serving"
    assert [event for event in events if event in ("fault", "accounting-waits", "accounting-goes-on")] == [
        "fault",
        "accounting-waits",
        "fault",
        "accounting-goes-on",
    ]
    assert "scheduler-welcomed" in events
    with closing(sqlite3.connect(commands.folder / "accounts.db")) as connection:
        jobs = connection.execute("SELECT name, state FROM jobs ORDER BY id").fetchall()
        kinds = connection.execute("SELECT kind FROM faults ORDER BY number").fetchall()
    assert jobs == [("before", "COMPLETED"), ("afterwards", "COMPLETED")]
    assert kinds == [("disk full",), ("disk has room",)]


# Policy MODULE:CLASS of the test below: EASY that cannot stand a job of one name.
SOUR: Final = """
from cosched_plugin.config import choose

class Sour:
    def __init__(self):
        self.easy = choose("easy").make()

    def decide(self, view):
        if any(job.name == "sour" for job in view.queue):
            raise ValueError("not this one")
        yield from self.easy.decide(view)
"""


def test_a_job_on_which_the_policy_fails_does_not_stop_the_others(commands: Commands) -> None:
    (commands.folder / "sour.py").write_text(SOUR)
    place, users = (f"ipc://{commands.folder}/{name}" for name in ("scheduler", "users"))
    manager = commands.start("cosched_emulator", "serve", *LIVE, "--bind", place, "--users", users)
    scheduler = ("-m", "cosched_plugin", "serve", "--connect", place, "--policy", "sour:Sour", "--set-aside")
    plugin = commands.start_python(*scheduler)
    with ManagerConnection(users, 20.0) as user:
        for name in ("before", "sour", "after"):
            user.result(submission(name, 10))
        wait_until(lambda: [state(user, job) for job in (1, 3)] == ["COMPLETED"] * 2)
        (job,) = user.result(ShowJobs((Target(2),)))["jobs"]
        assert job["reason"].startswith("the scheduler has set it aside: ValueError: not this one (sour.py:")
        plugin.kill()
        assert "job 2 is set aside" in plugin.communicate()[1]
        plugin = commands.start_python(*scheduler)
        user.result(submission("later", 10))
        wait_until(lambda: state(user, 4) == "COMPLETED")
        user.result(CancelJobs((Target(2),)))
        user.result(submission("last", 10))
        wait_until(lambda: state(user, 5) == "COMPLETED")
    manager.terminate()
    ended(manager)
    out, err = plugin.communicate(timeout=20)
    assert (plugin.returncode, out, err.count("set aside")) == (0, "", 1)
