"""One run of a prepared scenario: simulation, accounts, summary."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from cosched_emulator.couplings.link import Link
from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.changes import JobFinished
from cosched_emulator.manager.diary import Diary
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.manager.time_sharing.record import QuantumRecord
from cosched_emulator.nodeos.kernel.counters import Counters
from cosched_emulator.results.columns import ColumnBuilder, JobColumns, StayColumns
from cosched_emulator.results.figures.metrics import summarise_columns
from cosched_emulator.results.figures.time_sharing import TIME_SHARING
from cosched_emulator.run.build import build_agenda, build_manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.run.record_buffer import RecordBuffer
from cosched_emulator.run.shared_time import SharedTime
from cosched_emulator.workload.job import CutRuns
from cosched_plugin.common.process import freeze_heap

if TYPE_CHECKING:
    from cosched_emulator.accounting.accounts import Accounting
    from cosched_emulator.results.energy.figures import RunEnergy
    from cosched_emulator.results.files.run_files import RunFiles
    from cosched_emulator.run.energy_use import EnergyUse

Progress = Callable[[int], None]


class Finished(NamedTuple):
    """A run that is over."""

    prepared: Prepared
    records: list[JobRecord]  # in order of id; empty if they were written to files as they came
    summary: dict[str, Any]
    wall_s: float
    batches: int
    refused: int  # actions of the scheduler that could not be carried out
    unfinished: list[int]  # jobs that never ended, although nothing was due any more
    jobs: JobColumns
    stays: StayColumns
    quanta: list[QuantumRecord]  # of time sharing, in order of time; likewise
    simulated: float | None = (
        None  # share of the time of nodes that was simulated burst by burst; None: no time sharing
    )
    counters: Counters | None = None  # of what happened on these nodes meanwhile; None: nothing was simulated so
    energy: RunEnergy | None = None  # None: the watts of the nodes are not known


def run(
    prepared: Prepared,
    link: Link,
    progress: Progress | None = None,
    accounting: Accounting | None = None,
    files: RunFiles | None = None,
) -> Finished:
    """Simulate and summarise, and keep accounts if requested.

    With ``files`` the records of jobs are written there as they end, and not kept in memory. Raises LinkError if the scheduler is
    lost, InvariantError for a defect of the emulator.
    """
    manager = build_manager(prepared)
    agenda = build_agenda(prepared, manager)
    committed = None
    if accounting is not None:
        manager.diary.kept = True
        committed = partial(_record_changes, accounting, manager.diary)
    records: list[JobRecord] = []
    builder = ColumnBuilder()
    buffer = RecordBuffer(builder.add, records.append if files is None else files.add)
    shared = None if manager.processes is None else SharedTime(manager.processes.rotating, files)
    if shared is not None:
        buffer = RecordBuffer(builder.add, shared.totals.add_job, records.append if files is None else files.add)
    use = _energy_use(prepared, manager)
    simulation = Simulation(manager, agenda, link, progress=progress, committed=committed, ended=buffer.add)
    started = time.perf_counter()
    with freeze_heap(cycles=manager.processes is not None):  # processes and jobs refer to each other
        left = simulation.run()
    if accounting is not None:
        _complete_accounts(accounting, manager, left)
    wall_s = time.perf_counter() - started - buffer.spent_s
    for record in left:
        buffer.add(record)
    buffer.flush()
    records.sort(key=_job_id)
    jobs, stays = builder.columns()
    summary = summarise_columns(jobs, stays, prepared.nodes, prepared.selection)
    if shared is not None:
        summary[TIME_SHARING] = shared.figures(jobs, stays, prepared.nodes, prepared.selection)
    energy = None
    if use is not None:
        energy = use.energy(jobs, stays, prepared.selection, summary)
        summary["energy"] = energy.figures
    if prepared.workload.cut is not None:
        summary["cut_runs"] = _cut_figures(prepared.workload.cut, summary["machine"]["offered_load"])
    unfinished = [_job_id(record) for record in left]
    quanta = [] if shared is None else shared.quanta
    done = (simulation.batches, manager.refused, unfinished)
    return Finished(prepared, records, summary, wall_s, *done, jobs, stays, quanta, *_simulated(manager), energy)


def _energy_use(prepared: Prepared, manager: Manager) -> EnergyUse | None:
    """Return what is kept for the energy of a run; None: the watts of the nodes are not known."""
    if prepared.power is None:
        return None
    from cosched_emulator.run.energy_use import EnergyUse  # noqa: PLC0415 - few machines have watts

    return EnergyUse(prepared.nodes, prepared.power, manager.processes)


def _simulated(manager: Manager) -> tuple[float | None, Counters | None]:
    """Return how much of the nodes was simulated burst by burst, and what happened there; None: no time sharing."""
    processes = manager.processes
    return (None, None) if processes is None else (processes.simulated, processes.counters)


def _cut_figures(cut: CutRuns, offered_load: float | None) -> dict[str, Any]:
    """Return the effect of cutting run times to the estimate; offered loads are shares, for the jobs as logged and as run."""
    before = None if offered_load is None else round(offered_load * cut.work_us / cut.kept_us, 6)
    return {
        "jobs": cut.jobs,
        "work_lost": round(cut.lost, 6),
        "offered_load_logged": before,
        "offered_load": offered_load,
    }


def _job_id(record: JobRecord) -> int:
    return record.job.spec.id


def _record_changes(accounting: Accounting, diary: Diary) -> None:
    """Move the facts from the manager's diary to the accounts."""
    accounting.record(diary.drain())


def _complete_accounts(accounting: Accounting, manager: Manager, left: list[JobRecord]) -> None:
    """Enter the jobs that never ended, which are not in the diary, and write everything to disk."""
    accounting.record([JobFinished(manager.now_us, record) for record in left])
    accounting.flush()
    if accounting.unplayed:
        raise InvariantError(
            f"the run is over, and the database has {accounting.unplayed} more answers: it belongs to another run"
        )
