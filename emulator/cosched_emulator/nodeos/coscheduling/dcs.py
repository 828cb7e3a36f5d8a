"""DCS: demand-based (dynamic) coscheduling."""

from __future__ import annotations

from cosched_emulator.nodeos.coscheduling.advice import AdvisesOne
from cosched_emulator.nodeos.coscheduling.protocol import FOREVER
from cosched_emulator.nodeos.process import Process


class DynamicCoscheduling(AdvisesOne):
    """A message for a process that does not have the CPU interrupts, and its process is advised at once (section 2.2).

    Waits poll.
    """

    wants_arrivals = True

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Poll for ever."""
        return FOREVER

    def arrived(self, process: Process) -> None:
        """Advise the process."""
        self._advised = process
