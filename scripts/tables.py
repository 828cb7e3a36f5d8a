"""Markdown tables: cells, rows, and a page whose tables are replaced between two markers."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

WIDTH: Final = 120  # of a line of Markdown
NOTHING: Final = "-"  # stands for a missing figure


def number(value: float | None) -> str:
    """Return a figure for a table cell."""
    if value is None or math.isnan(value):
        return NOTHING
    if value >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"
    return "0.00" if text == "-0.00" else text


def percent(value: float | None) -> str:
    """Return a percentage of change for a table cell."""
    if value is None or math.isnan(value):
        return NOTHING
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def table_head(labels: Sequence[str], figures: Collection[str] = ()) -> list[str]:
    """Return the first two lines of a table: columns of words, then columns of figures."""
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
    lines = [part for line in body for part in wrapped(line)]
    page.write_text(before + begin + "\n\n" + "\n".join(lines) + end + rest.split(end, 1)[1], encoding="utf-8")


def wrapped(line: str) -> list[str]:
    """Return a line of Markdown as lines of 120 characters at most; a row of a table stays whole."""
    if len(line) <= WIDTH or line.startswith("|"):
        return [line]
    indent = "  " if line.startswith("- ") else ""
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def aligned_table(header: Sequence[str], rows: Iterable[Sequence[object]], words: int) -> list[str]:
    """Return the lines of a table whose first ``words`` columns are text, aligned to the left."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        columns = enumerate(zip(row, widths, strict=True))
        padded = [cell.ljust(width) if column < words else cell.rjust(width) for column, (cell, width) in columns]
        return f"| {' | '.join(padded)} |"

    rules = ["-" * width if column < words else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return [line(cells[0]), line(rules), *map(line, cells[1:]), ""]
