"""Jobs that are randomly suspended, taken to disk, resumed, revised and lost, compared with a plain account of their work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest
from tests.emulator.parts import BELIEF, job
from tests.plugin.core.parts import looks
from tests.runs import runs_on

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.loop import Simulation
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel
from cosched_hwmodel.composition import composition_named
from cosched_hwmodel.contention import ContentionModel, Load
from cosched_hwmodel.topology import NodeShape
from cosched_plugin.common.allocation import Machine, ResumeCosts
from cosched_plugin.common.threads import each_node
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.protocol import messages as m

NODES = (m.NodeClass(2, 1, 2, 1, 100, 6, 0, 0, 120), m.NodeClass(1, 1, 3, 1, 60, 4, 0, 0, 30))
CAPACITIES = (6, 6, 4)
JOBS = 12
QUIET_US = 1500  # from then on no job is suspended, and no node fails
ROUNDING_US = Fraction(1, 50)  # an end is rounded up to whole microseconds, less 1/64 and the noise of doubles


class Whims:
    """A policy that makes random valid decisions, and later lets all jobs end."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.done: dict[str, int] = {}
        self.more_us: list[int] = []  # increases of the limits of revised jobs

    def decide(self, view: View) -> Iterator[m.Action]:
        random = self._random
        quiet = view.now_us >= QUIET_US
        for job_id in random.sample(known := sorted(view.running), len(known)):
            for _ in range(random.choice((0, 1, 1, 2))):
                action = self._whim(view, job_id, quiet=quiet)
                if action is not None:
                    kind = type(action).__name__ + (" to disk" if getattr(action, "to_disk", False) else "")
                    self.done[kind] = self.done.get(kind, 0) + 1
                    yield action
        for waiting in view.queue:
            start = self._start(view, waiting)
            if start is not None and (quiet or random.random() < 0.8):
                yield start
        if view.running or view.queued:
            yield m.WakeAt(view.now_us + random.choice((1, 3, 10, 40)))

    def _whim(self, view: View, job_id: int, *, quiet: bool) -> m.Action | None:
        running = view.running[job_id]
        if running.suspended_us is not None:
            wanted = quiet or self._random.random() < 0.4
            return m.ResumeJob(job_id) if wanted and (not running.on_disk or view.may_resume(running)) else None
        if quiet:
            return None
        match self._random.randrange(8):
            case 0:
                return m.SuspendJob(job_id)
            case 1 | 2:
                room = view._state.pool.disk_refusal(running.job, running.runs) is None
                return m.SuspendJob(job_id, to_disk=True) if room else None
            case 3:
                self.more_us.append(self._random.choice((0, 5)))
                limit_us = None if running.limit_us is None else running.limit_us + self.more_us[-1]
                return m.ReviseJob(job_id, self._random.randint(1, 500), limit_us)
            case _:
                return None

    def _start(self, view: View, waiting: m.JobSpec) -> m.StartJob | None:
        free = [(node, thread) for thread, layer in enumerate(view.free) for node in range(3) if layer >> node & 1]
        chosen = dict(self._random.sample(free, len(free))[: waiting.processes])
        runs = runs_on(*[(node, 1, 1 << thread, 1) for node, thread in sorted(chosen.items())])
        if isinstance(view._state.pool.place(waiting, runs), str):
            return None
        return m.StartJob(waiting.id, runs, waiting.estimate_us, waiting.limit_us)


