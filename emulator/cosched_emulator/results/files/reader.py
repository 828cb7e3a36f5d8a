"""Reading a run folder back, as the columns that plots and metrics work on."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import numpy as np

from cosched_emulator.errors import InputError
from cosched_emulator.results.columns import (
    DiskColumns,
    IntArray,
    JobColumns,
    StayColumns,
    disk_of_rows,
    distinct_stays,
    int_array,
    stays_of_rows,
)
from cosched_emulator.results.figures.metrics import Selection
from cosched_emulator.results.files import allocations_csv, jobs_csv, preemptions_csv
from cosched_emulator.results.files.folder import RUN, read_json, read_summary
from cosched_emulator.results.files.run_files import ALLOCATIONS, JOBS, PREEMPTIONS
from cosched_emulator.workload.columns import intern_values
from cosched_emulator.workload.seconds import parse_seconds
from cosched_plugin.protocol.messages import NodeClass

Value = TypeVar("Value")


class StoredRun(NamedTuple):
    """A run as its folder tells it."""

    machine: tuple[NodeClass, ...]
    jobs: JobColumns
    stays: StayColumns
    summary: dict[str, Any]
    selection: Selection


class _JobRow(NamedTuple):
    submit_us: int
    id: int
    start_us: int | None
    end_us: int | None
    work_us: int
    run_us: int
    estimate_us: int
    threads: int
    state: str
    until_us: int | None  # of a job that ran when the run was cut short


class _Row:
    """One row of a CSV file; every value that cannot be read is an `InputError` with its place."""

    def __init__(self, file: Path, line: int, values: dict[str, str]) -> None:
        self.file = file
        self.line = line
        self.values = values

    def get(self, field: str, read: Callable[[str], Value], expected: str) -> Value:
        try:
            return read(self.values[field])
        except (ValueError, KeyError):
            got = repr(self.values[field]) if field in self.values else "none"
            raise InputError(str(self.file), expected, got, self.line, field) from None

    def count(self, field: str) -> int:
        return self.get(field, _whole_number, "a whole number, 0 or more")

    def time_us(self, field: str) -> int:
        return self.get(field, parse_seconds, "a decimal of seconds")

    def time_if_any_us(self, field: str) -> int | None:
        return self.time_us(field) if self.values.get(field) else None


def read_run(folder: str | os.PathLike[str]) -> StoredRun:
    """Return the run in ``folder``; raise `InputError` where it is not a run folder or a file is damaged."""
    summary = read_summary(folder)
    machine = _read_machine(folder)
    rows = _read_jobs(Path(folder) / JOBS)
    index_of = {row.id: index for index, row in enumerate(rows)}
    stays, numbers = _read_stays(Path(folder) / ALLOCATIONS, rows, index_of, machine)
    disk = _read_disk(Path(folder) / PREEMPTIONS, index_of)
    selection = summary["selection"]
    try:
        chosen = Selection(int(selection["warmup"]), int(selection["cooldown"]))
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(str(folder), "warmup and cooldown, 0 or more", str(selection), field="selection") from error
    return StoredRun(machine, _columns(rows, stays, numbers, disk), stays, summary, chosen)


def _columns(rows: Sequence[_JobRow], stays: StayColumns, numbers: IntArray, disk: DiskColumns) -> JobColumns:
    start_us = int_array(row.start_us or 0 for row in rows)
    nodes, wall_us, held_us, last = (np.zeros(len(rows), dtype=np.int64) for _ in range(4))
    np.maximum.at(last, stays.job, numbers)
    of_last = numbers == last[stays.job]
    np.add.at(nodes, stays.job[of_last], stays.node_count[of_last])
    job, begin_us, until_us = distinct_stays(stays)
    np.add.at(held_us, job, until_us - begin_us)
    since = begin_us >= start_us[job]  # a stay of an earlier start that begins there has no length
    np.add.at(wall_us, job[since], (until_us - begin_us)[since])
    return JobColumns(
        id=int_array(row.id for row in rows),
        submit_us=int_array(row.submit_us for row in rows),
        start_us=start_us,
        wall_us=wall_us,
        held_us=held_us,
        end_us=int_array(row.end_us or 0 for row in rows),
        work_us=int_array(row.work_us for row in rows),
        run_us=int_array(row.run_us for row in rows),
        estimate_us=int_array(row.estimate_us for row in rows),
        threads=int_array(row.threads for row in rows),
        nodes=nodes,
        started=np.array([row.start_us is not None for row in rows], dtype=np.bool_),
        ended=np.array([row.end_us is not None for row in rows], dtype=np.bool_),
        state=intern_values(row.state for row in rows),
        disk=disk,
    )


def _read_machine(folder: str | os.PathLike[str]) -> tuple[NodeClass, ...]:
    classes = read_json(folder, RUN, ("machine",))["machine"]
    file = str(Path(folder) / RUN)
    try:
        machine = tuple(NodeClass(**{key: int(value) for key, value in item.items()}) for item in classes)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(file, "a list of node classes", str(error), field="machine") from error
    if not machine:
        raise InputError(file, "at least one node class", "none", field="machine")
    return machine


def _read_jobs(file: Path) -> list[_JobRow]:
    rows = []
    for row in _rows(file, jobs_csv.COLUMNS):
        pairs = (pair.partition("=") for pair in row.values["metadata"].split(";"))
        row.values.update({f"metadata {key}": unquote(value) for key, _, value in pairs})
        finish_us = row.time_if_any_us("finish_time")
        rows.append(
            _JobRow(
                row.time_us("submission_time"),
                row.count("job_id"),
                row.time_if_any_us("starting_time"),
                row.time_if_any_us("metadata end_s") if finish_us is None else finish_us,
                row.time_if_any_us("metadata work_s") or 0,
                row.time_us("metadata run_s"),
                row.time_us("requested_time"),
                row.count("requested_number_of_resources"),
                row.get("metadata state", str, "a job state"),
                row.time_if_any_us("metadata until_s"),
            )
        )
    return sorted(rows)


def _read_stays(
    file: Path, jobs: Sequence[_JobRow], index_of: dict[int, int], machine: Sequence[NodeClass]
) -> tuple[StayColumns, IntArray]:
    """Return the stays, and which of its job's each of them is. A stay that was not over ends when the run was cut short."""
    nodes = sum(node_class.nodes for node_class in machine)
    rows, numbers = [], []
    for row in _rows(file, allocations_csv.COLUMNS):
        job = _job_of(row, index_of)
        numbers.append(row.count("interval"))
        mask = row.get("thread_mask", _mask, "a hexadecimal mask with at least one bit")
        first, count = row.count("first_node"), row.count("node_count")
        if first + count > nodes:
            raise InputError(str(file), f"nodes below {nodes}", f"{first} + {count}", row.line, "first_node")
        until_us = jobs[job].until_us
        end_us = until_us if until_us is not None and not row.values["end_s"] else row.time_us("end_s")
        rows.append((job, row.time_us("start_s"), end_us, first, count, mask.bit_count(), mask))
    return stays_of_rows(rows), int_array(numbers)


