"""The result of a study, done wholly or in part: its table, what failed, who is worse off, and intervals over seeds or within a run."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosched_emulator.api.arrow import stream_of
from cosched_emulator.api.tables import frame_of
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.figures.comparison import most_of
from cosched_emulator.results.figures.metrics import MACHINE, PERCENTS, STATISTICS
from cosched_emulator.results.figures.metrics import QUANTITIES as OF_JOBS
from cosched_emulator.results.harm import Harm, HarmFigures, Outcomes, measure_harm
from cosched_emulator.results.shown import Shown
from cosched_emulator.statistics import intervals
from cosched_emulator.statistics.bootstrap import block_bootstrap, block_percentile
from cosched_emulator.studies.axes import AXES, BELIEVED, COLUMNS, NUMBERS
from cosched_emulator.studies.cell_run import Failure
from cosched_emulator.studies.experiment import HARM, ORIGIN, PLACES
from cosched_emulator.studies.study_folder import FORMAT, StoredCell, StoredPlan, StudyFolder
from cosched_hwmodel.units import SECOND_US
from cosched_terminal.console import printable

if TYPE_CHECKING:
    import pandas

# The table of a study: a row for each cell that is done, in order of declaration, as CSV and in SQLite.
#
# Columns: number of the cell, a value of each axis, the figures, the figures of harm; and where the row comes from: key, version,
# policy with all of its settings and resolved scenario, both as JSON. Wall times stand in a file of their own.

RESULTS, TIMINGS, DATABASE = "results.csv", "timings.csv", "results.sqlite"
Row = dict[str, Any]
# Key of a run that is done -> what it has given, as `StudyFolder.load` returns it
Stored = Mapping[str, Mapping[str, Any]]


def rows_of(cells: Iterable[StoredCell], stored: Stored, harm: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Return the rows of the cells that are done, all with the same columns; ``harm`` has figures by key."""
    rows: list[Row] = []
    for cell in cells:
        run = stored.get(cell.key)
        if run is None:
            continue
        origin = (cell.key, run["version"], _json(cell.settings), _json(cell.scenario))
        rows.append(
            {**cell.places, **run["figures"], **harm.get(cell.key, {}), **dict(zip(ORIGIN, origin, strict=True))}
        )
    figures = dict.fromkeys(name for row in rows for name in row if name not in PLACES and name not in ORIGIN)
    names = (*PLACES, *figures, *ORIGIN)
    return [{name: row.get(name) for name in names} for row in rows]


def write_table(folder: StudyFolder, rows: Sequence[Row], others: Mapping[str, Sequence[Row]]) -> None:
    """Write the table, wall times, and ``others``: more tables by name. Raises InputError where they cannot be written."""
    folder.write(RESULTS, csv_text(rows).encode())
    for name, table in others.items():
        folder.write(f"{name}.csv", csv_text(table).encode())
    folder.write(DATABASE, _database({"results": rows, **others}))


def write_timings(folder: StudyFolder, cells: Iterable[StoredCell], stored: Stored) -> None:
    """Write the wall times of all runs that are done, in seconds; raises InputError."""
    rows: list[Row] = [
        {"cell": cell.number, "key": cell.key, **{name: stored[cell.key][name] for name in ("wall_s", "total_s")}}
        for cell in cells
        if cell.key in stored
    ]
    folder.write(TIMINGS, csv_text(rows).encode())


def csv_text(rows: Sequence[Row]) -> str:
    """Return rows as CSV with a heading; None is an empty field, lists and tables are JSON."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    if rows:
        writer.writerow(rows[0])
        writer.writerows([[_plain(value) for value in row.values()] for row in rows])
    return stream.getvalue()


def place_value(column: str, value: Any) -> Any:
    """Return what a column of the table holds, as a number where its axis has numbers; None if that axis is not declared."""
    if column in NUMBERS:
        return NUMBERS[column](value) if value else None
    return value


def _database(tables: Mapping[str, Sequence[Row]]) -> bytes:
    """Return the tables as an SQLite database: the same rows give the same bytes."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"PRAGMA user_version = {FORMAT}")  # without any content a database has no bytes
        for name, texts in tables.items():
            rows = [{column: place_value(column, value) for column, value in row.items()} for row in texts]
            if rows:
                columns = ", ".join(f"{_quoted(column)} {_kind(rows, column)}".rstrip() for column in rows[0])
                database.execute(f"CREATE TABLE {_quoted(name)} ({columns})")
                places = ", ".join("?" * len(rows[0]))
                database.executemany(
                    f"INSERT INTO {_quoted(name)} VALUES ({places})",
                    [[_plain(value) for value in row.values()] for row in rows],
                )
        database.commit()
        return database.serialize()


