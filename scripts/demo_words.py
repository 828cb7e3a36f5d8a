"""The sentences under the table of ``scripts/demo``, worked out from the run folders.

Usage: demo_words.py gains BASE_DIR RUN_DIR...    what each run changes for the jobs, against the first one
       demo_words.py turns RUN_DIR...             what happened in the quanta of runs in which jobs take turns
       demo_words.py quanta RUN_DIR               begin and end, in hours, of the 40 s with the most pairs
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from cosched_emulator.results.compared_runs import compare_folders
from cosched_emulator.results.figures.comparison import number_texts, time_unit
from cosched_emulator.results.files.run_reader import read_quanta, read_run
from cosched_emulator.results.harm import Outcomes, measure_harm, outcomes
from cosched_emulator.results.record_columns import QuantaColumns
from cosched_hwmodel.units import SECOND_US

HOUR_S: Final = 3600
QUANTA_US: Final = 40 * SECOND_US


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


def turns(name: str, summary: Mapping[str, Any]) -> str:
    """Return the line on the quanta of one run."""
    told = summary["time_sharing"]
    paired = f"{told['quanta_paired'] / told['quanta']:.0%} of them with a pair" if told["quanta"] else "no pairs"
    return (
        f"    {name + ':':<8} {told['quanta']:,} quanta, {paired}; {told['mean_jobs']:.1f} jobs at a time, at most {told['max_jobs']}; "
        f"{told['jobs_at_last_submission']} left at the last submission"
    )


def quanta_window(quanta: QuantaColumns) -> tuple[float, float]:
    """Return the begin and the end, in hours, of the 40 s in which jobs ran in the most pairs."""
    paired_us = np.sort(quanta.start_us[quanta.paired])
    begins_us = paired_us if paired_us.size else quanta.start_us[:1]
    counts = np.searchsorted(paired_us, begins_us + QUANTA_US) - np.searchsorted(paired_us, begins_us)
    begin_us = int(begins_us[np.argmax(counts)])
    return begin_us / SECOND_US / HOUR_S, (begin_us + QUANTA_US) / SECOND_US / HOUR_S


def _instead(now_s: float, then_s: float) -> str:
    size, unit = time_unit(max(now_s, then_s))
    now, then = number_texts([now_s / size, then_s / size])
    return f"{now} {unit} instead of {then} {unit}"


def main(task: str, *folders: str) -> None:
    """Print what the demo asks for."""
    runs = [(Path(folder).name, read_run(folder)) for folder in folders]
    if task == "quanta":
        quanta = read_quanta(folders[0])
        assert quanta is not None  # jobs take turns
        print(*quanta_window(quanta))
        return
    if task == "turns":
        print("Jobs take turns in quanta of a second:")
        print("\n".join([turns(name, run.summary) for name, run in runs]))
        return
    found = [(name, outcomes(run.jobs, run.machine, run.selection)) for name, run in runs]
    print(
        compare_folders(
            [Path(folder) for folder in folders], [name for name, _ in runs], "finished", common=False
        ).verdict()
    )
    for name, run in found[1:]:
        print("\n".join(gains(*found[0], name, run)))
    load = runs[0][1].summary["machine"]["offered_load"]
    if load is not None and load > 1:
        print(overload(load))
    print(f"The jobs that lose: cosched-emulator losers {folders[-1]} --baseline {folders[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
