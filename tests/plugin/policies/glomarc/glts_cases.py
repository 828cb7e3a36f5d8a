"""Workloads and machines for G-LOMARC-TS, and runs that are checked batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

from tests.plugin.policies.cases import NOW_US, welcome_of
from tests.reference.glomarc_judge import Slice, check_schedule

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.loop import Simulation
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.composition import composition_named
from cosched_hwmodel.statistical import StatisticalContention, StatisticalModel, draw_self_slowdown
from cosched_plugin.common.allocation import Machine, ResumeCosts
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.trace import TraceRecord
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import WholeNodesView
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol import messages as m

SECOND_US = 1_000_000
PPM = 1_000_000
RESUME_US = 60 * SECOND_US
MODEL = StatisticalModel(3)
SLICED = ("ssp", "glts", "cst", "cstws", "glts-fbo", "glts-ns", "glts-nh")

Table = Mapping[str, Any]


def nodes_of(
    nodes: int, cpus: int = 2, cores: int = 2, threads: int = 1, memory_mb: int = 8192, swap_mb: int = 8192
) -> m.NodeClass:
    return m.NodeClass(nodes, cpus, cores, threads, memory_mb, 0, 0, 0, swap_mb)


def belief_of(model: StatisticalModel = MODEL) -> m.Belief:
    return m.Belief(model.name, "bulk-synchronous", (), model.parameters())


def spec_of(
    number: int,
    size: int,
    seconds: float,
    own: m.SelfSlowdown | None = (1_000_000, 1_000_000),
    submit_us: int = NOW_US,
    **more: Any,
) -> m.JobSpec:
    return m.JobSpec(number, submit_us, size, round(seconds * SECOND_US), self_slowdown=own, **more)


def job_of(spec: m.JobSpec, run_us: int | None = None) -> WorkloadJob:
    """Return a job with exact estimate, or with this run time."""
    return WorkloadJob(
        spec, spec.estimate_us if run_us is None else run_us, None, spec.id, self_slowdown=spec.self_slowdown
    )


def draw_jobs(
    random: Random,
    count: int,
    nodes: int,
    *,
    gap_s: float = 600.0,
    over: bool = False,
    limits: bool = False,
    memory: bool = False,
    even: bool = False,
) -> list[WorkloadJob]:
    """Draw short, medium and long jobs of all sizes; ``over``: some estimates are too long.

    ``even``: in a group every job has equally many processes on all of its nodes.
    """
    jobs = []
    submit_us = 0
    for number in range(1, count + 1):
        submit_us += round(random.expovariate(1 / gap_s) * SECOND_US) if random.random() < 0.8 else 0
        low, high = random.choice(((20, 600), (601, 10_800), (601, 10_800), (10_801, 40_000)))
        run_us = random.randint(low * SECOND_US, high * SECOND_US)
        estimate_us = round(run_us * random.uniform(1.0, 2.0)) if over and random.random() < 0.6 else run_us
        size = random.choice((1, 1, 2, 3, 4, nodes // 2, nodes, 2 * nodes, random.randint(1, 4 * nodes)))
        jobs.append(
            job_of(
                m.JobSpec(
                    number,
                    submit_us,
                    max(1, size if size == 1 or not even else size - size % 2),
                    estimate_us,
                    estimate_us + random.choice((0, 5)) * SECOND_US if limits and random.random() < 0.7 else None,
                    memory_mb=random.choice((0, 500, 1000, 2000)) if memory else 0,
                    self_slowdown=draw_self_slowdown(random.randint(1, 99), number),
                ),
                run_us,
            )
        )
    return jobs


def mixed_machine(random: Random) -> Machine:
    """Draw a machine with nodes of three kinds; those of the first two, some with GPUs, are a partition each, the rest is of none."""
    few = random.randint(3, 5)
    return Machine(
        [
            nodes_of(random.randint(1, 3), 1, 4, swap_mb=1_000_000),
            nodes_of(few, memory_mb=4096, swap_mb=1_000_000),
            nodes_of(2, memory_mb=4096, swap_mb=1_000_000)._replace(resources=(("gpu", 3),)),
            nodes_of(few, 2, 4, swap_mb=1_000_000)._replace(resources=(("gpu", 2),)),
        ],
        (("solver", 3),),
    )


def with_wishes(random: Random, jobs: Sequence[WorkloadJob], machine: Machine) -> list[WorkloadJob]:
    """Draw a partition for each job, or some of its nodes; some of GPUs, licences and memory. Those that no nodes hold are left out."""
    others, *partition = [item.nodes for item in machine.classes]
    first, second = others, others + sum(partition[:2])
    found = []
    for job in jobs:
        spec = job.spec
        eligible = random.choice(
            (
                (),
                ((first, second - first),),
                ((first, second - first),),
                ((first, 2), (first + 3, 1)),
                ((second, partition[2]),),
                ((0, second + 1),),
            )
        )
        spec = spec._replace(
            eligible=eligible,
            resources=random.choice(((), (), (("gpu", 1),), (("gpu", 2),))),
            licences=random.choice(((), (), (), (("solver", 1),), (("solver", 2),))),
            memory_mb=random.choice((0, 0, 500, 900)),
        )
        may = {node for at, count in eligible or ((0, machine.nodes),) for node in range(at, at + count)}
        gpus = dict(spec.resources).get("gpu", 0)
        room = 0
        for item_first, item in zip((0, first, second - 2, second), machine.classes, strict=True):
            if gpus <= dict(item.resources).get("gpu", 0):
                here = len(may.intersection(range(item_first, item_first + item.nodes)))
                room = max(room, here * item.cores)
        if room:
            found.append(job._replace(spec=spec._replace(processes=min(spec.processes, room))))
    return found


def truth_of(
    machine: Machine, jobs: Iterable[WorkloadJob], model: StatisticalModel = MODEL, resume_us: int = RESUME_US
) -> Manager:
    """Return a manager of a machine whose truth and belief are this model."""
    selves = {job.spec.id: job.self_slowdown for job in jobs if job.self_slowdown is not None}
    cluster = ContendedNodes(machine, StatisticalContention(model, selves), composition_named("bulk-synchronous"))
    licences = tuple(machine.licences.items())
    return Manager(list(machine.classes), belief_of(model), cluster, costs=ResumeCosts(resume_us), licences=licences)


class Watched:
    """A scheduler core that is checked before and after each batch, and compared with a new one."""

    def __init__(
        self,
        table: Table,
        manager: Manager,
        trace: list[TraceRecord],
        look: Callable[[SchedulerCore, int, Sequence[m.Event], list[m.Action]], None] | None = None,
        *,
        restart: bool = False,
    ) -> None:
        self._table = table
        self._manager = manager
        self._restart = restart
        self._look = look
        self.core = SchedulerCore(compose(table), manager.inventory(), trace=trace.append)

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        self._manager.check()
        fresh = SchedulerCore(compose(self._table), self._manager.inventory()) if self._restart else None
        actions = self.core.handle(now_us, events)
        self.core.check()
        if fresh is not None:
            assert fresh.handle(now_us, events) == actions
            fresh.check()
        if self._look is not None:
            self._look(self.core, now_us, events, actions)
        return actions


class Played(NamedTuple):
    """A finished run."""

    records: dict[int, JobRecord]
    trace: list[TraceRecord]
    machine: Machine
    resume_us: int
    model: StatisticalModel

    def cos(self, job: int, other: int) -> Fraction:
        """Return the true slowdown of a job beside another."""
        return Fraction(round(self.model.coscheduling(job, other) * PPM), PPM)

    def calendar(self) -> list[Slice]:
        """Return the slices of the scheduler's trace."""
        return [
            (record["at_us"], record["end_us"], record["kind_of_jobs"])
            for record in self.trace
            if record["kind"] == "slice"
        ]

    def judge(self, **rules: Any) -> None:
        """Check the schedule with the judge."""
        rules = {"licences": self.machine.licences, **rules}
        check_schedule(list(self.records.values()), self.machine.classes, self.cos, self.resume_us, **rules)

    def groups(self) -> list[Mapping[str, Any]]:
        """Return the groups that were formed, each once."""
        found = {}
        for record in self.trace:
            if record["kind"] == "start" and "group" in record:
                found[record["at_us"], record["group"]["primary"]] = record["group"]
        return [*found.values()]


