"""Intervals over seeds: a series is what differs in the seed alone, compared with its baseline seed by seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Final

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.statistics.by_seed import all_equal, bounds_of, change_of, difference_of, interval_of
from cosched_emulator.statistics.intervals import LEVEL, Interval
from cosched_emulator.studies.plan.experiment import AXES, COLUMNS, HARM, ORIGIN, PLACES
from cosched_emulator.studies.results.table import Row

SEED: Final = COLUMNS["seeds"]
POLICY: Final = COLUMNS["policies"]
OF_SERIES: Final = tuple(COLUMNS[axis] for axis in AXES if axis != "seeds")
OF_SETTING: Final = tuple(name for name in OF_SERIES if name != POLICY)


@dataclass(frozen=True, eq=False)
class Series:
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
        """Return the setting for people: ``workload=CTC load=0.9``."""
        return " ".join(f"{name}={self.places[name]}" for name in OF_SETTING if self.places[name])

    def by_seed(self, figure: str) -> dict[int, float]:
        """Return a figure by seed, without the runs in which it does not exist."""
        return {
            int(row[SEED] or 0): float(row[figure]) for row in self.rows if isinstance(row.get(figure), int | float)
        }

    def interval(self, figure: str, level: float = LEVEL) -> Interval | None:
        """Return the mean of a figure over seeds with its interval; None where it does not exist in any run."""
        values = self.by_seed(figure)
        if self.repeats and all_equal([*values.values()]):
            values = dict([*values.items()][:1])
        return interval_of(values, level)

    def change(self, figure: str, base: Series, level: float = LEVEL) -> Interval | None:
        """Return by how many percent a figure is above that of ``base``, over the seeds that both have (geometric mean).

        None where there are none, or where a figure is not above 0.
        """
        return change_of(self._beside(figure, base), base.by_seed(figure), level)

    def difference(self, figure: str, base: Series, level: float = LEVEL) -> Interval | None:
        """Return by how much a figure is above that of ``base``, over the seeds that both have; None where there are none."""
        return difference_of(self._beside(figure, base), base.by_seed(figure), level)

    def _beside(self, figure: str, base: Series) -> dict[int, float]:
        """Return a figure by seed for a comparison; a pair of runs that is the same under all seeds counts once."""
        mine = self.by_seed(figure)
        if self.repeats and base.repeats:
            seeds = {int(row[SEED] or 0) for row in base.rows}
            return dict([item for item in mine.items() if item[0] in seeds][:1])
        return mine

    @cached_property
    def repeats(self) -> bool:
        """Tell whether all seeds gave the same run, so that an interval over them says nothing: nothing is drawn.

        Figures of harm may differ all the same: the baselines' shaken run times are drawn.
        """
        figures = [{name: row[name] for name in row if _of_run(name)} for row in self.rows]
        return any(figures) and all_equal(figures)


def _of_run(column: str) -> bool:
    return column not in PLACES and column not in ORIGIN and not column.startswith(HARM)


def series_of(rows: Iterable[Row]) -> list[Series]:
    """Return the series of a table's rows, in the order of their first rows."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in OF_SERIES), []).append(row)
    return [Series(dict(zip(OF_SERIES, places, strict=True)), tuple(group)) for places, group in found.items()]


def base_of(series: Series, all_series: Sequence[Series], policy: str) -> Series | None:
    """Return the series of the baseline's policy with the same values; else with another belief, which it does not act on."""
    same = [other for other in all_series if other.policy == policy]
    for ignored in ((), ("belief",)):
        for other in same:
            if all(other.places[name] == series.places[name] for name in OF_SETTING if name not in ignored):
                return other
    return None


def interval_rows(rows: Sequence[Row], policy: str | None, level: float = LEVEL) -> Iterator[Row]:
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
                    **bounds_of(found),
                    **bounds_of(change, "change_percent_"),
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
