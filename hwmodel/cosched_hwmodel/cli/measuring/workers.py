"""Kernels as processes: pinned, told when to work, and never waited for beyond a deadline."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

START_S: Final = 10.0  # for a process to start and to prepare its memory
ANSWER_S: Final = 5.0  # for an answer beyond the time of the work itself
END_S: Final = 2.0  # for killed processes to end
_LONGEST: Final = 4096  # bytes of an answer
_SPIN: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class KernelError(Exception):
    """A kernel that could not work; the text says why."""


class Did(NamedTuple):
    """What a kernel did: units of its own (operations, loads, bytes) and nanoseconds."""

    units: int
    ns: int

    @property
    def rate(self) -> float:
        """Return the units for each second."""
        return self.units * 1e9 / self.ns


class Worker:
    """A process that runs one kernel on one CPU."""

    def __init__(self, command: Sequence[str], cpu: int) -> None:
        """Raises KernelError if the process cannot be started or pinned."""
        try:
            # A session of its own: SIGINT of the terminal goes to this program alone, which then kills its workers.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
                env={**os.environ, **_SPIN},
            )
        except OSError as error:
            raise KernelError(f"cannot be started: {error.strerror or error}") from error
        try:
            os.sched_setaffinity(self._process.pid, {cpu})
        except OSError as error:
            self.kill()
            self.reap(time.monotonic() + END_S)
            raise KernelError(f"cannot be pinned to CPU {cpu}: {error.strerror or error}") from error

    def tell(self, line: str) -> None:
        """Send a line; raises KernelError if the process has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
        except OSError as error:
            raise KernelError("ended unexpectedly") from error

    def answer(self, deadline: float) -> str:
        """Return the next line; raises KernelError if there is none by ``deadline``, a time of `time.monotonic`."""
        assert self._process.stdout is not None
        stream = self._process.stdout.fileno()
        readable = select.poll()
        readable.register(stream, select.POLLIN)
        data = b""
        while not data.endswith(b"\n"):
            if not readable.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise KernelError("did not answer in time")
            part = os.read(stream, _LONGEST)
            if not part or len(data) > _LONGEST:
                raise KernelError("ended unexpectedly")
            data += part
        line = data.decode(errors="replace").strip()
        if line.startswith("failed"):
            raise KernelError(line.removeprefix("failed").strip())
        return line

    def kill(self) -> None:
        """Ask the kernel of the operating system to end the process; see `reap`."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def reap(self, deadline: float) -> None:
        """Wait for the end of a killed process; one that waits for a broken disk cannot end, and is left."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.01, deadline - time.monotonic()))


@contextmanager
def workers() -> Iterator[list[Worker]]:
    """Yield a list for workers; all in it are killed at the end, whatever ends it."""
    started: list[Worker] = []
    try:
        yield started
    finally:
        deadline = time.monotonic() + END_S
        for worker in started:
            worker.kill()
        for worker in started:
            worker.reap(deadline)


def prepare(worker: Worker) -> None:
    """Let a worker prepare its memory, files and sockets; raises KernelError."""
    worker.tell("prepare")
    worker.answer(time.monotonic() + START_S)


def run_together(together: Sequence[Worker], warm_us: int, span_us: int) -> list[Did]:
    """Let workers run at the same time, ``span_us`` each after ``warm_us`` that do not count.

    Raises KernelError if one of them fails.
    """
    for worker in together:
        worker.tell(f"run {warm_us} {span_us}")
    deadline = time.monotonic() + (warm_us + span_us) / 1e6 + ANSWER_S
    found = []
    for worker in together:
        words = worker.answer(deadline).split()
        if len(words) != 3 or words[0] != "did" or not all(word.isdecimal() for word in words[1:]) or words[2] == "0":
            raise KernelError(f"gave an unknown answer: {' '.join(words)}")
        found.append(Did(int(words[1]), int(words[2])))
    return found
