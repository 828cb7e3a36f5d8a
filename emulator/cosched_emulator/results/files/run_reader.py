"""Reads a run folder into the columns that plots and metrics use."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from cosched_emulator.errors import InputError
from cosched_emulator.results import record_columns
from cosched_emulator.results.ended_jobs import IntArray
from cosched_emulator.results.figures.metrics import Selection
from cosched_emulator.results.figures.run_energy import PowerTrace
from cosched_emulator.results.files import run_files
from cosched_emulator.results.files.job_rows import JOB_COLUMNS
from cosched_emulator.results.files.run_folder import POWER, RUN, check_sizes, read_json, read_summary
from cosched_emulator.workload.jobs_in_columns import Interned, intern_values
from cosched_hwmodel.text_formats import decoded
from cosched_hwmodel.units import SECOND_US, amounts_of, parse_seconds
from cosched_plugin.common.slurm_notation import ranges_of
from cosched_plugin.protocol.errors import Fault
from cosched_plugin.protocol.messages import NodeClass, Welcome
from cosched_plugin.protocol.values import frozen
from cosched_plugin.protocol.vocabulary import MESSAGES_BY_KIND

# A large CSV file of plain numbers, read at once; whatever is unusual in it is left to the reader that goes row by row.
#
# Only what that reader accepts is accepted here, with the same values: it also words the errors.

# Of columns: a whole number, a decimal of seconds, a hexadecimal number
COUNT, SECONDS, TEXT = ("count", "seconds", "text")
_WIDTH: Final = 24  # of a text; a longer one is unusual
_TYPES: Final = {COUNT: "i8", SECONDS: f"S{_WIDTH}", TEXT: f"S{_WIDTH}"}
_PLAIN: Final = b"0123456789abcdefx.,\n"
_CHUNK: Final = 1 << 24
_MOST_S: Final = 1e9  # below it a float tells microseconds apart
_PLACES: Final = 6
_AT_ONCE: Final = 65_536  # texts that are looked at as letters


def plain_columns(file: Path, kinds: Mapping[str, str]) -> dict[str, npt.NDArray[Any]] | None:
    """Return the columns of a file whose header has the names in ``kinds``; times in microseconds, texts as bytes.

    None for a file that cannot be read, or that holds anything but plain numbers.
    """
    try:
        rows = _plain_rows(file, ",".join(kinds).encode() + b"\n")
        if not rows:
            return None
        types = [(name, _TYPES[kind]) for name, kind in kinds.items()]
        found = np.loadtxt(file, dtype=types, delimiter=",", skiprows=1, comments=None, ndmin=1)
        columns: dict[str, Any] = {
            name: _microseconds(found[name]) if kind == SECONDS else np.ascontiguousarray(found[name])
            for name, kind in kinds.items()
        }
    except (OSError, ValueError, OverflowError):
        return None
    is_cut = any(
        kind == TEXT and bool((np.char.str_len(columns[name]) == _WIDTH).any()) for name, kind in kinds.items()
    )
    return None if found.size != rows or is_cut else columns


def _plain_rows(file: Path, header: bytes) -> int:
    """Return the number of rows; 0 for a file with another header or with other characters than plain ones."""
    rows = 0
    with open(file, "rb") as stream:
        if stream.readline() != header:
            return 0
        while chunk := stream.read(_CHUNK):
            if chunk.translate(None, _PLAIN):
                return 0
            rows += chunk.count(b"\n")
            last = chunk[-1:]
    return rows if rows and last == b"\n" else 0


def _microseconds(texts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return decimals of seconds as microseconds; ValueError for anything else."""
    found = np.empty(texts.size, dtype=np.int64)
    for first in range(0, texts.size, _AT_ONCE):
        some = np.ascontiguousarray(texts[first : first + _AT_ONCE])
        letters = some.view(np.uint8).reshape(some.size, _WIDTH)
        point = letters == ord(".")
        digits = ((letters >= ord("0")) & (letters <= ord("9"))).sum(axis=1)
        size, points = (letters != 0).sum(axis=1), point.sum(axis=1)
        whole = np.where(points > 0, point.argmax(axis=1), size)
        places = size - whole - points
        is_plain = (digits + points == size) & (points <= 1) & (whole > 0) & (size < _WIDTH)
        if not (is_plain & ((places > 0) == (points > 0)) & (places <= _PLACES)).all():
            raise ValueError("not decimals of seconds")
        seconds = some.astype(np.float64)
        if seconds.max() >= _MOST_S:
            raise ValueError("too large")
        found[first : first + _AT_ONCE] = np.rint(seconds * SECOND_US)
    return found


