"""The policy's view of ended jobs: which, in which state, and for how long they made progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.plugin.core.parts import NODES, NOW_US, WELCOME
from tests.runs import runs_on

from cosched_hwmodel.units import NodeSet
from cosched_plugin.api import Ended
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.virtual_machine import VirtualMachine
from cosched_plugin.core.views.whole_nodes import WholeNodesView
from cosched_plugin.protocol import messages as m

# Job 1 has run without a break; 2 was suspended for 30 us; 3 is suspended since 980; 4 is on disk since 960; 5 is returning
# from disk up to 1040. One microsecond after NOW_US, which is 1000, they all are gone.
JOBS = {number: m.JobSpec(number, 0, 1, 100 * number, None) for number in range(1, 6)}
SITE = WELCOME._replace(
    nodes=tuple(item._replace(swap_mb=100) for item in NODES),
    running=(
        m.RunningJob(JOBS[1], 900, runs_on((0, 1, 1, 1)), 500, None),
        m.RunningJob(JOBS[2], 900, runs_on((0, 1, 2, 1)), 500, None, idle_us=30),
        m.RunningJob(JOBS[3], 900, runs_on((1, 1, 1, 1)), 500, None, suspended_us=980),
        m.RunningJob(JOBS[4], 900, runs_on((1, 1, 2, 1)), 500, None, suspended_us=960, on_disk=True),
        m.RunningJob(JOBS[5], 900, runs_on((2, 1, 1, 1)), 500, None, idle_us=90, ready_us=1040),
    ),
    pending=(m.PendingJob(m.JobSpec(6, 10, 1, 100), False), m.PendingJob(m.JobSpec(7, 10, 1, 100), True)),
    notes=(),
    wakes=(),
)
PROGRESS_US = {1: 101, 2: 71, 3: 80, 4: 60, 5: 50}
ALL_LEAVE = (
    m.JobEnded(5, m.TIMEOUT),
    m.JobEnded(1, m.COMPLETED),
    m.NodeFailed(1),
    m.JobEnded(3, m.NODE_FAIL),
    m.JobRequeued(4),
    m.JobEnded(6, m.CANCELLED),  # pending: it never ran
    m.JobEnded(7, m.CANCELLED),
    m.JobEnded(2, m.CANCELLED),
    m.JobEnded(99, m.COMPLETED),  # unknown
)
LEFT = [(5, m.TIMEOUT), (1, m.COMPLETED), (3, m.NODE_FAIL), (4, "REQUEUED"), (2, m.CANCELLED)]


class Watching:
    """A policy that records the ended jobs that it sees, before and after its decisions."""

    def __init__(self, *decisions: m.Action, shape: Callable[[View], View] = lambda view: view) -> None:
        self.decisions = list(decisions)
        self.shape = shape
        self.seen: list[list[Ended]] = []

    def decide(self, view: View) -> Iterator[m.Action]:
        shaped = self.shape(view)
        self.seen.append(list(shaped.ended))
        yield from self.decisions
        if self.decisions:
            self.seen.append(list(shaped.ended))
            self.decisions.clear()


def test_the_progress_is_that_of_the_view_while_the_job_ran() -> None:
    policy = Watching()
    core = SchedulerCore(policy, SITE)
    core.handle(NOW_US + 1, ())
    told = {job_id: core.view.progress_us(running) for job_id, running in core.view.running.items()}
    core.handle(NOW_US + 1, ALL_LEAVE)
    assert {item.running.job.id: item.progress_us for item in policy.seen[-1]} == told == PROGRESS_US


def test_whole_nodes_show_all_ended_jobs_and_a_class_its_own() -> None:
    whole = Watching(shape=WholeNodesView)
    SchedulerCore(whole, SITE).handle(NOW_US + 1, ALL_LEAVE)
    assert [(item.running.job.id, item.state) for item in whole.seen[0]] == LEFT

    def part(view: View) -> View:
        machine = VirtualMachine(view, 100, 300)  # jobs 2 and 3
        machine.turn_to(5000, NodeSet(-1), int)
        return machine

    own = Watching(shape=part)
    core = SchedulerCore(own, SITE)
    core.handle(NOW_US + 1, ())
    shown = dict(part(core.view).running)
    core.handle(NOW_US + 1, ALL_LEAVE)
    ended = own.seen[-1]
    assert [(item.running.job.id, item.state, item.at_us) for item in ended] == [
        (3, m.NODE_FAIL, 5000),
        (2, m.CANCELLED, 5000),
    ]
    assert [item.progress_us for item in ended] == [PROGRESS_US[3], PROGRESS_US[2]]
    assert all(item.running == shown[item.running.job.id] for item in ended)  # in the time of the class
