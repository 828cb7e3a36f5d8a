"""A folder with a log from a dump: ``trace.swf``, ``jobs.csv``, ``names.csv`` and ``scenario.toml``, as the Slurm driver records it.

Users, names and partitions are numbers in the log; ``names.csv`` says who they are. An anonymous log has no such file, nor
Slurm's numbers of jobs, nor the day. ``jobs.csv`` has the processes of each job on a node, and columns for annotations of
applications and users to be added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from cosched_emulator.errors import InputError
from cosched_emulator.workload.atomic_file import make_folder, new_text_file
from cosched_emulator.workload.sacct.sacct_dump import read_dump
from cosched_emulator.workload.sacct.sacct_jobs import TWICE, Imported, LoggedJob, jobs_of
from cosched_emulator.workload.sacct.sacct_rows import HINT
from cosched_emulator.workload.swf.swf_writer import format_row, header_lines
from cosched_hwmodel.csv_names import encoded
from cosched_hwmodel.units import SECOND_US

TRACE, ANNOTATIONS, NAMES, SCENARIO = "trace.swf", "jobs.csv", "names.csv", "scenario.toml"
DEFAULT_ESTIMATE_S: Final = 86_400.0
_COLUMNS: Final = "job,application,user,bound,cpu,network,disk,memory,name,ppn"
_MOSTLY: Final = 0.9  # of the node time: then jobs have nodes alone
_NO_ZONE: Final = "times name no time zone: taken as UTC, without a change of clocks (--time-zone says where)"


class ImportOptions(NamedTuple):
    """How a dump becomes a log."""

    time_zone: str | None = None  # of times that name none
    partitions: tuple[str, ...] = ()  # empty: all
    threads_per_core: int = 1  # CPUs of Slurm that are one core
    default_estimate_s: float = DEFAULT_ESTIMATE_S  # of jobs without a limit
    anonymous: bool = False
    as_submitted: bool = False  # jobs come when they were submitted, though they were eligible later
    skip_bad_rows: bool = False  # leave them out; else the first is an error
    force: bool = False  # overwrite files


class ImportReport(NamedTuple):
    """What became of a dump."""

    rows: int
    jobs: int
    nodes: int
    cores: int  # of a node
    counts: Mapping[str, int]
    remarks: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield one line of text for each fact."""
        yield f"{self.rows} rows, {self.jobs} jobs"
        yield f"machine, guessed from where jobs ran: {self.nodes} nodes of {self.cores} cores (edit {SCENARIO})"
        for text, count in self.counts.items():
            yield f"{count} {text}"
        yield from self.remarks

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {**self._asdict(), "counts": dict(self.counts), "remarks": list(self.remarks)}


