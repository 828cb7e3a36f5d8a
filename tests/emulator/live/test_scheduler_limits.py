"""What a scheduler may cost its live manager: one that is silent, answers too much, or wakes without end."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any, Final

import pytest
from tests.commands import Commands
from tests.emulator.live.test_views import SECOND, Site, begin, submit
from tests.emulator.parts import node_class
from tests.emulator.submissions import submit_job
from tests.processes import Forked, ended, wait_until
from tests.runs import run_on

from cosched_emulator.live import live_server, outbox
from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import ShowStatus
from cosched_plugin.protocol.limits import MAX_ACTIONS

EXAMPLES: Final = Path(__file__).parents[3] / "docs" / "examples"
BAD: Final = """
import sys
sys.path.insert(0, sys.argv[2])
import foreign_scheduler as foreign

class Cluster(foreign.Cluster):
    now_us = 0
    def apply(self, event): pass
    def decide(self):
        if sys.argv[3] == "wakes":
            return [{"type": "wake_at", "at_us": self.now_us + 1}]
        start = {"type": "start_job", "runs": [[0, 1, 1, 1]], "estimate_us": 1, "limit_us": None}
        return [{**start, "job_id": 10**6 + number} for number in range(int(sys.argv[3]))]

class Conversation(foreign.Conversation):
    def hear(self, message):
        if message["type"] == "events" and self.cluster is not None:
            self.cluster.now_us = message["now_us"]
        return super().hear(message)

foreign.Cluster, foreign.Conversation = Cluster, Conversation
foreign.FEATURES += ("wakes",)
sys.exit(foreign.serve(sys.argv[1]))
"""


def status(user: ManagerConnection) -> dict[str, Any]:
    return dict(user.result(ShowStatus()))


def test_a_silent_scheduler_is_told_the_present_state_instead_of_all_that_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Events for a scheduler that does not answer are bounded; afterwards it is told of every job."""
    monkeypatch.setattr(outbox, "MOST_EVENTS", 10)
    site = Site(node_class(2, 4))
    site.do(submit(), 0)
    batch = site.live.batch()
    assert batch is not None  # and it is never answered
    for _ in range(4):
        site.do(submit(tasks=(0, 1, 2)), 1)
    assert site.live.outbox.overflows, site.live.outbox._events
    assert site.live.batch() is None
    welcome = site.live.inventory()
    assert [job.spec.id for job in welcome.pending] == list(range(1, 14))
    assert (site.live.batch() or (0, 0, ()))[2] == ()
    site.do(submit(), 2)
    site.live.answer(2 * SECOND, 2, ())
    assert len((site.live.batch() or (0, 0, ()))[2]) == 1


def test_a_scheduler_with_too_many_refused_actions_is_told_the_present_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST_REFUSALS", 3)
    site = Site(node_class(2, 4))
    site.do(submit(), 0)
    for number, (actions, too_many) in enumerate(((3, False), (4, True)), start=1):
        assert site.live.batch() is not None
        site.live.answer(number * SECOND, number, [begin(90 + each, run_on(0, 1, 1, 1)) for each in range(actions)])
        assert site.live.outbox.overflows is too_many
    assert site.live.manager.refused == 7


def started(commands: Commands, bad: str) -> tuple[Forked, str]:
    """Start a manager, and a scheduler that is bad in this way; return the manager, and where its users ask."""
    (commands.folder / "bad.py").write_text(BAD)
    place, users = (f"ipc://{commands.folder}/{name}" for name in ("scheduler", "users"))
    serve = ("serve", "--nodes", "2", "--clock", "real", "--bind", place, "--users", users)
    manager = commands.start("cosched_emulator", *serve)
    commands.start("bad", place, str(EXAMPLES), bad)
    return manager, users


@pytest.mark.parametrize("starts", [MAX_ACTIONS + 100, 3 * live_server.ANSWER_BYTES // 100])
def test_a_scheduler_that_starts_what_cannot_exist_is_dismissed(starts: int, commands: Commands) -> None:
    _, users = started(commands, str(starts))
    with ManagerConnection(users, 20.0) as user:
        wait_until(lambda: status(user)["errors"] > 0)
        assert status(user)["refused_actions"] == 0
        assert user.result(submit_job(1, SECOND))["job_ids"] == (1,)


def test_wakes_come_one_after_another_in_running_time(commands: Commands) -> None:
    """A scheduler that wants to be woken a microsecond later, after every batch, does not fill the journal."""
    _, users = started(commands, "wakes")
    with ManagerConnection(users, 20.0) as user:
        wait_until(lambda: status(user)["batch"] > 10)
        began_s, first = time.monotonic(), status(user)["batch"]
        time.sleep(0.5)
        passed = status(user)["batch"] - first
        assert 1 <= passed <= (time.monotonic() - began_s) / live_server.WAKES_S + 2


def test_a_queue_of_which_nothing_starts_is_told_once(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle nodes, pending jobs and a scheduler that answers: nothing but the queue's length said that none would ever start."""
    monkeypatch.setattr(live_server, "STUCK_S", 0.2)  # the manager is a fork of this process

    def told() -> list[str]:
        return [line for line in manager.written()[1].splitlines() if "starts none" in line]

    manager, users = started(commands, "0")
    with ManagerConnection(users, 20.0) as user:
        assert user.result(submit_job(1, SECOND, held=True))["job_ids"] == (1,)
        time.sleep(0.5)
        assert told() == []  # nothing to start
        assert user.result(submit_job(1, SECOND))["job_ids"] == (2,)
        wait_until(lambda: told() != [])
        time.sleep(0.5)
    (line,) = told()
    assert "warning: for 0.2 s nodes are idle and jobs are pending, and scheduler " in line


def test_jobs_that_only_page_are_told(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in virtual time ends there; a live manager went through quanta for ever, without a word."""
    monkeypatch.setattr(live_server, "STUCK_S", 0.3)
    monkeypatch.setattr(live_server, "IDLE_QUANTA", 100)
    (commands.folder / "paging.toml").write_text(
        "[cluster]\nnodes = 8\n[workload]\nlublin = 12\nrun_factor = 0.025\nmemory_mb = 60\n[time_sharing]\nmemory_mb = 100\n"
    )
    place, users = (f"ipc://{commands.folder}/{name}" for name in ("scheduler", "users"))
    clock = (
        "--clock",
        "scaled",
        "--speed",
        "5000",
    )  # more than a machine keeps up with: signals are heard nevertheless
    manager = commands.start("cosched_emulator", "serve", "paging.toml", *clock, "--bind", place, "--users", users)
    commands.start("cosched_plugin", "serve", "--connect", place, "--policy", "gang")
    with ManagerConnection(users, 20.0) as user:
        wait_until(lambda: status(user)["jobs"]["running"] > 1, 20)
    wait_until(lambda: "the running jobs have used no CPU time for at least 100 quanta" in "".join(manager.written()))
    manager.terminate()
    assert ended(manager).code == 128 + signal.SIGTERM
