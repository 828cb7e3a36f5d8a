"""What skeletons of parallel programs are made of: bursts, exchanges of messages, and collective operations as messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cosched_emulator.nodeos import programs

LEAST_BURST_US = 20.0  # shorter ones are added to the next burst of the process: a message costs as much


class Scale(NamedTuple):
    """How much a process computes in an iteration, and how evenly."""

    work_us: float
    jitter_ppm: int


class Skeleton(NamedTuple):
    """The structure of a program of one class on one number of processes.

    ``main`` returns the operations of a process in one iteration, ``end`` those after the last one.
    """

    iterations: int
    main: Callable[[int, Scale], Sequence[programs.Operation]]
    end: Callable[[int], Sequence[programs.Operation]]

    def loops(self, processes: int, iterations: int, scale: Scale, data: float = 1.0) -> tuple[programs.Loop, ...]:
        """Return the loops of the program, with this number of iterations; messages of the main loop are ``data`` times as large."""
        bodies = tuple([merged(resized(self.main(rank, scale), data)) for rank in range(processes)])
        ends = tuple([merged(self.end(rank)) for rank in range(processes)])
        last = (programs.Loop(1, programs.ByRank(ends.__getitem__)),) if any(ends) else ()
        return (programs.Loop(iterations, programs.ByRank(bodies.__getitem__)), *last)


def exchanges(rank: int, sizes: Mapping[int, int]) -> list[programs.Operation]:
    """Return a send to each of these processes, and a receipt from each; itself is left out."""
    others = [(other, size) for other, size in sizes.items() if other != rank]
    return [*[programs.Send(other, size) for other, size in others], *[programs.Receive(other) for other, _ in others]]


def swap(rank: int, partner: int, size_bytes: int) -> list[programs.Operation]:
    """Return the exchange of a message with one process; nothing with itself."""
    return exchanges(rank, {partner: size_bytes})


def allreduce(rank: int, processes: int, size_bytes: int) -> list[programs.Operation]:
    """Return an allreduce by recursive doubling; processes beyond the largest power of two hand in and fetch their part."""
    most = 1 << (processes.bit_length() - 1)
    inner: list[programs.Operation] = []
    if rank >= most:
        inner = swap(rank, rank - most, size_bytes)
    else:
        guest = rank + most
        if guest < processes:
            inner.append(programs.Receive(guest))
        for stage in range(most.bit_length() - 1):
            inner += swap(rank, rank ^ (1 << stage), size_bytes)
        if guest < processes:
            inner.append(programs.Send(guest, size_bytes))
    return [programs.CollectiveBegins(), *inner, programs.CollectiveEnds()]


def alltoall(rank: int, processes: int, size_bytes: int) -> list[programs.Operation]:
    """Return an exchange of ``size_bytes`` between all pairs, in steps: to the one i ranks on, from the one i ranks back."""
    inner: list[programs.Operation] = []
    for step in range(1, processes):
        inner += [programs.Send((rank + step) % processes, size_bytes), programs.Receive((rank - step) % processes)]
    return [programs.CollectiveBegins(), *inner, programs.CollectiveEnds()]


def burst(scale: Scale, share: float) -> programs.Compute:
    """Return the burst that is this share of an iteration's work, rounded to whole microseconds."""
    return programs.Compute(round(scale.work_us * share), scale.jitter_ppm)


def resized(operations: Sequence[programs.Operation], factor: float) -> Sequence[programs.Operation]:
    """Return the operations with messages that are ``factor`` times as large, one byte at least."""
    if factor == 1:
        return operations
    return [
        programs.Send(item.rank, max(1, round(item.size_bytes * factor))) if isinstance(item, programs.Send) else item
        for item in operations
    ]


def no_end(_rank: int) -> Sequence[programs.Operation]:
    """Return nothing: the program ends with its last iteration."""
    return ()


def merged(operations: Sequence[programs.Operation]) -> tuple[programs.Operation, ...]:
    """Return the operations with bursts below 20 us added to the next, and bursts without anything between them as one."""
    return tuple(_merged(operations))


def _merged(operations: Sequence[programs.Operation]) -> Iterator[programs.Operation]:
    us, jitter_ppm = 0, 0
    for operation in operations:
        if isinstance(operation, programs.Compute):
            us, jitter_ppm = us + operation.us, operation.jitter_ppm
            continue
        if us >= LEAST_BURST_US:
            yield programs.Compute(us, jitter_ppm)
            us = 0
        yield operation
    if us:
        yield programs.Compute(us, jitter_ppm)
