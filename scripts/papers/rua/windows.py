"""Figures of a workload over the windows of its log: a window is one value, its seeds are averaged first.

Windows of a log differ more than draws of demand do, so the runs of one window are no independent samples: with all of them as one
sample, and a spread between windows as large as that within, an interval of 95 % over three windows of five seeds covers the true mean
in 72 % of cases; with windows as values, in 95 % (200,000 draws). The price is Student's t with two degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from scripts.papers.figures import Figures, Where
from scripts.papers.rua.experiment import WINDOWS, in_window

from cosched_emulator.results.figures.comparison import most_of
from cosched_emulator.statistics.intervals import LEVEL, Interval, amount_of, change_of, difference_of
from cosched_emulator.studies.study_result import SEED, SeedRows

WINDOW: Final = 1_000  # a pair of window and seed as a number: window x 1,000 + seed


@dataclass(frozen=True, eq=False)
class WindowRows(SeedRows):
    """The rows of all windows of a workload."""

    def by_seed(self, figure: str) -> dict[int, float]:
        """Return a figure by pair of window and seed."""
        return {
            WINDOW * int(row["workload"].rsplit(" ", 1)[1]) + int(row[SEED] or 0): float(row[figure])
            for row in self.rows
            if isinstance(row.get(figure), int | float)
        }

    def interval(self, figure: str, level: float = LEVEL) -> Interval | None:
        """Return the mean of a figure with its interval over windows."""
        return amount_of(by_window(self.by_seed(figure)), level, most_of(figure))

    def change(self, figure: str, base: SeedRows, level: float = LEVEL) -> Interval | None:
        """Return by how many percent a figure is above that of ``base`` (geometric mean), over the pairs that both have."""
        return change_of_windows(ratios(self.by_seed(figure), base.by_seed(figure)), level)

    def difference(self, figure: str, base: SeedRows, level: float = LEVEL) -> Interval | None:
        """Return by how much a figure is above that of ``base``, over the pairs that both have."""
        mine, theirs = self.by_seed(figure), base.by_seed(figure)
        found = by_window({pair: value - theirs[pair] for pair, value in mine.items() if pair in theirs})
        return difference_of(found, dict.fromkeys(found, 0.0), level)


class WindowFigures(Figures):
    """The figures of a study in which a workload has a run for each window of its log."""

    def __init__(self, found: Figures) -> None:
        super().__init__([], {})
        self.found = found

    def series(self, where: Where) -> SeedRows | None:
        """Return the rows of some cells, of all windows unless the workload names one; None where none has run."""
        exact = self.found.series(where)
        if exact is not None:
            return exact
        parts = [self.found.series(where._replace(workload=in_window(where.workload, window))) for window in WINDOWS]
        rows = [row for part in parts if part is not None for row in part.rows]
        return WindowRows({"workload": where.workload, "policy": where.policy}, tuple(rows)) if rows else None

    def ratio(self, figure: str, where: Where, base: Where) -> Interval | None:
        """Return a figure over that of ``base``: the geometric mean, or the plain one where a figure is 0."""
        found = super().ratio(figure, where, base)
        return amount_of(by_window(self.ratios(figure, where, base))) if found is None else found


def ratios(mine: Mapping[int, float], theirs: Mapping[int, float]) -> dict[int, float]:
    """Return the ratio of two figures by pair, over the pairs that both have; NaN where one is not above 0."""
    return {
        pair: value / theirs[pair] if value > 0 and theirs[pair] > 0 else math.nan
        for pair, value in mine.items()
        if pair in theirs
    }


def change_of_windows(found: Mapping[int, float], level: float = LEVEL) -> Interval | None:
    """Return ratios by pair as a change in percent: the geometric mean in each window, then over windows; None where one is NaN."""
    if any(map(math.isnan, found.values())):
        return None
    logs = by_window({pair: math.log(value) for pair, value in found.items()})
    return change_of({window: math.exp(value) for window, value in logs.items()}, dict.fromkeys(logs, 1.0), level)


def by_window(values: Mapping[int, float]) -> dict[int, float]:
    """Return the means of values by pair in each window. A number that is no pair is a seed, and counts by itself."""
    groups: dict[int, list[float]] = {}
    for pair, value in values.items():
        groups.setdefault(pair // WINDOW or pair, []).append(value)
    return {window: fmean(group) for window, group in groups.items()}
