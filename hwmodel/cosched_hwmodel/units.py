"""The units in which quantities are counted: whole microseconds, parts per million, mebibytes."""

from __future__ import annotations

from typing import Final

SECOND_US: Final = 1_000_000
WHOLE_PPM: Final = 1_000_000
MIB: Final = 1024 * 1024  # bytes
