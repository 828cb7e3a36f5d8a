"""Tables that compare policies over several seeds: means with intervals, and changes that are paired by seed.

The interval of a figure is that of its mean over seeds. A best is marked only where the interval of what it differs by from every
other column, paired by seed, excludes 0: in percent for figures that have a row of changes, else as a difference. Columns that gave
the same figures for every seed have no interval, as nothing was drawn that they depend on; nor has the change between two of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cosched_emulator.results.figures.comparison import (
    EFFICIENCY,
    FIGURES,
    Figure,
    Row,
    efficiency_rows,
    figure_texts,
    is_comparable,
    path_of,
    value_of,
)
from cosched_emulator.results.figures.interval_text import change_text, interval_texts
from cosched_emulator.statistics.by_seed import all_equal, bounds_of, change_of, difference_of, interval_of
from cosched_emulator.statistics.intervals import Interval
from cosched_emulator.statistics.verdicts import Verdict, verdict_above, verdict_below

BySeed = Mapping[int, float]
UNKNOWN_SEED: Final = -1


class Policy:
    """A column: the summaries of the runs of a policy, by seed."""

    def __init__(
        self, name: str, seeds: Sequence[int | None], summaries: Sequence[Mapping[str, Any]], shape: str | None = None
    ) -> None:
        """``shape`` is that of the policy, None where it is not known; a seed is None where it is not."""
        self.name = name
        self.shape = shape
        self.summaries = {
            UNKNOWN_SEED if seed is None else seed: summary for seed, summary in zip(seeds, summaries, strict=True)
        }
        self.repeats = all_equal(summaries)  # every seed gave the same

    def by_seed(self, figure: Figure, population: str) -> dict[int, float] | None:
        """Return a figure by seed, without the seeds for which it does not exist; None if it exists for none."""
        found = {seed: value_of(summary, figure, population) for seed, summary in self.summaries.items()}
        return {seed: value for seed, value in found.items() if value is not None} or None


@dataclass(frozen=True, slots=True)
class SeedRow:
    """A figure of all columns."""

    figure: Figure
    intervals: tuple[Interval | None, ...]
    changes: tuple[Interval | None, ...]  # against the first column, in percent; empty: the figure has no such row
    best: tuple[bool, ...]
    unclear: bool  # the columns differ, and the intervals of the differences do not tell the best


def compare_seeds(
    policies: Sequence[Policy],
    population: str = "finished",
    figures: Sequence[Figure] = FIGURES,
    *,
    paired: bool,
    same_jobs: bool = True,
) -> list[SeedRow]:
    """Return one row per figure, as `comparison.compare` for single runs.

    ``paired``: the columns have the same seeds and, for each seed, the same workload; otherwise nothing is compared. ``same_jobs``
    is false where the same jobs did not complete, or count, for each seed.
    """
    rows: list[SeedRow] = []
    for figure in figures:
        values = [policy.by_seed(figure, population) for policy in policies]
        if figure.optional and not any(values):
            continue
        compared = paired and is_comparable(figure, population, same_jobs=same_jobs)
        shapes = [policy.shape for policy in policies]
        split = efficiency_rows(values, shapes) if figure is EFFICIENCY else [(figure, values)]
        rows += [_row(one, policies, some, compared=compared) for one, some in split]
    return rows


def rows_of(rows: Sequence[SeedRow], first: str) -> list[Row]:
    """Return the rows as text, with those of the changes against column ``first``, each behind its figure's."""
    shown: list[Row] = []
    for row in rows:
        shown.append(Row(row.figure.label, *cells_of(row), row.best))
        if row.changes:
            texts = tuple([_with_verdict(change) for change in row.changes])
            shown.append(Row(f"  change against {first}, %", "", ("", *texts[1:]), (False,) * len(texts)))
    return shown


def cells_of(row: SeedRow) -> tuple[str, tuple[str, ...]]:
    """Return the unit and the cells of a figure; numbers of jobs that are the same for all seeds are whole."""
    varies = any(found is not None and found.exists and found.half > 0 for found in row.intervals)
    if row.figure.kind == "count" and not varies:
        unit, texts = figure_texts(row.figure, [None if found is None else found.mean for found in row.intervals])
    else:
        unit, texts = interval_texts(row.figure, row.intervals)
    return unit, tuple(texts)


def is_lower(change: Interval) -> str:
    """Return ``yes`` if a change is below 0, ``no`` if it is above, and nothing where its interval includes 0."""
    if verdict_below(change) is Verdict.YES:
        return "yes"
    return "no" if verdict_above(change) is Verdict.YES else ""


def rows_as_json(rows: Sequence[SeedRow], population: str) -> list[dict[str, Any]]:
    """Return the rows for JSON: an object for each figure, times in seconds and shares as shares; bounds may be null."""
    return [
        {
            "label": row.figure.label,
            "path": list(path_of(row.figure, population)),
            "intervals": [None if found is None else {**bounds_of(found), "seeds": found.n} for found in row.intervals],
            "change_percent": [
                None if change is None else {**bounds_of(change), "seeds": change.n, "lower": is_lower(change) or None}
                for change in row.changes
            ],
            "best": list(row.best),
        }
        for row in rows
    ]


def _row(figure: Figure, policies: Sequence[Policy], values: Sequence[BySeed | None], *, compared: bool) -> SeedRow:
    intervals = tuple(
        [
            None if its is None else _known(interval_of(its), repeats=policy.repeats)
            for policy, its in zip(policies, values, strict=True)
        ]
    )
    changes: list[Interval | None] = []
    if figure.change and compared:
        changes = [None, *(_change(policies, values, index, 0) for index in range(1, len(values)))]
    best = _best(figure, policies, values) if compared and figure.better else -1
    return SeedRow(
        figure,
        intervals,
        tuple(changes) if any(change is not None for change in changes) else (),
        tuple([index == best for index in range(len(values))]),
        best is None,
    )


def _best(figure: Figure, policies: Sequence[Policy], values: Sequence[BySeed | None]) -> int | None:
    """Return which column is best, -1 where there is nothing to choose; None where the intervals do not tell."""
    means = {index: sum(its.values()) / len(its) for index, its in enumerate(values) if its}
    if len(set(means.values())) < 2:
        return -1
    low = figure.better == "low"
    best = (min if low else max)(means, key=means.__getitem__)
    is_better = verdict_below if low else verdict_above
    for other in means:
        if other == best:
            continue
        found = _change(policies, values, best, other) if figure.change else None
        found = _difference(policies, values, best, other) if found is None else found
        if found is None or found.n < len(policies[best].summaries) or is_better(found) is not Verdict.YES:
            return None
    return best


def _change(policies: Sequence[Policy], values: Sequence[BySeed | None], index: int, base: int) -> Interval | None:
    """Return by how many percent a column is above column ``base``, paired by seed."""
    found = change_of(values[index] or {}, values[base] or {})
    return _known(found, repeats=policies[index].repeats and policies[base].repeats)


def _difference(policies: Sequence[Policy], values: Sequence[BySeed | None], index: int, base: int) -> Interval | None:
    found = difference_of(values[index] or {}, values[base] or {})
    return _known(found, repeats=policies[index].repeats and policies[base].repeats)


def _known(found: Interval | None, *, repeats: bool) -> Interval | None:
    """Return an interval without its bounds where every seed gave the same: they would say nothing."""
    return found._replace(low=math.nan, high=math.nan) if found is not None and repeats else found


def _with_verdict(change: Interval | None) -> str:
    return "" if change is None else f"{change_text(change)} {is_lower(change)}".rstrip()
