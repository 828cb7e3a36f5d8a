"""Tables for a terminal: each column is as wide as its widest cell."""

from __future__ import annotations

from collections.abc import Container, Sequence


def align(rows: Sequence[Sequence[str]], right: Container[int]) -> list[str]:
    """Return a line for each row, two spaces between columns; the columns in ``right`` are right-aligned, the others left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [
                cell.rjust(width) if column in right else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
        ).rstrip()
        for row in rows
    ]
