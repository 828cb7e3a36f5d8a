"""Pairs the jobs of a run with the same jobs of a baseline, by id, and counts those without a response in both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.columns import BoolArray, IntArray
from cosched_emulator.results.harm.outcomes import Outcomes


class Unpaired(NamedTuple):
    """The jobs that did not complete in both runs, by what became of them; only jobs that count."""

    killed: int  # completed in the baseline, killed at the limit in the run
    not_completed: int  # completed in the baseline; in the run it failed, was cancelled or refused, or never ended
    missing: int  # in the baseline, not in the run
    baseline_killed: int  # completed in the run, killed at the limit in the baseline
    baseline_not_completed: int  # completed in the run, not in the baseline for another reason
    baseline_missing: int  # in the run, not in the baseline
    neither: int  # in both, completed in neither


def rows_in(run: Outcomes, baseline: Outcomes) -> IntArray:
    """Return the row in ``baseline`` of each job of ``run``, -1 if it is not there.

    Raises ConfigurationError if no job is in both, or if a job in both differs in submission or size: another workload.
    """
    order = np.argsort(baseline.id, kind="stable")
    place = np.searchsorted(baseline.id, run.id, sorter=order)
    rows = order[np.minimum(place, len(baseline) - 1)] if len(baseline) else np.zeros(len(run), dtype=np.int64)
    found = baseline.id[rows] == run.id if len(baseline) else np.zeros(len(run), dtype=np.bool_)
    here, there = np.flatnonzero(found), rows[found]
    if len(run) and not here.size:
        raise ConfigurationError("baseline", "a run of the same jobs", "one without any of them")
    differs = (run.submit_us[here] != baseline.submit_us[there]) | (run.size[here] != baseline.size[there])
    if differs.any():
        job = int(run.id[here[np.argmax(differs)]])
        got = f"another job {job}: it was submitted at another time, or asks for another number of processors"
        raise ConfigurationError("baseline", "a run of the same jobs", got)
    return np.where(found, rows, -1)


def completed_in(baseline: Outcomes, rows: IntArray) -> BoolArray:
    """Return for each of ``rows``, which may be -1, whether its job completed."""
    return _at(baseline.completed, rows)


def count_unpaired(run: Outcomes, baseline: Outcomes, rows: IntArray) -> Unpaired:
    """Return the numbers of jobs that did not complete in both; ``rows`` is of `rows_in`."""
    there = rows >= 0
    done, base_done = run.completed, completed_in(baseline, rows)
    absent = ~np.isin(baseline.id, run.id)

    def count(jobs: BoolArray) -> int:
        return int(np.count_nonzero(jobs & run.counted))

    base_killed = _at(baseline.killed, rows)
    return Unpaired(
        killed=count(base_done & ~done & run.killed),
        not_completed=count(base_done & ~done & ~run.killed),
        missing=int(np.count_nonzero(absent & baseline.counted)),
        baseline_killed=count(done & base_killed),
        baseline_not_completed=count(done & there & ~base_done & ~base_killed),
        baseline_missing=count(~there),
        neither=count(there & ~done & ~base_done),
    )


def _at(column: BoolArray, rows: IntArray) -> BoolArray:
    """Return the values in ``rows``, false for -1."""
    found = np.zeros(rows.size, dtype=np.bool_)
    found[rows >= 0] = column[rows[rows >= 0]]
    return found
