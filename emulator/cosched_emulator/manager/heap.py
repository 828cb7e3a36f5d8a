"""The event heap: what is due when, in the order in which things happen at one instant.

Entries are plain tuples (time, rank, id, version). The rank is the order at one instant that PROTOCOL.md fixes; the version lets an
owner void an entry without searching for it: an entry whose version is not the owner's current one never happened.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

# Order at one instant.
END: Final = 0
NODE_FAILURE: Final = 1
NODE_RETURN: Final = 2
USER_CHANGE: Final = 3
MEASURE: Final = 5  # 4 is for jobs that an operator suspends or resumes
WAKE: Final = 7  # submissions, between the two, come from a list of their own

Entry: TypeAlias = tuple[int, int, int, int]


class Kernel:
    """A heap of entries; the caller keeps the time."""

    __slots__ = ("heap",)

    def __init__(self) -> None:
        self.heap: list[Entry] = []  # to be read: the first is the earliest

    def schedule(self, at_us: int, rank: int, ident: int, version: int = 0) -> None:
        """Enter something that will be due at ``at_us``."""
        heappush(self.heap, (at_us, rank, ident, version))

    def __len__(self) -> int:
        return len(self.heap)

    def compact(self, is_void: Callable[[Entry], bool]) -> None:
        """Drop the entries that will never have happened."""
        self.heap[:] = [entry for entry in self.heap if not is_void(entry)]
        heapify(self.heap)

    def next_us(self) -> int | None:
        """Return the earliest instant at which something is due, void entries included; None if nothing is."""
        return self.heap[0][0] if self.heap else None

    def due(self, at_us: int) -> list[Entry]:
        """Remove and return everything due at ``at_us`` or before, in order."""
        heap = self.heap
        entries: list[Entry] = []
        while heap and heap[0][0] <= at_us:
            entries.append(heappop(heap))
        return entries
