"""The scheduler's process: it survives restarts of its manager, stands by, ends in time without an answer, reports its status."""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from tests.commands import Commands, commands_in
from tests.plugin.scheduler_process import SOON_S, Manager, start
from tests.plugin.stub_manager import job, welcome
from tests.processes import Process, Ran, ended, wait_until
from tests.runs import runs_on

from cosched_plugin import server
from cosched_plugin.common.curve import write_keys
from cosched_plugin.common.errors import ProtocolError
from cosched_plugin.config import choose
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.limits import MAGIC
from cosched_plugin.status_server import ask_status

BUSY = m.ErrorReport("busy", "", "scheduler 1-a is being served, not 2-b")
POLICIES = """
import time
from cosched_plugin.api import Decision, View
from cosched_plugin.common.errors import MachineError

class Computing:
    def __init__(self, seconds=1.5):
        self.seconds = seconds
    def decide(self, view):
        open("deciding", "w").close()
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            sum(range(1000))
        return iter(())

class Unable:
    def decide(self, view):
        raise MachineError("one node is not enough: \\ud800" + "x" * 100_000)

class Broken:
    def decide(self, view):
        raise RuntimeError("broken")
"""


@pytest.fixture
def commands() -> Iterator[Commands]:
    with tempfile.TemporaryDirectory(prefix="plugin-", dir="/tmp") as folder, commands_in(Path(folder)) as running:
        (Path(folder) / "some.py").write_text(POLICIES.replace("from cosched_plugin.api import Decision, View\n", ""))
        yield running


class Stub:
    """A manager in a process of its own."""

    def __init__(self, commands: Commands, endpoint: str, moment: str = "never") -> None:
        self.process = commands.start("tests.plugin.stub_manager", endpoint, moment)

    def wait_for(self, word: str) -> None:
        """Wait until the stub has reported this progress."""
        wait_until(lambda: word in self.process.written()[0].splitlines())

    def is_frozen(self) -> bool:
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rsplit(")", 1)[1].split()[0] == "T"


def in_time(child: Process, seconds: float) -> Ran:
    """Wait for the end of a process, which must come within ``seconds`` plus the delay of a busy machine."""
    return ended(child, seconds + SOON_S)


@pytest.fixture
def endpoint(commands: Commands) -> str:
    return f"ipc://{commands.folder}/socket"


# ---------------------------------------------------------------- a manager that is restarted


def test_a_killed_and_restarted_manager_is_greeted_again(commands: Commands, endpoint: str) -> None:
    stub = Stub(commands, endpoint)
    plugin = start(commands, endpoint)
    for _ in range(3):
        stub.wait_for("answered 5")
        stub.process.kill()
        stub.process.wait(SOON_S)
        time.sleep(0.3)
        stub = Stub(commands, endpoint)
    stub.wait_for("answered 5")
    stub.process.terminate()
    ran = in_time(plugin, 0)
    assert ran.code == 0, ran
    said = [line.removeprefix("cosched-plugin: ").replace(f" at {endpoint}", "") for line in ran.err.splitlines()]
    # On a busy machine a hello may be repeated before its answer arrives, and is answered twice.
    said = [line for line, before in zip(said, ["", *said], strict=False) if line != before]
    again = [
        "warning: lost the connection to the manager; saying hello until it is back",
        "resynced by the manager: 4 nodes, 0 running, 0 pending, batch 0",
    ]
    assert said == [
        "welcomed by the manager: 4 nodes, 0 running, 0 pending, batch 0",
        *3 * again,
        "the manager said bye: the stub closes",
    ]


def test_a_manager_that_has_forgotten_the_scheduler_is_greeted_again(commands: Commands, endpoint: str) -> None:
    forgotten = m.ErrorReport("state", "type", "say hello first")
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint, "--status", f"ipc://{commands.folder}/status")
        first = manager.serve()
        manager.say(m.Events(1, 1_000, (m.JobSubmitted(job(1)),)))
        assert manager.hear(m.Actions) == m.Actions(1, 1_000, (m.StartJob(1, runs_on((0, 4, 15, 4)), 1_000_000, None),))
        manager.say(forgotten, forgotten)  # in answer to two messages
        began = time.monotonic()
        assert manager.serve(seq=7)._replace(greeting=first.greeting) == first
        assert time.monotonic() - began < SOON_S
        # The scheduler forgets its state: the machine is free, and the batch numbers are the manager's.
        manager.say(m.Events(8, 9_000, (m.JobSubmitted(job(2)),)))
        assert manager.hear(m.Actions) == m.Actions(8, 9_000, (m.StartJob(2, runs_on((0, 4, 15, 4)), 1_000_000, None),))
        status = ask_status(f"ipc://{commands.folder}/status", SOON_S)
        assert (status["resyncs"], status["seq"], status["running_jobs"]) == (1, 8, 1)
        manager.say(m.Bye("done"))
    ran = in_time(plugin, 0)
    assert ran.code == 0
    assert "does not know us any more; saying hello again\ncosched-plugin: resynced by the manager" in ran.err


