"""What a long-running program does to its own process: its end at signals, what systemd hears, garbage collections, free memory."""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

from cosched_terminal.command_line import leave_terminal, termination_signals
from cosched_terminal.console import ERROR, PATIENCE_MS, Log

# Signals that ask for an orderly end: the first one is noted, and acted on between two steps; a second one ends the process.


@contextmanager
def stop_on_signals(stop: Callable[[int], None], log: Log) -> Iterator[None]:
    """Make the first SIGTERM or SIGINT call ``stop`` with its number, and the second one, of either kind, end the process at once.

    SIGHUP calls it as SIGTERM does, unless it is ignored, as under nohup; it is never the second one, because a closed terminal
    sends it several times, and systemd beside SIGTERM. Without that second signal a step that never ends, such as an endless loop
    in a policy, could not be stopped. At the second signal the process writes one line, formatted by ``log``, and exits with 128 +
    the signal's number; files are not closed. Has an effect only in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping = asked = False

    def note(number: int, _frame: FrameType | None) -> None:
        nonlocal stopping, asked
        if number == signal.SIGHUP:
            leave_terminal()
            number = signal.SIGTERM
        elif asked:
            _end_at_once(number, log)
        else:
            asked = True
        if not stopping:
            stopping = True
            stop(number)

    before = {number: signal.signal(number, note) for number in (*termination_signals(), signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _end_at_once(number: int, log: Log) -> NoReturn:
    """Write the reason, and exit without any clean-up.

    An exception would not do, because a policy may catch it. The line is written without locks and buffers, because the interrupted
    code may hold them.
    """
    try:
        text = f"ended at once by a second signal, {signal.Signals(number).name}"
        line = log.line("ended", text, level=ERROR, exit_code=128 + number)
        with suppress(AttributeError, OSError, ValueError):  # standard error is closed, or has no reader
            stream = sys.stderr.fileno()
            reader = select.poll()
            reader.register(stream, select.POLLOUT)
            if reader.poll(PATIENCE_MS):
                os.write(stream, (line + "\n").encode())
    finally:
        os._exit(128 + number)


# What systemd wants to know of a service of type notify: that it is ready, and that it goes on taking its turns.

_TIMES: Final = 3.0  # it is told so often in the time after which it would end a service that says nothing


class Service:
    """Tells the service manager that started this process, if one did and asked for it (sd_notify)."""

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        clock_s: Callable[[], float] = time.monotonic,
        times: float = _TIMES,
    ) -> None:
        """``times``: how often in the time that is allowed; infinite: at each turn."""
        self._address = environment.get("NOTIFY_SOCKET", "").replace("@", "\0", 1)
        self._clock_s = clock_s
        self._every_s: float | None = None
        if environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            with suppress(ValueError):
                self._every_s = int(environment.get("WATCHDOG_USEC", "")) / 1e6 / times
        self._next_s = float("-inf")

    def turn(self) -> None:
        """Say that the process is ready, at the first call, and later that it is alive, as often as that is wanted."""
        if not self._address or (now_s := self._clock_s()) < self._next_s:
            return
        text = b"READY=1" if self._next_s == float("-inf") else b"WATCHDOG=1"
        self._next_s = float("inf") if self._every_s is None else now_s + self._every_s
        import socket  # noqa: PLC0415 - a simulation tells systemd nothing

        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.setblocking(False)
            told.sendto(text, self._address)


# Garbage collection in long-running programs: objects from before the work are not examined again.

YOUNG: Final = 5_000  # new objects between two collections of young objects; Python's default is 700


@contextmanager
def freeze_heap(*, cycles: bool = False) -> Iterator[None]:
    """Exclude all present objects, such as code and settings, from garbage collections: they stay alive anyway.

    Otherwise a full collection examines a hundred thousand objects of modules, which takes 15 to 30 ms during a decision. New
    objects are also examined less often: their collections took a tenth of a run's time and found almost nothing, because there
    are hardly any reference cycles. ``cycles``: earlier work may have left some, which would never be collected once frozen.
    """
    if cycles:
        gc.collect()
    young, middle, old = gc.get_threshold()
    gc.freeze()
    if young:  # with 0, collections are disabled
        gc.set_threshold(YOUNG, middle, old)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()


# Memory of the C library; with another one than glibc the following two have no effect.

LARGE_BYTES: Final = 65_536
_M_MMAP_THRESHOLD: Final = -3  # parameter of glibc's mallopt


def return_large_blocks() -> None:
    """Make the C library give each block of `LARGE_BYTES` or more back to the system once it is free.

    Left to itself glibc stops doing so after the first large block that is freed, and puts later ones between small ones in heaps
    of several threads: 45 MB of a manager's 130 were free, and stayed, after the large requests of 200 connections.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)


def return_free_memory() -> None:
    """Give the pages that are free between small blocks back to the system; it takes some milliseconds."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
