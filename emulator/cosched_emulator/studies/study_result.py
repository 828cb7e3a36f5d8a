"""The result of a study, done wholly or in part: its rows, what failed, who is worse off, and intervals within a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosched_emulator.api.tables import frame_of
from cosched_emulator.results.figures.metrics import PERCENTS
from cosched_emulator.results.harm import Harm, HarmFigures, Outcomes, measure_harm
from cosched_emulator.statistics.bootstrap import block_bootstrap, block_percentile
from cosched_emulator.statistics.intervals import LEVEL, FloatArray, Interval
from cosched_emulator.studies.cell_run import Failure
from cosched_emulator.studies.experiment import HARM
from cosched_emulator.studies.study_folder import StoredCell, StoredPlan, StudyFolder
from cosched_emulator.studies.study_table import (
    Row,
    SeedRows,
    Stored,
    base_of,
    interval_rows,
    place_value,
    rows_of,
    series_of,
    write_table,
    write_timings,
)
from cosched_hwmodel.units import SECOND_US

if TYPE_CHECKING:
    import pandas


# Intervals within a run, by moving blocks of jobs: what one run tells where there are no other seeds, as for a log.


def _wait_s(jobs: Outcomes) -> FloatArray:
    return np.asarray((jobs.start_us - jobs.submit_us) / SECOND_US)


def _response_s(jobs: Outcomes) -> FloatArray:
    return np.asarray((jobs.end_us - jobs.submit_us) / SECOND_US)


QUANTITIES: Final[dict[str, Callable[[Outcomes], FloatArray]]] = {"wait_s": _wait_s, "response_s": _response_s}


def within_run(jobs: Outcomes, figure: str, level: float = LEVEL) -> Interval | None:
    """Return a figure of completed jobs, such as ``wait_s_p95``, with its interval by moving blocks.

    None for a figure that is no mean or percentile of waits or responses, and without completed jobs. The resampling is the same every
    time.
    """
    name, _, statistic = figure.rpartition("_")
    if name not in QUANTITIES or statistic not in ("mean", *PERCENTS):
        return None
    rows = np.flatnonzero(jobs.completed & jobs.counted)
    rows = rows[np.lexsort((jobs.id[rows], jobs.submit_us[rows]))]
    if not rows.size:
        return None
    values = QUANTITIES[name](jobs)[rows]
    generator = np.random.default_rng(0)
    if statistic == "mean":
        return block_bootstrap(values, lambda samples: np.asarray(samples.mean(axis=-1)), generator, level)
    return block_percentile(values, PERCENTS[statistic], generator, level)


# Who is worse off under the cells of a study than under their baselines: figures for the table, and the jobs that lose most.

LOSERS_LISTED: Final = 5  # of each cell
OF_ALL: Final = ("jobs", "h1", "hshk", "hshk_floor", "lost_s", "gained_s", "lost_share")
OF_CLASS: Final = ("jobs", "h1", "hshk", "hshk_floor")


class StudyHarm(NamedTuple):
    """The harm of all cells that have a baseline."""

    figures: dict[str, dict[str, Any]]  # by key of the cell: columns of its row
    losers: list[dict[str, Any]]  # rows of the table of losers
    missing: tuple[int, ...]  # numbers of cells with a baseline that is not done


def harm_of(folder: StudyFolder, plan: StoredPlan) -> StudyHarm:
    """Compare the jobs of each cell that is done with those of its baselines; raises InputError for a damaged file."""
    found = StudyHarm({}, [], ())
    missing: list[int] = []
    known: dict[tuple[str, ...], list[Outcomes] | None] = {}
    for cell in plan.cells:
        keys = plan.baselines.get(cell.key)
        if keys is None or not folder.has(cell.key):
            continue
        if keys not in known:
            known.clear()  # cells with the same baselines follow each other
            known[keys] = _all_outcomes(folder, keys)
        baselines, run = known[keys], folder.jobs(cell.key)
        if baselines is None or run is None:
            missing.append(cell.number)
            continue
        harm = measure_harm(run, baselines)
        found.figures[cell.key] = dict(_columns(harm))
        found.losers.extend(_losers(cell, harm))
    return found._replace(missing=tuple(missing))


def _all_outcomes(folder: StudyFolder, keys: tuple[str, ...]) -> list[Outcomes] | None:
    """Return what became of the jobs of all baselines; None where one is not done."""
    found = [folder.jobs(key) for key in keys]
    return [item for item in found if item is not None] if None not in found else None


def _columns(harm: Harm) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a row; shares are between 0 and 1."""
    yield from _some(HARM, OF_ALL, harm.figures)
    yield f"{HARM}killed", len(harm.killed)
    for name, figures in harm.by_class.items():
        yield from _some(f"{HARM}{name.replace(' ', '_')}_", OF_CLASS, figures)


def _some(prefix: str, names: tuple[str, ...], figures: HarmFigures) -> Iterator[tuple[str, Any]]:
    for name in names:
        yield f"{prefix}{name}", getattr(figures, name)


def _losers(cell: StoredCell, harm: Harm) -> Iterator[dict[str, Any]]:
    for loser in harm.losers(LOSERS_LISTED):
        yield {**cell.places, **{("job" if name == "id" else name): value for name, value in loser._asdict().items()}}


# A study that is done, wholly or in part: its rows, what failed, and who is worse off.


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
    def series(self) -> list[SeedRows]:
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

    def base(self, series: SeedRows) -> SeedRows | None:
        """Return the series of the baseline that belongs to ``series``; None for the baseline itself, and where there is none."""
        if self.baseline in (None, series.policy):
            return None
        return base_of(series, self.series, self.baseline or "")

    def within(self, series: SeedRows, figure: str, level: float = LEVEL) -> Interval | None:
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
