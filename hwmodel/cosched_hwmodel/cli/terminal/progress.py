"""Progress bars on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(total: int, unit: str = "jobs") -> Iterator[Callable[..., None] | None]:
    """Yield a function of the number of ended jobs, or other units, and of a new total if that changes.

    It shows a bar on a terminal after two seconds; None without a terminal.
    """
    if sys.stderr is None or not sys.stderr.isatty():  # cron jobs may have none
        yield None
        return
    began = time.monotonic()
    shown = began + 2.0

    def update(ended: int, new_total: int | None = None) -> None:
        nonlocal shown, total
        total = total if new_total is None else new_total
        now = time.monotonic()
        if now < shown:
            return
        shown = now + 0.25
        share = min(1.0, ended / max(1, total))
        left_s = (now - began) * (1 - share) / share if share else 0.0
        bar = "#" * round(30 * share)
        sys.stderr.write(f"\r[{bar:<30}] {ended}/{total} {unit}, about {left_s:.0f} s left ")
        sys.stderr.flush()

    try:
        yield update
    finally:
        if shown > began + 2.0:
            sys.stderr.write("\r" + " " * 79 + "\r")
