"""Waits, responses and slowdowns weighted by the area of jobs, and the same by class.

The plain mean counts a job of a second on one processor like one of a day on the whole machine, and improves when wide and long jobs
starve. With the area a = processors · run time as weight (Schwiegelshohn and Yahyapour 2000, J. Sched. 3:297) a mean does not depend
on how work is cut into jobs:

- area-weighted response: Σ a · response / Σ a; wait and slowdown likewise, times in seconds.
- wait = start - submission, response = end - submission, slowdown = max(1, response / max(run time, bound)).

The run time is that of the job alone on its nodes, which every policy has in common; time on shared nodes would give more weight to
what a policy slows down. Jobs that never started or never ended do not count. What does not exist is NaN. Sums of products in numpy
say this in full; a library's weighted statistics would be one more dependency for three lines.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosched_emulator.statistics.intervals import BoolArray, FloatArray, IntArray

# Classes of jobs by length and by width.
#
# - Length: short up to 600 s, medium up to 10,800 s, long (G-LOMARC-TS paper, where the user's estimate decides; it does not print
#   the 600 s).
# - Width: wide is what asks for more than a quarter of the machine, narrow the rest. This bound is ours.
#
# What equals a bound belongs to the class below it.

LENGTHS: Final = ("short", "medium", "long")
SHORT_S: Final = 600
MEDIUM_S: Final = 10_800
WIDTHS: Final = ("narrow", "wide")
WIDE: Final = 0.25  # share of the machine's processors (cores)
CLASS_NAMES: Final = tuple(f"{length} {width}" for length in LENGTHS for width in WIDTHS)


def length_numbers(length: npt.NDArray[Any], short: float, medium: float) -> IntArray:
    """Return the place in `LENGTHS` of each estimate or run time; all are in one unit. Raises ValueError for bounds not in order."""
    if not 0 <= short <= medium:
        raise ValueError(f"the bounds of classes are 0 or more and in order, not {short} and {medium}")
    return np.asarray(np.searchsorted([short, medium], length, side="left"), dtype=np.int64)


def width_numbers(processors: npt.NDArray[Any], machine: int, wide: float = WIDE) -> IntArray:
    """Return the place in `WIDTHS` of jobs that ask for so many of the ``machine``'s processors.

    Raises ValueError for a machine without processors and a bound below 0.
    """
    if machine < 1 or not wide >= 0:
        raise ValueError(f"a machine has 1 processor or more, and the bound is 0 or more, not {machine} and {wide}")
    return np.asarray(processors > wide * machine, dtype=np.int64)


BOUND_S: Final = 10.0  # run times below count as this in slowdowns
ALL: Final = "all"


class Means(NamedTuple):
    """Plain and area-weighted means of jobs that ran and ended."""

    jobs: int
    area: float  # processor-seconds
    wait_s: float
    response_s: float
    slowdown: float
    wait_p95_s: float  # 95 % of the jobs, not of the area, wait at most so long
    weighted_wait_s: float
    weighted_response_s: float
    weighted_slowdown: float


def weighted_mean(values: FloatArray, weights: FloatArray) -> float:
    """Return Σ weight · value / Σ weight, NaN without weight. Raises ValueError for a negative weight or columns that do not fit."""
    if values.shape != weights.shape or (weights < 0).any():
        raise ValueError("a weighted mean needs a weight for each value, 0 or more")
    total = float(weights.sum())
    return float(values @ weights) / total if total > 0 else math.nan


def means(
    submit_s: FloatArray,
    start_s: FloatArray,
    end_s: FloatArray,
    run_s: FloatArray,
    processors: IntArray,
    bound_s: float = BOUND_S,
) -> Means:
    """Return plain and area-weighted means of all jobs that ran and ended. Times in seconds, in any order; NaN: there is none.

    Raises ValueError for columns that do not fit each other and a bound that is not above 0.
    """
    if not submit_s.shape == start_s.shape == end_s.shape == run_s.shape == processors.shape:
        raise ValueError("the columns of jobs have the same length")
    if not bound_s > 0:
        raise ValueError(f"the bound of slowdowns is above 0 seconds, not {bound_s}")
    ran = ~(np.isnan(start_s) | np.isnan(end_s))
    wait_s, response_s = (start_s - submit_s)[ran], (end_s - submit_s)[ran]
    slowdown = np.maximum(1.0, response_s / np.maximum(run_s[ran], bound_s))
    area = run_s[ran] * processors[ran]
    jobs = wait_s.size
    return Means(
        jobs=jobs,
        area=float(area.sum()),
        wait_s=_mean(wait_s),
        response_s=_mean(response_s),
        slowdown=_mean(slowdown),
        wait_p95_s=float(np.percentile(wait_s, 95)) if jobs else math.nan,
        weighted_wait_s=weighted_mean(wait_s, area),
        weighted_response_s=weighted_mean(response_s, area),
        weighted_slowdown=weighted_mean(slowdown, area),
    )


def means_by_class(
    submit_s: FloatArray,
    start_s: FloatArray,
    end_s: FloatArray,
    run_s: FloatArray,
    processors: IntArray,
    length_s: FloatArray,
    machine: int,
) -> dict[str, Means]:
    """Return `means` of ``all`` jobs, of each length and width, and of each class that is one of both, such as ``long wide``.

    ``length_s`` decides the length: estimates as elsewhere in the results, or run times. ``machine`` is the number of the machine's
    processors, in the unit of ``processors``. Raises ValueError as `means`, and for a machine without processors.
    """
    length = length_numbers(length_s, SHORT_S, MEDIUM_S)
    width = width_numbers(processors, machine)
    lengths = {name: length == number for number, name in enumerate(LENGTHS)}
    widths = {name: width == number for number, name in enumerate(WIDTHS)}
    both = {f"{one} {other}": lengths[one] & widths[other] for one in LENGTHS for other in WIDTHS}
    chosen = {ALL: np.ones(length.shape, dtype=np.bool_), **lengths, **widths, **both}

    def of(rows: BoolArray) -> Means:
        return means(submit_s[rows], start_s[rows], end_s[rows], run_s[rows], processors[rows])

    return {name: of(rows) for name, rows in chosen.items()}


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if values.size else math.nan
