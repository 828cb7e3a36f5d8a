"""One run of a prepared scenario: simulation, accounts, summary."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from cosched_emulator.errors import AccountingError, InvariantError
from cosched_emulator.manager.record import JobFinished, JobRecord, QuantumRecord
from cosched_emulator.results.ended_jobs import EndedJobs, ended_jobs
from cosched_emulator.results.figures.metrics import TIME_SHARING, TimeSharingTotals, summarise_columns
from cosched_emulator.results.files.run_files import JOBS_AT_ONCE, RunFiles, run_files_of
from cosched_emulator.results.files.run_folder import TRACE, new_run_folder, write_files
from cosched_emulator.results.record_columns import ColumnBuilder, RecordColumns, StayColumns
from cosched_emulator.run.counted import CountedJobs, CountedRun, End, Rule
from cosched_emulator.run.loop import Simulation, job_id_of
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.workload.job import CutRuns
from cosched_plugin.common.process import freeze_heap
from cosched_plugin.protocol.messages import REJECTED

if TYPE_CHECKING:
    from cosched_emulator.accounting.accounts import Accounting
    from cosched_emulator.accounting.chain import Reached
    from cosched_emulator.couplings.link import Link
    from cosched_emulator.manager.diary import Diary
    from cosched_emulator.manager.manager import Manager
    from cosched_emulator.manager.time_sharing.rotating import Rotating
    from cosched_emulator.nodeos.clusters import Counters
    from cosched_emulator.results.figures.run_energy import CpuEnergy, RunEnergy
    from cosched_hwmodel.energy import NodePower

# The accounts of a run: new ones, or those of a killed run, which then resumes.


@contextmanager
def open_accounts(
    db: str | None,
    prepared: Prepared,
    kind: str,
    accept_loss: Callable[[str], None] | None = None,
    begin: Callable[[str], Reached | None] | None = None,
    policy: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Accounting]:
    """Yield the accounts of a run of this kind: in file ``db``, continued if it exists; in memory if ``db`` is None.

    ``accept_loss``: what is damaged in the file is left out, and this is told what. ``begin``: see `Accounting.open`; with it, the file
    may be of another machine. ``policy``: the meta data of the policy to which its answers must belong.
    """
    from cosched_emulator.accounting.accounts import Accounting  # noqa: PLC0415 - with sqlite, which few runs need
    from cosched_emulator.accounting.run_meta import check_meta, check_policy, meta_of  # noqa: PLC0415 - likewise

    if db is not None and os.path.exists(db):
        if accept_loss is not None:
            from cosched_emulator.accounting.rebuild import salvage  # noqa: PLC0415 - likewise

            accept_loss(salvage(db, meta_of(prepared.scenario, prepared.workload, kind)))
        accounting = Accounting.open(db, begin)
        try:
            same = check_meta(
                accounting.meta, prepared.scenario, prepared.workload, kind, db, any_machine=begin is not None
            )
            if policy:
                check_policy(accounting.meta, policy, db)
        except BaseException:
            accounting.close()
            raise
        if not same and accounting.begins is not None:  # the journal begins anew: all of it is looked at before
            accounting.close()
            accounting = Accounting.open(db)
    else:
        accounting = Accounting.create(db, {**meta_of(prepared.scenario, prepared.workload, kind), **policy})
    try:
        yield accounting
    except AccountingError:
        with suppress(AccountingError):  # that it cannot be written to has been said
            accounting.close()
        raise
    finally:
        accounting.close()


# A buffer that passes jobs to their receivers in groups.

Ended = TypeVar("Ended")


class EndedBuffer(Generic[Ended]):
    """Passes what ended to receivers, in columns, in order of the ends; ``.spent_s`` is the time spent in that."""

    def __init__(self, columns: Callable[[list[Ended]], EndedJobs], *receivers: Callable[[EndedJobs], None]) -> None:
        self._columns = columns
        self._receivers = receivers
        self._ended: list[Ended] = []
        self.spent_s = 0.0

    def add(self, ended: Ended) -> None:
        """Add the next job."""
        self._ended.append(ended)
        if len(self._ended) >= JOBS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Pass all buffered jobs to each receiver."""
        started = time.perf_counter()
        jobs = self._columns(self._ended)
        for receive in self._receivers:
            receive(jobs)
        self._ended.clear()
        self.spent_s += time.perf_counter() - started


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
    jobs: RecordColumns
    stays: StayColumns
    quanta: list[QuantumRecord]  # of time sharing, in order of time; likewise
    # Share of the time of nodes that was simulated burst by burst; None: no time sharing
    simulated: float | None = None
    counters: Counters | None = None  # of what happened on these nodes meanwhile; None: nothing was simulated so
    energy: RunEnergy | None = None  # None: the watts of the nodes are not known
    rejected: tuple[int, str] | None = None  # the first job that was, and why


