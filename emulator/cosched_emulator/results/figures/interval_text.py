"""Intervals over seeds as text, for the tables of runs and of studies."""

from __future__ import annotations

from collections.abc import Sequence

from cosched_emulator.results.figures.comparison import NOTHING, Figure, energy_unit, number_texts, time_unit
from cosched_emulator.statistics.intervals import Interval


def unit_of(figure: Figure, means: Sequence[float | None]) -> tuple[float, str]:
    """Return (value of the unit, name) in which the means of a figure read best."""
    match figure.kind:
        case "seconds":
            return time_unit(max((mean for mean in means if mean is not None), default=0.0))
        case "joules":
            return energy_unit(max((mean for mean in means if mean is not None), default=0.0))
        case "share":
            return 0.01, "%"
        case _:
            return 1.0, figure.unit


def interval_texts(
    figure: Figure, intervals: Sequence[Interval | None], within: Sequence[Interval | None] = ()
) -> tuple[str, list[str]]:
    """Return the unit that the intervals of a figure share, and each as ``12.5 ± 0.3``: mean, half of the interval's width.

    ``within`` are intervals within single runs; where there is one, the text is ``12.5 [11.9 to 13.4]``, with its bounds.
    """
    means = [None if found is None else found.mean for found in intervals]
    size, unit = unit_of(figure, means)
    shown = number_texts([None if mean is None else mean / size for mean in means])
    halves = number_texts([found.half / size if found is not None and found.exists else None for found in intervals])
    bounds = [_bounds(found, size) for found in within] or [""] * len(shown)
    return unit, [
        f"{text} {bound}" if bound else text if half == NOTHING else f"{text} ± {half}"
        for text, half, bound in zip(shown, halves, bounds, strict=True)
    ]


def _bounds(found: Interval | None, size: float) -> str:
    if found is None or not found.exists:
        return ""
    low, high = number_texts([found.low / size, found.high / size])
    return f"[{low} to {high}]"


def change_text(change: Interval | None) -> str:
    """Return a change in percent with its interval, ``-12.3 (-15.0 to -9.6)``; empty where there is none."""
    if change is None:
        return ""
    if not change.exists:
        return f"{change.mean:+.1f}"
    return f"{change.mean:+.1f} ({change.low:+.1f} to {change.high:+.1f})"
