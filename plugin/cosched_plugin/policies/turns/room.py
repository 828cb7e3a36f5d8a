"""Where others have room beside a turn: on what its members leave idle, and what no other guest has taken."""

from __future__ import annotations


class Room:
    """Nodes or hardware threads with what runs on each: ``most`` jobs, one or two."""

    __slots__ = ("_most", "full", "once")

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self.once = 0  # those with a job at least
        self.full = 0  # those with ``most``

    def admits(self, held: int) -> bool:
        """Tell whether there is room for a job that holds these."""
        return not held & self.full

    def take(self, held: int) -> None:
        """Count a job that holds these."""
        self.full |= held & self.once if self._most > 1 else held
        self.once |= held
