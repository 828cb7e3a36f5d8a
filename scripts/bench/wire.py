"""The cost of the second process: a run over zmq, compared with a bare ping-pong of messages of the same sizes."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import zmq
from scripts.bench.process import Figures, in_process
from scripts.bench.runs import model

from cosched_emulator import prepare, simulate
from cosched_emulator.couplings.link import DirectLink, Link
from cosched_emulator.run.coupling import coupling
from cosched_emulator.run.run import run
from cosched_plugin.config import choose
from cosched_plugin.protocol.codec import encode
from cosched_plugin.protocol.limits import MAGIC
from cosched_plugin.protocol.messages import Action, Actions, Event, Events, Welcome
from cosched_plugin.protocol.scheduler import SchedulerFactory

MESSAGE_MS: Final = 30_000  # longest time of one message of the bare ping-pong
TURN: Final = 100  # length of a turn of batches, and of one of the ping-pong
SHARE: Final = 0.6  # goal: share of the speed of the bare ping-pong


class Weighed(DirectLink):
    """A link that records the size in bytes of each batch and answer on the wire."""

    def __init__(self, factory: SchedulerFactory) -> None:
        super().__init__(factory)
        self.sizes: list[tuple[int, int]] = []

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Pass a batch on."""
        actions = super().exchange(seq, now_us, events)
        answer = Actions(seq, now_us, tuple(actions), 1)
        self.sizes.append((len(encode(Events(seq, now_us, events, 1))[-1]), len(encode(answer)[-1])))
        return actions


class PingPong:
    """Two processes that only pass bytes over ipc: this one and its echo. Call `close` at the end."""

    def __init__(self, sizes: Sequence[tuple[int, int]]) -> None:
        """``sizes``: the bytes of each message in turn, out and back."""
        self._left = iter(sizes)
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = _socket(self._context, zmq.ROUTER)
        endpoint = f"ipc://{self._folder.name}/socket"
        self._socket.bind(endpoint)
        backs = [back for _, back in sizes]
        self._child = multiprocessing.get_context("spawn").Process(target=echo, args=(endpoint, backs))
        self._child.start()
        self._peer = self._socket.recv_multipart()[0]
        self.spent_s = 0.0

    def play(self, messages: int) -> None:
        """Send messages, each after the answer to the preceding one, and add their time to ``spent_s``."""
        payloads = [bytes(out) for out, _ in islice(self._left, messages)]
        began = time.perf_counter()
        for payload in payloads:
            self._socket.send_multipart([self._peer, MAGIC, payload])
            self._socket.recv_multipart()
        self.spent_s += time.perf_counter() - began

    def close(self) -> None:
        """End the echo."""
        self._child.terminate()
        self._child.join(10)
        self._socket.close(0)
        self._context.term()
        self._folder.cleanup()


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
            self._bare.play(TURN)
            self._turn += TURN
        return self._link.exchange(seq, now_us, events)


def pin_apart() -> None:
    """Put this process on one processor and its children on another, with all threads."""
    ours, theirs, *_ = sorted(os.sched_getaffinity(0))
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            for thread in Path(f"/proc/{child}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {theirs})
        os.sched_setaffinity(int(task.name), {ours})


def beside(jobs: int, apart: bool) -> Figures:
    """Return the cost of a batch in a run over zmq, and of a bare round trip, in this process.

    A bare ping-pong is twice as fast if the system puts both processes on one processor, which is rarer for busier processes; with
    ``apart`` each has a processor of its own. The start of the scheduler's process is reported separately.
    """
    prepared = prepare(model("easy", jobs, 128))
    choice = choose("easy")
    weighed = Weighed(choice.scheduler)
    run(prepared, weighed)
    sizes = weighed.sizes
    direct_s = simulate(prepared, choice).wall_s
    bare = PingPong(sizes)
    try:
        with coupling("zmq", choice, prepared) as link:
            both = Beside(link, bare, pin_apart if apart else lambda: None)
            wall_s = run(prepared, both).wall_s - both.open_s - bare.spent_s
        bare.play(len(sizes))  # the remaining messages
    finally:
        bare.close()
    return {
        "jobs": jobs,
        "batches": len(sizes),
        "median_bytes_out": statistics.median([out for out, _ in sizes]),
        "median_bytes_back": statistics.median([back for _, back in sizes]),
        "direct_jobs_per_second": jobs / direct_s,
        "zmq_jobs_per_second": jobs / wall_s,
        "bare_jobs_per_second": jobs / bare.spent_s,
        "zmq_us": wall_s / len(sizes) * 1e6,
        "bare_us": bare.spent_s / len(sizes) * 1e6,
        "open_s": both.open_s,
        "share": bare.spent_s / wall_s,
    }


def compare(jobs: int, rounds: int, tell: Callable[[str], None]) -> list[Figures]:
    """Return the medians of ``rounds`` whole runs under easy beside a bare ping-pong.

    One row for processes on the processors that the system chooses, one for each process on its own processor.
    """
    rows: list[Figures] = []
    places = (False, True) if len(os.sched_getaffinity(0)) > 1 else (False,)
    for apart in places:
        found = []
        for number in range(rounds):
            tell(
                f"round {number + 1} of {rounds}{', apart' if apart else ''}: {jobs:,} jobs over zmq, and a bare ping-pong"
            )
            row = in_process(beside, jobs, apart, timeout_s=MESSAGE_MS / 1000)
            if "reason" in row:
                return [*rows, {"apart": apart, **row}]
            found.append(row)
        medians = {name: round(statistics.median([row[name] for row in found]), 3) for name in found[0]}
        rows.append({"apart": apart, **medians, "reached": medians["share"] >= SHARE})
    return rows


def echo(endpoint: str, backs: Sequence[int]) -> None:
    """Answer every message with the given number of bytes."""
    with zmq.Context() as context, _socket(context, zmq.DEALER) as socket:
        socket.connect(endpoint)
        socket.send_multipart([MAGIC, b""])
        for back in backs:
            socket.recv_multipart()
            socket.send_multipart([MAGIC, bytes(back)])


def _socket(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    socket = context.socket(kind)
    socket.linger = 1000
    socket.rcvtimeo = socket.sndtimeo = MESSAGE_MS
    return socket
