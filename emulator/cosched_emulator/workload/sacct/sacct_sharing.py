"""Which jobs of a dump can never be beside another one, and how much room there was for a second job, without any simulation.

- A job is *exclusive* if its submission says so, or if it has whole nodes that it did not need, where others of its partition
  have not: ``#SBATCH --exclusive`` is in no field of `sacct`. Where (nearly) all jobs of a partition get whole nodes, that is its
  rule, which a partition for sharing would not have.
- A job is too *large* if it holds more than half of a node's memory (AllocTRES, else ReqTRES, else ReqMem): no two such jobs
  fit, and a smaller one would need its neighbour small. What most jobs of a partition have for each CPU without having asked for
  it (SubmitLine) is its default, and does not count: the partition for sharing has another (DefMemPerCPU).
- There is *room* for a second job at a moment for as many CPUs as running jobs hold that are neither, and pending ones that are
  neither ask for, of which each must fit beside those that run: an upper bound of what can be shared. Limits, and what jobs do to
  each other, come on top of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.workload.sacct.sacct_jobs import Jobs, options_of
from cosched_emulator.workload.sacct.sacct_machine import peak
from cosched_plugin.common.sacct_rows import UNNAMED, SacctRow
from cosched_plugin.common.slurm_notation import amounts, expand

_MOSTLY: Final = 0.9  # of the jobs of a partition that could do with less: whole nodes are its rule
_EXCLUSIVE: Final = re.compile(r"\s--exclusive\b", re.ASCII)
_MEMORY: Final = re.compile(r"\s--mem(?:-per-(?:cpu|gpu))?[= ]", re.ASCII)
_NUMBERED: Final = re.compile(r"\[[^\]]*\]|[0-9]+", re.ASCII)
_ASKED: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,6})?[KMGTPE]?)[nc]?", re.ASCII)  # ReqMem

_MOST_MB: Final = 1 << 51

_Ints = NDArray[np.int64]
_Mask = NDArray[np.bool_]


class Sharing(NamedTuple):
    """What a dump says of sharing; flags and counts by job."""

    exclusive: tuple[bool, ...]
    large: tuple[bool, ...]  # and not exclusive
    by_default: int  # jobs with as much memory, by the default of their partition
    memory_mb: tuple[int, ...]  # of the kinds of nodes, the smallest first; none: no job holds any
    given: bool  # whether it was said how much memory nodes have
    outside: float  # share of the CPU time of jobs that can never be beside others
    room: float  # share of the CPU time of jobs with room for a second one

    def as_dict(self) -> dict[str, Any]:
        """Return counts and shares as plain values."""
        return {
            "exclusive_jobs": sum(self.exclusive),
            "large_jobs": sum(self.large),
            "large_by_default_jobs": self.by_default,
            "node_memory_mb": list(self.memory_mb),
            "never_beside_others_percent": 100 * self.outside,
            "room_percent": 100 * self.room,
        }

    def lines(self) -> Iterator[str]:
        """Yield a line for what can never share, and one for the room that is left."""
        parts = [f"{sum(self.exclusive)} jobs that are exclusive (SubmitLine, or whole nodes that they did not need)"]
        if self.memory_mb:
            sizes = " or ".join(f"{each:,}" for each in self.memory_mb)
            guess = "given" if self.given else "guessed: the most that jobs held"
            parts.append(f"{sum(self.large)} with more than half of a node's memory ({sizes} MiB, {guess})")
        else:
            parts.append("memory is not known")
        default = f"; {self.by_default} more hold as much only by their partition's default: halve it to share nodes"
        yield f"never co-located: {', '.join(parts)}; {100 * self.outside:.0f} % of the CPU time{default * (self.by_default > 0)}"
        held = f"{100 * self.room:.0f} % of the CPU time that jobs held"
        yield f"room for a second job: at most {held}; a job that fits was pending then"


def sharing_of(jobs: Jobs, whole: _Mask, threads_per_core: int = 1, memory_mb: int | None = None) -> Sharing:
    """Return what is said of some jobs, ``whole``: which of them had all CPUs of their nodes; ``memory_mb``: of every node."""
    exclusive = _exclusive(jobs, whole, threads_per_core)
    large, by_default, sizes = _large(jobs, exclusive, memory_mb)
    never = exclusive | large
    start, end = jobs.column("start_s"), jobs.end_s()
    cpus = jobs.of("cpus", int)
    used = ((end - start) * cpus).astype(np.float64)  # exact: whole numbers
    held, beside = used.sum(), ~never
    shared = room_of(jobs.submit_s[beside], start[beside], end[beside], cpus[beside])
    return Sharing(
        tuple(exclusive.tolist()),
        tuple(large.tolist()),
        by_default,
        sizes,
        memory_mb is not None,
        float(used[never].sum() / held) if held else 0.0,
        float(shared / held) if held else 0.0,
    )


# ---------------------------------------------------------------- what can never share


def _large(jobs: Jobs, exclusive: _Mask, memory_mb: int | None) -> tuple[_Mask, int, tuple[int, ...]]:
    """Return which jobs are large, how many more would be but for a default, and the sizes of nodes."""
    nodes, memory = np.maximum(1, jobs.nodes()), _memory(jobs)
    each_mb = np.rint(memory / np.maximum(1, jobs.of("cpus", int))).astype(np.int64)
    of_kind = _node_memory(jobs, nodes, memory) if memory_mb is None else {}

    def size_of(node_list: str) -> int:
        return memory_mb or min((of_kind[kind] for kind in _kinds(node_list) if kind in of_kind), default=0)

    room = nodes * jobs.of("node_list", size_of)
    much = ~exclusive & (2 * memory > room) & (room > 0)
    asked = jobs.of("command", lambda command: _MEMORY.search(options_of(command)) is not None)
    default = much & ~asked & (each_mb == _defaults(jobs, each_mb))
    sizes = {memory_mb} if memory_mb else set(of_kind.values())
    return much & ~default, int(default.sum()), tuple(sorted(sizes)) if memory.any() else ()


def _exclusive(jobs: Jobs, whole: _Mask, threads_per_core: int) -> _Mask:
    """Return which jobs are alone on their nodes by their own wish."""
    asked = jobs.of("asked", int)
    # Jobs that got all threads of their nodes, which are at least a core more than they asked for.
    spare = whole & (asked > 0) & (asked <= jobs.of("cpus", int) - threads_per_core)
    partition, kinds = jobs.column("partition"), len(jobs.rows.tables["partition"].found)
    got = np.bincount(partition[spare], minlength=kinds)
    could = np.bincount(partition[spare | ~whole], minlength=kinds)
    wished = jobs.of("command", lambda command: _EXCLUSIVE.search(options_of(command)) is not None)
    exclusive: _Mask = wished | (spare & (got < _MOSTLY * could)[partition])
    return exclusive


def memory_of(row: SacctRow) -> int:
    """Return the memory of all nodes of a job; 0: not told."""
    times = {"n": row.nodes, "c": row.cpus}.get(row.memory[-1:], 1)
    return row.allocated.get("mem") or row.requested.get("mem") or times * _asked_mb(row.memory)


@cache
def _asked_mb(text: str) -> int:
    """Return the amount of ReqMem, of what it names: of each node, of each CPU, or of the job."""
    found = _ASKED.fullmatch(text)
    return 0 if found is None else amounts(f"mem={found[1] if found[1][-1].isalpha() else f'{found[1]}M'}")["mem"]


def _memory(jobs: Jobs) -> _Ints:
    """Return the memory of all nodes of each job; 0: not told."""
    told, requested = (
        jobs.of(name, lambda amounts: min(amounts.get("mem", 0), _MOST_MB)) for name in ("allocated", "requested")
    )
    asked = jobs.of("memory", lambda text: min(_asked_mb(text), _MOST_MB >> 20))
    of = np.where(jobs.of("memory", lambda text: text.endswith("n")), jobs.of("nodes", int), 1)
    of = np.where(jobs.of("memory", lambda text: text.endswith("c")), jobs.of("cpus", int), of)
    return np.where(told, told, np.where(requested, requested, asked * of)).astype(np.int64)


def _defaults(jobs: Jobs, each_mb: _Ints) -> _Ints:
    """Return the memory for each CPU that more than half of the jobs of each job's partition have; -1: none; ``each_mb``: of each."""
    partition = jobs.column("partition").astype(np.int64)
    pairs, count = np.unique(np.stack((partition, each_mb)), axis=1, return_counts=True)
    most = 2 * count > np.bincount(partition)[pairs[0]]
    found = np.full(partition.max() + 1, -1)
    found[pairs[0][most]] = pairs[1][most]
    return found[partition]