def _read_disk(file: Path, index_of: dict[int, int]) -> DiskColumns:
    """Return the times on disk; a run without any has no such file."""
    return disk_of_rows(
        [
            (_job_of(row, index_of), row.time_us("start_s"), row.time_if_any_us("end_s"), row.count("swap_mb"))
            for row in (_rows(file, preemptions_csv.COLUMNS) if file.exists() else ())
        ]
    )


def _job_of(row: _Row, index_of: dict[int, int]) -> int:
    job = index_of.get(row.count("job_id"))
    if job is None:
        raise InputError(str(row.file), f"a job of {JOBS}", row.values["job_id"], row.line, "job_id")
    return job


def _rows(file: Path, columns: Sequence[str]) -> Iterator[_Row]:
    try:
        with open(file, encoding="utf-8", newline="") as stream:
            lines = csv.reader(stream)
            header = next(lines, [])
            if header != list(columns):
                raise InputError(str(file), f"the columns {','.join(columns)}", ",".join(header) or "nothing", line=1)
            for values in lines:
                if len(values) != len(columns):
                    raise InputError(str(file), f"{len(columns)} fields", str(len(values)), line=lines.line_num)
                yield _Row(file, lines.line_num, dict(zip(columns, values, strict=True)))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(file), "a CSV file", str(error)) from error
    except OSError as error:
        raise InputError(str(file), "a file that can be read", error.strerror or str(error)) from error


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return int(text)


def _mask(text: str) -> int:
    mask = int(text, 16)
    if mask < 1:
        raise ValueError(text)
    return mask
