"""A study that is done, wholly or in part: its rows, what failed, and who is worse off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cosched_emulator.api.tables import frame_of
from cosched_emulator.statistics.intervals import LEVEL, Interval
from cosched_emulator.studies.folder import StoredCell, StoredPlan, StudyFolder
from cosched_emulator.studies.results.harm import StudyHarm, harm_of
from cosched_emulator.studies.results.series import Series, base_of, interval_rows, series_of
from cosched_emulator.studies.results.table import Row, Stored, place_value, rows_of, write_table, write_timings
from cosched_emulator.studies.results.within import within_run
from cosched_emulator.studies.runs.work import Failure

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class StudyResult:
    """The results of a study, as read from its folder."""

    plan: StoredPlan = field(repr=False)
    rows: list[Row] = field(
        repr=False
    )  # one for each cell that is done, in order of declaration; all with the same columns
    failures: tuple[tuple[StoredCell, Failure], ...]
    harm: StudyHarm = field(repr=False)
    notes: dict[str, int] = field(repr=False)  # warning -> number of cells that gave it
    folder: Path | None = None  # None: it was temporary

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns: int64 where all values are whole numbers, float64 with NaN for what does not exist, else texts."""
        names = self.rows[0] if self.rows else ()
        return {name: _column([place_value(name, row[name]) for row in self.rows]) for name in names}

    @cached_property
    def series(self) -> list[Series]:
        """Return the rows grouped by everything but the seed, for intervals over seeds."""
        return series_of(self.rows)

    @property
    def baseline(self) -> str | None:
        """Return the name of the baseline's policy."""
        return None if self.plan.baseline is None else str(self.plan.baseline["policy"])

    @property
    def done(self) -> bool:
        """Tell whether all cells and their baselines are done."""
        return len(self.rows) == len(self.plan.cells) and not self.harm.missing

    def base(self, series: Series) -> Series | None:
        """Return the series of the baseline that belongs to ``series``; None for the baseline itself, and where there is none."""
        if self.baseline in (None, series.policy):
            return None
        return base_of(series, self.series, self.baseline or "")

    def within(self, series: Series, figure: str, level: float = LEVEL) -> Interval | None:
        """Return a figure of a series that has one run, or the same run for each seed, with an interval within that run.

        None for other series, for a figure that is no mean or percentile of waits or responses, and where the folder was temporary.
        """
        if self.folder is None or not (len(series.rows) == 1 or series.repeats):
            return None
        jobs = StudyFolder(self.folder).jobs(series.rows[0]["key"])
        return None if jobs is None else within_run(jobs, figure, level)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame; ImportError where pandas is not installed; nothing else needs it."""
        return frame_of(self.columns)


def read_study(folder: StudyFolder) -> StudyResult:
    """Return what is done of the study in a folder; raises InputError if it is none, or damaged."""
    plan = folder.read_plan()
    return _result(folder, plan, _load(folder, plan.cells))


def _result(folder: StudyFolder, plan: StoredPlan, stored: Stored) -> StudyResult:
    harm = harm_of(folder, plan)
    rows = rows_of(plan.cells, stored, harm.figures)
    known = folder.failures()
    failures = tuple((cell, known[cell.key]) for cell in (*plan.cells, *plan.extra) if cell.key in known)
    return StudyResult(plan, rows, failures, harm, _notes(plan, stored), folder.path)


def write_tables(folder: StudyFolder) -> StudyResult:
    """Write the tables of what is done, and return it; raises InputError where they cannot be written."""
    plan = folder.read_plan()
    runs = (*plan.cells, *plan.extra)
    stored = _load(folder, runs)
    result = _result(folder, plan, stored)
    others: dict[str, list[Row]] = {"intervals": [*interval_rows(result.rows, result.baseline)]}
    if result.plan.baselines:
        others["losers"] = result.harm.losers
    write_table(folder, result.rows, others)
    write_timings(folder, runs, stored)
    return result


def _load(folder: StudyFolder, cells: Sequence[StoredCell]) -> Stored:
    """Return what the runs that are done have given, by key."""
    loaded = ((cell.key, folder.load(cell.key)) for cell in cells)
    return {key: run for key, run in loaded if run is not None}


def _notes(plan: StoredPlan, stored: Stored) -> dict[str, int]:
    return dict(Counter(note for cell in plan.cells if cell.key in stored for note in stored[cell.key]["notes"]))


def _column(values: list[Any]) -> npt.NDArray[Any]:
    """Return a column: whole numbers, numbers or texts."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, bool} and None not in values:
        return np.array(values, dtype=np.int64)
    if kinds <= {int, bool, float}:
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.array(["" if value is None else str(value) for value in values], dtype=np.str_)
