"""The use of the machine, in total and over time: threads, nodes, shared nodes, and the length of the queue."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cosched_emulator.results.ended_jobs import IntArray
from cosched_emulator.results.record_columns import DiskColumns, RecordColumns, StayColumns, distinct_stays
from cosched_emulator.results.thread_intervals import mask_intervals

# A sweep over time: the number of parts of a machine held by one job or by several, after each change of that number.
#
# A part is a node, or one of the cores of a node. Each run of neighbouring nodes costs two operations on a slice of an array,
# whatever its number of nodes. For short runs `occupancy` counts pairs of stay and node instead.

_EVENTS_AT_ONCE = 65_536


class Steps(NamedTuple):
    """A step function: its value is ``values[i]`` from ``times_us[i]`` on. Times ascend strictly."""

    times_us: IntArray
    values: IntArray


def distinct(values: IntArray) -> IntArray:
    """Return the distinct values, ascending. For this, numpy.unique loads numpy.ma, which takes longer than most sorts."""
    ordered = np.sort(values)
    differs = np.ones(ordered.size, dtype=np.bool_)
    differs[1:] = ordered[1:] != ordered[:-1]
    return ordered[differs]


def changes_only(times_us: IntArray, values: IntArray) -> Steps:
    """Return the steps without those that change nothing; the value before the first is 0."""
    changed = np.diff(values, prepend=0) != 0
    return Steps(times_us[changed], values[changed])


class Held(NamedTuple):
    """The number of held parts over time."""

    used: Steps  # by at least one job
    shared: Steps  # by at least two


class Block(NamedTuple):
    """The parts that rows hold: the same of each of their nodes, as ranges [first, last) of parts of a node."""

    start_us: IntArray
    end_us: IntArray
    first_node: IntArray
    node_count: IntArray
    kind: IntArray  # index of the row's ranges
    ranges: Sequence[Sequence[tuple[int, int]]]  # by kind


def sweep(block: Block, nodes: int, parts: int) -> Held:
    """Return the held parts of ``nodes`` nodes with ``parts`` parts each; rows of zero duration hold nothing."""
    times_us = distinct(np.concatenate([block.start_us, block.end_us]))
    used_at, shared_at = (np.zeros(times_us.size, dtype=np.int64) for _ in range(2))
    depth: npt.NDArray[np.int16] = np.zeros((nodes, parts), dtype=np.int16)
    count = np.count_nonzero
    used = shared = 0
    rows = len(block.start_us)
    last_node = block.first_node + block.node_count
    order = np.argsort(np.concatenate([block.start_us, block.end_us]), kind="stable")
    for first in range(0, order.size, _EVENTS_AT_ONCE):
        event = order[first : first + _EVENTS_AT_ONCE]
        starts = event < rows
        row = np.where(starts, event, event - rows)
        time_us = np.where(starts, block.start_us[row], block.end_us[row])
        columns = (np.searchsorted(times_us, time_us), starts, block.first_node[row], last_node[row], block.kind[row])
        for place, start, low, high, kind in zip(*(column.tolist() for column in columns), strict=True):
            for left, right in block.ranges[kind]:
                held = depth[low:high, left:right]
                if start:
                    held += 1
                    used += int(count(held == 1))
                    shared += int(count(held == 2))
                else:
                    used -= int(count(held == 1))
                    shared -= int(count(held == 2))
                    held -= 1
            used_at[place], shared_at[place] = used, shared
    return Held(changes_only(times_us, used_at), changes_only(times_us, shared_at))


# Nodes are swept in groups of at most this many (stay, node) pairs: this bounds the memory on large machines.
PAIRS_AT_ONCE = 100_000
LONG_RUN = 20  # mean nodes per row from which a sweep by row is faster than one by pair
_NUMBERS_AT_ONCE = 10_000
_SMALL = 1 << 16  # numbers of 16 bits


class MachineUse(NamedTuple):
    """Exact totals in microseconds, over all nodes and all jobs."""

    thread_us: int  # hardware threads held · time
    used_us: int  # node time with at least one job
    shared_us: int  # node time with at least two jobs


def occupancy(stays: StayColumns, nodes: int, *, alone: bool = False) -> MachineUse:
    """Return the totals of ``stays`` on a machine of ``nodes`` nodes; ``alone``: each has one thread, for one job at a time."""
    thread_us = product_sum(stays.threads * stays.node_count, stays.end_us - stays.start_us)
    if alone:
        return MachineUse(thread_us, thread_us, 0)
    if _has_long_runs(stays):
        held = nodes_held(stays, nodes)
        return MachineUse(thread_us, integral(held.used), integral(held.shared))
    used_us = shared_us = 0
    for first, last in node_groups(stays, nodes):
        times_us, jobs = _depths(stays, first, last)
        spans_us = np.diff(times_us)
        used_us += exact_sum(spans_us[jobs[:-1] >= 1])
        shared_us += exact_sum(spans_us[jobs[:-1] >= 2])
    return MachineUse(thread_us, used_us, shared_us)


def _has_long_runs(stays: StayColumns) -> bool:
    rows = stays.end_us > stays.start_us
    return int(stays.node_count[rows].sum()) > LONG_RUN * int(np.count_nonzero(rows))


def span_us(jobs: RecordColumns, stays: StayColumns) -> tuple[int, int]:
    """Return when the first job was submitted, and when the last one ended or left its nodes or the disk."""
    first_us = int(jobs.submit_us.min()) if len(jobs) else 0
    ends_us = [jobs.end_us[jobs.ended], stays.end_us, jobs.disk.end_us[jobs.disk.ended]]
    return first_us, max([int(ends.max()) for ends in ends_us if ends.size], default=first_us)


def integral(steps: Steps) -> int:
    """Return the exact integral over time."""
    return product_sum(steps.values[:-1], np.diff(steps.times_us))


def steps_of(times_us: IntArray, changes: IntArray) -> Steps:
    """Return the cumulative sum over time of ``changes`` at ``times_us``, given in any order."""
    times, place = np.unique(times_us, return_inverse=True)
    total = np.zeros(times.size, dtype=np.int64)
    np.add.at(total, place, changes)
    return Steps(times, np.cumsum(total))


def nodes_held(stays: StayColumns, nodes: int) -> Held:
    """Return over time the number of nodes with at least one job, and with at least two."""
    rows = np.flatnonzero(stays.end_us > stays.start_us)
    if _has_long_runs(stays):
        columns = (stays.start_us[rows], stays.end_us[rows], stays.first_node[rows], stays.node_count[rows])
        return sweep(Block(*columns, np.zeros(rows.size, dtype=np.int64), (((0, 1),),)), nodes, 1)
    times_us = distinct(np.concatenate([stays.start_us[rows], stays.end_us[rows]]))
    changes = [np.zeros(times_us.size, dtype=np.int64) for _ in range(2)]
    for first, last in node_groups(stays, nodes):
        at_us, depth = _depths(stays, first, last)
        place = np.searchsorted(times_us, at_us)
        for jobs, total in enumerate(changes, 1):
            change = np.diff((depth >= jobs).astype(np.int8), prepend=0)
            changed = change != 0
            np.add.at(total, place[changed], change[changed])
    return Held(*(changes_only(times_us, np.cumsum(total)) for total in changes))


def threads_held(stays: StayColumns) -> Steps:
    """Return over time the number of held hardware threads."""
    held = stays.threads * stays.node_count
    return steps_of(np.concatenate([stays.start_us, stays.end_us]), np.concatenate([held, -held]))


def amount_held(stays: StayColumns, of_job: IntArray) -> Steps:
    """Return over time how much is held of what the jobs have on each of their nodes, by row of the jobs."""
    held = of_job[stays.job] * stays.node_count
    return steps_of(np.concatenate([stays.start_us, stays.end_us]), np.concatenate([held, -held]))


def threads_in_use(stays: StayColumns, nodes: int, threads: int) -> Steps:
    """Return over time the number of hardware threads that at least one job holds, where several jobs may hold the same.

    ``threads`` is the number of a node's threads, of the largest node.
    """
    rows = np.flatnonzero(stays.end_us > stays.start_us)
    columns = (stays.start_us[rows], stays.end_us[rows], stays.first_node[rows], stays.node_count[rows])
    ranges = [[(low, high + 1) for low, high in mask_intervals(mask)] for mask in stays.mask.distinct]
    return sweep(Block(*columns, stays.mask.places[rows], ranges), nodes, threads).used


def jobs_waiting(jobs: RecordColumns, stays: StayColumns) -> Steps:
    """Return over time the number of waiting jobs: submitted, not ended, without nodes and not on disk."""
    _, start_us, end_us = distinct_stays(stays)
    disk = jobs.disk
    more_us = [jobs.submit_us, end_us, disk.end_us[disk.ended]]
    fewer_us = [jobs.end_us[jobs.ended], start_us, disk.start_us]
    changes = [np.full(times.size, sign) for sign, group in ((1, more_us), (-1, fewer_us)) for times in group]
    return steps_of(np.concatenate(more_us + fewer_us), np.concatenate(changes))


def swap_taken(disk: DiskColumns) -> Steps:
    """Return over time the swap space in use on all nodes, in MB."""
    taken, given = disk.swap_mb, -disk.swap_mb[disk.ended]
    return steps_of(np.concatenate([disk.start_us, disk.end_us[disk.ended]]), np.concatenate([taken, given]))


def time_average(steps: Steps, edges_us: IntArray) -> npt.NDArray[np.float64]:
    """Return the mean of ``steps`` over time between neighbouring ``edges_us``; 0 before the first step."""
    if steps.times_us.size == 0:
        return np.zeros(edges_us.size - 1)
    # The integral is piecewise linear, so interpolating it is exact.
    times = np.append(steps.times_us, max(steps.times_us[-1], edges_us[-1]) + 1)
    integral = np.concatenate([[0.0], np.cumsum(steps.values.astype(np.float64) * np.diff(times))])
    averages: npt.NDArray[np.float64] = np.diff(np.interp(edges_us, times, integral)) / np.diff(edges_us)
    return averages


def node_groups(stays: StayColumns, nodes: int, most: int = PAIRS_AT_ONCE) -> list[tuple[int, int]]:
    """Cut the nodes into ranges [first, last) with at most this number of stays each (but at least one node)."""
    change = np.zeros(nodes + 1, dtype=np.int64)
    np.add.at(change, stays.first_node, 1)
    np.add.at(change, stays.first_node + stays.node_count, -1)
    stays_until = np.cumsum(np.cumsum(change[:nodes]))
    groups = []
    first = 0
    while first < nodes:
        before = int(stays_until[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(stays_until, before + most, side="right")))
        groups.append((first, last))
        first = last
    return groups


def _depths(stays: StayColumns, first: int, last: int) -> tuple[IntArray, IntArray]:
    """Return (times, jobs) for the nodes of [first, last), one after another: ``jobs[i]`` jobs from ``times[i]`` to ``times[i + 1]``.

    Every node ends empty, so the step from one node to the next contributes nothing.
    """
    rows, low, counts = _rows_on(stays, first, last)
    # Events are sorted before they are repeated for each node, and then by node in a stable way, which numpy does by radix for
    # numbers of 16 bits: a sixth of the time of sorting all of them by both.
    times = np.concatenate([stays.start_us[rows], stays.end_us[rows]])
    order = np.argsort(times, kind="stable")
    event_counts = np.concatenate([counts, counts])[order]
    nodes = _from(np.concatenate([low, low])[order] - first, event_counts)
    steps = np.repeat(np.where(order < rows.size, 1, -1), event_counts)
    by_node = np.argsort(nodes.astype(np.uint16) if last - first <= _SMALL else nodes, kind="stable")
    return np.repeat(times[order], event_counts)[by_node], np.cumsum(steps[by_node])


def _rows_on(stays: StayColumns, first: int, last: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the rows with nodes of [first, last), without stays of no length, the first of these nodes of each, and their number."""
    ends = stays.first_node + stays.node_count
    rows = np.flatnonzero((stays.first_node < last) & (ends > first) & (stays.end_us > stays.start_us))
    low = np.maximum(stays.first_node[rows], first)
    return rows, low, np.minimum(ends[rows], last) - low


