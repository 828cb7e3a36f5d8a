"""Markdown tables: cells, rows, and a page whose tables are replaced between two markers."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from cosched_emulator.statistics.intervals import mean_interval

WIDTH: Final = 120  # of a line of Markdown
NOTHING: Final = "-"  # stands for a missing figure
VERDICTS: Final = (
    "*Holds*: on the means over seeds. *Not shown*: on the means, but the 95 % interval over seeds includes the opposite, or an"
    " order is another one in more seeds than a sign test allows (5 %)."
)
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
    found = mean_interval(list(values))
    return f"{number(found.mean)} ± {number(found.half)}" if found.exists else number(found.mean)


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
    found = mean_interval(list(values))
    return f"{percent(found.mean)} ± {found.half:.1f}" if found.exists else percent(found.mean)


def claim(text: str, label: str, measured: str, holds: bool, shown: bool = True) -> str:
    """Return the table row of a claim of the paper: it ``holds`` on the means; ``shown`` is False if chance may explain that."""
    verdict = "**no**" if not holds else "yes" if shown else "not shown"
    return f"| {text} | {label} | {measured} | {verdict} |"


def shown_by_interval(values: Sequence[float], holds: Callable[[float], bool]) -> bool:
    """Return whether a claim on a mean holds at both ends of its 95 % interval; a single value has no interval and counts itself."""
    found = mean_interval(values)
    return not found.exists or (holds(found.low) and holds(found.high))


def shown_by_seeds(held: int, seeds: int) -> bool:
    """Return whether a claim that holds in ``held`` of the seeds holds in most draws: a sign test at 5 %, or all seeds."""
    return held == seeds or sum([math.comb(seeds, count) for count in range(held, seeds + 1)]) / 2**seeds <= 0.05


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
