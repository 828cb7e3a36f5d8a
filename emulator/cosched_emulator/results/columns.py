"""Job records as numpy columns, built once and shared by metrics and plots.

Rows of `JobColumns` are in order of (submission, id), whatever the order of the records: sums of floats depend on it.
A requeued job starts anew, so ``start_us`` and ``wall_us`` are as of its *last* start; what it lost before is waiting. A preempted
job, which was suspended to disk, has a stay on its nodes before and one after, all of one start; on disk it neither waits nor holds
anything but swap space.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_emulator.results.record import JobRecord

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DiskColumns:
    """One row per time that a job was on disk."""

    job: IntArray  # row in `JobColumns`
    start_us: IntArray
    end_us: IntArray  # 0 where it has none
    ended: BoolArray
    swap_mb: IntArray  # taken on all its nodes

    def __len__(self) -> int:
        return self.job.size


@dataclass(frozen=True, slots=True)
class JobColumns:
    """One row per job. Times are int64 microseconds; 0 stands where ``started`` or ``ended`` says there is none."""

    id: IntArray
    submit_us: IntArray
    start_us: IntArray  # the last one
    wall_us: IntArray  # on its nodes since then
    held_us: IntArray  # length of all stays
    end_us: IntArray
    work_us: IntArray  # work done since the last start
    run_us: IntArray  # run time alone
    estimate_us: IntArray  # the user's
    threads: IntArray  # hardware threads asked for
    nodes: IntArray  # nodes held in the last stay
    started: BoolArray
    ended: BoolArray
    state: tuple[str, ...]
    disk: DiskColumns

    def __len__(self) -> int:
        return len(self.state)


@dataclass(frozen=True, slots=True)
class StayColumns:
    """One row per run of neighbouring nodes of each stay of each job."""

    job: IntArray  # row in `JobColumns`
    start_us: IntArray
    end_us: IntArray
    first_node: IntArray
    node_count: IntArray
    threads: IntArray  # threads held on each node
    mask: tuple[int, ...]  # which ones; may be wider than 64 bits

    def __len__(self) -> int:
        return len(self.mask)


def int_array(values: Iterable[int]) -> IntArray:
    """Return int64 ``values``."""
    return np.fromiter(values, dtype=np.int64)


def submission_order(records: Sequence[JobRecord]) -> list[JobRecord]:
    """Return the records by (submission, id)."""
    return sorted(records, key=lambda record: (record.job.spec.submit_us, record.job.spec.id))


def job_columns(records: Sequence[JobRecord]) -> JobColumns:
    """Return the columns of ``records``, in order of submission."""
    rows = submission_order(records)
    specs = [record.job.spec for record in rows]
    last = [record.last_stays for record in rows]
    return JobColumns(
        id=int_array(spec.id for spec in specs),
        submit_us=int_array(spec.submit_us for spec in specs),
        start_us=int_array(stays[0].start_us if stays else 0 for stays in last),
        wall_us=int_array(sum(stay.end_us - stay.start_us for stay in stays) for stays in last),
        held_us=int_array(sum(stay.end_us - stay.start_us for stay in record.intervals) for record in rows),
        end_us=int_array(0 if record.end_us is None else record.end_us for record in rows),
        work_us=int_array(record.work_us if record.intervals else 0 for record in rows),
        run_us=int_array(record.job.run_us for record in rows),
        estimate_us=int_array(spec.estimate_us for spec in specs),
        threads=int_array(spec.processes * spec.threads_per_process for spec in specs),
        nodes=int_array(sum(run[1] for run in stays[0].runs) if stays else 0 for stays in last),
        started=np.array([bool(stays) for stays in last], dtype=np.bool_),
        ended=np.array([record.end_us is not None for record in rows], dtype=np.bool_),
        state=tuple(record.state for record in rows),
        disk=disk_of_rows(
            [
                (index, time.start_us, time.end_us, record.swap_mb)
                for index, record in enumerate(rows)
                for time in record.disk
            ]
        ),
    )


def stay_columns(records: Sequence[JobRecord]) -> StayColumns:
    """Return every stay of every job; ``job`` counts rows of `job_columns` of the same records."""
    rows = [
        (index, stay.start_us, stay.end_us, first, count, mask.bit_count(), mask)
        for index, record in enumerate(submission_order(records))
        for stay in record.intervals
        for first, count, mask, _processes in stay.runs
    ]
    return stays_of_rows(rows)


def distinct_stays(stays: StayColumns) -> tuple[IntArray, IntArray, IntArray]:
    """Return (job, start_us, end_us) of every stay once, however many runs of nodes it has."""
    keys = np.unique(np.stack([stays.job, stays.start_us, stays.end_us], axis=1), axis=0)
    return keys[:, 0], keys[:, 1], keys[:, 2]


def disk_of_rows(rows: Sequence[tuple[int, int, int | None, int]]) -> DiskColumns:
    """Return columns of rows (job, start_us, end_us or None, swap_mb)."""
    return DiskColumns(
        job=int_array(row[0] for row in rows),
        start_us=int_array(row[1] for row in rows),
        end_us=int_array(row[2] or 0 for row in rows),
        ended=np.array([row[2] is not None for row in rows], dtype=np.bool_),
        swap_mb=int_array(row[3] for row in rows),
    )


def stays_of_rows(rows: Sequence[tuple[int, int, int, int, int, int, int]]) -> StayColumns:
    """Return columns of rows (job, start_us, end_us, first_node, node_count, threads, mask)."""
    return StayColumns(
        job=int_array(row[0] for row in rows),
        start_us=int_array(row[1] for row in rows),
        end_us=int_array(row[2] for row in rows),
        first_node=int_array(row[3] for row in rows),
        node_count=int_array(row[4] for row in rows),
        threads=int_array(row[5] for row in rows),
        mask=tuple(row[6] for row in rows),
    )
