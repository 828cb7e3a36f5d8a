"""Millions of damaged messages to every endpoint, while honest users and an honest scheduler continue.

Usage: .venv/bin/python -m scripts.proofs.fuzz [--endpoint NAME ...] [--messages N] [--seed N] [--json FILE]

Real processes: a live manager that checks all its invariants after every step, a scheduler, a client that submits, cancels and
asks, and a peer that sends invalid messages. It fails if a process dies or hangs, if a job is lost, or if memory grows.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from scripts.processes import PROJECT, Programs, environment
from scripts.progress import Progress
from scripts.proofs.fuzz_inside import INSIDE
from scripts.proofs.fuzz_peers import SOCKETS
from scripts.proofs.fuzz_plugin import plugin_lives

from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import CancelJobs, Done, ListJobs, Refused, ShowJobs, SubmitJob, Target
from cosched_hwmodel.draws import key, uniform
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.curve import write_keys
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.status_server import ask_status

ENDPOINTS: Final = ("users", "scheduler", "hostile", "plugin", "status")
CALM_S: Final = 2.0  # seconds of honest traffic alone, before the fuzzing
CALM_REQUESTS: Final = 25  # answered in that time, which a busy machine makes longer
PAUSE_S: Final = 0.05  # between an honest client's requests
ANSWER_S: Final = 10.0
END_S: Final = 60.0  # deadline for the end of honest jobs
MOST_GROWTH_MB: Final = 16.0
WARM: Final = 0.2  # of the messages: before them, memory may grow
MOST_ALIVE: Final = 500  # honest jobs: no hostile scheduler starts them, and each welcome names them
LIVES_EVERY: Final = 5_000  # messages inside for each life of a real scheduler's process


class FuzzError(Exception):
    """A check failed."""


class Site:
    """A manager and a scheduler, in a folder of their own."""

    def __init__(self, folder: Path, speed: float = 100.0) -> None:
        self.scheduler_endpoint = f"ipc://{folder}/scheduler"
        self.users_endpoint = f"ipc://{folder}/users"
        self.status_endpoint = f"ipc://{folder}/status"
        self.programs = Programs(folder, environment())
        self._speed = speed

    def start_manager(self, *more: str) -> None:
        machine = ("--nodes", "8", "--clock", "scaled", "--speed", f"{self._speed:g}", "--check")
        self.programs.start("manager", "cosched_emulator", "serve", *machine, "--bind", self.scheduler_endpoint, *more)

    def start_plugin(self) -> None:
        where = ("--connect", self.scheduler_endpoint, "--status", self.status_endpoint)
        self.programs.start("plugin", "cosched_plugin", "serve", *where, "--quiet")

    def check(self) -> None:
        """Raise FuzzError if a process has ended."""
        for name, code in self.programs.exit_codes().items():
            raise FuzzError(f"the {name} ended with {code}; {self.programs.tail()}")


class Traffic(threading.Thread):
    """An honest client: submits, cancels, queries, and measures the time of each answer."""

    def __init__(self, site: Site, seed: int, keys: Sequence[str] = ()) -> None:
        super().__init__(daemon=True)
        self._site = site
        self._seed = seed
        self._keys = keys
        self._over = threading.Event()
        self._calm = True
        self.jobs: list[int] = []
        self._alive = 0  # jobs, by the last listing
        self.latencies_s: dict[bool, list[float]] = {True: [], False: []}  # before, and while it is not calm
        self.trouble: Exception | None = None

    def run(self) -> None:
        try:
            with ManagerConnection(self._site.users_endpoint, ANSWER_S, *self._keys) as connection:
                number = 0
                while not self._over.wait(PAUSE_S):
                    number += 1
                    self._ask(connection, number)
        except Exception as error:
            self.trouble = error

    def begin_measuring(self) -> None:
        """Measure under fire from now on."""
        self._calm = False

    def check(self) -> None:
        """Raise FuzzError if an answer was missing or invalid."""
        if self.trouble is not None:
            raise FuzzError(f"the honest client failed: {self.trouble!r}")

    def stop(self) -> Counter[str]:
        """End, wait until all jobs have ended, and return how many in which state; FuzzError when some do not."""
        self._over.set()
        self.join(2 * ANSWER_S)
        self.check()
        with ManagerConnection(self._site.users_endpoint, ANSWER_S, *self._keys) as connection:
            deadline = time.monotonic() + END_S
            while True:
                left = [row[0] for row in connection.result(ListJobs())["rows"]]
                if not set(left) & set(self.jobs):
                    break
                if time.monotonic() > deadline:
                    raise FuzzError(f"jobs have not ended: {left}")
                if time.monotonic() > deadline - END_S / 2:  # some may have been suspended by a scheduler that is gone
                    mine = sorted(set(left) & set(self.jobs))
                    connection.ask(CancelJobs(tuple(Target(job_id) for job_id in mine)))
                self._site.check()
                time.sleep(0.2)
            states: Counter[str] = Counter()
            for first in range(0, len(self.jobs), 500):
                shown = connection.result(ShowJobs(tuple(Target(job_id) for job_id in self.jobs[first : first + 500])))
                states.update([job["state"] for job in shown["jobs"]])
        if states.total() != len(self.jobs):
            raise FuzzError(f"{len(self.jobs)} jobs were submitted, {states.total()} are known")
        return states

    def latency_ms(self, *, calm: bool) -> dict[str, float]:
        found = sorted(self.latencies_s[calm])
        if not found:
            return {}
        ranks = {"p50": 0.5, "p99": 0.99, "max": 1.0}
        told = {name: found[min(len(found) - 1, int(part * len(found)))] for name, part in ranks.items()}
        return {"requests": len(found), **{name: round(1_000 * value, 1) for name, value in told.items()}}

    def _ask(self, connection: ManagerConnection, number: int) -> None:
        draw = uniform(self._seed, "traffic", number)
        run_us = round((5 + 30 * uniform(self._seed, "run", number)) * SECOND_US)
        request: Any = ListJobs()
        if draw < 0.6 and self._alive < MOST_ALIVE:
            size = 1 + key(self._seed, "size", number) % 4
            request = SubmitJob(JobSpec(0, 0, size, 2 * run_us, 3 * run_us, name="honest"), run_us)
        elif draw < 0.7 and self.jobs:
            request = CancelJobs((Target(self.jobs[-1]),))
        began_s = time.monotonic()
        answer = connection.ask(request)
        if number > 1:  # the first has waited for the manager's start
            self.latencies_s[self._calm].append(time.monotonic() - began_s)
        if isinstance(answer, Refused):
            if answer.code != "missing":  # the job has ended by itself
                raise FuzzError(f"an honest request was refused: {answer}")
        elif isinstance(request, SubmitJob) and isinstance(answer, Done):
            self.jobs += answer.result["job_ids"]
        elif isinstance(request, ListJobs) and isinstance(answer, Done):
            self._alive = len(answer.result["rows"])


def outside(endpoint: str, count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Send messages to an endpoint of real processes while honest traffic goes on; return the figures."""
    site = Site(folder)
    keys: dict[str, list[str]] = {}
    if endpoint == "users":  # each user has a limited rate of requests, so the fuzzing peers use many other users
        keys = _keys(folder)
        site.users_endpoint = f"tcp://127.0.0.1:{_free_port()}"
        site.start_manager("--users", site.users_endpoint, "--keys", str(folder / "keys"))
    else:
        site.start_manager("--users", site.users_endpoint)
    with site.programs:
        return _storm(site, endpoint, count, seed, keys)


