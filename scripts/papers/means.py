"""The table of means of a paper's page: a row for each cell of the study that has run, a column for each figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scripts.papers.figures import Figures, Where, interval_text
from scripts.tables import table_head, table_row

BASE: Final = "base"  # variant that changes nothing


def means_table(
    figures: Figures, columns: Mapping[str, tuple[str, float]], cells: Sequence[Where], labels: Sequence[str] = ("", "")
) -> list[str]:
    """Return a table of means with their intervals, a row for each cell that has run; empty where none has.

    ``columns``: by column of the study its heading, and what a value is multiplied by.
    """
    rows = [
        table_row(
            (where.workload, place(where), str(figures.seeds(where))),
            [interval_text(figures.mean(key, where), factor=factor) for key, (_, factor) in columns.items()],
        )
        for where in cells
        if figures.seeds(where)
    ]
    return [*table_head((*labels, "seeds"), [title for title, _ in columns.values()]), *rows, ""] if rows else []


def place(where: Where) -> str:
    """Return policy and variant for people."""
    return where.policy if where.variant in (None, BASE) else f"{where.policy}, {where.variant}"