def _kind(rows: Sequence[Row], column: str) -> str:
    kinds = {type(row[column]) for row in rows if row[column] is not None}
    if kinds <= {int, bool}:
        return "INTEGER"
    return "REAL" if kinds <= {int, float} else "TEXT"


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return printable(value)
    return value if isinstance(value, int | float | None) else _json(value)


def _json(value: object) -> str:
    # The same JSON: names of users may be in it
    return printable(json.dumps(value, ensure_ascii=False, sort_keys=True))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# Intervals over seeds: a series is what differs in the seed alone, compared with its baseline seed by seed.

SEED: Final = COLUMNS["seeds"]
POLICY: Final = COLUMNS["policies"]
OF_SERIES: Final = tuple(COLUMNS[axis] for axis in AXES if axis != "seeds")
OF_SETTING: Final = tuple(name for name in OF_SERIES if name != POLICY)


def place_text(places: Mapping[str, Any]) -> str:
    """Return everything but policy and seed for people: ``workload=CTC load=0.9``."""
    return " ".join(f"{name}={places[name]}" for name in OF_SETTING if places[name])


@dataclass(frozen=True, eq=False)
class SeedRows:
    """The rows that differ in the seed alone."""

    places: Mapping[str, str]  # column of an axis -> name
    rows: tuple[Row, ...]

    @property
    def policy(self) -> str:
        """Return the name of the policy."""
        return self.places[POLICY]

    @property
    def setting(self) -> tuple[str, ...]:
        """Return the names of everything but policy and seed."""
        return tuple(self.places[name] for name in OF_SETTING)

    @property
    def text(self) -> str:
        """Return the setting for people."""
        return place_text(self.places)

    def by_seed(self, figure: str) -> dict[int, float]:
        """Return a figure by seed, without the runs in which it does not exist."""
        return {
            int(row[SEED] or 0): float(row[figure]) for row in self.rows if isinstance(row.get(figure), int | float)
        }

    def interval(self, figure: str, level: float = intervals.LEVEL) -> intervals.Interval | None:
        """Return the mean of a figure over seeds with its interval; None where it does not exist in any run."""
        values = self.by_seed(figure)
        if self.repeats and intervals.all_equal([*values.values()]):
            values = dict([*values.items()][:1])
        return intervals.amount_of(values, level, most_of(figure))

    def change(self, figure: str, base: SeedRows, level: float = intervals.LEVEL) -> intervals.Interval | None:
        """Return by how many percent a figure is above that of ``base``, over the seeds that both have (geometric mean).

        None where there are none, or where a figure is not above 0.
        """
        return intervals.change_of(self._beside(figure, base), base.by_seed(figure), level)

    def difference(self, figure: str, base: SeedRows, level: float = intervals.LEVEL) -> intervals.Interval | None:
        """Return by how much a figure is above that of ``base``, over the seeds that both have; None where there are none."""
        return intervals.difference_of(self._beside(figure, base), base.by_seed(figure), level)

    def _beside(self, figure: str, base: SeedRows) -> dict[int, float]:
        """Return a figure by seed for a comparison; a pair of runs that gave the same figures under all seeds counts once."""
        mine, theirs = self.by_seed(figure), base.by_seed(figure)
        both = {seed: value for seed, value in mine.items() if seed in theirs}
        same = self.repeats and base.repeats and intervals.all_equal([(mine[seed], theirs[seed]) for seed in both])
        return dict([*both.items()][:1]) if same else both

    @cached_property
    def repeats(self) -> bool:
        """Tell whether all seeds gave the same run, so that an interval over them says nothing: nothing is drawn.

        Figures of harm may differ all the same: the baselines' shaken run times are drawn.
        """
        figures = [{name: row[name] for name in row if name in _OF_RUN} for row in self.rows]
        if not any(figures):
            figures = [{name: row[name] for name in row if _is_figure(name)} for row in self.rows]
        return any(figures) and intervals.all_equal(figures)


