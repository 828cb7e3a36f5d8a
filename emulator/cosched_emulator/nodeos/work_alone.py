"""What programs need when a job runs alone: CPU time, and how long it takes in the mean."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from cosched_emulator.nodeos import programs
from cosched_emulator.nodeos.settings import NodeSettings


def length_us(operation: programs.Operation, processes: int, settings: NodeSettings) -> int:
    """Return how long an operation takes in a job that runs alone, without jitter.

    Files count with those that all processes write meanwhile. A message counts where it is received.
    """
    match operation:
        case programs.Compute(us=us) | programs.Wait(us=us):
            return us
        case programs.WriteFiles(files=files, shared=shared):
            return files * (settings.io_cpu_us + settings.io_service_us * (processes if shared else 1))
        case programs.Barrier():
            return settings.barrier_us
        case programs.Collective(size_bytes=size_bytes):
            step_us = -(-size_bytes // settings.network_mb_s)
            return settings.barrier_us + (processes - 1).bit_length() * step_us
        case programs.Send():
            return settings.message_cpu_us
        case programs.Receive():
            return settings.latency_us + settings.receive_cpu_us
        case programs.CollectiveBegins() | programs.CollectiveEnds():
            return 0


class IterationNeed:
    """What one process needs for one iteration of a body, in the mean and in microseconds.

    ``cpu_us`` is CPU time, ``io_us`` what of that is for I/O, ``length_us`` how long it takes alone.
    """

    __slots__ = ("cpu_us", "io_us", "length_us")

    def __init__(self, body: Sequence[programs.Operation], processes: int, settings: NodeSettings) -> None:
        files = sum(operation.files for operation in body if isinstance(operation, programs.WriteFiles))
        bursts_us = sum(operation.us for operation in body if isinstance(operation, programs.Compute))
        self.io_us = files * settings.io_cpu_us
        self.cpu_us = bursts_us + self.io_us
        self.length_us = sum(length_us(operation, processes, settings) for operation in body)


class Course:
    """How far one process has come in its program, weighted by the time that the parts take alone."""

    def __init__(self, program: programs.Program, rank: int, processes: int, settings: NodeSettings) -> None:
        bodies = [loop.body_of(rank) for loop in program.loops]
        self._ends_us = [  # of the operations of one iteration, by loop
            list(accumulate(length_us(operation, processes, settings) for operation in body)) for body in bodies
        ]
        sizes = [loop.times * len(body) for loop, body in zip(program.loops, bodies, strict=True)]
        spans = [loop.times * ends[-1] for loop, ends in zip(program.loops, self._ends_us, strict=True)]
        self._first = list(accumulate(sizes, initial=0))  # operation of each loop
        self._begins_us = list(accumulate(spans, initial=0))  # of each loop

    def share(self, operations: int) -> float:
        """Return the share of the program's time that its first ``operations`` take."""
        loop = bisect_right(self._first, operations) - 1
        done_us = self._begins_us[loop]
        if loop < len(self._ends_us):
            ends_us = self._ends_us[loop]
            iterations, more = divmod(operations - self._first[loop], len(ends_us))
            done_us += iterations * ends_us[-1] + (ends_us[more - 1] if more else 0)
        return done_us / max(1, self._begins_us[-1])


def courses_of(program: programs.Program, processes: int, settings: NodeSettings) -> list[Course]:
    """Return the course of each process of a job; the same one for all if they are alike."""
    if any(isinstance(loop.body, programs.ByRank) for loop in program.loops):
        return [Course(program, rank, processes, settings) for rank in range(processes)]
    return [Course(program, 0, processes, settings)] * processes
