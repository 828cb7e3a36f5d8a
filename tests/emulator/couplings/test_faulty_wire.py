"""Message and plugin faults: their effect on messages between real sockets, and unchanged schedules."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import zmq
from tests.processes import environment, wait_until

from cosched_emulator import simulate
from cosched_emulator.couplings.channel import REORDER_S, FaultyChannel
from cosched_emulator.couplings.scheduler_port import SchedulerPort
from cosched_emulator.couplings.spawned_plugin import (
    ENDPOINT,
    FaultyPluginLink,
    PluginFault,
    SpawnedPlugin,
    plugin_faults,
)
from cosched_emulator.couplings.zmq_link import ZmqLink
from cosched_emulator.errors import LinkError
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.prepare import Prepared, prepare
from cosched_emulator.run.run import run
from cosched_emulator.scenario.fault_sections import MessageFaultsSection, PluginFaultsSection
from cosched_emulator.scenario.reader import read_scenario
from cosched_plugin.config import choose
from cosched_plugin.protocol.messages import Action, Event, Welcome


def channel_with(seed: int = 1, **faults: float) -> FaultyChannel:
    return FaultyChannel(MessageFaultsSection(**faults), seed)


class Pair:
    """A ROUTER with a channel and a DEALER that has greeted it."""

    def __init__(self) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        self.dealer = self.context.socket(zmq.DEALER)
        for socket in (self.router, self.dealer):
            socket.linger = 0
            socket.rcvtimeo = 200
        self.router.router_mandatory = True
        port = self.router.bind_to_random_port("tcp://127.0.0.1")
        self.dealer.connect(f"tcp://127.0.0.1:{port}")
        self.dealer.send_multipart([b"hello"])
        self.peer = self.router.recv_multipart()[0]

    def outward(self, channel: FaultyChannel, count: int, settle_s: float = 0.0) -> list[int]:
        """Send ``count`` messages by the channel, poll it for some time, and return what the other end has received."""
        for number in range(count):
            channel.send(self.router, [self.peer, b"%d" % number])
        self.poll(channel, settle_s)
        return self.received()

    def inward(self, channel: FaultyChannel, count: int, settle_s: float = 0.0) -> list[int]:
        """Send messages from the other end, and return those that the channel delivers."""
        for number in range(count):
            self.dealer.send_multipart([b"%d" % number])
        self.dealer.send_multipart([b"last"])
        return self.poll(channel, settle_s)

    def poll(self, channel: FaultyChannel, settle_s: float) -> list[int]:
        found: list[int] = []
        deadline = time.monotonic() + settle_s
        while True:
            try:
                frames = channel.receive(self.router)
            except zmq.Again:
                if time.monotonic() >= deadline:
                    return found
            else:
                if frames[1] != b"last":
                    found.append(int(frames[1]))

    def received(self) -> list[int]:
        found = []
        try:
            while True:
                found.append(int(self.dealer.recv_multipart()[0]))
        except zmq.Again:
            return found


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.router.close()
    pair.dealer.close()
    pair.context.term()


def test_without_faults_all_messages_pass_in_order(pair: Pair) -> None:
    channel = channel_with()
    assert pair.outward(channel, 100) == list(range(100))
    assert pair.inward(channel, 100) == list(range(100))
    assert channel.next_due_s() is None
    assert not channel.counts


def test_dropped_messages_are_lost_and_counted(pair: Pair) -> None:
    channel = channel_with(drop=0.3)
    out = pair.outward(channel, 500)
    dropped = channel.counts["dropped"]
    assert len(out) == 500 - dropped
    assert 100 < dropped < 200
    assert out == sorted(set(out))
    came = pair.inward(channel, 500)
    assert came == sorted(set(came))
    assert len(came) - (500 - (channel.counts["dropped"] - dropped)) in (0, 1)  # "last" may be dropped, too
    assert came != out  # each direction has its own draws
    # The same seed drops the same messages.
    assert pair.outward(channel_with(drop=0.3), 500) == out
    assert pair.outward(channel_with(drop=0.3, seed=2), 500) != out


def test_duplicated_messages_arrive_twice(pair: Pair) -> None:
    channel = channel_with(duplicate=0.25)
    out = pair.outward(channel, 400)
    assert out == sorted(out)
    assert set(out) == set(range(400))
    assert len(out) == 400 + channel.counts["duplicated"]
    assert 60 < channel.counts["duplicated"] < 140
    came = pair.inward(channel_with(duplicate=1.0), 20)
    assert came == sorted([*range(20), *range(20)])


def test_a_quiet_socket_does_not_keep_delayed_messages(pair: Pair) -> None:
    channel = channel_with(delay=1.0, delay_s=0.15)
    started = time.monotonic()
    channel.send(pair.router, [pair.peer, b"7"])
    pair.dealer.send_multipart([b"8"])
    due_s = channel.next_due_s()
    assert due_s is not None
    assert 0 <= due_s <= 0.15
    assert channel.receive(pair.router)[1] == b"8"
    assert time.monotonic() - started < 0.15 + 0.2
    pair.poll(channel, 0.0)
    assert pair.received() == [7]
    assert channel.counts == {"delayed": 2}
    assert channel.next_due_s() is None


def test_delays_are_within_bounds_and_drawn(pair: Pair) -> None:
    channel = channel_with(delay=0.5, delay_s=0.2)
    started = time.monotonic()
    came = pair.inward(channel, 100, settle_s=0.4)
    assert sorted(came) == list(range(100))
    assert came != sorted(came)
    assert time.monotonic() - started < 20
    assert 25 < channel.counts["delayed"] < 75


def test_a_receive_without_waiting_returns_at_once(pair: Pair) -> None:
    channel = channel_with(delay=1.0, delay_s=10.0)
    pair.dealer.send_multipart([b"1"])
    assert pair.router.poll(1000)
    started = time.monotonic()
    with pytest.raises(zmq.Again):
        channel.receive(pair.router, zmq.NOBLOCK)
    assert time.monotonic() - started < 5
    with pytest.raises(zmq.Again):
        channel.receive(pair.router)
    assert 0.19 < time.monotonic() - started < 5


def test_a_reordered_message_follows_the_next_one(pair: Pair) -> None:
    seed = next(
        seed
        for seed in range(1000)
        if [bool(channel_with(seed=seed)._strikes("reorder", 0.2, 0, number)) for number in range(1, 7)]
        == [False, True, False, False, True, True]
    )
    channel = channel_with(seed=seed, reorder=0.2)
    started = time.monotonic()
    for number in range(5):
        channel.send(pair.router, [pair.peer, b"%d" % number])
    assert pair.received() == [0, 2, 1, 3]  # the fifth waits for a sixth
    assert channel.next_due_s() is not None
    channel.send(pair.router, [pair.peer, b"5"])  # it is held as well, but the fifth has waited long enough
    pair.poll(channel, REORDER_S)
    assert pair.received() == [4, 5]
    assert time.monotonic() - started < 3
    assert channel.counts == {"reordered": 3}


def test_a_reordered_message_without_a_next_one_is_delivered_soon(pair: Pair) -> None:
    channel = channel_with(reorder=1.0)
    started = time.monotonic()
    assert pair.inward(channel, 0) == []
    pair.dealer.send_multipart([b"3"])
    assert channel.receive(pair.router)[1] == b"3"
    assert time.monotonic() - started < 1.0


def test_messages_to_a_lost_receiver_are_counted_or_an_error(pair: Pair) -> None:
    channel = channel_with(delay=1.0, delay_s=0.02)
    channel.send(pair.router, [b"nobody", b"1"])  # held: the error shows only when it is sent
    pair.poll(channel, 0.05)
    assert channel.counts == {"delayed": 1, "lost": 1}
    with pytest.raises(zmq.ZMQError) as caught:
        channel_with().send(pair.router, [b"nobody", b"1"])
    assert caught.value.errno == zmq.EHOSTUNREACH


# ------------------------------------------------------------ the scheduler's process


@pytest.fixture(autouse=True)
def plugin_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let plugin processes find the packages."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])


class StubLink:
    """A link with slow exchanges."""

    def __init__(self, exchange_s: float = 0.0) -> None:
        self.exchange_s = exchange_s
        self.closed = 0

    def open(self, inventory: Callable[[], Welcome]) -> None:
        pass

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        time.sleep(self.exchange_s)
        return ()

    def close(self) -> None:
        self.closed += 1


SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)", ENDPOINT]


def is_stopped(process: subprocess.Popen[bytes]) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def eventually(condition: Callable[[], bool], within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


@pytest.mark.parametrize("kills", [1, 6])
def test_kills_restart_the_plugin_at_drawn_batches(kills: int) -> None:
    faults = PluginFaultsSection(kills, 0, 0.0, None)
    stub = StubLink(0.01)
    told: list[tuple[str, str]] = []
    with SpawnedPlugin(SLEEPER) as plugin:
        seen = [plugin.process]
        link = FaultyPluginLink(stub, plugin, faults, 2, batches=20, note=lambda word, text: told.append((word, text)))
        for seq in range(1, 21):
            link.exchange(seq, 0, ())
            expected: list[PluginFault] = plugin_faults(faults, 2, 20).get(seq, [])
            if expected:
                last = seen[-1]
                assert eventually(lambda last=last: plugin.process is not last)  # type: ignore[misc]
                assert last.returncode == -signal.SIGKILL
                seen.append(plugin.process)
            assert plugin.process is seen[-1]
            assert plugin.process.poll() is None
        link.close()
        assert stub.closed == 1
        assert link.counts == {"killed": kills}
        assert [word for word, _ in told] == ["plugin-kill"] * kills
    assert len(seen) == kills + 1
    assert all(process.poll() is not None for process in seen)
    assert not plugin.directory.exists()


def test_stalls_end_by_themselves() -> None:
    with SpawnedPlugin(SLEEPER) as plugin:
        process = plugin.process
        link = FaultyPluginLink(StubLink(), plugin, PluginFaultsSection(0, 1, 0.3, 1), 1)
        link.exchange(1, 0, ())
        assert eventually(lambda: is_stopped(process))
        assert eventually(lambda: not is_stopped(process))
        assert link.counts == {"stalled": 1}
        link.close()
        assert plugin.process is process


def test_a_fault_in_progress_ends_with_the_link() -> None:
    started = time.monotonic()
    with SpawnedPlugin(SLEEPER) as plugin:
        process = plugin.process
        link = FaultyPluginLink(StubLink(), plugin, PluginFaultsSection(0, 1, 60.0, 1), 1)
        link.exchange(1, 0, ())
        assert eventually(lambda: is_stopped(process))
        before = threading.active_count()
        link.close()
        assert not is_stopped(process)
        assert threading.active_count() < before
    assert process.poll() is not None
    assert time.monotonic() - started < 10


def test_a_stopped_child_is_ended() -> None:
    plugin = SpawnedPlugin(SLEEPER)
    process = plugin.process
    plugin.stall(stop=True)
    assert eventually(lambda: is_stopped(process))
    assert plugin.close() == -signal.SIGTERM
    # After it is closed it is not started again.
    plugin.respawn()
    plugin.stall(stop=True)
    assert plugin.process is process
    assert process.poll() == -signal.SIGTERM


def test_a_child_that_cannot_be_restarted_is_an_error(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/runs\nexec sleep 60\n")
    program.chmod(0o700)
    with SpawnedPlugin([str(program), ENDPOINT]) as plugin:
        wait_until((tmp_path / "runs").exists)  # until then the shell may not have opened the program
        program.unlink()
        with pytest.raises(LinkError, match="cannot start"):
            plugin.respawn()
        assert plugin.process.poll() == -signal.SIGKILL


# ------------------------------------------------------------ whole runs

MESSAGES = MessageFaultsSection(0.01, 0.15, 0.15, 0.02, 0.1)


def overloaded() -> Prepared:
    return prepare(
        read_scenario(
            None,
            {
                "seed": 5,
                "requeue": True,
                "cluster": {"nodes": 6, "preset": "rua-4way"},
                "workload": {
                    "lublin": 40,
                    "aarr": 9.0,
                    "mix": "60:20:20",
                    "limits": "estimate",
                    "estimates": "f-model",
                    "run_factor": 0.3,
                },
                "faults": {"nodes": {"mean_up_s": 8_000, "mean_down_s": 1_000}},
            },
        )
    )


def in_slots() -> Prepared:
    """Return jobs that take turns, on nodes that fail."""
    table = {
        "seed": 2,
        "requeue": True,
        "cluster": {"nodes": 6},
        "workload": {"lublin": 25, "run_factor": 0.001, "load": 2.0},
        "time_sharing": {"local": "rr"},
        "faults": {"nodes": {"mean_up_s": 60, "mean_down_s": 10}},
    }
    return prepare(read_scenario(None, table))


def disturbed(
    prepared: Prepared, policy: str, messages: MessageFaultsSection | None, plugin_kills: PluginFaultsSection | None
) -> list[JobRecord]:
    """Run with these faults, and check that they happened and that no process is left."""
    argv = [sys.executable, "-m", "cosched_plugin", "serve", "--connect", ENDPOINT, "--quiet"]
    argv += ["--silence", "30", *choose(policy).arguments()]
    with SpawnedPlugin(argv) as plugin:
        channel = None if messages is None else FaultyChannel(messages, 1)
        near = ZmqLink(
            SchedulerPort(
                plugin.endpoint,
                channel=channel,
                child=lambda: plugin.process,
                resend_s=0.1,  # lost messages are sent again soon
                diagnose=plugin.stderr_tail,
            ),
            deadline_s=60,
            wait_s=20,
        )
        link = near if plugin_kills is None else FaultyPluginLink(near, plugin, plugin_kills, 1, batches=40)
        try:
            records = run(prepared, link).records
        finally:
            link.close()
        if isinstance(link, FaultyPluginLink) and plugin_kills is not None:
            assert link.counts == {"killed": plugin_kills.kills, "stalled": plugin_kills.stalls}
        if channel is not None:
            assert min(channel.counts[word] for word in ("dropped", "duplicated", "delayed", "reordered")) > 0
    assert plugin.process.poll() is not None
    return records


@pytest.mark.parametrize(
    ("policy", "messages", "kills"),
    [
        pytest.param("easy", MESSAGES, None, id="messages"),
        pytest.param("easy", None, PluginFaultsSection(6, 3, 0.2, None), id="plugin", marks=pytest.mark.slow),
        pytest.param("rua", MESSAGES, PluginFaultsSection(2, 1, 0.2, None), id="both"),
        pytest.param("rua", MESSAGES, PluginFaultsSection(4, 2, 0.2, None), id="both-more", marks=pytest.mark.slow),
        pytest.param("paired-gang", MESSAGES, PluginFaultsSection(2, 1, 0.2, None), id="both-paired-gang"),
        # The draws of faults do not depend on the policy, so these cases are slow tests.
        pytest.param("rua", MESSAGES, None, id="messages-rua", marks=pytest.mark.slow),
        pytest.param("rua", None, PluginFaultsSection(6, 3, 0.2, None), id="plugin-rua", marks=pytest.mark.slow),
        pytest.param("easy", MESSAGES, PluginFaultsSection(4, 2, 0.2, None), id="both-easy", marks=pytest.mark.slow),
    ],
)
def test_faults_of_messages_and_scheduler_do_not_change_the_schedule(
    policy: str, messages: MessageFaultsSection | None, kills: PluginFaultsSection | None
) -> None:
    prepared = in_slots() if "gang" in policy else overloaded()
    quiet = simulate(prepared, policy).records
    assert any(record.starts > 1 for record in quiet)  # jobs lost their nodes
    assert disturbed(prepared, policy, messages, kills) == quiet
