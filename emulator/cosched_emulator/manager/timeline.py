"""The due entries on one heap, in order of time, then in the order of one instant.

An entry is a plain tuple (time, rank, id, version). The rank is the order at one instant that PROTOCOL.md fixes. The version
lets an owner void an entry without searching for it: an entry whose version is not the owner's current one has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any, Final, Generic, TypeAlias, TypeVar

# Order at one instant.
END: Final = 0
NODE_FAILURE: Final = 1
NODE_RETURN: Final = 2
NODE_SLOW: Final = 3
NODE_NORMAL: Final = 4
USER_CHANGE: Final = 5
STARTED: Final = 6
MEASURE: Final = 7
QUANTUM: Final = 8
GATE: Final = 9  # a begin time, a cancellation while pending
SUBMISSION: Final = 10
WAKE: Final = 11
OWN: Final = 12  # what the manager does by itself, alone at its instant

FOREVER_US: Final = 1 << 61  # later than anything

Entry: TypeAlias = tuple[int, int, int, int]
Item = TypeVar("Item")


# Versions: an owner that schedules again, or whose entry no longer holds, must raise its own version (`ManagedJob.version` for
# ends, `disturbances` for measurements, `Rotating`'s for quanta). The old entry stays on the heap until it is due, and is then
# void; `compact` drops such entries when they are most of the heap. A version never goes back, or a void entry would hold again.
class Timeline:
    """A heap of entries; the caller keeps the time."""

    def __init__(self) -> None:
        self.heap: list[Entry] = []  # to be read: the first is the earliest

    def schedule(self, at_us: int, rank: int, ident: int, version: int = 0) -> None:
        """Add an entry that is due at ``at_us``."""
        heappush(self.heap, (at_us, rank, ident, version))

    def __len__(self) -> int:
        return len(self.heap)

    def compact(self, is_void: Callable[[Entry], bool]) -> None:
        """Drop the void entries."""
        self.heap[:] = [entry for entry in self.heap if not is_void(entry)]
        heapify(self.heap)

    def next_us(self) -> int | None:
        """Return the earliest instant with a due entry, void entries included; None if there is none."""
        return self.heap[0][0] if self.heap else None

    def pop_due(self, now_us: int) -> Iterator[Entry]:
        """Remove and yield the entries due at ``now_us`` or before, in order, including entries added meanwhile."""
        heap = self.heap
        while heap and heap[0][0] <= now_us:
            yield heappop(heap)


class Source(Generic[Item]):
    """A sequence in order of time. The timeline holds only the entry of its ``head``.

    After taking the entry from the timeline the caller calls `pop`, which adds the next one. So a million submissions, or an
    endless series of faults, take no memory.
    """

    __slots__ = ("_entry_of", "_heap", "_items", "_taken", "head")

    def __init__(self, timeline: Timeline, items: Iterable[Item], entry_of: Callable[[Item], Entry]) -> None:
        """``items`` in the order of their entries."""
        self._heap = timeline.heap
        self._items = iter(items)
        self._taken = 0  # of the items, the head among them
        self._entry_of = entry_of
        self.head: Item | None = None  # None: the sequence is at its end
        self._advance()

    def pop(self) -> Item:
        """Return the item whose entry was removed from the timeline, and add the next entry."""
        item = self.head
        if item is None:
            raise LookupError("the sequence is at its end")
        self._advance()
        return item

    def _advance(self) -> None:
        item = self.head = next(self._items, None)
        if item is not None:
            self._taken += 1
            heappush(self._heap, self._entry_of(item))

    def skip(self, until_us: int) -> None:
        """Leave out the items up to this time, of which none was taken; the caller has removed the entry of the head."""
        while self.head is not None and self._entry_of(self.head)[0] <= until_us:
            self.head = next(self._items, None)
            self._taken += self.head is not None
        if self.head is not None:
            heappush(self._heap, self._entry_of(self.head))

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Leave out the items, which may be a generator: `resume_with` gives them again."""
        return None, {"_entry_of": self._entry_of, "_heap": self._heap, "_taken": self._taken, "head": self.head}

    def resume_with(self, items: Iterable[Item]) -> None:
        """Go on behind the head, in a sequence that is the same as that which was left out."""
        self._items = islice(items, self._taken, None)
