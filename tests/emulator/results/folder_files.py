"""The files of a run folder, read by what docs/run-folder.md says of them: for `folder_rules`, which checks them.

Nothing of cosched is imported, so no invariant of the code is taken for granted. Times are whole microseconds.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

SECOND = 1_000_000


def us(text: str) -> int:
    """Return a time of the files; it must be a whole number of microseconds."""
    value = Decimal(text) * SECOND
    assert value == value.to_integral_value(), text
    return int(value)


def if_any(text: str | None) -> int | None:
    return us(text) if text else None


class Part(NamedTuple):
    """A row of allocations.csv."""

    first: int
    many: int  # nodes
    mask: int
    processes: int


@dataclass
class Stay:
    """The rows of one stay of a job."""

    start: int
    end: int
    parts: list[Part] = field(default_factory=list)

    @property
    def nodes(self) -> list[tuple[int, int, int]]:
        """Return (node, mask, processes)."""
        return [
            (node, part.mask, part.processes)
            for part in self.parts
            for node in range(part.first, part.first + part.many)
        ]


@dataclass
class Job:
    """A row of jobs.csv, with the job's rows in the other files."""

    row: dict[str, str]
    told: dict[str, str]
    stays: list[Stay] = field(default_factory=list)
    disk: list[tuple[int, int | None, int]] = field(default_factory=list)
    suspended: list[tuple[int, int | None]] = field(default_factory=list)  # on its nodes

    def time(self, column: str) -> int | None:
        return if_any(self.row[column])

    @cached_property
    def id(self) -> int:
        return int(self.row["job_id"])

    @cached_property
    def state(self) -> str:
        return self.told["state"]

    @cached_property
    def submit(self) -> int:
        return us(self.row["submission_time"])

    @cached_property
    def start(self) -> int | None:
        return self.time("starting_time")

    @cached_property
    def end(self) -> int | None:
        """Return its end; a refused job's is in the metadata."""
        return self.time("finish_time") if self.row["finish_time"] else if_any(self.told.get("end_s"))

    @cached_property
    def threads(self) -> int:
        return int(self.row["requested_number_of_resources"])

    @cached_property
    def processes(self) -> int:
        """Return how many it has; of a job that never ran, the threads."""
        return sum(part.many * part.processes for part in self.stays[0].parts) if self.stays else self.threads

    @cached_property
    def work(self) -> int:
        return us(self.told.get("work_s", "0"))

    @cached_property
    def run(self) -> int:
        return us(self.told["run_s"])

    @cached_property
    def last(self) -> list[Stay]:
        """Return the stays since the last start."""
        return [stay for stay in self.stays if self.start is not None and stay.start >= self.start]

    def has(self, time: int) -> bool:
        """Tell whether it is on its nodes."""
        return any(stay.start <= time < stay.end for stay in self.stays)

    def nodes_at(self, time: int) -> set[int]:
        """Return the nodes that it is on."""
        return {node for stay in self.stays if stay.start <= time < stay.end for node, _, _ in stay.nodes}

    def on_disk(self, time: int) -> bool:
        return any(start <= time and (end is None or time < end) for start, end, _ in self.disk)

    def is_suspended(self, time: int) -> bool:
        """Tell whether it is on its nodes, and does nothing there."""
        return any(start <= time and (end is None or time < end) for start, end in self.suspended)

    def switches(self, time: int, switch: int) -> bool:
        """Tell whether it goes on there, and makes no progress yet; with the end of a stay it does not go on."""
        ends = {stay.end for stay in self.stays}
        return any(end is not None and end not in ends and end <= time < end + switch for _, end in self.suspended)