# A run folder, row by row.

Value = TypeVar("Value")

_A_TIME = "a decimal of seconds"
# A machine has the form that it has in a welcome.
_READ_MACHINE = next(field.read for field in MESSAGES_BY_KIND[Welcome].fields if field.name == "nodes")
# Columns of the files of jobs and of their stays, by column of `RecordColumns` and `StayColumns`.
_JOB_TYPES: Mapping[str, npt.DTypeLike] = {
    **dict.fromkeys(("id", "submit_us", "start_us", "end_us", "work_us", "run_us", "estimate_us", "threads"), np.int64),
    "started": np.bool_,
    "ended": np.bool_,
    "state": np.uint32,
    "until_us": np.int64,  # of a job that ran when the run was stopped; else _NEVER
    "cpu_us": np.int64,  # of a job that shares time; else _NEVER, like the next one
    "dispatched_us": np.int64,
}
_NEVER = -1
_MOST = int(np.iinfo(np.int64).max)  # that a column holds
_STAY_TYPES: Mapping[str, npt.DTypeLike] = dict.fromkeys(
    ("job", "start_us", "end_us", "first_node", "node_count", "threads", "mask", "interval"), np.int64
)


class StoredRun(NamedTuple):
    """A run as read from its folder."""

    machine: tuple[NodeClass, ...]
    jobs: record_columns.RecordColumns
    stays: record_columns.StayColumns
    summary: dict[str, Any]
    selection: Selection
    partitions: tuple[tuple[int, int, str], ...] = ()  # runs of nodes: first, number, the names of their partitions

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return sum(item.nodes for item in self.machine)

    @property
    def threads(self) -> int:
        """Return the number of hardware threads of all nodes."""
        return sum(item.nodes * item.threads for item in self.machine)

    @property
    def counted(self) -> dict[str, IntArray]:
        """Return how much each node has of each countable resource, by name; types count with the name without."""
        names = sorted({name for item in self.machine for name, _ in item.resources if ":" not in name})
        nodes = [item.nodes for item in self.machine]
        return {name: np.repeat([dict(item.resources).get(name, 0) for item in self.machine], nodes) for name in names}


# Keys of the metadata that jobs have in common.
FACTS: Final = ("user", "partition", "qos", "account", "resources", "licences")


class JobOwners(NamedTuple):
    """Whose the jobs of a run are, and what their users say of them, by row of its `RecordColumns`."""

    name: npt.NDArray[np.object_]
    energy_j: npt.NDArray[np.float64]  # NaN where it is not known
    facts: Mapping[str, Interned[str]]  # each of `FACTS`; empty where a job has none

    @property
    def user(self) -> Interned[str]:
        """Return the users, empty where a job's is not known."""
        return self.facts["user"]

    def counted(self, name: str) -> IntArray:
        """Return how much of a countable resource each job has on each of its nodes."""
        resources = self.facts["resources"]
        each = [dict(amounts_of(text)).get(name, 0) if text else 0 for text in resources.distinct]
        return np.array(each, dtype=np.int64)[resources.places] if each else np.zeros(0, dtype=np.int64)


