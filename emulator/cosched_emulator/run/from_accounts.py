"""From accounts to results: the records and the workload of a run, rebuilt from the tables, and its run folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from operator import itemgetter
from typing import Any, Final, TypeVar

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.accounting.fact_rows import OF_RECORD, job_from_json
from cosched_emulator.manager.managed_job import SUSPENDED
from cosched_emulator.manager.record import TO_DISK, JobRecord, OnDisk, QuantumPart, QuantumRecord, Stay, Suspension
from cosched_emulator.results.figures.metrics import ALL_JOBS, TIME_SHARING, figures_of, summarise
from cosched_emulator.results.figures.run_energy import energy_of
from cosched_emulator.results.files.run_files import run_files_of
from cosched_emulator.results.files.run_folder import new_run_folder, write_files
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.workload.job import Workload
from cosched_hwmodel.units import ThreadMask
from cosched_plugin.protocol.messages import Run

Row = TypeVar("Row", bound=tuple[Any, ...])
_STAYS: Final = """SELECT job_id, stay, start_us, end_us, resumed, first_node, node_count, thread_mask, processes_per_node
    FROM allocations ORDER BY job_id, stay, run"""
_ON_DISK: Final = "SELECT job_id, start_us, end_us FROM preemptions ORDER BY job_id, preemption"
# What became of jobs of which some were suspended on their nodes: each change ends the one before.
_CHANGES: Final = f"""SELECT id, at_us, state, reason FROM changes WHERE what = 'job' AND id IN (
    SELECT id FROM changes WHERE what = 'job' AND state = '{SUSPENDED}' AND reason <> '{TO_DISK}') ORDER BY id, number"""
_QUANTA: Final = "SELECT number, start_us, end_us, turn, jobs, nodes, paired_nodes, parts FROM quanta ORDER BY id"
_JOBS: Final = f"""SELECT id, job, state, finished_step IS NOT NULL, reason, coalesce(slot, 0), {", ".join(OF_RECORD.values())}
    FROM jobs ORDER BY id"""


def records_of(accounting: Accounting, unfinished: Iterable[JobRecord] = ()) -> list[JobRecord]:
    """Return every job's record, in order of id.

    ``unfinished`` are the manager's records of jobs that have not ended. The accounts alone have only their finished stays, and
    not their work.
    """
    known = {record.job.spec.id: record for record in unfinished}
    stays = _by_job(accounting.select(_STAYS))
    disk = _by_job(accounting.select(_ON_DISK))
    changes = _by_job(accounting.select(_CHANGES))
    records = []
    for job_id, text, state, finished, reason, slot, *values in accounting.select(_JOBS):
        if job_id in known:
            records.append(known[job_id])
            continue
        job = job_from_json(text)
        record = JobRecord(
            job,
            state,
            None,
            tuple(_intervals(stays.get(job_id, ()))),
            0,
            job.spec.estimate_us,
            job.spec.limit_us,
            disk=tuple(OnDisk(begin_us, until_us) for _, begin_us, until_us in disk.get(job_id, ())),
            suspensions=tuple(_suspensions(changes.get(job_id, ()))),
        )
        if finished:
            record = record._replace(reason=reason, slot=slot, **dict(zip(OF_RECORD, values, strict=True)))
        records.append(record)
    return records


def quanta_of(accounting: Accounting) -> Iterator[QuantumRecord]:
    """Yield the quanta of a run with time sharing, in order of time."""
    for row in accounting.select(_QUANTA):
        yield QuantumRecord._make((*row[:-1], tuple([QuantumPart._make(part) for part in json.loads(row[-1])])))


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
    prepared: Prepared,
    policy: Mapping[str, Any],
    *,
    force: bool = False,
    unfinished: Iterable[JobRecord] = (),
) -> None:
    """Write the run folder from the accounts; see `records_of` for ``unfinished``. Raises InputError where it cannot be written."""
    records, machine = records_of(accounting, unfinished), prepared.nodes
    summary = summarise(records, machine)
    if prepared.quantum_us is not None:
        summary[TIME_SHARING] = figures_of(records, quanta_of(accounting), machine, prepared.quantum_us)
    energy = None
    if prepared.power is not None:
        energy = energy_of(records, machine, prepared.power, ALL_JOBS, summary.get(TIME_SHARING))
        summary["energy"] = energy.figures
    with (
        new_run_folder(out, force=force) as folder,
        run_files_of(records, out, machine, quanta_of(accounting)) as files,
    ):
        write_files(
            folder,
            files,
            machine,
            summary=summary,
            resolved_config={**prepared.scenario.as_dict(), "policy": policy},
            workload=workload_of(accounting, prepared.workload),
            timing={},
            seed=prepared.scenario.seed,
            energy=energy,
            power=prepared.power,
        )


def _by_job(rows: Iterator[Row]) -> dict[int, list[Row]]:
    return {job_id: list(some) for job_id, some in groupby(rows, key=itemgetter(0))}


def _suspensions(rows: Sequence[tuple[int, int, str, str]]) -> Iterator[Suspension]:
    for (_, at_us, state, reason), after in zip_longest(rows, rows[1:]):
        if state == SUSPENDED and reason != TO_DISK:
            yield Suspension(at_us, None if after is None else after[1])


def _intervals(rows: Sequence[tuple[Any, ...]]) -> Iterator[Stay]:
    for _, runs in groupby(rows, key=itemgetter(1)):
        some = list(runs)
        _, _, start_us, end_us, resumed, *_ = some[0]
        places = tuple(Run(first, count, ThreadMask(int(mask, 16)), ppn) for *_, first, count, mask, ppn in some)
        yield Stay(start_us, end_us, places, bool(resumed))