def pairs_on(stays: StayColumns, first: int, last: int) -> tuple[IntArray, IntArray]:
    """Return the pairs (row of a stay, node) of the nodes of [first, last), without stays of no length."""
    rows, low, counts = _rows_on(stays, first, last)
    return np.repeat(rows, counts), _from(low, counts)


def _from(firsts: IntArray, counts: IntArray) -> IntArray:
    """Return the concatenation of f..f+c-1 for every f of ``firsts`` with its c of ``counts``."""
    return np.repeat(firsts, counts) + counters(counts)


def counters(counts: IntArray) -> IntArray:
    """Return the concatenation of 0..c-1 for every c of ``counts``."""
    ends = np.cumsum(counts)
    return np.arange(counts.sum(), dtype=np.int64) - np.repeat(ends - counts, counts)


def rounded(value: float) -> float:
    """Return a figure with six decimals, so that times are exact to the microsecond."""
    return round(float(value), 6)


def ratio(part: int, whole: int) -> float | None:
    """Return part / whole as a figure; None where there is no whole."""
    return rounded(part / whole) if whole else None


def exact_sum(values: IntArray) -> int:
    """Return the exact sum of non-negative values, also if int64 would overflow."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def product_sum(left: IntArray, right: IntArray) -> int:
    """Return Σ left·right in Python's integers, which do not overflow."""
    total = 0
    for first in range(0, left.size, _NUMBERS_AT_ONCE):
        some = slice(first, first + _NUMBERS_AT_ONCE)
        total += sum(map(mul, left[some].tolist(), right[some].tolist()))
    return total