class CsvRow:
    """One row of a CSV file; an unreadable value raises `InputError` with its place."""

    __slots__ = ("_places", "file", "line", "values")

    def __init__(self, file: Path, places: Mapping[str, int], line: int, values: list[str]) -> None:
        """``places``: by column, its index in ``values``."""
        self.file = file
        self.line = line
        self.values = values
        self._places = places

    def text(self, field: str) -> str:
        """Return the value of a column."""
        return self.values[self._places[field]]

    def get(self, field: str, read: Callable[[str], Value], expected: str) -> Value:
        """Return what ``read`` makes of a column's value; ``expected`` describes good values."""
        return self.read(field, self.text(field), read, expected)

    def read(self, field: str, text: str | None, read: Callable[[str], Value], expected: str) -> Value:
        """Return the value of ``text``, a part of the row; `InputError` if it is None or cannot be read."""
        try:
            return read(text)  # type: ignore[arg-type]  # None is caught
        except (ValueError, AttributeError):
            raise InputError(
                str(self.file), expected, repr(text) if text is not None else "none", self.line, field
            ) from None

    def count(self, field: str) -> int:
        """Return the whole number in a column."""
        return self.get(field, _whole_number, "a whole number from 0 to 2^63 - 1")

    def time_us(self, field: str) -> int:
        """Return the time in a column, in microseconds."""
        return self.get(field, _time_us, _A_TIME)

    def time_if_any_us(self, field: str) -> int | None:
        """Return the time in a column; None if it is empty."""
        return self.time_us(field) if self.text(field) else None


def read_run(folder: str | os.PathLike[str]) -> StoredRun:
    """Return the run in ``folder``; raise `InputError` if it is not a run folder or a file is damaged."""
    summary = read_summary(folder)
    description = read_json(folder, RUN, ("machine",))
    machine = _machine_of(description, folder)
    jobs, states = _read_jobs(Path(folder) / run_files.JOBS)
    index_of = dict(zip(jobs["id"].tolist(), range(jobs["id"].size), strict=True))
    stays, numbers = _read_stays(Path(folder) / run_files.ALLOCATIONS, jobs.pop("until_us"), index_of, machine)
    disk = _read_disk(Path(folder) / run_files.PREEMPTIONS, index_of)
    selection = summary["selection"]
    try:
        chosen = Selection(int(selection["warmup"]), int(selection["cooldown"]))
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(str(folder), "warmup and cooldown, 0 or more", str(selection), field="selection") from error
    check_sizes(folder, description)  # last: a row that cannot be read tells more
    partitions = _partitions_of(description, folder, sum(item.nodes for item in machine))
    return StoredRun(machine, _columns(jobs, states, stays, numbers, disk), stays, summary, chosen, partitions)


def read_owners(folder: str | os.PathLike[str], jobs: record_columns.RecordColumns) -> JobOwners:
    """Return whose the ``jobs`` of the run in ``folder`` are; raise `InputError` for a damaged file."""
    row_of = dict(zip(jobs.id.tolist(), range(len(jobs)), strict=True))
    names, energy_j = np.full(len(jobs), "", dtype=np.object_), np.full(len(jobs), np.nan)
    facts = {fact: [""] * len(jobs) for fact in FACTS}
    for line in csv_rows(Path(folder) / run_files.JOBS, JOB_COLUMNS):
        row = row_of[line.count("job_id")]
        names[row] = decoded(line.text("profile"))
        for fact, value in _facts_of(line).items():
            facts[fact][row] = value
        joules = line.get("consumed_energy", float, "a number of joules")
        energy_j[row] = joules if joules >= 0 else np.nan
    return JobOwners(names, energy_j, {fact: intern_values(values) for fact, values in facts.items()})


def read_facts(folder: str | os.PathLike[str], job: int) -> tuple[dict[str, str], int | None]:
    """Return the `FACTS` of a job of the run in ``folder`` with the ``reason`` of its end, and its start in microseconds, if any.

    Neither where there is no run. Raises `InputError`.
    """
    if (Path(folder) / RUN).is_file():
        for line in csv_rows(Path(folder) / run_files.JOBS, JOB_COLUMNS):
            if line.count("job_id") == job:
                return _facts_of(line, (*FACTS, "reason")), line.time_if_any_us("starting_time")
    return {}, None


def _facts_of(line: CsvRow, facts: Iterable[str] = FACTS) -> dict[str, str]:
    metadata = line.text("metadata")
    told = {fact: metadata.partition(f";{fact}=")[1:] for fact in facts}
    return {fact: decoded(rest.partition(";")[0]) for fact, (found, rest) in told.items() if found}


