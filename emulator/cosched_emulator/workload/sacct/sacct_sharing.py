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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from cosched_emulator.workload.sacct.sacct_jobs import LoggedJob, options_of
from cosched_emulator.workload.sacct.sacct_machine import peak
from cosched_plugin.common.sacct_rows import UNNAMED, SacctRow
from cosched_plugin.common.slurm_notation import amounts, expand

_MOSTLY: Final = 0.9  # of the jobs of a partition that could do with less: whole nodes are its rule
_EXCLUSIVE: Final = re.compile(r"\s--exclusive\b", re.ASCII)
_MEMORY: Final = re.compile(r"\s--mem(?:-per-(?:cpu|gpu))?[= ]", re.ASCII)
_NUMBERED: Final = re.compile(r"\[[^\]]*\]|[0-9]+", re.ASCII)
_ASKED: Final = re.compile(r"([0-9.]+[A-Z]?)([nc]?)", re.ASCII)  # ReqMem


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
            guess = "given" if self.given else "guessed: the most that was held"
            parts.append(f"{sum(self.large)} with more than half of a node's memory ({sizes} MiB, {guess})")
        else:
            parts.append("memory is not known")
        default = f"; {self.by_default} more hold as much by their partition's default, which sharing needs halved"
        yield f"never beside others: {', '.join(parts)}; {100 * self.outside:.0f} % of the CPU time{default * (self.by_default > 0)}"
        yield f"room for a second job: in at most {100 * self.room:.0f} % of the CPU time that jobs held, while one that fits waited"


def sharing_of(
    jobs: Sequence[LoggedJob], whole: Sequence[bool], threads_per_core: int = 1, memory_mb: int | None = None
) -> Sharing:
    """Return what is said of some jobs, ``whole``: which of them had all CPUs of their nodes; ``memory_mb``: of every node."""
    exclusive = _exclusive(jobs, whole, threads_per_core)
    memory = [memory_of(job.row) for job in jobs]
    nodes = _node_memory(jobs, memory) if memory_mb is None else {}
    each_mb = [round(own / max(1, job.row.cpus)) for job, own in zip(jobs, memory, strict=True)]
    defaults = _defaults(jobs, each_mb)
    large, by_default = [], 0
    for job, alone, own, each in zip(jobs, exclusive, memory, each_mb, strict=True):
        row = job.row
        size = memory_mb or min((nodes[kind] for kind in _kinds(row.node_list) if kind in nodes), default=0)
        much = not alone and 2 * own > size * max(1, job.nodes) > 0
        default = much and not _MEMORY.search(options_of(row.command)) and each == defaults.get(row.partition)
        by_default += default
        large.append(much and not default)
    sizes = {memory_mb} if memory_mb else set(nodes.values())
    held = outside = 0
    for job, alone, much in zip(jobs, exclusive, large, strict=True):
        used = (_end_s(job) - (job.row.start_s or job.submit_s)) * job.row.cpus
        held += used
        outside += used * (alone or much)
    room = room_of(
        Stay(job.submit_s, job.row.start_s or job.submit_s, _end_s(job), job.row.cpus, not (alone or much))
        for job, alone, much in zip(jobs, exclusive, large, strict=True)
    )
    return Sharing(
        exclusive,
        tuple(large),
        by_default,
        tuple(sorted(sizes)) if any(memory) else (),
        memory_mb is not None,
        outside / held if held else 0.0,
        room / held if held else 0.0,
    )


def _end_s(job: LoggedJob) -> int:
    start_s = job.row.start_s or job.submit_s
    return max(start_s, job.row.end_s or start_s)


# ---------------------------------------------------------------- what can never share


def _exclusive(jobs: Sequence[LoggedJob], whole: Sequence[bool], threads_per_core: int) -> tuple[bool, ...]:
    """Return which jobs are alone on their nodes by their own wish."""
    spare = [  # more than a core was not asked for
        has and 0 < job.row.asked <= job.row.cpus - threads_per_core for job, has in zip(jobs, whole, strict=True)
    ]
    got, could = Counter[str](), Counter[str]()
    for job, has, more in zip(jobs, whole, spare, strict=True):
        got[job.row.partition] += more
        could[job.row.partition] += more or not has
    return tuple(
        _EXCLUSIVE.search(options_of(job.row.command)) is not None
        or (more and got[job.row.partition] < _MOSTLY * could[job.row.partition])
        for job, more in zip(jobs, spare, strict=True)
    )


