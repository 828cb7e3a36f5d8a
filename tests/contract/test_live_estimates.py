"""Start estimates of a live manager, with real processes: told, asked for, and made anew when their process dies or hangs."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.commands import Commands
from tests.emulator.submissions import submit_job
from tests.processes import Forked, ended, estimating_worker, wait_until

import cosched_emulator
from cosched_emulator.couplings.estimating import EstimatingProcess
from cosched_emulator.run.build import build_manager
from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import (
    CancelJobs,
    EstimateStart,
    ListJobs,
    ListStarts,
    ShowStatus,
    SubmitJob,
    Target,
)
from cosched_plugin.protocol.codec import encode
from cosched_plugin.protocol.vocabulary import JOB

SECOND_US: Final = 1_000_000
HOUR_S: Final = 3600
SERVE: Final = ("--nodes", "8", "--clock", "scaled", "--speed", "60", "--estimate-starts")
PAIRS: Final = """
[cluster]
preset = "lomarc-ht"
nodes = 8
[workload]
lublin = 80
gap_factor = 0.02
characteristics = "M1"
[truth]
contention = "lomarc"
"""
POLICY_OF_OTHERS: Final = """
class Odd:
    def __init__(self, fails=False):
        self.fails = fails

    def decide(self, view):
        if self.fails and len(view.queue) > 1:
            raise ValueError("odd")
        return iter(())
