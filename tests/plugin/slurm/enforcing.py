"""A driver that enforces on a test bed, as a process of its own, and real jobs whose starts are known to the millisecond."""

from __future__ import annotations

import json
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.plugin.slurm.bed import BUSY, Bed
from tests.processes import ROOT, environment

from cosched_plugin.common.threads import each_node
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol.codec import decode
from cosched_plugin.protocol.limits import MAGIC
from cosched_plugin.protocol.messages import Actions, Events, StartJob, StartTogether, Welcome


class Enforcing:
    """The process; it can be killed and begun again."""

    def __init__(self, one: Bed, folder: Path, *options: str, keeps: bool = True) -> None:
        """``keeps``: whether it has a state, and records what it decides; seating guests it has none."""
        self.bed = one
        self.keeps = keeps
        self.folder = folder
        self.options = options
        self.runs = 0
        self.process: subprocess.Popen[str] | None = None

    @property
    def log(self) -> str:
        return "".join(file.read_text() for file in sorted(self.folder.glob("enforce-*.log")))

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return all batches and answers that were written so far."""
        files = sorted(self.folder.glob("record-*.jsonl"), key=lambda file: int(file.stem.split("-")[1]))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def begin(self) -> None:
        self.runs += 1
        command = [
            sys.executable, "-m", "cosched_plugin", "slurm", *self.bed.way, *self.options,
            *(["--state", str(self.folder / "state.sqlite"), "--record", str(self.folder / f"record-{self.runs:03d}.jsonl")]
              if self.keeps else []),
        ]  # fmt: skip
        with open(self.folder / f"enforce-{self.runs:03d}.log", "w") as stream:
            env = environment(ROOT, **self.bed.told)
            self.process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, text=True
            )

    def wait_for(self, words: str, seconds: float = 20.0) -> None:
        end = time.monotonic() + BUSY * seconds
        while words not in self.log:
            assert self.process is None or self.process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.02)

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout=40)


@contextmanager
def enforcing(one: Bed, folder: Path, *options: str) -> Iterator[Enforcing]:
    """Enforce until the end of the block; the driver must be alive then, and leave in order."""
    with driving(Enforcing(one, folder, *options), "decides for") as driver:
        yield driver


@contextmanager
def seating(one: Bed, folder: Path, *options: str) -> Iterator[Enforcing]:
    """Seat guests of partition co until the end of the block, likewise."""
    mode = ("--mode", "guests", "--guests", "co:guest")
    with driving(Enforcing(one, folder, *mode, *options, keeps=False), "guest beside co") as driver:
        yield driver


@contextmanager
def driving(driver: Enforcing, begun: str) -> Iterator[Enforcing]:
    """Begin a driver, and end it."""
    driver.begin()
    try:
        driver.wait_for(begun)
        yield driver
        assert driver.process is not None
        assert driver.process.poll() is None, driver.log
        assert driver.end() == 128 + signal.SIGTERM
    finally:
        if driver.process is not None and driver.process.poll() is None:
            driver.process.kill()
            driver.process.wait()


# ---------------------------------------------------------------- jobs that write down when they ran


def stamped(one: Bed, body: str) -> str:
    """Return a script that notes its start and end, by its own clock, on one line each."""
    note = f'echo "$SLURM_JOB_ID $1 $EPOCHREALTIME $SLURM_JOB_NODELIST" >> {one.folder}/stamps'
    return f"note() {{ {note}; }}\nnote start\n{body}\nnote end"


class Stamp(NamedTuple):
    starts: list[float]
    ends: list[float]
    nodes: str


def stamps(one: Bed) -> dict[int, Stamp]:
    found: dict[int, Stamp] = {}
    for line in (one.folder / "stamps").read_text().splitlines():
        job, what, at, nodes = line.split()
        stamp = found.setdefault(int(job), Stamp([], [], nodes))
        (stamp.starts if what == "start" else stamp.ends).append(float(at))
    return found


# ---------------------------------------------------------------- what the driver has written


def messages(record: dict[str, Any]) -> list[Any]:
    return [decode([MAGIC, bytes.fromhex(record[key])]) for key in ("welcome", "events", "actions") if key in record]


def replayed(records: Sequence[dict[str, Any]], policy: str) -> int:
    """Answer the recorded batches by fresh cores; the actions must be the recorded ones. Return how many batches there were."""
    core: SchedulerCore | None = None
    batches = 0
    for record in records:
        told = messages(record)
        if isinstance(told[0], Welcome):
            core = choose(policy).scheduler(told[0])
            continue
        events, actions = told
        assert isinstance(events, Events)
        assert isinstance(actions, Actions)
        assert core is not None
        assert tuple(core.handle(events.now_us, events.events)) == actions.actions, events
        core.check()
        batches += 1
    return batches


def decisions(records: Sequence[dict[str, Any]]) -> Iterator[tuple[int, StartJob]]:
    """Yield every start that was decided, and when."""
    for record in records:
        for message in messages(record):
            if not isinstance(message, Actions):
                continue
            for action in message.actions:
                for start in action.starts if isinstance(action, StartTogether) else (action,):
                    if isinstance(start, StartJob):
                        yield message.now_us, start


def decided(records: Sequence[dict[str, Any]]) -> dict[int, list[float]]:
    """Return when each job's start was decided, in seconds, by job."""
    found: dict[int, list[float]] = {}
    for now_us, start in decisions(records):
        found.setdefault(start.job_id, []).append(now_us / 1e6)
    return found


def planned(records: Sequence[dict[str, Any]]) -> dict[int, list[str]]:
    """Return the nodes of each job's last start, as decided."""
    return {start.job_id: [f"n{node}" for node, _ in each_node(start.runs)] for _, start in decisions(records)}


def latencies_ms(driver: Enforcing) -> tuple[float, float, float]:
    """Return median, 95th percentile and maximum from decision to the first line of the job's script."""
    begun, plans = stamps(driver.bed), decided(driver.records)
    gaps = sorted((stamp.starts[-1] - plans[job][-1]) * 1000 for job, stamp in begun.items() if job in plans)
    assert gaps
    return statistics.median(gaps), gaps[int(0.95 * (len(gaps) - 1))], gaps[-1]


def most_on_a_node(one: Bed) -> dict[str, int]:
    """Return how many jobs each node had at once, at most, by the jobs' own clocks."""
    changes: dict[str, list[tuple[float, int]]] = {}
    for stamp in stamps(one).values():
        for node in nodes_in(stamp.nodes):
            for begin, end in zip(stamp.starts, stamp.ends, strict=False):
                changes.setdefault(node, []).extend([(begin, 1), (end, -1)])
    most: dict[str, int] = {}
    for node, moments in changes.items():
        now = 0
        for _, change in sorted(moments):
            now += change
            most[node] = max(most.get(node, 0), now)
    return most


def neighbours(one: Bed, job: int) -> set[int]:
    """Return the jobs that were on a node of a job while it was there, by the jobs' own clocks."""
    ran = stamps(one)
    mine = ran[job]
    found = set()
    for number, other in ran.items():
        met = other.starts[-1] < mine.ends[-1] and mine.starts[-1] < other.ends[-1]
        if met and number != job and set(nodes_in(other.nodes)) & set(nodes_in(mine.nodes)):
            found.add(number)
    return found


def nodes_in(text: str) -> list[str]:
    found = re.fullmatch(r"n(\d+)|n\[(.*)\]", text)
    assert found, text
    if found[1]:
        return [f"n{found[1]}"]
    spans = [span.partition("-") for span in found[2].split(",")]
    return [f"n{number}" for low, _, high in spans for number in range(int(low), int(high or low) + 1)]
