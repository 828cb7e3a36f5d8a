"""Signals that ask for an orderly end: the first one is noted, and acted on between two steps; a second one ends the process."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from cosched_plugin.common.log import ERROR, PATIENCE_MS, Log


@contextmanager
def stop_on_signals(stop: Callable[[int], None], log: Log) -> Iterator[None]:
    """Have the first SIGTERM or SIGINT call ``stop`` with its number, and the second one, of either kind, end the process at once.

    A step that never ends, such as a decision of a policy in an endless loop, cannot be left in any other way. The process then says
    one line, formatted by ``log``, and exits with 128 + the number of the second signal; files are not closed. Only in the main
    thread; in any other one, signals are left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping = False

    def note(number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        if stopping:
            _end_at_once(number, log)
        stopping = True
        stop(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _end_at_once(number: int, log: Log) -> NoReturn:
    """Say why, and exit without any cleaning up.

    No exception can do this: a policy may catch all of them. The line takes no lock and no buffer, which the code that the signal has
    interrupted may hold.
    """
    try:
        text = f"ended at once by a second signal, {signal.Signals(number).name}"
        line = log.line("ended", text, level=ERROR, exit_code=128 + number)
        with suppress(AttributeError, OSError, ValueError):  # standard error is closed, or nobody reads it
            stream = sys.stderr.fileno()
            reader = select.poll()
            reader.register(stream, select.POLLOUT)
            if reader.poll(PATIENCE_MS):
                os.write(stream, (line + "\n").encode())
    finally:
        os._exit(128 + number)
