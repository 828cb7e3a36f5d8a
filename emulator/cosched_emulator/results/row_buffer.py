"""Rows of whole numbers, stored by column in blocks: added rows move no others, and the system gets freed memory back at once."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[Any]  # of any integers
_WAITING = 4_096  # rows buffered as tuples
_BLOCK = 16 * _WAITING  # rows of a block; every column has its own blocks


class RowBuffer:
    """Rows of whole numbers that are added one by one and read by column."""

    __slots__ = ("_blocks", "_rows", "_types", "_waiting")

    def __init__(self, types: Mapping[str, npt.DTypeLike]) -> None:
        """``types``: by column, the type that its numbers fit into."""
        self._types = types
        self._blocks: dict[str, list[Ints]] = {name: [] for name in types}
        self._waiting: list[tuple[int, ...]] = []
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, *row: int) -> None:
        """Add a row, with a value for every column."""
        self._rows += 1
        self._waiting.append(row)
        if len(self._waiting) == _WAITING:
            self._store()

    def column(self, name: str) -> Ints:
        """Return a copy of a column."""
        kind, place = self._types[name], list(self._types).index(name)
        stored = self._rows - len(self._waiting)
        column = np.empty(self._rows, dtype=kind)
        for number, block in enumerate(self._blocks[name]):
            first = number * _BLOCK
            column[first : min(first + _BLOCK, stored)] = block[: stored - first]
        column[stored:] = [row[place] for row in self._waiting]
        return column

    def drain(self, order: npt.NDArray[np.int64]) -> dict[str, Ints]:
        """Return all columns with their rows in this order, and delete them here."""
        found: dict[str, Ints] = {}
        for name in self._types:  # each column is released before the next is copied
            found[name] = self.column(name)[order]
            self._blocks[name].clear()
        self._waiting.clear()
        self._rows = 0
        return found

    def _store(self) -> None:
        first = (self._rows - _WAITING) % _BLOCK
        for (name, kind), values in zip(self._types.items(), zip(*self._waiting, strict=True), strict=True):
            blocks = self._blocks[name]
            if first == 0:
                # A separate mapping: memory between other objects would stay with the process after the column is released.
                blocks.append(np.frombuffer(mmap.mmap(-1, _BLOCK * np.dtype(kind).itemsize), dtype=kind))
            blocks[-1][first : first + _WAITING] = values
        self._waiting.clear()
