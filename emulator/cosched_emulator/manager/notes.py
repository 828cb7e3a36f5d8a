"""The notes that a policy stores with the manager: values by job, or about the cluster, within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from cosched_hwmodel.units import MIB
from cosched_plugin.protocol.messages import Note, NoteValue
from cosched_plugin.protocol.values import text_bytes, value_bytes

CLUSTER: Final = -1  # stands for "no job" in a key
MOST_BYTES: Final = 16 * MIB  # largest size of all notes: they must fit into a welcome, beside the jobs
_EACH_BYTES: Final = 32  # size of a note without its key and its value


class Notes:
    """The notes, by (job id, or `CLUSTER`; key)."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, str], NoteValue] = {}
        self._sizes: dict[tuple[int, str], int] = {}  # size of each note by `_size`
        self._keys: dict[int, list[str]] = {}  # keys of each job's notes
        self._bytes = 0

    def set(self, job_id: int | None, key: str, value: NoteValue) -> str | None:
        """Store a note, or remove it if ``value`` is None; return the reason if it cannot be stored."""
        about = CLUSTER if job_id is None else job_id
        place = (about, key)
        if value is None:
            if place in self._values:
                self._bytes -= self._sizes.pop(place)
                del self._values[place]
                self._keys[about].remove(key)
            return None
        size = _size(key, value)
        grows_by = size - self._sizes.get(place, 0)
        if self._bytes + grows_by > MOST_BYTES:
            return f"there is no room for more notes than {MOST_BYTES} bytes"
        if place not in self._values:
            self._keys.setdefault(about, []).append(key)
        self._values[place] = value
        self._sizes[place] = size
        self._bytes += grows_by
        return None

    def get(self, job_id: int | None, key: str) -> NoteValue | None:
        """Return the value of a note; None if there is none."""
        return self._values.get((CLUSTER if job_id is None else job_id, key))

    def drop(self, job_id: int) -> None:
        """Remove all notes about a job."""
        for key in self._keys.pop(job_id, ()):
            self._bytes -= self._sizes.pop((job_id, key))
            del self._values[job_id, key]

    def take_over(self, entries: Iterable[Sequence[Any]]) -> None:
        """Take over all notes of another manager, from the plain values of its `inventory_entries`."""
        for job_id, key, value in entries:
            self.set(job_id, key, _noted(value))

    def inventory_entries(self) -> tuple[Note, ...]:
        """Return all notes for an inventory, in order of job and key; those about the cluster first."""
        return tuple(
            Note(job_id if job_id != CLUSTER else None, key, self._values[job_id, key])
            for job_id, key in sorted(self._values)
        )


def _noted(value: Any) -> NoteValue:
    """Return the value of a note from plain values, in which lists stand for tuples."""
    return tuple([_noted(item) for item in value]) if isinstance(value, list) else value


def _size(key: str, value: NoteValue) -> int:
    """Return an upper bound of the bytes of a note on the wire."""
    return _EACH_BYTES + text_bytes(key) + value_bytes(value)
