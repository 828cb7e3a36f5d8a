"""Errors of tables of measured co-runs."""

from __future__ import annotations

from cosched_hwmodel.errors import HardwareModelError


class TableError(HardwareModelError):
    """A table of co-runs without the expected content: ``file:line: field 'x': expected ..., got ...``.

    ``line`` counts from 1; ``line``, ``field`` and ``got`` are None where they have no meaning.
    """

    def __init__(
        self, file: str, expected: str, got: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(file, expected, got, line, field)
        self.file = file
        self.expected = expected
        self.got = got
        self.line = line
        self.field = field

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        parts = [place] if self.field is None else [place, f"field '{self.field}'"]
        return ": ".join([*parts, f"expected {self.expected}" + ("" if self.got is None else f", got {self.got}")])
