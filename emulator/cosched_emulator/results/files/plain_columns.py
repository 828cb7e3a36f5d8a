"""Reads a large CSV file of plain numbers at once; whatever is unusual in it is left to a reader that goes row by row.

Only what that reader accepts is accepted here, with the same values: it also words the errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosched_hwmodel.units import SECOND_US

COUNT, SECONDS, TEXT = (
    "count",
    "seconds",
    "text",
)  # of columns: a whole number, a decimal of seconds, a hexadecimal number
_WIDTH: Final = 24  # of a text; a longer one is unusual
_TYPES: Final = {COUNT: "i8", SECONDS: f"S{_WIDTH}", TEXT: f"S{_WIDTH}"}
_PLAIN: Final = b"0123456789abcdefx.,\n"
_CHUNK: Final = 1 << 24
_MOST_S: Final = 1e9  # below it a float tells microseconds apart
_PLACES: Final = 6
_AT_ONCE: Final = 65_536  # texts that are looked at as letters


def plain_columns(file: Path, kinds: Mapping[str, str]) -> dict[str, npt.NDArray[Any]] | None:
    """Return the columns of a file whose header has the names in ``kinds``; times in microseconds, texts as bytes.

    None for a file that cannot be read, or that holds anything but plain numbers.
    """
    try:
        rows = _plain_rows(file, ",".join(kinds).encode() + b"\n")
        if not rows:
            return None
        types = [(name, _TYPES[kind]) for name, kind in kinds.items()]
        found = np.loadtxt(file, dtype=types, delimiter=",", skiprows=1, comments=None, ndmin=1)
        columns: dict[str, Any] = {
            name: _microseconds(found[name]) if kind == SECONDS else np.ascontiguousarray(found[name])
            for name, kind in kinds.items()
        }
    except (OSError, ValueError, OverflowError):
        return None
    is_cut = any(
        kind == TEXT and bool((np.char.str_len(columns[name]) == _WIDTH).any()) for name, kind in kinds.items()
    )
    return None if found.size != rows or is_cut else columns


def _plain_rows(file: Path, header: bytes) -> int:
    """Return the number of rows; 0 for a file with another header or with other characters than plain ones."""
    rows = 0
    with open(file, "rb") as stream:
        if stream.readline() != header:
            return 0
        while chunk := stream.read(_CHUNK):
            if chunk.translate(None, _PLAIN):
                return 0
            rows += chunk.count(b"\n")
            last = chunk[-1:]
    return rows if rows and last == b"\n" else 0


def _microseconds(texts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return decimals of seconds as microseconds; ValueError for anything else."""
    found = np.empty(texts.size, dtype=np.int64)
    for first in range(0, texts.size, _AT_ONCE):
        some = np.ascontiguousarray(texts[first : first + _AT_ONCE])
        letters = some.view(np.uint8).reshape(some.size, _WIDTH)
        point = letters == ord(".")
        digits = ((letters >= ord("0")) & (letters <= ord("9"))).sum(axis=1)
        size, points = (letters != 0).sum(axis=1), point.sum(axis=1)
        whole = np.where(points > 0, point.argmax(axis=1), size)
        places = size - whole - points
        is_plain = (digits + points == size) & (points <= 1) & (whole > 0) & (size < _WIDTH)
        if not (is_plain & ((places > 0) == (points > 0)) & (places <= _PLACES)).all():
            raise ValueError("not decimals of seconds")
        seconds = some.astype(np.float64)
        if seconds.max() >= _MOST_S:
            raise ValueError("too large")
        found[first : first + _AT_ONCE] = np.rint(seconds * SECOND_US)
    return found
