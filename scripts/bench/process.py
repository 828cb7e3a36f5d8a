"""One measurement in a process of its own: what it found, or why there is nothing; and how much memory it took."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeAlias

Figures: TypeAlias = dict[str, Any]  # JSON-ready; ``reason`` alone where there are none
STARTED_S: Final = 60.0  # how long a process may take to load what it needs, beside its time


def in_process(work: Callable[..., Figures], *arguments: object, timeout_s: float) -> Figures:
    """Return what ``work`` returns in a new process; its ``reason`` says why there is nothing: too late, or failed.

    The time counts from when the process has loaded what it needs. ``work`` and its arguments must be picklable.
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
    except Exception as error:  # told instead of figures, and the benchmark goes on
        found = {"reason": f"{type(error).__name__}: {error}"}
    connection.send(found)


def memory_mb(name: str) -> float:
    """Return a line of this process's memory in MiB: ``VmHWM`` is the peak, ``VmRSS`` what it has now."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024
