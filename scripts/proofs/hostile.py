"""Let one hostile user do its worst to a live manager while an honest one works, and print what the honest one notices.

Usage: .venv/bin/python -m scripts.proofs.hostile [--seconds 600] [--descriptors N] [--json OUT]

The hostile user keeps 200 connections with four large questions pending on each, submits and cancels arrays of 10,000 held tasks
with 99 dependencies each, and opens 4 x 6,000 connections again and again; the scheduler is stopped for nine seconds of ten. Only
root can be two other users at an ipc endpoint. Exit code 0 if the manager is alive, the honest user's p99 is under 250 ms, and the
manager's memory in the last minute is within 10 % of that in the second one (medians; in a short run of its last quarter, and of one
after half of it).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import zmq
from scripts.processes import Programs, environment
from scripts.progress import Progress

from cosched_emulator.errors import EmulatorError
from cosched_emulator.users import requests as r
from cosched_emulator.users.client import ManagerConnection, SilenceError
from cosched_plugin.protocol.messages import JobSpec

MANAGER, SCHEDULER, HONEST = "manager", "scheduler", "honest"
HOSTILE_UID, HONEST_UID = 65_534, 65_533
CONNECTIONS, PENDING = 200, 4
CROWDS, CROWD = 4, 6_000
TASKS, LINKS = 10_000, 99
HONEST_EVERY_S: Final = 0.05
PERIOD_S, STOPPED_S = 10.0, 9.0  # of the scheduler
LOOK_S: Final = 0.5
MOST_P99_MS: Final = 250.0
FLAT: Final = 1.1
MINUTE_US: Final = 60_000_000
QUESTIONS: Final[tuple[r.Request, ...]] = (
    r.ShowJobs(tuple(r.Target(10**9 + number) for number in range(TASKS))),
    r.ListJobs("no-such-user"),
    r.ShowJobs(tuple(r.Target(1 + number) for number in range(TASKS))),
    r.ListJobs(),
    r.ListHistory(most=10_000),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--descriptors", type=int, help="the manager's limit of file descriptors")
    parser.add_argument("--json", metavar="OUT", help="also write the report there")
    parser.add_argument("--act", choices=tuple(ACTS), help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if os.geteuid():
        parser.error("only root can be two other users")
    if options.act:
        os.setgroups([])
        os.setuid(HONEST_UID if options.act == HONEST else HOSTILE_UID)
        ACTS[options.act](options.endpoint, time.monotonic() + options.seconds)
        return 0
    with tempfile.TemporaryDirectory(prefix="cosched-hostile-") as folder:
        Path(folder).chmod(0o755)
        report = attack(Path(folder), options.seconds, options.descriptors)
    print(json.dumps(report, indent=2))
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0 if report["held"] else 1


# ------------------------------------------------------------ the hostile user


def ask_too_much(endpoint: str, until_s: float) -> None:
    """Keep large questions pending on many connections."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    poller = zmq.Poller()
    frames = cycle([r.encode_request(question, 1) for question in QUESTIONS])
    sockets = []
    for _ in range(CONNECTIONS):
        dealer = context.socket(zmq.DEALER)
        dealer.linger = 0
        dealer.connect(endpoint)
        poller.register(dealer, zmq.POLLIN)
        sockets.append(dealer)
    again_s = 0.0
    while time.monotonic() < until_s:
        if time.monotonic() >= again_s:  # unanswered ones were dropped
            again_s = time.monotonic() + 2.0
            for dealer in sockets:
                for _ in range(PENDING):
                    _send(dealer, next(frames))
        for dealer, _ in poller.poll(100):
            dealer.recv_multipart()
            _send(dealer, next(frames))
    context.destroy(0)


def _send(dealer: zmq.Socket[bytes], frames: list[bytes]) -> None:
    with contextlib.suppress(zmq.Again):
        dealer.send_multipart(frames, zmq.NOBLOCK)


def submit_arrays(endpoint: str, until_s: float) -> None:
    """Submit and cancel large arrays of held tasks with many dependencies; keep as many jobs as the manager takes."""
    array = r.SubmitJob(JobSpec(0, 0, 1, MINUTE_US, name="x" * 128), tasks=tuple(range(TASKS)), held=True)
    firsts: list[int] = []
    with ManagerConnection(endpoint, 30.0) as connection:
        while time.monotonic() < until_s:
            after = tuple(r.Dependency("afterany", job) for job in firsts[:LINKS])
            for request in (array._replace(after=after), array):
                answer = _ask(connection, request)
                if isinstance(answer, r.Done):
                    jobs = answer.result["job_ids"]
                    firsts = list(jobs[-LINKS:])
                    _ask(connection, r.CancelJobs((r.Target(jobs[0]),)))


def _ask(connection: ManagerConnection, request: r.Request) -> Any:
    try:
        return connection.ask(request)
    except (SilenceError, EmulatorError):
        return None


