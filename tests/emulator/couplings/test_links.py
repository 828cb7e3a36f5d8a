"""The couplings, with real sockets and real processes: same answers, restarts, and deadlines for all waits."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq
from tests.emulator.couplings.summing import (
    Manager,
    Summing,
    expected,
    linked,
    serve_here,
    spawn_argv,
    tend,
    to_child,
    words_of,
)
from tests.processes import Forked, wait_until

from cosched_emulator.couplings.link import DirectLink, Link, LoopbackLink
from cosched_emulator.couplings.scheduler_port import SchedulerPort
from cosched_emulator.couplings.spawned_plugin import SpawnedPlugin
from cosched_emulator.couplings.zmq_link import ZmqLink
from cosched_emulator.errors import LinkError
from cosched_plugin.common.errors import LocalProtocolError
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode

# ---------------------------------------------------------------- the contract


@pytest.mark.parametrize("link", [DirectLink(Summing), LoopbackLink(Summing)], ids=lambda link: type(link).__name__)
def test_links_within_one_process_answer_alike(link: Link) -> None:
    manager = Manager(link)
    with pytest.raises(LocalProtocolError, match="not open"):
        manager.step()
    link.open(manager.inventory)
    for _ in range(20):
        manager.step()
    link.close()
    link.close()
    assert manager.replies == expected(20)


def test_a_process_gives_the_same_answers_and_leaves_nothing_behind(script: Path) -> None:
    with SpawnedPlugin(spawn_argv(script)) as plugin, to_child(plugin) as (link, manager):
        assert plugin.directory.stat().st_mode & 0o777 == 0o700
        link.open(manager.inventory)
        assert link.policy == "summing"
        for _ in range(200):
            manager.step()
        link.close()
        assert plugin.process.wait(5) == 0
        assert "the manager said bye" in plugin.stderr_tail()
        assert plugin.close() == 0
    assert not plugin.directory.exists()
    assert manager.replies == expected(200)


def test_tcp_on_loopback_works_too() -> None:
    codes: list[int] = []
    with linked("tcp://127.0.0.1:*") as (link, manager):
        thread = threading.Thread(target=lambda: codes.append(serve_here(link.port.endpoint)))
        thread.start()
        link.open(manager.inventory)
        for _ in range(5):
            manager.step()
    thread.join(10)
    assert codes == [0]
    assert manager.replies == expected(5)


# ---------------------------------------------------------------- restarts


def test_hellos_that_come_while_a_welcome_is_made_cost_one_more(endpoint: str) -> None:
    """With 100,000 jobs each takes a second, and a scheduler says hello twice a second."""
    port = SchedulerPort(endpoint)
    manager = Manager(ZmqLink(port, deadline_s=10, wait_s=10))
    made: list[int] = []

    def inventory() -> m.Welcome:
        made.append(1)
        return manager.inventory()

    port.begin(inventory, lockstep=True)
    made.clear()
    context = zmq.Context()
    one, other = (context.socket(zmq.DEALER) for _ in range(2))
    try:
        for peer in (one, other):
            peer.linger = 0
            peer.rcvtimeo = 5000
            peer.connect(endpoint)
        for greeting in (1, 2, 3):
            one.send_multipart(encode(m.Hello((1,), m.FEATURES, "one", "", greeting=greeting)))
        one.send_multipart(encode(m.Ping(7)))
        one.send_multipart(encode(m.Hello((1,), m.FEATURES, "one", "", greeting=4)))
        wait_until(lambda: bool(port.socket.poll(0)))
        time.sleep(0.2)
        heard = [port.receive(zmq.NOBLOCK) for _ in range(3)]
        assert [message.greeting for message in heard if isinstance(message, m.Hello)] == [3, 4]
        assert sum(made) == 2
        assert port.receive(zmq.NOBLOCK) is None
        assert port.heard == 5
        assert port.wait_s(1.0) == 1.0
        kinds = [decode(one.recv_multipart()) for _ in range(3)]
        assert [type(message) for message in kinds] == [m.Welcome, m.Pong, m.Welcome]
        other.send_multipart(encode(m.Hello((1,), m.FEATURES, "other", "", greeting=9)))
        wait_until(lambda: bool(port.socket.poll(0)))
        assert port.receive(zmq.NOBLOCK) is None
        refused = decode(other.recv_multipart())
        assert isinstance(refused, m.ErrorReport)
        assert refused.code == "busy"
    finally:
        for peer in (one, other):
            peer.close()
        context.term()
        port.close()


def test_a_scheduler_killed_within_a_batch_is_replaced_within_it(endpoint: str, launch: Callable[..., Forked]) -> None:
    with linked(endpoint, 20, resend_s=0.3) as (link, manager):
        child = launch(endpoint, "heavy")
        link.open(manager.inventory)
        manager.step()

        def replace() -> None:
            wait_until(lambda: "hanging\n" in child.written()[1])
            child.send_signal(signal.SIGKILL)
            launch(endpoint)

        thread = threading.Thread(target=replace)
        thread.start()
        manager.step("heavy")
        thread.join(10)
        manager.step()
    assert manager.replies == expected(3)


def test_a_second_scheduler_is_refused_while_the_first_lives(endpoint: str, launch: Callable[..., Forked]) -> None:
    with linked(endpoint) as (link, manager):
        launch(endpoint)
        link.open(manager.inventory)
        second = launch(endpoint, wait_s=0.7)
        while second.poll() is None:
            manager.step()
            time.sleep(0.01)
        code, said = words_of(second)
        assert code == 3
        assert re.search(r"error: no manager welcomed us .* within 0.7 s: the manager reports busy: .*", said)
        manager.step()
    assert manager.replies == expected(manager.seq)


# ---------------------------------------------------------------- waits that end


def test_without_a_scheduler_opening_ends_in_time(endpoint: str) -> None:
    started = time.monotonic()
    with (
        linked(endpoint, 1, 0.3) as (link, manager),
        pytest.raises(LinkError, match=r"no scheduler was ready within 0\.3 s") as caught,
    ):
        link.open(manager.inventory)
    assert time.monotonic() - started < 1.5
    assert caught.value.place == endpoint
    assert caught.value.exit_code == 3


def test_a_late_manager_finds_only_one_hello(endpoint: str, launch: Callable[..., Forked]) -> None:
    child = launch(endpoint, wait_s=2.5)
    time.sleep(1.8)
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.bind(endpoint)
    router.rcvtimeo = 300
    greetings = 0
    try:
        while True:
            assert isinstance(decode(router.recv_multipart()[1:]), m.Hello)
            greetings += 1
    except zmq.Again:
        pass
    router.close(0)
    context.term()
    assert 1 <= greetings <= 2
    assert words_of(child)[0] == 3


def test_a_scheduler_that_never_answers_is_given_up_in_time(script: Path) -> None:
    with SpawnedPlugin(spawn_argv(script, "heavy")) as plugin, to_child(plugin, 0.6) as (link, manager):
        link.open(manager.inventory)
        manager.step()
        started = time.monotonic()
        with pytest.raises(LinkError, match=r"no answer to batch 2 within 0\.6 s(.|\n)*hanging"):
            manager.step("heavy")
        assert time.monotonic() - started < 2
    assert plugin.process.returncode == -signal.SIGKILL  # SIGTERM takes effect only between two batches
    assert not plugin.directory.exists()


def test_a_dead_child_is_noticed_at_once(script: Path) -> None:
    with SpawnedPlugin(spawn_argv(script)) as plugin, to_child(plugin, 30, 30) as (link, manager):
        link.open(manager.inventory)
        plugin.process.kill()
        plugin.process.wait(5)
        started = time.monotonic()
        with pytest.raises(LinkError, match=r"process was killed by signal 9(.|\n)*welcomed by the manager"):
            manager.step()
        assert time.monotonic() - started < 1


def test_a_child_that_cannot_start_is_reported_with_its_output(tmp_path: Path) -> None:
    with (
        SpawnedPlugin([sys.executable, "-c", "import sys; sys.exit('no such policy')"]) as plugin,
        to_child(plugin, 30, 30) as (link, manager),
        pytest.raises(LinkError, match="ended with exit code 1\nno such policy"),
    ):
        link.open(manager.inventory)
    with pytest.raises(LinkError, match="cannot start"):
        SpawnedPlugin([str(tmp_path / "nothing")])


def test_a_wait_can_be_interrupted(endpoint: str) -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach only the main thread")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    started = time.monotonic()
    timer.start()
    with linked(endpoint, 30, 30) as (link, manager), pytest.raises(KeyboardInterrupt):
        link.open(manager.inventory)
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_scheduler_says_bye_when_told_to_stop(
    number: signal.Signals, code: int, endpoint: str, launch: Callable[..., Forked]
) -> None:
    with linked(endpoint, 0.6) as (link, manager):
        child = launch(endpoint)
        link.open(manager.inventory)
        manager.step()
        child.send_signal(number)
        assert words_of(child)[0] == code
        with pytest.raises(LinkError, match=f"within 0.6 s\nthe scheduler left: {number.name}"):
            manager.step()


def test_a_silent_manager_gets_pings_and_is_given_up(endpoint: str, launch: Callable[..., Forked]) -> None:
    with linked(endpoint) as (link, manager):
        child = launch(endpoint, silence_s=0.4)
        link.open(manager.inventory)
        tend(link, 2.0)  # answers pings
        assert child.poll() is None
        code, said = words_of(child)  # no answer from now on
        assert code == 3
        assert re.search(r"error: the manager at .* has been silent for \d\.\d s\n$", said)
