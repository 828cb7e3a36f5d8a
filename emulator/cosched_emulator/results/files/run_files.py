"""The files of a run with one or more rows for every job: rows are written as the jobs end, before the run is over.

The rows are kept in unnamed files on the disk of the run folder; these files disappear with the process, however it ends. At
the end the rows are sorted into their final files. So memory holds a few numbers for each job, and no text.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np
import numpy.typing as npt

from cosched_emulator.errors import InputError
from cosched_emulator.manager.record import JobRecord, QuantumRecord
from cosched_emulator.results.files.csv_files import (
    ALLOCATION_COLUMNS,
    JOB_COLUMNS,
    PREEMPTION_COLUMNS,
    QUANTUM_COLUMNS,
    SUSPENSION_COLUMNS,
    allocation_rows,
    completion,
    job_row,
    preemption_rows,
    quantum_rows,
    suspension_rows,
    with_energy,
)
from cosched_emulator.results.files.schedule_swf import schedule_header, schedule_row
from cosched_emulator.results.record_columns import IntArray, RowBuffer
from cosched_emulator.results.thread_intervals import ThreadNumbering
from cosched_emulator.workload.job import Workload
from cosched_plugin.protocol.messages import NodeClass

JOBS, ALLOCATIONS, PREEMPTIONS, SCHEDULE = "jobs.csv", "allocations.csv", "preemptions.csv", "schedule.swf"
QUANTA, SUSPENSIONS = "quanta.csv", "suspensions.csv"
# For every job; the last four: number of bytes of its rows.
_TYPES: Mapping[str, npt.DTypeLike] = {
    "id": np.int64,
    "submit_us": np.int64,
    "allocations": np.uint32,
    "preemptions": np.uint32,
    "suspensions": np.uint32,
    "schedule": np.uint32,
}


_AT_ONCE = 65_536  # texts whose places are in memory as Python numbers


class RunFiles:
    """The rows of jobs that will be written into a run folder."""

    def __init__(self, out: str | os.PathLike[str], machine: Sequence[NodeClass]) -> None:
        """Prepare to write; `InputError` if the folder that will contain ``out`` is not writable. ``out`` stays unchanged."""
        self._out = str(out)
        self._machine = machine
        self._numbering = ThreadNumbering(machine)
        self._rows = RowBuffer(_TYPES)
        self._same_instant: list[JobRecord] = []  # jobs ended at this instant: one with a smaller id may still follow
        beside = next(folder for folder in Path(out).resolve().parents if folder.exists())
        self._files: list[IO[bytes]] = []
        try:
            for _ in range(6):
                self._files.append(tempfile.TemporaryFile(dir=beside))  # noqa: SIM115 - `close` closes it
        except OSError as error:
            self.close()
            raise self._trouble(error) from error
        self._jobs, self._allocations, self._preemptions, self._suspensions, self._schedule, self._quanta = self._files

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the rows."""
        for file in self._files:
            with suppress(OSError):  # a full disk: the rest of the rows is not needed any more
                file.close()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, record: JobRecord) -> None:
        """Write the rows of a job; jobs must come in order of their ends, those without an end last. Raises `InputError`."""
        try:
            if self._same_instant and completion(record)[:2] != completion(self._same_instant[0])[:2]:
                self._write_jobs()
            self._same_instant.append(record)
            self._rows.add(
                (
                    record.job.spec.id,
                    record.job.spec.submit_us,
                    self._allocations.write(allocation_rows(record).encode()),
                    self._preemptions.write(preemption_rows(record).encode()),
                    self._suspensions.write(suspension_rows(record).encode()),
                    self._schedule.write(schedule_row(record).encode()),
                )
            )
        except OSError as error:
            raise self._trouble(error) from error

    def add_quantum(self, record: QuantumRecord) -> None:
        """Write the rows of a quantum; quanta must come in order of time. Raises `InputError`."""
        try:
            self._quanta.write(quantum_rows(record).encode())
        except OSError as error:
            raise self._trouble(error) from error

    def complete(self, folder: Path, workload: Workload, energy_j: Mapping[int, float] | None = None) -> None:
        """Write the files of all jobs into ``folder``, which come from ``workload``. Raises OSError.

        ``energy_j`` is the energy of each job; None: not measured.
        """
        self._write_jobs()
        if energy_j is None:
            _copy(self._jobs, folder / JOBS, JOB_COLUMNS)
        else:
            self._jobs.seek(0)
            with open(folder / JOBS, "x", encoding="utf-8", newline="") as file:
                file.write(",".join(JOB_COLUMNS) + "\n")
                file.writelines(with_energy(map(bytes.decode, self._jobs), energy_j))
        if self._quanta.tell():
            _copy(self._quanta, folder / QUANTA, QUANTUM_COLUMNS)
        rows = self._rows
        by_id = np.argsort(rows.column("id"), kind="stable")
        header = ",".join(ALLOCATION_COLUMNS) + "\n"
        _write_in_order(self._allocations, rows.column("allocations"), by_id, folder / ALLOCATIONS, header)
        preemptions = rows.column("preemptions")
        preempted = bool(preemptions.any())
        if preempted:
            header = ",".join(PREEMPTION_COLUMNS) + "\n"
            _write_in_order(self._preemptions, preemptions, by_id, folder / PREEMPTIONS, header)
        suspensions = rows.column("suspensions")
        if suspensions.any():
            header = ",".join(SUSPENSION_COLUMNS) + "\n"
            _write_in_order(self._suspensions, suspensions, by_id, folder / SUSPENSIONS, header)
        header = schedule_header(len(rows), self._machine, workload, preempted=preempted)
        by_submission = np.lexsort((rows.column("id"), rows.column("submit_us")))
        _write_in_order(self._schedule, rows.column("schedule"), by_submission, folder / SCHEDULE, header)

    def _write_jobs(self) -> None:
        for record in sorted(self._same_instant, key=completion):
            self._jobs.write(job_row(record, self._numbering).encode())
        self._same_instant.clear()

    def _trouble(self, error: OSError) -> InputError:
        return InputError(self._out, "a folder that can be written", error.strerror or str(error))


def run_files_of(
    records: Iterable[JobRecord],
    out: str | os.PathLike[str],
    machine: Sequence[NodeClass],
    quanta: Iterable[QuantumRecord] = (),
) -> RunFiles:
    """Return the files of these jobs, which may be in any order, and of these quanta, in order of time."""
    files = RunFiles(out, machine)
    try:
        for quantum in quanta:
            files.add_quantum(quantum)
        for record in sorted(records, key=completion):
            files.add(record)
    except BaseException:
        files.close()
        raise
    return files


def _copy(texts: IO[bytes], path: Path, columns: Collection[str]) -> None:
    """Write a new file: a header, then all texts."""
    with open(path, "xb") as file:
        file.write((",".join(columns) + "\n").encode())
        texts.seek(0)
        shutil.copyfileobj(texts, file)


def _write_in_order(texts: IO[bytes], sizes: IntArray, order: IntArray, path: Path, header: str) -> None:
    """Write a new file: a header, then the texts of these sizes in the given order of their numbers."""
    texts.flush()
    ends = np.cumsum(sizes, dtype=np.int64)
    with open(path, "xb") as target:
        target.write(header.encode())
        for first in range(0, len(order), _AT_ONCE):
            some = order[first : first + _AT_ONCE]
            lengths, begins = sizes[some], ends[some] - sizes[some]
            target.writelines(map(os.pread, repeat(texts.fileno()), lengths.tolist(), begins.tolist()))