def _columns(
    jobs: dict[str, record_columns.Ints],
    states: Sequence[str],
    stays: record_columns.StayColumns,
    numbers: IntArray,
    disk: record_columns.DiskColumns,
) -> record_columns.RecordColumns:
    nodes, wall_us, held_us, last = (np.zeros(jobs["id"].size, dtype=np.int64) for _ in range(4))
    np.maximum.at(last, stays.job, numbers)
    of_last = numbers == last[stays.job]
    np.add.at(nodes, stays.job[of_last], stays.node_count[of_last])
    job, begin_us, until_us = record_columns.distinct_stays(stays)
    np.add.at(held_us, job, until_us - begin_us)
    since = begin_us >= jobs["start_us"][job]  # a stay of an earlier start that begins at that time has no length
    np.add.at(wall_us, job[since], (until_us - begin_us)[since])
    for column in (nodes, wall_us):
        column[~jobs["started"].astype(np.bool_)] = 0  # a job that waits again has stays, but not since a last start
    state = Interned(jobs.pop("state"), states)
    if (jobs["cpu_us"] == _NEVER).all():
        del jobs["cpu_us"], jobs["dispatched_us"]
    else:
        for name in ("cpu_us", "dispatched_us"):
            np.maximum(jobs[name], 0, out=jobs[name])
    return record_columns.RecordColumns(**jobs, nodes=nodes, wall_us=wall_us, held_us=held_us, state=state, disk=disk)


def read_machine(folder: str | os.PathLike[str]) -> tuple[NodeClass, ...]:
    """Return the classes of nodes of a run; raise `InputError` where ``run.json`` is damaged."""
    return _machine_of(read_json(folder, RUN, ("machine",)), folder)


def _machine_of(description: Mapping[str, Any], folder: str | os.PathLike[str]) -> tuple[NodeClass, ...]:
    file = str(Path(folder) / RUN)
    try:
        machine: tuple[NodeClass, ...] = _READ_MACHINE(frozen(description["machine"]))
    except (Fault, RecursionError) as error:
        fault = error if isinstance(error, Fault) else Fault("field", "nested too deeply")
        raise InputError(file, "node classes", f"{fault.path}: {fault.text}", field="machine") from error
    return machine


def _partitions_of(
    description: Mapping[str, Any], folder: str | os.PathLike[str], nodes: int
) -> tuple[tuple[int, int, str], ...]:
    """Return the runs of neighbouring nodes that are in the same partitions of the run's settings; none without partitions."""
    try:
        named = [(part["name"], part["nodes"]) for part in description.get("config", {}).get("partitions", ())]
        spans = [(str(name), ((0, nodes),) if text is None else ranges_of(text)) for name, text in named]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        file = str(Path(folder) / RUN)
        raise InputError(file, "names and nodes of partitions", str(error), field="config.partitions") from error
    names: list[list[str]] = [[] for _ in range(nodes if spans else 0)]
    for name, ranges in spans:
        for first, count in ranges:
            for its in names[first : first + count]:
                its.append(name)
    found: list[tuple[int, int, str]] = []
    for alike, group in groupby(enumerate(names), itemgetter(1)):
        rows = [node for node, _ in group]
        found.append((rows[0], len(rows), ", ".join(alike)))
    return tuple(found)


def _read_jobs(file: Path) -> tuple[dict[str, record_columns.Ints], Sequence[str]]:
    """Return the columns of the jobs in the file, in order of (submission, id), and the names of the states."""
    rows = record_columns.RowBuffer(_JOB_TYPES)
    states: dict[str, int] = {}
    for row in csv_rows(file, JOB_COLUMNS):
        told = dict([pair.split("=", 1) for pair in row.text("metadata").split(";") if "=" in pair])
        start_us, end_us = row.time_if_any_us("starting_time"), row.time_if_any_us("finish_time")
        if end_us is None and told.get("end_s"):
            end_us = row.read("metadata end_s", told["end_s"], _time_us, _A_TIME)
        work_s, until_s = told.get("work_s"), told.get("until_s")
        state = row.read("metadata state", told.get("state"), decoded, "a job state")
        rows.add(
            (
                row.count("job_id"),
                row.time_us("submission_time"),
                start_us or 0,
                end_us or 0,
                row.read("metadata work_s", work_s, _time_us, _A_TIME) if work_s else 0,
                row.read("metadata run_s", told.get("run_s"), _time_us, _A_TIME),
                row.time_us("requested_time"),
                row.count("requested_number_of_resources"),
                start_us is not None,
                end_us is not None,
                states.setdefault(state, len(states)),
                row.read("metadata until_s", until_s, _time_us, _A_TIME) if until_s else _NEVER,
                row.read("metadata cpu_s", told["cpu_s"], _time_us, _A_TIME) if "cpu_s" in told else _NEVER,
                row.read("metadata dispatched_s", told.get("dispatched_s"), _time_us, _A_TIME)
                if "cpu_s" in told
                else _NEVER,
            )
        )
    ids, counts = np.unique(rows.column("id"), return_counts=True)
    if (counts > 1).any():
        raise InputError(
            str(file), "one row for each job", f"{counts.max()} of job {ids[counts.argmax()]}", field="job_id"
        )
    return rows.drain(np.lexsort((rows.column("id"), rows.column("submit_us")))), tuple(states)


