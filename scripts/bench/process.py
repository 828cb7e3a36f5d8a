"""One measurement in a separate process: its figures or the reason why there are none, and its memory."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeAlias

Figures: TypeAlias = dict[str, Any]  # JSON-ready; only ``reason`` if there are none
STARTED_S: Final = 60.0  # extra time for a process to load its modules


def in_process(work: Callable[..., Figures], *arguments: object, timeout_s: float) -> Figures:
    """Return the result of ``work`` in a new process; ``reason`` says why there is none: too late, or failed.

    The time counts from the end of the loading. ``work`` and its arguments must be picklable.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_run, args=(theirs, work, arguments))
    child.start()
    theirs.close()
    try:
        if not ours.poll(STARTED_S):
            return {"reason": f"not started within {STARTED_S:.0f} s"}
        ours.recv()
        if not ours.poll(timeout_s):
            return {"reason": f"more than {timeout_s:.0f} s"}
        found: Figures = ours.recv()
    except EOFError:
        child.join(10)
        return {"reason": f"ended with exit code {child.exitcode}"}
    finally:
        ours.close()
        child.terminate()
        child.join(10)
    return found


def _run(connection: Connection, work: Callable[..., Figures], arguments: tuple[object, ...]) -> None:
    connection.send("started")
    try:
        found = work(*arguments)
    except Exception as error:  # reported instead of figures; the benchmark continues
        found = {"reason": f"{type(error).__name__}: {error}"}
    connection.send(found)


def memory_mb(name: str) -> float:
    """Return a line of this process's memory in MiB: ``VmHWM`` is the peak, ``VmRSS`` what it has now."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024
