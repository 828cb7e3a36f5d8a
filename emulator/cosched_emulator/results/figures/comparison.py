"""Tables that compare the summaries of several runs.

One column per run, one row per figure. The best value of a row is marked if one direction is clearly better, if the shown
values differ, and if at least two runs are compared. If the runs completed different jobs, only the numbers of jobs are
comparable: a run that kills slow jobs has better means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from cosched_emulator.statistics.intervals import (
    Interval,
    Verdict,
    all_equal,
    amount_of,
    bounds_of,
    change_of,
    difference_of,
    verdict_above,
    verdict_below,
)
from cosched_hwmodel.quick_classes import frozen
from cosched_terminal.tables import align

Kind = Literal["count", "figure", "seconds", "share", "joules"]
Better = Literal["low", "high", ""]
Value = TypeVar("Value")
NOTHING = "–"  # noqa: RUF001  # for a figure that does not exist
_ENERGY_UNITS = ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ"), (1.0, "J"))
_UNITS = ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (float("inf"), 3600.0, "h"))
TimeUnit: TypeAlias = tuple[float, str]  # seconds, name


class Figure(NamedTuple):
    """One row: the figure's place in a summary (``*`` stands for the population), and how to show it."""

    label: str
    path: tuple[str, ...]
    kind: Kind = "figure"
    better: Better = "low"
    unit: str = ""  # of seconds: empty, or one of `_UNITS` instead of the one that suits the values
    optional: bool = False  # left out if no run has it
    any_jobs: bool = False  # comparable also between runs that completed different jobs
    change: bool = False  # over several seeds, also shown in percent of the first column's


# Ends of names, also of studies' columns
_PROPORTIONS: Final = ("utilisation", "node_sharing", "killed_share", "h1", "hshk", "floor")


def most_of(column: str) -> float:
    """Return what a figure cannot be above: 1 of a proportion."""
    return 1.0 if column.endswith(_PROPORTIONS) else math.inf


COMMON = "common"  # the population of jobs that completed in all runs; see `common_jobs`
# Nodes times work: what counts as a job's node depends on the policy's shape, see `efficiency_rows`.
EFFICIENCY = Figure("efficiency, nodes", ("machine", "node_efficiency"), "share", "high")
RESPONSE: Final = Figure("response, mean", ("*", "response_s", "mean"), "seconds", change=True)
FIGURES = (
    Figure("jobs counted", ("selection", "counted"), "count", ""),
    Figure("completed in all runs", (COMMON, "wait_s", "count"), "count", "", optional=True),
    Figure("completed", ("states", "COMPLETED"), "count", "high", any_jobs=True),
    Figure("rejected", ("states", "REJECTED"), "count", any_jobs=True),
    Figure("killed at limit", ("killed", "count"), "count", any_jobs=True),
    Figure("killed, share", ("killed", "share"), "share", any_jobs=True),
    Figure("wait, mean", ("*", "wait_s", "mean"), "seconds", change=True),
    Figure("wait, p95", ("*", "wait_s", "p95"), "seconds", change=True),
    RESPONSE,
    Figure("response, p95", ("*", "response_s", "p95"), "seconds", change=True),
    Figure("bounded slowdown 10 s, mean", ("*", "bounded_slowdown_10s", "mean"), change=True),
    Figure("bounded slowdown 10 s, p95", ("*", "bounded_slowdown_10s", "p95"), change=True),
    Figure("bounded slowdown 60 s, mean", ("*", "bounded_slowdown_60s", "mean"), change=True),
    Figure("bounded slowdown 60 s, p95", ("*", "bounded_slowdown_60s", "p95"), change=True),
    Figure("relative response 60 s, mean", ("*", "relative_response_60s", "mean"), change=True),
    Figure("penalised run time, mean", ("*", "penalised_percent", "mean"), unit="%"),
    Figure("penalised run time, p95", ("*", "penalised_percent", "p95"), unit="%"),
    Figure("makespan", ("machine", "makespan_s"), "seconds", change=True),
    Figure("throughput", ("machine", "jobs_per_hour"), better="high", unit="jobs/h"),
    Figure("queue length, mean", ("machine", "mean_queue_length"), unit="jobs"),
    Figure("utilisation, threads", ("machine", "utilisation"), "share", ""),
    Figure("utilisation, nodes", ("machine", "node_utilisation"), "share", ""),
    EFFICIENCY,
    Figure("node time shared", ("machine", "node_sharing"), "share", ""),
    Figure("offered load", ("machine", "offered_load"), "share", ""),
    Figure("energy", ("energy", "total_j"), "joules", optional=True, change=True),
    Figure("energy of busy cores", ("energy", "busy_j"), "joules", optional=True),
    Figure("energy by the formula", ("energy", "formula_j"), "joules", "", optional=True),
    Figure("energy of a job, mean", ("energy", "*", "energy_j", "mean"), "joules", optional=True),
    Figure("power, mean", ("energy", "mean_w"), better="", unit="W", optional=True),
    Figure("preemptions", ("machine", "preemptions"), "count", "", optional=True),
    Figure("preemptions a preempted job", ("machine", "preemptions_per_job"), better="", optional=True),
    Figure("swap space taken, most", ("machine", "peak_swap_mb"), "count", "", "MB", optional=True),
)


