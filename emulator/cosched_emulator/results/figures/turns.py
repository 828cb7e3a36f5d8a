"""A schedule of quanta as boxes of nodes and time: who could run where, several jobs of a node one above the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosched_emulator.results.columns import JobColumns, StayColumns
from cosched_emulator.results.quanta import ROLES, QuantaColumns


class TurnBox(NamedTuple):
    """A job that could run in a quantum, on neighbouring nodes; node n spans n to n + 1, divided among its jobs."""

    begin_us: int
    end_us: int
    low: float
    high: float
    job_id: int
    slot: int


def turn_boxes(
    quanta: QuantaColumns, jobs: JobColumns, stays: StayColumns, begin_us: int, end_us: int
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

    def __init__(self, jobs: JobColumns, stays: StayColumns) -> None:
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
