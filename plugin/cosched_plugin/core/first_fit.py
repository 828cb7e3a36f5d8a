"""Choosing threads for a job from a set of free ones: lowest nodes first, or fullest nodes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.units import NodeSet, ThreadMask
from cosched_plugin.common.allocation import Machine, is_plain, room_on
from cosched_plugin.common.threads import (
    Joined,
    Layers,
    any_layer,
    bits_of,
    lowest_nodes,
    lowest_of_layers,
    lowest_threads,
    on_nodes,
    side_by_side,
    size,
    thread_mask,
    threads_on,
)
from cosched_plugin.protocol.messages import JobSpec, Run

_Ints = NDArray[np.int64]
_new = tuple.__new__


def _unpacked(free: Joined) -> NDArray[np.uint8]:
    """Return a set of threads as ones and zeros by thread and node."""
    number = free.depth * free.nodes
    packed = np.frombuffer(free.threads.to_bytes((number + 7) // 8, "little"), np.uint8)
    return np.unpackbits(packed, count=number, bitorder="little").reshape(free.depth, free.nodes)


def _lowest(free: Joined, nodes: _Ints, threads: _Ints | None) -> NDArray[np.uint8]:
    """Return by node the mask of its lowest ``threads`` threads (None: of all), as bytes, the lowest first."""
    bits = _unpacked(free)[:, nodes]
    if threads is not None:
        some = (threads < _counts(free)[nodes]).nonzero()[0]  # mostly one: the last node
        part = bits[:, some]
        bits[:, some] = part & (part.cumsum(axis=0, dtype=np.int32) <= threads[some])
    return np.ascontiguousarray(np.packbits(bits, axis=0, bitorder="little").T)


def _counts(free: Joined) -> _Ints:
    found: _Ints | None = free.counts
    if found is None:
        # a sum in 16 bits takes a third of the time of one in 64
        found = free.counts = np.add.reduce(_unpacked(free), axis=0, dtype=np.uint16).astype(np.int64)
        found.setflags(write=False)  # whoever changed it would change it for all
    return found


def _alike(free: Joined, nodes: _Ints) -> int:
    """Return how many threads each of the nodes has in the set, where these are as many, and the lowest ones; else 0."""
    counts = _counts(free)[nodes]
    count = int(counts[0])
    if (counts != count).any():
        return 0
    if count == free.depth:
        return count
    chosen = np.zeros(free.nodes, np.uint8)
    chosen[nodes] = 1
    named = NodeSet(int.from_bytes(np.packbits(chosen, bitorder="little").tobytes(), "little"))
    lowest = threads_on(named, ThreadMask((1 << count) - 1), free.nodes)
    return count if free.threads & lowest == lowest else 0


def thread_counts(layers: Layers, nodes: int) -> _Ints:
    """Return the number of threads in the set, node by node; it must not be changed."""
    return _counts(layers) if isinstance(layers, Joined) else _shallow_counts(layers, nodes)


@lru_cache(64)  # the candidates of a pass are tried on the same few sets
def _shallow_counts(layers: tuple[NodeSet, ...], nodes: int) -> _Ints:
    return _counts(Joined(side_by_side(layers, nodes), nodes, len(layers)))


# Where a job may have only some nodes, these are one more set of nodes: to take the others out of 128 layers would take longer than to
# find the place, and the candidates of a pass would have no set in common.
def first_fit(
    job: JobSpec, free: Layers, machine: Machine, free_memory_mb: Sequence[int], open_nodes: NodeSet | None = None
) -> tuple[Run, ...] | None:
    """Return ``job`` on the lowest free threads of ``open_nodes`` (None: of any), node by node, or None if it does not fit."""
    if isinstance(free, Joined):
        rooms = _rooms(job, free, machine, free_memory_mb, open_nodes)
        return _fill(job, free, machine, rooms, None)
    free = _on(free, open_nodes)
    if machine.filled or not is_plain(job):
        return fill_nodes(job, free, machine, free_memory_mb, bits_of(any_layer(free)))
    if len(free) == 1:
        return lowest_nodes(job.processes, free[0])
    if job.processes > size(free):
        return None
    return lowest_of_layers(job.processes, free)


def packed(
    job: JobSpec, free: Layers, machine: Machine, free_memory_mb: Sequence[int], open_nodes: NodeSet | None = None
) -> tuple[Run, ...] | None:
    """Return ``job`` on the nodes with the fewest free threads first (ties: lowest node), or None if it does not fit."""
    if isinstance(free, Joined):
        rooms = _rooms(job, free, machine, free_memory_mb, open_nodes)
        return _fill(job, free, machine, rooms, np.argsort(_counts(free), kind="stable"))
    free = _on(free, open_nodes)
    if len(free) == 1 and is_plain(job):
        return lowest_nodes(job.processes, free[0])
    order = sorted(bits_of(any_layer(free)), key=lambda node: (thread_mask(free, node).bit_count(), node))
    return fill_nodes(job, free, machine, free_memory_mb, order)


def _on(free: Layers, nodes: NodeSet | None) -> Layers:
    return free if nodes is None else on_nodes(free, nodes)


def runs_from(placed: Iterable[tuple[int, ThreadMask, int]]) -> tuple[Run, ...]:
    """Join (node, thread mask, processes) triples into runs; order of nodes is kept ascending."""
    runs: list[Run] = []
    first = count = processes = 0
    mask = ThreadMask(0)
    for node, node_mask, node_processes in sorted(placed):
        if count and node == first + count and node_mask == mask and node_processes == processes:
            count += 1
            continue
        if count:
            runs.append(Run(first, count, mask, processes))
        first, count, mask, processes = node, 1, node_mask, node_processes
    if count:
        runs.append(Run(first, count, mask, processes))
    return tuple(runs)


def fill_nodes(
    job: JobSpec, free: Layers, machine: Machine, free_memory_mb: Sequence[int], nodes: Iterable[int]
) -> tuple[Run, ...] | None:
    """Return ``job`` on free threads of ``nodes``, filled in this order up to the job's own limits; None if it does not fit."""
    if isinstance(free, Joined):
        rooms = _rooms(job, free, machine, free_memory_mb, None)
        return _fill(job, free, machine, rooms, np.fromiter(nodes, np.int64))
    if machine.filled:
        return _fill_alike(job, free, machine, free_memory_mb, nodes)
    need = job.processes
    placed: list[tuple[int, ThreadMask, int]] = []
    for node in nodes:
        mask = thread_mask(free, node)
        processes = min(need, room_on(job, mask.bit_count(), machine.threads_of[node], free_memory_mb[node]))
        if not processes:
            continue
        taken = mask if job.exclusive else lowest_threads(mask, processes * job.threads_per_process)
        placed.append((node, taken, processes))
        need -= processes
        if not need:
            return runs_from(placed)
    return None


