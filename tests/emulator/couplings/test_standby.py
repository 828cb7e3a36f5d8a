"""Which scheduler is served, refused, or takes over: schedulers driven by hand at a port in real time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from cosched_emulator.couplings.scheduler_port import SchedulerPort
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.session import State

SOON_S = 5.0
NODES = (m.NodeClass(2, 1, 2, 1, 100, 0, 0, 0),)
BELIEF = m.Belief("none", "bulk-synchronous", ())


def inventory() -> m.Welcome:
    return m.Welcome(1, m.FEATURES, 0, 0, NODES, (), BELIEF, (), (), (), ())


class Site:
    """A port with its loop."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.noted: list[str] = []
        self.inventory = inventory()
        self.open()

    def open(self) -> None:
        self.port = SchedulerPort(self.endpoint, note=lambda word, _: self.noted.append(word))
        self.session = self.port.begin(lambda: self.inventory, lockstep=False)

    def turn(self) -> None:
        self.port.socket.poll(20)
        for _ in range(16):
            self.port.receive(zmq.NOBLOCK)
        self.port.tend()

    def until(self, happened: Callable[[], bool], *others: Scheduler, within_s: float = SOON_S) -> None:
        """Run the port and the schedulers until a condition holds."""
        began = time.monotonic()
        while not happened():
            assert time.monotonic() - began < within_s, self.noted
            self.turn()
            for other in others:
                other.turn()


class Scheduler:
    """A scheduler that says hello until it is welcomed, answers pings unless it is frozen, and records its messages."""

    def __init__(self, endpoint: str, name: str, *, standby: bool = False) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)
        self.name, self.standby = name, standby
        self.features: tuple[str, ...] = m.FEATURES
        self.frozen = self.served = False
        self.heard: list[m.Message] = []
        self.hello_at = 0.0
        self.greeting = 0

    def say(self, message: m.Message) -> None:
        self.socket.send_multipart(encode(message))

    def turn(self) -> None:
        if self.frozen:
            return
        now = time.monotonic()
        if not self.served and now >= self.hello_at:
            self.greeting += 1
            self.say(m.Hello((1,), self.features, self.name, "easy", self.standby, self.greeting))
            self.hello_at = now + 0.5
        while self.socket.poll(0):
            message = decode(self.socket.recv_multipart())
            self.heard.append(message)
            match message:
                case m.Ping(token):
                    self.say(m.Pong(token))
                case m.Welcome():
                    self.served = True
                    self.say(m.Ready(message.seq, message.greeting))
                case m.ErrorReport("replaced"):
                    self.served = False

    def codes(self) -> list[str]:
        return [message.code for message in self.heard if isinstance(message, m.ErrorReport)]

    def close(self) -> None:
        self.socket.close()
        self.context.term()


@pytest.fixture
def endpoint() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="cosched-") as folder:
        yield f"ipc://{Path(folder) / 'socket'}"


@pytest.fixture
def site(endpoint: str) -> Iterator[Site]:
    made = Site(endpoint)
    yield made
    made.port.close()


@pytest.fixture
def scheduler(endpoint: str) -> Iterator[Callable[..., Scheduler]]:
    made: list[Scheduler] = []

    def make(name: str, *, standby: bool = False) -> Scheduler:
        made.append(Scheduler(endpoint, name, standby=standby))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_second_scheduler_is_refused_while_the_first_is_connected(
    site: Site, scheduler: Callable[..., Scheduler]
) -> None:
    first, second = scheduler("first"), scheduler("second")
    site.until(lambda: site.session.state is State.READY, first)
    first.frozen = True
    site.until(lambda: "busy" in second.codes(), second)
    began = time.monotonic()
    site.until(
        lambda: time.monotonic() - began > 2.5, second
    )  # it is no standby, so the silence of the first does not matter
    assert not second.served
    assert site.port.instance == "first"
    namesake = scheduler("first")  # the name alone does not make it the one that is served
    site.until(lambda: "busy" in namesake.codes(), namesake)
    first.close()
    site.until(lambda: second.served or namesake.served, second, namesake)


def test_a_standby_takes_over_from_a_silent_scheduler(site: Site, scheduler: Callable[..., Scheduler]) -> None:
    first, second = scheduler("first"), scheduler("second", standby=True)
    site.until(lambda: site.session.state is State.READY, first)
    site.until(lambda: site.port.standby == "second", first, second)
    began = time.monotonic()
    site.until(lambda: time.monotonic() - began > 2.5, first, second)
    assert site.port.instance == "first"  # it answers, so it stays
    first.frozen = True
    site.until(lambda: second.served, first, second)
    assert site.port.instance == "second"
    assert "takeover" in site.noted
    first.frozen = False
    site.until(lambda: "replaced" in first.codes(), first, second)


def test_a_standby_takes_over_from_a_scheduler_without_an_answer(
    site: Site, scheduler: Callable[..., Scheduler]
) -> None:
    first, second = scheduler("first"), scheduler("second", standby=True)
    site.until(lambda: site.session.state is State.READY, first)
    site.until(lambda: site.port.standby == "second", first, second)
    first.frozen = True
    site.port.submit(1, 10, ())
    site.until(lambda: second.served, first, second)


def test_a_standby_takes_over_from_a_killed_scheduler(site: Site, scheduler: Callable[..., Scheduler]) -> None:
    first, second = scheduler("first"), scheduler("second", standby=True)
    site.until(lambda: site.session.state is State.READY, first)
    site.until(lambda: site.port.standby == "second", first, second)
    first.close()
    site.until(lambda: second.served, second)


def test_after_a_restart_of_the_manager_the_served_scheduler_comes_first(
    site: Site, scheduler: Callable[..., Scheduler]
) -> None:
    first, second = scheduler("first"), scheduler("second", standby=True)
    site.until(lambda: site.session.state is State.READY, first)
    site.until(lambda: site.port.standby == "second", first, second)
    site.port.close()
    first.served = False
    first.hello_at = time.monotonic() + 0.6  # the standby is connected before it
    site.open()
    site.until(lambda: site.port.instance != "", first, second)
    assert site.port.instance == "first"


def test_a_standby_alone_is_served_soon(site: Site, scheduler: Callable[..., Scheduler]) -> None:
    second = scheduler("second", standby=True)
    site.until(lambda: second.served, second)


def test_a_standby_that_lacks_what_is_needed_now_is_refused_and_the_first_one_may_come_back(
    site: Site, scheduler: Callable[..., Scheduler]
) -> None:
    """Jobs began to share time after the standby had said hello, and it does not know slots."""
    first, second = scheduler("first"), scheduler("second", standby=True)
    second.features = tuple(feature for feature in m.FEATURES if feature != m.SLOTS)
    site.until(lambda: site.session.state is State.READY, first)
    site.until(lambda: site.port.standby == "second", first, second)
    site.inventory = inventory()._replace(slots=m.SlotState(1_000_000, 3, (m.Turn((0,)),)))
    first.frozen = True
    site.until(lambda: "unsupported" in second.codes(), first, second)
    assert not second.served
    first.frozen = False
    site.until(lambda: site.port.instance == "first", first, second)
