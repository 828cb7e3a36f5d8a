"""The sentences under the table of ``scripts/demo``, worked out from the run folders.

Usage: demo_words.py gains BASE_DIR RUN_DIR...    what each run changes for the jobs, against the first one
       demo_words.py window RUN_DIR               begin and end, in hours, of the half day in which most jobs start
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from cosched_emulator.results.columns import JobColumns
from cosched_emulator.results.figures.comparison import number_texts, time_unit
from cosched_emulator.results.files.reader import read_run
from cosched_emulator.results.harm.harm import measure_harm
from cosched_emulator.results.harm.outcomes import Outcomes, outcomes
from cosched_hwmodel.units import SECOND_US

HOUR_S: Final = 3600
WINDOW_H: Final = 12


def gains(base_name: str, base: Outcomes, name: str, run: Outcomes) -> Iterator[str]:
    """Yield the lines on one run against the first one; both are of the same jobs."""
    harm = measure_harm(run, [base])
    figures = harm.figures
    yield f"{name} against {base_name}, {figures.jobs:,} jobs that completed in both:"
    if figures.response_mean_s is not None and figures.baseline_mean_s is not None:
        change = f" ({figures.response_mean_s / figures.baseline_mean_s - 1:+.0%})" if figures.baseline_mean_s else ""
        yield f"    mean response: {_instead(figures.response_mean_s, figures.baseline_mean_s)}{change}"
        share = f"{figures.later:,} ({figures.later / figures.jobs:.0%})"
        yield f"    jobs that respond later, by more than {harm.rule.factor - 1:.0%} and {harm.rule.grace_s:.0f} s: {share}"
        lost, gained = number_texts([figures.lost_s / HOUR_S, figures.gained_s / HOUR_S])
        yield f"    all responses added up: {gained} h gained, {lost} h lost"
    for worst in harm.losers(1):
        response = _instead(worst.response_s, worst.baseline_s)
        yield f"    job {worst.id} loses most: its response is {response} ({worst.cause})"
    killed = [int(np.count_nonzero(jobs.killed & jobs.counted)) for jobs in (run, base)]
    if any(killed):
        yield f"    killed at their limits: {killed[0]:,} jobs; under {base_name}: {killed[1]:,}"


def overload(load: float) -> str:
    """Return what an offered load above 1 means for these figures."""
    return (
        f"The jobs ask for {load:.0%} of what the machine can do without sharing: the queue grows as long as jobs arrive, and so do"
        " waiting times."
    )


def window(jobs: JobColumns) -> tuple[int, int]:
    """Return the first and the last hour of the half day in which most jobs start."""
    starts_h = np.sort(jobs.start_us[jobs.started]) / (HOUR_S * SECOND_US)
    hours = np.unique(starts_h.astype(np.int64))
    counts = np.searchsorted(starts_h, hours + WINDOW_H) - np.searchsorted(starts_h, hours)
    begin_h = int(hours[np.argmax(counts)]) if hours.size else 0
    return begin_h, begin_h + WINDOW_H


def _instead(now_s: float, then_s: float) -> str:
    size, unit = time_unit(max(now_s, then_s))
    now, then = number_texts([now_s / size, then_s / size])
    return f"{now} {unit} instead of {then} {unit}"


def main(task: str, *folders: str) -> None:
    """Print what the demo asks for."""
    runs = [(Path(folder).name, read_run(folder)) for folder in folders]
    if task == "window":
        print(*window(runs[0][1].jobs))
        return
    found = [(name, outcomes(run.jobs, run.machine, run.selection)) for name, run in runs]
    for name, run in found[1:]:
        print("\n".join(gains(*found[0], name, run)))
    load = runs[0][1].summary["machine"]["offered_load"]
    if load is not None and load > 1:
        print(overload(load))
    print(f"The jobs that lose: cosched-emulator losers {folders[-1]} --baseline {folders[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