def play(
    table: Table | str,
    jobs: Sequence[WorkloadJob],
    nodes: m.NodeClass | Machine,
    *,
    model: StatisticalModel = MODEL,
    resume_us: int = RESUME_US,
    script: Sequence[Scripted] = (),
    requeue: bool = False,
    restart: bool = False,
    look: Callable[[SchedulerCore, int, Sequence[m.Event], list[m.Action]], None] | None = None,
) -> Played:
    """Run jobs under a composition, with the invariants of both sides checked at every batch."""
    table = {"preset": table} if isinstance(table, str) else table
    machine = nodes if isinstance(nodes, Machine) else Machine([nodes])
    manager = truth_of(machine, jobs, model, resume_us)
    trace: list[TraceRecord] = []
    link = DirectLink(lambda _: Watched(table, manager, trace, look, restart=restart))
    records = Simulation(manager, Agenda(manager, jobs, script, requeue=requeue), link).run()
    manager.check()
    assert manager.refused == 0
    return Played({record.job.spec.id: record for record in records}, trace, machine, resume_us, model)


def told(
    node: m.NodeClass,
    waiting: Sequence[m.JobSpec],
    running: Sequence[m.RunningJob] = (),
    notes: Sequence[m.Note] = (),
    model: StatisticalModel = MODEL,
    now_us: int = NOW_US,
) -> m.Welcome:
    welcome = welcome_of([node], running, waiting, belief_of(model))
    return welcome._replace(notes=tuple(notes), now_us=now_us, resume_us=RESUME_US)


def view_of(welcome: m.Welcome) -> View:
    """Return the view in which groups are planned."""
    return WholeNodesView(SchedulerCore(compose({"preset": "pss"}), welcome).view)
