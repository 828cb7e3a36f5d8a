"""Runs what is left of a study, on this machine or on a dask cluster, and stores each result as it comes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.files.run_folder import own_version
from cosched_emulator.scenario.reader import FILES
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.studies.cell_run import KNOWN, CellOrder, Failure, Result, forget_prepared, load_measure, prepared
from cosched_emulator.studies.cells import Cell, Plan, is_program_file, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.study_folder import RUNS, StudyFolder
from cosched_emulator.studies.study_result import StudyResult, write_tables
from cosched_emulator.studies.workers import Workers
from cosched_terminal.whole_file import temporary_folder

TIMEOUT_S: Final = 86_400.0
Tick = Callable[[], None]


class StudyProgress(Protocol):
    """What is told while a study runs."""

    def __call__(self, done: int, total: int) -> object:
        """Take the numbers of runs that have ended, and of all that were left to make."""


@dataclass(frozen=True, slots=True)
class Way:
    """How runs are made."""

    jobs: int = 0  # processes; 0: one for each core
    dask: str | None = None  # address of a scheduler, instead of processes of this machine
    keep: bool = False  # write the run folder of each cell
    timeout_s: float = TIMEOUT_S  # longest time for one run
    only: tuple[int, ...] = ()  # numbers of cells; empty: all, with the baselines

    def __post_init__(self) -> None:
        """Raises ConfigurationError."""
        if self.jobs < 0:
            raise ConfigurationError("jobs", "a number of processes, or 0", str(self.jobs))
        if not self.timeout_s > 0:
            raise ConfigurationError("timeout_s", "a time above 0", str(self.timeout_s))


@dataclass(frozen=True, slots=True)
class Made:
    """What came of it."""

    wanted: int  # runs
    done_before: int
    made: int
    failures: tuple[tuple[Cell, Failure], ...]
    wall_s: float
    result: StudyResult  # of all that is done, with what was done before


def run_plan(
    plan: Plan, folder: StudyFolder, way: Way, progress: StudyProgress | None = None, besides: Sequence[Cell] = ()
) -> Made:
    """Make the runs that are not done, and write the tables; raises InputError for a folder that is in use or cannot be written.

    ``besides``: runs of a later plan in the same folder, which begin first: long ones would keep one worker alone busy.
    A run that fails is recorded and stops nothing. What is wrong in the scenarios of all runs alike is raised before the first one.
    Whatever ends the study, what is done is stored.
    """
    began = time.monotonic()
    check_measures(plan)
    wanted = (*besides, *_chosen(plan, way.only))
    with folder.locked() as lock:
        left = [cell for cell in wanted if not _done(folder, cell, keep=way.keep)]
        orders = [_order(folder, cell, keep=way.keep) for cell in left]
        if way.dask is None:  # whose workers may have files that are not here
            _check_common(orders)
        folder.write_plan(plan)
        known = folder.failures()
        made = 0
        failed: dict[str, Failure] = {}
        try:
            with _outcomes(orders, way, lock, lambda: _tell(progress, made, len(orders))) as outcomes:
                for outcome in outcomes:
                    made += 1
                    if isinstance(outcome, Failure):
                        failed[outcome.key] = outcome
                    else:
                        folder.save(outcome)
                    _tell(progress, made, len(orders))
        finally:
            forget_prepared()
            again = {order.key for order in orders}
            others = {cell.key: known[cell.key] for cell in plan.runs if cell.key in known and cell.key not in again}
            folder.write_failures([*others.values(), *failed.values()])
        result = write_tables(folder)
    in_order = tuple((cell, failed[cell.key]) for cell in wanted if cell.key in failed)
    return Made(len(wanted), len(wanted) - len(left), made - len(failed), in_order, time.monotonic() - began, result)


def check_measures(plan: Plan) -> None:
    """Raise ConfigurationError for a measure that cannot be imported."""
    for name in plan.experiment.measures:
        load_measure(name)


def _check_common(orders: Sequence[CellOrder]) -> None:
    """Raise the error with which no scenario of the runs can be prepared, as of a log that all have in common.

    In most studies the first scenario can be, and this costs nothing: workers are forked, and inherit it.
    """
    groups: dict[str, CellOrder] = {}
    for order in orders:
        groups.setdefault(order.group, order)
    found: Exception | None = None
    for order in groups.values():
        try:
            prepared(order)
        except KNOWN as error:
            if found is not None and str(error) != str(found):
                return
            found = error
        except Exception:
            return  # a defect: the run tells it, with a traceback
        else:
            return
    if found is not None:
        raise found


def workers_of(jobs: int) -> int:
    """Return the number of processes: ``jobs``, or one for each core that this process may use."""
    return jobs or len(os.sched_getaffinity(0))


def _chosen(plan: Plan, only: Sequence[int]) -> tuple[Cell, ...]:
    if not only:
        return plan.runs
    for number in only:
        if not 1 <= number <= len(plan.cells):
            raise ConfigurationError("--cell", f"the number of a cell, 1 to {len(plan.cells)}", str(number))
    return tuple(plan.cells[number - 1] for number in dict.fromkeys(only))


def _done(folder: StudyFolder, cell: Cell, *, keep: bool) -> bool:
    kept = not keep or not cell.number or (folder.path / RUNS / cell.key).is_dir()
    return kept and folder.has(cell.key)


def _order(folder: StudyFolder, cell: Cell, *, keep: bool) -> CellOrder:
    keep_at = os.path.abspath(folder.path / RUNS / cell.key) if keep and cell.number else None
    group = f"{cell.stage}:{cell.group}" if cell.number else cell.group  # products are made one after the other
    return CellOrder(cell._replace(scenario=_absolute(cell.scenario)), group, own_version(), keep_at)


def _absolute(scenario: Scenario) -> Scenario:
    """Return a scenario whose files are found from any folder."""
    for section, key in FILES:
        part = getattr(scenario, section)
        path = getattr(part, key, None)
        if path:
            scenario = replace(scenario, **{section: replace(part, **{key: os.path.abspath(path)})})
    programs = scenario.workload.programs
    if programs is not None and is_program_file(programs):
        scenario = replace(scenario, workload=replace(scenario.workload, programs=os.path.abspath(programs)))
    return scenario


@contextmanager
def _outcomes(orders: Sequence[CellOrder], way: Way, lock: int, tick: Tick) -> Iterator[Iterable[Result | Failure]]:
    """Yield what the runs give, as they end."""
    if not orders:
        yield ()
    elif way.dask is not None:
        from cosched_emulator.studies.dask_cluster import DaskCluster  # noqa: PLC0415 - an extra

        with DaskCluster(way.dask, way.timeout_s) as cluster:
            yield cluster.run(orders, tick)
    else:
        with Workers(workers_of(way.jobs), way.timeout_s, (lock,)) as workers:
            yield workers.run(orders, tick)


def _tell(progress: StudyProgress | None, made: int, total: int) -> None:
    if progress is not None:
        progress(made, total)


# One call that runs a study: many runs, declared as axes of values, in parallel and resumable.


def study(
    experiment: str | os.PathLike[str] | Mapping[str, Any],
    out: str | os.PathLike[str] | None = None,
    *,
    jobs: int = 0,
    dask: str | None = None,
    keep: bool = False,
    timeout_s: float = TIMEOUT_S,
    progress: StudyProgress | None = None,
) -> StudyResult:
    """Run a study, as ``cosched-emulator study run`` does, and return its results.

    experiment  a TOML file's name, or a table of the same form (docs/studies.md)
    out         the study's folder: runs that are done there are not made again; None: nothing is left on disk
    jobs        processes on this machine; 0: one for each core
    dask        address of a dask.distributed scheduler, whose workers make the runs instead
    keep        write the run folder of each cell below ``out``
    timeout_s   longest time for one run, in seconds
    progress    called with the number of runs that have ended, and of all that were left to make

    A run that fails is in `StudyResult.failures`. Raises an EmulatorError or a PluginError for an experiment that cannot be run,
    and for a folder that is in use or cannot be written.
    """
    plan = make_plan(read_experiment(experiment))
    way = Way(jobs=jobs, dask=dask, keep=keep and out is not None, timeout_s=timeout_s)
    if out is not None:
        return run_plan(plan, StudyFolder(out), way, progress).result
    with temporary_folder("cosched-study-") as folder:
        return replace(run_plan(plan, StudyFolder(f"{folder}/study"), way, progress).result, folder=None)