def _storm(site: Site, endpoint: str, count: int, seed: int, keys: dict[str, list[str]]) -> dict[str, Any]:
    hostile = endpoint == "hostile"
    if not hostile:
        site.start_plugin()
    traffic = Traffic(site, seed, keys.get("honest", ()))
    traffic.start()
    _pass(CALM_S, site, traffic)
    address = {"users": site.users_endpoint, "status": site.status_endpoint}.get(endpoint, site.scheduler_endpoint)
    watched = "plugin" if endpoint == "status" else "manager"
    before_mb = site.programs.memory_mb(watched)
    traffic.begin_measuring()
    progress = Progress()
    arguments = [endpoint, address, str(count), str(seed), *keys.get("strangers", ())]
    with _peer(arguments) as told:
        for line in told:
            site.check()
            traffic.check()
            if line.startswith("{"):
                found = json.loads(line)
            elif line:
                progress.bar(int(line), count, endpoint)
                if int(line) < WARM * count:
                    before_mb = site.programs.memory_mb(watched)
    progress.clear()
    after_mb = site.programs.memory_mb(watched)
    if hostile:
        site.start_plugin()
    states = traffic.stop()
    if endpoint == "status":
        ask_status(site.status_endpoint, ANSWER_S)
    site.check()
    # Without a database, ended jobs are kept in memory: this much each.
    if after_mb - before_mb > MOST_GROWTH_MB:
        raise FuzzError(f"the {watched} grew from {before_mb:.1f} to {after_mb:.1f} MB")
    return {
        "messages": count,
        **found,
        "memory_mb": [round(before_mb, 1), round(after_mb, 1)],
        "latency_ms": {"before": traffic.latency_ms(calm=True), "during": traffic.latency_ms(calm=False)},
        "jobs": dict(sorted(states.items())),
    }


