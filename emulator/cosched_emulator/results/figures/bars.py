"""What the bars of a comparison show: values, texts, error bars, and which of them are bold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_emulator.results.figures.comparison import (
    Figure,
    SeedRow,
    cells_of,
    error_lengths,
    figure_texts,
    unit_of,
    value_of,
)
from cosched_emulator.statistics.intervals import LEVEL, t_critical

COMPARED = (  # two a column; the first one is what comparisons in words begin with
    Figure("response, mean", ("*", "response_s", "mean"), "seconds", change=True),
    Figure("response, p95", ("*", "response_s", "p95"), "seconds", change=True),
    Figure("wait, mean", ("*", "wait_s", "mean"), "seconds", change=True),
    Figure("wait, p95", ("*", "wait_s", "p95"), "seconds", change=True),
    Figure("jobs killed at their limit", ("killed", "count"), "count"),
    Figure("energy", ("energy", "total_j"), "joules", change=True),
)


class Bars(NamedTuple):
    """A panel of bars, one for each run or policy; values in the unit."""

    label: str
    unit: str
    values: Sequence[float | None]
    texts: Sequence[str]
    bold: Sequence[bool]
    errors: list[list[float]] | None = None  # lengths of error bars below and above the values


def run_bars(figure: Figure, summaries: Sequence[Mapping[str, Any]], population: str, *, mark_best: bool) -> Bars:
    """Return the bars of single runs; ``mark_best``: the lowest is bold."""
    values = [value_of(summary, figure, population) for summary in summaries]
    known = [value for value in values if value is not None]
    unit, texts = figure_texts(figure, values)
    best = texts[values.index(min(known))] if mark_best and len(set(texts)) > 1 and known else None
    return Bars(figure.label, unit, _scaled(figure, values), texts, [text == best for text in texts])


def seed_bars(row: SeedRow) -> Bars:
    """Return the bars of means over seeds, with error bars."""
    means = [None if found is None else found.mean for found in row.intervals]
    unit, texts = cells_of(row)
    errors = error_lengths(row.intervals, unit_of(row.figure, means)[0])
    return Bars(row.figure.label, unit, _scaled(row.figure, means), texts, row.best, errors)


def _scaled(figure: Figure, values: Sequence[float | None]) -> list[float | None]:
    size, _ = unit_of(figure, values)
    return [None if value is None else value / size for value in values]


# The share of jobs at or below a value (ECDF): of one run, or the mean over seeds with a band.
#
# The band is pointwise: at each value, the mean of the runs' shares with its interval by Student's t, cut to 0 and 1.
# So it covers the true share at one value with the stated probability, and not the whole curve.

FloatArray: TypeAlias = npt.NDArray[np.float64]
MOST_STEPS = 4000  # of the mean of several runs: more cannot be seen


class Distribution(NamedTuple):
    """Steps of an ECDF: the share holds from its value to the next one. The first share is 0."""

    values: FloatArray
    share: FloatArray
    band: tuple[FloatArray, FloatArray] | None = None  # lowest and highest share


def distribution(sample: FloatArray) -> Distribution:
    """Return the ECDF of a sample that is not empty."""
    ordered = np.sort(sample)
    share = np.arange(1, ordered.size + 1) / ordered.size
    return Distribution(np.concatenate([ordered[:1], ordered]), np.concatenate([[0.0], share]))


def mean_distribution(samples: Sequence[FloatArray], level: float = LEVEL) -> Distribution:
    """Return the mean ECDF of samples that are not empty, one a seed; there is no band where all are equal, or there is only one.

    Raises ValueError without samples.
    """
    ordered = [np.sort(sample) for sample in samples]
    values = np.unique(np.concatenate(ordered))
    if values.size > MOST_STEPS:
        values = values[np.linspace(0, values.size - 1, MOST_STEPS).round().astype(np.int64)]
    mean, band = mean_share(ordered, values, level)
    edges = np.concatenate([values[:1], values])
    return Distribution(edges, _from_0(mean), None if band is None else (_from_0(band[0]), _from_0(band[1])))


def mean_share(
    ordered: Sequence[FloatArray], values: FloatArray, level: float = LEVEL
) -> tuple[FloatArray, tuple[FloatArray, FloatArray] | None]:
    """Return the mean share at or below ``values`` of samples in order, and its band, None as in `mean_distribution`."""
    shares = np.array([np.searchsorted(sample, values, side="right") / sample.size for sample in ordered])
    mean: FloatArray = shares.mean(axis=0)
    count = len(ordered)
    if count == 1 or all(np.array_equal(ordered[0], other) for other in ordered[1:]):
        return mean, None
    half = t_critical(level, count - 1) * shares.std(axis=0, ddof=1) / np.sqrt(count)
    return mean, (np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1))


def _from_0(share: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], share])
