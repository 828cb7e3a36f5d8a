"""From a scenario to the parts of a run: machine, workload, manager, script. Values that make no sense are refused here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar, cast

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.manager.agenda import CHANGES, Agenda, Scripted
from cosched_emulator.manager.hardware import Cluster, NoContention
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.scenario.faults import Faults
from cosched_emulator.scenario.schema import ClusterSection, Scenario, ScriptEntry
from cosched_emulator.workload.annotations import read_annotations, with_annotations
from cosched_emulator.workload.beliefs.self_slowdown import SelfBelief, with_self_belief
from cosched_emulator.workload.beliefs.usage import UsageBelief, with_usage_belief
from cosched_emulator.workload.characteristics import parse_characteristics, with_characteristics
from cosched_emulator.workload.columns import Same, columns_of
from cosched_emulator.workload.estimates import with_estimates
from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_emulator.workload.mixes import DemandLevels, parse_mix, with_demand
from cosched_emulator.workload.multicore import SELF_SLOWDOWNS, with_grown_sizes, with_self_slowdowns
from cosched_hwmodel.bandwidth.model import BandwidthModel
from cosched_hwmodel.composition import COMPOSITIONS, composition_named
from cosched_hwmodel.contention import ContentionModel
from cosched_hwmodel.demand import RESOURCES
from cosched_hwmodel.draws import key as draw_key
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.lomarc.model import C_SCOPES, CPUS, LomarcContention, LomarcModel
from cosched_hwmodel.rounding import round_up_us
from cosched_hwmodel.statistical.model import StatisticalContention, StatisticalModel
from cosched_hwmodel.topology import NodeShape, load_machine, load_preset
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol.limits import INT64_MAX, MAX_NODES, MAX_THREADS
from cosched_plugin.protocol.messages import Belief, DemandTuple, NodeClass, SelfSlowdown, UsageTuple

CONTENTION = ("none", "bandwidth", "lomarc", "statistical")
LUBLIN_SIZES = ("cores", "nodes")
BELIEFS = ("exact", "unknown")  # of demand, and of pairs
LARGEST_SLOWDOWN = 1_000
Value = TypeVar("Value")


def build_machine(scenario: Scenario, logged: int | None = None) -> tuple[NodeClass, ...]:
    """Return the node classes of the scenario's cluster; where it names no size, a log's machine of ``logged`` processors."""
    classes = _classes(scenario, logged)
    nodes = sum(item.nodes for item in classes)
    if nodes > MAX_NODES:
        raise ConfigurationError("cluster", f"at most {MAX_NODES} nodes", str(nodes))
    threads = max(item.threads for item in classes)
    if threads > MAX_THREADS:
        raise ConfigurationError("cluster", f"at most {MAX_THREADS} hardware threads a node", str(threads))
    return classes


def _classes(scenario: Scenario, logged: int | None) -> tuple[NodeClass, ...]:
    section = scenario.cluster
    try:
        if section.file is not None:
            if section != ClusterSection(file=section.file):
                raise ConfigurationError("cluster", "either a file or other keys", "both")
            return tuple(_node_class(count, shape) for count, shape in load_machine(section.file).classes)
        shape = load_preset(section.preset)
        changes = {
            key: value
            for key in ("memory_bandwidth_mbs", "network_mbs", "disk_mbs", "memory_mb", "swap_mb")
            if (value := getattr(section, key)) is not None
        }
        if section.cores is not None:
            changes |= {"sockets": 1, "cores_per_socket": section.cores, "threads_per_core": 1, "caches": ()}
        shape = replace(shape, **changes)
    except HardwareModelError as error:
        raise ConfigurationError("cluster", "a machine that can be", str(error)) from error
    if section.nodes is not None and section.processors is not None:
        raise ConfigurationError("cluster", "either nodes or processors", "both")
    if section.processors is not None:
        return _by_processors(section.processors, shape)
    if section.nodes is None and logged is not None:
        return _by_processors(logged, shape)
    nodes = 128 if section.nodes is None else section.nodes
    if nodes < 1:
        raise ConfigurationError("cluster.nodes", "1 or more", str(nodes))
    return (_node_class(nodes, shape),)


def _by_processors(processors: int, shape: NodeShape) -> tuple[NodeClass, ...]:
    """Return full nodes and, for the remainder, one node of the same capacities with fewer cores (CTC: 84 of 4 and one of 2)."""
    if processors < 1:
        raise ConfigurationError("cluster.processors", "1 or more", str(processors))
    # As everywhere, a second hardware thread makes no second processor.
    full, left = divmod(processors, shape.cores)
    classes = [_node_class(full, shape)] if full else []
    if left:
        small = replace(shape, sockets=1, cores_per_socket=left, caches=())
        classes.append(_node_class(1, small))
    return tuple(classes)


def _node_class(count: int, shape: NodeShape) -> NodeClass:
    return NodeClass(
        count,
        shape.sockets,
        shape.cores_per_socket,
        shape.threads_per_core,
        shape.memory_mb,
        shape.memory_bandwidth_mbs,
        shape.network_mbs,
        shape.disk_mbs,
        shape.swap_mb,
    )


def build_workload(scenario: Scenario, cores: int, nodes: int = 0) -> Workload:
    """Return the scenario's jobs, for a machine of so many cores and nodes; a log needs them only where its jobs grow."""
    section = scenario.workload
    if scenario.belief.demand not in BELIEFS:
        raise ConfigurationError.unknown_name("belief.demand", scenario.belief.demand, BELIEFS)
    workload = _source(scenario, cores, nodes)
    if section.estimates is not None:
        workload = with_estimates(workload, section.estimates, section.estimate_factor, scenario.seed)
    if section.mix is not None:
        levels = DemandLevels(
            *(_demand(getattr(section, f"demand_{name}"), f"workload.demand_{name}") for name in DemandLevels._fields)
        )
        workload = with_demand(workload, parse_mix(section.mix), scenario.seed, levels, scenario.belief.demand)
    workload = _with_usage(workload, scenario)
    workload = _with_self_slowdowns(workload, scenario, cores)
    if section.memory_mb < 0:
        raise ConfigurationError("workload.memory_mb", "0 or more", str(section.memory_mb))
    if section.exclusive or section.memory_mb:
        jobs = columns_of(workload.jobs)
        workload = workload._replace(
            jobs=replace(jobs, exclusive=Same(section.exclusive), memory_mb=Same(section.memory_mb))
        )
    return workload