def _is_figure(column: str) -> bool:
    return column not in PLACES and column not in ORIGIN and not column.startswith(HARM)


# Not those of measures, which may draw by the seed or take times
_OF_RUN: Final = frozenset((*MACHINE, *(f"{name}_{statistic}" for name in OF_JOBS for statistic in STATISTICS)))


def series_of(rows: Iterable[Row]) -> list[SeedRows]:
    """Return the series of a table's rows, in the order of their first rows."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in OF_SERIES), []).append(row)
    return [SeedRows(dict(zip(OF_SERIES, places, strict=True)), tuple(group)) for places, group in found.items()]


def base_of(series: SeedRows, all_series: Sequence[SeedRows], policy: str) -> SeedRows | None:
    """Return the series of the baseline's policy with the same values; else with another belief, which it does not act on."""
    same = [other for other in all_series if other.policy == policy]
    for ignored in ((), tuple(COLUMNS[axis] for axis in BELIEVED)):
        for other in same:
            if all(other.places[name] == series.places[name] for name in OF_SETTING if name not in ignored):
                return other
    return None


def interval_rows(rows: Sequence[Row], policy: str | None, level: float = intervals.LEVEL) -> Iterator[Row]:
    """Yield a row for each series and figure: mean with its interval, and the change against the series of ``policy``."""
    all_series = series_of(rows)
    for series in all_series:
        base = None if policy in (None, series.policy) else base_of(series, all_series, policy or "")
        for figure in figures_in(series.rows):
            found = series.interval(figure, level)
            if found is not None:
                change = None if base is None else series.change(figure, base, level)
                yield {
                    **series.places,
                    "figure": figure,
                    "seeds": found.n,
                    **intervals.bounds_of(found),
                    **intervals.bounds_of(change, "change_percent_"),
                }


def figures_in(rows: Sequence[Row]) -> list[str]:
    """Return the names of the figures that are numbers."""
    names = [name for name in (rows[0] if rows else ()) if name not in PLACES and name not in ORIGIN]
    return [name for name in names if any(isinstance(row[name], int | float) for row in rows)]


def check_figure(figure: str, rows: Sequence[Row]) -> None:
    """Raise ConfigurationError for a figure that the table does not have."""
    known = figures_in(rows)
    if figure not in known:
        close = get_close_matches(figure, known, n=1)
        expected = "a column of results.csv that holds numbers"
        raise ConfigurationError("--figure", expected, repr(figure), close[0] if close else None)


# Intervals within a run, by moving blocks of jobs: what one run tells where there are no other seeds, as for a log.


def _wait_s(jobs: Outcomes) -> intervals.FloatArray:
    return np.asarray((jobs.start_us - jobs.submit_us) / SECOND_US)


def _response_s(jobs: Outcomes) -> intervals.FloatArray:
    return np.asarray((jobs.end_us - jobs.submit_us) / SECOND_US)


QUANTITIES: Final[dict[str, Callable[[Outcomes], intervals.FloatArray]]] = {
    "wait_s": _wait_s,
    "response_s": _response_s,
}


def within_run(jobs: Outcomes, figure: str, level: float = intervals.LEVEL) -> intervals.Interval | None:
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
class StudyResult(Shown):
    """The results of a study, as read from its folder."""

    plan: StoredPlan = field(repr=False)
    # One for each cell that is done, in order of declaration; all with the same columns
    rows: list[Row] = field(repr=False)
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

    def within(self, series: SeedRows, figure: str, level: float = intervals.LEVEL) -> intervals.Interval | None:
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

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as an Arrow stream: what ``polars.DataFrame(result)`` and others read."""
        return stream_of(self.columns)


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
