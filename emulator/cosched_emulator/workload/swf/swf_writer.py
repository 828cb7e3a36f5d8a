"""Writes the Standard Workload Format: header and rows, for workloads and for finished schedules."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TextIO

from cosched_emulator.workload.atomic_file import new_text_file
from cosched_emulator.workload.job import NO_EPOCH, Epoch, Workload
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
    for job in workload.jobs:
        spec = job.spec
        yield format_row(
            job.source_id,
            spec.submit_us,
            run_us=job.run_us,
            processes=spec.processes,
            estimate_us=spec.estimate_us,
            user=spec.user,
            name=spec.name,
            status=job.status,
            memory_mb=spec.memory_mb,
            group=job.group,
            queue=job.queue,
            partition=job.partition,
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
    memory_mb: int = 0,
    group: int = -1,
    queue: int = -1,
    partition: int = -1,
) -> str:
    """Return the 18 fields of one job, without a line end.

    Times are in microseconds and written as seconds, whole where they are. ``processes`` is the requested number, ``allocated``
    the held one (None: the same). ``memory_mb`` is the request of each process; 0: none. None becomes -1, like a user or a name
    that is not a number: the format has only numbers.
    """
    times = [UNKNOWN if us is None else seconds_text(us) for us in (submit_us, wait_us, run_us, estimate_us)]
    held = processes if allocated is None else allocated
    columns = (processes, held, status, user, group, name, memory_mb, queue, partition)
    return next(swf_rows((number,), [(time,) for time in times], *[(value,) for value in columns]))  # type: ignore[arg-type]


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
    """Yield what `format_row` returns; ``times``: submissions, waits, run times and estimates in seconds, -1 where unknown."""
    rows = zip(
        number, *times, allocated, processes, memory_mb, status, user, group, name, queue, partition, strict=False
    )
    for job, submit, wait, run, estimate, held, asked, memory, how, who, of, what, line, part in rows:
        yield (
            f"{job} {submit} {wait} {run} {held} -1 -1 {asked} {estimate} {memory * _KB_OF_MB if memory else UNKNOWN} {how} "
            f"{who if who.isascii() and who.isdigit() else UNKNOWN} {of} "
            f"{what if what.isascii() and what.isdigit() else UNKNOWN} {line} {part} -1 -1"
        )
