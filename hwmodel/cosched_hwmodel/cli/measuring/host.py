"""What Linux says of this machine: CPUs, caches, memory, network cards, and how much of it this process may use."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

from cosched_hwmodel.cli.node_choice import CORE, NODE, SOCKET, cache_seat, seat_rank
from cosched_hwmodel.topology import Cache

_CPU_DIGITS: Final = 5  # of the number of a CPU of Linux, which has room for 8,192
UNLIMITED_V1_BYTES: Final = 1 << 60  # version 1 of control groups writes a number like this one for "no limit"


class HostCpu(NamedTuple):
    """A hardware thread by its number in Linux; ``core`` and ``socket`` are numbers from 0 on of this machine."""

    number: int
    core: int
    socket: int
    numa: int


class CacheInstance(NamedTuple):
    """One cache and the CPUs below it."""

    level: int
    size_kb: int
    cpus: frozenset[int]


@dataclass(frozen=True)
class Host:
    """This machine. ``notes`` say what could not be read, one sentence each."""

    cpus: tuple[HostCpu, ...]  # by number
    caches: tuple[CacheInstance, ...]  # for data, by level
    allowed: frozenset[int]  # CPUs on which this process may run
    cpu_limit: float | None  # CPUs' worth of time that its control group allows; None: all
    memory_mb: int
    available_mb: int
    network_mbs: int  # of the fastest network card with a link; 0: unknown
    notes: list[str] = field(default_factory=list)

    @property
    def usable(self) -> int:
        """Return the number of CPUs that kernels can be run on at once."""
        count = len(self.allowed)
        return count if self.cpu_limit is None else max(1, min(count, int(self.cpu_limit)))


def read_host(sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> Host:
    """Read the machine from ``sys`` and ``proc``; what cannot be read is a note, never an error."""
    notes: list[str] = []
    allowed = frozenset(os.sched_getaffinity(0))
    cpus = _cpus(sys / "devices/system", notes) or _plain_cpus(allowed, notes)
    known = {cpu.number for cpu in cpus}
    if not allowed <= known:  # such as another machine's files in a test
        allowed = frozenset(known)
    caches = _caches(sys / "devices/system/cpu", known, notes)
    memory_mb, available_mb = _memory(sys, proc, notes)
    return Host(
        cpus=cpus,
        caches=caches,
        allowed=allowed,
        cpu_limit=_cpu_limit(sys, proc),
        memory_mb=memory_mb,
        available_mb=available_mb,
        network_mbs=_network_mbs(sys / "class/net"),
        notes=notes,
    )


# ---------------------------------------------------------------- CPUs and caches


def _cpus(system: Path, notes: list[str]) -> tuple[HostCpu, ...]:
    """Return the CPUs in service; empty where their topology cannot be read."""
    numbers = _cpu_list(_text(system / "cpu/online"))
    numa = {
        cpu: int(folder.name[4:])
        for folder in system.glob("node/node[0-9]*")
        for cpu in _cpu_list(_text(folder / "cpulist"))
    }
    places = []
    for number in sorted(numbers):
        topology = system / f"cpu/cpu{number}/topology"
        package, core = _number(topology / "physical_package_id"), _number(topology / "core_id")
        if package is None or core is None:
            return ()
        # Cores are numbered within a package, and on some machines within a die of it.
        places.append((number, (package, _number(topology / "die_id") or 0, core), package))
    if places and not numa:
        notes.append("NUMA nodes: Linux names none; all memory counts as equally near")
    cores = {core: index for index, core in enumerate(dict.fromkeys(core for _, core, _ in places))}
    sockets = {socket: index for index, socket in enumerate(sorted({socket for _, _, socket in places}))}
    return tuple(HostCpu(number, cores[core], sockets[socket], numa.get(number, 0)) for number, core, socket in places)


def _plain_cpus(allowed: Iterable[int], notes: list[str]) -> tuple[HostCpu, ...]:
    notes.append("sockets and cores: /sys says nothing of them; each CPU counts as a core of one socket")
    return tuple(HostCpu(number, index, 0, 0) for index, number in enumerate(sorted(allowed)))


def _caches(folder: Path, known: set[int], notes: list[str]) -> tuple[CacheInstance, ...]:
    found = set()
    for number in known:
        for index in folder.glob(f"cpu{number}/cache/index[0-9]*"):
            level, size = _number(index / "level"), _text(index / "size")
            cpus = frozenset(_cpu_list(_text(index / "shared_cpu_list"))) & known
            if _text(index / "type") == "Instruction" or level is None or not cpus:
                continue
            size_kb = _size_kb(size)
            if size_kb:
                found.add(CacheInstance(level, size_kb, cpus))
    if not found:
        notes.append("caches: /sys says nothing of them; no kernel for caches was run")
    return tuple(sorted(found, key=lambda cache: (cache.level, min(cache.cpus))))


def _size_kb(text: str) -> int:
    """Return the size that ``32768K`` or ``32M`` names, in KiB; 0 for other texts."""
    factor = {"K": 1, "M": 1024, "G": 1024 * 1024}.get(text[-1:], 0)
    return int(text[:-1]) * factor if text[:-1].isdecimal() else 0


# ---------------------------------------------------------------- memory, time, network


def _memory(sys: Path, proc: Path, notes: list[str]) -> tuple[int, int]:
    """Return the memory of the machine, or what the control group leaves of it, and what is available now, in MiB."""
    lines = dict(line.split(":", 1) for line in _text(proc / "meminfo").splitlines() if ":" in line)
    total, available = (int(lines.get(key, "0 kB").split()[0]) // 1024 for key in ("MemTotal", "MemAvailable"))
    if not total:
        notes.append("memory: /proc/meminfo cannot be read; 1024 MiB are assumed")
        total = available = 1024
    limits = [
        int(text) // (1024 * 1024)
        for name in ("memory.max", "memory.limit_in_bytes")
        for folder in _group_folders(sys, proc, "memory")
        if (text := _text(folder / name)).isdecimal() and int(text) < UNLIMITED_V1_BYTES
    ]
    if limits and min(limits) < total:
        notes.append(f"memory: {min(limits)} of {total} MiB, as the control group of this process allows no more")
        total = max(1, min(limits))
    return total, min(total, available)


def _cpu_limit(sys: Path, proc: Path) -> float | None:
    """Return the CPUs' worth of time that the control group of this process allows; None: without limit."""
    limits = []
    for folder in _group_folders(sys, proc, "cpu"):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        if not quota:
            quota, period = (_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota.isdecimal() and period.isdecimal() and int(period):
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def _group_folders(sys: Path, proc: Path, controller: str) -> list[Path]:
    """Return the folders of the control groups of this process, and those above them, whose limits hold too."""
    found = []
    for line in _text(proc / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = sys / "fs/cgroup" / (controllers and controller)
        here = root / path.lstrip("/")
        found += [folder for folder in (here, *here.parents) if folder.is_relative_to(root)]
    return found


def _network_mbs(folder: Path) -> int:
    """Return the rate of the fastest network card with a link, MB/s; 0 where no card tells."""
    speeds = [_number(card / "speed") or 0 for card in folder.glob("*") if (card / "device").exists()]
    return max(0, *speeds, 0) // 8  # from Mbit/s


def disk_obstacle(folder: str, proc: Path = Path("/proc")) -> str | None:
    """Return why a disk cannot be measured in ``folder``; None if it can."""
    if not os.path.isdir(folder):
        return f"{folder} is no folder"
    if not os.access(folder, os.W_OK):
        return f"{folder} cannot be written to"
    mounts = [line.split(" ")[1:3] for line in _text(proc / "mounts").splitlines()]
    here = os.path.realpath(folder)
    above = [(place, kind) for place, kind in mounts if here == place or here.startswith(place.rstrip("/") + "/")]
    _, kind = max(above, key=lambda mount: len(mount[0]), default=("", ""))
    return f"{folder} lies in memory ({kind})" if kind in ("tmpfs", "ramfs") else None


# ---------------------------------------------------------------- files


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # also a card without a link: its speed is "invalid argument"
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.removeprefix("-").isdecimal() else None


def _cpu_list(text: str) -> list[int]:
    """Return the numbers of a list such as ``0-3,8``."""
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal() and len(last or first) <= _CPU_DIGITS):
            return []
        numbers += range(int(first), int(last or first) + 1)
    return numbers


# The machine as a node of the model: which CPU of Linux is which hardware thread, and which CPUs share what.


class Layout(NamedTuple):
    """The regular node that describes a machine; ``cpus`` are the numbers of Linux of its threads, by thread."""

    sockets: int
    cores_per_socket: int
    threads_per_core: int
    caches: tuple[Cache, ...]
    cpus: tuple[int, ...]
    notes: tuple[str, ...]


class HostSeat(NamedTuple):
    """Two CPUs for a pair of kernels, and the name of what they share (`cli.seats`)."""

    name: str
    row: int
    column: int


def layout_of(host: Host) -> Layout:
    """Return the node that describes a machine best; what it cannot say is a note.

    A node of the model has equal sockets of equal cores. Where a machine has not, the smallest counts.
    """
    notes = []
    cores = _by_core(host)
    threads = min(map(len, cores.values()))
    if threads < max(map(len, cores.values())):
        notes.append(f"cores: some have more threads than others; all are described with {threads}")
    sockets: dict[int, list[list[HostCpu]]] = defaultdict(list)
    for core in sorted(cores.values(), key=lambda core: _place(host, core[0])):
        sockets[core[0].socket].append(core)
    size = min(map(len, sockets.values()))
    if size < max(map(len, sockets.values())):
        notes.append(f"sockets: some have more cores than others; all are described with {size}")
    kept = [core for socket in sockets.values() for core in socket[:size]]
    caches, dropped = _levels(host, kept, size)
    cpus = tuple(core[layer].number for layer in range(threads) for core in kept)
    return Layout(len(sockets), size, threads, caches, cpus, (*notes, *dropped))


def seats_of(host: Host, among: frozenset[int]) -> list[HostSeat]:
    """Return two CPUs ``among`` some for each way of sharing that they have, the closest first."""
    usable = [cpu for cpu in host.cpus if cpu.number in among]
    # Of a CPU: (level, number of the cache), nearest first
    caches: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for index, cache in enumerate(host.caches):
        for number in cache.cpus:
            caches[number].append((cache.level, index))
    found: dict[str, HostSeat] = {}
    for one, other in combinations(usable, 2):
        name = _shared(one, other, caches)
        if name not in found:
            found[name] = HostSeat(name, one.number, other.number)
    return sorted(found.values(), key=lambda seat: seat_rank(seat.name))


def _shared(one: HostCpu, other: HostCpu, caches: dict[int, list[tuple[int, int]]]) -> str:
    if one.core == other.core:
        return CORE
    common = [level for level, index in caches[one.number] if (level, index) in caches[other.number]]
    if common:
        return cache_seat(min(common))
    return SOCKET if one.socket == other.socket else NODE


def _by_core(host: Host) -> dict[int, list[HostCpu]]:
    cores: dict[int, list[HostCpu]] = defaultdict(list)
    for cpu in host.cpus:
        cores[cpu.core].append(cpu)
    return cores


def _place(host: Host, cpu: HostCpu) -> tuple[int, ...]:
    """Return a key by which cores that share a cache are neighbours: socket, then the outermost cache, inwards."""
    inwards = [min(cache.cpus) for cache in reversed(host.caches) if cpu.number in cache.cpus]
    return (cpu.socket, *inwards, cpu.number)


def _levels(host: Host, cores: list[list[HostCpu]], per_socket: int) -> tuple[tuple[Cache, ...], list[str]]:
    """Return the levels that are regular, nearest first, and a note for each that is not."""
    caches: list[Cache] = []
    notes = []
    core_of = {cpu.number: index for index, core in enumerate(cores) for cpu in core}
    for level, instances in _instances(host):
        sharing = {len({core_of[cpu] for cpu in cache.cpus if cpu in core_of}) for cache in instances} - {0}
        sizes = Counter(cache.size_kb for cache in instances)
        nearer = caches[-1].cores if caches else 1
        if len(sharing) != 1 or per_socket % min(sharing) or min(sharing) % nearer:
            notes.append(f"L{level}: not shared by equal groups of cores; left out")
            continue
        size_kb = min(sizes)
        if len(sizes) > 1:
            notes.append(f"L{level}: sizes differ; all are described with {size_kb} KiB")
        caches.append(Cache(level, size_kb, min(sharing)))
    return tuple(caches), notes


def _instances(host: Host) -> Iterator[tuple[int, list[CacheInstance]]]:
    for level in sorted({cache.level for cache in host.caches}):
        yield level, [cache for cache in host.caches if cache.level == level]
