"""Errors at either end of a coupling, and forbidden endpoints."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from tests.emulator.couplings.summing import expected, linked, serve_here, spawn_argv, tend, to_child
from tests.processes import Forked

from cosched_emulator.couplings.scheduler_port import SchedulerPort
from cosched_emulator.couplings.spawned_plugin import SpawnedPlugin, remove_stale
from cosched_emulator.couplings.zmq_link import ZmqLink
from cosched_emulator.errors import ConfigurationError, LinkError
from cosched_plugin.common.errors import ProtocolError, UsageError
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.endpoint import why_not
from cosched_plugin.protocol.limits import MAGIC


@contextmanager
def dealer(endpoint: str) -> Iterator[zmq.Socket[bytes]]:
    """Yield a socket at an endpoint, as a scheduler has it."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 0
        peer.rcvtimeo = 5000
        peer.connect(endpoint)
        yield peer


# ---------------------------------------------------------------- errors on either side


def test_an_impossible_decision_ends_both_processes_with_its_reason(script: Path) -> None:
    with SpawnedPlugin(spawn_argv(script, "policy")) as plugin, to_child(plugin) as (link, manager):
        link.open(manager.inventory)
        with pytest.raises(LinkError, match="the scheduler reports policy: impossible decision 'start job 1'"):
            manager.step()
        assert plugin.process.wait(5) == 4


def test_a_defect_of_the_scheduler_is_reported(script: Path) -> None:
    with (
        SpawnedPlugin(spawn_argv(script, "unable")) as plugin,
        to_child(plugin) as (link, manager),
        pytest.raises(LinkError, match="reports internal: ValueError: cannot do with this machine"),
    ):
        link.open(manager.inventory)


def test_strangers_and_invalid_messages_do_not_disturb_a_run(endpoint: str, launch: Callable[..., Forked]) -> None:
    with linked(endpoint) as (link, manager), dealer(endpoint) as stranger:
        launch(endpoint)
        link.open(manager.inventory)
        for frames, code in (
            ([b"rubbish"], "frame"),
            ([MAGIC, b"\xc1"], "malformed"),
            (encode(m.Actions(1, 1_000, ())), "state"),
            (encode(m.Ping(1)), "state"),
            (encode(m.Hello((1,), (), "stranger", "")), "busy"),
            (encode(m.Hello((1,), (), "", "")), "field"),  # it would be busy for ever, as the name of no scheduler
        ):
            stranger.send_multipart(frames)
            tend(link, 0.2)
            manager.step()
            answer = decode(stranger.recv_multipart())
            assert isinstance(answer, m.ErrorReport)
            assert answer.code == code
    assert manager.replies == expected(6)


def test_a_scheduler_that_breaks_the_protocol_ends_the_run(endpoint: str) -> None:
    with linked(endpoint) as (link, manager), dealer(endpoint) as peer:
        peer.send_multipart(encode(m.Hello((7,), (), "newer", "")))
        peer.send_multipart(encode(m.Hello((1,), (), "liar", "")))
        peer.send_multipart(encode(m.Ready(0)))
        peer.send_multipart(encode(m.Actions(1, 1_001, ())))
        link.open(manager.inventory)
        with pytest.raises(LinkError, match=r"an unacceptable message \(.*\): "):
            manager.step()
        kinds = [decode(peer.recv_multipart()) for _ in range(4)]
        assert [type(each).__name__ for each in kinds] == ["ErrorReport", "Welcome", "Events", "ErrorReport"]
        codes = [each.code for each in kinds if isinstance(each, m.ErrorReport)]
        assert codes == ["version", "clock"]


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ([b"rubbish"], "the process there is no manager for schedulers"),
        (encode(m.ErrorReport("version", "versions", "none in common")), "reports version: versions: none in common"),
        (encode(m.Ready(1)), "only a scheduler says Ready"),
    ],
)
def test_a_manager_that_breaks_the_protocol_ends_the_scheduler(answer: list[bytes], match: str, endpoint: str) -> None:
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.rcvtimeo = 5000
    router.bind(endpoint)

    def manage() -> None:
        sender, *_ = router.recv_multipart()
        router.send_multipart([sender, *answer])

    thread = threading.Thread(target=manage)
    thread.start()
    with pytest.raises(ProtocolError, match=match) as caught:
        serve_here(endpoint)
    thread.join(10)
    router.close(0)
    context.term()
    assert caught.value.exit_code == 3


# ---------------------------------------------------------------- endpoints and directories


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("tcp://10.0.0.4:5555", "not a loopback address"),
        ("tcp://*:5555", "not a loopback address"),
        ("tcp://0.0.0.0:5555", "not a loopback address"),
        ("tcp://example.org:5555", "not a loopback address"),
        ("tcp://[::]:5555", "not a loopback address"),
        ("tcp://127.0.0.1", "port number"),
        ("tcp://127.0.0.1:http", "port number"),
        ("tcp://127.0.0.1:99999", "port number"),
        ("inproc://x", "expected ipc"),
        ("somewhere", "expected ipc"),
        ("ipc://", "path"),
        ("ipc:///" + "x" * 107, "107 bytes"),
    ],
)
def test_endpoints_beyond_the_machine_are_refused_on_both_sides(endpoint: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as refused:
        ZmqLink(SchedulerPort(endpoint), deadline_s=1, wait_s=1)
    assert refused.value.exit_code == 2
    with pytest.raises(UsageError, match=reason) as caught:
        serve_here(endpoint)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "endpoint", ["tcp://127.0.0.1:5555", "tcp://[::1]:1", "tcp://localhost:*", "ipc:///tmp/x", "ipc://x"]
)
def test_local_endpoints_are_allowed(endpoint: str) -> None:
    assert why_not(endpoint) is None


def test_an_endpoint_that_cannot_be_bound_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="one to listen at"):
        ZmqLink(SchedulerPort("ipc:///proc/nothing/here"), deadline_s=1, wait_s=1)


def test_directories_of_killed_runs_are_removed_and_others_kept(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    hour_ago = time.time() - 3600
    for name in ("cosched-killed", "cosched-fresh", "cosched-foreign", "other"):
        (tmp_path / name).mkdir()
        if name != "cosched-foreign":
            (tmp_path / name / "lock").touch()
        if name != "cosched-fresh":
            os.utime(tmp_path / name, (hour_ago, hour_ago))
    (tmp_path / "cosched-link").symlink_to(tmp_path / "other")
    command = [sys.executable, "-c", "import time; time.sleep(30)"]
    with SpawnedPlugin(command) as first:
        if first.directory.parent != tmp_path:  # pytest's path is too long for a socket
            assert remove_stale(tmp_path) == [tmp_path / "cosched-killed"]
        os.utime(first.directory, (hour_ago, hour_ago))
        with SpawnedPlugin(command) as second:
            assert first.directory.exists()  # in use, though old
            assert second.directory != first.directory
    assert not first.directory.exists()
    assert first.process.returncode == -signal.SIGTERM
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["cosched-foreign", "cosched-fresh", "cosched-link", "other", "scheduler.py"]