def import_dump(file: str, out: str | Path, options: ImportOptions) -> ImportReport:
    """Make the folder ``out`` from a dump; raises InputError for a dump without jobs, and for files that exist."""
    dump = read_dump(file, options.time_zone, skip_bad_rows=options.skip_bad_rows)
    found = jobs_of(dump, options.partitions, as_submitted=options.as_submitted)
    if not found.jobs:
        what = "; ".join(f"{count} {text}" for text, count in found.counts.items()) or "no rows"
        place = f" in {', '.join(options.partitions)}" if options.partitions else ""
        raise InputError(file, f"at least one job{place} that ran to its end", what, hint=HINT)
    shape = "nodes" if found.whole >= _MOSTLY else "threads"
    shared = f"jobs had all CPUs of their nodes for {100 * found.whole:.0f} % of the node time: shape of the policy is {shape}"
    remarks = (*found.remarks, shared, *(() if dump.has_zone or options.time_zone else (_NO_ZONE,)))
    cores = -(-found.cores // options.threads_per_core)
    nodes = max(found.nodes, 1, *(job.row.nodes for job in found.jobs))
    report = ImportReport(len(dump.rows), len(found.jobs), nodes, cores, found.counts, remarks)
    _write(Path(out), found, report, options, shape)
    return report


def _write(folder: Path, found: Imported, report: ImportReport, options: ImportOptions, shape: str) -> None:
    names = _Names()
    rows = list(_rows(found, names, options))
    parts = {
        TRACE: [*_header(found.jobs, report, options), *(row for row, _ in rows)],
        ANNOTATIONS: [_COLUMNS, *(text for _, text in rows if text)],
        SCENARIO: [
            f'[cluster]\nnodes = {report.nodes}\npreset = "1x{report.cores}x1"\n\n[truth]\ncontention = "none"\n',
            f'[workload]\nswf = "{TRACE}"\nannotations = "{ANNOTATIONS}"\nminimum_estimate_s = 0.0\nlog_memory = false\n',
            f'[policy]\npreset = "easy"\nshape = "{shape}"',
        ],
    }
    if len(parts[ANNOTATIONS]) == 1:  # a side file without rows is an error
        del parts[ANNOTATIONS]
        parts[SCENARIO][1] = parts[SCENARIO][1].replace(f'annotations = "{ANNOTATIONS}"\n', "")
    make_folder(folder)
    if not options.anonymous:
        with new_text_file(folder / NAMES, force=options.force) as stream:
            stream.write("kind,number,name\n")
            stream.writelines(f"{kind},{number},{encoded(name)}\n" for (kind, name), number in names.known.items())
    for name, lines in parts.items():
        with new_text_file(folder / name, force=options.force) as stream:
            stream.writelines(f"{line}\n" for line in lines)


class _Names:
    """Numbers of users, names and partitions, in the order in which they come."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], int] = {}
        self.latest: dict[str, int] = {}

    def number(self, kind: str, name: str) -> int:
        if (kind, name) not in self.known:
            self.latest[kind] = self.known[kind, name] = self.latest.get(kind, 0) + 1
        return self.known[kind, name]


def _header(jobs: Sequence[LoggedJob], report: ImportReport, options: ImportOptions) -> list[str]:
    notes = [f"{count} {text}" for text, count in report.counts.items()]
    notes += () if options.anonymous else report.remarks
    pairs = [("MaxNodes", str(report.nodes))]
    if options.time_zone is not None and not options.anonymous:
        offset = ZoneInfo(options.time_zone).utcoffset(datetime.fromtimestamp(jobs[0].submit_s))
        pairs.append(("TimeZone", str(int(offset.total_seconds()) if offset else 0)))
    return header_lines(
        jobs=len(jobs),
        processors=report.nodes * report.cores,
        origin="Slurm's accounting (sacct)",
        notes=notes,
        began_s=0 if options.anonymous else jobs[0].submit_s,
        more=pairs,
    )


def _rows(found: Imported, names: _Names, options: ImportOptions) -> Iterator[tuple[str, str]]:
    """Yield the row of each job in the log, and its line of annotations, empty for one process."""
    zero_s = found.jobs[0].submit_s
    anew = options.anonymous or TWICE in found.counts or not all(job.row.number.isdecimal() for job in found.jobs)
    for place, job in enumerate(found.jobs, 1):
        row = job.row
        cores, asked = (-(-cpus // options.threads_per_core) for cpus in (row.cpus, row.asked or row.cpus))
        limit_s = 60 * row.limit_min if row.limit_min is not None else max(options.default_estimate_s, job.run_s)
        number = place if anew else int(row.number)
        text = format_row(
            number,
            (job.submit_s - zero_s) * SECOND_US,
            wait_us=job.wait_s * SECOND_US,
            run_us=job.run_s * SECOND_US,
            processes=asked,
            allocated=cores,
            estimate_us=round(limit_s * SECOND_US),
            status=job.status,
            user=str(names.number("user", row.user)),
            name=str(names.number("name", row.name)),
            queue=names.number("partition", row.partition),
        )
        yield text, f"{number},,,,,,,,,{-(-cores // row.nodes)}" if row.nodes and cores > 1 else ""
