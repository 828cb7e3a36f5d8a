"""The cost of the second process: a run over zmq, compared with a bare ping-pong of messages of the same sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from scripts.bench.ping_pong import TURN, PingPong, medians, pin_apart, sizes_of
from scripts.bench.process import Figures
from scripts.bench.runs import model

from cosched_emulator import prepare, simulate
from cosched_emulator.couplings.link import DirectLink, Link
from cosched_emulator.run.coupling import coupling
from cosched_emulator.run.run import run
from cosched_plugin.config import choose
from cosched_plugin.protocol.codec import encode
from cosched_plugin.protocol.messages import Action, Actions, Event, Events, Welcome
from cosched_plugin.protocol.scheduler import SchedulerFactory

SHARE: Final = 0.6  # goal: share of the speed of the bare ping-pong


class Weighed(DirectLink):
    """A link that records each batch and answer as on the wire."""

    def __init__(self, factory: SchedulerFactory) -> None:
        super().__init__(factory)
        self.messages: list[tuple[bytes, bytes]] = []

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Pass a batch on."""
        actions = super().exchange(seq, now_us, events)
        answer = Actions(seq, now_us, tuple(actions), 1)
        self.messages.append((bytes(encode(Events(seq, now_us, events, 1))[-1]), bytes(encode(answer)[-1])))
        return actions


class Beside:
    """A link that alternates between the inner link and a bare ping-pong, because the speed of a machine varies."""

    def __init__(self, link: Link, bare: PingPong, opened: Callable[[], None]) -> None:
        """``opened`` is called when both are ready."""
        self._link = link
        self._opened = opened
        self._bare = bare
        self._turn = TURN
        self.open_s = 0.0  # the start of a process is not part of the cost of messages
        self.close = link.close

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Open the inner link."""
        began = time.perf_counter()
        self._link.open(inventory)
        self._opened()
        self.open_s = time.perf_counter() - began

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Pass a batch on; after each turn of batches, send as many messages of the ping-pong."""
        if seq == self._turn:
            self._bare.play()
            self._turn += TURN
        return self._link.exchange(seq, now_us, events)


def beside(jobs: int, apart: bool) -> Figures:
    """Return the cost of a batch in a run over zmq, and of a bare round trip, in this process.

    The start of the scheduler's process is reported separately.
    """
    prepared = prepare(model("easy", jobs, 128))
    choice = choose("easy")
    weighed = Weighed(choice.scheduler)
    run(prepared, weighed)
    batches = len(weighed.messages)
    direct_s = simulate(prepared, choice).wall_s
    bare = PingPong(weighed.messages)
    try:
        with coupling("zmq", choice, prepared) as link:
            both = Beside(link, bare, pin_apart if apart else lambda: None)
            wall_s = run(prepared, both).wall_s - both.open_s - bare.spent_s
        bare.play(batches)  # the remaining messages
    finally:
        bare.close()
    return {
        "jobs": jobs,
        "batches": batches,
        **sizes_of(weighed.messages),
        "direct_jobs_per_second": jobs / direct_s,
        "zmq_jobs_per_second": jobs / wall_s,
        "bare_jobs_per_second": jobs / bare.spent_s,
        "zmq_us": wall_s / batches * 1e6,
        "bare_us": bare.spent_s / batches * 1e6,
        "open_s": both.open_s,
        "share": bare.spent_s / wall_s,
    }


def compare(jobs: int, rounds: int, tell: Callable[[str], None]) -> list[Figures]:
    """Return the medians of ``rounds`` whole runs under easy beside a bare ping-pong."""
    return medians(beside, jobs, rounds, SHARE, tell)
