"""The parts of one run that have state, made from a prepared scenario: the manager with its hardware, and its agenda."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from cosched_emulator.manager.agenda import Agenda, ProcessAgenda
from cosched_emulator.manager.contended_nodes import ContendedNodes, NoContention
from cosched_emulator.manager.diary import JobEnergy
from cosched_emulator.manager.difficult import DifficultAgenda, DifficultManager
from cosched_emulator.manager.gate import Gate
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.time_sharing.shared_progress import ProcessNodes
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.scenario.difficult_manager import NO_LAGS
from cosched_emulator.scenario.limits import Binding, named_by_others
from cosched_emulator.workload.job import WorkloadJob
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_hwmodel.composition import composition_named
from cosched_hwmodel.contention import ContentionModel
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM, round_up_us
from cosched_plugin.common.allocation import Machine, ResumeCosts

if TYPE_CHECKING:
    from cosched_emulator.scenario.time_sharing import TimeSharingSection

Value = TypeVar("Value")


class _FactOfJobs(Mapping[int, Value]):
    """One fact about each of a manager's jobs, by job id; jobs without a known value are left out."""

    def __init__(self, fact: Callable[[WorkloadJob], Value | None]) -> None:
        self._fact = fact
        self.jobs: Mapping[int, ManagedJob] = {}

    def __getitem__(self, job_id: int) -> Value:
        value = self._fact(self.jobs[job_id].job)
        if value is None:
            raise KeyError(job_id)
        return value

    def __iter__(self) -> Iterator[int]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


def build_manager(prepared: Prepared, *, live: bool = False) -> Manager:
    """Return a manager with an empty queue.

    Contention is computed only if the use of the nodes is known for some job; always for a ``live`` manager, whose future jobs are
    unknown.
    """
    scenario = prepared.scenario
    preemption, monitoring = scenario.preemption, scenario.monitoring
    resume_us, switch_us = (round_up_us(span_s * SECOND_US) for span_s in (preemption.resume_s, preemption.switch_s))
    processes = cluster = None
    facts = [_FactOfJobs(attrgetter(name)) for name in ("usage", "self_slowdown", "profile")]
    jobs = _FactOfJobs[WorkloadJob](lambda job: job)
    if scenario.time_sharing is not None:
        processes = _process_nodes(prepared, scenario.time_sharing)
    else:
        model = _contention_model(prepared, jobs, facts, live=live)
        if model is not None:
            composition = composition_named(prepared.hardware.composition)
            cluster = ContendedNodes(Machine(prepared.nodes), model, composition)
    difficult = prepared.lags is not None or prepared.own is not None
    manager = (partial(DifficultManager, prepared.lags or NO_LAGS) if difficult else Manager)(
        prepared.nodes,
        prepared.belief,
        cluster,
        None if monitoring.after_s is None else max(1, round_up_us(monitoring.after_s * SECOND_US)),
        round(monitoring.above * WHOLE_PPM),
        ResumeCosts(resume_us, switch_us, preemption.disk_mbs),
        processes,
        prepared.licences,
    )
    for fact in (jobs, *facts):
        fact.jobs = manager.jobs
    if prepared.power is not None:
        manager.diary.meter = JobEnergy(prepared.nodes, prepared.power, time_shared=processes is not None)
    return manager


def build_agenda(prepared: Prepared, manager: Manager, *, live: bool = False) -> Agenda:
    """Return the manager's agenda; planned faults of a ``live`` manager continue when its jobs have ended."""
    scenario, faults, gate = prepared.scenario, prepared.faults, None
    if prepared.gated:
        named = named_by_others(columns_of(prepared.workload.jobs))
        gate = Gate(manager, Binding(prepared.rules, prepared.nodes), named)
    parts = (prepared.workload.jobs, prepared.script, faults.node_faults())
    if isinstance(manager, DifficultManager):
        return DifficultAgenda(manager, *parts, acts=prepared.own, requeue=scenario.requeue, endless=live, gate=gate)
    kind = Agenda if manager.processes is None else ProcessAgenda
    return kind(manager, *parts, requeue=scenario.requeue, endless=live, gate=gate)


def _process_nodes(prepared: Prepared, section: TimeSharingSection) -> ProcessNodes:
    """Return the nodes of a scenario with time sharing, on which no process is yet."""
    from cosched_emulator.nodeos.clusters import ClusterWish, WindowPlan, cluster_for  # noqa: PLC0415 - few share time
    from cosched_emulator.scenario.process_nodes import node_settings, program_maker, window_plan  # noqa: PLC0415 - likewise

    settings = node_settings(section)
    seed, nodes = prepared.scenario.seed, sum(item.nodes for item in prepared.nodes)
    quantum_us, programs = prepared.quantum_us, prepared.workload.programs
    assert quantum_us is not None
    assert programs is not None
    turn_us = round(section.turn_overhead * quantum_us)
    plan = window_plan(section) if section.nodes == "windows" else WindowPlan()
    wish = ClusterWish(section.nodes, nodes, seed, quantum_us, section.windows, section.rounded, plan, turn_us)
    cluster = cluster_for(settings, wish)
    make = program_maker(programs, settings, seed)
    return ProcessNodes(cluster, make, quantum_us, programs.memory_mb, settings.memory_mb)


def _contention_model(
    prepared: Prepared, jobs: Mapping[int, WorkloadJob], facts: Sequence[Mapping[int, Any]], *, live: bool
) -> ContentionModel | None:
    """Return the model of how jobs slow each other down; None if no job ever runs slower than alone, not even on a slow node."""
    hardware = prepared.hardware
    model: ContentionModel | None = None
    if (live or prepared.contends) and hardware.contention == "bandwidth":
        from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel  # noqa: PLC0415 - in few runs jobs have demands

        model = BandwidthModel(hardware.resources)
    elif (live or prepared.contends) and hardware.models is not None:
        from cosched_emulator.scenario import pair_models  # noqa: PLC0415 - many scenarios name none

        facts_of_jobs = pair_models.FactsOfJobs(jobs, *facts)
        model = pair_models.contention_of_pairs(hardware.contention, hardware.models, facts_of_jobs)
    return NoContention() if model is None and prepared.faults.slow_nodes else model
