"""Programs as processes carry them out: plain tuples, which are quicker to read than operations."""

from __future__ import annotations

from typing import Final

from cosched_emulator.nodeos.programs import (
    Barrier,
    Collective,
    CollectiveBegins,
    CollectiveEnds,
    Compute,
    Operation,
    Receive,
    Send,
    Wait,
    WriteFiles,
)

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
