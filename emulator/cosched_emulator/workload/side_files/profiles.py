"""Profiles of jobs in a side file: what each process asks of its node, for the composite model.

CSV with a header. A row has keys and values:

- ``job`` (number in the source), ``application`` (the job's name), ``user``: the jobs; empty: any. At least one is required.
- the fields of `cosched_hwmodel.composite.profile.Profile`, in whole numbers; an empty one has its default.

If several rows are about a job, the most specific one wins: the one that names the job, then the application, then the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.workload.columns import Computed, Same, columns_of
from cosched_emulator.workload.job import WARNING, Workload
from cosched_emulator.workload.side_files.job_keys import KEYS, JobKey, key_of, keys_of, most_specific, patterns_of
from cosched_emulator.workload.side_files.rows import Row, csv_rows
from cosched_hwmodel.composite.profile import FIELDS, Profile, ProfileError, from_mapping, to_mapping

COLUMNS = (*KEYS, *FIELDS)
_DIGITS = 18


def with_profiles(workload: Workload, file: str, *, told: bool) -> Workload:
    """Return the workload with the profiles in a side file, which the scheduler is ``told`` or not.

    A note gives the number of jobs with a profile. Raises `InputError`, with line and column.
    """
    profiles = read_profiles(file)
    jobs = columns_of(workload.jobs)
    found = Computed(partial(most_specific, profiles, patterns_of(profiles)), keys_of(jobs), Same(None))
    jobs = replace(jobs, profile=found, told_profile=found if told else Same(None))
    known = jobs.known(found)
    notes = (*workload.notes, f"profiles {file}: {known} jobs; {len(jobs) - known} jobs not in it")
    if not known:
        notes += (f"{WARNING}{file} names none of the {len(jobs)} jobs",)
    return workload._replace(jobs=jobs, notes=notes)


def read_profiles(file: str) -> Mapping[JobKey, Profile]:
    """Read a side file. Raises `InputError`, with line and field, for invalid content and repeated keys."""
    if not file:
        raise ConfigurationError("workload.profiles", "a CSV file", "''")
    profiles: dict[JobKey, Profile] = {}
    for row in csv_rows(file, COLUMNS):
        key = key_of(row)
        if key in profiles:
            text = ", ".join(f"{name} {value}" for name, value in zip(KEYS, key, strict=True) if value is not None)
            raise row.error(None, "each key once", f"{text} again")
        profiles[key] = _profile(row)
    if not profiles:
        raise InputError(file, "at least one row of values", "none")
    return profiles


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


def _profile(row: Row) -> Profile:
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
        got = repr(row.values.get(error.field, ""))
        raise row.error(error.field, f"a possible value ({error.text})", got) from error
