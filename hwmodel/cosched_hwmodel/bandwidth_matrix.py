"""Penalised time of many jobs on many nodes at once: `bandwidth.penalised_us` in arrays, and bit for bit the same numbers.

A `NodeTable` holds who runs on each node. All its residents are taken to be there already; those who come later are *planned*.
Of a job that starts at one instant, the excess demand on a node is one sum over the residents: the time that each stays beside
the job, times what the excess falls by when it leaves. The times depend on the instant and on the job's run time, the falls on
its demand alone: a `Ground` keeps them, on a small machine for all nodes and instants until somebody comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.bandwidth import BandwidthModel, Resident

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rates = tuple[int, int, int]  # MB/s, as in a Demand
_UNLIMITED = 1 << 40  # MB/s
_EVER = 1 << 62  # microseconds
_MOST_SHARED = 50_000  # numbers in the falls of all nodes


class Planned(NamedTuple):
    """Processes that will be on some nodes in [start_us, end_us)."""

    start_us: int
    end_us: int
    demands: tuple[tuple[int, int, Rates], ...]  # (first node, nodes, what is asked on each of them), every node once


class NodeTable:
    """Residents of nodes, sorted by end, and what they and all who outlast them ask."""

    __slots__ = ("_base", "_capacity", "_ends", "_indexes", "_most", "_whole")

    def __init__(self, model: BandwidthModel, capacities: Sequence[Rates], most: int) -> None:
        """``most`` is the largest number of residents of a node."""
        self._indexes = model.indexes  # of the resources that count
        self._most = most
        # A resident leaves at the end of each window. The last window is empty, and lasts for ever.
        self._ends: Ints = np.zeros((most + 1, len(capacities)), dtype=np.int64)
        self._ends[most] = _EVER
        # base[resource, window, node]: demand while the residents from `window` on are there.
        self._base: Ints = np.zeros((len(self._indexes), most + 1, len(capacities)), dtype=np.int64)
        limits = [[capacity[index] or _UNLIMITED for capacity in capacities] for index in self._indexes]
        self._capacity: Ints = np.array(limits, dtype=np.int64).reshape(len(self._indexes), len(capacities))
        self._whole: Ground | None = None  # all nodes

    def put(self, residents: Mapping[int, Iterable[Resident]]) -> None:
        """Replace the residents of some nodes."""
        self._whole = None
        nodes = list(residents)
        ends = []
        base: list[list[list[int]]] = [[] for _ in self._indexes]
        for node in nodes:
            there = sorted(residents[node], key=_end_and_demand)
            padding = self._most - len(there)
            ends.append([0] * padding + [resident[1] for resident in there])
            for rows, index in zip(base, self._indexes, strict=True):
                total = 0
                sums = [0]
                for resident in reversed(there):
                    total += resident[2][index]
                    sums.append(total)
                rows.append([total] * padding + sums[::-1])
        self._ends[: self._most, nodes] = np.array(ends, dtype=np.int64).reshape(len(nodes), self._most).T
        for resource, rows in enumerate(base):
            self._base[resource][:, nodes] = np.array(rows, dtype=np.int64).T

    def same_as(self, other: NodeTable) -> bool:
        """Tell whether both tables say the same of every node."""
        return np.array_equal(self._ends, other._ends) and np.array_equal(self._base, other._base)

    def ground(self, nodes: Ints) -> Ground:
        """Return these nodes, which are in order, and perhaps others; it is not to outlive changes of the table."""
        if self._base.size * self._most > _MOST_SHARED:
            return self._ground(nodes)
        if self._whole is None:
            self._whole = self._ground(np.arange(self._capacity.shape[1]))
        return self._whole

    def _ground(self, nodes: Ints) -> Ground:
        capacity = self._capacity[:, nodes]
        return Ground(self._indexes, nodes, self._ends[:, nodes], self._base[:, :, nodes], capacity)


class Ground:
    """Nodes to start on, and what the excess on them falls by as residents leave, for whoever was asked about so far."""

    __slots__ = ("_base", "_capacity", "_ends", "_falls", "_indexes", "nodes")

    def __init__(self, indexes: Sequence[int], nodes: Ints, ends: Ints, base: Ints, capacity: Ints) -> None:
        """``ends`` [window, node], ``base`` [resource, window, node], ``capacity`` [resource, node]."""
        self._indexes = indexes
        self.nodes = nodes
        self._ends = ends
        self._base = base
        self._capacity = capacity
        self._falls: dict[tuple[Rates, int, tuple[Planned, ...]], list[Ints]] = {}

    def stays_us(self, at_us: int) -> Ints:
        """Return for how long each window [window, node] will last, from ``at_us`` on."""
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
        penalised: Floats | None = None
        for resource, capacity in enumerate(self._capacity):
            excess: Ints | int = 0
            for falls, lasts_us, length_us in pieces:
                excess = excess + np.einsum("...wn,wkn->...kn", np.minimum(lasts_us, length_us), falls[resource])
            lost = excess / capacity
            penalised = lost if penalised is None else penalised + lost
        if penalised is None:  # no resource of which there could be too little
            return np.zeros((*np.shape(run_us)[:1], processes, len(self.nodes)))
        return penalised

    def _alone(self, demand: Rates, processes: int) -> list[Ints]:
        """Return what the excess falls by [resource][window, processes - 1, node] at the end of each window."""
        key = (demand, processes, ())
        falls = self._falls.get(key)
        if falls is None:
            falls = self._falls[key] = self._work_out(demand, processes, self._base)
        return falls

    def _beside(self, demand: Rates, processes: int, planned: tuple[Planned, ...]) -> list[Ints]:
        """Return what `_alone` does, the difference that planned processes make."""
        key = (demand, processes, planned)
        falls = self._falls.get(key)
        if falls is None:
            falls = self._work_out(demand, processes, self._base + self._asked(planned)[:, None, :])
            for beside, without in zip(falls, self._alone(demand, processes), strict=True):
                np.subtract(beside, without, out=beside)
            self._falls[key] = falls
        return falls

    def _asked(self, planned: tuple[Planned, ...]) -> Ints:
        """Return what planned processes ask [resource, node]."""
        asked = np.zeros((len(self._indexes), int(self.nodes[-1]) + 1), dtype=np.int64)
        for item in planned:
            at: list[int] = []
            rates: list[Rates] = []
            for first, count, rate in item.demands:
                named = range(first, min(first + count, asked.shape[1]))
                at += named
                rates += [rate] * len(named)
            for row, index in zip(asked, self._indexes, strict=True):
                row[np.array(at, dtype=np.intp)] += np.array([rate[index] for rate in rates], dtype=np.int64)
        return asked if asked.shape[1] == len(self.nodes) else asked[:, self.nodes]

    def _work_out(self, demand: Rates, processes: int, base: Ints) -> list[Ints]:
        counts = np.arange(1, processes + 1, dtype=np.int64)[:, None]
        return [
            _falls(there, capacity - counts * demand[index])
            for there, capacity, index in zip(base, self._capacity, self._indexes, strict=True)
        ]


def _between(since_us: int, until_us: int, run_us: int | Ints) -> int | Ints:
    """Return how much of the time from ``since_us`` to ``until_us`` after the start a job is there that runs so long."""
    if isinstance(run_us, int):
        return max(0, min(run_us, until_us) - since_us)
    lengths_us: Ints = np.maximum(np.minimum(run_us, until_us) - since_us, 0)
    return lengths_us


def _falls(base: Ints, spare: Ints) -> Ints:
    """Return what the excess falls by at the end of each window; at the end of the last one, all that is left of it."""
    falls: Ints = base[:, None, :] - spare
    np.maximum(falls, 0, out=falls)
    falls[:-1] -= falls[1:]
    return falls


def _end_and_demand(resident: Resident) -> tuple[int, Rates]:
    return (resident.end_us, resident.demand)  # also of those that end together there is one order only
