#!/usr/bin/env python3
"""How fast cosched is on this machine: jobs per second, the price of a second process, peak memory, start-up.

Usage: .venv/bin/python scripts/bench.py [--quick] [--json FILE]

For people who compare two commits on one machine; not a test, and figures of two machines say nothing about each other.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import zmq

from cosched_emulator.links import Link
from cosched_emulator.running import LINKS, coupling, prepare, run
from cosched_emulator.scenario import read_scenario
from cosched_plugin.config import choose
from cosched_plugin.protocol.codec import encode
from cosched_plugin.protocol.limits import MAGIC
from cosched_plugin.protocol.messages import Action, Actions, Event, Events, Welcome

PROJECT: Final = Path(__file__).resolve().parents[1]
SHARED: Final = ("--node", "lomarc-ht", "--contention", "lomarc", "--characteristics", "M1")
SLICED: Final = (
    "--node",
    "g-lomarc-2x2",
    "--contention",
    "statistical",
    "--self-slowdowns",
    "table4",
    "--grow",
    "--resume-s",
    "60",
)
# What is measured, and the machine for it: nodes of one processor, of one hyperthreaded processor under contention, or of two
# dual-core ones with time slices.
POLICIES: Final[dict[str, tuple[str, ...]]] = {
    "easy": (),
    "sjbf": (),
    "conservative": (),
    "pss": SHARED,
    "lomarc-r": SHARED,
    "ssp": SLICED,
    "glts": SLICED,
}
ARRIVALS: Final = (10.23, 9.83, 8.83)
MESSAGE_MS: Final = 30_000  # how long one message of the bare ping-pong may take
RUN_S: Final = 180.0  # how long one run may take before it is given up, and told as slower than that
COMMAND_S: Final = 60.0  # how long any other command may take
COMMANDS: Final = (
    "cosched_emulator --help",
    "cosched_emulator simulate --help",
    "cosched_emulator presets",
    "cosched_emulator simulate --lublin 1",
    "cosched_plugin --help",
    "cosched_plugin policies",
)
# A module that leaves its peak memory behind. (What the kernel tells a parent contains the parent's own, before exec.)
WATCHED_MODULE: Final = """
import atexit, runpy, sys
status = sys.argv[1]
del sys.argv[:2]
atexit.register(lambda: open(status, "w").write(open("/proc/self/status").read()))
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def python(*arguments: str, timeout_s: float = COMMAND_S) -> str:
    """Run Python with these arguments and return its standard output; SystemExit if it fails, TimeoutExpired if it is late."""
    done = subprocess.run(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        sys.exit(f"bench: exit code {done.returncode}: {' '.join(arguments[-8:])}\n{done.stderr}")
    return done.stdout


def direct(policy: str, aarr: float, jobs: int) -> dict[str, Any]:
    """Return jobs per second and peak memory of one run in a process of its own; nothing but the input if it takes too long."""
    row: dict[str, Any] = {"policy": policy, "aarr": aarr}
    with tempfile.TemporaryDirectory() as folder:
        out, status = Path(folder) / "run", Path(folder) / "status"
        workload = ("--lublin", str(jobs), "--aarr", str(aarr), "--nodes", "128", *POLICIES[policy])
        command = ("cosched_emulator", "simulate", *workload, "--policy", policy, "--json", "--out", str(out))
        try:
            machine = json.loads(python("-c", WATCHED_MODULE, str(status), *command, timeout_s=RUN_S))["machine"]
        except subprocess.TimeoutExpired:
            return row
        timing = json.loads((out / "timing.json").read_text())
        peak_kb = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return row | {
        "offered_load": machine["offered_load"],
        "mean_queue_length": machine["mean_queue_length"],
        "jobs_per_second": round(jobs / timing["wall_s"]),
        "peak_mb": round(peak_kb / 1024, 1),
    }


def show_direct(row: dict[str, Any], jobs: int) -> None:
    """Print one row of the table of direct runs."""
    what = f"{row['policy']:<14}{row['aarr']:>6}"
    if "jobs_per_second" not in row:
        print(f"{what}{'':>26}{f'< {jobs / RUN_S:,.0f}':>10}   given up after {RUN_S:.0f} s", flush=True)
        return
    load, queue = row["offered_load"], row["mean_queue_length"]
    print(f"{what}{load:>14.2f}{queue:>12,.0f}{row['jobs_per_second']:>10,}{row['peak_mb']:>9.0f}", flush=True)


class Watched:
    """A link that notes how long the exchanges of the link behind it take, and how many bytes they are on the wire."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.times_s: list[float] = []
        self.sizes: list[tuple[int, int]] = []

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Open the link behind."""
        self._link.open(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Pass a batch on."""
        began = time.perf_counter()
        actions = self._link.exchange(seq, now_us, events)
        self.times_s.append(time.perf_counter() - began)
        answer = Actions(seq, now_us, tuple(actions))
        self.sizes.append((len(encode(Events(seq, now_us, events))[-1]), len(encode(answer)[-1])))
        return actions

    def close(self) -> None:
        """Close the link behind."""
        self._link.close()


def couplings(jobs: int) -> dict[str, Any]:
    """Return what a batch costs through every coupling, beside a bare ping-pong of messages of the same sizes; medians."""
    scenario = read_scenario(None, {"workload": {"lublin": jobs}, "cluster": {"nodes": 128}})
    choice = choose("easy", ())
    prepared = prepare(scenario)
    us: dict[str, float] = {}
    sizes: list[tuple[int, int]] = []
    for kind in LINKS:
        with coupling(kind, choice, prepared) as link:
            watched = Watched(link)
            run(prepared, watched)
        us[kind] = statistics.median(watched.times_s) * 1e6
        sizes = watched.sizes
    us["bare"] = statistics.median(ping_pong(sizes)) * 1e6
    return {
        "batches": len(sizes),
        "median_bytes_out": statistics.median([out for out, _ in sizes]),
        "median_bytes_back": statistics.median([back for _, back in sizes]),
        "median_us": {kind: round(value, 1) for kind, value in us.items()},
        "zmq_over_bare": round(us["zmq"] / us["bare"], 2),
    }


def ping_pong(sizes: Sequence[tuple[int, int]]) -> list[float]:
    """Return the seconds of each round trip between two processes that do nothing but pass bytes of these sizes over ipc."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, zmq.Context() as context:
        endpoint = f"ipc://{folder}/socket"
        with _socket(context, zmq.ROUTER) as socket:
            socket.bind(endpoint)
            backs = [back for _, back in sizes]
            child = multiprocessing.get_context("spawn").Process(target=echo, args=(endpoint, backs), daemon=True)
            child.start()
            try:
                peer = socket.recv_multipart()[0]
                times_s = []
                for out, _ in sizes:
                    payload = bytes(out)
                    began = time.perf_counter()
                    socket.send_multipart([peer, MAGIC, payload])
                    socket.recv_multipart()
                    times_s.append(time.perf_counter() - began)
            finally:
                child.terminate()
                child.join(10)
    return times_s


def echo(endpoint: str, backs: Sequence[int]) -> None:
    """Answer every message with so many bytes."""
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


def start_up(command: str, times: int) -> dict[str, Any]:
    """Return the seconds that a command takes which has next to nothing to do: the median, and the least."""
    walls_s = []
    for _ in range(times):
        began = time.perf_counter()
        python("-m", *command.split())
        walls_s.append(time.perf_counter() - began)
    return {"command": command, "median_s": round(statistics.median(walls_s), 3), "least_s": round(min(walls_s), 3)}


def place() -> dict[str, Any]:
    """Return what the figures depend on besides the code, and which code it is."""

    def git(*arguments: str) -> str:
        try:
            return subprocess.check_output(
                ["git", "-C", str(PROJECT), *arguments], stderr=subprocess.DEVNULL, text=True, timeout=30
            ).strip()
        except (OSError, subprocess.SubprocessError):
            return ""

    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    return {
        "commit": git("rev-parse", "--short", "HEAD") or "unknown",
        "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
        "cpu": next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()),
        "cpus": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "zmq": zmq.zmq_version(),
    }  # fmt: skip


def show(header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table: the first column to the left, the others to the right."""
    table = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *rest in table:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        print("  ".join(cells))
    print(flush=True)


def main() -> None:
    """Measure, print, and write the figures as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs, fewer repetitions")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures there")
    options = parser.parse_args()
    jobs, repetitions = (1000, 3) if options.quick else (10_000, 9)

    figures: dict[str, Any] = {"machine": place(), "jobs": jobs}
    machine = figures["machine"]
    print(f"commit {machine['commit']}{' with changes' if machine['changed'] else ''}; {machine['cpu']}, {machine['cpus']} CPUs, load "
          f"{machine['load_average']}; Python {machine['python']}, numpy {machine['numpy']}, libzmq {machine['zmq']}\n")  # fmt: skip

    print(f"Direct: {jobs:,} jobs of the Lublin model, 128 nodes of one processor")
    print(f"{'policy':<14}{'AARR':>6}{'offered load':>14}{'mean queue':>12}{'jobs/s':>10}{'peak MB':>9}", flush=True)
    figures["direct"] = []
    for policy in POLICIES:
        for aarr in ARRIVALS:
            row = direct(policy, aarr, jobs)
            figures["direct"].append(row)
            show_direct(row, jobs)
    print()

    figures["couplings"] = found = couplings(jobs)
    out, back = found["median_bytes_out"], found["median_bytes_back"]
    print(f"A batch under easy, median of {found['batches']:,}; messages of {out:.0f} bytes out and {back:.0f} back")
    names = {
        "direct": "direct: the scheduler alone",
        "loopback": "loopback: and codec",
        "zmq": "zmq: two processes, ipc",
        "bare": "bare ping-pong of the same sizes",
    }
    show(("coupling", "us"), ((names[kind], value) for kind, value in found["median_us"].items()))
    print(f"zmq takes {found['zmq_over_bare']:.2f} times as long as a bare ping-pong\n")

    print(f"Start-up, {repetitions} times each")
    figures["start_up"] = [start_up(command, repetitions) for command in COMMANDS]
    show(
        ("command", "median s", "least s"),
        ((f"python -m {row['command']}", f"{row['median_s']:.3f}", f"{row['least_s']:.3f}") for row in figures["start_up"]),
    )  # fmt: skip

    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
