"""The files of a run with one or more rows for every job: their columns and rows, which are written as the jobs end.

The rows are kept in unnamed files on the disk of the run folder; these files disappear with the process, however it ends. At
the end the rows are sorted into their final files. So memory holds a few numbers for each job, and no text.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

import numpy as np
import numpy.typing as npt

from cosched_emulator.errors import InputError
from cosched_emulator.manager.record import JobRecord, OnDisk, QuantumRecord, Suspension
from cosched_emulator.results.record_columns import IntArray, RowBuffer
from cosched_emulator.results.thread_intervals import ThreadNumbering
from cosched_emulator.workload.job import NO_TERMS, Workload
from cosched_emulator.workload.swf.swf_writer import header_lines, row_of
from cosched_hwmodel.text_formats import encoded
from cosched_hwmodel.units import SECOND_US, amounts_text, seconds_text
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, FAILED, NODE_FAIL, REJECTED, TIMEOUT, NodeClass

if TYPE_CHECKING:
    from cosched_emulator.results.figures.run_energy import PowerTrace

# The tables: one function a row for each file, and what a reader takes back from it.

# ``jobs.csv``: one row per job with exactly the columns of Batsim's ``out_jobs.csv``, so that Batsim's tools can read it.
#
# Resources are hardware threads, numbered through the machine. ``requested_time`` is the user's estimate. Times are exact
# decimals of seconds; the start is the last one, and the execution time lasts from there to the end, time on disk included. A job
# that never started has empty times. A job that never ended has an empty finish, and comes last. ``stretch`` is turnaround /
# execution time, to six places. Energy is in joules; where it is not measured -1, as Batsim writes.

JOB_COLUMNS: Final[Mapping[str, str]] = {
    "job_id": "number in this run, from 1 in submit order",
    "workload_name": "always `w0`, Batsim's name of the first workload",
    "profile": "the job's name, else its id, [percent-encoded](../run-folder.md#jobscsv)",
    "submission_time": "when it was submitted",
    "requested_number_of_resources": "hardware threads asked for: processes * threads per process",
    "requested_time": "the user's estimate (not the limit)",
    "success": "1 for `COMPLETED`, else 0",
    "final_state": (
        "Batsim's name of the state: `COMPLETED_SUCCESSFULLY`, `COMPLETED_WALLTIME_REACHED` (killed at its "
        "limit), `COMPLETED_KILLED` (cancelled), `COMPLETED_FAILED` (also: lost with a node), `REJECTED`; "
        "`RUNNING` or `SUBMITTED` where it never ended"
    ),
    "starting_time": "the last one; empty if it never started, like the next five",
    "execution_time": "from there to the end, time on disk included; empty if it ran when the run was cut short",
    "finish_time": "empty for a refused job and one that never ended; a cancelled job has one",
    "waiting_time": "start - submission",
    "turnaround_time": "finish - submission",
    "stretch": "turnaround / execution time, six places",
    "allocated_resources": "hardware threads, numbered through the machine from 0, node after node: `0-3 8`",
    "consumed_energy": "joules (energy); -1 where the watts of nodes are not known",
    "metadata": "`key=value` joined by `;`, values percent-encoded likewise",
}
# Keys of ``metadata``, in order: values without a column in Batsim.
METADATA: Final[Mapping[str, str]] = {
    "state": "Slurm's name",
    "run_s": "run time alone",
    "work_s": "work done since the last start, in seconds alone; of a job that started, like the next two",
    "expected_s": "run time expected at the last start, or as last revised; time suspended since then is part of it",
    "limit_s": "limit granted, likewise, if there is one",
    "cpu_s": "where jobs take turns, like the next two: CPU time of a process since the last start, the mean over the job's",
    "dispatched_s": "time since then for which the job could run",
    "slot": "its last one",
    "starts": "if more than one, or if it has not started again",
    "preemptions": "how often it was suspended to disk, requeued starts included; of a preempted job, like the next one",
    "suspended_s": "time since its last start in which it was suspended, on disk or not, or on its way back from disk",
    "until_s": "of a job that ran when the run was cut short: the time of that",
    "end_s": "of a refused job: when it was refused",
    "user": "if it is known",
    "source": "number in the log, if another",
    "partition": "those that took it",
    "qos": "likewise",
    "account": "likewise",
    "resources": "what it asks of each of its nodes, as `gpu:2`; likewise",
    "licences": "what it asks of the machine; likewise",
    "reason": "why it was refused, failed or cancelled",
}
WORKLOAD_NAME = "w0"  # Batsim's name of the first workload
BATSIM_STATES = {
    COMPLETED: "COMPLETED_SUCCESSFULLY",
    FAILED: "COMPLETED_FAILED",
    NODE_FAIL: "COMPLETED_FAILED",
    TIMEOUT: "COMPLETED_WALLTIME_REACHED",
    CANCELLED: "COMPLETED_KILLED",
    REJECTED: "REJECTED",
}


def completion(record: JobRecord) -> tuple[bool, int, int]:
    """Return the sort key of rows: (end, id); jobs that never ended come last."""
    return (record.end_us is None, record.end_us or 0, record.job.spec.id)


def job_row(record: JobRecord, numbering: ThreadNumbering) -> str:
    """Return the row of a job, line end included."""
    spec = record.job.spec
    end_us = record.end_us
    start = execution = finish = waiting = turnaround = stretch = resources = ""
    if end_us is not None and record.state != REJECTED:
        finish = seconds_text(end_us)
        turnaround = seconds_text(end_us - spec.submit_us)
    stays = record.last_stays
    if stays:
        stay = stays[0]
        wall_us = 0 if record.present is not None else record.left_us - stay.start_us
        start = seconds_text(stay.start_us)
        execution = "" if record.present is not None else seconds_text(wall_us)
        waiting = seconds_text(stay.start_us - spec.submit_us)
        resources = numbering.text(stay.runs)
        if end_us is not None and wall_us > 0:
            # In integers: seconds_text of millionths is six places of the ratio, rounded half up.
            stretch = seconds_text(((end_us - spec.submit_us) * 2_000_000 + wall_us) // (2 * wall_us))
    unfinished = "RUNNING" if stays else "SUBMITTED"
    state = unfinished if end_us is None else BATSIM_STATES[record.state]
    success = 1 if record.state == COMPLETED else 0
    asked = spec.processes * spec.threads_per_process
    return (
        f"{spec.id},{WORKLOAD_NAME},{encoded(spec.name or str(spec.id))},{seconds_text(spec.submit_us)},{asked},"
        f"{seconds_text(spec.estimate_us)},{success},{state},{start},{execution},{finish},"
        f"{waiting},{turnaround},{stretch},{resources},-1,{_metadata(record, ran=bool(stays))}\n"
    )


def with_energy(lines: Iterable[str], energy_j: Mapping[int, float]) -> Iterator[str]:
    """Yield the rows with the energy of each job, by id, instead of -1; ``lines`` are those of the file."""
    for line in lines:
        before, _, metadata = line.rsplit(",", 2)
        yield f"{before},{round(energy_j[int(line.partition(',')[0])], 3):.10g},{metadata}"


def _metadata(record: JobRecord, *, ran: bool) -> str:
    """Return the values without a column of their own; ``ran``: there are stays since the last start."""
    job = record.job
    text = f"state={record.state};run_s={seconds_text(job.run_us)}"
    if ran:
        text += f";work_s={seconds_text(record.work_us)};expected_s={seconds_text(record.estimate_us)}"
        if record.limit_us is not None:
            text += f";limit_s={seconds_text(record.limit_us)}"
        if record.cpu_us is not None and record.dispatched_us is not None:
            times = f"cpu_s={seconds_text(record.cpu_us)};dispatched_s={seconds_text(record.dispatched_us)}"
            text += f";{times};slot={record.slot}"
    if len(record.stays) > ran and (record.starts > 1 or record.waits_again):
        text += f";starts={record.starts}"
    if record.disk:
        text += f";preemptions={len(record.disk)};suspended_s={seconds_text(record.suspended_us)}"
    if record.present is not None:
        text += f";until_s={seconds_text(record.present.end_us)}"
    if record.state == REJECTED and record.end_us is not None:
        text += f";end_s={seconds_text(record.end_us)}"
    if job.spec.user:
        text += f";user={encoded(job.spec.user)}"
    if job.source_id != job.spec.id:
        text += f";source={job.source_id}"
    if job.terms != NO_TERMS:
        facts = {"partition": ",".join(job.terms.partitions), "qos": job.terms.qos, "account": job.terms.account}
        text += "".join([f";{name}={encoded(value)}" for name, value in facts.items() if value])
    if job.spec.resources:
        text += f";resources={encoded(amounts_text(job.spec.resources))}"
    if job.spec.licences:
        text += f";licences={encoded(amounts_text(job.spec.licences))}"
    if record.reason:
        text += f";reason={encoded(record.reason)}"
    return text


# ``allocations.csv``: the nodes and hardware threads that each job held, and when; a preempted job has several stays.
#
# One row per run of neighbouring nodes of each stay: ``interval`` counts a job's stays from 0, ``thread_mask`` (hexadecimal)
# gives the hardware threads that it held on each of the ``node_count`` nodes from ``first_node`` on. Ordered by job id, stay and
# run; times are exact decimals of seconds. The end is empty if the run was stopped before it.

ALLOCATION_COLUMNS: Final[Mapping[str, str]] = {
    "job_id": "the job",
    "interval": "which of the job's stays, from 0; more than one after a requeue, or where it was preempted",
    "start_s": "when it began",
    "end_s": "empty if the job was there when the run was cut short",
    "first_node": "from 0",
    "node_count": "how many nodes, from the first one on",
    "thread_mask": (
        "hexadecimal: bit *k* for hardware thread *k* of each of these nodes. How threads are numbered: MODEL.md"
    ),
    "processes_per_node": "of the job, on each of these nodes",
}


def allocation_rows(record: JobRecord) -> str:
    """Return the rows of a job, each with its line end; empty if it never ran."""
    text = ""
    for number, stay in enumerate(record.stays):
        end = "" if stay is record.present else seconds_text(stay.end_us)
        head = f"{record.job.spec.id},{number},{seconds_text(stay.start_us)},{end}"
        for first, count, mask, processes in stay.runs:
            text += f"{head},{first},{count},{mask:#x},{processes}\n"
    return text


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
    "suspension": "which of the job's times of this kind, from 0",
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
        "its number. When neither a job that runs in it nor a job of any turn can run any more, a quantum is over, before "
        "its time or at it, and the next one has its number again"
    ),
    "start_s": "when it began",
    "length_s": "how long it was",
    "turn": "the first slot of the turn that it belonged to",
    "jobs": "running jobs at its beginning, those included that waited for their turn",
    "job_id": "the job that could run",
    "slot": "its slot",
    "role": (
        "`row`: of the turn's first slot; `partner`: of another one of its slots; `guest`: of a slot of another turn"
    ),
    "paired": "1: another job could run on one of its nodes",
    "allowed_s": "for how long the job could run",
    "cpu_s": "CPU time of all its processes",
    "share_ppm": (
        "the share that the scheduler is told, in millionths; empty where the job could run for less than "
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
    "end_s": "its end",
    "watts": "mean in it, of all nodes",
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


def schedule_row(record: JobRecord) -> str:
    """Return the row of a job, line end included."""
    job = record.job
    spec = job.spec
    submit_s = -(-spec.submit_us // SECOND_US)
    wait_s = run_s = allocated = -1
    if stays := record.last_stays:
        stay = stays[0]
        start_s = -(-stay.start_us // SECOND_US)
        wait_s = start_s - submit_s
        allocated = sum([count * mask.bit_count() for _, count, mask, _ in stay.runs])
        if record.end_us is not None:
            run_s = -(-record.left_us // SECOND_US) - start_s
    elif record.end_us is not None:
        wait_s = -(-record.end_us // SECOND_US) - submit_s
    row = row_of(
        spec.id,
        (submit_s, wait_s, run_s, -(-spec.estimate_us // SECOND_US)),
        spec.processes * spec.threads_per_process,
        allocated,
        -1 if record.end_us is None else STATUS[record.state],
        spec.user,
        job.group,
        spec.name,
        0,
        job.queue,
        job.partition,
    )
    return row + "\n"


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


_AT_ONCE = 65_536  # texts whose places are in memory as Python numbers


class RunFiles:
    """The rows of jobs that will be written into a run folder."""

    def __init__(self, out: str | os.PathLike[str], machine: Sequence[NodeClass]) -> None:
        """Prepare to write; `InputError` if the folder that will contain ``out`` is not writable. ``out`` stays unchanged."""
        self._out = str(out)
        self._machine = machine
        self._numbering = ThreadNumbering(machine)
        self._rows = RowBuffer(_TYPES)
        self._same_instant: list[JobRecord] = []  # jobs ended at this instant: one with a smaller id may still follow
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

    def add(self, record: JobRecord) -> None:
        """Write the rows of a job; jobs must come in order of their ends, those without an end last. Raises `InputError`."""
        try:
            if self._same_instant and completion(record)[:2] != completion(self._same_instant[0])[:2]:
                self._write_jobs()
            self._same_instant.append(record)
            self._rows.add(
                (
                    record.job.spec.id,
                    record.job.spec.submit_us,
                    self._allocations.write(allocation_rows(record).encode()),
                    self._preemptions.write(preemption_rows(record).encode()) if record.disk else 0,
                    self._suspensions.write(suspension_rows(record).encode()) if record.suspensions else 0,
                    self._schedule.write(schedule_row(record).encode()),
                )
            )
        except OSError as error:
            raise self._trouble(error) from error

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
        self._write_jobs()
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

    def _write_jobs(self) -> None:
        for record in sorted(self._same_instant, key=completion):
            self._jobs.write(job_row(record, self._numbering).encode())
        self._same_instant.clear()

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
        for record in sorted(records, key=completion):
            files.add(record)
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
        for first in range(0, len(order), _AT_ONCE):
            some = order[first : first + _AT_ONCE]
            lengths, begins = sizes[some], ends[some] - sizes[some]
            target.writelines(map(os.pread, repeat(texts.fileno()), lengths.tolist(), begins.tolist()))