def test_greetings_of_a_manager_that_keeps_forgetting_are_limited(commands: Commands, endpoint: str) -> None:
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint, "--quiet")
        greetings = 0
        manager.hear(m.Hello)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            manager.say(welcome(0))
            manager.hear(m.Ready)
            manager.say(m.ErrorReport("state", "type", "say hello first"))
            manager.hear(m.Hello)
            greetings += 1
        assert 2 <= greetings <= 5
        plugin.terminate()
        assert in_time(plugin, 0).code == 143


def test_a_state_error_before_any_service_ends_the_scheduler(commands: Commands, endpoint: str) -> None:
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint)
        manager.hear(m.Hello)
        manager.say(m.ErrorReport("state", "type", "what is that"))
        ran = in_time(plugin, 0)
    assert (ran.code, ran.err) == (
        3,
        f"cosched-plugin: error: {endpoint}: the manager reports state: type: what is that\n",
    )


def test_a_manager_that_does_not_return_is_given_up(commands: Commands, endpoint: str) -> None:
    stub = Stub(commands, endpoint)
    plugin = start(commands, endpoint, "--wait", "1.5", "--quiet")
    stub.wait_for("answered 2")
    began = time.monotonic()
    stub.process.kill()
    ran = in_time(plugin, 1.5)
    assert time.monotonic() - began > 1.4
    assert ran.code == 3
    assert ran.err.splitlines() == [
        f"cosched-plugin: warning: lost the connection to the manager at {endpoint}; saying hello until it is back",
        f"cosched-plugin: error: the manager at {endpoint} has been gone for 1.5 s",
    ]


# ---------------------------------------------------------------- a manager that is frozen


@pytest.mark.parametrize(
    ("moment", "options", "match"),
    [
        ("bound", (), "no manager welcomed us at .* within 1 s$"),
        ("welcome", (), r"the manager at .* has been silent for \d\.\d s$"),
        ("events", (), r"the manager at .* has been silent for \d\.\d s$"),
        ("busy", ("--standby",), "no manager welcomed us at .* within 1 s: the manager reports busy: "),
    ],
)
def test_a_frozen_manager_is_given_up_in_time(
    moment: str, options: tuple[str, ...], match: str, commands: Commands, endpoint: str
) -> None:
    stub = Stub(commands, endpoint, moment)
    plugin = start(commands, endpoint, "--wait", "1", "--silence", "0.5", "--quiet", *options)
    wait_until(stub.is_frozen)
    ran = in_time(plugin, 1.5)
    assert ran.code == 3
    assert ran.err.count("\n") == 1
    assert re.search(match, ran.err)


def test_a_scheduler_that_is_not_welcomed_says_so_once(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "NOTICE_S", 0.1)
    said: list[str] = []
    with pytest.raises(ProtocolError, match=r"within 0\.5 s$"):
        server.serve(endpoint, choose("easy").scheduler, policy_name="easy", wait_s=0.5, silence_s=1, log=said.append)
    assert said == [f"warning: no manager has welcomed us at {endpoint} yet; waiting up to 0.5 s"]


def test_a_silent_manager_that_answers_pings_is_kept(commands: Commands, endpoint: str) -> None:
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint, "--silence", "1", "--quiet")
        manager.serve()
        for token in (1, 2, 3):
            assert manager.hear(m.Ping) == m.Ping(token)
            manager.say(m.Pong(token))
        manager.say(m.Bye(""))
        assert in_time(plugin, 0) == Ran(0, "", "")


@pytest.mark.parametrize("phase", ["standby", "served"])
def test_a_scheduler_continues_after_a_freeze(phase: str, commands: Commands, endpoint: str) -> None:
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint, "--wait", "2", "--silence", "2", "--quiet", "--standby")
        manager.hear(m.Hello)
        if phase == "standby":
            manager.say(BUSY)
            manager.hear(m.Hello)
        elif phase == "served":
            manager.say(welcome(0))
            manager.hear(m.Ready)
        plugin.send_signal(signal.SIGSTOP)
        time.sleep(3)
        manager.say(m.Events(1, 0, ()) if phase == "served" else welcome(0))
        plugin.send_signal(signal.SIGCONT)
        if phase != "served":
            while type(decode(manager.router.recv_multipart()[1:])) is not m.Ready:
                continue
            manager.say(m.Events(1, 0, ()))
        answer = decode(manager.router.recv_multipart()[1:])
        if type(answer) is m.Ping:  # it may notice the silence before it reads the batch
            answer = decode(manager.router.recv_multipart()[1:])
        assert answer == m.Actions(1, 0, ())
        manager.say(m.Bye(""))
        assert in_time(plugin, 0) == Ran(0, "", "")


