"""A fit of bounded numbers to measurements, by damped Gauss-Newton steps (Levenberg, Marquardt); nothing in it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.errors import HardwareModelError

_STEP: Final = 2e-3  # of a derivative, as a part of a number's range
_MOST_DAMPING: Final = 1e6


class FitError(HardwareModelError):
    """Numbers or measurements from which no fit can be made."""


class Number(NamedTuple):
    """A fitted number: where the fit begins, and its bounds."""

    name: str
    start: float
    low: float
    high: float


class Fitted(NamedTuple):
    """The result of a fit."""

    values: tuple[float, ...]  # in the order of the numbers
    errors: tuple[float, ...]  # predicted - measured, in the order of the measurements
    rounds: int  # steps that were tried

    @property
    def mean_absolute(self) -> float:
        """Return the mean absolute error."""
        return sum(map(abs, self.errors)) / len(self.errors)


def fit(
    numbers: Sequence[Number],
    predict: Callable[[Sequence[float]], Sequence[float]],
    measured: Sequence[float],
    *,
    most_rounds: int = 30,
) -> Fitted:
    """Return the numbers within their bounds with the smallest sum of squared errors that the steps find.

    ``predict`` returns one value for each measurement. A step that does not lower the sum is tried again with more damping; the
    fit ends when none does, or after ``most_rounds``. Raises FitError for no numbers, no measurements, or a start beyond a bound.
    """
    if not numbers or not measured:
        raise FitError("a fit needs at least one number and one measurement")
    for number in numbers:
        if not number.low <= number.start <= number.high or number.low == number.high:
            raise FitError(f"{number.name}: the start must be from {number.low} to {number.high}, not {number.start}")
    low = np.array([number.low for number in numbers])
    width = np.array([number.high for number in numbers]) - low
    target = np.array(measured, dtype=np.float64)

    def errors_of(place: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(predict((low + place * width).tolist()), dtype=np.float64) - target

    place = (np.array([number.start for number in numbers]) - low) / width
    errors = errors_of(place)
    damping, rounds = 1e-2, 0
    while rounds < most_rounds and damping < _MOST_DAMPING:
        slopes = _slopes(errors_of, place, errors)
        normal, gradient = slopes.T @ slopes, slopes.T @ errors
        while rounds < most_rounds and damping < _MOST_DAMPING:
            rounds += 1
            shift = np.linalg.solve(normal + damping * np.eye(len(place)), -gradient)
            tried = np.clip(place + shift, 0.0, 1.0)
            after = errors_of(tried)
            if after @ after < (errors @ errors) * (1 - 1e-6):
                place, errors, damping = tried, after, damping / 4
                break
            damping *= 4
    return Fitted(tuple((low + place * width).tolist()), tuple(errors.tolist()), rounds)


def _slopes(
    errors_of: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    place: NDArray[np.float64],
    errors: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the derivative of each error by each number, by a step towards the middle of its range."""
    columns = []
    for index in range(len(place)):
        step = _STEP if place[index] < 0.5 else -_STEP
        moved = place.copy()
        moved[index] += step
        columns.append((errors_of(moved) - errors) / step)
    return np.array(columns).T
