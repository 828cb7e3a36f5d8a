"""The worker processes of a study on this machine. They live as long as the study, so start-up is paid once.

Workers are forked, so what the parent has imported is there at once. Each has a pipe to the parent. A worker that dies loses
its run, which is reported as a failure, and is replaced. All die with the parent, also if that is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from cosched_emulator.studies.cell_run import CellOrder, Failure, Result, carry_out

_FORK: Final = multiprocessing.get_context("fork")
_PR_SET_PDEATHSIG: Final = 1
_POLL_S: Final = 0.5


class Workers:
    """Runs orders in ``count`` processes; used as a context, at whose end no process is left."""

    def __init__(self, count: int, timeout_s: float, close: Sequence[int] = ()) -> None:
        """``timeout_s`` is the longest time for one run; file descriptors in ``close`` are the parent's alone."""
        self.count, self.timeout_s, self.close = count, timeout_s, close
        self.workers: list[_Worker] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.kill()

    def run(self, orders: Sequence[CellOrder], tick: Callable[[], None]) -> Iterator[Result | Failure]:
        """Yield what comes of each order, in the order in which the runs end; ``tick`` is called at least twice a second."""
        queue = _Queue(orders)
        while len(self.workers) < min(self.count, len(orders)):
            self.workers.append(_Worker(self._inherited()))
        for worker in self.workers:
            self._give(worker, queue)
        while busy := [worker for worker in self.workers if worker.order is not None]:
            ready = wait([item for worker in busy for item in (worker.pipe, worker.process.sentinel)], _POLL_S)
            tick()
            for worker in busy:
                if worker.pipe in ready or worker.process.sentinel in ready or worker.late(self.timeout_s):
                    outcome, free = self._take(worker)
                    self._give(free, queue)  # first, so that it does not wait until the outcome is stored
                    yield outcome

    def _inherited(self) -> tuple[int, ...]:
        """Return the file descriptors that a new worker inherits and must not keep open."""
        return (*self.close, *(worker.pipe.fileno() for worker in self.workers if not worker.pipe.closed))

    def _take(self, worker: _Worker) -> tuple[Result | Failure, _Worker]:
        """Return what has come of the worker's run, and the worker; another one in its place if it is dead, or late."""
        order, outcome = worker.order, worker.outcome(self.timeout_s)
        assert order is not None
        worker.order = None
        if isinstance(outcome, str):
            worker.kill()
            self.workers[self.workers.index(worker)] = replacement = _Worker(self._inherited())
            return Failure(order.key, outcome), replacement
        return outcome, worker

    def _give(self, worker: _Worker, queue: _Queue) -> None:
        if (order := queue.next(worker.group)) is not None:
            worker.start(order)


class _Worker:
    """One process, and the run that it is busy with."""

    def __init__(self, inherited: Sequence[int]) -> None:
        self.pipe, theirs = _FORK.Pipe()
        arguments = (theirs, (*inherited, self.pipe.fileno()), os.getpid())
        self.process = _FORK.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        self.order: CellOrder | None = None
        self.group: str | None = None  # of the scenario that it keeps
        self.began = 0.0

    def start(self, order: CellOrder) -> None:
        self.order, self.group, self.began = order, order.group, time.monotonic()
        with contextlib.suppress(OSError):  # it is dead, which `outcome` reports
            self.pipe.send(order)

    def late(self, timeout_s: float) -> bool:
        return time.monotonic() - self.began > timeout_s

    def outcome(self, timeout_s: float) -> Result | Failure | str:
        """Return what the worker has sent, or why nothing will come."""
        try:
            if self.pipe.poll():
                answer: Result | Failure = self.pipe.recv()
                return answer
        except (EOFError, OSError):
            pass
        self.process.join(0.1)
        code = self.process.exitcode
        if code is None:
            return f"no result within {timeout_s:g} s (--timeout)"
        if code < 0:
            name = signal.Signals(-code).name
            return f"the worker process was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
        return f"the worker process exited with {code}"

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


class _Queue:
    """Orders by scenario: a worker gets the next one of the scenario that it keeps, else of one that no worker has begun."""

    def __init__(self, orders: Sequence[CellOrder]) -> None:
        self.groups: OrderedDict[str, deque[CellOrder]] = OrderedDict()
        for order in orders:
            self.groups.setdefault(order.group, deque()).append(order)
        self.fresh = deque(self.groups)  # not begun

    def next(self, group: str | None) -> CellOrder | None:
        if group not in self.groups:
            while self.fresh and self.fresh[0] not in self.groups:
                self.fresh.popleft()
            group = self.fresh.popleft() if self.fresh else self._longest()
        if group is None:
            return None
        orders = self.groups[group]
        order = orders.popleft()
        if not orders:
            del self.groups[group]
        return order

    def _longest(self) -> str | None:
        """Return the scenario with most orders left."""
        return max(self.groups, key=lambda group: len(self.groups[group]), default=None)


def _work(pipe: Connection[Any, Any], inherited: Sequence[int], parent: int) -> None:
    """Carry out orders until the parent closes the pipe, or dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before that
        return
    for descriptor in inherited:
        os.close(descriptor)
    # A terminal sends Ctrl-C to all, and its end; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # What a policy and its programs print does not mix with what the command prints.
    sys.stdout = sys.stderr
    if None not in (sys.__stdout__, sys.__stderr__):
        os.dup2(2, 1)
    while True:
        try:
            order = pipe.recv()
            pipe.send(carry_out(order))
        except (EOFError, OSError):
            return
