"""`cosched-plugin batsim` as a process: it serves one simulation, and no peer makes it hang or crash."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from tests.commands import Commands, assert_one_line
from tests.plugin.batsim.test_adapter import HOSTS, begins, completed, message, submitted
from tests.processes import Forked, ended

SOON_MS = 10_000
NAME = "cosched-plugin"


@contextmanager
def batsim_at(endpoint: str) -> Iterator[zmq.Socket[bytes]]:
    """Yield a socket as Batsim has it."""
    context = zmq.Context()
    socket = context.socket(zmq.REQ)
    socket.linger = 0
    socket.rcvtimeo = socket.sndtimeo = SOON_MS
    socket.reconnect_ivl = 1  # ms, so that a lost connection is there again before anybody looks
    socket.connect(endpoint)
    try:
        yield socket
    finally:
        socket.close()
        context.term()


def asked(socket: zmq.Socket[bytes], frame: bytes) -> bytes:
    socket.send(frame)
    return socket.recv()


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/b.sock"


def start(commands: Commands, endpoint: str, *arguments: str) -> Forked:
    return commands.start("cosched_plugin", "batsim", "--bind", endpoint, "--quiet", *arguments)


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (b'{"now":1,"events":[{"times', "expected a JSON text"),
        (message(1, ("JOB_COMPLETED", {"job_id": "w0!1", "job_state": "COMPLETED_KILLED"})), "it does not run"),
    ],
)
def test_a_wrong_message_ends_both_sides(commands: Commands, endpoint: str, frame: bytes, told: str) -> None:
    process = start(commands, endpoint)
    with batsim_at(endpoint) as socket:
        asked(socket, message(0, ("SIMULATION_BEGINS", begins(HOSTS))))
        last = asked(socket, frame)
    assert last.startswith(b"cosched-plugin: ")  # Batsim aborts at what is no JSON, with this text
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(last)
    assert told in assert_one_line(ended(process), 3, NAME)


def test_a_simulation_that_begins_wrong_is_not_waited_for(commands: Commands, endpoint: str) -> None:
    """Batsim ends at the answer, so no other message will come."""
    process = start(commands, endpoint, "--wait", "600")
    with batsim_at(endpoint) as socket:
        last = asked(socket, message(0, ("SIMULATION_BEGINS", begins([]))))
    assert b"at least one host" in last
    assert "at least one host" in assert_one_line(ended(process), 3, NAME)


def test_a_policy_that_cannot_work_there_tells_batsim_and_the_user(commands: Commands, endpoint: str) -> None:
    process = start(commands, endpoint, "--policy", "ac")
    with batsim_at(endpoint) as socket:
        last = asked(socket, message(0, ("SIMULATION_BEGINS", begins(HOSTS))))
    assert b"--enable-compute-sharing" in last
    assert "--enable-compute-sharing" in assert_one_line(ended(process), 2, NAME)


def test_strangers_are_sent_away(commands: Commands, endpoint: str) -> None:
    """Before a simulation begins and during one; 100 MB close the connection that sends them."""
    process = start(commands, endpoint)
    with batsim_at(endpoint) as early:
        assert b"SIMULATION_BEGINS" in asked(early, message(0, submitted("w0!1")))
        early.send(b"x" * 100_000_000)
        early.rcvtimeo = 500
        with pytest.raises(zmq.Again):
            early.recv()
    with batsim_at(endpoint) as socket, batsim_at(endpoint) as other:
        for frame in (message(0, ("SIMULATION_BEGINS", begins(HOSTS))), message(1, submitted("w0!1"))):
            assert b'"now":' in asked(socket, frame)
            assert b"another simulation" in asked(other, frame)
        asked(socket, message(9, completed("w0!1")))
        asked(socket, message(9, ("SIMULATION_ENDS", {})))
    code, out, err = ended(process)
    assert (code, out) == (0, "")
    assert "a message that does not begin a simulation" in err


def test_too_large_a_message_of_the_simulation_is_reported(commands: Commands, endpoint: str) -> None:
    """Although the socket that has sent it connects again within a moment."""
    process = start(commands, endpoint)
    with batsim_at(endpoint) as socket:
        asked(socket, message(0, ("SIMULATION_BEGINS", begins(HOSTS))))
        socket.send(b"x" * 100_000_000)
        assert "64 MiB" in assert_one_line(ended(process), 3, NAME)


def test_silence_has_deadlines(commands: Commands, endpoint: str) -> None:
    told = assert_one_line(ended(start(commands, endpoint, "--wait", "0.3")), 3, NAME)
    assert told == "no simulation has begun within 0.3 s"
    process = start(commands, endpoint, "--silence", "0.5")
    with batsim_at(endpoint) as socket:
        asked(socket, message(0, ("SIMULATION_BEGINS", begins(HOSTS))))
        assert "no message from Batsim for 0.5 s" in assert_one_line(ended(process), 3, NAME)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it(number: signal.Signals, commands: Commands, endpoint: str) -> None:
    process = start(commands, endpoint)
    with batsim_at(endpoint) as socket:
        asked(socket, message(0, ("SIMULATION_BEGINS", begins(HOSTS))))
        process.send_signal(number)
        assert ended(process) == (143, "", "")


def test_wrong_options(commands: Commands, tmp_path: Path) -> None:
    ran = commands.plugin("batsim", "--bind", "tcp://0.0.0.0:28000")
    assert "not a loopback address" in assert_one_line(ran, 2, NAME)
    ran = commands.plugin("batsim", "--site", str(tmp_path / "none.toml"))
    assert "No such file" in assert_one_line(ran, 2, NAME)
