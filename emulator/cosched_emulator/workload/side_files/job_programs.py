"""What the processes of jobs do, on nodes that run processes: the same for all jobs, or by job in a side file.

CSV with a header. A row has the columns ``job`` (number in the source) and ``program``, and may have:

- ``cpu_share``: of the time alone, in which a process of ``fine`` computes; 0 to 1.
- ``null_statements``: of a process of ``compute`` between two barriers (the paper's G_comp).
- ``files``: that a process of ``io`` writes between two barriers (G_I/O).
- ``iterations``: of ``compute``, ``io`` and the NAS programs; empty: as many as fit the job's run time.
- ``jitter``: of bursts, 0 to 1: each is uniform within that part of its length.
- ``grain``: of the NAS programs: bursts and messages are so many times as large, and iterations fewer.
- ``unpaired``: yes or no: no job of another slot may run on the job's nodes at the same time.

A program ``nas:CG.C`` is one of `nas.tables`, with the number of processes and the memory of such a job.

An empty value is that of the scenario. A column without effect on the row's program must be empty.
"""

from __future__ import annotations

from typing import Final

from cosched_emulator.errors import InputError
from cosched_emulator.offered import LEAST_GRAIN, MOST_GRAIN, OF_NAS_PROGRAMS
from cosched_emulator.offered import PROGRAMS as PARAMETERS
from cosched_emulator.workload.job import WARNING, JobProgram, Programs, Workload
from cosched_emulator.workload.jobs_in_columns import Jobs, columns_of, intern_values
from cosched_emulator.workload.nas import LABELS, PREFIX, kind_of
from cosched_emulator.workload.side_files.side_file_rows import SideFileRow, csv_rows
from cosched_hwmodel.errors import Unwanted
from cosched_hwmodel.units import WHOLE_PPM

PROGRAMS: Final = tuple(PARAMETERS)
COLUMNS: Final = (
    "job",
    "program",
    "cpu_share",
    "null_statements",
    "files",
    "iterations",
    "jitter",
    "grain",
    "unpaired",
)
MOST: Final = 1_000_000_000  # of each whole number


def with_programs(workload: Workload, file: str, usual: JobProgram) -> Workload:
    """Return the workload with the programs in a side file; jobs that are not in it run the ``usual`` one.

    A note gives their numbers. Raises `InputError`, with line and column.
    """
    rows = _read(file, usual)
    jobs = columns_of(workload.jobs)
    found = {
        job_id: row for job_id, source in zip(jobs.each(jobs.id), jobs.each(jobs.source_id), strict=True)
        if (row := rows.get(source)) is not None
    }  # fmt: skip
    if any(unpaired for _, unpaired in found.values()):
        unpaired = intern_values(job_id in found and found[job_id][1] for job_id in jobs.each(jobs.id))
        jobs = jobs.having(unpaired=unpaired)
    notes = (
        *workload.notes,
        f"programs {file}: {len(found)} jobs; {len(jobs) - len(found)} jobs not in it run {usual.name}",
    )
    if not found:
        notes += (f"{WARNING}{file} names none of the {len(jobs)} jobs",)
    programs = Programs(usual, {job_id: program for job_id, (program, _) in found.items()})
    return workload._replace(jobs=jobs, notes=notes, programs=with_memory(programs, jobs))


def parameters_of(name: str) -> tuple[str, ...] | None:
    """Return the columns that a program uses; None if there is no such program."""
    if name.startswith(PREFIX) and name.removeprefix(PREFIX) in LABELS:
        return OF_NAS_PROGRAMS
    return PARAMETERS.get(name)


def with_memory(programs: Programs, jobs: Jobs) -> Programs:
    """Return the programs with the memory of those of the NAS benchmarks.

    Raises `ConfigurationError` for a number of processes that such a program does not run on.
    """
    by_job = dict(programs.by_job)
    for job_id, processes in zip(jobs.each(jobs.id), jobs.each(jobs.processes), strict=True):
        program = programs.of(job_id)
        if program.name.startswith(PREFIX):
            kind = kind_of(program.name.removeprefix(PREFIX), processes, f"workload.programs: job {job_id}")
            by_job[job_id] = program._replace(memory_mb=kind.memory_mb)
    return Programs(programs.usual, by_job)


def _read(file: str, usual: JobProgram) -> dict[int, tuple[JobProgram, bool]]:
    """Return the program of each job of the source that a file names, and whether the job is unpaired."""
    found: dict[int, tuple[JobProgram, bool]] = {}
    for row in csv_rows(file, COLUMNS):
        job = row.job()
        if job is None:
            raise row.error("job", "a job's number in the source", "none")
        if job in found:
            raise row.error("job", "each job once", f"{job} again")
        found[job] = (_program(row, usual), row.flag("unpaired"))
    if not found:
        raise InputError(file, "at least one row of values", "none")
    return found


def _program(row: SideFileRow, usual: JobProgram) -> JobProgram:
    name = row.values.get("program", "") or usual.name
    if parameters_of(name) is None:
        raise row.error("program", f"one of {', '.join(PROGRAMS)}, {PREFIX}PROGRAM.CLASS", repr(name))
    for column in COLUMNS[2:-1]:
        if column not in (parameters_of(name) or ()) and row.values.get(column, ""):
            raise row.error(column, Unwanted(f"it has no effect on {name}"), repr(row.values[column]))
    share_ppm, jitter_ppm = _part_ppm(row, "cpu_share"), _part_ppm(row, "jitter")
    statements, files = _whole(row, "null_statements"), _whole(row, "files")
    iterations = _whole(row, "iterations")
    return JobProgram(
        name,
        usual.cpu_share_ppm if share_ppm is None else share_ppm,
        usual.null_statements if statements is None else statements,
        usual.files if files is None else files,
        usual.iterations if iterations is None else iterations,
        usual.jitter_ppm if jitter_ppm is None else jitter_ppm,
        _grain(row, usual.grain),
    )


def _part_ppm(row: SideFileRow, name: str) -> int | None:
    text = row.values.get(name, "")
    if not text:
        return None
    value = row.number(name)
    if not (value.is_finite() and 0 <= value <= 1):
        raise row.error(name, "a number from 0 to 1", repr(text))
    return round(value * WHOLE_PPM)


def _grain(row: SideFileRow, usual: float) -> float:
    text = row.values.get("grain", "")
    if not text:
        return usual
    value = row.number("grain")
    if not (value.is_finite() and LEAST_GRAIN <= float(value) <= MOST_GRAIN):
        raise row.error("grain", f"a number from {LEAST_GRAIN:g} to {MOST_GRAIN:g}", repr(text))
    return float(value)


def _whole(row: SideFileRow, name: str) -> int | None:
    return row.whole(name, 1, MOST) if row.values.get(name, "") else None
