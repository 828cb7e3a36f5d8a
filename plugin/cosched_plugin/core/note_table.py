"""A table of numbers by name, in the form of a note: a part's memory of users, applications or queues."""
# Under 60 lines: a form of notes that parts of others use, through the api.

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from cosched_plugin.protocol.messages import NoteValue


def table_note(table: Mapping[str, float], most: int) -> NoteValue:
    """Return a table as a note: names and numbers, in their order; if there are more than ``most``, those with the largest numbers."""
    if len(table) > most:
        table = dict(sorted(table.items(), key=lambda row: (-row[1], row[0]))[:most])
    return (tuple(table), tuple(map(float, table.values())))


def read_table(note: NoteValue) -> dict[str, float]:
    """Return the table that `table_note` wrote; an empty one for any other note, and for None."""
    if type(note) is not tuple or len(note) != 2:
        return {}
    names, numbers = note
    if type(names) is not tuple or type(numbers) is not tuple or len(names) != len(numbers):
        return {}
    if not (set(map(type, names)) <= {str} and set(map(type, numbers)) <= {float}):
        return {}
    return dict(zip(cast("tuple[str, ...]", names), cast("tuple[float, ...]", numbers), strict=True))