"""


def submission(run_s: int, processes: int = 8) -> SubmitJob:
    return submit_job(processes, HOUR_S * SECOND_US, HOUR_S * SECOND_US, run_us=run_s * SECOND_US)


class Site:
    """A manager with estimates, and its scheduler."""

    def __init__(self, commands: Commands, *options: str, policy: tuple[str, ...] = ("easy",)) -> None:
        self.commands, self.options = commands, options
        self.place, self.users = (f"ipc://{commands.folder}/{name}" for name in ("scheduler", "users"))
        self.manager = self.serve()
        self.plugin = commands.start("cosched_plugin", "serve", "--connect", self.place, "--quiet", "--policy", *policy)

    def serve(self) -> Forked:
        return self.commands.start(
            "cosched_emulator", "serve", *SERVE, *self.options, "--bind", self.place, "--users", self.users
        )

    def worker(self) -> int:
        """Return the number of the process that makes estimates."""
        return estimating_worker(self.manager.pid)

    def has_draws(self, user: ManagerConnection, jobs: int) -> Callable[[], bool]:
        """Return whether the estimates of so many jobs rest on draws."""

        def check() -> bool:
            self.worker()
            known = [row for row in rows(user) if row["start_s"] is not None]
            return len(known) == jobs and (told(user)["draws"] or 0) == 10

        return check


def told(user: ManagerConnection) -> dict[str, Any]:
    return dict(user.result(ListStarts()))


def rows(user: ManagerConnection) -> list[dict[str, Any]]:
    answer = told(user)
    return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]


def test_a_user_is_told_when_and_why(commands: Commands) -> None:
    site = Site(commands)
    with ManagerConnection(site.users, 20.0) as user:
        for _ in range(3):
            user.result(submission(HOUR_S))
        wait_until(site.has_draws(user, 2))
        first, second = rows(user)
        begun_s = user.result(ListJobs())["rows"][0][8]
        assert first["start_s"] == pytest.approx(begun_s + HOUR_S, abs=1)
        assert second["start_s"] == pytest.approx(begun_s + 2 * HOUR_S, abs=1)
        assert first["low_s"] is None  # two jobs say nothing of how far estimates are off
        assert (first["node_list"], first["bound"]) == ("[0-7]", False)
        assert first["reason"].startswith("needs 8 threads, and 0 of 8 are free; the next is free at 1:0")
        extra = user.result(EstimateStart(submission(60, 1)))
        assert extra["start_s"] == pytest.approx(begun_s + 3 * HOUR_S, abs=1)
        assert len(user.result(ListJobs())["rows"]) == 3  # and nothing was submitted
    asked = {"COSCHED_MANAGER": site.users}
    commands.environment |= asked
    listed = json.loads(commands.emulator("queue", "--start", "--json").out)
    assert [row["job_id"] for row in listed["jobs"]] == [2, 3]
    assert listed["draws"] == 10
    why = commands.emulator("why", "1", "3").out.splitlines()
    assert why[0] == "job 1: RUNNING"
    assert why[1].startswith("job 3: needs 8 threads")
    assert "it starts at about 2:0" in why[1]
    assert json.loads(commands.emulator("why", "3", "--json").out)["jobs"][0]["reason"] == second["reason"]
    own = commands.emulator("why").out.splitlines()
    assert (own[0][:6], own[1]) == ("job 2:", why[1])  # its own that are pending
    test_only = commands.emulator("submit", "-n", "1", "-t", "60", "--test-only")
    assert test_only.out.startswith("It would start at about 3:0")
    assert "off" not in commands.emulator("submit", "-n", "9", "-t", "60", "--test-only").out
    site.manager.terminate()
    assert ended(site.manager).code == 143


def test_a_killed_process_comes_back_and_no_decision_waits_for_it(commands: Commands) -> None:
    site = Site(commands)
    with ManagerConnection(site.users, 20.0) as user:
        for run_s in (HOUR_S, 60, 60):
            user.result(submission(run_s))
        wait_until(site.has_draws(user, 2))
        killed = site.worker()
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: "has ended with code -9" in told(user)["trouble"] or site.worker() not in (0, killed))
        user.result(submission(60))
        wait_until(site.has_draws(user, 3))
        assert site.worker() not in (0, killed)
        os.kill(site.worker(), signal.SIGSTOP)  # it hangs: jobs start nevertheless
        user.result(CancelJobs((Target(1),)))
        wait_until(lambda: not user.result(ListJobs())["rows"], 40)
    site.manager.terminate()
    assert ended(site.manager).code == 143


def test_a_process_that_hangs_is_replaced() -> None:
    started: list[float] = []
    process = EstimatingProcess((), lambda: started.append(time.monotonic()), silence_s=5.0)

    def is_ready() -> bool:
        estimating_worker(os.getpid())
        return any(message["kind"] == "ready" for message in process.receive())

    try:
        wait_until(is_ready)
        hanging = process.pid
        assert hanging is not None
        os.kill(hanging, signal.SIGSTOP)
        wait_until(lambda: not process.receive() and "has said nothing for" in process.trouble)
        wait_until(is_ready)
        assert process.pid not in (None, hanging)
        assert len(started) == 2
        assert not Path(f"/proc/{hanging}").exists()
    finally:
        process.close()


@pytest.mark.parametrize(
    ("allowed", "settings", "trouble"),
    [
        ((), [], "odd_policy:Odd comes from outside; serve imports it with --copy-policy odd_policy:Odd"),
        (("odd_policy:Odd",), ["fails=true"], "a copy of the policy fails: PolicyError: "),
    ],
)
def test_a_policy_of_others_that_cannot_be_copied_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: tuple[str, ...], settings: list[str], trouble: str
) -> None:
    """Whoever asks is told; else the estimates would be those of another policy, or none without a reason."""
    (tmp_path / "odd_policy.py").write_text(POLICY_OF_OTHERS)
    monkeypatch.chdir(tmp_path)
    prepared = cosched_emulator.prepare({"cluster": {"nodes": 4}, "workload": {"lublin": 3}})
    manager = build_manager(prepared)
    for job in prepared.workload.jobs:
        manager.pending[job.spec.id] = manager.accept(job._replace(spec=job.spec._replace(submit_us=0)))
    arguments = ["odd_policy:Odd", *[part for text in settings for part in ("--set", text)]]
    said: list[str] = []

    def tells() -> bool:
        estimating_worker(os.getpid())
        for message in process.receive():
            if message["kind"] == "ready" and not said:
                jobs = [JOB.write(job.job.spec) for job in manager.pending.values()]
                process.send(kind="jobs", rows=jobs)
                state = {
                    "welcome": encode(manager.inventory(pending=False))[1],
                    "pending": [*manager.pending],
                    "held": [],
                }
                process.send(kind="state", arguments=arguments, **state)
            elif message["kind"] == "trouble":
                said.append(message["text"])
        return bool(said)

    process = EstimatingProcess(allowed, lambda: None)
    try:
        wait_until(tells)
    finally:
        process.close()
    assert trouble in said[0]


def test_a_manager_that_starts_again_knows_the_past_runs_from_its_accounts(commands: Commands) -> None:
    """Jobs of this user take a sixth of what they ask for: else the first estimate after a restart would be six times as far off."""
    site = Site(commands, "--db", "accounts.db")
    with ManagerConnection(site.users, 20.0) as user:
        for _ in range(3):
            user.result(submission(600, 1))
        wait_until(lambda: not user.result(ListJobs())["rows"])
        site.manager.kill()
        site.manager.wait()
        site.manager = site.serve()
        for _ in range(2):
            user.result(submission(600))
        wait_until(site.has_draws(user, 1))
        begun_s = user.result(ListJobs())["rows"][0][8]
        assert rows(user)[0]["start_s"] == pytest.approx(begun_s + 600, abs=60)
    site.manager.terminate()
    assert ended(site.manager).code == 143


def test_a_site_sees_sharing_waits_and_errors(commands: Commands) -> None:
    """`top` and the metrics tell the same: what sharing costs, what jobs wait for, how far estimates were off."""
    (commands.folder / "pairs.toml").write_text(PAIRS)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    place, users = (f"ipc://{commands.folder}/{name}" for name in ("scheduler", "users"))
    manager = commands.start(
        "cosched_emulator", "serve", "pairs.toml", "--clock", "scaled", "--speed", "200", "--estimate-starts",
        "--bind", place, "--users", users, "--metrics", address,
    )  # fmt: skip
    commands.start("cosched_plugin", "serve", "--connect", place, "--quiet", "--policy", "lomarc-r")
    with ManagerConnection(users, 20.0) as user:

        def sees_all() -> bool:
            estimating_worker(manager.pid)
            status = user.result(ShowStatus())
            known = status.get("shared_slowdown") is not None and status["estimates_scored"] > 0
            return known and status["waits_nodes"] + status["waits_reservation"] > 0

        wait_until(sees_all, 60)
        status = user.result(ShowStatus())
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        told = dict(line.removeprefix("cosched_manager_").rsplit(" ", 1) for line in lines if line[0] != "#")
        assert float(told["shared_slowdown"]) > 1
        assert status["shared_jobs"] > 0
        waits = {key: count for key, count in status.items() if key.startswith("waits_")}
        assert sum(waits.values()) > 0
        assert {key for key in told if key.startswith("waits_")} == {*waits}
        assert float(told["start_estimates_scored"]) > 0
    top = commands.emulator("top", "--once", "--manager", users).out
    assert re.search(r"shared, by \d+ jobs, \d\.\d\d times as long as alone", top)
    assert re.search(r"^waits    .*; start estimates off by [\d:]+ in the median", top, re.MULTILINE)
    manager.terminate()
    assert ended(manager).code == 143


def test_a_manager_without_estimates_says_how_to_get_them(commands: Commands) -> None:
    place, users = (f"ipc://{commands.folder}/{name}" for name in ("scheduler", "users"))
    manager = commands.start(
        "cosched_emulator", "serve", "--nodes", "2", "--clock", "real", "--bind", place, "--users", users
    )
    ran = commands.emulator("queue", "--start", "--manager", users, "--timeout", "20")
    assert ran.code == 1
    assert "serve it with --estimate-starts" in ran.err
    manager.terminate()
    assert ended(manager).code == 143
