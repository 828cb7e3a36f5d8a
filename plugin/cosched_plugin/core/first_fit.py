"""Choosing threads for a job from a set of free ones: lowest nodes first, or fullest nodes first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.units import NodeSet, ThreadMask
from cosched_plugin.common.allocation import Layers, Machine, any_layer, bits_of, is_plain, room_on, size
from cosched_plugin.protocol.messages import JobSpec, Run

_Members = TypeVar("_Members", NodeSet, ThreadMask)
_ONE_THREAD: Final = ThreadMask(1)
_new = tuple.__new__


def lowest_threads(members: _Members, count: int) -> _Members:
    """Return the ``count`` lowest members of a set of hardware threads or of nodes."""
    left: int = members
    for _ in range(count):
        left &= left - 1
    return cast("_Members", members ^ left)


def thread_mask(free: Layers, node: int) -> ThreadMask:
    """Return the free threads of one node as a mask over its threads."""
    mask = 0
    for thread, layer in enumerate(free):
        mask |= (layer >> node & 1) << thread
    return ThreadMask(mask)


def thread_counts(layers: Layers, nodes: int) -> NDArray[np.int64]:
    """Return the number of threads in the set, node by node."""
    width = (nodes + 7) // 8
    packed = np.frombuffer(b"".join([layer.to_bytes(width, "little") for layer in layers]), np.uint8)
    bits = np.unpackbits(packed.reshape(len(layers), width), axis=1, count=nodes, bitorder="little")
    counts: NDArray[np.int64] = np.add.reduce(bits, axis=0, dtype=np.int64)
    return counts


def first_fit(job: JobSpec, free: Layers, machine: Machine, free_memory_mb: Sequence[int]) -> tuple[Run, ...] | None:
    """Return ``job`` on the lowest free threads, node by node, or None if it does not fit."""
    if machine.filled or not is_plain(job):
        return fill_nodes(job, free, machine, free_memory_mb, bits_of(any_layer(free)))
    if len(free) == 1:
        return lowest_nodes(job.processes, free[0])
    if job.processes > size(free):
        return None
    return _first_fit_threads(job.processes, free)


def packed(job: JobSpec, free: Layers, machine: Machine, free_memory_mb: Sequence[int]) -> tuple[Run, ...] | None:
    """Return ``job`` on the nodes with the fewest free threads first (ties: lowest node), or None if it does not fit."""
    if len(free) == 1 and is_plain(job):
        return lowest_nodes(job.processes, free[0])
    nodes = sorted(bits_of(any_layer(free)), key=lambda node: (thread_mask(free, node).bit_count(), node))
    return fill_nodes(job, free, machine, free_memory_mb, nodes)


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


def lowest_nodes(need: int, free: NodeSet) -> tuple[Run, ...] | None:
    """Return first fit where a node has one thread, by whole runs of set bits from the lowest; None if there are not enough."""
    if need > free.bit_count():
        return None
    runs: list[Run] = []
    first = 0
    left: int = free  # from node `first` on
    while True:
        gap = (left & -left).bit_length() - 1
        first += gap
        left >>= gap
        length = (left ^ (left + 1)).bit_length() - 1
        if length >= need:
            runs.append(_new(Run, (first, need, _ONE_THREAD, 1)))
            return tuple(runs)
        runs.append(_new(Run, (first, length, _ONE_THREAD, 1)))  # `Run(...)` takes twice as long
        need -= length
        first += length
        left >>= length


def _first_fit_threads(need: int, free: Layers) -> tuple[Run, ...]:
    """First fit over several threads a node; the caller has checked that there are enough."""
    depth = every = some = 0  # of the threads that are free on any node
    whole = -1
    for thread, layer in enumerate(free):
        if layer:
            depth += 1
            every |= 1 << thread
            whole &= layer
            some |= layer
    full_mask = ThreadMask(every)
    runs: list[Run] = []
    while need:
        low = some & -some
        node = low.bit_length() - 1
        if whole & low and need >= depth:
            above = whole >> node
            length = min((~above & (above + 1)).bit_length() - 1, need // depth)
            runs.append(_new(Run, (node, length, full_mask, depth)))
            need -= length * depth
            some &= ~(((1 << length) - 1) << node)
            continue
        mask = full_mask if whole & low else thread_mask(free, node)
        threads = min(mask.bit_count(), need)
        runs.append(_new(Run, (node, 1, lowest_threads(mask, threads), threads)))
        need -= threads
        some ^= low
    return tuple(runs)


def fill_nodes(
    job: JobSpec, free: Layers, machine: Machine, free_memory_mb: Sequence[int], nodes: Iterable[int]
) -> tuple[Run, ...] | None:
    """Return ``job`` on free threads of ``nodes``, filled in this order up to the job's own limits; None if it does not fit."""
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
