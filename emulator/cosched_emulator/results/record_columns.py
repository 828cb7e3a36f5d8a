"""Job records as numpy columns, built once and shared by metrics and plots.

Rows of `RecordColumns` are in order of (submission, id), whatever the order of the records: sums of floats depend on it. A
requeued job starts again, so ``start_us`` and ``wall_us`` are those of its *last* start; all time before it counts as waiting.
A preempted job, which was suspended to disk, has one stay on its nodes before that and one after it, both of the same start. On
disk it does not wait, and holds only swap space.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_emulator.manager.record import GUEST, PARTNER, ROW, JobRecord, QuantumRecord
from cosched_emulator.results.ended_jobs import BoolArray, EndedJobs, IntArray, ended_jobs
from cosched_emulator.workload.jobs_in_columns import Interned
from cosched_hwmodel.quick_classes import frozen

# Rows of whole numbers, stored by column in blocks: added rows move no others, and the system gets freed memory back at once.

Ints: TypeAlias = npt.NDArray[Any]  # of any integers
_WAITING = 4_096  # rows buffered as tuples
_BLOCK = 16 * _WAITING  # rows of a block; every column has its own blocks


class RowBuffer:
    """Rows of whole numbers that are added one by one and read by column."""

    __slots__ = ("_blocks", "_stored", "_types", "_waiting")

    def __init__(self, types: Mapping[str, npt.DTypeLike]) -> None:
        """``types``: by column, the type that its numbers fit into."""
        self._types = types
        self._blocks: dict[str, list[Ints]] = {name: [] for name in types}
        self._waiting: list[tuple[int, ...]] = []
        self._stored = 0  # rows in blocks

    def __len__(self) -> int:
        return self._stored + len(self._waiting)

    def add(self, row: tuple[int, ...]) -> None:
        """Add a row, with a value for every column."""
        waiting = self._waiting
        waiting.append(row)
        if len(waiting) == _WAITING:
            self._store()

    def column(self, name: str) -> Ints:
        """Return a copy of a column."""
        kind, place = self._types[name], list(self._types).index(name)
        stored = self._stored
        column = np.empty(len(self), dtype=kind)
        for number, block in enumerate(self._blocks[name]):
            first = number * _BLOCK
            column[first : min(first + _BLOCK, stored)] = block[: stored - first]
        column[stored:] = [row[place] for row in self._waiting]
        return column

    def drain(self, order: npt.NDArray[np.int64]) -> dict[str, Ints]:
        """Return all columns with their rows in this order, and delete them here."""
        found: dict[str, Ints] = {}
        for name in self._types:  # each column is released before the next is copied
            found[name] = self.column(name)[order]
            self._blocks[name].clear()
        self._waiting.clear()
        self._stored = 0
        return found

    def extend(self, *columns: Sequence[int] | Ints) -> None:
        """Add rows, given by column, every column in its place."""
        if self._waiting:
            self._store()
        self._store_columns(columns, len(columns[0]))

    def _store(self) -> None:
        self._store_columns(tuple(zip(*self._waiting, strict=True)), len(self._waiting))
        self._waiting.clear()

    def _store_columns(self, columns: Sequence[Sequence[int] | Ints], rows: int) -> None:
        done = 0
        while done < rows:
            first = self._stored % _BLOCK
            some = min(_BLOCK - first, rows - done)
            for (name, kind), values in zip(self._types.items(), columns, strict=True):
                blocks = self._blocks[name]
                if first == 0:
                    # A separate mapping: memory between other objects would stay with the process after the column is released.
                    blocks.append(np.frombuffer(mmap.mmap(-1, _BLOCK * np.dtype(kind).itemsize), dtype=kind))
                blocks[-1][first : first + some] = values[done : done + some]
            self._stored += some
            done += some


@frozen
class DiskColumns:
    """One row per time that a job was on disk."""

    job: IntArray  # row in `RecordColumns`
    start_us: IntArray
    end_us: IntArray  # 0 if it has none
    ended: BoolArray
    swap_mb: IntArray  # taken on all its nodes

    def __len__(self) -> int:
        return self.job.size


@frozen
class RecordColumns:
    """One row per job. Times are int64 microseconds; They are 0 if ``started`` or ``ended`` is false."""

    id: IntArray
    submit_us: IntArray
    start_us: IntArray  # the last one
    wall_us: IntArray  # on its nodes since then
    held_us: IntArray  # length of all stays
    end_us: IntArray
    work_us: IntArray  # work done since the last start
    run_us: IntArray  # run time alone
    estimate_us: IntArray  # the user's
    threads: IntArray  # requested hardware threads
    nodes: IntArray  # nodes held in the last stay
    started: BoolArray
    ended: BoolArray
    state: Interned[str]
    disk: DiskColumns
    cpu_us: IntArray | None = None  # CPU time of a process since the last start; None: jobs do not share time
    dispatched_us: IntArray | None = None  # time since the last start for which the job could run; None: likewise

    def __len__(self) -> int:
        return len(self.state)


@frozen
class StayColumns:
    """One row per run of neighbouring nodes of each stay of each job."""

    job: IntArray  # row in `RecordColumns`
    start_us: IntArray
    end_us: IntArray
    first_node: IntArray
    node_count: IntArray
    threads: IntArray  # threads held on each node
    mask: Interned[int]  # which ones; may be wider than 64 bits

    def __len__(self) -> int:
        return len(self.mask)


def int_array(values: Iterable[int]) -> IntArray:
    """Return int64 ``values``."""
    return np.fromiter(values, dtype=np.int64)


def job_columns(records: Iterable[JobRecord]) -> RecordColumns:
    """Return the columns of ``records``, in order of submission."""
    return _columns_of(records)[0]


def stay_columns(records: Iterable[JobRecord]) -> StayColumns:
    """Return every stay of every job; ``job`` counts rows of `job_columns` of the same records."""
    return _columns_of(records)[1]


def _columns_of(records: Iterable[JobRecord]) -> tuple[RecordColumns, StayColumns]:
    builder = ColumnBuilder()
    builder.add(ended_jobs(list(records)))
    return builder.columns()


def distinct_stays(stays: StayColumns) -> tuple[IntArray, IntArray, IntArray]:
    """Return (job, start_us, end_us) of every stay, once for all its runs of nodes."""
    order = np.lexsort((stays.end_us, stays.start_us, stays.job))
    columns = [column[order] for column in (stays.job, stays.start_us, stays.end_us)]
    differs = np.ones(order.size, dtype=np.bool_)
    differs[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return columns[0][differs], columns[1][differs], columns[2][differs]


class ColumnBuilder:
    """Builds the columns from jobs in any order; about 150 bytes for each job."""

    def __init__(self) -> None:
        self._jobs = RowBuffer(_JOB_TYPES)
        self._states: dict[str, int] = {}
        self._disk = RowBuffer(_DISK_TYPES)
        self._stays = RowBuffer(_STAY_TYPES)
        self._masks: dict[int, int] = {}
        self._times = RowBuffer(_TIME_TYPES)  # of jobs that share time

    def add(self, jobs: EndedJobs) -> None:
        """Add the rows of some jobs."""
        before = len(self._jobs)
        states, masks, stays = self._states, self._masks, jobs.stays
        self._jobs.extend(
            jobs.id,
            jobs.submit_us,
            jobs.start_us,
            jobs.wall_us,
            jobs.held_us,
            jobs.end_us,
            jobs.work_us,
            jobs.run_us,
            jobs.estimate_us,
            jobs.asked,
            jobs.nodes,
            jobs.started,
            jobs.ended,
            [states.setdefault(state, len(states)) for state in jobs.state],
        )
        self._stays.extend(
            [before + row for row in stays.job],
            stays.start_us,
            stays.end_us,
            stays.first_node,
            stays.node_count,
            [mask.bit_count() for mask in stays.mask],
            [masks.setdefault(mask, len(masks)) for mask in stays.mask],
        )
        for row, record in jobs.more.items():
            if record.cpu_us is not None:
                times = (record.cpu_us, record.dispatched_us or 0) if jobs.started[row] else (0, 0)
                self._times.add((before + row, *times))
            for time in record.disk:
                ended = time.end_us is not None
                self._disk.add((before + row, time.start_us, time.end_us or 0, ended, record.swap_mb))

    def columns(self) -> tuple[RecordColumns, StayColumns]:
        """Return the columns of all jobs, in order of submission, and delete them here."""
        order = np.lexsort((self._jobs.column("id"), self._jobs.column("submit_us")))
        place = np.empty_like(order)  # of each row in that order
        place[order] = np.arange(order.size)
        jobs = self._jobs.drain(order)
        disk = self._disk.drain(np.argsort(place[self._disk.column("job")], kind="stable"))
        stays = self._stays.drain(np.argsort(place[self._stays.column("job")], kind="stable"))
        disk["job"], stays["job"] = place[disk["job"]], place[stays["job"]]
        if len(self._times):
            times = self._times.drain(np.arange(len(self._times)))
            for name in ("cpu_us", "dispatched_us"):
                jobs[name] = np.zeros(order.size, dtype=np.int64)
                jobs[name][place[times["job"]]] = times[name]
        _as_int64(jobs, "nodes")
        _as_int64(stays, "first_node", "node_count", "threads")
        state = Interned(jobs.pop("state"), tuple(self._states))
        mask = Interned(stays.pop("mask"), tuple(self._masks))
        return RecordColumns(**jobs, state=state, disk=DiskColumns(**disk)), StayColumns(**stays, mask=mask)


def _types(
    kind: type, narrow: Mapping[str, npt.DTypeLike], left_out: Collection[str] = ()
) -> Mapping[str, npt.DTypeLike]:
    """Return the types of the columns of a class, by its fields, which rows have in this order."""
    names = [field.name for field in fields(kind)]
    return {name: narrow.get(name, np.int64) for name in names if name not in left_out}


_JOB_TYPES = _types(
    RecordColumns,
    {"nodes": np.uint32, "started": np.bool_, "ended": np.bool_, "state": np.uint8},
    ("disk", "cpu_us", "dispatched_us"),
)
_DISK_TYPES = _types(DiskColumns, {"job": np.uint32, "ended": np.bool_})
_STAY_TYPES = _types(StayColumns, dict.fromkeys(("job", "first_node", "node_count", "threads", "mask"), np.uint32))
_TIME_TYPES: Mapping[str, npt.DTypeLike] = {"job": np.uint32, "cpu_us": np.int64, "dispatched_us": np.int64}


def _as_int64(columns: dict[str, npt.NDArray[Any]], *names: str) -> None:
    for name in names:
        columns[name] = columns[name].astype(np.int64)


# The quanta of a run with time sharing as numpy columns: one row per quantum and job that could run in it.

ROLES = (ROW, PARTNER, GUEST)
NOT_MEASURED = -1


@frozen
class QuantaColumns:
    """One row per quantum and job; times in microseconds. The first five columns are the same in all rows of a quantum."""

    # Its number; a quantum in which all jobs ended was cut short, and the next one has its number again
    quantum: IntArray
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


_SMALL = dict.fromkeys(("quantum", "turn", "jobs", "slot"), np.uint32)
_QUANTUM_TYPES = _types(QuantaColumns, {**_SMALL, "role": np.uint8, "paired": np.bool_, "share_ppm": np.int32})


class QuantaBuilder:
    """Builds the columns from the records of quanta, in order of time."""

    def __init__(self) -> None:
        self._rows = RowBuffer(_QUANTUM_TYPES)

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
