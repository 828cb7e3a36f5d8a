"""A schedule as boxes of nodes and time, split where the jobs on a node change (the RUA paper's shared windows), or as pixels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from cosched_emulator.results.figures.occupancy import counters
from cosched_emulator.results.quanta import ROLES, QuantaColumns
from cosched_emulator.results.record_columns import BoolArray, IntArray, RecordColumns, StayColumns
from cosched_emulator.results.thread_intervals import mask_intervals
from cosched_plugin.protocol.messages import NodeClass


class Box(NamedTuple):
    """A job on neighbouring hardware threads; node n spans n to n + 1, divided evenly among its threads."""

    begin_us: int
    end_us: int
    low: float
    high: float
    job: int  # row in `RecordColumns`
    jobs_on_node: int

    @property
    def area(self) -> float:
        """Return the size of the box, in microseconds of a whole node."""
        return (self.end_us - self.begin_us) * (self.high - self.low)


def shared_boxes(machine: Sequence[NodeClass], stays: StayColumns, begin_us: int, end_us: int) -> list[Box]:
    """Return the boxes between ``begin_us`` and ``end_us``, by node, split where neighbours come and go."""
    threads_of = _threads_of_nodes(machine)
    events: list[list[tuple[int, int, int]]] = [[] for _ in threads_of]
    for row in _rows_within(stays, begin_us, end_us):
        first, count = int(stays.first_node[row]), int(stays.node_count[row])
        start, end = int(stays.start_us[row]), int(stays.end_us[row])
        for node in range(first, first + count):
            events[node] += [(start, 1, row), (end, -1, row)]
    boxes: list[Box] = []
    for node, changes in enumerate(events):
        present: dict[int, int] = {}  # stay -> time of the last change of its number of neighbours
        for time_us, group in groupby(sorted(changes), key=itemgetter(0)):
            before = len(present)
            arrived = []
            for _, change, row in group:
                if change > 0:
                    arrived.append(row)
                else:
                    _add(boxes, stays, row, node, threads_of[node], present.pop(row), time_us, before)
            if len(present) + len(arrived) != before:
                for row, since_us in present.items():
                    _add(boxes, stays, row, node, threads_of[node], since_us, time_us, before)
                    present[row] = time_us
            present.update(dict.fromkeys(arrived, time_us))
    cut = (box._replace(begin_us=max(box.begin_us, begin_us), end_us=min(box.end_us, end_us)) for box in boxes)
    return [box for box in cut if box.begin_us < box.end_us]


def job_outlines(machine: Sequence[NodeClass], stays: StayColumns, begin_us: int, end_us: int) -> list[Box]:
    """Return the outlines of the jobs between the two times: one box per contiguous piece on the node axis."""
    threads_of = _threads_of_nodes(machine)
    boxes = []
    for row in _rows_within(stays, begin_us, end_us):
        first, count = int(stays.first_node[row]), int(stays.node_count[row])
        pieces: list[list[float]] = []
        for node in range(first, first + count):
            for low, high in _bands(stays.mask[row], node, threads_of[node]):
                if pieces and pieces[-1][1] == low:
                    pieces[-1][1] = high
                else:
                    pieces.append([low, high])
        start, end = max(int(stays.start_us[row]), begin_us), min(int(stays.end_us[row]), end_us)
        boxes += [Box(start, end, low, high, int(stays.job[row]), 0) for low, high in pieces]
    return boxes


def outlines_within(machine: Sequence[NodeClass], stays: StayColumns, begin_us: int, end_us: int) -> int:
    """Return about how many boxes `job_outlines` has, without making them: pieces of neighbouring threads on whole nodes count once."""
    rows = np.array(_rows_within(stays, begin_us, end_us), dtype=np.int64)
    whole = {(1 << threads) - 1 for threads in _threads_of_nodes(machine)}
    pieces = np.array(
        [0 if mask in whole else len(mask_intervals(mask)) for mask in stays.mask.distinct], dtype=np.int64
    )
    its = pieces[stays.mask.places[rows]]
    return int(np.where(its == 0, 1, its * stays.node_count[rows]).sum())


def _add(
    boxes: list[Box], stays: StayColumns, row: int, node: int, threads: int, since_us: int, until_us: int, jobs: int
) -> None:
    if since_us < until_us:
        for low, high in _bands(stays.mask[row], node, threads):
            boxes.append(Box(since_us, until_us, low, high, int(stays.job[row]), jobs))


def _bands(mask: int, node: int, threads: int) -> list[tuple[float, float]]:
    return [(node + low / threads, node + (high + 1) / threads) for low, high in mask_intervals(mask)]


def _threads_of_nodes(machine: Sequence[NodeClass]) -> list[int]:
    return [node_class.threads for node_class in machine for _ in range(node_class.nodes)]


def _rows_within(stays: StayColumns, begin_us: int, end_us: int) -> list[int]:
    inside = (stays.start_us < end_us) & (stays.end_us > begin_us) & (stays.end_us > stays.start_us)
    return np.flatnonzero(inside).tolist()


# The same schedule as pixels, for more boxes than a picture can show: no row is split where neighbours come and go.


class SharedPixels(NamedTuple):
    """What is at the middle of each pixel: [row, column], row 0 with node 0, columns in order of time."""

    jobs_on_node: IntArray
    mix: IntArray  # sum of the rows + 1 of the jobs on these threads, which tells jobs apart; 0: nothing is there
    narrow: BoolArray  # a job is there that misses the middle of every pixel


def shared_pixels(
    machine: Sequence[NodeClass], stays: StayColumns, begin_us: int, end_us: int, width: int, most_rows: int
) -> SharedPixels:
    """Return the pixels of the time between ``begin_us`` and ``end_us``.

    A node has a row for each of its threads, or for some neighbouring ones; where there is no room for that, some nodes have none.
    """
    threads_of = np.array(_threads_of_nodes(machine), dtype=np.int64)
    bands = max(1, min(int(threads_of.max()), most_rows // threads_of.size))
    height = min(threads_of.size * bands, most_rows)
    chosen = np.array(_rows_within(stays, begin_us, end_us), dtype=np.int64)
    columns_per_us = width / (end_us - begin_us)
    place = [(times[chosen] - begin_us) * columns_per_us for times in (stays.start_us, stays.end_us)]
    left, right = (np.clip(np.ceil(each - 0.5), 0, width).astype(np.int64) for each in place)
    low, high = stays.first_node[chosen], stays.first_node[chosen] + stays.node_count[chosen]
    bottom, top = (np.ceil(node * height / threads_of.size - 0.5).astype(np.int64) for node in (low, high))
    narrow = (left >= right) | (bottom >= top)
    number = stays.job[chosen] + 1
    deep, mix, thin = (_Rectangles(height, width) for _ in range(3))
    deep.add(bottom[~narrow], top[~narrow], left[~narrow], right[~narrow], np.ones_like(number[~narrow]))
    first = np.clip(place[0], 0, width - 1).astype(np.int64)
    lowest = np.minimum(bottom, height - 1)
    upper, last = np.maximum(lowest + 1, top), np.maximum(first + 1, right)
    thin.add(lowest[narrow], upper[narrow], first[narrow], last[narrow], np.ones_like(number[narrow]))
    wide = np.flatnonzero(~narrow)
    masks = stays.mask.places[chosen]
    for place_of_mask, mask in enumerate(stays.mask.distinct):
        its = wide[masks[wide] == place_of_mask]
        held = {threads: _bands_held(mask, threads, bands) for threads in np.unique(threads_of).tolist()}
        if all(each == [(0, bands)] for each in held.values()):  # all of each node
            mix.add(bottom[its], top[its], left[its], right[its], number[its])
            continue
        counts = high[its] - low[its]
        nodes = np.repeat(low[its], counts) + counters(counts)
        row = np.repeat(its, counts)
        for threads, parts in held.items():
            some = threads_of[nodes] == threads
            for since, until in parts:
                first_row = nodes[some] * bands
                mix.add(first_row + since, first_row + until, left[row[some]], right[row[some]], number[row[some]])
    return SharedPixels(deep.total(), mix.total(), thin.total() > 0)


def _bands_held(mask: int, threads: int, bands: int) -> list[tuple[int, int]]:
    """Return the parts of a node with a thread of ``mask``, of ``bands`` equal ones, as ranges [first, last)."""
    found = 0
    for low, high in mask_intervals(mask):
        first, last = low * bands // threads, -(-(high + 1) * bands // threads)
        found |= (1 << min(last, bands)) - (1 << min(first, bands))
    return [(low, high + 1) for low, high in mask_intervals(found)] if found else []


class _Rectangles:
    """Sums of rectangles of numbers, each entered at its four corners."""

    def __init__(self, height: int, width: int) -> None:
        self._changes = np.zeros((height + 1, width + 1), dtype=np.int64)

    def add(self, bottom: IntArray, top: IntArray, left: IntArray, right: IntArray, number: IntArray) -> None:
        for rows, columns, sign in ((bottom, left, 1), (top, left, -1), (bottom, right, -1), (top, right, 1)):
            np.add.at(self._changes, (rows, columns), sign * number)

    def total(self) -> IntArray:
        found: IntArray = self._changes.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
        return found


# A schedule of quanta as boxes of nodes and time: who could run where, several jobs of a node one above the other.


class TurnBox(NamedTuple):
    """A job that could run in a quantum, on neighbouring nodes; node n spans n to n + 1, divided among its jobs."""

    begin_us: int
    end_us: int
    low: float
    high: float
    job_id: int
    slot: int


def turn_boxes(
    quanta: QuantaColumns, jobs: RecordColumns, stays: StayColumns, begin_us: int, end_us: int
) -> list[TurnBox]:
    """Return the boxes of the quanta between ``begin_us`` and ``end_us``, in order of time.

    The job of the turn's first slot is the lowest on its node; a partner and a guest are above it.
    """
    rows = np.flatnonzero((quanta.end_us > begin_us) & (quanta.start_us < end_us))
    nodes_of = _StayNodes(jobs, stays)
    boxes: list[TurnBox] = []
    start = 0
    while start < rows.size:
        stop = start + 1
        while stop < rows.size and quanta.start_us[rows[stop]] == quanta.start_us[rows[start]]:
            stop += 1
        boxes += _boxes_of_quantum(quanta, rows[start:stop].tolist(), nodes_of, begin_us, end_us)
        start = stop
    return boxes


def _boxes_of_quantum(
    quanta: QuantaColumns, rows: list[int], nodes_of: _StayNodes, begin_us: int, end_us: int
) -> list[TurnBox]:
    rows.sort(key=lambda row: (ROLES.index(quanta.role[row]), quanta.slot[row], quanta.job_id[row]))
    on_node: dict[int, list[int]] = {}
    for row in rows:
        start_us = int(quanta.start_us[row])
        for node in nodes_of.at(int(quanta.job_id[row]), start_us, start_us + int(quanta.allowed_us[row])):
            on_node.setdefault(node, []).append(row)
    boxes: list[TurnBox] = []
    for node, there in sorted(on_node.items()):
        for layer, row in enumerate(there):
            first_us = max(int(quanta.start_us[row]), begin_us)
            last_us = min(int(quanta.start_us[row] + quanta.allowed_us[row]), end_us)
            low, high = node + layer / len(there), node + (layer + 1) / len(there)
            last = boxes[-1] if boxes else None
            box = TurnBox(first_us, last_us, low, high, int(quanta.job_id[row]), int(quanta.slot[row]))
            if last is not None and last.job_id == box.job_id and last.high == low and len(there) == 1:
                boxes[-1] = last._replace(high=high)
            elif first_us < last_us:
                boxes.append(box)
    return boxes


class _StayNodes:
    """The nodes of jobs, by time."""

    def __init__(self, jobs: RecordColumns, stays: StayColumns) -> None:
        self._stays: dict[int, list[tuple[int, int, int, int]]] = {}
        ids = jobs.id[stays.job]
        columns = (ids, stays.start_us, stays.end_us, stays.first_node, stays.node_count)
        for job_id, start_us, end_us, first, count in zip(*(column.tolist() for column in columns), strict=True):
            self._stays.setdefault(job_id, []).append((start_us, end_us, first, count))

    def at(self, job_id: int, begin_us: int, end_us: int) -> list[int]:
        """Return the nodes that a job held then."""
        return [
            node
            for start_us, until_us, first, count in self._stays.get(job_id, ())
            if start_us < end_us and until_us > begin_us
            for node in range(first, first + count)
        ]
