"""A bare ping-pong of the messages of a run: two processes that only pass them on, in turns with the run itself.

The speed of a machine varies, and a ping-pong is twice as fast if the system puts both processes on one processor, which is rarer for
busier processes: so a second row has each process on a processor of its own.
"""

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

from cosched_plugin.protocol.limits import MAGIC

MESSAGE_MS: Final = 30_000  # longest time of one message
TURN: Final = 100  # length of a turn of messages
Messages = Sequence[tuple[bytes, bytes]]  # out and back


class PingPong:
    """Two processes that only pass messages over ipc: this one and its echo. Call `close` at the end."""

    def __init__(self, messages: Messages) -> None:
        self._left = iter([out for out, _ in messages])
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = _socket(self._context, zmq.ROUTER)
        endpoint = f"ipc://{self._folder.name}/socket"
        self._socket.bind(endpoint)
        backs = [back for _, back in messages]
        self._child = multiprocessing.get_context("spawn").Process(target=echo, args=(endpoint, backs))
        self._child.start()
        self._peer = self._socket.recv_multipart()[0]
        self.spent_s = 0.0

    def play(self, count: int = TURN) -> None:
        """Send messages, each after the answer to the one before, and add their time to ``spent_s``."""
        began = time.perf_counter()
        for out in islice(self._left, count):
            self._socket.send_multipart([self._peer, MAGIC, out])
            self._socket.recv_multipart()
        self.spent_s += time.perf_counter() - began

    def close(self) -> None:
        """End the echo."""
        self._child.terminate()
        self._child.join(10)
        self._socket.close(0)
        self._context.term()
        self._folder.cleanup()


def echo(endpoint: str, backs: Sequence[bytes]) -> None:
    """Answer every message with that of its turn."""
    with zmq.Context() as context, _socket(context, zmq.DEALER) as socket:
        socket.connect(endpoint)
        socket.send_multipart([MAGIC, b""])
        for back in backs:
            socket.recv_multipart()
            socket.send_multipart([MAGIC, back])


def _socket(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    socket = context.socket(kind)
    socket.linger = 1000
    socket.rcvtimeo = socket.sndtimeo = MESSAGE_MS
    return socket


def pin_apart() -> None:
    """Put this process on one processor and its children on another, with all threads."""
    ours, theirs, *_ = sorted(os.sched_getaffinity(0))
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            for thread in Path(f"/proc/{child}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {theirs})
        os.sched_setaffinity(int(task.name), {ours})


def sizes_of(messages: Messages) -> Figures:
    """Return the median sizes of messages, in bytes."""
    outs, backs = zip(*messages, strict=True)
    return {
        "median_bytes_out": statistics.median(map(len, outs)),
        "median_bytes_back": statistics.median(map(len, backs)),
    }


def medians(
    beside: Callable[[int, bool], Figures], jobs: int, rounds: int, goal: float, tell: Callable[[str], None]
) -> list[Figures]:
    """Return the medians of ``rounds`` whole runs beside a ping-pong, each in a process of its own; the second row with both apart."""
    rows: list[Figures] = []
    for apart in (False, True) if len(os.sched_getaffinity(0)) > 1 else (False,):
        found = []
        for number in range(rounds):
            tell(f"round {number + 1} of {rounds}{', apart' if apart else ''}: {jobs:,} jobs, and a bare ping-pong")
            row = in_process(beside, jobs, apart, timeout_s=10 * MESSAGE_MS / 1000)
            if "reason" in row:
                return [*rows, {"apart": apart, **row}]
            found.append(row)
        middle = {name: round(statistics.median([row[name] for row in found]), 3) for name in found[0]}
        rows.append({"apart": apart, **middle, "reached": middle["share"] >= goal})
    return rows