class _FirstRejected:
    """A receiver of ended jobs that keeps the first rejected one."""

    def __init__(self) -> None:
        self.found: tuple[int, str] | None = None

    def add(self, jobs: EndedJobs) -> None:
        """Take the next jobs."""
        if self.found is None:
            rejected = ((job_id_of(each), each.reason) for each in jobs.more.values() if each.state == REJECTED)
            self.found = next(rejected, None)


def run(
    prepared: Prepared,
    link: Link,
    progress: Progress | None = None,
    accounting: Accounting | None = None,
    files: RunFiles | None = None,
    *,
    keep: bool = True,
) -> Finished:
    """Simulate and summarise, and keep accounts if requested.

    With ``files`` the records of jobs are written there as they end; with these, and without ``keep``, none stays in memory. Raises
    LinkError if the scheduler is lost, InvariantError for a defect of the emulator.
    """
    from cosched_emulator.run.build import build_agenda, build_manager  # noqa: PLC0415 - with the manager, for two ends only

    manager = build_manager(prepared)
    agenda = build_agenda(prepared, manager)
    committed = None
    if accounting is not None:
        manager.diary.kept = True
        committed = partial(_record_changes, accounting, manager.diary)
    records: list[JobRecord] = []
    quanta: list[QuantumRecord] = []
    builder, totals, processes, rejected = ColumnBuilder(), TimeSharingTotals(), manager.processes, _FirstRejected()
    each: list[Callable[[JobRecord], None]] = [records.append] if files is None and keep else []
    cpu = None
    if processes is not None:
        each.append(totals.add_job)
        processes.ended_quanta += [totals.add_quantum, quanta.append if files is None else files.add_quantum]
        cpu = None if prepared.power is None else _cpu_energy(prepared, prepared.power, processes)
    buffer = EndedBuffer(partial(_told, each), builder.add, rejected.add, *(() if files is None else (files.add,)))
    simulation = Simulation(manager, agenda, link, progress=progress, committed=committed, ended=buffer.add)
    started = time.perf_counter()
    with freeze_heap(cycles=processes is not None):  # processes and jobs refer to each other
        left = simulation.run()
    if accounting is not None:
        _complete_accounts(accounting, manager, left)
    wall_s = time.perf_counter() - started - buffer.spent_s
    for record in left:
        buffer.add(record)
    buffer.flush()
    records.sort(key=job_id_of)
    jobs, stays = builder.columns()
    summary, energy = _figures(prepared, jobs, stays, totals, processes, cpu)
    simulated = None if processes is None else processes.cluster.simulated
    counters = None if processes is None else processes.cluster.counters()
    done = (simulation.batches, manager.refused, [job_id_of(record) for record in left], jobs, stays, quanta)
    return Finished(prepared, records, summary, wall_s, *done, simulated, counters, energy, rejected.found)


def _told(receivers: Iterable[Callable[[JobRecord], None]], records: list[JobRecord]) -> EndedJobs:
    """Pass jobs one by one to receivers, and return them in columns."""
    for receive in receivers:
        for record in records:
            receive(record)
    return ended_jobs(records)