def open_connections(endpoint: str, until_s: float) -> None:
    """Open many connections at once, keep them for a second, and begin again."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    while time.monotonic() < until_s:
        crowd = []
        for _ in range(CROWD):
            each = socket.socket(socket.AF_UNIX)
            each.setblocking(False)
            crowd.append(each)
            with contextlib.suppress(OSError):
                each.connect(endpoint.removeprefix("ipc://"))
        time.sleep(1.0)
        for each in crowd:
            each.close()


# ------------------------------------------------------------ the honest user


def work(endpoint: str, until_s: float) -> None:
    """Ask, submit and cancel as a person and its scripts do; print how long each answer took."""
    took_ms: dict[str, list[float]] = {}
    refused: Counter[str] = Counter()
    mine: list[int] = []
    with ManagerConnection(endpoint, 10.0, awaits_manager=True) as connection:
        for number in range(10**9):
            began_s = time.monotonic()
            if began_s >= until_s:
                break
            request: r.Request = (
                r.ListJobs(str(HONEST_UID)),
                r.SubmitJob(JobSpec(0, 0, 1, MINUTE_US), held=True),
                r.ShowStatus(),
                r.CancelJobs((r.Target(mine[-1] if mine else 1),)),
            )[number % 4]
            try:
                answer = connection.ask(request)
            except SilenceError:
                refused["silence"] += 1
            else:
                if isinstance(answer, r.Done):
                    mine = list(answer.result.get("job_ids", mine))
                else:
                    refused[f"{type(request).__name__}: {answer.code}"] += 1
            took_ms.setdefault(type(request).__name__, []).append((time.monotonic() - began_s) * 1000)
            time.sleep(max(0.0, HONEST_EVERY_S - (time.monotonic() - began_s)))
    every = sorted(each for some in took_ms.values() for each in some)
    figures = {"requests": len(every), "p50_ms": _part(every, 0.5), "p99_ms": _part(every, 0.99), "most_ms": every[-1]}
    by_kind = {kind: _part(sorted(some), 0.99) for kind, some in took_ms.items()}
    print(json.dumps({**figures, "p99_ms_by_kind": by_kind, "refused": refused}))


def _part(ordered: list[float], part: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 1)


ACTS: Final = {"ask": ask_too_much, "arrays": submit_arrays, "connect": open_connections, HONEST: work}


# ------------------------------------------------------------ the whole


def attack(folder: Path, seconds: float, descriptors: int | None) -> dict[str, Any]:
    """Return what became of the manager and of the honest user."""
    users, scheduler = f"ipc://{folder}/u", f"ipc://{folder}/s"
    programs = Programs(folder, environment())
    with programs:
        places = ("--users", users, "--bind", scheduler, "--db", str(folder / "a.db"))
        programs.start(MANAGER, "cosched_emulator", "serve", "--clock", "real", "--nodes", "16", *places)
        if descriptors is not None:
            resource.prlimit(programs[MANAGER].pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
        programs.start(SCHEDULER, "cosched_plugin", "serve", "--connect", scheduler, "--policy", "fcfs")
        with ManagerConnection(users, 30.0) as connection:
            connection.ask(r.ShowStatus())
        for number, act in enumerate(("ask", "arrays", *["connect"] * CROWDS, HONEST)):
            name = act if act == HONEST else f"{act}-{number}"
            there = ("--endpoint", users, "--seconds", str(seconds))
            programs.start(name, "scripts.proofs.hostile", "--act", act, *there)
        memory_mb, most_open = _watch(programs, seconds)
        alive = programs[MANAGER].poll() is None
        if alive:
            programs[HONEST].wait(60)
        said = (folder / f"{HONEST}.log").read_text(encoding="utf-8").splitlines()
        written_mb = sum(each.stat().st_size for each in folder.glob("a.db*")) / 2**20
        log = (folder / f"{MANAGER}.log").read_text(encoding="utf-8", errors="replace")[-1000:]
    honest = json.loads(said[-1]) if alive and said else None
    minute = min(len(memory_mb) // 2, round(60 / LOOK_S))
    span = max(1, min(len(memory_mb) // 4, minute))
    early, late = (statistics.median(some or [0.0]) for some in (memory_mb[minute : minute + span], memory_mb[-span:]))
    return {
        "held": honest is not None and honest["p99_ms"] < MOST_P99_MS and late <= FLAT * early,
        "alive": alive,
        "seconds": seconds,
        "honest": honest,
        "memory_mb": {
            "second minute": round(early, 1),
            "last minute": round(late, 1),
            "most": max(memory_mb, default=0.0),
        },
        "descriptors": {"most": most_open, "limit": descriptors},
        "database_mb": round(written_mb, 1),
        "log": log,
    }


def _watch(programs: Programs, seconds: float) -> tuple[list[float], int]:
    """Stop and continue the scheduler; return the manager's memory over time, and its most descriptors."""
    began_s = time.monotonic()
    memory_mb: list[float] = []
    most_open, progress = 0, Progress()
    manager = programs[MANAGER]
    while (passed_s := time.monotonic() - began_s) < seconds and manager.poll() is None:
        stopped = passed_s % PERIOD_S > PERIOD_S - STOPPED_S
        programs[SCHEDULER].send_signal(signal.SIGSTOP if stopped else signal.SIGCONT)
        with contextlib.suppress(OSError):
            most_open = max(most_open, len(os.listdir(f"/proc/{manager.pid}/fd")))
            memory_mb.append(programs.memory_mb(MANAGER))
        progress.bar(round(passed_s), round(seconds), f"s, {memory_mb[-1]:.0f} MB" if memory_mb else "s")
        time.sleep(LOOK_S)
    progress.clear()
    programs[SCHEDULER].send_signal(signal.SIGCONT)
    return memory_mb, most_open


if __name__ == "__main__":
    sys.exit(main())