# The same in arrays, for nodes of many threads.


def _rooms(
    job: JobSpec, free: Joined, machine: Machine, free_memory_mb: Sequence[int], open_nodes: NodeSet | None
) -> _Ints:
    """Return how many processes of ``job`` each node can take, as `room_on`."""
    return rooms_of(job, _counts(free), machine, free_memory_mb, open_nodes)


def rooms_of(
    job: JobSpec, counts: _Ints, machine: Machine, free_memory_mb: Sequence[int] | _Ints, open_nodes: NodeSet | None
) -> _Ints:
    """Return the same, by the number of threads that are free on each node; also of several sets of threads, a row for each."""
    rooms = counts
    if job.threads_per_process > 1:
        rooms = rooms // job.threads_per_process
    if job.memory_mb:
        rooms = np.minimum(rooms, np.asarray(free_memory_mb) // job.memory_mb)
    if job.ppn_max:
        rooms = np.minimum(rooms, job.ppn_max)
    if job.exclusive:
        rooms = np.where(counts == thread_counts(machine.exists, machine.nodes), rooms, 0)
    if open_nodes is not None:
        named = np.frombuffer(open_nodes.to_bytes((machine.nodes + 7) // 8, "little"), np.uint8)
        rooms = rooms * np.unpackbits(named, count=machine.nodes, bitorder="little")
    least = min(job.ppn_min, job.processes)
    return np.where(rooms >= least, rooms, 0) if least > 1 else rooms


def _fill(job: JobSpec, free: Joined, machine: Machine, rooms: _Ints, order: _Ints | None) -> tuple[Run, ...] | None:
    """Return ``job`` on nodes with room, filled in this order (None: ascending); None if it does not fit."""
    here = rooms if order is None else rooms[order]
    held = here.cumsum()
    if not len(held) or held[-1] < job.processes:
        return None
    if machine.filled:
        nodes = np.flatnonzero(here)
        return _fill_alike_columns(job, free, nodes if order is None else order[nodes], rooms)
    last = int(held.searchsorted(job.processes))
    nodes = here[: last + 1].nonzero()[0]
    processes = here[nodes]
    processes[-1] -= held[last] - job.processes
    return _runs_on(job, free, nodes if order is None else order[nodes], processes)


def _fill_alike_columns(job: JobSpec, free: Joined, nodes: _Ints, rooms: _Ints) -> tuple[Run, ...] | None:
    """Return the same as `_fill_alike`."""
    most = min(int(rooms[nodes].max()), job.processes)
    for per_node in range(most, max(1, min(job.ppn_min, job.processes)) - 1, -1):
        number = -(-job.processes // per_node)
        chosen = np.sort(nodes[rooms[nodes] >= per_node][:number])
        if len(chosen) == number:
            here = np.full(number, per_node)
            here[-1] = job.processes - (number - 1) * per_node
            return _runs_on(job, free, chosen, here)
    return None


def _runs_on(job: JobSpec, free: Joined, nodes: _Ints, processes: _Ints) -> tuple[Run, ...]:
    """Return runs of ``processes`` on ``nodes``, on the lowest threads of each, or for an exclusive job on all."""
    if len(nodes) > 1 and (nodes[1:] < nodes[:-1]).any():
        order = np.argsort(nodes)
        nodes, processes = nodes[order], processes[order]
    same = (nodes[1:] - nodes[:-1] == 1) & (processes[1:] == processes[:-1])
    count = _alike(free, nodes)
    if count:  # mostly: then the lowest threads of each need not be looked for
        threads = [count if job.exclusive else each * job.threads_per_process for each in processes.tolist()]
        masks: Callable[[int], int] = lambda place: (1 << threads[place]) - 1  # noqa: E731
    else:
        rows = _lowest(free, nodes, None if job.exclusive else processes * job.threads_per_process)
        same &= (rows[1:] == rows[:-1]).all(axis=1)
        masks = lambda place: int.from_bytes(rows[place], "little")  # noqa: E731
    begins = [0, *((~same).nonzero()[0] + 1).tolist()]
    ends = [*begins[1:], len(nodes)]
    return tuple(
        [
            _new(Run, (int(nodes[begin]), end - begin, masks(begin), int(processes[begin])))
            for begin, end in zip(begins, ends, strict=True)
        ]
    )


def lowest_runs(alike: Iterable[tuple[int, NodeSet]], free: Layers, width: int) -> tuple[Run, ...]:
    """Return runs of the lowest free threads on sets of nodes, given as (processes on each, nodes), in node order."""
    taken: dict[tuple[int, int], int] = {}  # (threads, processes) -> nodes
    for processes, nodes in alike:
        threads = processes * width
        partial: dict[int, int] = {0: nodes}  # threads so far -> nodes
        for thread, layer in enumerate(free):
            split: dict[int, int] = {}
            for mask, part in partial.items():
                there = part & layer
                if there:
                    more = mask | 1 << thread
                    if more.bit_count() == threads:
                        taken[more, processes] = taken.get((more, processes), 0) | there
                    else:
                        split[more] = there
                if part != there:
                    split[mask] = part ^ there
            partial = split
    runs = []
    for (threads, processes), where in taken.items():
        mask, left = ThreadMask(threads), where
        while left:
            first = (left & -left).bit_length() - 1
            above = left >> first
            count = (~above & (above + 1)).bit_length() - 1
            runs.append(_new(Run, (first, count, mask, processes)))
            left ^= ((1 << count) - 1) << first
    return tuple(sorted(runs))


def _fill_alike(
    job: JobSpec, free: Layers, machine: Machine, free_memory_mb: Sequence[int], nodes: Iterable[int]
) -> tuple[Run, ...] | None:
    """Return ``job`` as a manager that fills nodes in order can place it: as many processes on each node, fewer on the last."""
    rooms: list[tuple[int, ThreadMask, int]] = []
    for node in nodes:
        mask = thread_mask(free, node)
        room = room_on(job, mask.bit_count(), machine.threads_of[node], free_memory_mb[node])
        if room:
            rooms.append((node, mask, room))
    most = min(max([room for _, _, room in rooms], default=0), job.processes)
    for per_node in range(most, max(1, min(job.ppn_min, job.processes)) - 1, -1):
        number = -(-job.processes // per_node)
        chosen = sorted([(node, mask) for node, mask, room in rooms if room >= per_node][:number])
        if len(chosen) == number:
            counts = [per_node] * (number - 1) + [job.processes - (number - 1) * per_node]
            return runs_from(
                [
                    (node, mask if job.exclusive else lowest_threads(mask, count * job.threads_per_process), count)
                    for (node, mask), count in zip(chosen, counts, strict=True)
                ]
            )
    return None
