"""A small machine with running, pending and held jobs, and cores with scripted policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.runs import runs_on

from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.protocol import messages as m

NOW_US = 1000
NODES = (m.NodeClass(2, 1, 2, 1, 16, 6000, 0, 0), m.NodeClass(1, 1, 1, 1, 8, 6000, 0, 0))
RUNNING = m.JobSpec(1, 0, 1, 500, None)
PLAIN = m.JobSpec(2, 10, 2, 100, None, demand=(1000, 0, 0))
LIMITED = m.JobSpec(3, 20, 1, 100, 200, memory_mb=8)
HELD = m.JobSpec(4, 30, 1, 100, None)
WHOLE = m.JobSpec(5, 40, 1, 100, None, exclusive=True)
WELCOME = m.Welcome(
    version=m.PROTOCOL_VERSION,
    features=m.FEATURES,
    seq=7,
    now_us=NOW_US,
    nodes=NODES,
    down=(),
    belief=m.Belief("bandwidth", "bulk-synchronous", ("memory_bandwidth",)),
    running=(m.RunningJob(RUNNING, 900, runs_on((0, 1, 1, 1)), 500, None),),
    pending=(
        m.PendingJob(WHOLE, False),
        m.PendingJob(PLAIN, False),
        m.PendingJob(LIMITED, False),
        m.PendingJob(HELD, True),
    ),
    notes=(m.Note(2, "seen", 3), m.Note(4, "seen", 1), m.Note(None, "level", "high")),
    wakes=(5000,),
)
START_PLAIN = m.StartJob(2, runs_on((1, 1, 3, 2)), 100, None)
START_LIMITED = m.StartJob(3, runs_on((2, 1, 1, 1)), 150, 200)


class Scripted:
    """A policy that makes the given decisions in one pass, and then nothing more."""

    def __init__(self, decisions: Sequence[m.Action] = ()) -> None:
        self.decisions = list(decisions)

    def decide(self, view: View) -> Iterator[m.Action]:
        while self.decisions:
            yield self.decisions.pop(0)


def core_with(*decisions: m.Action, welcome: m.Welcome = WELCOME) -> SchedulerCore:
    return SchedulerCore(Scripted(decisions), welcome)


def looks(core: SchedulerCore) -> dict[str, Any]:
    """Return everything that a policy can see."""
    view = core.view
    return {
        "queue": view.queue,
        "running": dict(view.running),
        "releases": list(view.releases),
        "free": view.free,
        "threads": view.free_threads,
        "in_service": view.in_service,
        "memory": list(view.free_memory_mb),
        "wakes": list(view.wakes()),
        "plan": list(view.availability()),
        "notes": {(job, key): view.note(job, key) for job in (None, 1, 2, 3, 4, 5) for key in ("seen", "level", "new")},
    }


def after(*events: m.Event, welcome: m.Welcome = WELCOME) -> SchedulerCore:
    """Return a core that has processed these events and decided nothing."""
    core = core_with(welcome=welcome)
    assert core.handle(NOW_US, events) == []
    core.check()
    return core


def ids(core: SchedulerCore) -> list[int]:
    return [job.id for job in core.view.queue]
