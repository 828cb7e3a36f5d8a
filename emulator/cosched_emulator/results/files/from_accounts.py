"""From accounts to results: the records and the workload of a run, rebuilt from the tables, and its run folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.accounting.rows import job_from_json
from cosched_emulator.manager.record import Interval, JobRecord, OnDisk
from cosched_emulator.results.figures.metrics import ALL_JOBS, Selection, summarise
from cosched_emulator.results.files.folder import write_run
from cosched_emulator.workload.job import Workload
from cosched_hwmodel.units import ThreadMask
from cosched_plugin.protocol.messages import NodeClass, Run

Row = TypeVar("Row", bound=tuple[Any, ...])
_STAYS: Final = """SELECT job_id, stay, start_us, end_us, resumed, first_node, node_count, thread_mask, processes_per_node
    FROM allocations ORDER BY job_id, stay, run"""
_ON_DISK: Final = "SELECT job_id, start_us, end_us FROM preemptions ORDER BY job_id, preemption"
_JOBS: Final = """SELECT id, job, state, end_us, work_us, expected_us, granted_us, reason, suspended_us, finished_step IS NOT NULL
    FROM jobs ORDER BY id"""


def records_of(accounting: Accounting, unfinished: Iterable[JobRecord] = ()) -> list[JobRecord]:
    """Return every job's record, in order of id.

    ``unfinished`` are the manager's records of jobs that have not ended. The accounts alone have only their finished stays, and
    not their work.
    """
    known = {record.job.spec.id: record for record in unfinished}
    stays = _by_job(accounting.select(_STAYS))
    disk = _by_job(accounting.select(_ON_DISK))
    records = []
    for (
        job_id,
        text,
        state,
        end_us,
        work_us,
        expected_us,
        granted_us,
        reason,
        suspended_us,
        finished,
    ) in accounting.select(_JOBS):
        if job_id in known:
            records.append(known[job_id])
            continue
        job = job_from_json(text)
        records.append(
            JobRecord(
                job,
                state,
                end_us,
                tuple(_intervals(stays.get(job_id, ()))),
                work_us if finished else 0,
                expected_us if finished else job.spec.estimate_us,
                granted_us if finished else job.spec.limit_us,
                reason if finished else "",
                suspended_us if finished else 0,
                tuple(OnDisk(begin_us, until_us) for _, begin_us, until_us in disk.get(job_id, ())),
            )
        )
    return records


def workload_of(accounting: Accounting, source: Workload) -> Workload:
    """Return the final workload: all submitted jobs, with a note of the number that users submitted.

    ``source`` is the scenario's workload; it gives the origin, the size of the machine, and the other notes.
    """
    rows = accounting.select("SELECT job, owner <> '' FROM jobs ORDER BY submit_us, id")
    jobs = [(job_from_json(text), by_user) for text, by_user in rows]
    by_users = sum(by_user for _, by_user in jobs)
    notes = (f"{by_users} jobs were submitted by users",) if by_users else ()
    return source._replace(jobs=tuple(job for job, _ in jobs), notes=(*source.notes, *notes))


def export_run(
    accounting: Accounting,
    out: str | os.PathLike[str],
    machine: Sequence[NodeClass],
    source: Workload,
    *,
    resolved_config: Mapping[str, Any],
    timing: Mapping[str, Any],
    seed: int | None = None,
    selection: Selection = ALL_JOBS,
    force: bool = False,
    unfinished: Iterable[JobRecord] = (),
) -> Path:
    """Write the run folder from the accounts, and return its path; see `write_run`, and `records_of` for ``unfinished``."""
    records = records_of(accounting, unfinished)
    return write_run(
        out,
        records,
        machine,
        summary=summarise(records, machine, selection),
        resolved_config=resolved_config,
        workload=workload_of(accounting, source),
        timing=timing,
        seed=seed,
        force=force,
    )


def _by_job(rows: Iterator[Row]) -> dict[int, list[Row]]:
    return {job_id: list(some) for job_id, some in groupby(rows, key=itemgetter(0))}


def _intervals(rows: Sequence[tuple[Any, ...]]) -> Iterator[Interval]:
    for _, runs in groupby(rows, key=itemgetter(1)):
        some = list(runs)
        _, _, start_us, end_us, resumed, *_ = some[0]
        places = tuple(Run(first, count, ThreadMask(int(mask, 16)), ppn) for *_, first, count, mask, ppn in some)
        yield Interval(start_us, end_us, places, bool(resumed))
