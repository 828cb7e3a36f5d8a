"""A process that wakes preempts; else round robin with a slice."""

from __future__ import annotations

from cosched_emulator.nodeos.local.round_robin import RoundRobin
from cosched_emulator.nodeos.process import Process


class WakeFirst(RoundRobin):
    """Round robin in which a process that wakes takes the CPU. The preempted one comes next, with a new slice."""

    def wake(self, process: Process) -> None:
        """Put the process first."""
        self.queue.insert(0, process)

    def preempts(self, woken: Process, current: Process) -> bool:  # noqa: ARG002  (part of the protocol)
        """Return True."""
        return True
