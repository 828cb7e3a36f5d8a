"""Side files of a workload: rows of named values about its jobs, from CSV; errors name file, line and column."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple, TypeVar

from cosched_emulator.errors import InputError
from cosched_emulator.workload.jobs_in_columns import Column, Computed, Jobs


class SideFileRow(NamedTuple):
    """A row as text, with its place: a line of a CSV file, or a table of a TOML file."""

    file: str
    line: int | None
    table: str
    values: Mapping[str, str]

    def error(self, field: str | None, expected: str, got: str) -> InputError:
        """Return the error of a value, or of the whole row."""
        name = ".".join(part for part in (self.table, field) if part)
        return InputError(self.file, expected, got, self.line, name or None)

    def number(self, name: str) -> Decimal:
        """Return the exact number in a text; NaN if it contains none."""
        try:
            return Decimal(self.values.get(name, ""))
        except InvalidOperation:
            return Decimal("nan")

    def whole(self, name: str, least: int, most: int) -> int:
        """Return the whole number in a text. Raises `InputError` if it is another text, or beyond its bounds."""
        value = self.number(name)
        if not (value.is_finite() and least <= value <= most and value == value.to_integral_value()):
            raise self.error(name, f"a whole number from {least} to {most}", repr(self.values.get(name, "")))
        return int(value)

    def flag(self, name: str) -> bool:
        """Return whether a text is ``yes``; False if the column is empty. Raises `InputError` for anything but yes and no."""
        text = self.values.get(name, "") or "no"
        if text not in ("yes", "no"):
            raise self.error(name, "yes or no", repr(text))
        return text == "yes"

    def job(self) -> int | None:
        """Return the job's number in the source; None if the column is empty. Raises `InputError` for anything else."""
        text = self.values.get("job", "")
        if not text:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) <= 18):
            raise self.error("job", "a job's number in the source", repr(text))
        return int(text)


def csv_rows(file: str, columns: Sequence[str]) -> Iterator[SideFileRow]:
    """Yield the rows of a CSV file with a header of some of these columns. Raises `InputError`."""
    lines = csv.reader(io.StringIO(text_of(file)), strict=True)
    header: list[str] | None = None
    try:
        for cells in lines:
            values = [cell.strip() for cell in cells]
            if not any(values):
                continue
            if header is None:
                check_names(values, columns, file, lines.line_num)
                header = values
                continue
            if len(values) != len(header):
                raise InputError(file, f"{len(header)} fields", str(len(values)), lines.line_num)
            yield SideFileRow(file, lines.line_num, "", dict(zip(header, values, strict=True)))
    except csv.Error as error:
        raise InputError(file, "a CSV file", str(error), lines.line_num) from error


def check_names(names: Iterable[str], columns: Sequence[str], file: str, line: int | None, place: str = "") -> None:
    """Raise `InputError` if a name is none of the columns, or comes twice."""
    seen = set()
    for name in names:
        if name not in columns:
            close = difflib.get_close_matches(name, columns, n=1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise InputError(file, f"the names {', '.join(columns)}", repr(name) + hint, line, place or None)
        if name in seen:
            raise InputError(file, "each column once", f"{name} again", line)
        seen.add(name)


def text_of(file: str, errors: str = "strict") -> str:
    """Return the content of a file; ``errors`` as of `bytes.decode`. Raises `InputError`."""
    try:
        if Path(file).exists() and not Path(file).is_file():  # reading a pipe could block for ever
            raise InputError(file, "a regular file")
        return Path(file).read_text(encoding="utf-8-sig", errors=errors)
    except UnicodeDecodeError as error:
        raise InputError(file, "a text in UTF-8", str(error)) from error
    except OSError as error:
        raise InputError(file, "a file that can be read", error.strerror or str(error)) from error


# The jobs that a row of a side file is about: by number in the source, application or user.

Value = TypeVar("Value")
KEYS = ("job", "application", "user")  # the most specific first


class JobKey(NamedTuple):
    """The jobs of a row; None stands for any."""

    job: int | None
    application: str | None
    user: str | None


def patterns_of(keys: Iterable[JobKey]) -> list[tuple[bool, ...]]:
    """Return the combinations of keys that occur, the most specific first."""
    return sorted({tuple(value is not None for value in key) for key in keys}, reverse=True)


def most_specific(
    values: Mapping[JobKey, Value], patterns: Iterable[tuple[bool, ...]], whole: JobKey, before: Value | None
) -> Value | None:
    """Return the value of the most specific row for a job; without such a row, its previous value."""
    for pattern in patterns:
        value = values.get(only(whole, pattern))
        if value is not None:
            return value
    return before


def keys_of(jobs: Jobs) -> Column[JobKey]:
    """Return the key of each job, with all of its parts."""
    return Computed(JobKey, jobs.source_id, jobs.name, jobs.user)


def only(whole: JobKey, pattern: tuple[bool, ...]) -> JobKey:
    """Return the key of one job, reduced to the parts that the pattern names."""
    job, application, user = pattern
    return JobKey(whole.job if job else None, whole.application if application else None, whole.user if user else None)


def keyed(rows: Iterable[SideFileRow], file: str) -> Iterator[tuple[JobKey, SideFileRow]]:
    """Yield the rows with their keys. Raises `InputError` for a repeated key, and if there is no row."""
    seen: set[JobKey] = set()
    for row in rows:
        key = key_of(row)
        if key in seen:
            text = ", ".join(f"{name} {value}" for name, value in zip(KEYS, key, strict=True) if value is not None)
            raise row.error(None, "each key once", f"{text} again")
        seen.add(key)
        yield key, row
    if not seen:
        raise InputError(file, "at least one row of values", "none")


def key_of(row: SideFileRow) -> JobKey:
    """Return the key of a row. Raises `InputError` if it names no job, application or user."""
    job, application, user = (row.values.get(name, "") or None for name in KEYS)
    if job is application is user is None:
        raise row.error(None, f"one of {', '.join(KEYS)}, or more", "none")
    return JobKey(row.job(), application, user)
