"""NLS: the local scheduler alone."""

from __future__ import annotations

from cosched_emulator.nodeos.coscheduling.protocol import FOREVER, CoschedulingPolicy
from cosched_emulator.nodeos.process import Process


class LocalOnly(CoschedulingPolicy):
    """Each wait polls until it is over. A process that polls is runnable, and uses CPU as any other."""

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Poll for ever."""
        return FOREVER
