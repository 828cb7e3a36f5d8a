"""SB: spin block."""

from __future__ import annotations

from cosched_emulator.nodeos.coscheduling.protocol import CoschedulingPolicy
from cosched_emulator.nodeos.process import Process


class SpinBlock(CoschedulingPolicy):
    """Poll for a fixed time, then block and ask for an interrupt (paper section 2.2)."""

    def __init__(self, spin_us: int = 1_000) -> None:
        self._spin_us = spin_us

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Poll for `spin_us`."""
        return self._spin_us
