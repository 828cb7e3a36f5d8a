"""The cost of Batsim's protocol: the emulator and `cosched-plugin batsim` in two processes, beside a bare ping-pong in JSON.

The ping-pong passes the very same messages: each end decodes what it gets and encodes what it sends, and does nothing else. Turns of
both alternate, because the speed of a machine varies.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import zmq
from scripts.bench.process import Figures, in_process
from scripts.bench.wire import pin_apart

from cosched_emulator.batsim.run import Built, Inputs, Outputs, build, simulate
from cosched_emulator.batsim.simulator import Options
from cosched_emulator.couplings.batsim_link import BatsimLink
from cosched_plugin.batsim.adapter import Decisions
from cosched_plugin.batsim.site import SiteFile
from cosched_plugin.common.process import freeze_heap
from cosched_plugin.config import choose
from cosched_terminal.console import Log

MESSAGE_MS: Final = 30_000
TURN: Final = 100  # messages of a turn
SHARE: Final = 0.55  # goal: share of the speed of the bare ping-pong
WAIT_S: Final = 30.0
Messages = Sequence[tuple[bytes, bytes]]


class PingPong:
    """Two processes that only pass JSON over ipc: this one and its echo. Call `close` at the end."""

    def __init__(self, messages: Messages) -> None:
        self._values = [json.loads(said) for said, _ in messages]
        self._next = 0
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.linger = 0
        self._socket.rcvtimeo = MESSAGE_MS
        endpoint = f"ipc://{self._folder.name}/socket"
        replies = [reply for _, reply in messages]
        self._child = multiprocessing.get_context("spawn").Process(target=echo, args=(endpoint, replies))
        self._child.start()
        self._socket.connect(endpoint)
        self._socket.send(b"null")
        self._socket.recv()
        self.spent_s = 0.0

    def play(self, count: int) -> None:
        """Send messages, each after the reply to the one before, and add their time to ``spent_s``."""
        values = self._values[self._next : self._next + count]
        self._next += count
        began = time.perf_counter()
        for value in values:
            self._socket.send(json.dumps(value).encode())
            json.loads(self._socket.recv())
        self.spent_s += time.perf_counter() - began

    def close(self) -> None:
        """End the echo."""
        self._child.terminate()
        self._child.join(10)
        self._socket.close(0)
        self._context.term()
        self._folder.cleanup()


def echo(endpoint: str, replies: Sequence[bytes]) -> None:
    """Answer every message with the reply of its turn."""
    values = [json.loads(reply) for reply in replies]
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.linger = 0
        socket.rcvtimeo = 10 * MESSAGE_MS
        socket.bind(endpoint)
        socket.recv()
        socket.send(b"null")
        for value in values:
            json.loads(socket.recv())
            socket.send(json.dumps(value).encode())


def messages_of(built: Built) -> list[tuple[bytes, bytes]]:
    """Return what emulator and scheduler say to each other."""
    decisions = Decisions(choose("easy").scheduler, frozenset(), SiteFile(), 0, Log(quiet=True))
    said: list[tuple[bytes, bytes]] = []

    def ask(frame: bytes) -> bytes:
        reply = decisions.answer(frame)
        said.append((frame, reply))
        return reply

    with Outputs(None, force=False) as outputs:
        simulate(built.simulator(Options(), outputs), ask)
    return said


def beside(jobs: int, apart: bool) -> Figures:
    """Return the speed of a run over Batsim's protocol, and of a bare ping-pong, in this process."""
    table = {"workload": {"lublin": jobs}, "cluster": {"nodes": 128, "cores": 1}}
    built = build(None, table, Inputs(), sharing=False)
    said = messages_of(built)
    bare = PingPong(said)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        endpoint = f"ipc://{folder}/socket"
        argv = [sys.executable, "-m", "cosched_plugin", "batsim", "--bind", endpoint, "--policy", "easy", "--quiet"]
        plugin = subprocess.Popen(argv)
        link = BatsimLink(endpoint, wait_s=WAIT_S, deadline_s=WAIT_S)
        try:
            with Outputs(None, force=False) as outputs:
                wall_s = _run(built, outputs, link, bare, apart=apart)
            bare.play(len(said))  # the rest
        finally:
            link.close()
            bare.close()
            plugin.terminate()
            plugin.wait(10)
    return {
        "jobs": jobs,
        "messages": len(said),
        "median_bytes_out": statistics.median([len(frame) for frame, _ in said]),
        "median_bytes_back": statistics.median([len(reply) for _, reply in said]),
        "jobs_per_second": jobs / wall_s,
        "bare_jobs_per_second": jobs / bare.spent_s,
        "share": bare.spent_s / wall_s,
    }


def _run(built: Built, outputs: Outputs, link: BatsimLink, bare: PingPong, *, apart: bool) -> float:
    """Run to the end, in turns with the ping-pong; return the seconds of the run alone, from its second message on."""
    simulator = built.simulator(Options(), outputs)
    count = 0
    began = spent_s = 0.0

    def ask(frame: bytes) -> bytes:
        nonlocal count, began
        count += 1
        if count % TURN == 0:
            bare.play(TURN)
        reply = link.ask(frame)
        if count == 1:  # the other process has started
            if apart:
                pin_apart()
            began = time.perf_counter()
        return reply

    with freeze_heap():
        simulate(simulator, ask)
    spent_s = bare.spent_s
    return time.perf_counter() - began - spent_s


def compare(jobs: int, rounds: int, tell: Callable[[str], None]) -> list[Figures]:
    """Return the medians of ``rounds`` whole runs under easy beside a bare ping-pong in JSON; the second row with processes apart."""
    rows: list[Figures] = []
    for apart in (False, True) if len(os.sched_getaffinity(0)) > 1 else (False,):
        found = []
        for number in range(rounds):
            tell(f"round {number + 1} of {rounds}{', apart' if apart else ''}: {jobs:,} jobs over Batsim's protocol")
            row = in_process(beside, jobs, apart, timeout_s=10 * WAIT_S)
            if "reason" in row:
                return [*rows, {"apart": apart, **row}]
            found.append(row)
        medians = {name: round(statistics.median([row[name] for row in found]), 3) for name in found[0]}
        rows.append({"apart": apart, **medians, "reached": medians["share"] >= SHARE})
    return rows


def lines(rows: Sequence[Any]) -> list[str]:
    """Return the table."""
    head = "| processes | jobs | messages | bytes out and back | jobs a second | bare ping-pong | share | goal |"
    found = [head, "|---|---:|---:|---|---:|---:|---:|---|"]
    for row in rows:
        place = "each on a processor of its own" if row["apart"] else "where the system puts them"
        if "reason" in row:
            found.append(f"| {place} | {row['reason']} | | | | | | |")
            continue
        found.append(
            f"| {place} | {row['jobs']:,.0f} | {row['messages']:,.0f} | {row['median_bytes_out']:.0f}, {row['median_bytes_back']:.0f} "
            f"| {row['jobs_per_second']:,.0f} | {row['bare_jobs_per_second']:,.0f} | {row['share']:.2f} "
            f"| {SHARE:.2f} {'reached' if row['reached'] else 'missed'} |"
        )
    return [*found, ""]
