"""The sizes of notes about the cluster: the conformance check tests whether they stay bounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cosched_plugin.protocol.messages import NoteValue

_LETTERS: Final = 8  # characters of a text that count as one value
_LEAST: Final = 20  # number of values by which a note must have grown
_SHARE: Final = 0.2  # and relative to its earlier size


def note_sizes(notes: Mapping[tuple[int | None, str], NoteValue]) -> dict[str, int]:
    """Return the number of values in each note about the cluster."""
    return {key: _size(value) for (job_id, key), value in notes.items() if job_id is None}


def any_larger(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    """Return whether any note has grown."""
    return any(size > before.get(key, 0) for key, size in after.items())


def find_growing(before: Mapping[str, int], after: Mapping[str, int]) -> str | None:
    """Return the key of a note that has grown so much that it seems unbounded; None if there is none."""
    for key, size in after.items():
        grown = size - before.get(key, 0)
        if grown >= _LEAST and grown > _SHARE * before.get(key, 0):
            return key
    return None


def _size(value: NoteValue) -> int:
    match value:
        case None:
            return 0
        case str():
            return 1 + len(value) // _LETTERS
        case tuple():
            return sum(map(_size, value))
        case _:
            return 1
