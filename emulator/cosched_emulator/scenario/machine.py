"""The machine of a scenario: classes of nodes from a preset or a layout, from a file, or with the size of a log's machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from cosched_emulator import offered
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.sections import ClusterSection
from cosched_hwmodel.energy import NodePower
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.topology import (
    WATTS,
    MachineShape,
    NodeShape,
    load_machine,
    load_shape,
    parse_layout,
    preset_names,
)
from cosched_hwmodel.units import amounts_of
from cosched_plugin.common.allocation import kinds_of
from cosched_plugin.protocol.limits import MAX_NODES, MAX_THREADS
from cosched_plugin.protocol.messages import Amounts, CacheLevel, NodeClass, NodeHardware

DEFAULT_NODES: Final = offered.NODES
_OF_SHAPE: Final = ("memory_bandwidth_mbs", "network_mbs", "disk_mbs", "memory_mb", "swap_mb", "same_nodes", *WATTS)
_Classes: TypeAlias = tuple[tuple[int, NodeShape], ...]  # number of nodes, and what they are like


class BuiltMachine(NamedTuple):
    """The nodes of a run."""

    nodes: tuple[NodeClass, ...]
    names: tuple[str, ...]  # of each class
    licences: Amounts  # of the whole machine
    power: tuple[NodePower, ...] | None  # of each class; None: watts are not known, and no energy is computed
    described: ClusterSection  # the section, with the limits and watts that its file gives, for warnings about them


def build_machine(cluster: ClusterSection) -> tuple[NodeClass, ...]:
    """Return the node classes of `build_nodes`."""
    return build_nodes(cluster).nodes


def build_nodes(cluster: ClusterSection, log_processors: int | None = None) -> BuiltMachine:
    """Return the nodes with their watts; if ``cluster`` has no size, those of a log's machine with ``log_processors`` cores."""
    described = cluster
    try:
        if cluster.file is None:
            classes = _classes(cluster, log_processors)
            licences = _amounts(cluster, "licences")
        else:
            machine = load_machine(cluster.file)
            classes, licences, described = machine.classes, machine.licences, _described(cluster, machine)
    except HardwareModelError as error:
        raise ConfigurationError("cluster", "a possible machine", str(error)) from error
    nodes = sum(count for count, _ in classes)
    if nodes > MAX_NODES:
        raise ConfigurationError("cluster", f"at most {MAX_NODES} nodes", str(nodes))
    threads = max(shape.threads for _, shape in classes)
    if threads > MAX_THREADS:
        raise ConfigurationError("cluster", f"at most {MAX_THREADS} hardware threads a node", str(threads))
    power = tuple([shape.power for _, shape in classes if shape.power is not None])
    names = tuple([shape.name for _, shape in classes])
    return BuiltMachine(tuple([_node_class(*item) for item in classes]), names, licences, power or None, described)


def cores_of(classes: Iterable[NodeClass]) -> int:
    """Return the number of cores of a machine. A second hardware thread of a core is not a second processor."""
    return sum(item.nodes * item.cores for item in classes)


def most_alike(classes: Iterable[NodeClass]) -> int:
    """Return the number of cores of the nodes that are alike, of the kind with most."""
    return max(item.cores * nodes.bit_count() for item, nodes in kinds_of(classes))


def _classes(cluster: ClusterSection, log_processors: int | None) -> _Classes:
    shape = _shape(cluster)
    if cluster.processors is not None:
        return _classes_of(cluster.processors, shape)
    if cluster.nodes is None and log_processors is not None:
        return _classes_of(log_processors, shape)
    return ((DEFAULT_NODES if cluster.nodes is None else cluster.nodes, shape),)


def of_file(text: str, cluster: ClusterSection) -> str:
    """Return a text about keys of [cluster] as one about those in its file, if it has one."""
    return text if cluster.file is None else text.replace("cluster.", "cluster.file: ")


def _described(cluster: ClusterSection, machine: MachineShape) -> ClusterSection:
    """Return the section with what the tables of its file give, the most of each; a table has to give its memory."""
    keys = machine.given.intersection(_OF_SHAPE) - {"memory_mb"}
    most: dict[str, Any] = {key: max(getattr(shape, key) or 0 for _, shape in machine.classes) for key in keys}
    return replace(cluster, **{key: value for key, value in most.items() if value})


def _shape(cluster: ClusterSection) -> NodeShape:
    """Return the preset, or the node of a layout, with the scenario's changes."""
    _check_shape(cluster.preset)
    changes = {key: value for key in _OF_SHAPE if (value := getattr(cluster, key)) is not None}
    if cluster.resources is not None:
        changes["resources"] = _amounts(cluster, "resources")
    if cluster.cores is not None:
        changes |= {"sockets": 1, "cores_per_socket": cluster.cores, "threads_per_core": 1, "caches": ()}
    return replace(load_shape(cluster.preset), **changes)


def _amounts(cluster: ClusterSection, key: str) -> Amounts:
    text = getattr(cluster, key)
    try:
        return () if text is None else amounts_of(text)
    except ValueError as error:
        raise ConfigurationError(f"cluster.{key}", str(error), repr(text)) from None


def _check_shape(name: str) -> None:
    """Raise ConfigurationError if ``preset`` is neither a layout nor the name of a preset."""
    presets = preset_names()
    if parse_layout(name) is None and name not in presets:
        from difflib import get_close_matches  # noqa: PLC0415 - slow to load, for errors only

        close = get_close_matches(name, presets, n=1)
        expected = f"sockets x cores x threads, such as 2x16x2, or one of the presets {', '.join(presets)}"
        raise ConfigurationError("cluster.preset", expected, repr(name), close[0] if close else None)


def _classes_of(processors: int, shape: NodeShape) -> _Classes:
    """Return full nodes and, for the remainder, one node of the same capacities with fewer cores.

    CTC: 84 nodes of 4 processors and one of 2. A second hardware thread is not a second processor.
    """
    full, left = divmod(processors, shape.cores)
    classes = [(full, shape)] if full else []
    if left:
        classes.append((1, replace(shape, sockets=1, cores_per_socket=left, caches=())))
    return tuple(classes)


def _node_class(count: int, shape: NodeShape) -> NodeClass:
    like = {name: getattr(shape, name) for name in NodeClass._fields if hasattr(shape, name)}
    return NodeClass(count, **like, hardware=_hardware(shape))


def _hardware(shape: NodeShape) -> NodeHardware | None:
    """Return caches and issue slots of a node; None if they slow no job down, as in a description without their costs."""
    costly = any(cache.miss_ns or cache.accesses_ms for cache in shape.caches)
    if not (costly or shape.integer_slots_ppm or shape.floating_slots_ppm):
        return None
    caches = tuple([CacheLevel(*cache) for cache in shape.caches])
    return NodeHardware(shape.integer_slots_ppm, shape.floating_slots_ppm, caches)