def _with_usage(workload: Workload, scenario: Scenario) -> Workload:
    """Return the workload with all that the scenario draws or reads of how jobs truly use their nodes, and what is told of usage."""
    section, belief = scenario.workload, scenario.belief
    if section.characteristics is not None:
        workload = with_characteristics(workload, parse_characteristics(section.characteristics), scenario.seed)
    if section.self_slowdowns is not None:
        _named(section.self_slowdowns, "workload.self_slowdowns", SELF_SLOWDOWNS)
        workload = with_self_slowdowns(workload, scenario.seed)
    if section.annotations is not None:
        workload = with_annotations(workload, read_annotations(section.annotations))
    told = UsageBelief(belief.usage, belief.usage_noise, belief.usage_bias, belief.usage_missing)
    return with_usage_belief(workload, told, scenario.seed)


def _with_self_slowdowns(workload: Workload, scenario: Scenario, cores: int) -> Workload:
    """Return the workload with the sizes that self slowdowns bring about, and what is told of these."""
    section, belief = scenario.workload, scenario.belief
    max_slowdown_ppm = _ppm(section.grow_max_slowdown, "workload.grow_max_slowdown", 0, LARGEST_SLOWDOWN)
    cpus_ppm = _ppm(section.grow_max_slowdown_cpus, "workload.grow_max_slowdown_cpus", 0, LARGEST_SLOWDOWN)
    if section.grow:
        if not cores:
            raise ConfigurationError("workload.grow", "a size of the cluster: jobs outgrow the log's machine", "none")
        workload = with_grown_sizes(workload, cores, max_slowdown_ppm, cpus_ppm)
    told = SelfBelief(belief.self_slowdowns, belief.self_noise)
    return with_self_belief(workload, told, scenario.seed)


def _source(scenario: Scenario, cores: int, nodes: int) -> Workload:
    section = scenario.workload
    usual = "nodes" if section.grow else "cores"
    size = usual if section.lublin_size is None else _named(section.lublin_size, "workload.lublin_size", LUBLIN_SIZES)
    if section.swf is None and section.lublin is None and scenario.clock.mode != "virtual":
        return Workload((), None, "users")  # the jobs are those that users will submit
    if (section.swf is None) == (section.lublin is None):
        raise ConfigurationError("workload", "either swf or lublin", "both" if section.swf else "neither")
    limits = cast('Literal["estimate", "none"] | None', section.limits)
    if section.swf is not None:
        from cosched_emulator.workload.swf.reader import SwfOptions, read_swf  # noqa: PLC0415 - numpy

        options = SwfOptions(
            cap_run_at_estimate=section.cap_runs, skip_bad_rows=section.skip_bad_rows, limits=limits or "estimate"
        )
        return read_swf(section.swf, options, section.first, section.jobs)
    from cosched_emulator.workload.lublin import LublinParameters, generate  # noqa: PLC0415 - numpy

    for key in ("first", "jobs"):
        if getattr(section, key):
            raise ConfigurationError(f"workload.{key}", "nothing: it selects jobs of a log", str(getattr(section, key)))
    parameters = LublinParameters(aarr=section.aarr, gap_factor=section.gap_factor, run_factor=section.run_factor)
    return generate(
        section.lublin or 0, nodes if size == "nodes" else cores, parameters, scenario.seed, limits or "none"
    )


