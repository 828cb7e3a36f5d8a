"""The search of LessConsume: first fit's allocation, then exchanges of single buckets (RUA paper, section 4).

The worst bucket goes to the next free one that is better, until no node loses more than the goal or all free ones
have been tried. Nodes are rows of a snapshot's places, in node order.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

import numpy as np

from cosched_plugin.api import Floats, Ints, Layers, NodeSet, Run, ThreadMask


class Exchange:
    """The final number of processes on each node, and the loss of the worst of these nodes."""

    __slots__ = ("_counts", "_runs", "worst_us")

    def __init__(self, lost: Floats, rooms: Ints, filled: Ints, processes: int, goal_us: float) -> None:
        """``lost`` [processes - 1, node] us, ``rooms`` [node] processes, ``filled`` [node] their sum up to the node."""
        last = int(filled.searchsorted(processes))  # the node that first fit fills last, perhaps in part
        counts = rooms[: last + 1].copy()
        counts[last] -= filled[last] - processes
        self._counts = counts
        self._runs: tuple[Run, ...] | None = None
        loses: list[float] = lost[counts - 1, np.arange(last + 1)].tolist()
        self.worst_us = max(loses)
        if self.worst_us > goal_us:
            self._exchange(loses, lost, rooms, goal_us)

    def _exchange(self, loses: list[float], lost: Floats, rooms: Ints, goal_us: float) -> None:
        """Improve first fit's allocation; ``loses`` is the loss on each of its nodes."""
        chosen: list[int] = self._counts.tolist()
        places: list[int] = rooms.tolist()
        rows: list[list[float]] = lost.T.tolist()
        row = len(chosen) - 1  # the node whose free buckets come next, and how many of them there are
        left = places[row] - chosen[row]
        chosen += [0] * (len(places) - len(chosen))
        # (-penalised time, -row, processes): the worst node first. An entry with an outdated number of processes is void. A node that
        # does not lose more than the goal is never to be exchanged.
        worst = [(-loss, -bad, chosen[bad]) for bad, loss in enumerate(loses) if loss > goal_us]
        heapify(worst)
        while worst:
            worst_us = -worst[0][0]
            while not left or rows[row][chosen[row]] >= worst_us:  # the other free buckets of this node are no better
                row += 1
                if row == len(places):
                    break
                left = places[row]
            if row == len(places):
                break
            left -= 1
            out = -heappop(worst)[1]
            chosen[out] -= 1
            chosen[row] += 1
            for moved in (out, row):
                count = chosen[moved]
                if count and rows[moved][count - 1] > goal_us:
                    heappush(worst, (-rows[moved][count - 1], -moved, count))
            while worst and chosen[-worst[0][1]] != worst[0][2]:
                heappop(worst)
        self._counts = np.array(chosen[: row + 1], dtype=np.int64)
        self.worst_us = -worst[0][0] if worst else max([rows[at][n - 1] for at, n in enumerate(chosen) if n])

    def runs(self, nodes: Ints, free: Layers, width: int) -> tuple[Run, ...]:
        """Return the allocation: on every node the lowest free threads, ``width`` for each process."""
        if self._runs is None:
            alike: dict[int, int] = {}  # processes -> nodes
            for node, count in zip(nodes.tolist(), self._counts.tolist(), strict=False):
                if count:
                    alike[count] = alike.get(count, 0) | 1 << node
            self._runs = _lowest([(count, NodeSet(found)) for count, found in alike.items()], free, width)
        return self._runs


def _lowest(alike: Iterable[tuple[int, NodeSet]], free: Layers, width: int) -> tuple[Run, ...]:
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
            runs.append(Run(first, count, mask, processes))
            left ^= ((1 << count) - 1) << first
    return tuple(sorted(runs))
