"""Which jobs completed in several run folders: figures of different jobs cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from cosched_emulator.results.columns import IntArray, int_array
from cosched_emulator.results.figures.comparison import COMMON, Figure, value_of
from cosched_emulator.results.figures.metrics import Summary, population, population_figures
from cosched_emulator.results.files import jobs_csv
from cosched_emulator.results.files.reader import csv_rows, read_run
from cosched_emulator.results.files.run_files import JOBS

_COMPLETED = Figure("", ("states", "COMPLETED"))
_JOBS = Figure("", ("selection", "jobs"))  # with those of the warm-up


def same_jobs_completed(folders: Sequence[Path], summaries: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether the same jobs count and completed in all runs; reads the jobs only where the summaries do not tell.

    Raises InputError for a file that cannot be read.
    """
    if any(summary["selection"] != summaries[0]["selection"] for summary in summaries):
        return False
    completed = [value_of(summary, _COMPLETED, "finished") for summary in summaries]
    if len(set(completed)) > 1:
        return False
    if completed[0] == value_of(summaries[0], _JOBS, "finished"):
        return True
    first, *others = map(_completed, folders)
    return all(np.array_equal(first, other) for other in others)


def with_common_jobs(folders: Sequence[Path], summaries: Sequence[Summary]) -> list[Summary]:
    """Return the summaries with the population `COMMON`: the jobs that count and completed in every run.

    The runs are of the same workload. Raises InputError for a file that cannot be read.
    """
    runs = [read_run(folder) for folder in folders]
    finished = [population(run.jobs, "finished", run.selection) for run in runs]
    common = reduce(np.intersect1d, [run.jobs.id[rows] for run, rows in zip(runs, finished, strict=True)])
    return [
        {**summary, COMMON: population_figures(run.jobs, np.isin(run.jobs.id, common))}
        for run, summary in zip(runs, summaries, strict=True)
    ]


def _completed(folder: Path) -> IntArray:
    """Return the ids of all jobs that completed, in ascending order."""
    rows = csv_rows(folder / JOBS, jobs_csv.COLUMNS)
    return np.sort(int_array(row.count("job_id") for row in rows if row.text("success") == "1"))