# ---------------------------------------------------------------- standby


def test_a_standby_waits_serves_and_ends(commands: Commands, endpoint: str) -> None:
    status_endpoint = f"ipc://{commands.folder}/status"
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint, "--standby", "--wait", "2.5", "--status", status_endpoint)
        until = time.monotonic() + 4  # longer than it would wait for a manager
        while time.monotonic() < until:
            hello = manager.hear(m.Hello)
            assert isinstance(hello, m.Hello)
            assert hello.standby
            manager.say(BUSY)
        manager.hear(m.Hello)
        assert ask_status(status_endpoint, SOON_S)["state"] == "standby"
        manager.say(welcome(4))
        manager.hear(m.Ready)
        manager.say(m.Events(5, 6_000, (m.JobSubmitted(job(1)),)))
        assert isinstance(manager.hear(m.Actions), m.Actions)
        assert ask_status(status_endpoint, SOON_S)["state"] == "served"
        manager.say(m.ErrorReport("replaced", "", "scheduler 3-c has taken over"))
        for _ in range(4):
            manager.hear(m.Hello)
            manager.say(BUSY)
        manager.serve(seq=9)
        manager.say(m.ErrorReport("replaced", "", "scheduler 3-c has taken over"))
        manager.hear(m.Hello)
        manager.say(BUSY)
        began = time.monotonic()  # from now on no answer
        ran = in_time(plugin, 2.5)
        assert time.monotonic() - began > 2.3
    assert ran.code == 3
    said = [line.removeprefix("cosched-plugin: ") for line in ran.err.splitlines()]
    waiting = "waiting as a standby: the manager reports busy: scheduler 1-a is being served, not 2-b"
    replaced = "the manager reports replaced: scheduler 3-c has taken over; a standby again"
    nodes = f"by the manager at {endpoint}: 4 nodes, 0 running, 0 pending, batch"
    assert said[:-1] == [waiting, f"welcomed {nodes} 4", replaced, waiting, f"resynced {nodes} 9", replaced, waiting]
    assert said[-1].startswith(
        f"error: no manager welcomed us again at {endpoint} within 2.5 s: the manager reports busy"
    )


def test_a_plain_scheduler_that_is_replaced_ends_and_names_its_successor(commands: Commands, endpoint: str) -> None:
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint, "--quiet")
        hello = manager.serve()
        assert not hello.standby
        manager.say(m.ErrorReport("replaced", "", "scheduler 3-c has taken over"))
        ran = in_time(plugin, 0)
    assert ran == Ran(
        3, "", f"cosched-plugin: error: {endpoint}: the manager reports replaced: scheduler 3-c has taken over\n"
    )


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("frames", "code"),
    [([b"rubbish"], "frame"), ([MAGIC, os.urandom(4096)], None), (encode(m.Actions(1, 1, ())), "state")],
    ids=["one frame", "random", "not a manager's"],
)
@pytest.mark.parametrize("served", [False, True])
def test_garbage_from_the_manager_ends_it_without_a_traceback(
    frames: list[bytes], code: str | None, served: bool, commands: Commands, endpoint: str
) -> None:
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint, "--quiet")
        if served:
            manager.serve()
        else:
            manager.hear(m.Hello)
        manager.say_frames(frames)
        report = manager.hear(m.ErrorReport)
        ran = in_time(plugin, 0)
    assert isinstance(report, m.ErrorReport)
    assert code in (None, report.code)
    assert ran.code == 3
    assert ("expected the endpoint that serve has as --bind" in ran.err) == (code == "frame" and not served)
    assert re.fullmatch(r"cosched-plugin: error: .*\n", ran.err)  # one line


