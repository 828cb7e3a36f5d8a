"""How far a run that takes starts and places from a log is from that record, in numbers and words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.results.record_columns import RecordColumns, StayColumns
from cosched_hwmodel.units import SECOND_US, NodeSet

# By job of the run: when it started, and on which nodes (None: the record does not say); None: it never started.
Schedule: TypeAlias = Mapping[int, tuple[int, NodeSet | None] | None]
RECORD: Final = "record"  # in a run's summary
_HOUR_US: Final = 3600 * SECOND_US


def replay_figures(schedule: Schedule, jobs: RecordColumns, stays: StayColumns) -> dict[str, int | float]:
    """Return how far a run is from the record: numbers of jobs, and hours of all of them together.

    A job's recorded end is its recorded start and the time that it runs alone.
    """
    ran = [
        schedule.get(job_id) if started else None
        for job_id, started in zip(jobs.id.tolist(), jobs.started.tolist(), strict=True)
    ]
    rows = np.array([row for row, each in enumerate(ran) if each is not None], dtype=np.int64)
    recorded = [each for each in ran if each is not None]
    at_us = np.array([each[0] for each in recorded], dtype=np.int64)
    later_us = jobs.start_us[rows] - at_us
    longer_us = np.where(jobs.ended[rows], jobs.end_us[rows] - at_us - jobs.run_us[rows], 0)
    sooner, late, same = later_us < 0, later_us > 0, later_us == 0
    places = _places(stays)
    elsewhere = sum(
        nodes is not None and places.get(row) != nodes for row, (_, nodes) in zip(rows.tolist(), recorded, strict=True)
    )
    return {
        "jobs": len(rows),
        "unknown": len(jobs) - len(schedule),
        "later": int(late.sum()),
        "later_h": _hours(later_us[late]),
        "elsewhere": elsewhere,
        "sooner": int(sooner.sum()),
        "sooner_won_h": _hours(-longer_us[sooner]),
        "longer": int((longer_us[same] > 0).sum()),
        "longer_h": _hours(longer_us[same]),
    }


def _places(stays: StayColumns) -> dict[int, NodeSet]:
    """Return the nodes that each job has held, by its row."""
    found: dict[int, NodeSet] = {}
    for row, first, count in zip(stays.job.tolist(), stays.first_node.tolist(), stays.node_count.tolist(), strict=True):
        found[row] = NodeSet(found.get(row, 0) | ((1 << count) - 1) << first)
    return found


def _hours(spans_us: NDArray[np.int64]) -> float:
    return round(float(spans_us.sum()) / _HOUR_US, 3)


def replay_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a summary says of its record: what guests have won and cost, then what is not as recorded; nothing of other runs."""
    found = summary.get(RECORD)
    if found is None:
        return
    if found["sooner"]:
        yield (
            f"{found['sooner']:,} jobs began sooner than recorded, beside others, and end {found['sooner_won_h']:,.1f} h sooner; "
            f"{found['longer']:,} that began as recorded end {found['longer_h']:,.1f} h later in all"
        )
    if found["later"] or found["elsewhere"] or found["unknown"]:
        yield (
            f"not as recorded: of {found['jobs']:,} jobs {found['later']:,} began later, {found['later_h']:,.1f} h in all, for want of "
            f"room; {found['elsewhere']:,} ran on other nodes; {found['unknown']:,} without a recorded start did not run"
        )
