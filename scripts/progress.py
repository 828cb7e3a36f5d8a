"""The progress of a script: one line on standard error, if that is a terminal."""
# Under 60 lines: what scripts add to the programs' own line, the time since the begin.

from __future__ import annotations

import time
from typing import Final

from cosched_terminal.console import ProgressLine

PAUSE_S: Final = 0.2  # between two updates


class Progress:
    """The progress line; it costs almost nothing between updates, and nothing without a terminal."""

    def __init__(self) -> None:
        self._line = ProgressLine()
        self._began_s = time.monotonic()
        self._next_s = 0.0

    def text(self, text: str) -> None:
        """Show the present step."""
        self._line.text(f"[{self._minutes():.1f} min] {text}")

    def bar(self, done: int, count: int, text: str) -> None:
        """Show that ``done`` of ``count`` are done, with a description."""
        if self._line.shown and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + PAUSE_S
            share = min(1.0, done / max(1, count))
            self._line.bar(share, f"{done:,} of {count:,}, {self._minutes():.1f} min: {text}")

    def clear(self) -> None:
        """Remove the line."""
        self._line.clear()

    def _minutes(self) -> float:
        return (time.monotonic() - self._began_s) / 60
