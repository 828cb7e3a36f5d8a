"""Nodes (sockets, caches, cores, hardware threads, capacities) and machines (counted classes of equal nodes).

Hardware threads of a node with C cores are numbered by layers: 0..C-1 are the first thread of each core, in socket
order, C..2C-1 the second of each, and so on. Taking the lowest free threads first thus spreads over cores before it
uses a core twice. A set of threads is an int, bit i for thread i.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from cosched_hwmodel.energy import NodePower
from cosched_hwmodel.errors import TopologyError, suggestion
from cosched_hwmodel.quick_classes import frozen
from cosched_hwmodel.text_formats import read_toml
from cosched_hwmodel.units import amounts_of
from cosched_hwmodel.usage import Demand

_PRESETS = Path(__file__).parent / "presets"
PLAIN: Final = "single"  # preset of a node without contention: a layout gives the rest
WATTS: Final = ("idle_w", "busy_w", "spin_w")
MOST_WATTS: Final = 1_000_000
_UNLIMITED_AT_0: Final = ("memory_bandwidth_mbs", "network_mbs", "disk_mbs", "integer_slots_ppm", "floating_slots_ppm")
_MOST_MISS_NS: Final = 100_000
_MOST_ACCESSES_MS: Final = 1_000_000_000
_LAYOUT: Final = re.compile(r"([0-9]{1,6})x([0-9]{1,6})x([0-9]{1,6})", re.ASCII)


class Cache(NamedTuple):
    """One level of cache: ``size_kb`` KiB, each instance shared by ``cores`` neighbouring cores of one socket.

    The last two fields have an effect in the composite model alone.
    """

    level: int
    size_kb: int
    cores: int
    miss_ns: int = 0  # more time of an access that does not find its data here; 0: misses cost nothing
    accesses_ms: int = 0  # accesses that an instance serves in a millisecond; 0: unlimited


@frozen
class NodeShape:
    """One kind of node. Rates in MB/s, where 0 means unlimited; memory and swap space in MiB; watts None where they are unknown.

    Raises TopologyError, with the field as its place, for values that no node can have.
    """

    name: str
    sockets: int
    cores_per_socket: int
    memory_mb: int
    threads_per_core: int = 1
    caches: tuple[Cache, ...] = ()  # shared levels, nearest to the core first
    memory_bandwidth_mbs: int = 0
    network_mbs: int = 0
    disk_mbs: int = 0
    swap_mb: int = 0  # disk space for the memory of jobs that are suspended to disk
    integer_slots_ppm: int = 0  # issue slots of a core, in millionths of those of the profiles' core; 0: unlimited
    floating_slots_ppm: int = 0
    idle_w: float | None = None  # of the node, all its cores idle
    busy_w: float | None = None  # more for each busy core
    spin_w: float | None = None  # more for each core whose process only polls; None: as for a busy one
    resources: tuple[tuple[str, int], ...] = ()  # what can be counted on the node, such as GPUs, and how many
    # Whether two jobs on one of these nodes have the same ones, so that a job shares all of its devices, such as GPUs, or none.
    same_nodes: bool = False

    def __post_init__(self) -> None:
        for field in ("sockets", "cores_per_socket", "threads_per_core", "memory_mb"):
            if getattr(self, field) < 1:
                raise TopologyError(field, f"must be at least 1, not {getattr(self, field)}")
        for field in _UNLIMITED_AT_0:
            if getattr(self, field) < 0:
                raise TopologyError(field, f"must be at least 0 (0: unlimited), not {getattr(self, field)}")
        if self.swap_mb < 0:
            raise TopologyError("swap_mb", f"must be at least 0, not {self.swap_mb}")
        if self.same_nodes and (self.cores > 1 or self.threads_per_core > 2):
            threads = f"{self.cores} with {self.threads_per_core} each"
            raise TopologyError("same_nodes", f"needs nodes of one core with 1 or 2 threads, not {threads}")
        self._check_watts()
        nearer = Cache(level=0, size_kb=0, cores=1)
        for index, cache in enumerate(self.caches):
            place = f"caches[{index}]"
            if cache.level <= nearer.level:
                raise TopologyError(f"{place}.level", f"must be above {nearer.level}, not {cache.level}")
            if cache.size_kb < 1:
                raise TopologyError(f"{place}.size_kb", f"must be at least 1, not {cache.size_kb}")
            for field, most in (("miss_ns", _MOST_MISS_NS), ("accesses_ms", _MOST_ACCESSES_MS)):
                if not 0 <= getattr(cache, field) <= most:
                    raise TopologyError(f"{place}.{field}", f"must be from 0 to {most}, not {getattr(cache, field)}")
            if cache.cores < 1 or self.cores_per_socket % cache.cores:
                raise TopologyError(
                    f"{place}.cores", f"must divide the {self.cores_per_socket} cores of a socket, not {cache.cores}"
                )
            if cache.cores % nearer.cores:
                raise TopologyError(
                    f"{place}.cores", f"must be a multiple of the {nearer.cores} of the level before, not {cache.cores}"
                )
            nearer = cache

    def _check_watts(self) -> None:
        for field in WATTS:
            watts = getattr(self, field)
            if watts is not None and not (math.isfinite(watts) and 0 <= watts <= MOST_WATTS):
                raise TopologyError(field, f"must be a number of watts from 0 to {MOST_WATTS}, not {watts}")
        given = [field for field in WATTS if getattr(self, field) is not None]
        for field in WATTS[:2] if given else ():
            if field not in given:
                raise TopologyError(
                    field, f"is missing, and {given[0]} is there: energy needs {' and '.join(WATTS[:2])}"
                )

    @property
    def power(self) -> NodePower | None:
        """Return the watts of the node; None: they are unknown."""
        if self.idle_w is None or self.busy_w is None:
            return None
        return NodePower(self.idle_w, self.busy_w, self.busy_w if self.spin_w is None else self.spin_w)

    @property
    def cores(self) -> int:
        """Return the number of cores of the node."""
        return self.sockets * self.cores_per_socket

    @property
    def threads(self) -> int:
        """Return the number of hardware threads of the node."""
        return self.cores * self.threads_per_core

    @property
    def capacity(self) -> Demand:
        """Return the capacity of the node, MB/s."""
        return Demand(self.memory_bandwidth_mbs, self.network_mbs, self.disk_mbs)

    def core_of(self, thread: int) -> int:
        """Return the core, 0..cores-1, of a hardware thread; raises IndexError for a thread that the node does not have."""
        if not 0 <= thread < self.threads:
            raise IndexError(f"thread {thread} of a node with {self.threads}")
        return thread % self.cores

    def socket_of(self, thread: int) -> int:
        """Return the socket of a hardware thread; raises IndexError for a thread that the node does not have."""
        return self.core_of(thread) // self.cores_per_socket


@frozen
class MachineShape:
    """Nodes by classes of (count, shape), numbered on from one class to the next; raises TopologyError."""

    classes: tuple[tuple[int, NodeShape], ...]
    licences: tuple[tuple[str, int], ...] = ()  # what can be counted in the whole machine
    given: frozenset[str] = frozenset()  # keys that a table of its file has, other than those of its preset

    def __post_init__(self) -> None:
        if not self.classes:
            raise TopologyError("nodes", "a machine needs at least one class of nodes")
        for index, (count, _) in enumerate(self.classes):
            if count < 1:
                raise TopologyError(f"nodes[{index}].count", f"must be at least 1, not {count}")
        known = [shape.power is not None for _, shape in self.classes]
        if any(known) and not all(known):
            raise TopologyError(
                f"nodes[{known.index(False)}].idle_w", "is missing: other nodes of this machine have watts"
            )

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return sum(count for count, _ in self.classes)

    @property
    def threads(self) -> int:
        """Return the number of hardware threads of all nodes."""
        return sum(count * shape.threads for count, shape in self.classes)


# ---------------------------------------------------------------- reading

_SHAPE_KEYS = tuple(field.name for field in fields(NodeShape))
_REQUIRED = ("sockets", "cores_per_socket", "memory_mb")


def preset_names() -> tuple[str, ...]:
    """Return the names of the node shapes that ship with the package."""
    return tuple(sorted(path.stem for path in _PRESETS.glob("*.toml")))


def load_preset(name: str) -> NodeShape:
    """Return a node shape that ships with the package; raises TopologyError, which suggests the closest name."""
    if name not in preset_names():
        raise TopologyError("preset", f'no preset "{name}"; {suggestion(name, preset_names())}')
    path = _PRESETS / f"{name}.toml"
    return shape_from_table(_read(path), where=str(path), default_name=name)


def parse_layout(text: str) -> tuple[int, int, int] | None:
    """Return (sockets, cores of a socket, threads of a core) of a text such as ``2x16x2``; None where it is not a layout."""
    matched = _LAYOUT.fullmatch(text)
    return None if matched is None else (int(matched[1]), int(matched[2]), int(matched[3]))


def load_shape(text: str) -> NodeShape:
    """Return a preset, or the node that a layout such as ``2x16x2`` describes; raises TopologyError.

    A layout is sockets x cores of a socket x threads of a core. Such a node has the capacities of the preset ``single``: rates
    without limit, and more memory than jobs ask for.
    """
    layout = parse_layout(text)
    if layout is None:
        if text in preset_names():
            return load_preset(text)
        raise TopologyError(
            "preset",
            f'no preset "{text}"; {suggestion(text, preset_names())}, or sockets x cores x threads such as 2x16x2',
        )
    sockets, cores, threads = layout
    return replace(
        load_preset(PLAIN), name=text, sockets=sockets, cores_per_socket=cores, threads_per_core=threads, caches=()
    )


def load_machine(path: Path | str) -> MachineShape:
    """Read a machine from a TOML file of ``[[nodes]]`` tables (see `from_table`); raises TopologyError."""
    return from_table(_read(Path(path)), where=str(path))


def load_nodes(text: str) -> MachineShape:
    """Return the nodes that ``text`` names: a TOML file if there is one, else one node of a preset or layout (`load_shape`).

    The file has ``[[nodes]]`` tables, or the keys of a single node. Raises TopologyError.
    """
    path = Path(text)
    if not path.exists() and path.suffix != ".toml":
        return MachineShape(((1, load_shape(text)),))
    table = _read(path)
    if "nodes" in table:
        return from_table(table, where=text)
    return MachineShape(((1, shape_from_table(table, where=text, default_name=path.stem)),))


def from_table(table: Mapping[str, Any], where: str = "") -> MachineShape:
    """Build a machine from ``{"nodes": [{...}, ...]}``, the form of a TOML file with ``[[nodes]]`` tables.

    Each has ``count`` (default 1) and the keys of `NodeShape`, or a ``preset`` (or a layout, see `load_shape`) to start from
    and the keys that differ from it; beside the tables, ``licences``. ``where`` names the source in errors. Raises TopologyError with
    that and the path of the key.
    """
    _refuse_unknown(table, ("nodes", "licences"), where, "")
    entries = table.get("nodes")
    if not isinstance(entries, list | tuple) or not entries:
        raise TopologyError(_place(where, "nodes"), "must be a list of at least one table: [[nodes]]")
    classes = []
    for index, entry in enumerate(entries):
        path = f"nodes[{index}]"
        keys = dict(_table(entry, where, path))
        count = _integer(keys.pop("count", 1), where, f"{path}.count")
        classes.append((count, _shape(keys, where, path, extra_key="count")))
    try:
        licences = _amounts(table["licences"], where, "licences") if "licences" in table else ()
        return MachineShape(tuple(classes), licences, frozenset(key for entry in entries for key in entry))
    except TopologyError as error:
        raise TopologyError(_place(where, error.where), error.text) from None


def shape_from_table(table: Mapping[str, Any], where: str = "", default_name: str = "node") -> NodeShape:
    """Build one node shape from a table of its keys, or of a ``preset`` and the keys that differ.

    Raises TopologyError with ``where`` and the path of the key.
    """
    return _shape(_table(table, where, ""), where, "", default_name=default_name)


def _shape(
    table: Mapping[str, Any], where: str, path: str, *, default_name: str = "node", extra_key: str | None = None
) -> NodeShape:
    known = ("preset", *_SHAPE_KEYS) if extra_key is None else ("preset", extra_key, *_SHAPE_KEYS)
    _refuse_unknown(table, known, where, path)
    values: dict[str, Any] = {}
    for key in _SHAPE_KEYS:
        if key in table:
            at = _join(path, key)
            match key:
                case "name":
                    values[key] = _text(table[key], where, at)
                case "resources":
                    values[key] = _amounts(table[key], where, at)
                case "same_nodes":
                    values[key] = _truth(table[key], where, at)
                case "caches":
                    values[key] = _caches(table[key], where, at)
                case "idle_w" | "busy_w" | "spin_w":
                    values[key] = _number(table[key], where, at)
                case _:
                    values[key] = _integer(table[key], where, at)
    preset = _text(table["preset"], where, _join(path, "preset")) if "preset" in table else None
    try:
        if preset is not None:
            return replace(load_shape(preset), **values)
        for key in _REQUIRED:
            if key not in values:
                raise TopologyError(key, "is missing, and there is no preset to take it from")
        return NodeShape(**{"name": default_name, **values})
    except TopologyError as error:
        raise TopologyError(_place(where, _join(path, error.where)), error.text) from None


def _amounts(value: object, where: str, path: str) -> tuple[tuple[str, int], ...]:
    try:
        return amounts_of(_text(value, where, path))
    except ValueError as error:
        raise TopologyError(_place(where, path), f"must be {error}, not {value!r}") from None


def _truth(value: object, where: str, path: str) -> bool:
    if not isinstance(value, bool):
        raise TopologyError(_place(where, path), f"must be true or false, not {_kind(value)}")
    return value


def _caches(value: object, where: str, path: str) -> tuple[Cache, ...]:
    if not isinstance(value, list | tuple):
        raise TopologyError(_place(where, path), f"must be a list of tables, not {_kind(value)}")
    caches = []
    for index, entry in enumerate(value):
        at = f"{path}[{index}]"
        table = _table(entry, where, at)
        _refuse_unknown(table, Cache._fields, where, at)
        for key in Cache._fields:
            if key not in table and key not in Cache._field_defaults:
                raise TopologyError(_place(where, f"{at}.{key}"), "is missing")
        caches.append(
            Cache(**{key: _integer(table[key], where, f"{at}.{key}") for key in Cache._fields if key in table})
        )
    return tuple(caches)


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():  # a pipe could make us wait for ever
            raise TopologyError(str(path), "is not a regular file")
        return read_toml(path)
    except OSError as error:
        raise TopologyError(str(path), f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise TopologyError(str(path), f"is not TOML: {error}") from error


def _table(value: object, where: str, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TopologyError(_place(where, path), f"must be a table, not {_kind(value)}")
    return value


def _integer(value: object, where: str, path: str) -> int:
    # A TOML boolean is a Python int; it must not count as one here.
    if isinstance(value, bool) or not isinstance(value, int):
        raise TopologyError(_place(where, path), f"must be an integer, not {_kind(value)}")
    return value


def _number(value: object, where: str, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TopologyError(_place(where, path), f"must be a number, not {_kind(value)}")
    return float(value)


def _text(value: object, where: str, path: str) -> str:
    if not isinstance(value, str):
        raise TopologyError(_place(where, path), f"must be a string, not {_kind(value)}")
    return value


def _refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], where: str, path: str) -> None:
    for key in table:
        if key not in known:
            raise TopologyError(_place(where, _join(path, str(key))), f"is no key here; {suggestion(str(key), known)}")


def _kind(value: object) -> str:
    return f"{type(value).__name__} {value!r}" if isinstance(value, bool | int | float | str) else type(value).__name__


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _place(where: str, path: str) -> str:
    return f"{where}: {path}" if where and path else where or path
