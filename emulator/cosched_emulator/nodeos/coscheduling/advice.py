"""Advice of one process at a time."""

from __future__ import annotations

from collections.abc import Sequence

from cosched_emulator.nodeos.coscheduling.protocol import CoschedulingPolicy
from cosched_emulator.nodeos.process import Process


class AdvisesOne(CoschedulingPolicy):
    """A policy that advises one process, until that waits, the CPU goes to another one, or the advice changes."""

    advises = True
    _advised: Process | None = None

    def advise(self, runnable: Sequence[Process], current: Process | None) -> Process | None:  # noqa: ARG002
        """Return the advised process; it has no effect while that waits."""
        return self._advised

    def chosen(self, process: Process) -> None:
        """Forget the advice that was not taken."""
        if process is not self._advised:
            self._advised = None