class Account:
    """The work of jobs, in fractions, computed only from events and decisions."""

    def __init__(self, jobs: Sequence[WorkloadJob], kind: str, resume_us: int, whims: Whims) -> None:
        self.whims = whims
        self.jobs = {each.spec.id: each for each in jobs}
        self.kind = kind
        self.resume_us = resume_us
        self.now_us = 0
        self.runs: dict[int, tuple[m.Run, ...]] = {}
        self.stopped: dict[int, bool] = {}  # suspended jobs, and whether they are on disk
        self.ready_us: dict[int, int] = {}
        self.work: dict[int, Fraction] = {}
        self.active_us: dict[int, int] = {}
        self.limit_us: dict[int, int | None] = {}  # of active time

    def slowdown(self, job_id: int) -> Fraction:
        """Return the slowdown of the job's worst node."""
        slowdowns = []
        for node, _ in each_node(self.runs[job_id]):
            here = [
                other for other in self.runs if other not in self.stopped and node in dict(each_node(self.runs[other]))
            ]
            slowdown = Fraction(1)
            if self.kind == "bandwidth":
                wanted = sum((self.jobs[other].demand or (0,))[0] for other in here)
                slowdown = max(slowdown, Fraction(wanted, CAPACITIES[node]))
            elif self.kind == "pairs":
                slowdown += sum(Fraction(quarters(job_id, other), 4) for other in here if other != job_id)
            slowdowns.append(slowdown)
        return max(slowdowns)

    def advance(self, now_us: int) -> None:
        done = {}
        for job_id in self.runs:
            span_us = now_us - max(self.now_us, self.ready_us[job_id])
            if job_id not in self.stopped and span_us > 0:
                done[job_id] = span_us / self.slowdown(job_id)
                self.active_us[job_id] += span_us
        for job_id, work in done.items():
            self.work[job_id] += work
        self.now_us = now_us

    def take(self, action: m.Action) -> None:
        match action:
            case m.StartJob(job_id, runs, _, limit_us):
                self.runs[job_id] = runs
                self.ready_us[job_id] = self.active_us[job_id] = 0
                self.work[job_id] = Fraction(0)
                self.limit_us[job_id] = limit_us
            case m.SuspendJob(job_id, to_disk):
                self.stopped[job_id] = to_disk
            case m.ResumeJob(job_id):
                if self.stopped.pop(job_id):
                    self.ready_us[job_id] = self.now_us + self.resume_us
            case m.ReviseJob(job_id):
                more_us, granted_us = self.whims.more_us.pop(0), self.limit_us[job_id]
                self.limit_us[job_id] = None if granted_us is None else granted_us + more_us
            case _:
                pass

    def end(self, event: m.JobEnded) -> None:
        """Compare a job's end with its work."""
        job_id = event.job_id
        if job_id not in self.runs:
            return
        run_us, limit_us = self.jobs[job_id].run_us, self.limit_us[job_id]
        if event.state == m.COMPLETED:
            late_us = (self.work[job_id] - run_us) * self.slowdown(job_id)
            assert -ROUNDING_US <= late_us < 1
            assert limit_us is None or self.active_us[job_id] <= limit_us
        elif event.state == m.TIMEOUT:
            assert self.active_us[job_id] == limit_us
            assert self.work[job_id] < run_us
        else:
            assert event.state in (m.CANCELLED, m.NODE_FAIL)
        self.leave(job_id)

    def leave(self, job_id: int) -> None:
        del self.runs[job_id]
        self.stopped.pop(job_id, None)


class Watched:
    """A scheduler core that compares every batch with the manager's inventory, and adds it to the account."""

    def __init__(self, core: SchedulerCore, manager: Manager, account: Account) -> None:
        self.core = core
        self.manager = manager
        self.account = account

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        self.manager.check()
        inventory = self.manager.inventory()
        fresh = SchedulerCore(Whims(0), inventory)
        fresh.check()
        assert all_of(self.core) == all_of(fresh)
        account = self.account
        account.advance(now_us)
        for event in events:
            assert not isinstance(event, m.ActionRefused)
            if isinstance(event, m.JobEnded):
                account.end(event)
            elif isinstance(event, m.JobRequeued):
                account.leave(event.job_id)
        actions = self.core.handle(now_us, events)
        self.core.check()
        for action in actions:
            account.take(action)
        return actions


def all_of(core: SchedulerCore) -> dict[str, Any]:
    return looks(core) | {"on_disk": list(core.view.on_disk), "swap": list(core._state.pool.free_swap_mb)}


def quarters(job_id: int, other: int) -> int:
    """Return the penalty of one job by another on the same node, in quarters; some penalties are negative."""
    return (7 * job_id + 3 * other) % 5 - 1


class Pairs:
    """Contention between pairs of jobs, different for the two."""

    name = "pairs"

    def penalties(self, node: NodeShape, loads: Sequence[Load]) -> list[float]:
        ids = [load.job_id for load in loads]
        return [sum(quarters(job_id, other) for other in ids if other != job_id) / 4 for job_id in ids]


def model_of(kind: str) -> ContentionModel | None:
    if kind == "none":
        return None
    return BandwidthModel(("memory_bandwidth",)) if kind == "bandwidth" else Pairs()


def drawn(random: Random) -> list[WorkloadJob]:
    return [
        job(
            number,
            submit_us,
            random.randint(1, 300),
            processes=random.randint(1, 3),
            estimate_us=random.randint(1, 400),
            limit_us=random.choice((None, None, 250, 400)),
            memory_mb=random.choice((0, 0, 20, 45)),
            demand=(random.randint(0, 5), 0, 0),
        )
        for number, submit_us in enumerate(sorted(random.randrange(600) for _ in range(JOBS)), 1)
    ]


