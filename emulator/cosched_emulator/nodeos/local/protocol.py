"""What a node's CPU asks its local scheduler."""

from __future__ import annotations

from typing import Protocol

from cosched_emulator.nodeos.process import Process


class LocalScheduler(Protocol):
    """The scheduler of one CPU. It keeps the runnable processes, that on the CPU included; it never sees time pass
    but through its arguments, in microseconds.
    """

    counts: bool  # whether `ran` does anything
    queue: list[Process]  # the runnable processes, for reading only

    def enter(self, process: Process) -> None:
        """A process has come to the node; it is not runnable yet."""
        ...

    def leave(self, process: Process) -> None:
        """A process has ended; it is not runnable any more."""
        ...

    def wake(self, process: Process) -> None:
        """A process is runnable, because what it waited for is there."""
        ...

    def resume(self, process: Process) -> None:
        """A process is runnable, because it was stopped and may go on."""
        ...

    def sleep(self, process: Process) -> None:
        """A runnable process waits, or has been stopped."""
        ...

    def pick(self, previous: Process | None) -> Process | None:
        """Return the process that gets the CPU; ``previous`` had it last. None: no process is runnable."""
        ...

    def preempts(self, woken: Process, current: Process) -> bool:
        """Return whether a process that has just been woken takes the CPU from the present one."""
        ...

    def takes_advice(self, process: Process) -> bool:
        """Return whether a runnable process that a coscheduling policy advises may have the CPU now."""
        ...

    def turn_end_us(self, current: Process, since_us: int, now_us: int) -> int:
        """Return when the turn of the process ends that has had the CPU since ``since_us``, if others are runnable."""
        ...

    def end_turn(self, current: Process) -> None:
        """The turn of a process is over, and others are runnable."""
        ...

    def ran(self, process: Process, begin_us: int, end_us: int) -> None:
        """A process has had the CPU from ``begin_us`` to ``end_us``."""
        ...

    def shift(self, by_us: int) -> None:
        """Time has stood still for so long: all instants that are kept are later."""
        ...
