"""A scheduler that sums estimates, in this process or its own, and a minimal manager for a link."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.processes import Forked, ended
from tests.runs import runs_on

from cosched_emulator.couplings.link import Link
from cosched_emulator.couplings.scheduler_port import SchedulerPort
from cosched_emulator.couplings.spawned_plugin import ENDPOINT, SpawnedPlugin
from cosched_emulator.couplings.zmq_link import ZmqLink
from cosched_plugin.protocol import messages as m
from cosched_plugin.server import serve

NODE = m.NodeClass(4, 1, 4, 1, 1, 1, 1, 1)
# A scheduler with state that a restart must rebuild: the sum of all estimates so far. Its arguments select further behaviour.
SCRIPT = """
import os, sys, time
from cosched_plugin.common.errors import PluginError, PolicyError
from cosched_plugin.protocol.messages import JobSubmitted, SetNote, StartJob
from cosched_plugin.server import serve

endpoint, wait_s, silence_s, trouble = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]

class Summing:
    def __init__(self, welcome):
        self.sum_us = sum(note.value for note in welcome.notes)
        if "unable" in trouble:
            raise ValueError("cannot do with this machine")

    def handle(self, now_us, events):
        actions = []
        for event in events:
            if isinstance(event, JobSubmitted):
                job = event.job
                self.sum_us += job.estimate_us
                if "policy" in trouble:
                    raise PolicyError("start job 1", "there is no job 1")
                if job.name in trouble:
                    print("hanging", file=sys.stderr, flush=True)
                    time.sleep(60)
                actions.append(StartJob(job.id, ((0, 1, 1, 1),), self.sum_us, job.limit_us))
                actions.append(SetNote(None, "sum_us", self.sum_us))
        return actions

def log(text):
    print(text, file=sys.stderr, flush=True)

try:
    sys.exit(serve(endpoint, Summing, policy_name="summing", wait_s=wait_s, silence_s=silence_s, log=log))
except PluginError as error:
    log(f"error: {error}")
    sys.exit(error.exit_code)
"""


class Summing:
    """The summing scheduler in this process."""

    def __init__(self, welcome: m.Welcome) -> None:
        self.sum_us = 0
        for note in welcome.notes:
            assert isinstance(note.value, int)
            self.sum_us += note.value

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        actions: list[m.Action] = []
        for event in events:
            if isinstance(event, m.JobSubmitted):
                self.sum_us += event.job.estimate_us
                actions.append(m.StartJob(event.job.id, runs_on((0, 1, 1, 1)), self.sum_us, event.job.limit_us))
                actions.append(m.SetNote(None, "sum_us", self.sum_us))
        return actions


class Manager:
    """A minimal manager for a link: it commits after each exchange."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.seq = 0
        self.sum_us = 0
        self.replies: list[tuple[m.Action, ...]] = []

    def inventory(self) -> m.Welcome:
        notes = (m.Note(None, "sum_us", self.sum_us),) if self.seq else ()
        belief = m.Belief("none", "bulk-synchronous", ())
        return m.Welcome(0, m.FEATURES, self.seq, self.seq * 1_000, (NODE,), (), belief, (), (), notes, ())

    def step(self, name: str = "") -> None:
        seq = self.seq + 1
        events: tuple[m.Event, ...] = (
            m.JobSubmitted(m.JobSpec(seq, seq * 1_000, 1, seq * 7, None, "ada", name)),
            m.JobEnded(seq, m.COMPLETED),
        )
        actions = tuple(self.link.exchange(seq, seq * 1_000, events))
        self.seq = seq
        self.sum_us += seq * 7
        self.replies.append(actions)


def expected(steps: int) -> list[tuple[m.Action, ...]]:
    sums = [7 * seq * (seq + 1) // 2 for seq in range(1, steps + 1)]
    return [
        (m.StartJob(seq, runs_on((0, 1, 1, 1)), total, None), m.SetNote(None, "sum_us", total))
        for seq, total in enumerate(sums, 1)
    ]


@contextmanager
def linked(
    endpoint: str, deadline_s: float = 10, wait_s: float = 10, **settings: Any
) -> Iterator[tuple[ZmqLink, Manager]]:
    """Yield a link at an endpoint, and a manager for it; close the link in the end."""
    link = ZmqLink(SchedulerPort(endpoint, **settings), deadline_s=deadline_s, wait_s=wait_s)
    try:
        yield link, Manager(link)
    finally:
        link.close()


@contextmanager
def to_child(plugin: SpawnedPlugin, deadline_s: float = 10, wait_s: float = 10) -> Iterator[tuple[ZmqLink, Manager]]:
    """Yield a link to a scheduler of its own process, and a manager for it."""
    child: dict[str, Any] = {"child": lambda: plugin.process, "diagnose": plugin.stderr_tail}
    with linked(plugin.endpoint, deadline_s, wait_s, **child) as both:
        yield both


def tend(link: ZmqLink, seconds: float) -> None:
    """Let the link process messages for some time, without an exchange."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        link.port.receive()


def words_of(child: Forked) -> tuple[int, str]:
    """Return a child's exit code and output."""
    ran = ended(child, 15)
    return ran.code, ran.err


def spawn_argv(script: Path, *trouble: str) -> list[str]:
    return [sys.executable, str(script), ENDPOINT, "10", "10", *trouble]


def serve_here(endpoint: str, wait_s: float = 10, silence_s: float = 10) -> int:
    return serve(endpoint, Summing, policy_name="summing", wait_s=wait_s, silence_s=silence_s, log=lambda _: None)
