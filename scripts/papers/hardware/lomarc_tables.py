"""The LOMARC paper's Tables 1 to 3 beside the composite model that is fitted to them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from scripts.tables import NOTHING, number, table_head, table_row

from cosched_hwmodel.composite.calibration.lomarc_fit import (
    IO_RANGE,
    NUMBERS,
    TableEntry,
    fit_lomarc,
    lomarc_node,
    measurements,
    predicted,
)

TABLES: Final = (1, 2, 3)
FITTED_ALONE: Final = (1, 3)  # tables from which the other one is predicted
# Wanted: mean absolute error and the largest, of all numbers and of the table that is predicted.
WANTED: Final = (0.08, 0.35)
WANTED_OTHER: Final = (0.055, 0.2)
WORST: Final = 8


def lomarc_table() -> list[str]:
    """Return the errors by table, those of a table that was not fitted, and the numbers that are off most."""
    node = lomarc_node()
    asked = measurements(TABLES)
    found = predicted(node, asked)
    pairs = [*zip(asked, found, strict=True)]
    (left_out,) = set(TABLES) - set(FITTED_ALONE)
    others = measurements((left_out,))
    alone = predicted(lomarc_node(fit_lomarc(FITTED_ALONE).values), others)
    rows = [_row(f"Table {table}", [pair for pair in pairs if pair[0].table == table]) for table in TABLES]
    rows.append(_row("all three", pairs, WANTED))
    rest = f"Table {left_out}, fitted on {' and '.join(map(str, FITTED_ALONE))} alone"
    rows.append(_row(rest, [*zip(others, alone, strict=True)], WANTED_OTHER))
    both = node.slowdowns("I/O", "I/O")[0]
    worst = sorted(pairs, key=lambda pair: -abs(pair[1] - pair[0].slowdown))[:WORST]
    return [
        f"Slowdowns of synthetic programs on hyperthreaded Xeons. {len(NUMBERS)} numbers are fitted; demands follow from operation,"
        f" type and size of the data, not from the cell. I/O beside I/O, of which the paper prints {IO_RANGE[0]} to {IO_RANGE[1]}, is"
        f" predicted as {both:.2f}, and is in no row.",
        "",
        *table_head(("", "numbers"), ("mean error", "largest", "wanted: mean", "largest")),
        *rows,
        "",
        f"The {WORST} numbers that are off most:",
        "",
        *table_head(("table", "program", "beside"), ("measured", "predicted")),
        *[
            table_row((str(each.table), each.name, each.beside), [number(each.slowdown), number(value)])
            for each, value in worst
        ],
        "",
    ]


def _row(text: str, pairs: Sequence[tuple[TableEntry, float]], wanted: Sequence[float] = ()) -> str:
    """Return how far predictions are off, beside what is wanted."""
    errors = [abs(value - each.slowdown) for each, value in pairs]
    cells = [statistics.fmean(errors), max(errors), *wanted]
    return table_row((text, str(len(errors))), [*[f"{cell:.3f}" for cell in cells], *[NOTHING] * (4 - len(cells))])