def memory_of(row: SacctRow) -> int:
    """Return the memory of all nodes of a job; 0: not told."""
    told = row.allocated.get("mem") or row.requested.get("mem")
    found = None if told else _ASKED.fullmatch(row.memory)
    if found is None:
        return told or 0
    times = {"n": row.nodes, "c": row.cpus}.get(found[2], 1)
    text = found[1] if found[1][-1].isalpha() else f"{found[1]}M"
    return times * amounts(f"mem={text}")["mem"]


def _defaults(jobs: Iterable[LoggedJob], each_mb: Iterable[int]) -> Mapping[str, int]:
    """Return the memory for each CPU that more than half of the jobs of a partition have, by partition; ``each_mb``: of each job."""
    found: dict[str, Counter[int]] = {}
    for job, each in zip(jobs, each_mb, strict=True):
        found.setdefault(job.row.partition, Counter())[each] += 1
    most = {partition: counts.most_common(1)[0] for partition, counts in found.items()}
    return {partition: each for partition, (each, count) in most.items() if 2 * count > found[partition].total()}


@cache
def _kinds(node_list: str) -> frozenset[str]:
    """Return the names of nodes without what tells them apart: ``gpu1,n[2-4]`` has two kinds; an empty one where none is named."""
    return frozenset([""] if node_list in UNNAMED else _NUMBERED.sub("#", node_list).split(","))


def _node_memory(jobs: Sequence[LoggedJob], memory: Sequence[int]) -> Mapping[str, int]:
    """Return the memory of a node by kind: the most of one job, or of all at one time on as many nodes as were held.

    ``memory``: of each job.
    """
    by_kind: dict[str, list[int]] = {}
    for place, job in enumerate(jobs):
        kinds = _kinds(job.row.node_list)
        if len(kinds) == 1:
            by_kind.setdefault(next(iter(kinds)), []).append(place)
    found = {
        kind: _most_mb([jobs[place] for place in own], [memory[place] for place in own])
        for kind, own in by_kind.items()
    }
    return {kind: size for kind, size in found.items() if size}


def _most_mb(jobs: Sequence[LoggedJob], memory: Sequence[int]) -> int:
    each = max(-(-own // max(1, job.nodes)) for job, own in zip(jobs, memory, strict=True))
    lists = {job.row.node_list for job in jobs} - {*UNNAMED}
    nodes = len({name for text in lists for name in expand(text)})
    start = np.fromiter((job.row.start_s or 0 for job in jobs), np.int64, len(jobs))
    end = np.fromiter(map(_end_s, jobs), np.int64, len(jobs))
    most = peak(start, end, np.array(memory, np.int64))
    return max(each, -(-most // nodes)) if nodes else each


# ---------------------------------------------------------------- room


class Stay(NamedTuple):
    """A job: from ``submit`` it waits, from ``start`` to ``end`` it holds ``size`` CPUs."""

    submit: int
    start: int
    end: int
    size: int
    beside: bool  # whether it may be beside others


_ENDS: Final = 2  # after 0, it is submitted, and 1, it starts
_BLOCK: Final = 1 << 16  # events in lists at one time


def room_of(stays: Iterable[Stay]) -> int:
    """Return the CPU seconds with room for a second job, in n log n."""
    table = np.fromiter((stay[:4] for stay in stays if stay.beside), "i8,i8,i8,i8")
    submit, start, end, sizes = (table[name] for name in table.dtype.names or ())
    times = np.concatenate((submit, start, end))
    order = np.argsort(times, kind="stable")
    waiting = _Sums(np.unique(sizes).tolist())
    held = room = before = 0
    for block in range(0, len(order), _BLOCK):
        events = order[block : block + _BLOCK]
        kinds, places = np.divmod(events, len(table))
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