def _read_stays(
    file: Path, until_us: record_columns.Ints, index_of: dict[int, int], machine: Sequence[NodeClass]
) -> tuple[record_columns.StayColumns, IntArray]:
    """Return the stays, and the number of each among the stays of its job.

    An open stay ends when the run was stopped: at ``until_us``, by job.
    """
    nodes = sum(node_class.nodes for node_class in machine)
    found = _plain_stays(file, index_of, nodes)
    if found is not None:
        return found
    rows = record_columns.RowBuffer(_STAY_TYPES)
    masks: dict[int, int] = {}
    for row in csv_rows(file, run_files.ALLOCATION_COLUMNS):
        mask = row.get("thread_mask", _mask, "a hexadecimal mask with at least one bit")
        first, count = row.count("first_node"), row.count("node_count")
        if first + count > nodes:
            raise InputError(str(file), f"nodes below {nodes}", f"{first} + {count}", row.line, "first_node")
        job = _job_of(row, index_of)
        is_open = not row.text("end_s") and until_us[job] != _NEVER
        rows.add(
            (
                job,
                row.time_us("start_s"),
                int(until_us[job]) if is_open else row.time_us("end_s"),
                first,
                count,
                mask.bit_count(),
                masks.setdefault(mask, len(masks)),
                row.count("interval"),
            )
        )
    columns = rows.drain(np.arange(len(rows)))
    numbers = columns.pop("interval")
    mask_of_row = Interned(columns.pop("mask"), tuple(masks))
    return record_columns.StayColumns(**columns, mask=mask_of_row), numbers


# How the columns of a run that was not cut short are read at once.
_PLAIN_STAYS: Mapping[str, str] = {
    **dict.fromkeys(run_files.ALLOCATION_COLUMNS, COUNT),
    **dict.fromkeys(("start_s", "end_s"), SECONDS),
    "thread_mask": TEXT,
}


def _plain_stays(
    file: Path, index_of: Mapping[int, int], nodes: int
) -> tuple[record_columns.StayColumns, IntArray] | None:
    """Return what `_read_stays` does; None where something is unusual, or wrong."""
    rows = plain_columns(file, _PLAIN_STAYS)
    if rows is None or not index_of:
        return None
    ids = np.fromiter(index_of, dtype=np.int64)
    order = np.argsort(ids)
    place = np.minimum(np.searchsorted(ids, rows["job_id"], sorter=order), ids.size - 1)
    texts, first_rows, mask_of_row = np.unique(rows["thread_mask"], return_index=True, return_inverse=True)
    try:
        masks = [_mask(text) for text in texts.astype(np.str_).tolist()]
    except ValueError:
        return None
    is_known = bool((ids[order[place]] == rows["job_id"]).all())
    if not is_known or (rows["first_node"] + rows["node_count"] > nodes).any():
        return None
    by_row = np.argsort(first_rows)  # as they occur
    number = np.empty_like(by_row)
    number[by_row] = np.arange(by_row.size)
    bits = np.array([mask.bit_count() for mask in masks], dtype=np.int64)
    columns = {
        "job": np.fromiter(index_of.values(), dtype=np.int64)[order[place]],
        "start_us": rows["start_s"],
        "end_us": rows["end_s"],
        "first_node": rows["first_node"],
        "node_count": rows["node_count"],
        "threads": bits[mask_of_row],
    }
    mask = Interned(number[mask_of_row], tuple([masks[row] for row in by_row.tolist()]))
    return record_columns.StayColumns(**columns, mask=mask), rows["interval"]


