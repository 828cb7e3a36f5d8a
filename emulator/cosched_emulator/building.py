"""From a scenario to the parts of a run: machine, workload, manager, script. Values that make no sense are refused here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast

from cosched_emulator.cluster import Cluster
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.manager import Manager
from cosched_emulator.scenario import ClusterSection, Scenario, ScriptEntry
from cosched_emulator.simulation import CHANGES, Scripted
from cosched_emulator.workload.job import Workload
from cosched_hwmodel.bandwidth import BandwidthModel
from cosched_hwmodel.composition import COMPOSITIONS, composition_named
from cosched_hwmodel.demand import RESOURCES
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.topology import NodeShape, load_machine, load_preset
from cosched_plugin.protocol.allocation import Machine
from cosched_plugin.protocol.limits import INT64_MAX, MAX_NODES, MAX_THREADS
from cosched_plugin.protocol.messages import Belief, DemandTuple, NodeClass

CONTENTION = ("none", "bandwidth")
BELIEFS = ("exact", "unknown")  # of demand


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
            for key in ("memory_bandwidth_mbs", "network_mbs", "disk_mbs", "memory_mb")
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
    full, left = divmod(processors, shape.threads)
    classes = [_node_class(full, shape)] if full else []
    if left:
        small = replace(shape, sockets=1, cores_per_socket=left, threads_per_core=1, caches=())
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
    )


def build_workload(scenario: Scenario, threads: int) -> Workload:
    """Return the scenario's jobs, for a machine of ``threads`` hardware threads."""
    from cosched_emulator.workload.estimates import with_estimates  # noqa: PLC0415 - numpy, which --help must not load
    from cosched_emulator.workload.mixes import DemandLevels, parse_mix, with_demand  # noqa: PLC0415

    section = scenario.workload
    if scenario.belief.demand not in BELIEFS:
        raise ConfigurationError.unknown_name("belief.demand", scenario.belief.demand, BELIEFS)
    workload = _source(scenario, threads)
    if section.estimates is not None:
        workload = with_estimates(workload, section.estimates, section.estimate_factor, scenario.seed)
    if section.mix is not None:
        levels = DemandLevels(
            *(_demand(getattr(section, f"demand_{name}"), f"workload.demand_{name}") for name in DemandLevels._fields)
        )
        workload = with_demand(workload, parse_mix(section.mix), scenario.seed, levels, scenario.belief.demand)
    if section.memory_mb < 0:
        raise ConfigurationError("workload.memory_mb", "0 or more", str(section.memory_mb))
    if section.exclusive or section.memory_mb:
        workload = workload._replace(
            jobs=tuple(
                job._replace(spec=job.spec._replace(exclusive=section.exclusive, memory_mb=section.memory_mb))
                for job in workload.jobs
            )
        )
    return workload


def _source(scenario: Scenario, threads: int) -> Workload:
    section = scenario.workload
    if (section.swf is None) == (section.lublin is None):
        raise ConfigurationError("workload", "either swf or lublin", "both" if section.swf else "neither")
    limits = cast('Literal["estimate", "none"] | None', section.limits)
    if section.swf is not None:
        from cosched_emulator.workload.swf import SwfOptions, read_swf  # noqa: PLC0415 - numpy

        options = SwfOptions(
            cap_run_at_estimate=section.cap_runs, skip_bad_rows=section.skip_bad_rows, limits=limits or "estimate"
        )
        return read_swf(section.swf, options, section.first, section.jobs)
    from cosched_emulator.workload.lublin import LublinParameters, generate  # noqa: PLC0415 - numpy

    for key in ("first", "jobs"):
        if getattr(section, key):
            raise ConfigurationError(f"workload.{key}", "nothing: it selects jobs of a log", str(getattr(section, key)))
    parameters = LublinParameters(aarr=section.aarr, gap_factor=section.gap_factor, run_factor=section.run_factor)
    return generate(section.lublin or 0, threads, parameters, scenario.seed, limits or "none")


def _demand(rates: Sequence[int], place: str) -> DemandTuple:
    if len(rates) != len(RESOURCES):
        raise ConfigurationError(place, f"three rates in MB/s ({', '.join(RESOURCES)})", str(list(rates)))
    return (rates[0], rates[1], rates[2])


def build_manager(scenario: Scenario, nodes: tuple[NodeClass, ...], workload: Workload) -> Manager:
    """Return a manager with an empty queue. Where no job asks for a shared resource, no contention is worked out."""
    truth, belief = scenario.truth, scenario.belief
    contention = _contention(truth.contention, "truth.contention")
    composition = _known(truth.composition, "truth.composition")
    resources = _resources(truth.resources, "truth.resources")
    told = Belief(
        contention if belief.contention is None else _contention(belief.contention, "belief.contention"),
        composition if belief.composition is None else _known(belief.composition, "belief.composition"),
        resources if belief.resources is None else _resources(belief.resources, "belief.resources"),
    )
    cluster = None
    if contention != "none" and any(job.demand for job in workload.jobs):
        cluster = Cluster(Machine(nodes), BandwidthModel(resources), composition_named(composition))
    return Manager(nodes, told, cluster)


def _contention(name: str, place: str) -> str:
    if name not in CONTENTION:
        raise ConfigurationError.unknown_name(place, name, CONTENTION)
    return name


def _known(composition: str, place: str) -> str:
    if composition not in COMPOSITIONS:
        raise ConfigurationError.unknown_name(place, composition, COMPOSITIONS)
    return composition


def _resources(names: Sequence[str], place: str) -> tuple[str, ...]:
    for name in names:
        if name not in RESOURCES:
            raise ConfigurationError.unknown_name(place, name, RESOURCES)
    return tuple(names)


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
    if not 0 <= entry.at_s <= INT64_MAX // 1_000_000:  # nan is not
        raise ConfigurationError(f"{place}.at_s", "a number of seconds, 0 or more", str(entry.at_s))
    return Scripted(round(entry.at_s * 1_000_000), entry.do, target)
