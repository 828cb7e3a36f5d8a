"""The quanta of a run with time sharing as numpy columns: one row per quantum and job that could run in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosched_emulator.manager.record import GUEST, PARTNER, ROW, QuantumRecord
from cosched_emulator.results.record_columns import BoolArray, IntArray, RowBuffer
from cosched_emulator.workload.jobs_in_columns import Interned

ROLES = (ROW, PARTNER, GUEST)
NOT_MEASURED = -1


@dataclass(frozen=True, slots=True)
class QuantaColumns:
    """One row per quantum and job; times in microseconds. The first five columns are the same in all rows of a quantum."""

    quantum: (
        IntArray  # its number; a quantum in which all jobs ended was cut short, and the next one has its number again
    )
    start_us: IntArray
    end_us: IntArray
    turn: IntArray  # first slot of its turn
    jobs: IntArray  # running jobs at its begin, those that waited for their turn included
    job_id: IntArray
    slot: IntArray
    role: Interned[str]  # one of ROLES
    paired: BoolArray  # another job could run on one of its nodes
    allowed_us: IntArray  # for how long the job could run
    consumed_us: IntArray  # CPU time of all its processes
    share_ppm: IntArray  # logged CPU time of that time; NOT_MEASURED: the job could run for less than half of a quantum

    def __len__(self) -> int:
        return self.quantum.size


_TYPES: Mapping[str, npt.DTypeLike] = {
    "quantum": np.uint32,
    "start_us": np.int64,
    "end_us": np.int64,
    "turn": np.uint32,
    "jobs": np.uint32,
    "job_id": np.int64,
    "slot": np.uint32,
    "role": np.uint8,
    "paired": np.bool_,
    "allowed_us": np.int64,
    "consumed_us": np.int64,
    "share_ppm": np.int32,
}


class QuantaBuilder:
    """Builds the columns from the records of quanta, in order of time."""

    def __init__(self) -> None:
        self._rows = RowBuffer(_TYPES)

    def add(self, record: QuantumRecord) -> None:
        """Add the rows of a quantum."""
        of_all = (record.number, record.start_us, record.end_us, record.turn, record.jobs)
        for job_id, slot, role, paired, allowed_us, consumed_us, share in record.parts:
            share_ppm = NOT_MEASURED if share is None else share
            self._rows.add((*of_all, job_id, slot, ROLES.index(role), paired, allowed_us, consumed_us, share_ppm))

    def add_row(self, *row: int) -> None:
        """Add a row with a value for every column, the role as its index in ROLES."""
        self._rows.add(row)

    def columns(self) -> QuantaColumns:
        """Return the columns, and delete them here."""
        found = self._rows.drain(np.arange(len(self._rows)))
        role = Interned(found.pop("role"), ROLES)
        paired = found.pop("paired")
        return QuantaColumns(
            **{name: column.astype(np.int64) for name, column in found.items()}, role=role, paired=paired
        )


def quanta_columns(records: Iterable[QuantumRecord]) -> QuantaColumns:
    """Return the columns of quanta, in order of time."""
    builder = QuantaBuilder()
    for record in records:
        builder.add(record)
    return builder.columns()