@pytest.mark.parametrize(
    ("policy", "code", "text", "exit_code"),
    [
        ("some:Unable", "unsupported", "one node is not enough: ?xxx", 2),
        ("some:Broken", "policy", "the policy failed: RuntimeError: broken", 4),
    ],
)
def test_errors_of_a_policy_are_reported_by_kind(
    policy: str, code: str, text: str, exit_code: int, commands: Commands, endpoint: str
) -> None:
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint, "--policy", policy, "--quiet")
        manager.serve()
        manager.say(m.Events(1, 0, ()))
        report = manager.hear(m.ErrorReport)
        ran = in_time(plugin, 0)
    assert isinstance(report, m.ErrorReport)
    assert report.code == code
    assert report.text.startswith(text)
    assert ran.code == exit_code
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("named", [False, True])
def test_a_manager_does_not_choose_what_is_imported(named: bool, commands: Commands, endpoint: str) -> None:
    """A scheduler imports a third-party contention model only if its own command line names it."""
    module = "open('imported', 'w').close()\nclass Flat:\n    slowdown = lambda *_: 1.5\n"
    (commands.folder / "marked.py").write_text(module)
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint, "--quiet", *(("--contention", "marked:Flat") if named else ()))
        manager.hear(m.Hello)
        state = welcome(0)
        manager.say(state._replace(belief=state.belief._replace(contention="marked:Flat")))
        if named:
            manager.hear(m.Ready)
            manager.say(m.Bye("enough"))
        else:
            report = manager.hear(m.ErrorReport)
            assert isinstance(report, m.ErrorReport)
            assert (report.code, report.path) == ("unsupported", "welcome.belief.contention")
        assert in_time(plugin, 0).code == (0 if named else 2)
    assert (commands.folder / "imported").exists() == named


# ---------------------------------------------------------------- signals


@pytest.mark.by_default(6)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("phase", ["greeting", "standby", "served", "computing", "gone"])
def test_signals_in_each_phase(
    phase: str, number: signal.Signals, code: int, commands: Commands, endpoint: str
) -> None:
    options = ("--standby",) if phase == "standby" else ()
    policy = ("--policy", "some:Computing", "--set", "seconds=1.0") if phase == "computing" else ()
    status_endpoint = f"ipc://{commands.folder}/status"
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint, "--status", status_endpoint, *options, *policy)
        manager.hear(m.Hello)
        if phase == "standby":
            manager.say(BUSY)
            wait_until(lambda: ask_status(status_endpoint, SOON_S)["state"] == "standby")
        elif phase != "greeting":
            manager.say(welcome(0))
            manager.hear(m.Ready)
        if phase == "computing":
            manager.say(m.Events(1, 0, ()))
            wait_until((commands.folder / "deciding").exists)
        if phase != "gone":
            manager.drop()
            plugin.send_signal(number)
            began = time.monotonic()
            if phase == "computing":
                assert isinstance(manager.hear(m.Actions), m.Actions)  # its decisions are not lost
            goodbye = manager.hear(m.Hello) if manager.router.poll(0) and phase in ("greeting", "standby") else None
            assert goodbye is None or isinstance(goodbye, m.Hello)
            assert manager.hear(m.Bye) == m.Bye(number.name)
            ran = in_time(plugin, 0)
            assert time.monotonic() - began < SOON_S
    if phase == "gone":
        wait_until(lambda: ask_status(status_endpoint, SOON_S)["state"] == "greeting")
        plugin.send_signal(number)
        ran = in_time(plugin, 0)
    assert ran.code == code
    assert ran.err.splitlines()[-1] == f"cosched-plugin: leaving on {number.name}"


# ---------------------------------------------------------------- status and log


def test_status_and_metrics_are_answered_while_it_computes(commands: Commands, endpoint: str) -> None:
    status_endpoint = f"ipc://{commands.folder}/status"
    with Manager(endpoint) as manager:
        plugin = start(
            commands, endpoint, "--policy", "some:Computing", "--status", status_endpoint, "--metrics", "127.0.0.1:0"
        )
        manager.hear(m.Hello)
        assert ask_status(status_endpoint, SOON_S)["state"] == "greeting"
        manager.say(welcome(2))
        manager.hear(m.Ready)
        refused = m.ActionRefused(2, 0, "stale", (1,))
        manager.say(m.Events(3, 4_000, (refused, m.JobSubmitted(job(1)), m.JobSubmitted(job(2)))))
        wait_until((commands.folder / "deciding").exists)
        status = ask_status(status_endpoint, SOON_S)
        assert not manager.router.poll(0)  # it still computes
        expected = {
            "state": "served", "policy": "some:Computing", "endpoint": endpoint, "seq": 3, "now_us": 4_000, "queue_length": 2,
            "running_jobs": 0, "batches": 0, "resyncs": 0, "errors": 0,
        }  # fmt: skip
        assert {key: status[key] for key in expected} == expected
        assert status.keys() >= server.GAUGES.keys()
        assert status["instance"].startswith(f"{plugin.pid}-")
        assert status["latency_s"] == {"p50": None, "p90": None, "p99": None, "max": None}
        assert 10 * 2**20 < status["resident_bytes"] < 2**30
        assert isinstance(manager.hear(m.Actions), m.Actions)
        wait_until(lambda: ask_status(status_endpoint, SOON_S)["refused"] == 1)
        status = ask_status(status_endpoint, SOON_S)
        assert status["batches"] == 1
        assert status["latency_s"]["p50"] == pytest.approx(1.5, abs=0.5)
        told = commands.plugin("status", status_endpoint, "--json")
        assert told.code == 0
        assert json.loads(told.out).keys() == status.keys()
        told = commands.plugin("status", status_endpoint)
        assert re.search(r"^state +served$", told.out, re.MULTILINE)
        assert re.search(r"^latency p99 +1\d{3}\.\d{3} ms$", told.out, re.MULTILINE)
        manager.say(m.Bye(""))
    ran = in_time(plugin, 0)
    assert ran.code == 0
    assert re.search(r"metrics at http://127\.0\.0\.1:\d+/metrics", ran.err)
    with pytest.raises(ProtocolError, match=r"no answer within 0\.3 s"):
        ask_status(status_endpoint, 0.3)


