"""Intervals of figures by seed, where a figure may not exist under some seeds, or not be above 0.

A figure is a mapping from a seed to its value in the run with that seed. The definitions are those of `intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cosched_emulator.statistics.intervals import LEVEL, Interval, mean_interval, paired_difference, percent_change


def interval_of(values: Mapping[int, float], level: float = LEVEL) -> Interval | None:
    """Return the mean over seeds with its interval; None without values, and where one is not finite."""
    found = [*values.values()]
    return mean_interval(found, level) if found and all(map(math.isfinite, found)) else None


def change_of(values: Mapping[int, float], base: Mapping[int, float], level: float = LEVEL) -> Interval | None:
    """Return by how many percent the values are above ``base``, over the seeds that both have (geometric mean).

    None where there are none, or where a value is not above 0.
    """
    mine, theirs = _common(values, base)
    return percent_change(mine, theirs, level) if mine and min(*mine.values(), *theirs.values()) > 0 else None


def difference_of(values: Mapping[int, float], base: Mapping[int, float], level: float = LEVEL) -> Interval | None:
    """Return by how much the values are above ``base``, over the seeds that both have; None where there are none."""
    mine, theirs = _common(values, base)
    return paired_difference(mine, theirs, level) if mine else None


def bounds_of(found: Interval | None, prefix: str = "") -> dict[str, float | None]:
    """Return mean, low and high by name, with ``prefix`` before each name; None for what does not exist."""
    values = (None, None, None) if found is None else found[:3]
    return {
        f"{prefix}{name}": None if value is None or math.isnan(value) else value
        for name, value in zip(("mean", "low", "high"), values, strict=True)
    }


def all_equal(figures: Sequence[object]) -> bool:
    """Tell whether several runs, one a seed, have the same figures: nothing is drawn, so an interval over them says nothing."""
    return len(figures) > 1 and all(other == figures[0] for other in figures)


def _common(values: Mapping[int, float], base: Mapping[int, float]) -> tuple[dict[int, float], dict[int, float]]:
    seeds = [seed for seed in values if seed in base]
    return {seed: values[seed] for seed in seeds}, {seed: base[seed] for seed in seeds}
