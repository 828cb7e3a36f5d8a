"""Penalised time of many jobs on many nodes at once: `bandwidth.penalised_us` in arrays, and bit for bit the same numbers.

A `NodeTable` holds who runs on each node. All its residents are taken to be there already; those who come later are *planned*.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.bandwidth import BandwidthModel, Resident

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_UNLIMITED = 1 << 40  # MB/s
_EVER = 1 << 62  # microseconds


class Planned(NamedTuple):
    """Processes that will be on some nodes in [start_us, end_us): by node of the table and counted resource, MB/s in all."""

    start_us: int
    end_us: int
    demand: Ints  # [nodes, resources]


class NodeTable:
    """Residents of nodes, sorted by end, and what they and all who outlast them ask."""

    __slots__ = ("_base", "_capacity", "_ends", "_indexes", "_most")

    def __init__(self, model: BandwidthModel, capacities: Sequence[tuple[int, int, int]], most: int) -> None:
        """``most`` is the largest number of residents of a node."""
        self._indexes = model.indexes
        self._most = most
        self._ends: Ints = np.zeros((len(capacities), most), dtype=np.int64)
        # base[node, window, resource]: demand while the residents from `window` on are there; the last window is empty.
        self._base: Ints = np.zeros((len(capacities), most + 1, len(self._indexes)), dtype=np.int64)
        limits = [[capacity[index] or _UNLIMITED for index in self._indexes] for capacity in capacities]
        self._capacity: Ints = np.array(limits, dtype=np.int64).reshape(len(capacities), len(self._indexes))

    def put(self, node: int, residents: Iterable[Resident]) -> None:
        """Replace the residents of ``node``."""
        there = sorted(residents, key=_end_and_demand)
        padding = self._most - len(there)
        self._ends[node] = [0] * padding + [resident.end_us for resident in there]
        base = []
        total = [0] * len(self._indexes)
        for resident in reversed(there):
            total = [sum_ + resident.demand[index] for sum_, index in zip(total, self._indexes, strict=True)]
            base.append(total)
        first = base[-1] if base else total
        self._base[node, : self._most] = [first] * padding + base[::-1]

    def same_as(self, other: NodeTable) -> bool:
        """Tell whether both tables say the same of every node."""
        return np.array_equal(self._ends, other._ends) and np.array_equal(self._base, other._base)

    def planned(self, start_us: int, end_us: int, demands: Iterable[tuple[int, tuple[int, int, int]]]) -> Planned:
        """Return processes planned on (node, demand there) pairs."""
        demand = np.zeros((len(self._ends), len(self._indexes)), dtype=np.int64)
        for node, rates in demands:
            demand[node] = [rates[index] for index in self._indexes]
        return Planned(start_us, end_us, demand)

    def penalised_us(
        self,
        nodes: Ints,
        own: Sequence[tuple[int, int, int]],
        processes: int,
        start_us: Ints,
        run_us: Ints,
        planned: Sequence[Planned] = (),
    ) -> Floats:
        """Return the penalised time [job, node, processes - 1] of jobs on ``nodes`` with 1, 2, ... ``processes`` there.

        ``own`` [job] is the demand of one process, ``start_us`` and ``run_us`` [job] the interval [start, start + run).
        """
        until_us = start_us + run_us
        cuts = sorted({edge for item in planned for edge in (item.start_us, item.end_us)})
        spans = list(itertools.pairwise((-_EVER, *cuts, _EVER)))  # in each, the same planned processes are there
        ends = self._ends[nodes]
        counts = np.arange(1, processes + 1, dtype=np.int64)
        penalised = np.zeros((len(own), len(nodes), processes))
        for resource, index in enumerate(self._indexes):
            rates = np.array([demand[index] for demand in own], dtype=np.int64)
            capacity = self._capacity[nodes, resource][None, :, None]
            spare = capacity - rates[:, None, None] * counts
            base = self._base[nodes, :, resource]
            excess = np.zeros(penalised.shape, dtype=np.int64)
            for low_us, high_us in spans:
                begin_us = start_us if low_us == -_EVER else np.minimum(np.maximum(start_us, low_us), until_us)
                stop_us = until_us if high_us == _EVER else np.minimum(np.maximum(start_us, high_us), until_us)
                if planned and (begin_us == stop_us).all():
                    continue
                there = base
                for item in planned:
                    if item.start_us <= low_us and high_us <= item.end_us:
                        there = there + item.demand[nodes, resource][:, None]
                excess += _excess(ends, there, spare, begin_us, stop_us)
            penalised += excess / capacity
        return penalised


def _excess(ends: Ints, base: Ints, spare: Ints, begin_us: Ints, until_us: Ints) -> Ints:
    """Return demand beyond capacity, in MB/s·us, over [begin, until) of each job, on each node, for each number of processes."""
    jobs, nodes = len(begin_us), len(ends)
    edges = np.empty((jobs, nodes, ends.shape[1] + 2), dtype=np.int64)
    edges[:, :, 0] = begin_us[:, None]
    edges[:, :, -1] = until_us[:, None]
    inner = edges[:, :, 1:-1]
    np.maximum(ends[None], begin_us[:, None, None], out=inner)
    np.minimum(inner, until_us[:, None, None], out=inner)
    lengths = edges[:, :, 1:] - edges[:, :, :-1]
    over = base[None, :, :, None] - spare[:, :, None, :]
    np.maximum(over, 0, out=over)
    excess: Ints = np.einsum("jnw,jnwk->jnk", lengths, over)
    return excess


def _end_and_demand(resident: Resident) -> tuple[int, tuple[int, int, int]]:
    return (resident.end_us, resident.demand)  # also of those that end together there is one order only
