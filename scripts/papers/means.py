"""Tables of a paper's page: of means, a row for each cell of the study that has run and a column for each figure; and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scripts.papers.figures import Figures, Where, interval_text
from scripts.tables import table_head, table_row

BASE: Final = "base"  # variant that changes nothing
Columns = Mapping[str, tuple[str, float]]  # column of the study -> its heading, and what a value is multiplied by


def titled(text: str, labels: Sequence[str], heads: Sequence[str], rows: Sequence[str]) -> list[str]:
    """Return a table behind a text; empty where it has no row."""
    return [*([text, ""] if text else []), *table_head(labels, heads), *rows, ""] if rows else []


def texts_of(texts: Mapping[str, str]) -> list[str]:
    """Return a list of what some names mean."""
    return [f"- **{name}**: {text}." for name, text in texts.items()]


def means_of(figures: Figures, columns: Columns, where: Where) -> list[str]:
    """Return the means of some columns with their intervals."""
    return [interval_text(figures.mean(key, where), factor=factor) for key, (_, factor) in columns.items()]


def means_table(
    figures: Figures, columns: Columns, cells: Sequence[Where], labels: Sequence[str] = ("", ""), text: str = ""
) -> list[str]:
    """Return a table of means with their intervals, a row for each cell that has run; empty where none has."""
    there = [where for where in cells if figures.seeds(where)]
    rows = [
        table_row((where.workload, place(where), str(figures.seeds(where))), means_of(figures, columns, where))
        for where in there
    ]
    return titled(text, (*labels, "seeds"), [title for title, _ in columns.values()], rows)


def place(where: Where) -> str:
    """Return policy and variant for people."""
    return where.policy if where.variant in (None, BASE) else f"{where.policy}, {where.variant}"
