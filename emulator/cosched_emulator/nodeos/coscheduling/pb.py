"""PB: periodic boost."""

from __future__ import annotations

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.coscheduling.advice import AdvisesOne
from cosched_emulator.nodeos.coscheduling.protocol import FOREVER, Node
from cosched_emulator.nodeos.process import Process


class PeriodicBoost(AdvisesOne):
    """Every ``interval_us`` a process with unread messages is advised, in turn (section 2.2). Waits poll.

    The turn begins behind the process that was advised last; one that has the CPU is passed over. With
    ``ignore_counters`` advice counts whatever is left of a process's ticks, as on systems whose priorities decay.
    """

    def __init__(self, interval_us: int = 50_000, ignore_counters: bool = False) -> None:
        if interval_us < 1:
            raise ConfigurationError("interval_us", "a whole number of at least 1", str(interval_us))
        self.interval_us = interval_us
        self.ignores_counters = ignore_counters
        self._last: Process | None = None

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Poll for ever."""
        return FOREVER

    def tick(self, node: Node) -> None:
        """Advise the next process with unread messages."""
        ports = list(node.ports)
        first = ports.index(self._last) + 1 if self._last in ports else 0
        for process in ports[first:] + ports[:first]:
            if process is not node.current and node.unread(process):
                self._advised = self._last = process
                return
