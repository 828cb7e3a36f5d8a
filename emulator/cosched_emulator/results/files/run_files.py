"""The files of a run with one or more rows for every job: their columns and rows, which are written as the jobs end.

The rows are kept in unnamed files on the disk of the run folder; these files disappear with the process, however it ends. At
the end the rows are sorted into their final files. So memory holds a few numbers for each job, and no text.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

import numpy as np
import numpy.typing as npt

from cosched_emulator.errors import InputError
from cosched_emulator.manager.record import JobRecord, OnDisk, QuantumRecord, Suspension
from cosched_emulator.results.ended_jobs import EndedJobs, IntArray, ended_jobs
from cosched_emulator.results.files.job_rows import JOB_COLUMNS, each_more, job_rows, with_energy
from cosched_emulator.results.record_columns import RowBuffer
from cosched_emulator.results.thread_intervals import ThreadNumbering
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import seconds_texts
from cosched_emulator.workload.swf.swf_writer import header_lines, swf_rows
from cosched_hwmodel.units import SECOND_US, seconds_text
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, FAILED, NODE_FAIL, REJECTED, TIMEOUT, NodeClass

if TYPE_CHECKING:
    from cosched_emulator.results.figures.run_energy import PowerTrace

# The tables: one function a row for each file, and what a reader takes back from it.


def completion(record: JobRecord) -> tuple[bool, int, int]:
    """Return the sort key of rows: (end, id); jobs that never ended come last."""
    return (record.end_us is None, record.end_us or 0, record.job.spec.id)


# ``allocations.csv``: the nodes and hardware threads that each job held, and when; a preempted job has several stays.
#
# One row per run of neighbouring nodes of each stay: ``interval`` counts a job's stays from 0, ``thread_mask`` (hexadecimal)
# gives the hardware threads that it held on each of the ``node_count`` nodes from ``first_node`` on. Ordered by job id, stay and
# run; times are exact decimals of seconds. The end is empty if the run was stopped before it.

ALLOCATION_COLUMNS: Final[Mapping[str, str]] = {
    "job_id": "the job",
    "interval": "which of the job's stays, from 0; more than one after a requeue, or where it was preempted",
    "start_s": "when the stay began",
    "end_s": "when the stay ended; empty if the job was there when the run was cut short",
    "first_node": "number of the first node, from 0",
    "node_count": "how many nodes, from the first one on",
    "thread_mask": (
        "hexadecimal: bit *k* for hardware thread *k* of each of these nodes. How threads are numbered: MODEL.md"
    ),
    "processes_per_node": "processes of the job on each of these nodes",
}


def allocation_rows(jobs: EndedJobs) -> list[str]:
    """Return the rows of all jobs, one a run of nodes, each with its line end."""
    stays = jobs.stays
    if not stays.job:
        return []
    ends = list(seconds_texts(np.array(stays.end_us, dtype=np.int64)))
    if any(record.present is not None for record in jobs.more.values()):
        for row, (job, number) in enumerate(zip(stays.job, stays.number, strict=True)):
            record = jobs.more.get(job)
            if record is not None and record.present is not None and number == len(record.intervals):
                ends[row] = ""
    ids = jobs.id[np.array(stays.job)].tolist()
    starts = seconds_texts(np.array(stays.start_us, dtype=np.int64))
    rows = zip(
        ids, stays.number, starts, ends, stays.first_node, stays.node_count, stays.mask, stays.processes, strict=True
    )
    return list(map("%s,%s,%s,%s,%s,%s,%#x,%s\n".__mod__, rows))


# ``preemptions.csv``: every time that a job was suspended to disk. A run without preemptions has no such file.
#
# ``preemption`` counts a job's times from 0; ``end_s`` is when it resumed, ended or was requeued, empty if it never left the disk;
# ``swap_mb`` is the swap space that it took on all nodes of its preceding stay. Ordered by job id and time.

PREEMPTION_COLUMNS: Final[Mapping[str, str]] = {
    "job_id": "the job",
    "preemption": "which of the job's times on disk, from 0",
    "start_s": "when it was suspended: the end of a stay",
    "end_s": "when it came back, ended or was requeued; empty where it is still there when the run ends",
    "swap_mb": "swap space that it took on all its nodes together, in MiB",
}


def preemption_rows(record: JobRecord) -> str:
    """Return the rows of a job, each with its line end; empty if it never was on disk."""
    return _time_rows(record, record.disk, f",{record.swap_mb}")


# ``suspensions.csv``: every time that a job was suspended on its nodes. A run without such a time has no such file.
#
# ``suspension`` counts a job's times from 0; ``end_s`` is when it was resumed, ended or was requeued, empty if it still was suspended.
# Ordered by job id and time.

SUSPENSION_COLUMNS: Final[Mapping[str, str]] = {
    "job_id": "the job",
    "suspension": "which of the job's suspensions in place, from 0",
    "start_s": "when it was suspended: within a stay, as it keeps its threads and its memory",
    "end_s": (
        "when it was resumed (it makes progress after `preemption.switch_s`), ended or was requeued; empty where it is "
        "still suspended when the run ends"
    ),
}


def suspension_rows(record: JobRecord) -> str:
    """Return the rows of a job, each with its line end; empty if it never was suspended on its nodes."""
    return _time_rows(record, record.suspensions)


def _time_rows(record: JobRecord, times: Iterable[OnDisk | Suspension], more: str = "") -> str:
    text = ""
    for number, (start_us, end_us) in enumerate(times):
        end = "" if end_us is None else seconds_text(end_us)
        text += f"{record.job.spec.id},{number},{seconds_text(start_us)},{end}{more}\n"
    return text


# ``quanta.csv``: which jobs could run in each quantum, and what they used. Only a run with time sharing and a rotation has it.
#
# One row per quantum and job that could run in it, in order of time and job. ``turn`` is the first slot of the
# quantum's turn, ``jobs`` the number of running jobs at its begin. ``role`` is ``row`` (of that slot), ``partner`` (of
# another slot of the turn) or ``guest``; ``paired`` is 1 if another job could run on one of its nodes. ``allowed_s`` is
# for how long the job could run, ``cpu_s`` the CPU time of all its processes, ``share_ppm`` the share that the
# scheduler is told, empty if none was measured. A quantum in which all jobs end is shorter than the others, and the
# next one has its number again.

QUANTUM_COLUMNS: Final[Mapping[str, str]] = {
    "quantum": (
        "number of the quantum. If neither a job that runs in it nor a job of any turn can run any more, a quantum ends "
        "early or on time, and the next one gets the same number"
    ),
    "start_s": "when the quantum began",
    "length_s": "how long the quantum was",
    "turn": "the first slot of the quantum's turn",
    "jobs": "running jobs at the begin of the quantum, with those that waited for their turn",
    "job_id": "the job that could run",
    "slot": "the job's slot",
    "role": (
        "`row`: the job is in the turn's first slot; `partner`: in another slot of the turn; `guest`: in a slot of another turn"
    ),
    "paired": "1: another job could run on one of its nodes",
    "allowed_s": "for how long the job could run",
    "cpu_s": "CPU time of all processes of the job",
    "share_ppm": (
        "the share reported to the scheduler, in millionths; empty where the job could run for less than "
        "half a quantum, or has ended"
    ),
}


def quantum_rows(record: QuantumRecord) -> str:
    """Return the rows of a quantum, each with its line end."""
    length = seconds_text(record.end_us - record.start_us)
    head = f"{record.number},{seconds_text(record.start_us)},{length},{record.turn},{record.jobs}"
    text = ""
    for job_id, slot, role, paired, allowed_us, consumed_us, share in record.parts:
        times = f"{seconds_text(allowed_us)},{seconds_text(consumed_us)}"
        text += f"{head},{job_id},{slot},{role},{paired:d},{times},{'' if share is None else share}\n"
    return text


# ``power.csv``: the mean watts of the machine in one interval after another. Only a run on nodes with watts has it.
#
# Intervals are of equal length, a power of two in seconds, but for the last; together they make the run, from the first
# submission to the last end.

POWER_COLUMNS: Final[Mapping[str, str]] = {
    "start_s": "begin of the interval",
    "end_s": "end of the interval",
    "watts": "mean watts of all nodes in the interval",
}


def power_lines(trace: PowerTrace) -> Iterator[str]:
    """Yield the lines of the file."""
    yield ",".join(POWER_COLUMNS) + "\n"
    for start_us, end_us, watts in zip(*(column.tolist() for column in trace), strict=True):
        yield f"{seconds_text(start_us)},{seconds_text(end_us)},{watts:.3f}\n"


# ``schedule.swf``: the resulting schedule in the Standard Workload Format.
#
# The format has whole seconds. Submissions, starts and ends are each rounded up: this keeps the order of events, and creates no
# overlap of jobs. Processors are hardware threads. The run time of a job lasts from its last start to its end; while it was on
# disk, other jobs may have used its processors. Status: 1 completed, 5 cancelled or refused, 0 failed, killed at its limit, or
# lost with a node, -1 not ended. A job that never started has no run time and no allocated processors.

STATUS = {COMPLETED: 1, FAILED: 0, TIMEOUT: 0, NODE_FAIL: 0, CANCELLED: 5, REJECTED: 5}
NOTES = (
    "the schedule of an emulated machine; submissions, starts and ends rounded up to whole seconds",
    "processors are hardware threads; status 0 includes jobs killed at their limit",
)
PREEMPTED = "the run times of preempted jobs include their time on disk, when others may have had their processors"


def schedule_header(jobs: int, machine: Sequence[NodeClass], workload: Workload, *, preempted: bool) -> str:
    """Return the lines above the rows of ``jobs`` jobs of a workload."""
    threads = sum(node_class.nodes * node_class.threads for node_class in machine)
    nodes = sum(node_class.nodes for node_class in machine)
    header = header_lines(
        jobs=jobs,
        processors=threads,
        origin=workload.origin,
        notes=(*NOTES, PREEMPTED) if preempted else NOTES,
        computer="cosched emulator",
        epoch=workload.epoch,
        more=[("MaxNodes", str(nodes))],
    )
    return "".join(f"{line}\n" for line in header)


def schedule_rows(jobs: EndedJobs) -> list[str]:
    """Return the row of each job, line end included."""
    started, ended = jobs.started, jobs.ended
    submit_s, start_s = _round_up_s(jobs.submit_us), _round_up_s(jobs.start_us)
    came_to_an_end_s = np.where(started, start_s, _round_up_s(jobs.end_us))  # of its wait
    states = zip(jobs.state, ended.tolist(), strict=True)
    rows = swf_rows(
        jobs.id.tolist(),
        (
            submit_s.tolist(),
            np.where(started | ended, came_to_an_end_s - submit_s, -1).tolist(),
            np.where(started & ended, _round_up_s(jobs.left_us) - start_s, -1).tolist(),
            _round_up_s(jobs.estimate_us).tolist(),
        ),
        jobs.asked.tolist(),
        np.where(started, jobs.threads, -1).tolist(),
        [STATUS[state] if over else -1 for state, over in states],
        jobs.user,
        jobs.group,
        jobs.name,
        repeat(0),
        jobs.queue,
        jobs.partition,
    )
    return [f"{row}\n" for row in rows]


def _round_up_s(times_us: IntArray) -> IntArray:
    return -(-times_us // SECOND_US)


# The files. Their names, and what is known of each job until they are written.

JOBS, ALLOCATIONS, PREEMPTIONS, SCHEDULE = "jobs.csv", "allocations.csv", "preemptions.csv", "schedule.swf"
QUANTA, SUSPENSIONS = "quanta.csv", "suspensions.csv"
# For every job; the last four: number of bytes of its rows.
_TYPES: Mapping[str, npt.DTypeLike] = {
    "id": np.int64,
    "submit_us": np.int64,
    "allocations": np.uint32,
    "preemptions": np.uint32,
    "suspensions": np.uint32,
    "schedule": np.uint32,
}


_AT_ONCE = 4_096  # texts that are in memory
JOBS_AT_ONCE: Final = 1_024  # whose texts are


class RunFiles:
    """The rows of jobs that will be written into a run folder."""

    def __init__(self, out: str | os.PathLike[str], machine: Sequence[NodeClass]) -> None:
        """Prepare to write; `InputError` if the folder that will contain ``out`` is not writable. ``out`` stays unchanged."""
        self._out = str(out)
        self._machine = machine
        self._numbering = ThreadNumbering(machine)
        self._rows = RowBuffer(_TYPES)
        # Rows of jobs that ended at this instant, and keys to sort them: one with a smaller id may still follow
        self._same_instant: list[tuple[bool, int, int, str]] = []
        beside = next(folder for folder in Path(out).resolve().parents if folder.exists())
        self._files: list[IO[bytes]] = []
        try:
            for _ in range(6):
                self._files.append(tempfile.TemporaryFile(dir=beside))  # noqa: SIM115 - `close` closes it
        except OSError as error:
            self.close()
            raise self._trouble(error) from error
        self._jobs, self._allocations, self._preemptions, self._suspensions, self._schedule, self._quanta = self._files

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the rows."""
        for file in self._files:
            with suppress(OSError):  # a full disk: the rest of the rows is not needed any more
                file.close()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, jobs: EndedJobs) -> None:
        """Write the rows of some jobs, which must come in order of their ends, those without an end last. Raises `InputError`."""
        if not jobs.state:
            return
        schedule, allocations = schedule_rows(jobs), allocation_rows(jobs)
        try:
            self._write_jobs(jobs)
            self._allocations.write("".join(allocations).encode())
            self._schedule.write("".join(schedule).encode())
            sizes = dict.fromkeys(("preemptions", "suspensions"), [0] * len(schedule))
            for name, file, rows in (
                ("preemptions", self._preemptions, preemption_rows),
                ("suspensions", self._suspensions, suspension_rows),
            ):
                if jobs.more:
                    sizes[name] = [
                        0 if record is None else file.write(rows(record).encode()) for record in each_more(jobs)
                    ]
        except OSError as error:
            raise self._trouble(error) from error
        of_stays = np.bincount(jobs.stays.job or (0,), list(map(len, allocations)) or (0,), len(schedule))
        self._rows.extend(
            jobs.id,
            jobs.submit_us,
            of_stays.astype(np.int64),
            sizes["preemptions"],
            sizes["suspensions"],
            list(map(len, schedule)),
        )

    def add_quantum(self, record: QuantumRecord) -> None:
        """Write the rows of a quantum; quanta must come in order of time. Raises `InputError`."""
        try:
            self._quanta.write(quantum_rows(record).encode())
        except OSError as error:
            raise self._trouble(error) from error

    def complete(self, folder: Path, workload: Workload, energy_j: Mapping[int, float] | None = None) -> None:
        """Write the files of all jobs into ``folder``, which come from ``workload``. Raises OSError.

        ``energy_j`` is the energy of each job; None: not measured.
        """
        self._write_same_instant(len(self._same_instant))
        if energy_j is None:
            _copy(self._jobs, folder / JOBS, JOB_COLUMNS)
        else:
            self._jobs.seek(0)
            with open(folder / JOBS, "x", encoding="utf-8", newline="") as file:
                file.write(",".join(JOB_COLUMNS) + "\n")
                file.writelines(with_energy(map(bytes.decode, self._jobs), energy_j))
        if self._quanta.tell():
            _copy(self._quanta, folder / QUANTA, QUANTUM_COLUMNS)
        rows = self._rows
        by_id = np.argsort(rows.column("id"), kind="stable")
        header = ",".join(ALLOCATION_COLUMNS) + "\n"
        _write_in_order(self._allocations, rows.column("allocations"), by_id, folder / ALLOCATIONS, header)
        preemptions = rows.column("preemptions")
        preempted = bool(preemptions.any())
        if preempted:
            header = ",".join(PREEMPTION_COLUMNS) + "\n"
            _write_in_order(self._preemptions, preemptions, by_id, folder / PREEMPTIONS, header)
        suspensions = rows.column("suspensions")
        if suspensions.any():
            header = ",".join(SUSPENSION_COLUMNS) + "\n"
            _write_in_order(self._suspensions, suspensions, by_id, folder / SUSPENSIONS, header)
        header = schedule_header(len(rows), self._machine, workload, preempted=preempted)
        by_submission = np.lexsort((rows.column("id"), rows.column("submit_us")))
        _write_in_order(self._schedule, rows.column("schedule"), by_submission, folder / SCHEDULE, header)

    def _write_jobs(self, jobs: EndedJobs) -> None:
        rows = job_rows(jobs, self._numbering)
        unfinished = (~jobs.ended).tolist()
        waiting = self._same_instant
        waiting += zip(unfinished, jobs.end_us.tolist(), jobs.id.tolist(), rows, strict=True)
        waiting.sort()
        self._write_same_instant(bisect_left(waiting, waiting[-1][:2]))

    def _write_same_instant(self, count: int) -> None:
        self._jobs.write("".join([row for *_, row in self._same_instant[:count]]).encode())
        del self._same_instant[:count]

    def _trouble(self, error: OSError) -> InputError:
        return InputError(self._out, "a folder that can be written", error.strerror or str(error))


