"""Penalised time of many jobs on many nodes at once; bit for bit the numbers of the plain sum in `tests/reference/penalised.py`.

A `NodeTable` holds the jobs that run on each node, its residents; jobs that come later are *planned*. For a job that starts at one
instant, the excess demand on a node is one sum over the residents: the time that each stays beside the job, times the fall of the
excess when it leaves. The times depend on the instant and on the job's run time, the falls only on its demand: a `Ground` keeps
them, on a small machine for all nodes and instants until a job comes or goes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel, Resident
from cosched_hwmodel.units import ThreadMask

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rates = tuple[int, int, int]  # MB/s, as in a Demand
# Instants of start and end, and the demand on each node: a `Planned` without its job.
Load = tuple[int, int, tuple[tuple[int, int, Rates], ...]]
_UNLIMITED = 1 << 40  # MB/s
_EVER = 1 << 62  # microseconds
_MOST_SHARED = 50_000  # numbers in the falls of all nodes
_MOST_DEMANDS = 64  # whose results are cached
_EXACT = 1 << 62  # MB/s·us: sums up to here are taken in integers, greater ones in floats


class Planned(NamedTuple):
    """A job that will be on some nodes in [start_us, end_us)."""

    start_us: int  # instant from which it is there
    end_us: int  # instant from which it is not
    # (first node, number of nodes, demand on each of them); `Rates` is (memory bandwidth, network, disk)
    demands: tuple[tuple[int, int, Rates], ...]
    job_id: int  # the job
    # (first node, number of nodes, hardware threads and processes on each of them)
    runs: tuple[tuple[int, int, ThreadMask, int], ...] = ()


_load: Final = itemgetter(slice(3))  # the fields of a `Load`
_end_and_demand: Final = attrgetter("end_us", "demand")  # a unique order, also of residents that end together


def loads_of(planned: Sequence[Planned]) -> tuple[Load, ...]:
    """Return the planned jobs without their ids: a key for caches that depend only on demand and time."""
    return tuple(map(_load, planned)) if planned else ()


class NodeTable:
    """Residents of nodes, sorted by end, with the demand of each and all that outlast it."""

    __slots__ = ("_capacity", "_columns", "_heaviest", "_indexes", "_most", "_noted", "_whole", "changes")

    def __init__(self, model: BandwidthModel, capacities: Sequence[Rates], most: int) -> None:
        """``most`` is the largest number of residents of a node."""
        self._indexes = model.indexes  # of the resources that count
        self._most = most
        # columns[0, window, node]: its end, when a resident leaves. The last window is empty, and lasts for ever.
        # columns[1 + resource, window, node]: demand while the residents from `window` on are there.
        self._columns: Ints = np.zeros((1 + len(self._indexes), most + 1, len(capacities)), dtype=np.int64)
        self._columns[0, most] = _EVER
        limits = [[capacity[index] or _UNLIMITED for capacity in capacities] for index in self._indexes]
        self._capacity: Ints = np.array(limits, dtype=np.int64).reshape(len(self._indexes), len(capacities))
        self._heaviest = 0  # the largest demand on a node so far
        self.changes = 0  # number of changes recorded
        self._noted: list[tuple[int, int]] = []  # (number of the change, end), without those that a later one outlasts
        self._whole: Ground | None = None  # all nodes, where these are few
        if self._columns[1:].size * most <= _MOST_SHARED:
            everywhere = np.arange(len(capacities))
            self._whole = Ground(self._indexes, everywhere, self._columns, self._capacity)

    def put(self, residents: Mapping[int, Iterable[Resident]]) -> None:
        """Replace the residents of some nodes."""
        if self._whole is not None:
            self._whole.forget()
        known: dict[tuple[Resident, ...], list[list[int]]] = {}  # a job has the same neighbours on many of its nodes
        columns: list[list[list[int]]] = []
        last: Iterable[Resident] | None = None  # of the node before
        for there in residents.values():
            if there == last:  # the same objects mostly, which are compared in less time than they are hashed
                columns.append(columns[-1])
                continue
            last, key = there, tuple(there)
            column = known.get(key)
            if column is None:
                column = known[key] = self._column(key)
            columns.append(column)
        self._columns[:, :, list(residents)] = np.array(columns, dtype=np.int64).transpose(1, 2, 0)
        if self._whole is not None:
            self._whole.heaviest = self._heaviest

    def note(self, end_us: int) -> None:
        """Record the arrival or departure of a job with (planned) end ``end_us``; a call of `put` must follow."""
        self.changes += 1
        while self._noted and self._noted[-1][1] <= end_us:
            self._noted.pop()
        self._noted.append((self.changes, end_us))

    def settled_us(self, since: int) -> int:
        """Return the instant from which the table equals that after ``since`` recorded changes."""
        first = bisect_left(self._noted, (since + 1, 0))
        return self._noted[first][1] if first < len(self._noted) else 0

    def _column(self, residents: tuple[Resident, ...]) -> list[list[int]]:
        """Return the table's entry of a node."""
        there = sorted(residents, key=_end_and_demand)
        padding = self._most - len(there)
        column = [[0] * padding + [resident[1] for resident in there] + [_EVER]]
        for index in self._indexes:
            total = 0
            sums = [0]
            for resident in reversed(there):
                total += resident[2][index]
                sums.append(total)
            column.append([total] * padding + sums[::-1])
            self._heaviest = max(self._heaviest, total)
        return column

    def same_as(self, other: NodeTable) -> bool:
        """Tell whether both tables have equal entries for every node."""
        return np.array_equal(self._columns, other._columns)

    def ground(self, nodes: Ints) -> Ground:
        """Return these nodes, which are in order, and perhaps others; it is invalid after changes of the table."""
        if self._whole is not None:
            return self._whole
        return Ground(self._indexes, nodes, self._columns[:, :, nodes], self._capacity[:, nodes], self._heaviest)