class FigureRow(NamedTuple):
    """A figure of all runs as text, with their common unit and the best ones marked."""

    label: str
    unit: str
    texts: tuple[str, ...]
    best: tuple[bool, ...]


def compare(
    summaries: Sequence[Mapping[str, Any]],
    population: str = "finished",
    figures: Sequence[Figure] = FIGURES,
    *,
    mark_best: bool = True,
    same_jobs: bool = True,
    shapes: Sequence[str | None] = (),
) -> list[FigureRow]:
    """Return one row per figure.

    ``population`` is ``finished``, ``all`` or `COMMON`. ``mark_best`` is false where the runs are of different workloads, and
    ``same_jobs`` where they completed different jobs. ``shapes`` by run: the shape of its policy, None where it is not known;
    runs of different shapes have different rows for `EFFICIENCY`.
    """
    rows: list[FigureRow] = []
    for figure in figures:
        values = [value_of(summary, figure, population) for summary in summaries]
        if figure.optional and all(value is None for value in values):
            continue
        comparable = is_comparable(figure, population, same_jobs=same_jobs)
        split = efficiency_rows(values, shapes) if figure is EFFICIENCY and shapes else [(figure, values)]
        rows += [_row(one, some, mark_best=mark_best and comparable) for one, some in split]
    return rows


def is_comparable(figure: Figure, population: str, *, same_jobs: bool) -> bool:
    """Tell whether a figure of runs of one workload can be compared; ``same_jobs``: the same jobs completed, and count, in all."""
    return same_jobs or figure.any_jobs or (population == COMMON and figure.path[0] == "*")


def efficiency_rows(
    values: Sequence[Value | None], shapes: Sequence[str | None]
) -> list[tuple[Figure, list[Value | None]]]:
    """Return a row of `EFFICIENCY` for each shape, with the values of the runs that have it.

    On whole nodes (shape ``nodes``) a job's nodes are all its own or shared on purpose. Under ``threads`` a node counts for
    each job that has a thread of it, so many small jobs on a node count it many times: the two cannot be compared.
    """
    return [
        (
            EFFICIENCY if shape is None else EFFICIENCY._replace(label=f"efficiency, shape {shape}"),
            [value if its == shape else None for value, its in zip(values, shapes, strict=True)],
        )
        for shape in dict.fromkeys(shapes)
    ]


def value_of(summary: Mapping[str, Any], figure: Figure, population: str) -> float | None:
    """Return the figure of one summary, or None if it does not exist."""
    value: Any = summary
    for key in path_of(figure, population):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, int | float) else None


def path_of(figure: Figure, population: str) -> tuple[str, ...]:
    """Return where a figure of a population lies in a summary."""
    return tuple([population if key == "*" else key for key in figure.path])


def text_table(names: Sequence[str], rows: Sequence[FigureRow]) -> str:
    """Return an aligned table for a terminal; ``*`` marks the best values."""
    marked = any(any(row.best) for row in rows)
    lines = [["", "", *names]]
    for row in rows:
        texts = (text + ("*" if best else " ") for text, best in zip(row.texts, row.best, strict=True))
        lines.append([row.label, row.unit, *(texts if marked else row.texts)])
    if marked:
        lines[0][2:] = [name + " " for name in names]
    shown = align(lines, range(2, len(lines[0])), rule=True)
    if marked:
        shown.append("* best of the row")
    return "\n".join(shown) + "\n"


def time_unit(largest_s: float) -> TimeUnit:
    """Return the most readable unit for times up to ``largest_s``."""
    for limit_s, seconds, name in _UNITS:
        if largest_s < limit_s:
            return seconds, name
    return _UNITS[-1][1:]


def job_time_unit(summaries: Sequence[Mapping[str, Any]], population: str = "finished") -> TimeUnit:
    """Return the unit in which the mean responses of all runs read best: one for all times of jobs on a page."""
    means = [value_of(summary, RESPONSE, population) for summary in summaries]
    return time_unit(max((mean for mean in means if mean is not None), default=0.0))