def run_counted(
    prepared: Prepared, rule: Rule, progress: Progress | None = None, files: RunFiles | None = None
) -> Finished:
    """Return the same as `run` where counting decides, by this rule."""
    records: list[JobRecord] = []
    builder, made, rejected = ColumnBuilder(), CountedJobs(prepared), _FirstRejected()

    def columns(ended: list[End]) -> EndedJobs:
        if files is None:
            records.extend(map(made.record, ended))
        return made.columns(ended)

    buffer = EndedBuffer(columns, builder.add, rejected.add, *(() if files is None else (files.add,)))
    counted = CountedRun(prepared, rule, buffer.add, progress)
    started = time.perf_counter()
    with freeze_heap(cycles=False):
        counted.run()
    wall_s = time.perf_counter() - started - buffer.spent_s
    buffer.flush()
    records.sort(key=job_id_of)
    jobs, stays = builder.columns()
    summary, energy = _figures(prepared, jobs, stays, TimeSharingTotals(), None, None)
    done = counted.batches, 0, list[int]()
    return Finished(prepared, records, summary, wall_s, *done, jobs, stays, [], energy=energy, rejected=rejected.found)


def _cpu_energy(prepared: Prepared, power: Sequence[NodePower], processes: Rotating) -> CpuEnergy:
    """Return the energy by the CPU time that processes use from now on."""
    from cosched_emulator.results.figures.run_energy import CpuEnergy, machine_power  # noqa: PLC0415 - few machines have watts

    cpu = CpuEnergy(machine_power(prepared.nodes, power))
    processes.measure_use(cpu.add)
    return cpu


def _figures(
    prepared: Prepared,
    jobs: RecordColumns,
    stays: StayColumns,
    totals: TimeSharingTotals,
    processes: Rotating | None,
    cpu: CpuEnergy | None,
) -> tuple[dict[str, Any], RunEnergy | None]:
    """Return the figures of a run that is over, and its energy; None: the watts of the nodes are not known."""
    machine, selection, energy, utilisation = prepared.nodes, prepared.selection, None, None
    summary = summarise_columns(jobs, stays, machine, selection)
    if processes is not None:
        shared = summary[TIME_SHARING] = totals.figures(jobs, stays, machine, processes.quantum_us, selection)
        utilisation = shared["cpu_utilisation"]
        if processes.meter is not None:
            processes.meter.collect()  # of jobs that never ended
    if prepared.power is not None:
        from cosched_emulator.results.figures.run_energy import run_energy  # noqa: PLC0415 - few machines have watts

        energy = run_energy(jobs, stays, machine, prepared.power, selection, cpu, utilisation)
        summary["energy"] = energy.figures
    if prepared.workload.cut is not None:
        summary["cut_runs"] = _cut_figures(prepared.workload.cut, summary["machine"]["offered_load"])
    return summary, energy


def _cut_figures(cut: CutRuns, offered_load: float | None) -> dict[str, Any]:
    """Return the effect of cutting run times to the estimate; offered loads are shares, for the jobs as logged and as run."""
    before = None if offered_load is None else round(offered_load * cut.work_us / cut.kept_us, 6)
    return {
        "jobs": cut.jobs,
        "work_lost": round(cut.lost, 6),
        "offered_load_logged": before,
        "offered_load": offered_load,
    }


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
    accounting.bring_up_to_date()
    accounting.flush()


# The run folder of a finished run.


def store(
    finished: Finished,
    out: str,
    *,
    policy: dict[str, Any],
    link: str,
    force: bool,
    trace: str | None = None,
    files: RunFiles | None = None,
    began: float | None = None,
) -> None:
    """Write the run folder, and move a ``trace`` that belongs into it from the place that `trace_place` gave.

    ``files`` are those that the run has written to; None if its records were kept in memory. The link must not affect the results,
    so it is not part of the run's description but of timing.json, like the time since ``began`` (of `time.perf_counter`), when
    reading began.
    """
    prepared = finished.prepared
    scenario = prepared.scenario
    timing = {"wall_s": round(finished.wall_s, 6), "batches": finished.batches, "link": link}
    if finished.simulated is not None:
        timing["simulated"] = round(finished.simulated, 6)
    with ExitStack() as closing:
        folder = closing.enter_context(new_run_folder(out, force=force))
        if files is None:
            files = closing.enter_context(run_files_of(finished.records, out, prepared.nodes, finished.quanta))
        write_files(
            folder,
            files,
            prepared.nodes,
            summary=finished.summary,
            resolved_config={**scenario.as_dict(), "policy": policy},
            workload=prepared.workload,
            timing=timing,
            seed=scenario.seed,
            began=began,
            energy=finished.energy,
            power=prepared.power,
        )
        if trace is not None:
            Path(trace).rename(folder / TRACE)
