"""Writes the Standard Workload Format: header and rows, for workloads and for finished schedules."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final, TextIO

from cosched_emulator.workload.atomic_file import new_text_file
from cosched_emulator.workload.job import NO_EPOCH, Epoch, Workload
from cosched_emulator.workload.jobs_in_columns import BLOCK, columns_of, seconds_texts
from cosched_hwmodel.units import seconds_text
from cosched_terminal.console import printable

UNKNOWN = "-1"
_KB_OF_MB = 1_024


def write_swf(target: str | os.PathLike[str] | TextIO, workload: Workload, *, force: bool = False) -> None:
    """Write a workload to a path (atomically; ``.gz`` compresses) or to an open text stream.

    The number of a row is `WorkloadJob.source_id`; waits are unknown. `read_swf` without repairs reads the same jobs back, to
    the microsecond, with limits by its options and without demands. Raises `InputError` if the file exists and ``force`` is
    false.
    """
    if isinstance(target, str | os.PathLike):
        with new_text_file(target, force=force) as stream:
            stream.writelines(f"{line}\n" for line in _lines(workload))
    else:
        target.writelines(f"{line}\n" for line in _lines(workload))


def _lines(workload: Workload) -> Iterator[str]:
    yield from header_lines(
        jobs=len(workload.jobs),
        processors=workload.processors,
        origin=workload.origin,
        notes=workload.notes,
        epoch=workload.epoch,
    )
    jobs = columns_of(workload.jobs)
    for first in range(0, len(jobs), BLOCK):
        some = jobs[first : first + BLOCK]
        count = len(some)
        submits, runs, estimates = [
            seconds_texts(each.array) for each in (some.submit_us, some.run_us, some.estimate_us)
        ]
        processes = some.processes.array.tolist()
        yield from swf_rows(
            some.source_id.array.tolist(),
            (submits, repeat(UNKNOWN), runs, estimates),
            processes,
            processes,
            some.status.values(0, count),
            some.user.values(0, count),
            some.group.values(0, count),
            some.name.values(0, count),
            some.memory_mb.values(0, count),
            some.queue.values(0, count),
            some.partition.values(0, count),
        )


def header_lines(
    *,
    jobs: int,
    processors: int | None,
    origin: str,
    notes: Iterable[str] = (),
    computer: str = "",
    epoch: Epoch = NO_EPOCH,
    more: Iterable[tuple[str, str]] = (),
) -> list[str]:
    """Return the comment lines for the top of a file; ``more``: further keys with their values."""
    pairs = [("Version", "2.2"), ("Computer", computer), ("Information", origin)]
    pairs += [("MaxJobs", str(jobs)), ("MaxRecords", str(jobs))]
    pairs += [("UnixStartTime", str(epoch.began_s or 0))]
    pairs += [("TimeZone", "" if epoch.offset_s is None else str(epoch.offset_s)), ("TimeZoneString", epoch.zone)]
    pairs += [("MaxProcs", UNKNOWN if processors is None else str(processors))]
    pairs += [*more, *(("Note", note) for note in notes)]
    # The rest of a value after a line break would be read as a row.
    return [f"; {key}: {printable(' '.join(value.split()))}" for key, value in pairs if value]


def format_row(
    number: int,
    submit_us: int,
    *,
    run_us: int | None,
    processes: int,
    wait_us: int | None = None,
    allocated: int | None = None,
    estimate_us: int | None = None,
    status: int = -1,
    user: str = "",
    name: str = "",
    queue: int = -1,
) -> str:
    """Return the 18 fields of one job, without a line end.

    Times are in microseconds and written as seconds, whole where they are. ``processes`` is the requested number, ``allocated``
    the held one (None: the same). None becomes -1, like a user or a name that is not a number: the format has only numbers.
    """
    submit, wait, run, estimate = [
        UNKNOWN if us is None else seconds_text(us) for us in (submit_us, wait_us, run_us, estimate_us)
    ]
    held = processes if allocated is None else allocated
    of_job = (number, submit, wait, run, held, processes, estimate, UNKNOWN, status)
    return _ROW % (*of_job, _number(user), UNKNOWN, _number(name), queue, UNKNOWN)


# Submission, wait, run time, held and requested processors, estimate, memory, status, user, group, name, queue and partition.
_ROW: Final = "%s %s %s %s %s -1 -1 %s %s %s %s %s %s %s %s %s -1 -1"


def _memory_kb(memory_mb: int) -> int | str:
    return memory_mb * _KB_OF_MB if memory_mb else UNKNOWN


def _number(text: str) -> str:
    return text if text.isascii() and text.isdigit() else UNKNOWN


def swf_rows(
    number: Iterable[int],
    times: Iterable[Iterable[int | str]],
    processes: Iterable[int],
    allocated: Iterable[int],
    status: Iterable[int],
    user: Iterable[str],
    group: Iterable[int],
    name: Iterable[str],
    memory_mb: Iterable[int],
    queue: Iterable[int],
    partition: Iterable[int],
) -> Iterator[str]:
    """Return what `format_row` returns of each job; ``times``: submissions, waits, run times and estimates in seconds."""
    submit, wait, run, estimate = times
    users, names = list(user), list(name)
    numbers = {text: _number(text) for text in {*users, *names}}
    of_jobs = (number, submit, wait, run, allocated, processes, estimate, map(_memory_kb, memory_mb), status)
    owners, programs = (map(numbers.__getitem__, texts) for texts in (users, names))
    return map(_ROW.__mod__, zip(*of_jobs, owners, group, programs, queue, partition, strict=False))