def in_unit(figures: Sequence[Figure], unit: TimeUnit) -> list[Figure]:
    """Return the figures, those that are times of jobs in ``unit``; times of a run, such as its makespan, have their own."""
    return [
        figure._replace(unit=unit[1])
        if figure.kind == "seconds" and any(word in key for key in figure.path for word in ("wait", "response"))
        else figure
        for figure in figures
    ]


def usual_figures(summaries: Sequence[Mapping[str, Any]], population: str = "finished") -> list[Figure]:
    """Return `FIGURES` with one unit for all times of jobs."""
    return in_unit(FIGURES, job_time_unit(summaries, population))


def energy_unit(largest_j: float) -> tuple[float, str]:
    """Return (joules, name) of the most readable unit for energies up to ``largest_j``."""
    return next(((joules, name) for joules, name in _ENERGY_UNITS if largest_j >= joules), _ENERGY_UNITS[-1])


def number_texts(values: Sequence[float | None]) -> list[str]:
    """Return numbers with a precision that suits the largest of them, and with separated thousands."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    places = 0 if largest >= 1000 else 1 if largest >= 100 else 2
    # Rounding may leave a negative zero; adding 0.0 makes it positive.
    return [NOTHING if value is None else f"{round(value, places) + 0.0:,.{places}f}" for value in values]


def figure_texts(figure: Figure, values: Sequence[float | None]) -> tuple[str, list[str]]:
    """Return the unit that the values of a figure share, and the values as text."""
    if figure.kind == "count":
        return figure.unit, [NOTHING if value is None else f"{value:,.0f}" for value in values]
    size, unit = unit_of(figure, values)
    if figure.kind == "share":  # by a product: a hundredth is no float
        return unit, number_texts([None if value is None else 100 * value for value in values])
    return unit, number_texts([None if value is None else value / size for value in values])


def _row(figure: Figure, values: Sequence[float | None], *, mark_best: bool) -> FigureRow:
    unit, texts = figure_texts(figure, values)
    return FigureRow(figure.label, unit, tuple(texts), _best(figure.better if mark_best else "", values, texts))


def _best(better: Better, values: Sequence[float | None], texts: Sequence[str]) -> tuple[bool, ...]:
    known = [value for value in values if value is not None]
    if not better or len(known) < 2 or len(set(texts) - {NOTHING}) < 2:
        return (False,) * len(values)
    best = min(known) if better == "low" else max(known)
    shown = texts[values.index(best)]  # values that print alike are marked alike
    return tuple(text == shown for text in texts)


# Intervals over seeds as text, for the tables of runs and of studies.


def unit_of(figure: Figure, means: Sequence[float | None]) -> tuple[float, str]:
    """Return (value of the unit, name) in which the means of a figure read best."""
    match figure.kind:
        case "seconds" if figure.unit:
            return next((size, name) for _, size, name in _UNITS if name == figure.unit)
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
    """Return the unit that the intervals of a figure share, and each as ``12.5 ± 0.3``: mean, and how far the interval goes either way.

    Where one goes further up than down, all have their bounds: ``12.5 (11.9 to 13.4)``. ``within`` are intervals within single runs;
    where there is one, the text is ``12.5 [11.9 to 13.4]``.
    """
    means = [None if found is None else found.mean for found in intervals]
    size, unit = unit_of(figure, means)
    shown = number_texts([None if mean is None else mean / size for mean in means])
    known = [found if found is not None and found.exists else None for found in intervals]
    down, up = (number_texts(lengths) for lengths in error_lengths(known, size))
    over = [
        "" if found is None else f" ± {half}" if down == up else f" ({_bounds(found, size)})"
        for found, half in zip(known, up, strict=True)
    ]
    for place, found in enumerate(within):
        if found is not None and found.exists:
            over[place] = f" [{_bounds(found, size)}]"
    return unit, [f"{text}{interval}" for text, interval in zip(shown, over, strict=True)]


def error_lengths(intervals: Sequence[Interval | None], size: float = 1.0) -> list[list[float]]:
    """Return how far intervals go below and above the means, in units of ``size``; 0 where there is no interval."""
    found = [interval if interval is not None and interval.exists else None for interval in intervals]
    return [
        [0.0 if each is None else (each.mean - each.low) / size for each in found],
        [0.0 if each is None else (each.high - each.mean) / size for each in found],
    ]


def _bounds(found: Interval, size: float) -> str:
    # Each as exact as its own size asks
    return " to ".join(number_texts([bound / size])[0] for bound in (found.low, found.high))


_TELLING: Final = 1e6  # percent


def change_text(change: Interval | None, places: int = 1, unit: str = "") -> str:
    """Return a change in percent with its interval, ``-12.3 (-15.0 to -9.6)``; empty where there is none.

    ``unit`` stands behind the mean: ``-12 % (-15 to -10)``. A bound that says nothing is told by its size: ``+5e+43``.
    """
    if change is None:
        return ""
    parts = (change.mean, change.low, change.high)
    mean, low, high = (f"{value:+.{places}f}" if abs(value) < _TELLING else f"{value:+.0e}" for value in parts)
    return f"{mean}{unit}" + f" ({low} to {high})" * change.exists


# Tables that compare policies over several seeds: means with intervals, and changes that are paired by seed.
#
# The interval of a figure is that of its mean over seeds. A best is marked only where the interval of what it differs
# by from every other column, paired by seed, excludes 0: in percent for figures that have a row of changes, else as a
# difference. Columns that gave the same figures for every seed have no interval, as nothing was drawn that they depend
# on; nor has the change between two of them.

BySeed = Mapping[int, float]
UNKNOWN_SEED: Final = -1


class PolicyRuns:
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


@frozen
class SeedRow:
    """A figure of all columns."""

    figure: Figure
    intervals: tuple[Interval | None, ...]
    changes: tuple[Interval | None, ...]  # against the first column, in percent; empty: the figure has no such row
    best: tuple[bool, ...]
    unclear: bool  # the columns differ, and the intervals of the differences do not tell the best


def compare_seeds(
    policies: Sequence[PolicyRuns],
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
        rows += [_seeds_row(one, policies, some, compared=compared) for one, some in split]
    return rows


def rows_of(rows: Sequence[SeedRow], first: str) -> list[FigureRow]:
    """Return the rows as text, with those of the changes against column ``first``, each behind its figure's."""
    shown: list[FigureRow] = []
    for row in rows:
        shown.append(FigureRow(row.figure.label, *cells_of(row.figure, row.intervals), row.best))
        if row.changes:
            texts = ["" if each is None else f"{change_text(each)} {is_lower(each)}".rstrip() for each in row.changes]
            shown.append(FigureRow(f"  change against {first}, %", "", ("", *texts[1:]), (False,) * len(texts)))
    return shown


