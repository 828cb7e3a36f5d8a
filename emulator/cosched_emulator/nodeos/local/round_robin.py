"""Round robin with a slice; a process that wakes queues up and preempts none."""

from __future__ import annotations

from cosched_emulator.nodeos.process import Process


class RoundRobin:
    """Processes take turns of ``slice_us``; the first of the queue has the CPU.

    A process that is alone gets one slice after the other, so one that comes waits for the end of the present one.
    """

    counts = False

    def __init__(self, slice_us: int) -> None:
        self._slice_us = slice_us
        self.queue: list[Process] = []

    def enter(self, process: Process) -> None:
        """Nothing is kept of processes that are not runnable."""

    def leave(self, process: Process) -> None:
        """Nothing is kept of processes that are not runnable."""

    def wake(self, process: Process) -> None:
        """Put the process at the end."""
        self.queue.append(process)

    def resume(self, process: Process) -> None:
        """Put the process at the end."""
        self.queue.append(process)

    def sleep(self, process: Process) -> None:
        """Take the process out."""
        self.queue.remove(process)

    def pick(self, previous: Process | None) -> Process | None:  # noqa: ARG002  (part of the protocol)
        """Return the first process."""
        return self.queue[0] if self.queue else None

    def preempts(self, woken: Process, current: Process) -> bool:  # noqa: ARG002  (part of the protocol)
        """Return False."""
        return False

    def takes_advice(self, process: Process) -> bool:  # noqa: ARG002  (part of the protocol)
        """Return True."""
        return True

    def turn_end_us(self, current: Process, since_us: int, now_us: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Return the end of the slice in which ``now_us`` lies."""
        slices = max(1, -((since_us - now_us) // self._slice_us))
        return since_us + slices * self._slice_us

    def end_turn(self, current: Process) -> None:
        """Put the process at the end."""
        self.queue.remove(current)
        self.queue.append(current)

    def ran(self, process: Process, begin_us: int, end_us: int) -> None:
        """Nothing is counted."""

    def shift(self, by_us: int) -> None:
        """No instant is kept."""
