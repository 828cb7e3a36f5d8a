"""Prediction of co-runs by variance components: the bilinear form, with what sizes of one program have in common.

A ratio is a normal variable around a mean level. What two ratios have in common adds to their covariance:

- the level, and the sensitivity to the partner's intensity, of the program and of the application whose run time it is;
- the same two programs beside each other;
- an application beside itself, by program, and beside its own program, by application: they ask for the same resource.

How much each of these counts (its variance) is estimated from the measured pairs by maximum likelihood. The prediction of
a pair is its mean for known measured pairs (the best linear prediction). Intensities are those of the bilinear form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cosched_hwmodel.draws import uniforms
from cosched_hwmodel.measured.bilinear import Bilinear, fit_bilinear
from cosched_hwmodel.measured.co_run_table import Prediction, Ratios

if TYPE_CHECKING:
    from cosched_hwmodel.measured.co_run_table import Floats, Ints

NAMES: Final = (
    "level of a program",
    "level of an application",
    "sensitivity of a program",
    "sensitivity of an application",
    "two programs",
    "beside itself",
    "beside its program",
    "measurement",
)
_ROUNDS: Final = 20
# Pairs from which variances are estimated: the time is cubic in them, and a few numbers need no more
_MOST: Final = 450
_COMMON_VARIANCE: Final = 0.09  # of the level and the sensitivity of all: anything that occurs
_LEAST_VARIANCE: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Components:
    """The fitted form."""

    ratios: Ratios
    bilinear: Bilinear
    variances: tuple[float, ...]  # of `NAMES`

    def predict(self) -> Prediction:
        """Return mean and standard deviation of a further measurement of every pair."""
        ratios, bilinear = self.ratios, self.bilinear
        rows, columns = np.nonzero(ratios.measured)
        values = ratios.values[rows, columns]
        average = values.mean()
        here = _Pairs(rows, columns, ratios.programs, bilinear.intensity)
        inverse = np.linalg.inv(_covariance(here.common(here), self.variances, len(rows)))
        count = len(ratios.applications)
        wanted_rows, wanted_columns = (each.ravel() for each in np.indices((count, count)))
        wanted = _Pairs(wanted_rows, wanted_columns, ratios.programs, bilinear.intensity)
        shared = _weighted(wanted.common(here), self.variances)
        mean = average + shared @ (inverse @ (values - average))
        variance = wanted.variance(self.variances) - ((shared @ inverse) * shared).sum(axis=1)
        variance += (bilinear.sensitivity**2)[wanted_rows] * bilinear.intensity_variance[wanted_columns]
        deviation = np.sqrt(np.maximum(variance, self.variances[-1]))
        return Prediction(mean.reshape(count, count), deviation.reshape(count, count))


def fit_components(ratios: Ratios, variances: tuple[float, ...] | None = None) -> Components:
    """Fit the form to the measured pairs, of which there is at least one; with known ``variances``, the rest of it."""
    bilinear = fit_bilinear(ratios)
    return Components(ratios, bilinear, _variances(ratios, bilinear) if variances is None else variances)


def _variances(ratios: Ratios, bilinear: Bilinear) -> tuple[float, ...]:
    """Return the variances of greatest likelihood, by a fixed number of rounds of the usual iteration (MM algorithm)."""
    rows, columns = np.nonzero(ratios.measured)
    if len(rows) > _MOST:
        chosen = np.sort(np.argsort(uniforms(0, "variances", rows, columns), kind="stable")[:_MOST])
        rows, columns = rows[chosen], columns[chosen]
    values = ratios.values[rows, columns]
    values = values - values.mean()
    pairs = _Pairs(rows, columns, ratios.programs, bilinear.intensity)
    common = pairs.common(pairs)
    first = max(float(values @ values) / len(values), 1e-4) / len(NAMES)
    variances = [first] * len(NAMES)
    for _ in range(_ROUNDS):
        inverse = np.linalg.inv(_covariance(common, variances, len(rows)))
        scaled = inverse @ values
        for index, part in enumerate(common[: len(NAMES) - 1]):
            up, down = float(scaled @ (part @ scaled)), float(np.einsum("ij,ij->", inverse, part))
            if down > 0:
                variances[index] = max(variances[index] * float(np.sqrt(max(up, 0.0) / down)), _LEAST_VARIANCE)
        noise = variances[-1] * float(np.sqrt((scaled @ scaled) / np.trace(inverse)))
        variances[-1] = max(noise, _LEAST_VARIANCE)
    return tuple(variances)


def _weighted(common: list[Floats], variances: tuple[float, ...] | list[float]) -> Floats:
    """Return the covariances of ratios that have this in common."""
    *parts, of_all = common
    total: Floats = _COMMON_VARIANCE * of_all
    for part, variance in zip(parts, variances[:-1], strict=True):
        total += variance * part
    return total


def _covariance(common: list[Floats], variances: tuple[float, ...] | list[float], count: int) -> Floats:
    """Return the covariances of measured ratios; as far from singular as floats need, where ratios differ by thousands."""
    total = _weighted(common, variances)
    total[np.arange(count), np.arange(count)] += max(variances[-1], _LEAST_VARIANCE * float(total.diagonal().max()))
    return total


class _Pairs:
    """Some pairs of applications, and what they have in common with others."""

    def __init__(self, rows: Ints, columns: Ints, programs: Ints, intensity: Floats) -> None:
        self.rows = rows
        self.programs = programs[rows]
        self.others = programs[columns]
        self.intensity = intensity[columns]
        self.itself = rows == columns
        self.kin = self.programs == self.others

    def common(self, pairs: _Pairs) -> list[Floats]:
        """Return for each of `NAMES` but the last, and for all together, what each pair has in common with each of ``pairs``."""
        row = (self.rows[:, None] == pairs.rows).astype(np.float64)
        program = (self.programs[:, None] == pairs.programs).astype(np.float64)
        product = np.outer(self.intensity, pairs.intensity)
        return [
            program,
            row,
            program * product,
            row * product,
            program * (self.others[:, None] == pairs.others),
            program * np.outer(self.itself, pairs.itself),
            row * np.outer(self.kin, pairs.kin),
            1.0 + product,
        ]

    def variance(self, variances: tuple[float, ...]) -> Floats:
        """Return the variance of a measurement of each pair."""
        square = self.intensity**2
        total: Floats = variances[0] + variances[1] + (variances[2] + variances[3]) * square + variances[4]
        total = total + variances[5] * self.itself + variances[6] * self.kin + variances[7]
        total += _COMMON_VARIANCE * (1.0 + square)
        return total
