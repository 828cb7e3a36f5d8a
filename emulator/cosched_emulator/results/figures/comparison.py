"""Tables that compare the summaries of several runs, for terminals and as Markdown.

One column per run, one row per figure. The best value of a row is marked if one direction is clearly better, if the shown
values differ, and if at least two runs are compared. If the runs completed different jobs, only the numbers of jobs are
comparable: a run that kills slow jobs has better means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from cosched_hwmodel.cli.terminal.text_table import align

Kind = Literal["count", "figure", "seconds", "share", "joules"]
Better = Literal["low", "high", ""]
Value = TypeVar("Value")
NOTHING = "–"  # noqa: RUF001  # for a figure that does not exist
_ENERGY_UNITS = ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ"), (1.0, "J"))
_UNITS = ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (float("inf"), 3600.0, "h"))


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: the figure's place in a summary (``*`` stands for the population), and how to show it."""

    label: str
    path: tuple[str, ...]
    kind: Kind = "figure"
    better: Better = "low"
    unit: str = ""
    optional: bool = False  # left out if no run has it
    any_jobs: bool = False  # comparable also between runs that completed different jobs
    change: bool = False  # over several seeds, also shown in percent of the first column's


COMMON = "common"  # the population of jobs that completed in all runs; see `common_jobs`
# Nodes times work: what counts as a job's node depends on the policy's shape, see `efficiency_rows`.
EFFICIENCY = Figure("efficiency, nodes", ("machine", "node_efficiency"), "share", "high")
FIGURES = (
    Figure("jobs counted", ("selection", "counted"), "count", ""),
    Figure("completed in all runs", (COMMON, "wait_s", "count"), "count", "", optional=True),
    Figure("completed", ("states", "COMPLETED"), "count", "high", any_jobs=True),
    Figure("rejected", ("states", "REJECTED"), "count", any_jobs=True),
    Figure("killed at limit", ("killed", "count"), "count", any_jobs=True),
    Figure("killed, share", ("killed", "share"), "share", any_jobs=True),
    Figure("wait, mean", ("*", "wait_s", "mean"), "seconds", change=True),
    Figure("wait, p95", ("*", "wait_s", "p95"), "seconds", change=True),
    Figure("response, mean", ("*", "response_s", "mean"), "seconds", change=True),
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


@dataclass(frozen=True, slots=True)
class Row:
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
) -> list[Row]:
    """Return one row per figure.

    ``population`` is ``finished``, ``all`` or `COMMON`. ``mark_best`` is false where the runs are of different workloads, and
    ``same_jobs`` where they completed different jobs. ``shapes`` by run: the shape of its policy, None where it is not known;
    runs of different shapes have different rows for `EFFICIENCY`.
    """
    rows: list[Row] = []
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
            EFFICIENCY if shape is None else replace(EFFICIENCY, label=f"efficiency, shape {shape}"),
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


def text_table(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Return an aligned table for a terminal; ``*`` marks the best values."""
    marked = any(any(row.best) for row in rows)
    lines = [["", "", *names]]
    for row in rows:
        texts = (text + ("*" if best else " ") for text, best in zip(row.texts, row.best, strict=True))
        lines.append([row.label, row.unit, *(texts if marked else row.texts)])
    if marked:
        lines[0][2:] = [name + " " for name in names]
    shown = align(lines, range(2, len(lines[0])))
    shown.insert(1, "-" * max(len(line) for line in shown))
    if marked:
        shown.append("* best of the row")
    return "\n".join(shown) + "\n"


def markdown_table(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Return the table as Markdown; the best values are bold."""
    lines = [_markdown_line(["", *names]), _markdown_line(["---", *["---:" for _ in names]])]
    for row in rows:
        label = f"{row.label} [{row.unit}]" if row.unit else row.label
        texts = (f"**{text}**" if best else text for text, best in zip(row.texts, row.best, strict=True))
        lines.append(_markdown_line([label, *texts]))
    return "\n".join(lines) + "\n"


def time_unit(largest_s: float) -> tuple[float, str]:
    """Return (seconds, name) of the most readable unit for times up to ``largest_s``."""
    for limit_s, seconds, name in _UNITS:
        if largest_s < limit_s:
            return seconds, name
    return _UNITS[-1][1:]


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
    unit = figure.unit
    match figure.kind:
        case "count":
            texts = [NOTHING if value is None else f"{value:,.0f}" for value in values]
        case "seconds":
            size, unit = time_unit(max((value for value in values if value is not None), default=0.0))
            texts = number_texts([None if value is None else value / size for value in values])
        case "joules":
            size, unit = energy_unit(max((value for value in values if value is not None), default=0.0))
            texts = number_texts([None if value is None else value / size for value in values])
        case "share":
            unit = "%"
            texts = number_texts([None if value is None else 100 * value for value in values])
        case "figure":
            texts = number_texts(values)
    return unit, texts


def _row(figure: Figure, values: Sequence[float | None], *, mark_best: bool) -> Row:
    unit, texts = figure_texts(figure, values)
    return Row(figure.label, unit, tuple(texts), _best(figure.better if mark_best else "", values, texts))


def _best(better: Better, values: Sequence[float | None], texts: Sequence[str]) -> tuple[bool, ...]:
    known = [value for value in values if value is not None]
    if not better or len(known) < 2 or len(set(texts) - {NOTHING}) < 2:
        return (False,) * len(values)
    best = min(known) if better == "low" else max(known)
    shown = texts[values.index(best)]  # values that print alike are marked alike
    return tuple(text == shown for text in texts)


def _markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