def drawn_script(random: Random) -> list[Scripted]:
    """Return failures, returns and cancellations before the quiet time; at the end all nodes are in service."""
    script = [Scripted(random.randrange(QUIET_US), "cancel", random.randint(1, JOBS)) for _ in range(2)]
    for _ in range(4):
        node, at_us = random.randrange(3), random.randrange(QUIET_US - 100)
        script += [Scripted(at_us, "fail-node", node), Scripted(at_us + random.randint(1, 99), "return-node", node)]
    return script + [Scripted(QUIET_US, "return-node", node) for node in range(3)]


def check_record(record: JobRecord) -> None:
    """Check that the record of a job is consistent."""
    assert record.end_us is not None
    disk = [(time.start_us, time.end_us or 0) for time in record.disk]
    story = sorted([(stay.start_us, stay.end_us) for stay in record.intervals] + disk)
    assert all(before[1] <= after[0] for before, after in pairwise(story))
    for stay in record.intervals:
        if stay.resumed:  # a time on disk lies right before
            assert any(time.end_us == stay.start_us for time in record.disk)
    last = record.last_stays
    assert record.starts == len([stay for stay in record.intervals if not stay.resumed])
    if not last:
        assert record.waits_again or not (record.disk or record.intervals)
        return
    assert {stay.runs for stay in last} == {last[0].runs}  # it returned to its nodes
    on_nodes_us = sum(stay.end_us - stay.start_us for stay in last)
    since_us = last[0].start_us
    on_disk_us = sum(until_us - from_us for from_us, until_us in disk if from_us >= since_us)
    assert on_nodes_us + on_disk_us == record.left_us - since_us
    assert 0 <= record.suspended_us - on_disk_us <= on_nodes_us


def played(managed: Manager, kind: str, resume_us: int, seed: int, random: Random) -> tuple[list[JobRecord], Whims]:
    """Run random jobs under random decisions, compare them with the account, and return the records."""
    jobs = drawn(random)
    whims = Whims(seed)
    account = Account(jobs, kind, resume_us, whims)
    watched = Watched(SchedulerCore(whims, managed.inventory()), managed, account)
    agenda = Agenda(managed, jobs, drawn_script(random), requeue=seed % 3 > 0)
    simulation = Simulation(managed, agenda, DirectLink(lambda _: watched))
    return simulation.run(), whims


@pytest.mark.parametrize(
    ("kind", "resume_us", "seeds"),
    [
        ("none", 0, 3),
        ("bandwidth", 0, 3),
        ("bandwidth", 60, 3),
        ("pairs", 7, 3),
        *(
            pytest.param(*case, 8, marks=pytest.mark.slow)
            for case in product(("none", "bandwidth", "pairs"), (0, 7, 60))
        ),
    ],
)
def test_random_preemption_conserves_work(kind: str, resume_us: int, seeds: int) -> None:
    seen: dict[str, int] = {}
    for seed in range(seeds):
        random = Random(f"{kind} {resume_us} {seed}")
        model = model_of(kind)
        cluster = (
            None if model is None else ContendedNodes(Machine(NODES), model, composition_named("bulk-synchronous"))
        )
        managed = Manager(NODES, BELIEF, cluster, random.choice((None, 15)), costs=ResumeCosts(resume_us))
        records, whims = played(managed, kind, resume_us, seed, random)
        managed.check()
        assert managed.refused == 0
        assert managed._slots.base.free_swap_mb == [120, 120, 30]
        busy: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for record in records:
            seen[record.state] = seen.get(record.state, 0) + 1
            assert (record.work_us == record.job.run_us) == (record.state == m.COMPLETED)
            check_record(record)
            for stay in record.intervals:
                for node, _, mask, _ in stay.runs:
                    busy.setdefault((node, mask), []).append((stay.start_us, stay.end_us))
        for spans in busy.values():
            assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans))), "two jobs on one thread"
        for action, count in whims.done.items():
            seen[action] = seen.get(action, 0) + count
    assert {m.COMPLETED, m.TIMEOUT, m.CANCELLED, m.NODE_FAIL} <= set(seen)
    assert all(seen[name] > 6 * seeds for name in ("SuspendJob", "SuspendJob to disk", "ResumeJob", "ReviseJob"))
