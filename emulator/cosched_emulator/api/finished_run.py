"""The result of a finished run, for Python callers."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cosched_emulator.api.arguments import check_plain, read_records
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.offered import POPULATIONS
from cosched_emulator.results.figures.metrics import QUANTITIES, STATISTICS
from cosched_emulator.results.files.run_folder import check_run_folder, new_run_folder, read_summary
from cosched_emulator.run.coupling import TraceRecord
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.run.run import Finished, store
from cosched_plugin.protocol.messages import NodeClass

if TYPE_CHECKING:
    import pandas

    from cosched_emulator.api.tables import AllocationTable, JobTable
    from cosched_emulator.results.figures.run_energy import RunEnergy
    from cosched_emulator.results.harm import Harm, LaterRule, LoserClasses, Outcomes
    from cosched_emulator.results.quanta import QuantaColumns


# What `Run.against` does: it compares a run with baselines that are runs or run folders.

RunLike: TypeAlias = Finished | str | os.PathLike[str]


def compare_runs(
    run: Finished, baselines: Sequence[RunLike], rule: LaterRule | None, classes: LoserClasses | None
) -> Harm:
    """Return which jobs of ``run`` respond later than in the baselines; see `Run.against`."""
    from cosched_emulator.results.harm import DEFAULT_RULE, measure_harm  # noqa: PLC0415 - few runs are compared

    found = [_outcomes(each, classes) for each in baselines]
    return measure_harm(_outcomes(run, classes), found, DEFAULT_RULE if rule is None else rule)


def _outcomes(run: RunLike, classes: LoserClasses | None) -> Outcomes:
    """Return what became of the jobs of a run, or of the one in a folder."""
    from cosched_emulator.results.harm import outcomes  # noqa: PLC0415 - few runs are compared

    if isinstance(run, Finished):
        return outcomes(run.jobs, run.prepared.nodes, run.prepared.selection, classes)
    from cosched_emulator.results.files.run_reader import read_run  # noqa: PLC0415 - likewise

    stored = read_run(run)
    return outcomes(stored.jobs, stored.machine, stored.selection, classes)


@dataclass(frozen=True, eq=False)
class Run:
    """The result of `simulate`: figures, jobs and allocations of a finished run.

    It can be pickled. ``trace_at`` is the place of the decision trace.
    """

    policy: str  # its name
    settings: Mapping[str, Any] = field(repr=False)  # of the policy, complete, as in ``run.json``
    link: str  # the coupling
    folder: Path | None  # the run folder, if one was requested
    finished: Finished = field(repr=False)
    total_s: float = field(repr=False)  # how long all took, with reading the workload and writing files, in seconds
    trace_at: list[TraceRecord] | Path | None = field(default=None, repr=False)

    @property
    def summary(self) -> dict[str, Any]:
        """Return all figures, as in ``summary.json``: plain values for JSON."""
        return self.finished.summary

    @property
    def prepared(self) -> Prepared:
        """Return the scenario, checked and built; `simulate` accepts it for another run."""
        return self.finished.prepared

    @property
    def machine(self) -> tuple[NodeClass, ...]:
        """Return the classes of nodes."""
        return self.finished.prepared.nodes

    @property
    def records(self) -> list[JobRecord]:
        """Return the exact record of each job, times in whole microseconds, in order of id; empty if ``out`` was given.

        A run with ``out`` writes its records to files as the jobs end, to bound its use of memory.
        """
        return self.finished.records

    @property
    def unfinished(self) -> list[int]:
        """Return the ids of jobs that never ended, because no further event concerned them."""
        return self.finished.unfinished

    @property
    def refused(self) -> int:
        """Return the number of actions of the scheduler that could not be carried out."""
        return self.finished.refused

    @property
    def batches(self) -> int:
        """Return the number of batches of events that the scheduler answered."""
        return self.finished.batches

    @property
    def wall_s(self) -> float:
        """Return the wall time of the simulation in seconds, without the writing of files."""
        return self.finished.wall_s

    @cached_property
    def jobs(self) -> JobTable:
        """Return the jobs as numpy columns, in order of submission."""
        from cosched_emulator.api.tables import job_table  # noqa: PLC0415 - the command does not need the tables

        return job_table(self.finished.jobs, self.finished.prepared.workload)

    @cached_property
    def quanta(self) -> QuantaColumns | None:
        """Return the quanta of a run whose jobs take turns, with a row per quantum and job; None if there are none."""
        from cosched_emulator.results.files.run_reader import read_quanta  # noqa: PLC0415 - few runs share time
        from cosched_emulator.results.quanta import quanta_columns  # noqa: PLC0415 - likewise

        if self.finished.quanta:
            return quanta_columns(self.finished.quanta)
        return None if self.folder is None else read_quanta(self.folder)

    @cached_property
    def allocations(self) -> AllocationTable:
        """Return the allocations as numpy columns."""
        from cosched_emulator.api.tables import allocation_table  # noqa: PLC0415 - likewise

        return allocation_table(self.finished.jobs, self.finished.stays)

    @property
    def energy(self) -> RunEnergy | None:
        """Return the energy of the run, of each job and over time; None if the watts of the nodes are not known."""
        return self.finished.energy

    @property
    def trace(self) -> list[TraceRecord] | None:
        """Return the records of the decision trace; None if none was requested, or it went to a function.

        If the trace is in a file, each call reads it; raises InputError if the file is gone.
        """
        return list(read_records(str(self.trace_at))) if isinstance(self.trace_at, Path) else self.trace_at

    def metrics(self, population: str = "finished", statistic: str = "mean") -> dict[str, float | None]:
        """Return the figures most asked for in one flat table: a statistic of each quantity of jobs, and the machine's figures.

        ``population`` is ``finished`` (completed jobs) or ``all`` (all that ran and ended); ``statistic`` one of
        `STATISTICS`. The names contain the units; a figure that does not exist is None. Raises ConfigurationError.
        """
        if population not in POPULATIONS:
            raise ConfigurationError.unknown_name("population", population, POPULATIONS)
        if statistic not in STATISTICS:
            raise ConfigurationError.unknown_name("statistic", statistic, STATISTICS)
        of_jobs = {key: self.summary[population][key][statistic] for key in QUANTITIES}
        return {**of_jobs, **self.summary["machine"]}

    def against(
        self,
        baseline: Run | str | os.PathLike[str],
        *more: Run | str | os.PathLike[str],
        rule: LaterRule | None = None,
        classes: LoserClasses | None = None,
    ) -> Harm:
        """Compare each job with the same job in a baseline: how many respond later, by how much, and why.

        A baseline is a run or a run folder; those after the first are the first one with slightly shaken run times. ``rule`` says
        when a job counts as later (None: above 1.05 times the baseline's response + 60 s), ``classes`` what short, medium and
        wide jobs are. Raises InputError for a folder that is no
        run, ConfigurationError for a baseline of other jobs.
        """

        baselines = [each.finished if isinstance(each, Run) else each for each in (baseline, *more)]
        return compare_runs(self.finished, baselines, rule, classes)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the jobs as a pandas DataFrame; ImportError where pandas is not installed."""
        return self.jobs.to_pandas()

    def write(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write the run folder, as ``cosched-emulator simulate --out`` does, and return its path.

        With ``force`` an older run folder is replaced. A run with ``out`` is copied from there. Raises InputError if the folder
        exists or cannot be written, UsageError for settings of the policy that JSON cannot represent.
        """
        check_plain(self.policy, self.settings)
        if self.folder is not None:
            _copy(self.folder, folder, force=force)
        else:
            settings = {"name": self.policy, **self.settings}
            check_run_folder(folder, force=force)
            began = time.perf_counter() - self.total_s  # as if written at once
            store(self.finished, str(folder), policy=settings, link=self.link, force=force, began=began)
        return Path(folder)


def _copy(source: Path, target: str | Path, *, force: bool) -> None:
    """Copy a run folder, including its timing."""
    read_summary(source)
    with new_run_folder(target, force=force) as folder:
        for file in source.iterdir():
            shutil.copyfile(file, folder / file.name)
