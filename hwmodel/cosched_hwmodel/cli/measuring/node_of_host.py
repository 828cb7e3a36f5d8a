"""The machine as a node of the model: which CPU of Linux is which hardware thread, and which CPUs share what."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from cosched_hwmodel.cli.measuring.host import CacheInstance, Cpu, Host
from cosched_hwmodel.cli.seats import CORE, NODE, SOCKET, cache_seat, seat_rank
from cosched_hwmodel.topology import Cache


class Layout(NamedTuple):
    """The regular node that describes a machine; ``cpus`` are the numbers of Linux of its threads, by thread."""

    sockets: int
    cores_per_socket: int
    threads_per_core: int
    caches: tuple[Cache, ...]
    cpus: tuple[int, ...]
    notes: tuple[str, ...]


class Seat(NamedTuple):
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
    sockets: dict[int, list[list[Cpu]]] = defaultdict(list)
    for core in sorted(cores.values(), key=lambda core: _place(host, core[0])):
        sockets[core[0].socket].append(core)
    size = min(map(len, sockets.values()))
    if size < max(map(len, sockets.values())):
        notes.append(f"sockets: some have more cores than others; all are described with {size}")
    kept = [core for socket in sockets.values() for core in socket[:size]]
    caches, dropped = _levels(host, kept, size)
    cpus = tuple(core[layer].number for layer in range(threads) for core in kept)
    return Layout(len(sockets), size, threads, caches, cpus, (*notes, *dropped))


def seats_of(host: Host, among: frozenset[int]) -> list[Seat]:
    """Return two CPUs ``among`` some for each way of sharing that they have, the closest first."""
    usable = [cpu for cpu in host.cpus if cpu.number in among]
    caches: dict[int, list[tuple[int, int]]] = defaultdict(
        list
    )  # of a CPU: (level, number of the cache), nearest first
    for index, cache in enumerate(host.caches):
        for number in cache.cpus:
            caches[number].append((cache.level, index))
    found: dict[str, Seat] = {}
    for one, other in combinations(usable, 2):
        name = _shared(one, other, caches)
        if name not in found:
            found[name] = Seat(name, one.number, other.number)
    return sorted(found.values(), key=lambda seat: seat_rank(seat.name))


def _shared(one: Cpu, other: Cpu, caches: dict[int, list[tuple[int, int]]]) -> str:
    if one.core == other.core:
        return CORE
    common = [level for level, index in caches[one.number] if (level, index) in caches[other.number]]
    if common:
        return cache_seat(min(common))
    return SOCKET if one.socket == other.socket else NODE


def _by_core(host: Host) -> dict[int, list[Cpu]]:
    cores: dict[int, list[Cpu]] = defaultdict(list)
    for cpu in host.cpus:
        cores[cpu.core].append(cpu)
    return cores


def _place(host: Host, cpu: Cpu) -> tuple[int, ...]:
    """Return a key by which cores that share a cache are neighbours: socket, then the outermost cache, inwards."""
    inwards = [min(cache.cpus) for cache in reversed(host.caches) if cpu.number in cache.cpus]
    return (cpu.socket, *inwards, cpu.number)


def _levels(host: Host, cores: list[list[Cpu]], per_socket: int) -> tuple[tuple[Cache, ...], list[str]]:
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
