"""The tables of a paper's page as data, and the one engine that writes them.

A row has labels, and cells: a text, or a figure of some runs (`Measured`). A row of which no figure exists is left out, and so is a
table without rows, and a section without lines. Rows are counted by the seeds that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from scripts.papers.claims import Claim, claims_table
from scripts.papers.figures import Figures, Where
from scripts.papers.rows import Measured, mean
from scripts.papers.study import BASE, Size
from scripts.tables import table_head, table_row

Columns = Mapping[str, tuple[str, float]]  # column of the study -> its heading, and what a value is multiplied by
Section = Callable[[Figures], list[str]]

Cell = Measured | str | Callable[[Figures], str]  # a function's text does not tell whether the row has run
Row = tuple[Sequence[str], Sequence[Cell]]  # labels and cells


class Headed(NamedTuple):
    """Rows, and others that stand before them if one of these has run."""

    first: Sequence[Row]
    rows: Sequence[Row]


def means(columns: Columns, where: Where) -> list[Measured]:
    """Return the cells of the means of some columns."""
    return [mean(column, where, factor) for column, (_, factor) in columns.items()]


def aside(cell: Measured) -> Callable[[Figures], str]:
    """Return a cell that does not tell whether its row has run."""
    return lambda figures: cell.show(cell.found(figures))


def heads(columns: Columns) -> list[str]:
    """Return the headings of some columns."""
    return [title for title, _ in columns.values()]


def place(where: Where) -> str:
    """Return policy and variant for people."""
    return where.policy if where.variant in (None, BASE) else f"{where.policy}, {where.variant}"


def table(
    labels: Sequence[str],
    titles: Iterable[str],
    rows: Iterable[Row | Headed],
    text: str | Sequence[str] = (),
    *,
    counted: bool = True,
    kept: bool = False,
) -> Section:
    """Return a table behind a text, or lines of it. ``counted``: with the seeds of each row. ``kept``: the text stands without rows."""
    before = [text, ""] if isinstance(text, str) else [*text]
    rows, head = [*rows], table_head((*labels, "seeds") if counted else labels, [*titles])

    def section(figures: Figures) -> list[str]:
        found: list[str] = []
        for row in rows:
            first, others = row if isinstance(row, Headed) else ((), [row])
            there = _lines(figures, others, counted)
            found += [*_lines(figures, first, counted), *there] if there else []
        return [*before, *head, *found, ""] if found else before if kept else []

    return section


def _lines(figures: Figures, rows: Iterable[Row], counted: bool) -> list[str]:
    """Return the lines of rows, without those of which no figure exists."""
    lines = []
    for labels, cells in rows:
        found = {place: cell.found(figures) for place, cell in enumerate(cells) if isinstance(cell, Measured)}
        if found and all(each is None for each in found.values()):
            continue
        texts = [
            cell.show(found[place]) if isinstance(cell, Measured) else cell if isinstance(cell, str) else cell(figures)
            for place, cell in enumerate(cells)
        ]
        runs = [cell for cell in cells if isinstance(cell, Measured) and cell.how == "mean"]
        seeds = [len(figures.values(cell.column, cell.cells[0])) for cell in runs]
        seeds = seeds or [each.n for each in found.values() if each is not None]
        lines.append(table_row((*labels, str(max(seeds)) if seeds else "") if counted else labels, texts))
    return lines


def means_table(
    columns: Columns, cells: Iterable[Where], text: str | Sequence[str] = (), *, kept: bool = False
) -> Section:
    """Return a table of means, a row for each cell that has run."""
    rows = [((where.workload, place(where)), means(columns, where)) for where in cells]
    return table(("", ""), heads(columns), rows, text, kept=kept)


def words(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Section:
    """Return a table of texts."""
    return table(titles, (), [(row, ()) for row in rows], counted=False)


def presets(policies: Mapping[str, Sequence[Any]]) -> Section:
    """Return the table of policies, each with its preset and a text that stands last."""
    rows = [(name, f"`{preset}`", text) for name, (preset, *_, text) in policies.items()]
    return words(("policy", "preset", "what it is"), rows)


def lines(*texts: str) -> Section:
    """Return lines that are always the same."""
    return lambda _: [*texts]


def joined(*parts: Section) -> Section:
    """Return sections one behind the other."""
    return lambda figures: [line for part in parts for line in part(figures)]


def or_else(part: Section, text: str) -> Section:
    """Return a section, or a line where it has none."""
    return lambda figures: part(figures) or [text, ""]


def sections(parts: Mapping[str, Section], level: int = 2) -> Section:
    """Return sections by their titles; one without lines is left out."""

    def section(figures: Figures) -> list[str]:
        found = {title: part(figures) for title, part in parts.items()}
        return [line for title, part in found.items() if part for line in (f"{'#' * level} {title}", "", *part)]

    return section


def claims_of(claims: Callable[..., Sequence[Claim]], *given: Any, text: str = "") -> Section:
    """Return the table of what a function of figures, and what else it is given, claims."""
    return lambda figures: [*([text, ""] if text else []), *claims_table(claims(figures, *given))]


def texts_of(texts: Mapping[str, str]) -> list[str]:
    """Return a list of what some names mean."""
    return [f"- **{name}**: {text}." for name, text in texts.items()]


def page(
    head: Callable[[Figures, Size], Sequence[str]],
    parts: Mapping[str, Section],
    over: Callable[[Figures], Figures] = lambda figures: figures,
) -> Callable[[Figures, Size], list[str]]:
    """Return what writes a page between its markers: what stands first, then its sections. ``over``: which figures it has."""

    def report(found: Figures, size: Size) -> list[str]:
        figures = over(found)
        return [*head(figures, size), "", *sections(parts)(figures)]

    return report