def _read_disk(file: Path, index_of: dict[int, int]) -> record_columns.DiskColumns:
    """Return the times on disk; a run without preemptions has no such file."""
    rows = [
        (_job_of(row, index_of), row.time_us("start_s"), row.time_if_any_us("end_s"), row.count("swap_mb"))
        for row in (csv_rows(file, run_files.PREEMPTION_COLUMNS) if file.exists() else ())
    ]
    job, start_us, end_us, swap_mb = (record_columns.int_array(row[place] or 0 for row in rows) for place in range(4))
    return record_columns.DiskColumns(
        job, start_us, end_us, np.array([row[2] is not None for row in rows], np.bool_), swap_mb
    )


def read_quanta(folder: str | os.PathLike[str]) -> record_columns.QuantaColumns | None:
    """Return the quanta of a run; None if it has none. Raises `InputError` for a damaged file."""
    file = Path(folder) / run_files.QUANTA
    if not file.exists():
        return None
    builder = record_columns.QuantaBuilder()
    for row in csv_rows(file, run_files.QUANTUM_COLUMNS):
        start_us = row.time_us("start_s")
        builder.add_row(
            row.count("quantum"),
            start_us,
            start_us + row.time_us("length_s"),
            row.count("turn"),
            row.count("jobs"),
            row.count("job_id"),
            row.count("slot"),
            row.get("role", record_columns.ROLES.index, f"one of {', '.join(record_columns.ROLES)}"),
            row.count("paired") > 0,
            row.time_us("allowed_s"),
            row.time_us("cpu_s"),
            row.count("share_ppm") if row.text("share_ppm") else record_columns.NOT_MEASURED,
        )
    return builder.columns()


def read_power(folder: str | os.PathLike[str]) -> PowerTrace | None:
    """Return the watts of a run's machine over time; None if they are not known. Raises `InputError` for a damaged file."""
    file = Path(folder) / POWER
    if not file.exists():
        return None
    rows = [
        (row.time_us("start_s"), row.time_us("end_s"), row.get("watts", float, "a number of watts"))
        for row in csv_rows(file, run_files.POWER_COLUMNS)
    ]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    start_us, end_us = (np.array(column, dtype=np.int64) for column in columns[:2])
    return PowerTrace(start_us, end_us, np.array(columns[2], dtype=np.float64))


def _job_of(row: CsvRow, index_of: dict[int, int]) -> int:
    job = index_of.get(row.count("job_id"))
    if job is None:
        raise InputError(str(row.file), f"a job of {run_files.JOBS}", row.text("job_id"), row.line, "job_id")
    return job


def csv_rows(file: Path, columns: Collection[str]) -> Iterator[CsvRow]:
    """Yield the rows of a CSV file with these columns; raise `InputError` for another file, or one that cannot be read."""
    places = {name: place for place, name in enumerate(columns)}
    csv.field_size_limit(sys.maxsize)  # a large job on scattered nodes has a long list of them
    try:
        with open(file, encoding="utf-8", newline="") as stream:
            lines = csv.reader(stream)
            header = next(lines, [])
            if header != list(columns):
                raise InputError(str(file), f"the columns {','.join(columns)}", ",".join(header) or "nothing", line=1)
            for values in lines:
                if len(values) != len(columns):
                    raise InputError(str(file), f"{len(columns)} fields", str(len(values)), line=lines.line_num)
                yield CsvRow(file, places, lines.line_num, values)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(file), "a CSV file", str(error)) from error
    except OSError as error:
        raise InputError(str(file), "a file that can be read", error.strerror or str(error)) from error


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return _fitting(int(text))


def _time_us(text: str) -> int:
    return _fitting(parse_seconds(text))


def _fitting(number: int) -> int:
    if number > _MOST:
        raise ValueError(number)
    return number


def _mask(text: str) -> int:
    mask = int(text, 16)
    if mask < 1:
        raise ValueError(text)
    return mask