def cells_of(
    figure: Figure, intervals: Sequence[Interval | None], within: Sequence[Interval | None] = ()
) -> tuple[str, tuple[str, ...]]:
    """Return the unit and the cells of a figure, as `interval_texts`; numbers of jobs that are the same for all seeds are whole."""
    varies = any(found is not None and found.exists and found.half > 0 for found in intervals)
    if figure.kind == "count" and not varies:
        unit, texts = figure_texts(figure, [None if found is None else found.mean for found in intervals])
    else:
        unit, texts = interval_texts(figure, intervals, within)
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


def _seeds_row(
    figure: Figure, policies: Sequence[PolicyRuns], values: Sequence[BySeed | None], *, compared: bool
) -> SeedRow:
    intervals = tuple(
        [
            None if its is None else _known(amount_of(its, most=most_of("_".join(figure.path))), repeats=policy.repeats)
            for policy, its in zip(policies, values, strict=True)
        ]
    )
    changes: list[Interval | None] = []
    if figure.change and compared:
        changes = [None, *(_paired(change_of, policies, values, index, 0) for index in range(1, len(values)))]
    best = _seeds_best(figure, policies, values) if compared and figure.better else -1
    return SeedRow(
        figure,
        intervals,
        tuple(changes) if any(change is not None for change in changes) else (),
        tuple([index == best for index in range(len(values))]),
        best is None,
    )


def _seeds_best(figure: Figure, policies: Sequence[PolicyRuns], values: Sequence[BySeed | None]) -> int | None:
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
        found = _paired(change_of, policies, values, best, other) if figure.change else None
        found = _paired(difference_of, policies, values, best, other) if found is None else found
        if found is None or found.n < len(policies[best].summaries) or is_better(found) is not Verdict.YES:
            return None
    return best


def _paired(
    of: Callable[[BySeed, BySeed], Interval | None],
    policies: Sequence[PolicyRuns],
    values: Sequence[BySeed | None],
    index: int,
    base: int,
) -> Interval | None:
    """Return by how much a column is above column ``base``, paired by seed."""
    found = of(values[index] or {}, values[base] or {})
    return _known(found, repeats=policies[index].repeats and policies[base].repeats)


def _known(found: Interval | None, *, repeats: bool) -> Interval | None:
    """Return an interval without its bounds where every seed gave the same: they would say nothing."""
    return found._replace(low=math.nan, high=math.nan) if found is not None and repeats else found
