"""Jobs that have ended, or never will, in columns: some hundreds at a time, what the figures and the files of a run are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_emulator.manager.record import JobRecord, Stay
from cosched_emulator.workload.job import NO_TERMS
from cosched_plugin.protocol.messages import JobSpec, Run

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Runs: TypeAlias = tuple[Run, ...]

UNLIMITED: Final = -1  # as `EndedJobs.limit_us`


class StayRows(NamedTuple):
    """The stays of jobs, one row per run of neighbouring nodes, in order of jobs and time."""

    job: Sequence[int]  # row in `EndedJobs`
    number: Sequence[int]  # which of the job's stays, from 0
    start_us: Sequence[int]
    end_us: Sequence[int]
    first_node: Sequence[int]  # like the next three, fields of a run
    node_count: Sequence[int]
    mask: Sequence[int]
    processes: Sequence[int]


NO_STAYS = StayRows(*[()] * len(StayRows._fields))


class EndedJobs(NamedTuple):
    """One row per job. Times are int64 microseconds, 0 where a job was not started or has not ended."""

    id: IntArray
    submit_us: IntArray
    start_us: IntArray  # the last one
    wall_us: IntArray  # on its nodes since then
    held_us: IntArray  # length of all stays
    left_us: IntArray  # when it last left its nodes, or the disk after them
    end_us: IntArray
    work_us: IntArray  # work done since the last start
    run_us: IntArray  # run time alone
    estimate_us: IntArray  # the user's
    expected_us: IntArray  # run time expected at its last start, or as last revised
    limit_us: IntArray  # limit granted, likewise; below 0: none
    asked: IntArray  # requested hardware threads
    threads: IntArray  # held at the last start
    nodes: IntArray  # likewise
    started: BoolArray
    ended: BoolArray
    state: Sequence[str]
    name: Sequence[str]
    user: Sequence[str]
    source_id: Sequence[int]
    group: Sequence[int]
    queue: Sequence[int]
    partition: Sequence[int]
    runs: Sequence[Runs]  # at the last start; empty: not started
    stays: StayRows  # of all starts
    # By row, jobs of which there is more to say: they stayed more or less often than once, for example
    more: Mapping[int, JobRecord] = {}


def ended_jobs(records: Sequence[JobRecord]) -> EndedJobs:
    """Return jobs in columns, in the order of their records."""
    jobs = [record.job for record in records]
    spec = dict(zip(JobSpec._fields, zip(*[job.spec for job in jobs], strict=True), strict=False)) or _NO_SPECS
    all_stays, last = [record.stays for record in records], [record.last_stays for record in records]
    runs = [stays[0].runs if stays else () for stays in last]
    started = np.array([bool(stays) for stays in last], dtype=np.bool_)
    left_us = [
        record.left_us if stays and record.present is None else 0 for record, stays in zip(records, last, strict=True)
    ]
    return EndedJobs(
        id=_ints(spec["id"]),
        submit_us=_ints(spec["submit_us"]),
        start_us=_ints([stays[0].start_us if stays else 0 for stays in last]),
        wall_us=_ints([_span_us(stays) for stays in last]),
        held_us=_ints([_span_us(stays) for stays in all_stays]),
        left_us=_ints(left_us),
        end_us=_ints([record.end_us or 0 for record in records]),
        work_us=np.where(started, _ints([record.work_us for record in records]), 0),
        run_us=_ints([job.run_us for job in jobs]),
        estimate_us=_ints(spec["estimate_us"]),
        expected_us=_ints([record.estimate_us for record in records]),
        limit_us=_ints([UNLIMITED if record.limit_us is None else record.limit_us for record in records]),
        asked=_ints(spec["processes"]) * _ints(spec["threads_per_process"]),
        threads=_ints([sum([count * mask.bit_count() for _, count, mask, _ in its]) for its in runs]),
        nodes=_ints([sum([count for _, count, _, _ in its]) for its in runs]),
        started=started,
        ended=np.array([record.end_us is not None for record in records], dtype=np.bool_),
        state=[record.state for record in records],
        name=spec["name"],
        user=spec["user"],
        source_id=[job.source_id for job in jobs],
        group=[job.group for job in jobs],
        queue=[job.queue for job in jobs],
        partition=[job.partition for job in jobs],
        runs=runs,
        stays=_stay_rows(all_stays),
        more={row: record for row, record in enumerate(records) if _says_more(record)},
    )


_NO_SPECS: Final[Mapping[str, tuple[()]]] = dict.fromkeys(JobSpec._fields, ())


def _says_more(record: JobRecord) -> bool:
    job, spec = record.job, record.job.spec
    return (
        len(record.stays) != 1
        or record.present is not None
        or record.end_us != record.intervals[0].end_us
        or bool(record.disk or record.suspensions or record.reason or spec.resources or spec.licences)
        or record.cpu_us is not None
        or job.terms != NO_TERMS
    )


def _stay_rows(stays: Sequence[Sequence[Stay]]) -> StayRows:
    rows = [
        (job, number, stay.start_us, stay.end_us, *run)
        for job, its in enumerate(stays)
        for number, stay in enumerate(its)
        for run in stay.runs
    ]
    return StayRows(*zip(*rows, strict=True)) if rows else NO_STAYS


def _span_us(stays: Sequence[Stay]) -> int:
    if len(stays) == 1:  # nearly every job: a comprehension is a call
        return stays[0][1] - stays[0][0]
    return sum([stay.end_us - stay.start_us for stay in stays])


def _ints(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
