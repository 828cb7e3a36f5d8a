"""Figures of a study for the page of a paper: by workload and policy, over seeds, and against another run of the same seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from scripts.tables import NOTHING, number, percent

from cosched_emulator.statistics.intervals import Interval
from cosched_emulator.studies.study_result import OF_SERIES, SeedRows


class Where(NamedTuple):
    """The cells of a study that differ in the seed alone; None: the usual value."""

    workload: str
    policy: str
    variant: str | None = None
    belief: str | None = None


class Figures:
    """The figures of a study by what its cells are called."""

    def __init__(self, all_series: Sequence[SeedRows], usual: Mapping[str, str]) -> None:
        """``usual``: column of an axis -> value where `Where` has None, or no such field."""
        self._usual = usual
        self._series = {tuple(found.places[name] for name in OF_SERIES): found for found in all_series}

    def series(self, where: Where) -> SeedRows | None:
        """Return the rows of some cells; None where none has run."""
        named = {name: value for name, value in where._asdict().items() if value is not None}
        places = {**self._usual, **named}
        return self._series.get(tuple(places.get(name, "") for name in OF_SERIES))

    def cells(self) -> list[Where]:
        """Return all cells, in order of declaration."""
        return [Where(*(found.places[name] for name in Where._fields)) for found in self._series.values()]

    def seeds(self, where: Where) -> int:
        """Return the number of seeds that have run."""
        found = self.series(where)
        return 0 if found is None else len(found.rows)

    def values(self, figure: str, where: Where) -> dict[int, float]:
        """Return a figure by seed."""
        found = self.series(where)
        return {} if found is None else found.by_seed(figure)

    def mean(self, figure: str, where: Where) -> Interval | None:
        """Return the mean of a figure with its interval."""
        found = self.series(where)
        return None if found is None else found.interval(figure)

    def change(self, figure: str, where: Where, base: Where) -> Interval | None:
        """Return by how many percent a figure is above that of ``base``, paired by seed; None where it does not exist."""
        mine, theirs = self.series(where), self.series(base)
        return None if mine is None or theirs is None else mine.change(figure, theirs)

    def ratio(self, figure: str, where: Where, base: Where) -> Interval | None:
        """Return a figure over that of ``base``, paired by seed; None where it does not exist."""
        return as_ratio(self.change(figure, where, base))

    def ratios(self, figure: str, where: Where, base: Where) -> dict[int, float]:
        """Return a figure over that of ``base`` by seed, over the seeds that both have."""
        mine, theirs = self.values(figure, where), self.values(figure, base)
        return {seed: value / theirs[seed] for seed, value in mine.items() if theirs.get(seed)}

    def difference(self, figure: str, where: Where, base: Where) -> Interval | None:
        """Return by how much a figure is above that of ``base``, paired by seed; None where it does not exist."""
        mine, theirs = self.series(where), self.series(base)
        return None if mine is None or theirs is None else mine.difference(figure, theirs)


def mapped(found: Interval | None, value: Callable[[float], float]) -> Interval | None:
    """Return an interval in other units: each of its values as a function has it, which rises."""
    if found is None:
        return None
    mean, low, high = map(value, found[:3])
    return found._replace(mean=mean, low=low, high=high)


def as_ratio(found: Interval | None) -> Interval | None:
    """Return the ratio that a change in percent is."""
    return mapped(found, lambda change: 1 + change / 100)


# ---------------------------------------------------------------- text


def interval_text(found: Interval | None, text: Callable[[float | None], str] = number, factor: float = 1.0) -> str:
    """Return mean and interval for a cell of a table: ``-36.1 (-50.2 to -18.0)``."""
    if found is None:
        return NOTHING
    mean = text(found.mean * factor)
    return f"{mean} ({text(found.low * factor)} to {text(found.high * factor)})" if found.exists else mean


def percent_text(found: Interval | None) -> str:
    """Return a change in percent with its interval."""
    return interval_text(found, percent)
