"""Reads the Standard Workload Format: real logs, repaired by named rules.

A row of a log has 18 numbers; comments of the form ``; Key: value`` describe the machine. Real logs have known flaws. For each
flaw there is a rule (`SwfOptions`), and a count of the repaired rows (`RepairReport`). If a rule is switched off, the row is
used unchanged if it is meaningful, and refused otherwise.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.bounds import SECONDS, Choice, between, check_bounds
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.workload.job import WARNING, Calendar, CutRuns, Epoch, Workload
from cosched_emulator.workload.jobs_in_columns import Column, Interned, Jobs, Numbers, Same
from cosched_emulator.workload.swf.swf_header import HeaderReader
from cosched_emulator.workload.swf.swf_table import (
    FIELD_NAMES,
    LARGEST,
    NOT_NEGATIVE,
    PART_STATUS,
    WAIT,
    SwfField,
    SwfTable,
    error_of,
    read_table,
)
from cosched_hwmodel.quick_classes import frozen
from cosched_hwmodel.units import SECOND_US, seconds_text

MissingEstimate = Literal["run", "drop", "refuse"]
Limits = Literal["estimate", "none"]
_MUCH_LOST = 0.02  # share of the work
_KB_OF_MB = 1_024


class Rule(NamedTuple):
    """What a rule does to the rows that those before it left, and what happens where it is switched off."""

    does: str
    off: str


@frozen
class SwfOptions:
    """The rules for the known flaws of real logs, in the order in which they apply. Raises `ConfigurationError` for invalid values."""

    skip_bad_rows: Annotated[
        bool,
        Rule(
            "a row that does not begin with 18 numbers, or has a number that cannot be (a negative submit time, half a processor), is "
            "left out and counted",
            "it is an error",
        ),
    ] = False
    drop_bursts: Annotated[
        bool,
        Rule(
            "rows of status 2, 3, 4, which repeat parts of a job that has a row of its own (of the same number, with another "
            "status), are left out",
            "they are jobs",
        ),
    ] = True
    drop_empty: Annotated[
        bool,
        Rule(
            "rows in which all fields but the job number are -1, of jobs that were never submitted, are left "
            "out. Rows with run time <= 0 are left out, and so are, after the next rule, those without processors",
            "they are errors",
        ),
    ] = True
    size_from_request: Annotated[
        bool, Rule("processors are field 5, and field 8 where 5 is missing", "field 5 only")
    ] = True
    missing_estimate: Annotated[
        MissingEstimate,
        Rule('field 9 <= 0: the run time is the estimate. `"drop"`: the row is left out', '`"refuse"`: it is an error'),
        Choice(get_args(MissingEstimate)),
    ] = "run"
    sort: Annotated[
        bool, Rule("rows are put in submit order, ties as in the file", "a row out of order is an error")
    ] = True
    minimum_estimate_s: Annotated[
        float, Rule("an estimate that is present and shorter is raised to this", "`0`"), between(0, LARGEST, SECONDS)
    ] = 60
    cap_run_at_estimate: Annotated[
        bool,
        Rule(
            "a run time above the (raised) estimate is cut to it, as a manager that kills would have cut it",
            "the job keeps its run time, and is killed at its limit",
        ),
    ] = True
    rebase: Annotated[bool, Rule("submit times count from the first job that is read", "they are as in the file")] = (
        True
    )
    limits: Annotated[
        Limits, Rule("a job is killed when its estimate ends", '`"none"`: never'), Choice(get_args(Limits))
    ] = "estimate"
    memory: Annotated[
        bool, Rule("field 10, in KB a processor and rounded up to MiB, is the memory of each process", "it is not read")
    ] = True

    def __post_init__(self) -> None:
        check_bounds(self)


_DEFAULTS = SwfOptions()


@frozen
class RepairReport:
    """The numbers of rows that each rule changed or dropped, in the whole file, not only in the window of jobs."""

    rows: int = 0  # data rows in the file
    bad_rows_skipped: int = 0
    never_submitted_dropped: int = 0
    bursts_dropped: int = 0
    bursts_kept: int = 0  # of jobs that have no row of their own
    without_run_time_dropped: int = 0
    without_processors_dropped: int = 0
    without_estimate_dropped: int = 0
    sizes_from_request: int = 0
    estimates_from_run: int = 0
    estimates_raised: int = 0
    runs_capped: int = 0
    out_of_order: int = 0  # rows submitted before a row above them
    longer: int = 0  # rows of more than 18 fields
    preceded: int = 0  # rows that name a preceding job
    numbers_again: int = 0  # usable rows with the number of a usable row above them, and other fields
    twice: int = 0  # usable rows that are equal to a usable row above them
    jobs: int = 0  # rows left after all drops

    def lines(self) -> tuple[str, ...]:
        """Return one line of text for each rule that changed or dropped a row."""
        texts = (
            (self.bad_rows_skipped, "malformed: skipped"),
            (self.never_submitted_dropped, "of jobs that were never submitted, all fields -1: dropped"),
            (self.bursts_dropped, "status 2-4, part of another row's job: dropped"),
            (self.bursts_kept, "status 2-4 without a row of the whole job: each is a job"),
            (self.without_run_time_dropped, "run time <= 0: dropped"),
            (self.without_processors_dropped, "no processors: dropped"),
            (self.without_estimate_dropped, "no estimate: dropped"),
            (self.sizes_from_request, "no allocated processors: requested ones taken"),
            (self.estimates_from_run, "no estimate: run time taken"),
            (self.estimates_raised, "estimate below the minimum: raised"),
            (self.runs_capped, "run time above the estimate: cut to it"),
            (self.out_of_order, "not in submit order: sorted"),
            (self.longer, "of more than 18 fields: the others are ignored"),
            (self.preceded, "with a preceding job: they do not wait for it"),
            (self.numbers_again, "with the number of a row above: each is a job"),
        )
        head = f"{self.rows} rows, {self.jobs} usable jobs"
        twice = f"{WARNING}{self.twice} rows stand twice, equal in all fields to a row above: each is a job"
        return (head, *(f"{count} rows {text}" for count, text in texts if count), *([twice] if self.twice else ()))

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


class SwfTrace(NamedTuple):
    """The content of a log."""

    workload: Workload
    header: dict[str, str]  # repeated keys: one line each
    report: RepairReport


def read_swf(
    path: str | os.PathLike[str], options: SwfOptions = _DEFAULTS, first: int = 0, count: int | None = None
) -> Workload:
    """Read jobs ``first`` .. ``first + count`` of a log, counted after all repairs in submit order.

    Plain or gzip, by content. Ids are dense from 1; `WorkloadJob.source_id` is the number in the log. `Workload.notes` lists
    the repairs. Raises `InputError` for a file that is not a log, a malformed row (anywhere in the file), or a window without
    jobs.
    """
    return load_swf(path, options, first, count).workload


def load_swf(
    path: str | os.PathLike[str], options: SwfOptions = _DEFAULTS, first: int = 0, count: int | None = None
) -> SwfTrace:
    """Read a log as `read_swf` does, and return its header and the repair counts, too."""
    if first < 0:
        raise ConfigurationError("first", "a number of jobs, 0 or more", str(first))
    if count is not None and count < 1:
        raise ConfigurationError("count", "a number of jobs, 1 or more", str(count))
    file = os.fspath(path)
    table = read_table(file, skip_bad_rows=options.skip_bad_rows, drop_unused=options.drop_empty)
    rows, report = _repair(table, file, options)
    if not report.jobs:
        raise InputError(file, "at least one job that can run", "; ".join(report.lines()))
    if first >= report.jobs:
        raise InputError(file, f"more than {first} jobs (first = {first})", str(report.jobs))
    last = report.jobs if count is None else min(report.jobs, first + count)
    window = {name: column[first:last].copy() for name, column in rows.items()}
    notes = list(report.lines())
    first_us = int(window["submit_us"][0])
    origin_us = first_us if options.rebase else 0
    jobs = _jobs(window, origin_us, options)
    cut = jobs.cut_runs()
    if cut is not None:
        notes.append(_cut_note(cut))
    memory_mb = window["memory_mb"]
    if options.memory and memory_mb.any():
        notes.append(f"{np.count_nonzero(memory_mb)} jobs ask for memory, up to {memory_mb.max()} MiB a process")
    if last - first < report.jobs:
        notes.append(f"jobs {first} to {last - 1} of them taken, counted from 0")
    if count is not None and last - first < count:
        notes.append(f"{count} jobs asked for, {last - first} there")
    if options.rebase and first_us:
        notes.append(f"submit times counted from the first job's, {seconds_text(first_us)} s in the file")
    header = HeaderReader(table.header)
    processors = header.machine_size(int(rows["processes"].max()))
    epoch = header.epoch()
    origin = os.fsencode(file).decode("utf-8", "backslashreplace")  # a name need not be UTF-8, the files of a run are
    notes += header.notes
    calendar = _calendar(epoch, origin_us)
    workload = Workload(
        jobs, processors, origin, tuple(notes), cut, calendar, None, epoch.after(origin_us), _unread(table)
    )
    return SwfTrace(workload, header.as_dict(), report)


def _unread(table: SwfTable) -> tuple[tuple[str, int], ...]:
    """Return in how many rows fields say something that no job has."""
    allocated, requested = table.columns[SwfField.ALLOCATED], table.columns[SwfField.REQUESTED]
    other = int(np.count_nonzero((allocated > 0) & (requested > 0) & (allocated != requested)))
    return (*table.unread.items(), *([(FIELD_NAMES[SwfField.REQUESTED], other)] if other else ()))


def _cut_note(cut: CutRuns) -> str:
    """Return a note on the lost work; it is a warning if the share is large."""
    text = f"run times cut to the estimate: {cut.jobs} jobs, {100 * cut.lost:.1f} % of the work lost"
    return f"{WARNING}{text} (--no-cap-runs keeps it)" if cut.lost > _MUCH_LOST else text


# Fields of which few values are different, by column of the jobs, and what becomes of a number.
_INTERNED: Final[Mapping[str, Callable[[int], int | str]]] = {
    **dict.fromkeys(("user", "name"), lambda number: "" if number < 0 else str(number)),
    **dict.fromkeys(("group", "queue", "partition", "status"), lambda number: max(-1, number)),
}
_Rows: TypeAlias = Mapping[str, NDArray[np.int64]]  # the usable rows in submit order, by column of the jobs


class _Masks:
    """The remaining rows, and those that a switched-off rule refuses."""

    def __init__(self, rows: int) -> None:
        self.left = np.ones(rows, dtype=np.bool_)
        self.refused = np.zeros(rows, dtype=np.bool_)

    def take_out(self, mask: NDArray[np.bool_], *, allowed: bool) -> int:
        """Remove rows and return their number; refuse them if removal is not ``allowed``."""
        hit = self.left & mask
        self.left = self.left & ~hit
        if allowed:
            return int(np.count_nonzero(hit))
        self.refused |= hit
        return 0


def _repair(table: SwfTable, file: str, options: SwfOptions) -> tuple[_Rows, RepairReport]:
    """Apply the rules in order to the remaining rows, and count the affected rows."""
    columns = table.columns
    usable, report = _drop_rows(table, file, options)
    submit_us = table.microseconds(SwfField.SUBMIT, usable)
    run_us = table.microseconds(SwfField.RUN, usable)
    missing = columns[SwfField.ESTIMATE][usable] <= 0
    estimate_us = np.where(missing, run_us, table.microseconds(SwfField.ESTIMATE, usable))
    minimum_us = math.ceil(options.minimum_estimate_s * SECOND_US)
    raised = ~missing & (estimate_us < minimum_us)
    estimate_us = np.where(raised, minimum_us, estimate_us)
    capped = (run_us > estimate_us) & options.cap_run_at_estimate
    rows = {
        "submit_us": submit_us,
        "run_us": np.where(capped, estimate_us, run_us),
        "processes": _processes(table, options)[usable].astype(np.int64),
        "estimate_us": estimate_us,
        "source_id": columns[SwfField.NUMBER][usable].astype(np.int64),
        **{name: columns[SwfField[name.upper()]][usable].astype(np.int64) for name in _INTERNED},
        "memory_mb": np.ceil(np.maximum(columns[SwfField.MEMORY][usable], 0) / _KB_OF_MB).astype(np.int64),
        "logged_us": run_us,
        "waited_us": np.rint(np.clip(columns[WAIT][usable], -1, LARGEST) * SECOND_US).astype(np.int64),
    }
    order = np.argsort(submit_us, kind="stable")
    report = replace(
        report,
        sizes_from_request=int(np.count_nonzero(columns[SwfField.ALLOCATED][usable] <= 0)),
        estimates_from_run=int(np.count_nonzero(missing)),
        estimates_raised=int(np.count_nonzero(raised)),
        runs_capped=int(np.count_nonzero(capped)),
    )
    return {name: column[order] for name, column in rows.items()}, report


def _drop_rows(table: SwfTable, file: str, options: SwfOptions) -> tuple[NDArray[np.int64], RepairReport]:
    """Return the indices of the usable rows, and the number that each rule dropped; raise InputError for a refused row."""
    columns = table.columns
    masks = _Masks(len(table.lines))
    part = np.isin(columns[SwfField.STATUS], PART_STATUS) & options.drop_bursts
    numbers = columns[SwfField.NUMBER]
    bursts = masks.take_out(part & np.isin(numbers, numbers[~part]), allowed=True) if part.any() else 0
    masks.take_out(columns[SwfField.SUBMIT] < 0, allowed=False)
    no_run = masks.take_out(columns[SwfField.RUN] <= 0, allowed=options.drop_empty)
    no_size = masks.take_out(_processes(table, options) <= 0, allowed=options.drop_empty)
    no_estimate = 0
    if options.missing_estimate != "run":
        no_estimate = masks.take_out(columns[SwfField.ESTIMATE] <= 0, allowed=options.missing_estimate == "drop")
    latest = np.maximum.accumulate(np.where(masks.left, columns[SwfField.SUBMIT], 0.0))
    out_of_order = masks.left & (columns[SwfField.SUBMIT] < latest)
    if not options.sort:
        masks.take_out(out_of_order, allowed=False)
    if masks.refused.any() and not options.skip_bad_rows:
        raise _refusal(table, file, int(np.argmax(masks.refused)))
    return np.flatnonzero(masks.left), RepairReport(
        rows=len(table.lines) + table.skipped + table.unused,
        never_submitted_dropped=table.unused,
        bad_rows_skipped=table.skipped + int(np.count_nonzero(masks.refused)),
        bursts_dropped=bursts,
        bursts_kept=int(np.count_nonzero(part & masks.left)),
        without_run_time_dropped=no_run,
        without_processors_dropped=no_size,
        without_estimate_dropped=no_estimate,
        out_of_order=int(np.count_nonzero(out_of_order & masks.left)),
        longer=table.longer,
        preceded=table.unread.get("preceding job", 0),
        jobs=int(np.count_nonzero(masks.left)),
        **_repeated(table, np.flatnonzero(masks.left)),
    )


def _repeated(table: SwfTable, usable: NDArray[np.int64]) -> dict[str, int]:
    """Return how many rows are equal to one above them, and how many others have only its number."""
    found = {"twice": 0, "numbers_again": 0}
    numbers = table.columns[SwfField.NUMBER][usable]
    if (np.diff(numbers) > 0).all():  # nearly every log
        return found
    _, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    seen: set[object] = set()
    for row in usable[counts[places] > 1].tolist():
        number, fields = table.columns[SwfField.NUMBER][row], tuple(table.lines.fields(row))
        if fields in seen:
            found["twice"] += 1
        elif number in seen:
            found["numbers_again"] += 1
        seen |= {number, fields}
    return found


def _processes(table: SwfTable, options: SwfOptions) -> NDArray[np.float64]:
    """Return the processors of every row: allocated ones, or requested ones if the former are missing."""
    allocated = table.columns[SwfField.ALLOCATED]
    return np.where((allocated <= 0) & options.size_from_request, table.columns[SwfField.REQUESTED], allocated)


def _refusal(table: SwfTable, file: str, row: int) -> InputError:
    """Return the error for a row that a switched-off rule would have repaired."""
    columns = table.columns
    if columns[SwfField.SUBMIT][row] < 0:
        flaw = table.flaw(row, SwfField.SUBMIT, NOT_NEGATIVE)
    elif columns[SwfField.RUN][row] <= 0:
        flaw = table.flaw(row, SwfField.RUN, "a run time above 0")
    elif columns[SwfField.ALLOCATED][row] <= 0:
        flaw = table.flaw(row, SwfField.ALLOCATED, "processors above 0")
    elif columns[SwfField.ESTIMATE][row] <= 0:
        flaw = table.flaw(row, SwfField.ESTIMATE, "an estimate above 0")
    else:
        flaw = table.flaw(row, SwfField.SUBMIT, "rows in submit order")
    return error_of(flaw, file, int(table.lines.numbers[row]))


def _jobs(rows: _Rows, origin_us: int, options: SwfOptions) -> Jobs:
    left_out = {
        *(() if options.memory and rows["memory_mb"].any() else ("memory_mb",)),
        *(("logged_us",) if np.array_equal(rows["logged_us"], rows["run_us"]) else ()),
        *(() if (rows["waited_us"] >= 0).any() else ("waited_us",)),
    }
    columns = {name: _column(name, column) for name, column in rows.items() if name not in left_out}
    return Jobs(
        **columns
        | {
            "id": Numbers(range(1, len(rows["source_id"]) + 1)),
            "submit_us": Numbers(rows["submit_us"] - origin_us),
            "limit_us": columns["estimate_us"] if options.limits == "estimate" else Same(None),
        }
    )


def _column(name: str, numbers: NDArray[np.int64]) -> Column[Any]:
    value_of = _INTERNED.get(name)
    if value_of is None:
        return Numbers(numbers)
    distinct, places = np.unique(numbers, return_inverse=True)  # a log has few users
    return Interned(places.astype(np.uint32), list(map(value_of, distinct.tolist())))


def _calendar(epoch: Epoch, time_0_us: int) -> Calendar | None:
    """Return the local time of ``time_0_us`` of a log; None unless the header says when it begins, and in which time zone.

    The log's offset is taken as it is, the same all year.
    """
    if epoch.began_s is None or epoch.offset_s is None:
        return None
    return Calendar(epoch.began_s + epoch.offset_s + time_0_us / SECOND_US, named_days=True)
