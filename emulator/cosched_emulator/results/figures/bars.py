"""What the bars of a comparison show: values, texts, error bars, and which of them are bold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cosched_emulator.results.figures.comparison import Figure, figure_texts, value_of
from cosched_emulator.results.figures.interval_text import unit_of
from cosched_emulator.results.figures.seed_comparison import SeedRow, cells_of
from cosched_emulator.statistics.intervals import Interval

COMPARED = (
    Figure("bounded slowdown, mean", ("*", "bounded_slowdown_10s", "mean"), change=True),
    Figure("wait, mean", ("*", "wait_s", "mean"), "seconds", change=True),
    Figure("penalised run time, mean", ("*", "penalised_percent", "mean"), unit="%"),
    Figure("bounded slowdown, p95", ("*", "bounded_slowdown_10s", "p95"), change=True),
    Figure("wait, p95", ("*", "wait_s", "p95"), "seconds", change=True),
    Figure("jobs killed at their limit", ("killed", "count"), "count"),
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


def error_lengths(intervals: Sequence[Interval | None], size: float = 1.0) -> list[list[float]]:
    """Return how far error bars go below and above the means, in units of ``size``; 0 where there is no interval."""
    found = [interval if interval is not None and interval.exists else None for interval in intervals]
    return [
        [0.0 if each is None else (each.mean - each.low) / size for each in found],
        [0.0 if each is None else (each.high - each.mean) / size for each in found],
    ]


def _scaled(figure: Figure, values: Sequence[float | None]) -> list[float | None]:
    size, _ = unit_of(figure, values)
    return [None if value is None else value / size for value in values]
