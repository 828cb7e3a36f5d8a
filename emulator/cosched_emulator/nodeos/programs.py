"""Programs of parallel jobs: loops over operations that each process of a job carries out.

A program is a sequence of loops, and each loop repeats its body. All processes run the same body; an operation that
differs by rank is a function of the rank (`ByRank`). Loops are also the unit of the fluid cluster: within one, a job
progresses at one speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Final, NamedTuple

from cosched_emulator.errors import ConfigurationError


class Compute(NamedTuple):
    """CPU work of ``us`` in the mean; each burst is uniform within ± ``jitter_ppm`` of it."""

    us: int
    jitter_ppm: int = 0


class WriteFiles(NamedTuple):
    """Write ``files`` new files, one after the other: CPU for each, then a request to the disk.

    With ``shared`` the disk is one server for all nodes, else that of the node. Each is FIFO.
    """

    files: int
    shared: bool = True


class Wait(NamedTuple):
    """Wait ``us`` for a device that never queues."""

    us: int


class Barrier(NamedTuple):
    """Wait until all processes of the job have arrived, and for the communication that tells them so."""


class Collective(NamedTuple):
    """A barrier that moves ``size_bytes`` in each of log2(processes) steps."""

    size_bytes: int


class Send(NamedTuple):
    """Send a message to process ``rank``; the sender goes on when its node's CPU work is done."""

    rank: int
    size_bytes: int


class Receive(NamedTuple):
    """Wait for the next message of process ``rank`` that has not been received."""

    rank: int


class CollectiveBegins(NamedTuple):
    """The process begins a collective operation that is made of messages. It takes no time; a policy is told."""


class CollectiveEnds(NamedTuple):
    """The process ends a collective operation that is made of messages. It takes no time; a policy is told."""


Operation = Compute | WriteFiles | Wait | Barrier | Collective | Send | Receive | CollectiveBegins | CollectiveEnds


class ByRank(NamedTuple):
    """Operations that depend on the process: ``of(rank)`` returns those of one process."""

    of: Callable[[int], tuple[Operation, ...]]


class Loop(NamedTuple):
    """``times`` times the operations of ``body``."""

    times: int
    body: tuple[Operation, ...] | ByRank

    def body_of(self, rank: int) -> tuple[Operation, ...]:
        """Return the operations of one process in one iteration."""
        return self.body.of(rank) if isinstance(self.body, ByRank) else self.body


class Program(NamedTuple):
    """The loops of a job, in order."""

    loops: tuple[Loop, ...]

    def operations(self, rank: int) -> Iterator[Operation]:
        """Return all operations of one process."""
        return chain.from_iterable(chain.from_iterable(repeat(loop.body_of(rank), loop.times)) for loop in self.loops)

    def check(self, processes: int) -> None:
        """Raise `ConfigurationError` if a loop is empty or takes no time, or a message has no other end."""
        if not self.loops:
            raise ConfigurationError("program", "at least one loop", "none")
        for number, loop in enumerate(self.loops):
            path = f"program.loops[{number}]"
            if loop.times < 1:
                raise ConfigurationError(f"{path}.times", "at least 1", str(loop.times))
            for rank in range(processes):
                body = loop.body_of(rank)
                if not any(_takes_time(operation) for operation in body):
                    raise ConfigurationError(f"{path}.body", "an operation that takes time", repr(body))
                for operation in body:
                    _check_operation(operation, f"{path}.body", processes)


def _takes_time(operation: Operation) -> bool:
    match operation:
        case Compute(us=us) | Wait(us=us):
            return us > 0
        case WriteFiles(files=files):
            return files > 0
        case CollectiveBegins() | CollectiveEnds():
            return False
    return True


def _check_operation(operation: Operation, path: str, processes: int) -> None:
    match operation:
        case Compute(us=us, jitter_ppm=jitter_ppm):
            good = us >= 0 and 0 <= jitter_ppm <= 1_000_000
        case Wait(us=amount) | WriteFiles(files=amount) | Collective(size_bytes=amount):
            good = amount >= 0
        case Send(rank=rank, size_bytes=size_bytes):
            good = 0 <= rank < processes and size_bytes >= 0
        case Receive(rank=rank):
            good = 0 <= rank < processes
        case _:
            good = True
    if not good:
        raise ConfigurationError(path, f"amounts of at least 0 and ranks below {processes}", repr(operation))


# Programs as processes carry them out: plain tuples, which are quicker to read than operations.

COMPUTE: Final = 0  # us, jitter_ppm, the message that is sent next
RECEIVE: Final = 1  # rank
SEND: Final = 2  # -, -, the message
BARRIER: Final = 3  # bytes moved in each step
WRITE: Final = 4  # files, shared
WAIT: Final = 5  # us
COLLECTIVE: Final = 6  # begins

Message = tuple[int, int]  # rank of the receiver, bytes
Step = tuple[int, int, int, Message | None]  # kind, two numbers, a message


def steps_of(body: tuple[Operation, ...]) -> tuple[Step, ...]:
    """Return the step of each operation of a body."""
    followers = (*body[1:], None)
    return tuple(_step(operation, follower) for operation, follower in zip(body, followers, strict=True))


def _step(operation: Operation, follower: Operation | None) -> Step:
    match operation:
        case Compute(us=us, jitter_ppm=jitter_ppm):
            return COMPUTE, us, jitter_ppm, _message(follower) if isinstance(follower, Send) else None
        case Receive(rank=rank):
            return RECEIVE, rank, 0, None
        case Send():
            return SEND, 0, 0, _message(operation)
        case Barrier():
            return BARRIER, 0, 0, None
        case Collective(size_bytes=size_bytes):
            return BARRIER, size_bytes, 0, None
        case WriteFiles(files=files, shared=shared):
            return WRITE, files, int(shared), None
        case Wait(us=us):
            return WAIT, us, 0, None
        case CollectiveBegins():
            return COLLECTIVE, 1, 0, None
        case CollectiveEnds():
            return COLLECTIVE, 0, 0, None


def _message(send: Send) -> Message:
    return send.rank, send.size_bytes
