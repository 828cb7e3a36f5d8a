"""A process that is stopped (SIGSTOP) in any state of the conversation: the others continue, or end in time with a reason.

``tests/plugin/test_plugin_server.py`` tests a scheduler whose manager freezes, state by state.
"""

from __future__ import annotations

import json
import signal
import time
from typing import Any, Final

import pytest
import zmq
from tests.commands import Commands, assert_one_line
from tests.emulator.submissions import submit_job
from tests.processes import Forked, ended, wait_until
from tests.runs import runs_on

from cosched_emulator.users import requests
from cosched_emulator.users.client import AGAIN_S, TEMPORARY, ManagerConnection
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode

SECOND_US: Final = 1_000_000
SOON_S: Final = 10.0  # the longest delay on a busy machine of what must happen at once
SPEED: Final = 200  # emulated seconds a second
PROMPT_S: Final = 5.0  # for an answer to a user, on a busy machine
STATES: Final = ("start", "greeted", "welcomed", "ready", "open", "closed")
SLOW_POLICY: Final = """
import time

class Slow:
    \"\"\"Decides as plain backfilling does, after a while in which it computes.\"\"\"
    def __init__(self, seconds=5.0):
        from cosched_plugin.config import choose
        self.seconds = seconds
        self.inner = choose("easy").make()
    def decide(self, view):
        open("deciding", "a").write("x")
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            sum(range(1_000))
        yield from self.inner.decide(view)
"""


class Scheduler:
    """A scheduler that reaches a given state, and then falls silent."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self.dealer = self._context.socket(zmq.DEALER)
        self.dealer.linger = 500
        self.dealer.rcvtimeo = round(SOON_S * 1000)
        self.dealer.connect(endpoint)

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.dealer.close()
        self._context.term()

    def say(self, message: m.Message) -> None:
        self.dealer.send_multipart(encode(message))

    def hear(self, kind: type[m.Message]) -> Any:
        """Return the next message of this kind, and ignore others."""
        while True:
            message = decode(self.dealer.recv_multipart())
            if type(message) is kind:
                return message

    def hello(self) -> m.Welcome:
        self.say(m.Hello((1,), m.FEATURES, f"stub-{id(self)}", "easy", False, 1))
        welcome: m.Welcome = self.hear(m.Welcome)
        return welcome

    def ready(self) -> m.Welcome:
        welcome = self.hello()
        self.say(m.Ready(welcome.seq, welcome.greeting))
        return welcome

    def reply(self, *actions: m.Action) -> m.Events:
        """Answer the next batch."""
        batch: m.Events = self.hear(m.Events)
        self.say(m.Actions(batch.seq, batch.now_us, actions, batch.greeting))
        return batch

    def come_to(self, state: str) -> None:
        """Reach ``state``, from the manager's view, and stop."""
        match state:
            case "start":
                self.dealer.send_multipart([b"cosched/1"])  # the protocol's name, but no hello
            case "greeted":
                self.say(m.Hello((1,), m.FEATURES, "stub", "easy", False, 1))  # and reads no answer
            case "welcomed":
                self.hello()
            case "ready":
                self.ready()
                self.reply()
            case "open":
                self.ready()
                self.hear(m.Events)
            case "closed":
                self.ready()
                self.hear(m.Events)
                self.say(m.Bye("and stops"))


def scheduler_endpoint(commands: Commands) -> str:
    return f"ipc://{commands.folder}/scheduler"


def users_endpoint(commands: Commands) -> str:
    return f"ipc://{commands.folder}/users"


def live_manager(commands: Commands, *more: str) -> Forked:
    arguments = (
        "--nodes",
        "4",
        "--node",
        "rua-4way",
        "--clock",
        "scaled",
        "--speed",
        f"{SPEED}",
        "--bind",
        scheduler_endpoint(commands),
    )
    return commands.start(
        "cosched_emulator", "serve", *arguments, "--users", users_endpoint(commands), "--check", *more
    )