def run_files_of(
    records: Iterable[JobRecord],
    out: str | os.PathLike[str],
    machine: Sequence[NodeClass],
    quanta: Iterable[QuantumRecord] = (),
) -> RunFiles:
    """Return the files of these jobs, which may be in any order, and of these quanta, in order of time."""
    files = RunFiles(out, machine)
    try:
        for quantum in quanta:
            files.add_quantum(quantum)
        in_order = iter(sorted(records, key=completion))
        while some := list(islice(in_order, JOBS_AT_ONCE)):
            files.add(ended_jobs(some))
    except BaseException:
        files.close()
        raise
    return files


def _copy(texts: IO[bytes], path: Path, columns: Collection[str]) -> None:
    """Write a new file: a header, then all texts."""
    with open(path, "xb") as file:
        file.write((",".join(columns) + "\n").encode())
        texts.seek(0)
        shutil.copyfileobj(texts, file)


def _write_in_order(texts: IO[bytes], sizes: IntArray, order: IntArray, path: Path, header: str) -> None:
    """Write a new file: a header, then the texts of these sizes in the given order of their numbers."""
    texts.flush()
    ends = np.cumsum(sizes, dtype=np.int64)
    with open(path, "xb") as target:
        target.write(header.encode())
        if not texts.tell():
            return
        with mmap.mmap(texts.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            for first in range(0, len(order), _AT_ONCE):
                some = order[first : first + _AT_ONCE]
                places = zip((ends[some] - sizes[some]).tolist(), ends[some].tolist(), strict=True)
                target.write(b"".join([mapped[begin:end] for begin, end in places]))
                mapped.madvise(mmap.MADV_DONTNEED)  # pages that were read stay in the system's memory, not in ours