def _pass(seconds: float, site: Site, traffic: Traffic) -> None:
    began = time.monotonic()
    while time.monotonic() < began + seconds or len(traffic.latencies_s[True]) < CALM_REQUESTS:
        if time.monotonic() > began + seconds + ANSWER_S:
            raise FuzzError(f"fewer than {CALM_REQUESTS} honest requests were answered within {seconds + ANSWER_S:g} s")
        site.check()
        traffic.check()
        time.sleep(0.05)


@contextmanager
def _peer(arguments: Sequence[str]) -> Iterator[Iterator[str]]:
    """Yield the lines of output of a peer's process, empty ones while it prints nothing; FuzzError if it fails."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scripts.proofs.fuzz_peers", *arguments], cwd=PROJECT, env=environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        yield _lines(process)
        _, said = process.communicate(timeout=ANSWER_S)
        if process.returncode:
            raise FuzzError(f"the peer failed: {said[-2_000:]}")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(0.5):
                yield ""
                continue
            line = process.stdout.readline()
            if not line:
                return
            yield line.strip()


def _keys(folder: Path) -> dict[str, list[str]]:
    """Make a keyring; return the honest user's secret key and the manager's public one, and the latter with the strangers' own."""
    ring = folder / "keys"
    manager, _ = write_keys(ring, "manager")
    for role in ("plugins", "users", "operators"):
        (ring / role).mkdir()
    own = []
    for name in ("honest", *[f"stranger-{number}" for number in range(SOCKETS)]):
        public, secret = write_keys(folder / "own", name)
        (ring / "users" / public.name).write_bytes(public.read_bytes())
        own.append(str(secret))
    return {"honest": [own[0], str(manager)], "strangers": [str(manager), *own[1:]]}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def inside(endpoint: str, count: int, seed: int) -> dict[str, Any]:
    """Send messages to one end in this process; return the figures."""
    progress = Progress()
    began_s = time.monotonic()
    found = INSIDE[endpoint](count, seed, lambda number: progress.bar(number, count, f"{endpoint}, inside"))
    progress.clear()
    return {"messages": count, "seconds": round(time.monotonic() - began_s, 1), **dict(sorted(found.items()))}


def fuzz(endpoint: str, count: int, seed: int) -> dict[str, Any]:
    """Fuzz an endpoint in all ways, and return the figures; FuzzError if a check fails."""
    figures: dict[str, Any] = {}
    within = {"hostile": "scheduler", "status": None}.get(endpoint, endpoint)
    if within is not None and endpoint != "scheduler":
        figures["inside"] = inside(within, count, seed)
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir="/tmp") as folder:
        if endpoint == "plugin":
            lives = max(3, count // LIVES_EVERY)
            progress = Progress()
            figures["processes"] = plugin_lives(
                lives, seed, Path(folder), environment(), lambda number: progress.bar(number, lives, "plugin's lives")
            )
            progress.clear()
        else:
            figures["processes"] = outside(endpoint, count, seed, Path(folder))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--endpoint", action="append", choices=ENDPOINTS, help="may be repeated  [default: all]")
    parser.add_argument(
        "--messages", type=int, default=1_000_000, metavar="N", help="to each endpoint  [default: 1000000]"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    failed = False
    for endpoint in options.endpoint or ENDPOINTS:
        try:
            figures[endpoint] = fuzz(endpoint, options.messages, options.seed)
        except Exception as error:  # after any error, continue with the other endpoints
            failed = True
            traceback.print_exc()
            figures[endpoint] = {"failed": str(error)}
        print(f"{endpoint}: {json.dumps(figures[endpoint])}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