class User:
    """A user who sends requests, and measures the time."""

    def __init__(self, commands: Commands) -> None:
        self.connection = ManagerConnection(users_endpoint(commands), SOON_S)
        self.ask(requests.ShowStatus())
        self.slowest_s = 0.0  # without the first answer, which waits for the manager's start

    def __enter__(self) -> User:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def ask(self, request: requests.Request) -> dict[str, Any]:
        """Ask, and again where this user's limit refuses it: on a slow machine the work for all its clients reaches that limit."""
        until = time.monotonic() + SOON_S
        while True:
            began_s = time.monotonic()
            answer = self.connection.ask(request)
            self.slowest_s = max(getattr(self, "slowest_s", 0.0), time.monotonic() - began_s)
            if isinstance(answer, requests.Done):
                return dict(answer.result)
            assert answer.code in TEMPORARY, answer
            assert time.monotonic() < until
            time.sleep(AGAIN_S)  # the connection would do so, within the time that is measured

    def submit(self, processes: int, run_s: float, limit_s: float | None = None) -> int:
        limit_us = None if limit_s is None else round(limit_s * SECOND_US)
        wish = submit_job(processes, round((limit_s or run_s) * SECOND_US), limit_us, round(run_s * SECOND_US))
        (job_id,) = self.ask(wish)["job_ids"]
        assert isinstance(job_id, int)
        return job_id

    def state(self, job_id: int) -> str:
        (job,) = self.ask(requests.ShowJobs((requests.Target(job_id),)))["jobs"]
        return str(job["state"])

    def wait_for(self, job_id: int, state: str) -> None:
        wait_until(lambda: self.state(job_id) == state)

    def late_s(self, job_id: int, state: str) -> float:
        """Wait for a job's end and return the delay until that is reported, in real seconds."""
        self.wait_for(job_id, state)
        now_s = self.ask(requests.ShowStatus())["now_s"]
        (job,) = self.ask(requests.ShowJobs((requests.Target(job_id),)))["jobs"]
        return float(now_s - job["end_s"]) / SPEED

    def look_at_everything(self) -> None:
        for question in (
            requests.ListJobs(),
            requests.ListNodes(),
            requests.ListHistory(),
            requests.ShowStatus(),
            requests.ShowOverview(),
        ):
            self.ask(question)

    def do_everything(self) -> None:
        """Submit, cancel, drain and query: everything that the manager does without its scheduler."""
        waiting = self.submit(1, 1_000)
        self.look_at_everything()
        assert self.ask(requests.CancelJobs((requests.Target(waiting),)))["changed"] == (waiting,)
        assert self.ask(requests.DrainNodes((3,), "looked at"))["changed"] == (3,)
        assert self.ask(requests.ResumeNodes((3,)))["changed"] == (3,)
        self.wait_for(waiting, "CANCELLED")


# ---------------------------------------------------------------- the scheduler stops


@pytest.mark.parametrize("state", STATES)
def test_a_virtual_run_gives_up_on_a_frozen_scheduler(state: str, commands: Commands) -> None:
    scenario = commands.folder / "scenario.toml"
    scenario.write_text("[cluster]\nnodes = 4\n[workload]\nlublin = 5\n[clock]\ndeadline_s = 0.5\nwait_s = 0.5\n")
    manager = commands.start(
        "cosched_emulator", "serve", str(scenario), "--bind", scheduler_endpoint(commands), "--db", "run.db"
    )
    with Scheduler(scheduler_endpoint(commands)) as scheduler:
        scheduler.come_to(state)
        ran = ended(manager, 2 + SOON_S)
    assert ran.code == 3, ran
    assert "Traceback" not in ran.err
    assert ran.err.splitlines()[-1].startswith("cosched-emulator: error: ")
    # The run resumes from the stored answers, with a scheduler that does not freeze.
    manager = commands.start(
        "cosched_emulator", "serve", str(scenario), "--bind", scheduler_endpoint(commands), "--db", "run.db", "--json"
    )
    plugin = commands.start("cosched_plugin", "serve", "--connect", scheduler_endpoint(commands), "--quiet")
    again = ended(manager)
    assert again.code == 0, again
    assert json.loads(again.out)["states"]["COMPLETED"] == 5
    assert ended(plugin).code == 0


@pytest.mark.parametrize("state", STATES)
def test_a_live_manager_continues_without_its_scheduler(state: str, commands: Commands) -> None:
    manager = live_manager(commands)
    with User(commands) as user:
        jobs = user.submit(2, 100), user.submit(2, 1_000, 150), user.submit(2, 1_000)
        with Scheduler(scheduler_endpoint(commands)) as first:  # starts the jobs, and leaves
            first.ready()
            first.reply(*[started(job_id, node) for node, job_id in enumerate(jobs)])
            for job_id in jobs:
                user.wait_for(job_id, "RUNNING")
            first.say(m.Bye("for another one"))
        with Scheduler(scheduler_endpoint(commands)) as frozen:
            frozen.come_to(state)
            user.slowest_s = 0.0
            user.do_everything()
            assert user.ask(requests.CancelJobs((requests.Target(jobs[2]),)))["changed"] == (jobs[2],)
            user.wait_for(jobs[0], "COMPLETED")
            user.wait_for(jobs[1], "TIMEOUT")
            user.wait_for(jobs[2], "CANCELLED")
            assert user.slowest_s < PROMPT_S
        # Another scheduler may be served in its place.
        manager.send_signal(signal.SIGTERM)
        assert ended(manager).code == 143


def started(job_id: int, node: int) -> m.StartJob:
    """Start a job of two processes on a node, with the limits that the test gives them."""
    limit_us = 150 * SECOND_US if job_id == 2 else None
    return m.StartJob(job_id, runs_on((node, 1, 3, 2)), 100 * SECOND_US, limit_us)


