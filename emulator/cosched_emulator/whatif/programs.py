"""Which jobs of a log are which programs of a table of measured pairs: drawn, where the site does not say it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cosched_emulator.scenario.co_runs import co_run_table
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.side_files.annotations import Annotations, write_annotations
from cosched_emulator.workload.side_files.side_file_rows import JobKey
from cosched_hwmodel.draws import uniform

_DRAWS: Final = range(2, 9)  # tried for another draw than the first: a table of two programs may be drawn alike
_FILE: Final = "programs-{draw}.csv"  # in the study's folder
_OF_PROGRAMS: Final = ("name", "usage", "self_slowdown", "ppn")  # what a drawn program has, or leaves open


def drawn_programs(pairs: str, log: Workload, folder: Path, said: Annotations | None, *, draw: int) -> Path:
    """Write which jobs are which programs of the table, beside what else is said of jobs; return the file.

    One is drawn for each user and program of the log, or for each job where the log has neither. Processes on a node are left open:
    a job that keeps them cannot run on halves of nodes.
    """
    choices = co_run_table(pairs, "truth.pairs").applications
    jobs = columns_of(log.jobs)
    named = zip(jobs.each(jobs.name), jobs.each(jobs.user), strict=True)
    keys = sorted({JobKey(None, name or None, user or None) for name, user in named}, key=str)
    if keys == [JobKey(None, None, None)]:
        keys = [JobKey(source, None, None) for source in jobs.source_id.array.tolist()]
    rows: dict[JobKey, dict[str, object]] = {}
    for key in filter(any, keys):
        numbers = [int(part) if part is not None and str(part).isdecimal() else 0 for part in key]
        rows[key] = {"name": choices[int(uniform(draw, "whatif-program", *numbers) * len(choices))]}
    for key, own in ({} if said is None else said.rows(_OF_PROGRAMS)).items():
        if any(own.values()):
            rows[key] = {**own, **rows.get(key, {})}
    target = folder / _FILE.format(draw=draw)
    write_annotations(target, rows)
    return target


def other_programs(pairs: str, log: Workload, folder: Path, said: Annotations | None, first: str) -> str | None:
    """Return the file of another draw than the ``first``; None if there is none that differs."""
    for draw in _DRAWS:
        other = drawn_programs(pairs, log, folder, said, draw=draw)
        if other.read_bytes() != Path(first).read_bytes():
            return str(other)
    return None
