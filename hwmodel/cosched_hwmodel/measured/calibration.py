"""Predictions of unmeasured pairs with 90 % intervals: a fit to a table of co-runs, and how wrong it is, by cross-validation.

`calibrate` is all that a program needs: it returns the fit and a prediction for every pair. `completed` returns a table
without gaps, and `write_table` writes a table that `read_table` reads.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

import numpy as np

from cosched_hwmodel.draws import uniform
from cosched_hwmodel.measured import Method
from cosched_hwmodel.measured.bilinear import Bilinear, fit_bilinear
from cosched_hwmodel.measured.co_run_table import EVIDENCE, FACTS, NEVER, PAIR, CoRunTable, Prediction, Ratios, possible
from cosched_hwmodel.measured.components import Components, fit_components

if TYPE_CHECKING:
    from cosched_hwmodel.measured.co_run_table import Floats, Ints

LEVEL: Final = 0.9  # of intervals
# Least half width of an interval, in standard deviations. Of components Student's t with 15 degrees of freedom: variances
# of programs come from few of them, and where they come out too small, so do the errors of cross-validation.
# Chosen on halves of one table (MODEL.md).
LEAST_FACTORS: Final[Mapping[Method, float]] = {"components": 1.753, "bilinear": 1.0}
# Halves of 20 tables drawn from the NAS pairs, of 8, 12 and 16 applications: by `components` 78, 87 and 92 % of the other half were
# inside in the mean, 29, 52 and 80 % in the worst table; by `bilinear` 94, 89 and 89 %, and 75, 66 and 60 %.
FEWEST_APPLICATIONS: Final = 16  # of a table whose intervals hold what they promise
NORMAL_FACTOR: Final = 1.645  # where nothing can be cross-validated
_FOLDS: Final = 10
_FEWEST: Final = 20  # pairs without which nothing is cross-validated


class PairPrediction(NamedTuple):
    """What is known or predicted of an application beside a partner; of a pair that cannot be together, all numbers are nan."""

    row: str
    column: str
    ratio: float  # measured, or else predicted
    low: float  # of the interval in which a further measurement lies with 90 %
    high: float
    measured: bool
    never: bool = False  # by the table, in either order

    @property
    def predicted(self) -> bool:
        """Return whether the table says nothing of the pair."""
        return not (self.measured or self.never)


class Errors(NamedTuple):
    """How well pairs were predicted from the others, each time without a tenth of them and their other directions."""

    pairs: int
    mean: float  # absolute error, in points of the ratio
    largest: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fit to a table of co-runs, and its predictions."""

    table: CoRunTable
    method: Method
    fit: Bilinear | Components
    prediction: Prediction  # by row and column, in the table's order of applications
    factor: float  # half width of an interval, in standard deviations
    errors: Errors | None  # None: too few pairs

    @property
    def bilinear(self) -> Bilinear:
        """Return the bilinear form: levels, sensitivities and intensities of the applications, in the table's order."""
        return self.fit if isinstance(self.fit, Bilinear) else self.fit.bilinear

    @property
    def doubt(self) -> str | None:
        """Return why its intervals are not to be relied on; None where they are."""
        count = len(self.table.applications)
        if count >= FEWEST_APPLICATIONS:
            return None
        return (
            f"{count} applications are too few for these intervals, which promise {LEVEL:.0%}: in drawn tables of 8 and 12 applications"
            " they held as few as 29 % of the pairs (components) and 66 % (bilinear)"
        )

    def predict(self, row: str, column: str) -> PairPrediction:
        """Return what is known of an application beside a partner; KeyError for an unknown application."""
        place = {name: index for index, name in enumerate(self.table.applications)}
        here = (place[row], place[column])
        if self.table.apart(row, column):
            return PairPrediction(row, column, math.nan, math.nan, math.nan, measured=False, never=True)
        mean, half = float(self.prediction.mean[here]), self.factor * float(self.prediction.deviation[here])
        ratio = self.table.ratios.get((row, column))
        known = ratio is not None
        return PairPrediction(
            row,
            column,
            possible(mean) if ratio is None else ratio,
            possible(mean - half),
            possible(mean + half),
            known,
        )

    def predictions(self) -> list[PairPrediction]:
        """Return what is known of every pair that can be together, row by row in the table's order."""
        names, apart = self.table.applications, self.table.apart
        return [self.predict(row, column) for row in names for column in names if not apart(row, column)]

    def completed(self) -> CoRunTable:
        """Return the table with predicted ratios where none was measured."""
        return replace(self.table, ratios={(each.row, each.column): each.ratio for each in self.predictions()})


