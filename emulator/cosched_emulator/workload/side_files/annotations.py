"""Annotations: a side file with the use of nodes by the jobs of a workload, for traces that do not have it.

CSV with a header, or TOML with ``[[job]]`` tables (a name that ends in ``.toml``). A row has keys and values:

- ``job`` (number in the source), ``user``, ``application`` (a log's executable): the jobs; empty: any. At least one is required.
- ``cpu``, ``network``, ``disk``: fractions of the run time, with a sum of 1, to a millionth; one may be left out and is the rest.
- ``memory``: the memory of the job's processes on one node, as a fraction of a node's.
- ``bound``: cpu, network or disk; default: the largest fraction, the first of equal ones.
- ``self_node``, ``self_core``: the job's self slowdown: the factor of its run time with a process on each CPU of its nodes, and
  the further factor with processes on all cores of a CPU. Both or none; with them, all other values may be left out.
- ``ppn``: processes on each of the job's nodes, but for the last one; all other values may be left out.
- ``name``: the job's name from now on, as its application in a table of co-runs; all other values may be left out.
- ``memory_mb`` (of each process), ``priority``, ``eligible`` (nodes, as ``0-15;32``), ``resources`` (of each of its nodes, as
  ``gpu:2;fpga:1``), ``licences`` (of the machine): what the job asks for; all other values may be left out.
- ``partition`` (several after ``;``), ``qos``, ``account``, ``after`` (jobs that it waits for, as ``afterok:3:4;afterany:5``, by
  number in the source), ``begin_s``, ``cancel_s`` (after its submission: not before, and cancelled if it has not started), ``array``
  (a number that the tasks of an array have in common), ``at_once`` (of these at a time): what binds the job; likewise.
- ``ran_on`` (nodes, of a row that names the job): where it ran; likewise. Only a replay of the log asks for it.
- ``exclusive``, ``unpaired``, yes or no: no job is beside it, on its nodes or on its cores; all other values may be left out.

A row without values says nothing. Of several rows that say something of a job the most specific one wins: the one that names the job,
then the application, then the user.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.offered import dependencies_of, dependencies_text
from cosched_emulator.workload.atomic_file import make_folder, new_text_file
from cosched_emulator.workload.job import WARNING, After, Workload
from cosched_emulator.workload.jobs_in_columns import Computed, Jobs, Same, columns_of, intern_values
from cosched_emulator.workload.side_files.side_file_rows import (
    KEYS,
    JobKey,
    SideFileRow,
    check_names,
    csv_rows,
    keyed,
    keys_of,
    most_specific,
    only,
    patterns_of,
    text_of,
)
from cosched_hwmodel.composite.job_profile import FIELDS, Profile, ProfileError, from_mapping, to_mapping
from cosched_hwmodel.text_formats import toml_of
from cosched_hwmodel.units import WHOLE_PPM, amounts_of, amounts_text, parse_seconds, seconds_text
from cosched_hwmodel.usage import BOUNDS
from cosched_plugin.common.slurm_notation import ranges_of, ranges_text
from cosched_plugin.protocol.limits import MAX_THREADS
from cosched_plugin.protocol.messages import UsageTuple

USAGE = ("bound", *BOUNDS, "memory")
SELF = ("self_node", "self_core")
NAME = "name"
PPN = "ppn"
PRIORITY = "priority"
ELIGIBLE = "eligible"
RAN_ON = "ran_on"  # of the record alone, which `replay` starts jobs by
AMOUNTS = ("resources", "licences")
FLAGS = ("exclusive", "unpaired")
_SUM_ERROR = Decimal("1e-6")  # largest rounding error of the sum of the fractions
_TABLES = "job"  # of a TOML file
_LARGEST_FACTOR = 1_000
MOST_PRIORITY = 1_000_000_000
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {  # of values in TOML, except fractions
    "job": ((int,), "a job's number in the source"),
    "application": ((str, int), "a text or a whole number"),
    "user": ((str, int), "a text or a whole number"),
    **dict.fromkeys(FLAGS, ((str,), '"yes" or "no"')),
    **dict.fromkeys((NAME, ELIGIBLE, RAN_ON, *AMOUNTS, "partition", "qos", "account", "after"), ((str,), "a text")),
    **dict.fromkeys(("memory_mb", "array", "at_once"), ((int,), f"a whole number from 0 to {MOST_PRIORITY}")),
    **dict.fromkeys(("begin_s", "cancel_s"), ((int, Decimal), "a number of seconds")),
    PPN: ((int,), f"a whole number from 1 to {MAX_THREADS}"),
    PRIORITY: ((int,), f"a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}"),
    "bound": ((str,), f"one of {', '.join(BOUNDS)}"),
    **dict.fromkeys(SELF, ((int, Decimal), f"a factor from 0.000001 to {_LARGEST_FACTOR}")),
}


class _Said(NamedTuple):
    """What a row may say of jobs."""

    names: tuple[str, ...]  # of columns of the file
    read: Callable[[SideFileRow], Any]
    write: Callable[[Any], Iterable[object]] = lambda value: (value,)  # the cells of which it is read again
    columns: tuple[str, ...] | None = ()  # of the jobs; none: the one of its name; None: jobs of a run have none


class Annotations(NamedTuple):
    """The content of a file: by what it says, the value of each key."""

    file: str
    values: Mapping[str, Mapping[JobKey, Any]]

    def patterns(self) -> list[tuple[bool, ...]]:
        """Return the combinations of keys that occur, the most specific first."""
        return patterns_of(chain.from_iterable(self.values.values()))

    def rows(self, without: Iterable[str] = ()) -> dict[JobKey, dict[str, object]]:
        """Return the cells of each key, by column, as they are read again; but for what is named ``without``."""
        found: dict[JobKey, dict[str, object]] = {}
        for name, values in self.values.items():
            its = _SAID[name]
            for key, value in values.items() if name not in without else ():
                found.setdefault(key, {}).update(zip(its.names, its.write(value), strict=True))
        return found


def read_annotations(file: str) -> Annotations:
    """Read a side file. Raises `InputError`, with line and field, for invalid content and repeated keys.

    Runs of a study share a side file: it is read again only if it has changed.
    """
    if not file:
        raise ConfigurationError("annotations", "a CSV or TOML file", "''")
    try:
        now = os.stat(file)
    except OSError:
        return _read(file)  # which says what is wrong
    return _read_once(file, now.st_ino, now.st_size, now.st_mtime_ns)


@lru_cache(maxsize=2)  # that of the runs, and of those with something changed
def _read_once(file: str, *_: int) -> Annotations:
    return _read(file)


def _read(file: str) -> Annotations:
    said: dict[str, dict[JobKey, Any]] = {name: {} for name in _SAID}
    rows = _toml_rows(file) if file.endswith(".toml") else csv_rows(file, ANNOTATION_COLUMNS)
    for key, row in keyed(rows, file):
        for name, its in _SAID.items():
            if any(row.values.get(column, "") for column in its.names):
                said[name][key] = its.read(row)
    if not any(said.values()):
        raise InputError(file, "at least one row of values", "none")
    return Annotations(file, said)


def with_annotations(workload: Workload, annotations: Annotations) -> Workload:
    """Return the workload with what is said of the annotated jobs instead of what was known of them.

    A note gives the number of jobs for each combination of keys; a job counts for its most specific row. A warning is added if no
    row applies to any job.
    """
    patterns = annotations.patterns()
    counts = dict.fromkeys(patterns, 0)
    jobs = columns_of(workload.jobs)
    keys = keys_of(jobs)
    for whole in jobs.each(keys):
        of_job = ((pattern, only(whole, pattern)) for pattern in patterns)
        found = next(
            (pattern for pattern, key in of_job if any(key in values for values in annotations.values.values())), None
        )
        if found is not None:
            counts[found] += 1
    for name, values in annotations.values.items():
        columns = _SAID[name].columns
        for column in () if columns is None or not values else columns or (name,):
            said = Computed(partial(most_specific, values, patterns), keys, getattr(jobs, column))
            jobs = jobs.having(**{column: said})
    parts = [
        f"{number} jobs by {' and '.join(name for name, named in zip(KEYS, pattern, strict=True) if named)}"
        for pattern, number in counts.items()
    ]
    parts.append(f"{len(jobs) - sum(counts.values())} jobs not in it")
    without = len(jobs) - jobs.known(jobs.usage)
    note = f"annotations {annotations.file}: {', '.join(parts)}; {without} jobs without characteristics"
    if annotations.values["self_slowdown"]:
        note += f", {len(jobs) - jobs.known(jobs.self_slowdown)} without self slowdown"
    notes = (*workload.notes, note)
    if not any(counts.values()):
        notes += (f"{WARNING}{annotations.file} annotates none of the {len(jobs)} jobs",)
    return workload._replace(jobs=jobs, notes=notes)


def annotation_lines(workload: Workload) -> Iterator[str]:
    """Yield the lines of a CSV file with the annotations of this workload, so that reading it gives the same workload.

    Rows are keyed by job; if numbers of the source repeat, by application and user as well. Columns without any value are left
    out.
    """
    jobs = columns_of(workload.jobs)
    repeated = len(np.unique(jobs.source_id.array)) < len(jobs)
    keys = KEYS if repeated else KEYS[:1]
    said = {column: its for column, its in ANNOTATED.items() if jobs.says(column)}
    jobs = by_source(jobs)
    rows = zip(jobs.each(keys_of(jobs)), *[_values_of(jobs, column) for column in said], strict=True)
    known = ((tuple(map(_logged, key[: len(keys)])), values) for key, *values in rows if any(values))
    if repeated:  # of jobs with equal keys the last one counts
        known = (row for row in dict(known).items())
    line_of = csv.writer(_Echo(), lineterminator="\n").writerow
    yield line_of((*keys, *[name for its in said.values() for name in its.names]))
    for key, values in known:
        cells = [*key]
        for value, its in zip(values, said.values(), strict=True):
            cells += [str(cell) for cell in its.write(value)] if value else [""] * len(its.names)
        yield line_of(cells)


def _values_of(jobs: Jobs, column: str) -> Iterator[Any]:
    """Yield the values of a column; of numbers of processes a node those that are exact, as no row says bounds."""
    values = jobs.each(getattr(jobs, column))
    if column != "ppn_max":
        yield from values
        return
    for least, most in zip(jobs.each(jobs.ppn_min), values, strict=True):
        yield most if least == most else 0


class _Echo:
    """A stream that hands back what is written."""

    def write(self, text: str) -> str:
        return text


def write_annotations(target: Path, rows: Mapping[JobKey, Mapping[str, object]]) -> None:
    """Write a CSV side file, over an older one: a row for each key, with these cells by column. Columns without any are left out."""
    cells = [
        {**{name: part for name, part in key._asdict().items() if part is not None}, **row} for key, row in rows.items()
    ]
    make_folder(target.parent)
    with new_text_file(target, force=True) as stream:
        columns = [name for name in ANNOTATION_COLUMNS if any(name in row for row in cells)]
        table = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
        table.writeheader()
        table.writerows(cells)


def _logged(value: int | str | None) -> str:
    """Return a part of a key as a log has it: names in logs are numbers, and `write_swf` keeps no others."""
    text = "" if value is None else str(value)
    return text if text.isascii() and text.isdigit() else ""


def _decimal(ppm: int) -> str:
    return f"{ppm / WHOLE_PPM:.6f}"


def _of_text(row: SideFileRow, name: str, read: Callable[[str], Any]) -> Any:
    text = row.values[name]
    try:
        return read(text)
    except ValueError as error:
        raise row.error(name, str(error), repr(text)) from None


def _usage(row: SideFileRow) -> UsageTuple:
    fractions = {name: _fraction(row, name) for name in BOUNDS if row.values.get(name, "")}
    missing = [name for name in BOUNDS if name not in fractions]
    total = sum(fractions.values(), Decimal(0))
    if len(missing) > 1:
        raise row.error(missing[0], "a fraction (one of cpu, network, disk may be left out)", "none")
    if total > 1 + _SUM_ERROR or (not missing and total < 1 - _SUM_ERROR):
        limit = "of at most" if missing else "of"
        raise row.error(None, f"cpu, network and disk with a sum {limit} 1", f"{total:.12g}")
    for name in missing:
        fractions[name] = max(Decimal(0), 1 - total)
    largest = max(BOUNDS, key=fractions.__getitem__)
    bound = row.values.get("bound", "") or largest
    if bound not in BOUNDS:
        raise row.error("bound", f"one of {', '.join(BOUNDS)}", repr(bound))
    ppm = {name: round(fractions[name] * WHOLE_PPM) for name in BOUNDS}
    rest = WHOLE_PPM - sum(ppm.values())
    ppm[bound if ppm[bound] + rest >= 0 else largest] += rest
    return (bound, ppm["cpu"], ppm["network"], ppm["disk"], round(_fraction(row, "memory") * WHOLE_PPM))


def _whole(row: SideFileRow, name: str) -> int:
    return row.whole(name, 0, MOST_PRIORITY)


def _names(text: str) -> tuple[str, ...]:
    return tuple([name.strip() for name in text.replace(",", ";").split(";")])


def _span_us(text: str) -> int:
    try:
        return parse_seconds(text)
    except ValueError:
        raise ValueError("a number of seconds, 0 or more") from None


def _factor_ppm(row: SideFileRow, name: str) -> int:
    """Return a factor in whole millionths."""
    value = row.number(name)
    if not (value.is_finite() and Decimal("1e-6") <= value <= _LARGEST_FACTOR):
        text = row.values.get(name, "")
        raise row.error(name, f"a factor from 0.000001 to {_LARGEST_FACTOR}", repr(text) if text else "none")
    return round(value * WHOLE_PPM)


_SAID: Mapping[str, _Said] = {
    "usage": _Said(USAGE, _usage, lambda usage: (usage[0], *map(_decimal, usage[1:]))),
    "self_slowdown": _Said(
        SELF, lambda row: tuple([_factor_ppm(row, name) for name in SELF]), lambda own: map(_decimal, own)
    ),
    "name": _Said((NAME,), lambda row: row.values[NAME]),
    "ppn": _Said((PPN,), lambda row: row.whole(PPN, 1, MAX_THREADS), columns=("ppn_max", "ppn_min")),
    "priority": _Said((PRIORITY,), lambda row: row.whole(PRIORITY, -MOST_PRIORITY, MOST_PRIORITY)),
    "memory_mb": _Said(("memory_mb",), lambda row: row.whole("memory_mb", 0, MOST_PRIORITY), columns=("memory_mb",)),
    "partitions": _Said(("partition",), lambda row: _names(row.values["partition"]), lambda names: (";".join(names),)),
    **{name: _Said((name,), partial(_of_text, name=name, read=str)) for name in ("qos", "account")},
    "after": _Said(
        ("after",), partial(_of_text, name="after", read=dependencies_of), lambda after: (dependencies_text(after),)
    ),
    **{
        name: _Said((column,), partial(_of_text, name=column, read=_span_us), lambda span: (seconds_text(span),))
        for name, column in (("delay_us", "begin_s"), ("cancel_us", "cancel_s"))
    },
    **{name: _Said((name,), partial(_whole, name=name)) for name in ("array", "at_once")},
    "eligible": _Said(
        (ELIGIBLE,), partial(_of_text, name=ELIGIBLE, read=ranges_of), lambda nodes: (ranges_text(nodes),)
    ),
    RAN_ON: _Said(
        (RAN_ON,), partial(_of_text, name=RAN_ON, read=ranges_of), lambda nodes: (ranges_text(nodes),), columns=None
    ),
    **{
        name: _Said((name,), partial(_of_text, name=name, read=amounts_of), lambda amounts: (amounts_text(amounts),))
        for name in AMOUNTS
    },
    **{name: _Said((name,), partial(SideFileRow.flag, name=name), lambda flag: ("yes" * flag,)) for name in FLAGS},
}
ANNOTATION_COLUMNS: Final = (*KEYS, *[name for its in _SAID.values() for name in its.names])
# What no field of a log says, by column of the jobs.
ANNOTATED: Final = {
    (its.columns or (name,))[0]: its
    for name, its in _SAID.items()
    if its.columns is not None and name not in (NAME, "memory_mb")
}


def _fraction(row: SideFileRow, name: str) -> Decimal:
    """Return the exact fraction in a text."""
    value = row.number(name)
    text = row.values.get(name, "")
    if not (value.is_finite() and 0 <= value <= 1):
        raise row.error(name, "a fraction from 0 to 1", repr(text) if text else "none")
    return value


def _toml_rows(file: str) -> Iterator[SideFileRow]:
    try:
        document = toml_of(text_of(file), Decimal)
    except ValueError as error:
        raise InputError(file, "TOML", str(error)) from error
    tables = document.get(_TABLES)
    if set(document) - {_TABLES} or not isinstance(tables, list):
        raise InputError(file, f"[[{_TABLES}]] tables and nothing else", f"the keys {', '.join(document) or 'none'}")
    for index, table in enumerate(tables):
        place = f"{_TABLES}[{index}]"
        if not isinstance(table, dict):
            raise InputError(file, "a table", repr(table), field=place)
        check_names(table, ANNOTATION_COLUMNS, file, None, place)
        for name, value in table.items():
            types, expected = _TYPES.get(name, ((int, Decimal), "a fraction from 0 to 1"))
            if not isinstance(value, types) or isinstance(value, bool):
                raise InputError(file, expected, repr(value), field=f"{place}.{name}")
        values = {name: str(value) for name, value in table.items()}
        yield SideFileRow(file, None, place, values)


# What jobs wait for: other jobs, by their numbers in the source, which become those of the run.


def by_run(workload: Workload) -> Workload:
    """Return the workload with jobs that wait for others by their numbers in the run instead of those in the source.

    A number stands for the nearest job before with that number. Where there is none, the job does not wait; a warning counts these.
    """
    jobs = columns_of(workload.jobs)
    if not jobs.says("after"):
        return workload
    lost = 0
    seen: dict[int, int] = {}
    found: list[After] = []
    for job_id, source, after in zip(jobs.each(jobs.id), jobs.each(jobs.source_id), jobs.each(jobs.after), strict=True):
        known = tuple([(kind, seen[other]) for kind, other in after if other in seen])
        lost += len(after) - len(known)
        found.append(known)
        seen[source] = job_id
    notes = workload.notes
    if lost:
        notes += (f"{WARNING}{lost} dependencies name no earlier job of the workload; they count as met",)
    return workload._replace(jobs=jobs.having(after=intern_values(found)), notes=notes)


def by_source(jobs: Jobs) -> Jobs:
    """Return the jobs of a run with those that they wait for by their numbers in the source."""
    if not jobs.says("after"):
        return jobs
    sources = dict(zip(jobs.each(jobs.id), jobs.each(jobs.source_id), strict=True))
    return jobs.having(after=intern_values(_renumbered(jobs.each(jobs.after), sources)))


def _renumbered(found: Iterable[After], numbers: dict[int, int]) -> Iterator[After]:
    for after in found:
        yield tuple([(kind, numbers[other]) for kind, other in after if other in numbers])


# Profiles of jobs in a side file: what each process asks of its node, for the composite model.
#
# CSV with a header. A row has keys and values:
#
# - ``job`` (number in the source), ``application`` (the job's name), ``user``: the jobs; empty: any. At least one is required.
# - the fields of `cosched_hwmodel.composite.job_profile.Profile`, in whole numbers; an empty one has its default.
#
# If several rows are about a job, the most specific one wins: the one that names the job, then the application, then the user.

PROFILE_COLUMNS = (*KEYS, *FIELDS)
_DIGITS = 18


def with_profiles(workload: Workload, file: str, *, told: bool) -> Workload:
    """Return the workload with the profiles in a side file, which the scheduler is ``told`` or not.

    A note gives the number of jobs with a profile. Raises `InputError`, with line and column.
    """
    profiles = read_profiles(file)
    jobs = columns_of(workload.jobs)
    found = Computed(partial(most_specific, profiles, patterns_of(profiles)), keys_of(jobs), Same(None))
    jobs = jobs.having(profile=found, told_profile=found if told else Same(None))
    known = jobs.known(found)
    notes = (*workload.notes, f"profiles {file}: {known} jobs; {len(jobs) - known} jobs not in it")
    if not known:
        notes += (f"{WARNING}{file} names none of the {len(jobs)} jobs",)
    return workload._replace(jobs=jobs, notes=notes)


def read_profiles(file: str) -> Mapping[JobKey, Profile]:
    """Read a side file. Raises `InputError`, with line and field, for invalid content and repeated keys."""
    if not file:
        raise ConfigurationError("workload.profiles", "a CSV file", "''")
    return {key: _profile(row) for key, row in keyed(csv_rows(file, PROFILE_COLUMNS), file)}


def profile_lines(workload: Workload) -> Iterator[str]:
    """Yield the lines of a CSV file with the profiles of this workload, by job; columns without any value are left out."""
    jobs = columns_of(workload.jobs)
    rows = [
        (source, to_mapping(profile))
        for source, profile in zip(jobs.each(jobs.source_id), jobs.each(jobs.profile), strict=True)
        if profile is not None
    ]
    fields = [field for field in FIELDS if any(field in values for _, values in rows)]
    yield ",".join(("job", *fields)) + "\n"
    for source, values in rows:
        yield ",".join([str(source), *[str(values.get(field, "")) for field in fields]]) + "\n"


def _profile(row: SideFileRow) -> Profile:
    values = {}
    for field in FIELDS:
        text = row.values.get(field, "")
        if text:
            if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
                raise row.error(field, "a whole number", repr(text))
            values[field] = int(text)
    try:
        return from_mapping(values)
    except ProfileError as error:
        got = repr(row.values.get(error.where, ""))
        raise row.error(error.where, f"a possible value ({error.text})", got) from error
