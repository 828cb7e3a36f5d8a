"""The site where a window begins: which jobs run and which wait there, in one run of the whole log under the present policy.

A window that starts on an empty machine has too short a queue: over ten windows of the log of CTC's SP2 EASY's mean wait was 171
minutes, over the same jobs of the whole log 219, and in windows that start from that run 219. From the jobs that ran and waited in the
record it was 358: the present policy, as it is modelled, does not have so long a queue. A run also serves logs without recorded waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.studies.study_result import StudyResult
from cosched_emulator.whatif.measures import RESPONSES, WAITS
from cosched_emulator.workload.jobs_in_columns import Jobs, Numbers
from cosched_hwmodel.units import SECOND_US

WHOLE: Final = "whole"  # the log as a workload of the study
_OF_NODE: Final = ("fail-node", "return-node")


class WholeRun(NamedTuple):
    """What became of each job of the log, in seconds from its submission; NaN: it did not start, or end."""

    waits_s: NDArray[np.float64]
    responses_s: NDArray[np.float64]


def whole_run(result: StudyResult) -> WholeRun | None:
    """Return the run of the whole log; None if it failed."""
    rows = [row for row in result.rows if row["workload"] == WHOLE]
    return WholeRun(*(seconds_of(rows[0], column) for column in (WAITS, RESPONSES))) if rows else None


def seconds_of(row: Any, column: str) -> NDArray[np.float64]:
    """Return a figure of each job that counts; NaN where it does not exist."""
    return np.array(row.get(column) or (), dtype=np.float64)


def warm_window(jobs: Jobs, first: int, count: int, whole: WholeRun | None) -> tuple[Jobs, int]:
    """Return ``count`` jobs of a log from row ``first`` on, behind those that run and wait there, and the number of the latter.

    Running jobs come a second before the others, with what is left of their run times and estimates: every policy starts them before
    it decides anything.
    """
    if whole is None or first == 0:
        return jobs[first : first + count], 0
    submit_us, run_us, estimate_us = (
        column.array[: first + count].astype(np.int64) for column in (jobs.submit_us, jobs.run_us, jobs.estimate_us)
    )
    now_us = int(submit_us[first])
    start_us, end_us = (submit_us[:first] + each[:first] * SECOND_US for each in (whole.waits_s, whole.responses_s))
    running = np.flatnonzero((start_us <= now_us) & (end_us > now_us))
    running = running[np.argsort(start_us[running], kind="stable")]
    waiting = np.flatnonzero(start_us > now_us)
    gone_us = now_us - SECOND_US - start_us[running]
    left = 1 - gone_us / np.maximum(end_us[running] - start_us[running], 1)  # of a job that others slow down, too
    within = run_us[running] <= estimate_us[running]
    run_us[running] = np.maximum(np.ceil(run_us[running] * left), 1)
    estimate_us[running] = np.maximum(estimate_us[running] - gone_us, np.where(within, run_us[running], 1))
    submit_us[running], submit_us[waiting] = now_us - SECOND_US, now_us
    rows = np.concatenate([running, waiting, np.arange(first, first + count)])
    columns = {"submit_us": submit_us, "run_us": run_us, "estimate_us": estimate_us}
    warm = jobs.select(rows).having(**{name: Numbers(values[rows]) for name, values in columns.items()})
    return warm, len(running) + len(waiting)


def script_of_window(
    script: Iterable[Mapping[str, Any]], begin_s: float, first: int, jobs: int, before: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield the entries of a script that concern ``jobs`` jobs after the ``first`` ones, of a window that begins at ``begin_s``.

    ``before``: the jobs that run or wait when it begins, which come first in it.

    What is over by then is left out, and so is what concerns other jobs; what lasts then begins with the window. What begins after
    the last submission stays: jobs wait for it, or are kept from running into it.
    """
    down: dict[int, dict[str, Any]] = {}
    for entry in sorted(script, key=lambda entry: float(entry["at_s"])):
        at_s, until_s, job = entry["at_s"] - begin_s, entry.get("until_s"), entry.get("job")
        shifted = {**entry, "at_s": max(0.0, at_s)}
        if job is not None:
            if at_s >= 0 and first < job <= first + jobs:
                yield {**shifted, "job": job - first + before}
        elif entry["do"] in _OF_NODE:
            if at_s >= 0:
                yield shifted
            elif entry["do"] == "fail-node":
                down[entry["node"]] = shifted
            else:
                down.pop(entry["node"], None)
        elif until_s is None or until_s > begin_s:
            yield shifted if until_s is None else {**shifted, "until_s": until_s - begin_s}
    yield from down.values()
