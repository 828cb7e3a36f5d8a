"""The kernels of ``kernels.c`` with numpy, for machines without a C compiler: the same arguments, the same lines.

It runs as a file, so that a process loads nothing but numpy. Its rates are lower than those in C: an operation of numpy costs a
microsecond besides the work.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

Work: TypeAlias = Callable[[], int]  # does some work and returns its units
Clock: TypeAlias = Callable[[], int]  # in nanoseconds

ELEMENTS = 2048  # of arrays that stay in the nearest cache
LINE_WORDS = 8  # words of a cache line
STRETCH = 16384  # elements of an array between two looks at the clock
LOADS = 4096  # the same for loads, at least
BLOCK = 1 << 20  # bytes written to disk at once
FILE_BLOCKS = 64
MESSAGE = 64 * 1024  # bytes sent at once


def integer() -> Work:
    """Additions and exclusive ors of whole numbers."""
    a, b = np.arange(ELEMENTS, dtype=np.int64), np.arange(ELEMENTS, dtype=np.int64)

    def work() -> int:
        np.add(a, b, out=a)
        np.bitwise_xor(a, b, out=a)
        return 2 * ELEMENTS

    return work


def floating() -> Work:
    """Multiplications and additions of floating-point numbers."""
    a = np.ones(ELEMENTS)

    def work() -> int:
        np.multiply(a, 0.999, out=a)
        np.add(a, 0.5, out=a)
        return 2 * ELEMENTS

    return work


def chase(kib: int) -> Work:
    """Loads in random order, one from each cache line of ``kib`` KiB. They do not depend on each other, as in C."""
    lines = max(1, kib * 1024 // (8 * LINE_WORDS))
    table = np.zeros(lines * LINE_WORDS, dtype=np.int64)
    order = np.random.default_rng(1).permutation(lines) * LINE_WORDS
    order = np.tile(order, -(-LOADS // lines))  # a call of numpy costs as much as hundreds of loads
    count = len(order) if len(order) < 2 * LOADS else LOADS
    places = order[: len(order) // count * count].reshape(-1, count).astype(np.intp)
    found = np.empty(count, dtype=np.int64)
    row = 0

    def work() -> int:
        nonlocal row
        np.take(table, places[row], out=found, mode="clip")  # "raise" would copy
        row = (row + 1) % len(places)
        return count

    return work


def stream(kib: int) -> Work:
    """Sums of two arrays into a third one, ``kib`` KiB in all."""
    elements = kib * 1024 // 24 // STRETCH * STRETCH + STRETCH
    to, one, other = np.zeros(elements), np.ones(elements), np.ones(elements)
    place = 0

    def work() -> int:
        nonlocal place
        end = place + STRETCH
        np.add(one[place:end], other[place:end], out=to[place:end])
        place = end % elements
        return 24 * STRETCH

    return work


def disk(folder: str) -> Work:
    """Blocks written to a file without a name, each followed by a wait until it is on the disk."""
    file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - open until the process ends
    block = b"U" * BLOCK
    number = 0

    def work() -> int:
        nonlocal number
        written = os.pwrite(file.fileno(), block, number * BLOCK)
        os.fdatasync(file.fileno())
        number = (number + 1) % FILE_BLOCKS
        return written

    work()
    return work


def network() -> Work:
    """Blocks that the process sends to itself through TCP on the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        out = socket.create_connection(door.getsockname())
        back, _ = door.accept()
    out.setblocking(False)
    message = bytes(MESSAGE)
    room = bytearray(MESSAGE)

    def work() -> int:
        try:
            sent = left = out.send(message)
        except BlockingIOError:
            return 0
        while left:
            left -= back.recv_into(room, left)
        return sent

    return work


def prepare(kind: str, argument: str) -> Work:
    """Return the work of a kernel; raises OSError and MemoryError."""
    match kind:
        case "integer":
            return integer()
        case "float":
            return floating()
        case "chase":
            return chase(int(argument))
        case "stream":
            return stream(int(argument))
        case "disk":
            return disk(argument)
        case "network":
            return network()
        case _:
            raise OSError("unknown kind")


def run(work: Work, clock: Clock, warm_us: int, span_us: int) -> tuple[int, int]:
    """Return the units of ``span_us``, after ``warm_us`` that do not count, and their nanoseconds by ``clock``."""
    end = time.monotonic_ns() + warm_us * 1000
    while time.monotonic_ns() < end:
        work()
    units = 0
    begin = clock()
    end = time.monotonic_ns() + span_us * 1000
    while not units or time.monotonic_ns() < end:
        units += work()
    return units, clock() - begin


def main(kind: str, argument: str, deadline_s: str) -> None:
    """Answer the lines of standard input until its end."""
    signal.alarm(int(deadline_s))
    clock = time.monotonic_ns if kind == "disk" else time.process_time_ns
    work = None
    for line in sys.stdin:
        try:
            if line == "prepare\n":
                work = prepare(kind, argument)
                answer = "ready"
            else:
                assert work is not None
                warm_us, span_us = map(int, line.split()[1:])
                answer = "did {} {}".format(*run(work, clock, warm_us, span_us))
        except (OSError, MemoryError) as error:
            answer = f"failed {getattr(error, 'strerror', None) or str(error) or 'not enough memory'}"
        print(answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
