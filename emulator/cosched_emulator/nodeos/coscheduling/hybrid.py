"""HYBRID: block at once, and run first in collective operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.coscheduling.protocol import CoschedulingPolicy
from cosched_emulator.nodeos.process import Process

BOOSTS: Final = ("collectives", "none", "all")


class Hybrid(CoschedulingPolicy):
    """Each wait blocks at once; a process goes first from the begin of a collective operation to its end (section 3.2).

    ``boost`` "none" boosts no process, "all" also each process that has waited, until it gets the CPU. Of several
    boosted processes the one that has the CPU goes first, then the first in the run queue.
    """

    def __init__(self, boost: str = "collectives") -> None:
        if boost not in BOOSTS:
            raise ConfigurationError.unknown_name("boost", boost, BOOSTS)
        self.advises = boost != "none"
        self._waits_too = boost == "all"
        self._in_collectives: set[Process] = set()
        self._waiting: set[Process] = set()

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Block at once."""
        if self._waits_too:
            self._waiting.add(process)
        return 0

    def collective(self, process: Process, begins: bool) -> None:
        """Boost the process until the operation ends."""
        if begins:
            self._in_collectives.add(process)
        else:
            self._in_collectives.discard(process)

    def advise(self, runnable: Sequence[Process], current: Process | None) -> Process | None:
        """Return the boosted process."""
        boosted = self._in_collectives | self._waiting if self._waiting else self._in_collectives
        if not boosted:
            return None
        if current in boosted and current in runnable:
            return current
        return next((process for process in runnable if process in boosted), None)

    def chosen(self, process: Process) -> None:
        """The wait of this process is over."""
        self._waiting.discard(process)