def test_a_real_scheduler_may_be_stopped_and_continued(commands: Commands) -> None:
    manager = live_manager(commands)
    plugin = commands.start("cosched_plugin", "serve", "--connect", scheduler_endpoint(commands), "--quiet")
    with User(commands) as user:
        short, killed, long = user.submit(2, 100), user.submit(2, 1_000, 150), user.submit(2, 10_000)
        for job_id in (short, killed, long):
            user.wait_for(job_id, "RUNNING")
        plugin.send_signal(signal.SIGSTOP)
        user.slowest_s = 0.0
        waiting = user.submit(1, 100)
        user.do_everything()
        user.ask(requests.CancelJobs((requests.Target(long),)))
        user.wait_for(short, "COMPLETED")
        user.wait_for(killed, "TIMEOUT")
        assert user.state(waiting) == "PENDING"
        assert user.slowest_s < PROMPT_S
        plugin.send_signal(signal.SIGCONT)
        user.wait_for(waiting, "COMPLETED")
        manager.send_signal(signal.SIGTERM)
        assert ended(manager).code == 143
        assert ended(plugin).code == 0


def test_a_slow_scheduler_delays_no_user(commands: Commands) -> None:
    (commands.folder / "slow.py").write_text(SLOW_POLICY)
    manager = live_manager(commands)
    with User(commands) as user:
        jobs = user.submit(2, 100), user.submit(2, 1_000, 150), user.submit(2, 1_000)
        with Scheduler(scheduler_endpoint(commands)) as first:
            first.ready()
            first.reply(*[started(job_id, node) for node, job_id in enumerate(jobs)])
            user.wait_for(jobs[2], "RUNNING")
            first.say(m.Bye("for a slower one"))
        commands.start("cosched_plugin", "serve", "--connect", scheduler_endpoint(commands), "--policy", "slow:Slow")
        wait_until((commands.folder / "deciding").exists)
        user.slowest_s = 0.0
        user.do_everything()
        user.ask(requests.CancelJobs((requests.Target(jobs[2]),)))
        for number, state in ((2, "CANCELLED"), (0, "COMPLETED"), (1, "TIMEOUT")):
            assert user.late_s(jobs[number], state) < PROMPT_S
        assert (commands.folder / "deciding").read_text() == "x", "it has decided meanwhile, and has stalled nothing"
        assert user.slowest_s < PROMPT_S
        manager.send_signal(signal.SIGTERM)
        assert ended(manager).code == 143


# ---------------------------------------------------------------- the manager stops


def test_clients_of_a_frozen_manager_time_out_and_its_scheduler_stays(commands: Commands) -> None:
    manager = live_manager(commands)
    where = ("--connect", scheduler_endpoint(commands))
    patient = commands.start("cosched_plugin", "serve", *where, "--quiet", "--silence", "30")
    with User(commands) as user:
        job_id = user.submit(2, 1_000)
        user.wait_for(job_id, "RUNNING")
        manager.send_signal(signal.SIGSTOP)
        clients = [
            commands.start("cosched_emulator", *command, "--manager", users_endpoint(commands), "--timeout", "1")
            for command in (("queue",), ("status",), ("submit", "-n", "1"), ("cancel", str(job_id)), ("history",))
        ]
        began_s = time.monotonic()
        for client in clients:
            why = assert_one_line(ended(client, SOON_S), 3)
            assert "did not answer within 1 s" in why or "no manager there" in why
        assert time.monotonic() - began_s < SOON_S
        manager.send_signal(signal.SIGCONT)
        user.wait_for(job_id, "RUNNING")
        user.wait_for(user.submit(1, 10), "COMPLETED")  # the scheduler has stayed
        assert patient.poll() is None


# ---------------------------------------------------------------- a user's client stops


def test_a_client_that_reads_no_answers_delays_no_user(commands: Commands) -> None:
    live_manager(commands)
    with User(commands) as user:
        for _ in range(3):
            user.ask(submit_job(1, SECOND_US, tasks=tuple(range(1_000)), held=True))
        user.slowest_s = 0.0
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        with context, context.socket(zmq.DEALER) as deaf:  # asks for large answers, and reads none
            deaf.linger = 0
            deaf.rcvhwm = 1
            deaf.connect(users_endpoint(commands))
            for ticket in range(10):
                deaf.send_multipart(requests.encode_request(requests.ListJobs(), ticket))
            client = commands.start("cosched_emulator", "top", "--manager", users_endpoint(commands))
            time.sleep(0.5)
            client.send_signal(signal.SIGSTOP)
            until = time.monotonic() + 2
            while time.monotonic() < until:
                user.ask(requests.ShowStatus())
                time.sleep(0.05)
        assert user.slowest_s < PROMPT_S


def test_half_a_request_delays_no_user(commands: Commands) -> None:
    live_manager(commands)
    with User(commands) as user:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        with context, context.socket(zmq.DEALER) as half:
            half.linger = 0
            half.connect(users_endpoint(commands))
            half.send(requests.MAGIC, zmq.SNDMORE)  # the rest of the message never comes
            user.do_everything()
        assert user.slowest_s < PROMPT_S
