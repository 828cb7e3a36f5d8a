"""Hardware threads numbered through the whole machine, and Batsim's interval strings of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from cosched_plugin.common.threads import ranges_in
from cosched_plugin.protocol.messages import NodeClass, Run

_MOST_TEXTS = 10_000  # cache size: a long run has an unlimited number of them


def mask_intervals(mask: int) -> tuple[tuple[int, int], ...]:
    """Return the runs of set bits of ``mask`` as (first, last), ascending."""
    return tuple([(first, first + count - 1) for first, count in ranges_in(mask)])


def interval_text(intervals: Iterable[tuple[int, int]]) -> str:
    """Return closed, disjoint intervals in canonical form: merged, ascending, joined by one space: ``0-3 5 8-9``."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if merged and first == merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return " ".join([str(first) if first == last else f"{first}-{last}" for first, last in merged])


class ThreadNumbering:
    """Numbers every hardware thread of a machine from 0, node after node."""

    def __init__(self, machine: Sequence[NodeClass]) -> None:
        sizes = [node_class.threads for node_class in machine for _ in range(node_class.nodes)]
        self._first_thread = [0, *accumulate(sizes)]
        self._narrowest = min(sizes, default=0)
        self._masks: dict[int, tuple[tuple[int, int], ...]] = {}
        self._texts: dict[tuple[Run, ...], str] = {}

    @property
    def threads(self) -> int:
        """Return the number of hardware threads of the machine."""
        return self._first_thread[-1]

    @property
    def nodes(self) -> int:
        """Return the number of nodes of the machine."""
        return len(self._first_thread) - 1

    def text(self, runs: tuple[Run, ...]) -> str:
        """Return the interval string of the threads that ``runs`` hold; ValueError if there are no such threads."""
        known = self._texts.get(runs)
        if known is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            known = self._texts[runs] = interval_text(self._intervals(runs))
        return known

    def _intervals(self, runs: tuple[Run, ...]) -> list[tuple[int, int]]:
        first_thread = self._first_thread
        found: list[tuple[int, int]] = []
        for first, count, mask, _processes in runs:
            if first < 0 or count < 1 or first + count > self.nodes or mask <= 0:
                raise ValueError(f"no such nodes or threads: {(first, count, mask)}")
            width = mask.bit_length()
            if width > self._narrowest and any(
                first_thread[node + 1] - first_thread[node] < width for node in range(first, first + count)
            ):
                raise ValueError(f"thread mask {mask:#x} is wider than a node of {(first, count)}")
            begin, end = first_thread[first], first_thread[first + count]
            if mask + 1 == 1 << width and end - begin == count * width:
                found.append((begin, end - 1))  # whole nodes: one interval
                continue
            pieces = self._masks.get(mask)
            if pieces is None:
                pieces = self._masks[mask] = mask_intervals(mask)
            for base in first_thread[first : first + count]:
                found.extend((base + low, base + high) for low, high in pieces)
        return found