class Folder:
    """The files of a run."""

    def __init__(self, path: Path) -> None:
        self.summary = json.loads((path / "summary.json").read_text())
        self.run = json.loads((path / "run.json").read_text())
        self.config: dict[str, Any] = self.run["config"]
        self.sharing: dict[str, Any] | None = self.config.get("time_sharing")
        self.classes: list[dict[str, Any]] = [each for each in self.run["machine"] for _ in range(each["nodes"])]
        self.switch = us(str(self.config.get("preemption", {}).get("switch_s", 0)))
        self.cores = [each["sockets"] * each["cores_per_socket"] for each in self.classes]
        self.node_threads = [n * each["threads_per_core"] for n, each in zip(self.cores, self.classes, strict=True)]
        watts = self.run.get("power")
        counts = [each["nodes"] for each in self.run["machine"]]
        self.watts = (
            None if watts is None else [w for n, w in zip(counts, watts, strict=True) for _ in range(n)]
        )  # by node
        self.rows = [Job(row, _told(row["metadata"])) for row in _rows(path / "jobs.csv")]
        self.jobs = {job.id: job for job in self.rows}
        stays: dict[tuple[int, int], Stay] = {}
        for row in _rows(path / "allocations.csv"):
            job, number = self.jobs[int(row["job_id"])], int(row["interval"])
            if (job.id, number) not in stays:
                until = row["end_s"] or job.told.get("until_s", row["start_s"])
                stays[job.id, number] = Stay(us(row["start_s"]), us(until))
                assert number == len(job.stays)
                job.stays.append(stays[job.id, number])
            part = Part(
                *[int(row[key], 0) for key in ("first_node", "node_count", "thread_mask", "processes_per_node")]
            )
            stays[job.id, number].parts.append(part)
        for row in _rows(path / "preemptions.csv"):
            job = self.jobs[int(row["job_id"])]
            assert int(row["preemption"]) == len(job.disk)
            job.disk.append((us(row["start_s"]), if_any(row["end_s"]), int(row["swap_mb"])))
        for row in _rows(path / "suspensions.csv"):
            job = self.jobs[int(row["job_id"])]
            assert int(row["suspension"]) == len(job.suspended)
            job.suspended.append((us(row["start_s"]), if_any(row["end_s"])))
        self.quanta = _rows(path / "quanta.csv")
        self.power = _rows(path / "power.csv")
        self.swf = [line.split() for line in (path / "schedule.swf").read_text().splitlines() if line[0] != ";"]

    @cached_property
    def span(self) -> tuple[int, int]:
        """Return the first submission and the last end."""
        first = min([job.submit for job in self.rows], default=0)
        ends = [job.end for job in self.rows if job.end is not None]
        ends += [stay.end for job in self.rows for stay in job.stays]
        ends += [end for job in self.rows for _, end, _ in job.disk if end is not None]
        return first, max(ends, default=first)

    @cached_property
    def times(self) -> list[int]:
        """Return all instants at which a job comes or goes."""
        found = {*self.span}
        for job in self.rows:
            found |= {time for stay in job.stays for time in (stay.start, stay.end)} | {job.submit}
            found |= {time for start, end, _ in job.disk for time in (start, end) if time is not None}
            found |= {time for start, end in job.suspended for time in (start, end) if time is not None}
            found |= {end + self.switch for _, end in job.suspended if end is not None}
            found |= {job.end} if job.end is not None else set()
        return sorted(found)

    def present(self) -> Iterator[tuple[int, int, dict[int, list[tuple[Job, int, int]]]]]:
        """Yield (begin, end, jobs with mask and processes by node) for each span between two instants."""
        for begin, end in pairwise(self.times):
            there: dict[int, list[tuple[Job, int, int]]] = defaultdict(list)
            for job in self.rows:
                for stay in job.stays:
                    if stay.start <= begin < stay.end:
                        for node, mask, processes in stay.nodes:
                            there[node].append((job, mask, processes))
            yield begin, end, there


def _told(text: str) -> dict[str, str]:
    return {key: unquote(value) for key, _, value in (pair.partition("=") for pair in text.split(";"))}


def _rows(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))
