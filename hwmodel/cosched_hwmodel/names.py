"""Suggestions for unknown names that people type."""

from __future__ import annotations

from collections.abc import Iterable

from cosched_hwmodel.errors import HardwareModelError


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean "x"?`` for the closest known name, or the list of known names when none is close."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to load, for errors only

    choices = sorted(known)
    close = get_close_matches(name, choices, n=1)
    return f'did you mean "{close[0]}"?' if close else f"known: {', '.join(choices)}"


class UnknownNameError(HardwareModelError):
    """A name of a ``kind`` of thing (resource, composition) that does not exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(sorted(known))
        super().__init__(f'unknown {kind} "{name}"; {suggestion(name, self.known)}')
