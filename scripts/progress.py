"""The progress of a script: one line on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from typing import Final

BAR_CHARACTERS: Final = 24
PAUSE_S: Final = 0.2  # between two updates
CLEAR: Final = "\r\x1b[K"


class Progress:
    """The progress line; it costs almost nothing between updates, and nothing without a terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._began_s = time.monotonic()
        self._next_s = 0.0

    def text(self, text: str) -> None:
        """Show the present step."""
        self._write(f"[{self._minutes():.1f} min] {text}")

    def bar(self, done: int, count: int, text: str) -> None:
        """Show that ``done`` of ``count`` are done, with a description."""
        if self._shown and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + PAUSE_S
            filled = BAR_CHARACTERS * done // max(1, count)
            bar = "#" * filled + "." * (BAR_CHARACTERS - filled)
            self._write(f"[{bar}] {done:,} of {count:,}, {self._minutes():.1f} min: {text}")

    def clear(self) -> None:
        """Remove the line."""
        self._write("")

    def _minutes(self) -> float:
        return (time.monotonic() - self._began_s) / 60

    def _write(self, text: str) -> None:
        if self._shown:
            print(f"{CLEAR}{text}", end="", file=sys.stderr, flush=True)
