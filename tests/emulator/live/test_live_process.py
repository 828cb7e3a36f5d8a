"""A live manager as a process: the disk under its database is full for a while; its status, metrics and log."""

from __future__ import annotations

import json
import re
import sqlite3
import urllib.request
from contextlib import closing
from typing import Any, Final

from tests.commands import Commands
from tests.emulator.submissions import submit_job
from tests.processes import ended, free_port, wait_until

from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import CancelJobs, ListJobs, Refused, ShowJobs, ShowStatus, SubmitJob, Target

SECOND_US: Final = 1_000_000
FULL: Final = "[[disk]]\nat_s = 2400\nfor_s = 1800\n"  # at the speed below from second 4 to second 7
WHOLE: Final = 8  # processes that fill the machine below
LIVE: Final = ("--nodes", "2", "--node", "rua-4way", "--clock", "scaled", "--speed", "600")


def submission(name: str, run_s: int, processes: int = 1) -> SubmitJob:
    return submit_job(processes, 3600 * SECOND_US, run_us=run_s * SECOND_US, name=name)


def accounting(user: ManagerConnection) -> dict[str, Any]:
    found: dict[str, Any] = user.result(ShowStatus())["accounting"]
    return found


def state(user: ManagerConnection, job_id: int) -> str:
    return str(user.result(ShowJobs((Target(job_id),)))["jobs"][0]["state"])


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
        assert "\ncosched_manager_plans_cut_short_seconds NaN\n" in told
        assert user.result(ShowStatus())["plans_cut_short_s"] is None
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


# Policy MODULE:CLASS of the tests below: EASY that cannot stand a job of one name, nor two others together.
SOUR: Final = """
from cosched_plugin.config import choose

class Sour:
    def __init__(self):
        self.easy = choose("easy").make()

    def decide(self, view):
        names = {job.name for job in view.queue}
        if "sour" in names or {"sweet", "salty"} <= names:
            raise ValueError("not this one")
        yield from self.easy.decide(view)
"""


class Tasters:
    """A live manager, and a scheduler with the policy above that sets jobs aside; either may be killed -9, and started again."""

    def __init__(self, commands: Commands) -> None:
        (commands.folder / "sour.py").write_text(SOUR)
        place, self.users = (f"ipc://{commands.folder}/{name}" for name in ("scheduler", "users"))
        self._commands = commands
        self._scheduler = ("cosched_plugin", "serve", "--connect", place, "--policy", "sour:Sour", "--set-aside")
        self._manager = ("serve", *LIVE, "--db", "accounts.db", "--bind", place, "--users", self.users)
        self.start()

    def start(self) -> None:
        self.manager = self._commands.start("cosched_emulator", *self._manager)
        self.plugin = self._commands.start(*self._scheduler)

    def kill_plugin(self) -> str:
        """Kill the scheduler, and start it again; return what it has said."""
        self.plugin.kill()
        said = self.plugin.communicate()[1]
        self.plugin = self._commands.start(*self._scheduler)
        return said

    def kill_manager(self) -> None:
        self.manager.kill()
        ended(self.manager)
        self.manager = self._commands.start("cosched_emulator", *self._manager)

    def user(self) -> ManagerConnection:
        return ManagerConnection(self.users, 20.0, awaits_manager=True)

    def aside(self, user: ManagerConnection) -> list[int]:
        """Return the pending jobs that are set aside, as their user reads it."""
        answer = user.result(ListJobs())
        rows = [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
        why = "the scheduler has set it aside: ValueError: not this one (sour.py:"
        return [row["job_id"] for row in rows if row["reason"].startswith(why)]

    def run(self, *jobs: SubmitJob) -> list[int]:
        """Submit jobs one after another, and return their ids."""
        with self.user() as user:
            return [user.result(job)["job_ids"][0] for job in jobs]

    def wait_for(self, *jobs: int) -> None:
        """Wait until jobs have completed."""
        asked = ShowJobs(tuple(map(Target, jobs)))
        with self.user() as user:
            wait_until(lambda: {job["state"] for job in user.result(asked)["jobs"]} == {"COMPLETED"})

    def wait_for_aside(self, *jobs: int) -> None:
        """Wait until these jobs are set aside, and no others."""
        with self.user() as user:
            wait_until(lambda: self.aside(user) == [*jobs])

    def cancel(self, job_id: int) -> None:
        with self.user() as user:
            user.result(CancelJobs((Target(job_id),)))

    def end(self) -> str:
        """End both in order, and return what the scheduler has said."""
        self.manager.terminate()
        ended(self.manager)
        out, err = self.plugin.communicate(timeout=20)
        assert (self.plugin.returncode, out) == (0, "")
        return err


def test_a_job_that_the_policy_does_not_honour_is_refused_and_ends_no_scheduler(commands: Commands) -> None:
    (commands.folder / "machine.toml").write_text('[[nodes]]\ncount = 2\npreset = "rua-4way"\nresources = "gpu:1"\n')
    place, users = (f"ipc://{commands.folder}/{name}" for name in ("scheduler", "users"))
    options = ("--machine", "machine.toml", "--clock", "scaled", "--speed", "600")
    manager = commands.start("cosched_emulator", "serve", *options, "--bind", place, "--users", users)
    asked = submit_job(1, 3600 * SECOND_US, resources=(("gpu", 1),))
    with ManagerConnection(users, 20.0) as user:
        refused = user.ask(asked)
        assert isinstance(refused, Refused)
        assert (refused.code, refused.path) == ("busy", "resources")
        plugin = commands.start(
            "cosched_plugin", "serve", "--connect", place, "--policy", "batch-contiguous", "--quiet"
        )
        wait_until(lambda: user.result(ShowStatus())["scheduler"] != "")
        refused = user.ask(asked)
        assert isinstance(refused, Refused)
        assert (refused.code, refused.text) == ("value", "batch-contiguous does not honour countable resources")
        (job_id,) = user.result(submission("plain", 10))["job_ids"]
        wait_until(lambda: state(user, job_id) == "COMPLETED")
    manager.terminate()
    assert ended(plugin).code == 0


def test_jobs_on_which_the_policy_fails_do_not_stop_the_others(commands: Commands) -> None:
    there = Tasters(commands)
    first, sour, second, sour_too, third = there.run(
        *[submission(name, 10) for name in ("before", "sour", "between", "sour", "after")]
    )
    there.wait_for(first, second, third)
    there.wait_for_aside(sour, sour_too)
    said = there.kill_plugin()
    assert all(f"job {job} is set aside" in said for job in (sour, sour_too))
    (later,) = there.run(submission("later", 10))
    there.wait_for(later)
    there.kill_manager()
    there.wait_for_aside(sour, sour_too)
    there.cancel(sour)
    there.wait_for(*there.run(submission("last", 10)))
    there.wait_for_aside(sour_too)
    assert there.end().count("set aside") == 2


def test_of_two_on_which_the_policy_fails_together_the_later_one_waits_until_it_is_tried_again(
    commands: Commands,
) -> None:
    there = Tasters(commands)
    full, sweet, salty = there.run(submission("full", 100_000, WHOLE), submission("sweet", 10), submission("salty", 10))
    there.wait_for_aside(salty)
    there.kill_plugin()
    there.kill_manager()
    (small,) = there.run(submission("small", 10))
    there.wait_for_aside(salty)
    there.cancel(full)
    there.wait_for(sweet, small)
    there.wait_for_aside(salty)
    there.kill_plugin()
    there.wait_for(salty)
    assert "set aside" not in there.end()
