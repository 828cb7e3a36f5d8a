"""The jobs that a row of a side file is about: by number in the source, application or user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from cosched_emulator.workload.columns import Column, Computed, Jobs
from cosched_emulator.workload.side_files.rows import Row

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


def key_of(row: Row) -> JobKey:
    """Return the key of a row. Raises `InputError` if it names no job, application or user."""
    job, application, user = (row.values.get(name, "") or None for name in KEYS)
    if job is application is user is None:
        raise row.error(None, f"one of {', '.join(KEYS)}, or more", "none")
    return JobKey(row.job(), application, user)