def test_every_line_with_log_json_is_json(commands: Commands, endpoint: str) -> None:
    with Manager(endpoint) as manager:
        plugin = start(commands, endpoint, "--log-json")
        manager.serve()
        manager.say(m.ErrorReport("replaced", "", 'by "3-c"\n\x1b[2J'))
        ran = in_time(plugin, 0)
    assert ran.code == 3
    first, last = [json.loads(line) for line in ran.err.splitlines()]
    assert (first["level"], first["event"], first["nodes"], first["endpoint"]) == ("info", "welcomed", 4, endpoint)
    assert (last["level"], last["event"], last["exit_code"]) == ("error", "failed", 3)
    assert "the manager reports replaced: by" in last["text"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])


def test_a_log_without_a_reader_does_not_block(commands: Commands, endpoint: str) -> None:
    with Manager(endpoint) as manager:
        plugin = commands.start_python("-m", "cosched_plugin", "serve", "--connect", endpoint)
        writer = os.open(f"/proc/{plugin.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            os.close(writer)
        for seq in range(3):
            manager.serve(seq)
            manager.say(m.ErrorReport("state", "type", "say hello first"))
        manager.serve()
        manager.say(m.Bye(""))
        assert plugin.wait(SOON_S) == 0


# ---------------------------------------------------------------- keys


def test_a_scheduler_connects_only_with_the_right_keys(commands: Commands) -> None:
    public, secret = write_keys(commands.folder / "keys", "us")
    manager_public, _ = write_keys(commands.folder / "keys", "manager_of_ours")
    other_public, _ = write_keys(commands.folder / "keys", "other")
    assert public.exists()
    pair = zmq.auth.load_certificate(commands.folder / "keys" / "manager_of_ours.key_secret")
    assert pair[1] is not None
    with Manager("tcp://127.0.0.1:*", (pair[0], pair[1])) as manager:
        keys = ("--key", str(secret), "--manager-key", str(manager_public))
        plugin = start(commands, manager.endpoint, *keys, "--quiet")
        manager.serve()
        manager.say(m.Bye(""))
        assert in_time(plugin, 0) == Ran(0, "", "")
        commands.environment |= {"COSCHED_KEY": str(secret), "COSCHED_MANAGER_KEY": str(manager_public)}
        plugin = start(commands, manager.endpoint, "--quiet")
        manager.serve()
        manager.say(m.Bye(""))
        assert in_time(plugin, 0) == Ran(0, "", "")
        commands.environment["COSCHED_MANAGER_KEY"] = str(other_public)
        ran = in_time(start(commands, manager.endpoint, "--quiet", "--wait", "1"), 1)
        assert ran.code == 3
        assert not manager.router.poll(0)
        assert "within 1 s" in ran.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--key", "k"), "--key and --manager-key: expected both or none"),
        (("--manager-key", "k"), "--key and --manager-key: expected both or none"),
        (("--key", "k", "--manager-key", "p"), "p: "),
    ],
)
def test_missing_keys_are_an_error(arguments: tuple[str, ...], text: str, commands: Commands) -> None:
    ran = commands.plugin("serve", "--connect", "tcp://192.0.2.1:5000", *arguments)
    assert ran.code == 2
    assert ran.err.startswith(f"cosched-plugin: error: {text}")
    assert ran.err.count("\n") == 1
