"""A policy for tests that kill its process during a run: it pauses, and records its progress in a file."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cosched_plugin.core.views.view import View
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import Action

_MARK: Final = struct.Struct("<q")


class PacedPolicy:
    """A preset that decides after a pause of ``pause_s``, and before that appends the manager's time to the file ``marks``."""

    def __init__(self, preset: str, marks: str, pause_s: float) -> None:
        self._policy = compose({"preset": preset})
        self._marks = marks
        self._pause_s = pause_s

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the preset."""
        return getattr(self._policy, name)

    def at_site(self, view: View) -> PacedPolicy:
        """Return itself: what the preset may use in its place at this site would not pause."""
        self._policy = getattr(self._policy, "at_site", lambda _view: self._policy)(view)
        return self

    def decide(self, view: View) -> Iterator[Action]:
        """Return what the preset decides."""
        with open(self._marks, "ab") as stream:
            stream.write(_MARK.pack(view.now_us))
        time.sleep(self._pause_s)
        return self._policy.decide(view)


def last_mark(file: Path) -> tuple[int, int]:
    """Return the number of passes, and the manager's time at the last one; (0, -1) if there was none."""
    with open(file, "rb") as stream:
        passes = stream.seek(0, 2) // _MARK.size
        if not passes:
            return 0, -1
        stream.seek((passes - 1) * _MARK.size)
        (now_us,) = _MARK.unpack(stream.read(_MARK.size))
        return passes, now_us