class Ground:
    """Nodes to start on, and the falls of the excess on them as residents leave, for all demands requested so far."""

    __slots__ = ("_base", "_capacity", "_ends", "_falls", "_indexes", "_spare", "heaviest", "nodes")

    def __init__(self, indexes: Sequence[int], nodes: Ints, columns: Ints, capacity: Ints, heaviest: int = 0) -> None:
        """``columns`` are the table's, of these nodes; ``capacity`` [resource, node]; no node has more demand than ``heaviest``."""
        self._indexes = indexes
        self.nodes = nodes
        self.heaviest = heaviest
        self._ends = columns[0]
        self._base = columns[1:]
        self._capacity = capacity
        self._spare: dict[tuple[Rates, int], list[Ints]] = {}
        self._falls: dict[tuple[Rates, int, tuple[Load, ...]], list[Ints]] = {}

    def forget(self) -> None:
        """Drop the values that follow from the residents of the nodes."""
        self._falls.clear()
        if len(self._spare) > _MOST_DEMANDS:
            self._spare.clear()

    def stays_us(self, at_us: int) -> Ints:
        """Return the duration of each window [window, node], from ``at_us`` on."""
        stays_us: Ints = self._ends - at_us
        return np.maximum(stays_us, 0, out=stays_us)

    def penalised_us(
        self,
        demand: Rates,
        processes: int,
        start_us: int,
        run_us: int | Ints,
        planned: tuple[Planned, ...] = (),
        stays_us: Ints | None = None,
    ) -> Floats:
        """Return the penalised time [processes - 1, node] of a job with 1, 2, ... ``processes`` on each of the nodes.

        ``demand`` is that of one process; the job is there in [start, start + run). With run times [job, 1, 1] of several
        jobs it is [job, processes - 1, node]. ``stays_us`` of the start may be given where it is known.
        """
        if stays_us is None:
            stays_us = self.stays_us(start_us)
        pieces = [(self._alone(demand, processes), stays_us, run_us)]
        # In each piece of the time the same planned processes are there.
        for low_us, high_us in pairwise(sorted({edge_us for item in planned for edge_us in item[:2]})):
            since_us = max(0, low_us - start_us)
            length_us = _between(since_us, high_us - start_us, run_us)
            there = tuple([item for item in planned if item.start_us <= low_us and high_us <= item.end_us])
            if there and (length_us if isinstance(length_us, int) else length_us.any()):
                pieces.append((self._beside(demand, processes, there), np.maximum(stays_us - since_us, 0), length_us))
        exact = self._is_exact(demand, processes, run_us, planned)
        penalised: Floats | None = None
        for resource, capacity in enumerate(self._capacity):
            excess: Ints | Floats | int = 0
            for falls, lasts_us, length_us in pieces:
                beside_us, fall = np.minimum(lasts_us, length_us), falls[resource]
                if not exact:
                    beside_us, fall = beside_us.astype(np.float64), fall.astype(np.float64)
                excess = excess + np.einsum("...wn,wkn->...kn", beside_us, fall)
            lost = excess / capacity
            penalised = lost if penalised is None else penalised + lost
        if penalised is None:  # no resource that could be exceeded
            return np.zeros((*np.shape(run_us)[:1], processes, len(self.nodes)))
        return penalised

    def _is_exact(self, demand: Rates, processes: int, run_us: int | Ints, planned: tuple[Planned, ...]) -> bool:
        """Tell whether the largest excess that there can be fits into 64 bits for the longest of these run times."""
        most = self.heaviest + processes * max(demand)
        for item in planned:
            most += sum([max(rates) for _, _, rates in item.demands])
        longest_us = run_us if isinstance(run_us, int) else int(run_us.max(initial=0))
        return longest_us * most < _EXACT

    def _alone(self, demand: Rates, processes: int) -> list[Ints]:
        """Return the fall of the excess [resource][window, processes - 1, node] at the end of each window."""
        key = (demand, processes, ())
        falls = self._falls.get(key)
        if falls is None:
            falls = self._falls[key] = self._work_out(demand, processes, self._base)
        return falls

    def _beside(self, demand: Rates, processes: int, planned: tuple[Planned, ...]) -> list[Ints]:
        """Return the result of `_alone` as the difference that planned processes make."""
        key = (demand, processes, loads_of(planned))
        falls = self._falls.get(key)
        if falls is None:
            falls = self._work_out(demand, processes, self._base + self._planned_demand(planned)[:, None, :])
            for beside, without in zip(falls, self._alone(demand, processes), strict=True):
                np.subtract(beside, without, out=beside)
            self._falls[key] = falls
        return falls

    def _planned_demand(self, planned: tuple[Planned, ...]) -> Ints:
        """Return the demand of planned processes [resource, node]."""
        nodes = int(self.nodes[-1]) + 1
        rows: list[list[int]] = []
        for index in self._indexes:
            row = [0] * nodes
            for item in planned:
                for first, count, rates in item.demands:
                    rate = rates[index]
                    for node in range(first, min(first + count, nodes)):
                        row[node] += rate
            rows.append(row)
        asked: Ints = np.array(rows, dtype=np.int64).reshape(len(rows), nodes)
        return asked if nodes == len(self.nodes) else asked[:, self.nodes]

    def _work_out(self, demand: Rates, processes: int, base: Ints) -> list[Ints]:
        spare = self._spare.get((demand, processes))
        if spare is None:
            counts = np.arange(1, processes + 1, dtype=np.int64)[:, None]
            rates = [demand[index] for index in self._indexes]
            spare = [capacity - counts * rate for capacity, rate in zip(self._capacity, rates, strict=True)]
            self._spare[demand, processes] = spare
        return [_falls(there, left) for there, left in zip(base, spare, strict=True)]


def _between(since_us: int, until_us: int, run_us: int | Ints) -> int | Ints:
    """Return the part of the time from ``since_us`` to ``until_us`` after the start in which a job of this run time is there."""
    if isinstance(run_us, int):
        return max(0, min(run_us, until_us) - since_us)
    lengths_us: Ints = np.maximum(np.minimum(run_us, until_us) - since_us, 0)
    return lengths_us


def _falls(base: Ints, spare: Ints) -> Ints:
    """Return the fall of the excess at the end of each window; at the end of the last one, the whole remaining excess."""
    falls: Ints = base[:, None, :] - spare
    np.maximum(falls, 0, out=falls)
    falls[:-1] -= falls[1:]
    return falls