@cache
def _kinds(node_list: str) -> frozenset[str]:
    """Return the names of nodes without what tells them apart: ``gpu1,n[2-4]`` has two kinds; an empty one where none is named."""
    return frozenset([""] if node_list in UNNAMED else _NUMBERED.sub("#", node_list).split(","))


def _node_memory(jobs: Jobs, nodes: _Ints, memory: _Ints) -> Mapping[str, int]:
    """Return the memory of a node by kind: the most of one job, or of all at one time on as many nodes as were held.

    ``nodes`` and ``memory``: of each job.
    """
    lists = jobs.rows.tables["node_list"].found
    by_kind: dict[str, list[int]] = {}
    for code in np.unique(jobs.column("node_list")).tolist():
        if len(kinds := _kinds(lists[code])) == 1:
            by_kind.setdefault(next(iter(kinds)), []).append(code)
    found = {}
    for kind, codes in by_kind.items():
        own = np.flatnonzero(np.isin(jobs.column("node_list"), codes))
        named = len({name for code in codes if lists[code] not in UNNAMED for name in expand(lists[code])})
        most = peak(jobs.column("start_s")[own], jobs.end_s()[own], memory[own])
        found[kind] = max(int((-(-memory[own] // nodes[own])).max()), -(-most // named) if named else 0)
    return {kind: size for kind, size in found.items() if size}


# ---------------------------------------------------------------- room


_ENDS: Final = 2  # after 0, it is submitted, and 1, it starts
_BLOCK: Final = 1 << 16  # events in lists at one time


def room_of(submit: _Ints, start: _Ints, end: _Ints, sizes: _Ints) -> int:
    """Return the CPU seconds with room for a second job, in n log n.

    From ``submit`` a job that may be beside others waits, from ``start`` to ``end`` it holds as many CPUs as its size.
    """
    times = np.concatenate((submit, start, end))
    order = np.argsort(times, kind="stable")
    waiting = _Sums(np.unique(sizes).tolist())
    held = room = before = 0
    for block in range(0, len(order), _BLOCK):
        events = order[block : block + _BLOCK]
        kinds, places = np.divmod(events, len(sizes))
        for at, kind, size in zip(times[events].tolist(), kinds.tolist(), sizes[places].tolist(), strict=True):
            if at > before:
                room += (at - before) * min(held, waiting.up_to(held)) if held else 0
                before = at
            if kind == _ENDS:
                held -= size
                continue
            held += size * kind
            waiting.add(size, -size if kind else size)
    return room


class _Sums:
    """Sums of amounts by size, up to any size: a Fenwick tree."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self._sizes = sorted(sizes)
        self._places = {size: place for place, size in enumerate(self._sizes, 1)}
        self._tree = [0] * (len(self._sizes) + 1)

    def add(self, size: int, amount: int) -> None:
        place = self._places[size]
        while place < len(self._tree):
            self._tree[place] += amount
            place += place & -place

    def up_to(self, size: int) -> int:
        place, total = bisect_right(self._sizes, size), 0
        while place:
            total += self._tree[place]
            place &= place - 1
        return total
