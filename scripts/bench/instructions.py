"""The instructions that a command executes: nearly the same number on a busy machine as on an idle one.

They are counted by perf where it can read the processor's counter, which most virtual machines hide, else by valgrind, in fifty
times the time.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_TRY_S: Final = 20.0
# Threads of numpy's linear algebra spin while they wait, for as long as they wait.
COUNTED: Final = {"OPENBLAS_NUM_THREADS": "1"}


class Counter(NamedTuple):
    """A program that runs a command and counts the instructions of its processes."""

    name: str
    prefix: Callable[[Path], tuple[str, ...]]  # of a command whose counts go into a folder
    read: Callable[[Path], int]  # the sum of the counts in the folder; ValueError where there are none


def _perf(folder: Path) -> tuple[str, ...]:
    return ("perf", "stat", "--field-separator=,", "--event=instructions:u", f"--output={folder / 'count'}", "--")


def _read_perf(folder: Path) -> int:
    lines = (folder / "count").read_text(encoding="utf-8").splitlines()
    return int(next((line for line in lines if ",instructions" in line), "").partition(",")[0])


def _valgrind(folder: Path) -> tuple[str, ...]:
    return (
        "valgrind", "--tool=cachegrind", "--cache-sim=no", "--branch-sim=no", "--trace-children=yes",
        f"--cachegrind-out-file={folder / 'count'}.%p", f"--log-file={folder / 'log'}.%p",
    )  # fmt: skip


def _read_valgrind(folder: Path) -> int:
    counts = [
        int(line.partition(":")[2])
        for file in folder.glob("count.*")
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith("summary:")
    ]
    if not counts:
        raise ValueError("valgrind has written no count")
    return sum(counts)


COUNTERS: Final = (Counter("perf", _perf, _read_perf), Counter("valgrind", _valgrind, _read_valgrind))


def find_counter(counters: Sequence[Counter] = COUNTERS) -> Counter | None:
    """Return the first of ``counters`` that works on this machine; None if none does."""
    return next((counter for counter in counters if _works(counter)), None)


def _works(counter: Counter) -> bool:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [*counter.prefix(folder), "true"]
        if shutil.which(command[0]) is None:
            return False
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRY_S, check=True)
            return counter.read(folder) > 0
        except (OSError, subprocess.SubprocessError, ValueError):
            return False
