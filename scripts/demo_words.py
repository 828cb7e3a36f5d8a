"""The sentences under the table of ``scripts/demo``, worked out from the run folders.

Usage: demo_words.py gains BASE_DIR RUN_DIR...    which jobs gain and which lose against the first run
       demo_words.py window RUN_DIR               begin and end, in hours, of the half day in which most jobs start
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from cosched_emulator.results.columns import BoolArray, JobColumns
from cosched_emulator.results.figures.comparison import number_texts, time_unit
from cosched_emulator.results.figures.metrics import population, quantity
from cosched_emulator.results.files.reader import read_run
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import TIMEOUT

MUCH: Final = 1.5  # times as late
WINDOW_H: Final = 12


def gains(base_name: str, base: JobColumns, name: str, run: JobColumns) -> Iterator[str]:
    """Yield the lines on one run against the first one; both are of the same jobs."""
    both = population(base, "finished") & population(run, "finished")
    total = int(np.count_nonzero(both))
    yield f"{name} against {base_name}, {total:,} jobs that completed in both:"
    if total:
        yield from _responses(base, run, both)
    killed = [int(np.count_nonzero(jobs.ended & jobs.state.where(TIMEOUT))) for jobs in (run, base)]
    if any(killed):
        yield f"    killed at their limits: {killed[0]:,} jobs; under {base_name}: {killed[1]:,}"


def _responses(base: JobColumns, run: JobColumns, both: BoolArray) -> Iterator[str]:
    before_s, after_s = [quantity(jobs, "response_s", both) for jobs in (base, run)]
    waited_s, waits_s = [quantity(jobs, "wait_s", both) for jobs in (base, run)]
    change = f" ({after_s.mean() / before_s.mean() - 1:+.0%})" if before_s.any() else ""
    yield f"    mean response: {_instead(after_s.mean(), before_s.mean())}{change}"
    earlier, later = after_s < before_s, after_s > before_s
    yield f"    respond earlier: {_part(earlier)}; as before: {_part(~earlier & ~later)}; later: {_part(later)}"
    if not later.any():
        return
    longer = after_s - waits_s > before_s - waited_s
    yield (
        f"    of the later ones, {np.count_nonzero(later & (waits_s > waited_s)):,} start later,"
        f" {np.count_nonzero(later & longer):,} take longer from start to end;"
        f" {np.count_nonzero(after_s > MUCH * before_s):,} respond more than {MUCH:g} times as late"
    )
    worst = int(np.argmax(after_s - before_s))
    yield f"    job {run.id[both][worst]} loses most: its response is {_instead(after_s[worst], before_s[worst])}"


def window(jobs: JobColumns) -> tuple[int, int]:
    """Return the first and the last hour of the half day in which most jobs start."""
    starts_h = np.sort(jobs.start_us[jobs.started]) / (3600 * SECOND_US)
    hours = np.unique(starts_h.astype(np.int64))
    counts = np.searchsorted(starts_h, hours + WINDOW_H) - np.searchsorted(starts_h, hours)
    begin_h = int(hours[np.argmax(counts)]) if hours.size else 0
    return begin_h, begin_h + WINDOW_H


def _instead(now_s: float, then_s: float) -> str:
    size, unit = time_unit(max(now_s, then_s))
    now, then = number_texts([now_s / size, then_s / size])
    return f"{now} {unit} instead of {then} {unit}"


def _part(rows: BoolArray) -> str:
    return f"{np.count_nonzero(rows):,} ({np.count_nonzero(rows) / rows.size:.0%})"


def main(task: str, *folders: str) -> None:
    """Print what the demo asks for."""
    runs = [(Path(folder).name, read_run(folder).jobs) for folder in folders]
    if task == "window":
        print(*window(runs[0][1]))
        return
    for name, run in runs[1:]:
        print("\n".join(gains(*runs[0], name, run)))


if __name__ == "__main__":
    main(*sys.argv[1:])
