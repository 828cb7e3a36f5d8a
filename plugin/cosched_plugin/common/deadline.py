"""A deadline for a policy that is called in this process: the code of others may never return.

Asked by the conformance check, and by the emulator where it calls a policy itself. For a scheduler in a process of its own, who
waits for its answer has a deadline, and asks with `PLACE_SIGNAL` where it is.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

_LOOKS: Final = 4  # in the time of a deadline; a suspended machine, or process, misses looks
_PATIENCE: Final = 2  # factor on the deadline: then code that nothing interrupts is ended with its process


class Overdue(BaseException):
    """A policy has not returned in time; the text says where it is. Not an `Exception`, which a policy may catch to go on."""


# The signal for this is the caller's where it has a handler or a timer of its own: then there is no deadline.
@contextmanager
def overdue_after(deadline_s: float, waits_for: Callable[[], object], *, ends: bool = False) -> Iterator[None]:
    """Raise `Overdue` once ``waits_for`` has returned the same for ``deadline_s``, and up to a quarter more; None: for nothing.

    A signal to the main thread does this; elsewhere there is no deadline. ``ends``: after twice that time the process ends, with exit
    code 1 and the place on standard error, where the code goes on all the same: it catches everything, or is a loop in C.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL
        or signal.getitimer(signal.ITIMER_REAL)[0]
    ):
        yield
        return
    seen: object = None
    looks = 0

    def interrupt(_number: int, frame: FrameType | None) -> None:
        nonlocal seen, looks
        awaited = waits_for()
        if awaited is None or awaited != seen or sys.gettrace() is not None:  # someone looks at it in a debugger
            seen, looks = awaited, 0
            wait_to_end()
            return
        looks += 1
        if ends and looks >= _PATIENCE * _LOOKS:
            os.write(
                2,
                f"error: no end after {_PATIENCE * deadline_s:g} s: {_place(frame)}, and catches what interrupts it\n".encode(),
            )
            os._exit(1)
        if looks >= _LOOKS:
            raise Overdue(_place(frame))

    def wait_to_end() -> None:
        if ends:
            faulthandler.dump_traceback_later(
                (_PATIENCE + 1) * deadline_s, exit=True, file=sys.__stderr__ or sys.stderr
            )

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, deadline_s / _LOOKS, deadline_s / _LOOKS)
    try:
        wait_to_end()
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if ends:
            faulthandler.cancel_dump_traceback_later()


PLACE_SIGNAL: Final = signal.SIGUSR1


@contextmanager
def tells_place(tell: Callable[[str], None]) -> Iterator[None]:
    """Call ``tell`` with the place at which the main thread is, whenever `PLACE_SIGNAL` comes; no effect in another thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(PLACE_SIGNAL, lambda _number, frame: tell(_place(frame)))
    try:
        yield
    finally:
        signal.signal(PLACE_SIGNAL, before)


def _place(frame: FrameType | None) -> str:
    if frame is None:
        return "it does not return"
    return f"it is at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}, in {frame.f_code.co_name}"