def _demand(rates: Sequence[int], place: str) -> DemandTuple:
    if len(rates) != len(RESOURCES):
        raise ConfigurationError(place, f"three rates in MB/s ({', '.join(RESOURCES)})", str(list(rates)))
    return (rates[0], rates[1], rates[2])


class _OfJobs(Mapping[int, Value]):
    """One fact about the jobs of a live manager, which come and go."""

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


def build_manager(
    scenario: Scenario,
    nodes: tuple[NodeClass, ...],
    workload: Workload,
    *,
    live: bool = False,
    slow_nodes: bool = False,
) -> Manager:
    """Return a manager with an empty queue.

    Where no job says what it uses of its nodes, no contention is worked out; nobody knows that of the jobs that a ``live`` manager
    will get. With ``slow_nodes`` there is hardware even where nothing contends.
    """
    truth, belief = scenario.truth, scenario.belief
    contention = _named(truth.contention, "truth.contention", CONTENTION)
    composition = _named(truth.composition, "truth.composition", tuple(COMPOSITIONS))
    resources = _resources(truth.resources, "truth.resources")
    lomarc = _lomarc(scenario)
    believed = contention if belief.contention is None else _named(belief.contention, "belief.contention", CONTENTION)
    statistical = _statistical(scenario)
    parameters = {
        lomarc.name: _believed_lomarc(lomarc, scenario).parameters(),
        statistical.name: _believed_statistical(statistical, scenario).parameters(),
    }
    told = Belief(
        believed,
        composition
        if belief.composition is None
        else _named(belief.composition, "belief.composition", tuple(COMPOSITIONS)),
        resources if belief.resources is None else _resources(belief.resources, "belief.resources"),
        parameters.get(believed, ()),
    )
    usage_of, self_of = _OfJobs(_usage), _OfJobs(_self_slowdown)
    jobs = columns_of(workload.jobs)
    model: ContentionModel | None = NoContention() if slow_nodes else None
    if contention == "bandwidth" and (live or any(jobs.each(jobs.demand))):
        model = BandwidthModel(resources)
    elif contention == lomarc.name:
        if live or jobs.knows(jobs.usage):
            model = LomarcContention(lomarc, usage_of)
    elif contention == statistical.name:
        model = StatisticalContention(statistical, self_of)
    cluster = None if model is None else Cluster(Machine(nodes), model, composition_named(composition))
    after_us, above_ppm = _monitoring(scenario)
    resume_us = _resume_us(scenario)
    manager = Manager(nodes, told, cluster, measure_after_us=after_us, measure_above_ppm=above_ppm, resume_us=resume_us)
    usage_of.jobs = self_of.jobs = manager.jobs
    return manager


def _usage(job: WorkloadJob) -> UsageTuple | None:
    return job.usage


def _self_slowdown(job: WorkloadJob) -> SelfSlowdown | None:
    return job.self_slowdown


def build_agenda(
    scenario: Scenario, manager: Manager, workload: Workload, script: Sequence[Scripted], faults: Faults
) -> Agenda:
    """Return what will happen to the manager by itself."""
    endless = scenario.clock.mode != "virtual"
    return Agenda(manager, workload.jobs, script, faults.node_faults(), requeue=scenario.requeue, endless=endless)


def _lomarc(scenario: Scenario) -> LomarcModel:
    """Return how pairs of jobs truly get on, whether or not that is the model of contention."""
    truth = scenario.truth
    try:
        return LomarcModel(
            remainder=truth.remainder,
            c_scope=_named(truth.c_scope, "truth.c_scope", C_SCOPES),
            cpu=_named(truth.cpu, "truth.cpu", CPUS),
            pair_seed=_pair_seed(scenario),
            good_share_ppm=_ppm(truth.good_share, "truth.good_share", 0, 1),
            paging_ppm=_ppm(truth.paging, "truth.paging", 1, LARGEST_SLOWDOWN),
        )
    except HardwareModelError as error:
        raise ConfigurationError("truth", "a model of pairs that can be", str(error)) from error


