"""The cost of Batsim's protocol: the emulator and `cosched-plugin batsim` in two processes, beside a ping-pong of the same messages."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from scripts.bench.ping_pong import TURN, PingPong, medians, pin_apart, sizes_of
from scripts.bench.process import Figures

from cosched_emulator.batsim.run import Built, Inputs, Outputs, build, simulate
from cosched_emulator.batsim.simulator import Options
from cosched_emulator.couplings.batsim_link import BatsimLink
from cosched_plugin.batsim.adapter import Decisions
from cosched_plugin.batsim.site import SiteFile
from cosched_plugin.common.process import freeze_heap
from cosched_plugin.config import choose
from cosched_terminal.console import Log

SHARE: Final = 0.55  # goal: share of the speed of the bare ping-pong
WAIT_S: Final = 30.0


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
    bare = PingPong(said, of_json=True)
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
        **sizes_of(said),
        "jobs_per_second": jobs / wall_s,
        "bare_jobs_per_second": jobs / bare.spent_s,
        "share": bare.spent_s / wall_s,
    }


def _run(built: Built, outputs: Outputs, link: BatsimLink, bare: PingPong, *, apart: bool) -> float:
    """Run to the end, in turns with the ping-pong; return the seconds of the run alone, from its second message on."""
    simulator = built.simulator(Options(), outputs)
    count, began = 0, 0.0

    def ask(frame: bytes) -> bytes:
        nonlocal count, began
        count += 1
        if count % TURN == 0:
            bare.play()
        reply = link.ask(frame)
        if count == 1:  # the other process has started
            if apart:
                pin_apart()
            began = time.perf_counter()
        return reply

    with freeze_heap():
        simulate(simulator, ask)
    return time.perf_counter() - began - bare.spent_s


def compare(jobs: int, rounds: int, tell: Callable[[str], None]) -> list[Figures]:
    """Return the medians of ``rounds`` whole runs under easy beside a bare ping-pong in JSON."""
    return medians(beside, jobs, rounds, SHARE, tell)


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
