"""Markdown tables: cells, rows, and a page whose tables are replaced between two markers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from scripts.intervals import mean_interval

NOTHING: Final = "-"  # stands for a missing figure
CLAIMS_HEAD: Final = ("| claim | | measured | holds |", "|---|---|---|---|")


def number(value: float | None) -> str:
    """Return a figure for a table cell."""
    if value is None or math.isnan(value):
        return NOTHING
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"


def cell(values: Collection[float]) -> str:
    """Return mean ± half width for a table cell; the mean alone for a single value."""
    if not values:
        return NOTHING
    mean, half = mean_interval(list(values))
    return number(mean) if math.isnan(half) else f"{number(mean)} ± {number(half)}"


def percent(value: float | None) -> str:
    """Return a percentage of change for a table cell."""
    if value is None or math.isnan(value):
        return NOTHING
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def percent_cell(values: Collection[float]) -> str:
    """Return mean ± half width of percentages of change for a table cell."""
    if not values:
        return NOTHING
    mean, half = mean_interval(list(values))
    return percent(mean) if math.isnan(half) else f"{percent(mean)} ± {half:.1f}"


def claim(text: str, label: str, measured: str, holds: bool) -> str:
    """Return the table row of a claim of the paper."""
    return f"| {text} | {label} | {measured} | {'yes' if holds else '**no**'} |"


def table_head(labels: Sequence[str], figures: Collection[str] = ()) -> list[str]:
    """Return the first two lines of a table: columns of words, then of figures."""
    return [table_row(labels, [*figures]), "|" + "---|" * len(labels) + "---:|" * len(figures)]


def table_row(labels: Sequence[str], cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return "| " + " | ".join([*labels, *cells]) + " |"


def write_tables(page: Path, paper: str, title: str, body: Sequence[str], script: str = "reproduce") -> None:
    """Write ``body`` between the markers of ``page``, which name the script; text outside them stays unchanged."""
    begin, end = f"<!-- tables: written by scripts/{script} {paper} -->", "<!-- end of tables -->"
    text = page.read_text(encoding="utf-8") if page.exists() else f"# {title}\n\n{begin}\n{end}\n"
    if begin not in text or end not in text:
        raise SystemExit(f"{script}: {page} has lost its markers {begin} and {end}")
    before, rest = text.split(begin, 1)
    page.write_text(before + begin + "\n\n" + "\n".join(body) + end + rest.split(end, 1)[1], encoding="utf-8")


def aligned_table(header: Sequence[str], rows: Iterable[Sequence[object]], words: int) -> list[str]:
    """Return the lines of a table whose first ``words`` columns are text and stand to the left."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        columns = enumerate(zip(row, widths, strict=True))
        padded = [cell.ljust(width) if column < words else cell.rjust(width) for column, (cell, width) in columns]
        return f"| {' | '.join(padded)} |"

    rules = ["-" * width if column < words else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return [line(cells[0]), line(rules), *map(line, cells[1:]), ""]