def _believed_lomarc(truth: LomarcModel, scenario: Scenario) -> LomarcModel:
    belief = scenario.belief
    return replace(
        truth,
        remainder=truth.remainder if belief.remainder is None else belief.remainder,
        c_scope=truth.c_scope if belief.c_scope is None else _named(belief.c_scope, "belief.c_scope", C_SCOPES),
        good_share_ppm=truth.good_share_ppm if _named(belief.pairs, "belief.pairs", BELIEFS) == "exact" else 0,
    )


def _statistical(scenario: Scenario) -> StatisticalModel:
    """Return how pairs of jobs truly slow each other down, whether or not that is the model of contention."""
    try:
        return StatisticalModel(_pair_seed(scenario), scenario.truth.cos_shares)
    except HardwareModelError as error:
        raise ConfigurationError("truth", "a model of pairs that can be", str(error)) from error


def _believed_statistical(truth: StatisticalModel, scenario: Scenario) -> StatisticalModel:
    """Return the truth, or other pairs of the same distribution: what is believed of a pair then tells nothing of that pair."""
    if scenario.belief.pairs == "exact":
        return truth
    return replace(truth, pair_seed=_signed(draw_key(truth.pair_seed, "unknown pairs")))


def _pair_seed(scenario: Scenario) -> int:
    seed = scenario.truth.pair_seed
    return _signed(scenario.seed) if seed is None else seed


def _signed(seed: int) -> int:
    """Return the seed of the same draws, which are modulo 2**64, that a belief can carry: 64 bits and a sign."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)


def _monitoring(scenario: Scenario) -> tuple[int | None, int]:
    """Return after how many microseconds a slowdown is measured (None: never), and above how many millionths it is told."""
    section = scenario.monitoring
    above_ppm = _ppm(section.above, "monitoring.above", 1, LARGEST_SLOWDOWN)
    if section.after_s is None:
        return None, above_ppm
    if not 0 < section.after_s <= INT64_MAX // SECOND_US:  # nan is not
        raise ConfigurationError("monitoring.after_s", "a number of seconds above 0", str(section.after_s))
    return max(1, round_up_us(section.after_s * SECOND_US)), above_ppm


def _resume_us(scenario: Scenario) -> int:
    resume_s = scenario.preemption.resume_s
    if not 0 <= resume_s <= INT64_MAX // SECOND_US:  # nan is not
        raise ConfigurationError("preemption.resume_s", "a number of seconds, 0 or more", str(resume_s))
    return round_up_us(resume_s * SECOND_US)


def _ppm(value: float, place: str, least: int, most: int) -> int:
    if not least <= value <= most:  # nan is not
        raise ConfigurationError(place, f"a number from {least} to {most}", str(value))
    return round(value * WHOLE_PPM)


def _named(name: str, place: str, known: Sequence[str]) -> str:
    if name not in known:
        raise ConfigurationError.unknown_name(place, name, known)
    return name


def _resources(names: Sequence[str], place: str) -> tuple[str, ...]:
    return tuple(_named(name, place, RESOURCES) for name in names)


def build_script(scenario: Scenario, nodes: int, jobs: int) -> list[Scripted]:
    """Return the scripted changes, for so many nodes and jobs."""
    return [_scripted(entry, f"script[{index}]", nodes, jobs) for index, entry in enumerate(scenario.script)]


def _scripted(entry: ScriptEntry, place: str, nodes: int, jobs: int) -> Scripted:
    if entry.do not in CHANGES:
        raise ConfigurationError.unknown_name(f"{place}.do", entry.do, CHANGES)
    wants = "node" if entry.do.endswith("node") else "job"
    target = entry.node if wants == "node" else entry.job
    if target is None or (entry.node is not None) == (entry.job is not None):
        raise ConfigurationError(f"{place}.{wants}", f"the {wants} to {entry.do}", str(target))
    if wants == "node" and not 0 <= target < nodes:
        raise ConfigurationError(f"{place}.node", f"a node from 0 to {nodes - 1}", str(target))
    if wants == "job" and not 1 <= target <= jobs:
        raise ConfigurationError(f"{place}.job", f"a job from 1 to {jobs}", str(target))
    if not 0 <= entry.at_s <= INT64_MAX // SECOND_US:  # nan is not
        raise ConfigurationError(f"{place}.at_s", "a number of seconds, 0 or more", str(entry.at_s))
    return Scripted(round(entry.at_s * SECOND_US), entry.do, target)
