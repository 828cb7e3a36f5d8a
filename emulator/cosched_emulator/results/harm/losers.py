"""The jobs that lose most, and what the records tell of the cause."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosched_emulator.results.columns import BoolArray, IntArray
from cosched_emulator.results.harm.figures import PairedJobs
from cosched_hwmodel.units import SECOND_US

LATER_START, SLOWER_RUN, ON_DISK = "later start", "slower run", "on disk"
KILLED = "killed at the limit"
_LEAST_SHARE = 10  # a part is named as a cause if it is at least a tenth of the loss


class Loser(NamedTuple):
    """A job that responds later than in the baseline. Times in seconds."""

    id: int
    job_class: str
    size: int  # hardware threads asked for
    submit_s: float
    response_s: float
    baseline_s: float  # response in the first baseline
    lost_s: float  # the difference
    ratio: float | None  # response_s / baseline_s; None: the latter is 0
    wait_lost_s: float  # part of the loss: longer until its last start
    nodes_lost_s: float  # longer on its nodes: a co-located job, a slower node, suspension in place
    disk_lost_s: float  # longer off its nodes since its last start: suspended to disk
    later: bool  # whether it counts as later than in the first baseline
    later_than_all: bool | None  # than in every baseline; None: there is one, or it did not complete in all of them
    cause: str  # the parts of at least a tenth of the loss; empty: it lost nothing


def worst_first(jobs: PairedJobs) -> IntArray:
    """Return the rows in order of seconds lost, most first, then of id."""
    return np.lexsort((jobs.id, -jobs.lost_us))


def losers_of(jobs: PairedJobs, class_names: tuple[str, ...], rows: IntArray) -> list[Loser]:
    """Return some rows of ``jobs`` as records, with the cause."""
    lost_us = jobs.lost_us
    causes = {
        LATER_START: _is_cause(jobs.wait_lost_us, lost_us),
        SLOWER_RUN: _is_cause(jobs.nodes_lost_us, lost_us),
        ON_DISK: _is_cause(jobs.disk_lost_us, lost_us),
    }
    return [
        Loser(
            id=int(jobs.id[row]),
            job_class=class_names[int(jobs.kind[row])],
            size=int(jobs.size[row]),
            submit_s=_seconds(jobs.submit_us, row),
            response_s=_seconds(jobs.response_us, row),
            baseline_s=_seconds(jobs.baseline_us, row),
            lost_s=_seconds(lost_us, row),
            ratio=float(jobs.response_us[row] / jobs.baseline_us[row]) if jobs.baseline_us[row] else None,
            wait_lost_s=_seconds(jobs.wait_lost_us, row),
            nodes_lost_s=_seconds(jobs.nodes_lost_us, row),
            disk_lost_s=_seconds(jobs.disk_lost_us, row),
            later=bool(jobs.later[row]),
            later_than_all=bool(jobs.later_than_all[row]) if jobs.in_all[row] else None,
            cause=", ".join([name for name, where in causes.items() if where[row]]),
        )
        for row in rows.tolist()
    ]


def _is_cause(part_us: IntArray, lost_us: IntArray) -> BoolArray:
    return (lost_us > 0) & (_LEAST_SHARE * part_us >= lost_us)


def _seconds(column_us: IntArray, row: int) -> float:
    return float(column_us[row] / SECOND_US)
