"""How far estimates were off, and the ranges that follow: conformal, by classes of the predicted wait.

Each end of a range moves by a quantile of its past errors on the scale log(wait + 5 min). Predicted waits of one class are
corrected together: errors of short waits are other ones than those of long waits.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from cosched_hwmodel.units import SECOND_US

COVERAGE: Final = 0.8  # of a range
MOST: Final = 600  # last estimates whose jobs have started
FEWEST: Final = 50  # before them there is no range
MINUTE_US: Final = 60 * SECOND_US
OFFSET_US: Final = 5 * MINUTE_US
CLASSES_US: Final = tuple(minutes * MINUTE_US for minutes in (15, 60, 240, 720))  # bounds of the predicted wait
FEWEST_ALIKE: Final = 40  # of a class; else the neighbouring classes count, too


class Guess(NamedTuple):
    """The wait of a job as the runs ahead have it, from the time of the estimate on."""

    wait_us: int  # median
    low_us: int
    high_us: int


class Ranges:
    """Past errors of the two ends of ranges."""

    def __init__(self) -> None:
        self._past: deque[tuple[int, float, float]] = deque(maxlen=MOST)  # class, errors of the ends

    def __len__(self) -> int:
        return len(self._past)

    def learn(self, guess: Guess, wait_us: int) -> None:
        """Learn the wait of a job for which there was a guess."""
        scaled = _scaled(wait_us)
        self._past.append((_class_of(guess.wait_us), scaled - _scaled(guess.low_us), scaled - _scaled(guess.high_us)))

    def of(self, guess: Guess) -> tuple[int, int] | None:
        """Return the range of a wait that holds it in 80 % of cases; None before enough is known."""
        if len(self._past) < FEWEST:
            return None
        kind = _class_of(guess.wait_us)
        reach = 0
        while True:
            alike = [entry for entry in self._past if abs(entry[0] - kind) <= reach]
            if len(alike) >= FEWEST_ALIKE or reach == len(CLASSES_US):
                break
            reach += 1
        tail = (1 - COVERAGE) / 2
        low = -_upper_quantile([-entry[1] for entry in alike], 1 - tail)
        high = _upper_quantile([entry[2] for entry in alike], 1 - tail)
        low_us, high_us = _unscaled(_scaled(guess.low_us) + low), _unscaled(_scaled(guess.high_us) + high)
        return min(low_us, high_us), max(low_us, high_us)


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, between two of them in proportion."""
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def _upper_quantile(values: list[float], share: float) -> float:
    """Return the value that this share of further values will not exceed: the conformal quantile, between two of them in proportion."""
    values.sort()
    place = min(max(share * (len(values) + 1) - 1, 0), len(values) - 1)
    return quantile(values, place / max(1, len(values) - 1))


def _class_of(wait_us: int) -> int:
    return bisect_right(CLASSES_US, wait_us)


def _scaled(wait_us: int) -> float:
    return math.log(wait_us + OFFSET_US)


def _unscaled(value: float) -> int:
    return max(0, round(math.exp(value)) - OFFSET_US)