def calibrate(table: CoRunTable, method: Method = "components") -> Calibration:
    """Fit a table, and find by cross-validation how wide its intervals must be.

    The half width of a 90 % interval is a factor times the standard deviation of the fit. The factor is the 90 %
    quantile of errors in standard deviations, where each tenth of the pairs is predicted from the others, and at least
    that of `LEAST_FACTORS`.
    """
    ratios = Ratios.of_table(table)
    fit = _fitted(ratios, method, None)
    errors, scaled = _cross_validated(ratios, method, fit)
    factor = float(np.quantile(scaled, LEVEL, method="higher")) if len(scaled) else NORMAL_FACTOR
    factor = max(LEAST_FACTORS[method], factor)
    told = Errors(len(errors), float(errors.mean()), float(errors.max())) if len(errors) else None
    return Calibration(table, method, fit, fit.predict(), factor, told)


def completed(table: CoRunTable, method: Method = "components") -> CoRunTable:
    """Return the table with predicted ratios where none was measured, as `Calibration.completed`, but without intervals."""
    if len(table.ratios) + len(table.never) == len(table.applications) ** 2:
        return table
    predicted = _predicted(table.applications, tuple(table.ratios.items()), method)
    names = table.applications
    mean = {
        (row, column): predicted[a][b]
        for a, row in enumerate(names)
        for b, column in enumerate(names)
        if not table.apart(row, column)
    }
    return replace(table, ratios={**mean, **table.ratios})


def write_table(stream: TextIO, table: CoRunTable) -> None:
    """Write a table in the long form, with the columns that it has values for."""
    known = {"procs": table.processes, "compact_s": table.compact_s, "spread": table.spreads}
    facts = [name for name in FACTS if known[name]]
    learned = EVIDENCE if table.evidence else ()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*PAIR, "ratio", *learned, *facts])
    for (row, column), ratio in table.ratios.items():
        evidence = [value if 0 < value < math.inf else "" for value in table.evidence.get((row, column), ())]
        blank = [""] * (len(learned) - len(evidence))
        values = [*evidence, *blank, *[known[name].get(row, "") for name in facts]]
        writer.writerow([row, column, repr(float(ratio)), *values])
    for row, column in sorted(table.never):
        writer.writerow([row, column, NEVER, *[""] * len(learned), *[known[name].get(row, "") for name in facts]])


@lru_cache(maxsize=16)
def _predicted(
    applications: tuple[str, ...], ratios: tuple[tuple[tuple[str, str], float], ...], method: Method
) -> list[list[float]]:
    """Return the predicted ratios by row and column; studies ask for those of one table many times."""
    mean = _fitted(Ratios.of_table(CoRunTable(applications, dict(ratios))), method, None).predict().mean
    return [[possible(float(value)) for value in row] for row in mean]


def _fitted(ratios: Ratios, method: Method, like: Bilinear | Components | None) -> Bilinear | Components:
    """Return a fit; ``like``: one of nearly the same ratios, whose variances it takes."""
    if method == "bilinear":
        return fit_bilinear(ratios)
    return fit_components(ratios, like.variances if isinstance(like, Components) else None)


def _cross_validated(ratios: Ratios, method: Method, fit: Bilinear | Components) -> tuple[Floats, Floats]:
    """Return the absolute error of each measured pair, predicted without it, and the same in standard deviations.

    Both directions of a pair are left out together. Both are empty where there are too few pairs.
    """
    rows, columns = np.nonzero(ratios.measured)
    if len(rows) < _FEWEST:
        return np.array([]), np.array([])
    folds = _folds(rows, columns)
    errors, scaled = [], []
    for fold in range(_FOLDS):
        out = folds == fold
        measured = ratios.measured.copy()
        measured[rows[out], columns[out]] = False
        left = _fitted(replace(ratios, measured=measured), method, fit).predict()
        here = (rows[out], columns[out])
        error = np.abs(left.mean[here] - ratios.values[here])
        errors.append(error)
        scaled.append(error / left.deviation[here])
    return np.concatenate(errors), np.concatenate(scaled)


def _folds(rows: Ints, columns: Ints) -> Ints:
    """Return in which tenth each pair lies: drawn, of equal sizes, the same for both directions."""
    pairs = [(min(pair), max(pair)) for pair in zip(rows.tolist(), columns.tolist(), strict=True)]
    drawn = sorted(set(pairs), key=lambda pair: uniform(0, "folds", *pair))
    fold = {pair: place % _FOLDS for place, pair in enumerate(drawn)}
    return np.array([fold[pair] for pair in pairs], dtype=np.int64)
