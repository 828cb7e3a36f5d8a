"""The manager's record of a job at the end of the run: the source of all results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol.messages import Run


class Stay(NamedTuple):
    """One stay of a job on its nodes."""

    start_us: int
    end_us: int
    runs: tuple[Run, ...]
    resumed: bool = False  # it began with the job coming back from disk, not with a start


class OnDisk(NamedTuple):
    """A time that a preempted job spent suspended to disk."""

    start_us: int
    end_us: int | None  # when it resumed, ended or was requeued; None: it never left


class Suspension(NamedTuple):
    """A time in which a job was suspended on its nodes, where it kept its threads and its memory."""

    start_us: int
    end_us: int | None  # when it was resumed, ended or was requeued; None: it still is


class JobRecord(NamedTuple):
    """The complete record of one job. Times in integer microseconds since the first submission."""

    job: WorkloadJob
    state: str  # COMPLETED, TIMEOUT, CANCELLED, REJECTED, ... (Slurm's names)
    end_us: int | None  # None: never ended (the run was cut short)
    intervals: tuple[Stay, ...]  # empty: never started
    work_us: int  # work done since the last start: equals the job's run_us when it completed
    estimate_us: int  # run time expected at its last start, or as last revised, plus its idle time since then
    limit_us: int | None  # limit granted, likewise
    reason: str = ""  # why it was refused, failed or cancelled
    suspended_us: int = 0  # time since the last start in which it was suspended or returning from disk
    disk: tuple[OnDisk, ...] = ()  # of all starts
    present: Stay | None = None  # the open stay of a run that was cut short; it ends at that time
    # CPU time of a process since the last start, in the mean; None: nodes do not run processes
    cpu_us: int | None = None
    dispatched_us: int | None = None  # time since the last start for which it could run; None: likewise
    slot: int = 0  # in which it was last
    suspensions: tuple[Suspension, ...] = ()  # on its nodes, of all starts

    @property
    def stays(self) -> tuple[Stay, ...]:
        """Return all stays in order, including an open one."""
        return self.intervals if self.present is None else (*self.intervals, self.present)

    @property
    def last_stays(self) -> tuple[Stay, ...]:
        """Return the stays since the last start; empty if it never started, or has been requeued since."""
        intervals, end_us = self.intervals, self.end_us
        if len(intervals) == 1 and not self.disk and self.present is None:  # nearly every job
            return () if end_us is None or end_us > intervals[0].end_us else intervals
        if self.waits_again:
            return ()
        stays = self.intervals if self.present is None else self.stays
        first = len(stays) - 1
        while first > 0 and stays[first].resumed:
            first -= 1
        return stays[first:] if first > 0 else stays

    @property
    def waits_again(self) -> bool:
        """Return whether it was requeued, and ended (or the run did) before it started again."""
        if not self.intervals or self.present is not None or (self.disk and self.disk[-1].end_us is None):
            return False
        return self.end_us is None or self.end_us > self.left_us

    @property
    def starts(self) -> int:
        """Return how many times it started: once, and again after each requeue."""
        stays = self.intervals if self.present is None else self.stays
        return sum([not stay.resumed for stay in stays])

    @property
    def left_us(self) -> int:
        """Return when it last left its nodes, or the disk after them; IndexError if it never ran."""
        end_us = self.intervals[-1].end_us
        return max([end_us, *[time.end_us or 0 for time in self.disk]]) if self.disk else end_us

    @property
    def swap_mb(self) -> int:
        """Return the swap space that it takes on all its nodes while it is on disk."""
        return self.job.spec.processes * self.job.spec.memory_mb


TO_DISK: Final = "to disk"  # the reason of a change to SUSPENDED; of a suspension on a job's nodes it has none

# What happened in a quantum: the source of ``quanta.csv`` and of the figures of time sharing.

ROW: Final = "row"  # of the turn's first slot
PARTNER: Final = "partner"  # of another slot of the turn
GUEST: Final = "guest"  # of a slot of another turn


class QuantumPart(NamedTuple):
    """A job that could run in a quantum."""

    job_id: int
    slot: int
    role: str
    paired: bool  # another job could run on one of its nodes
    allowed_us: int  # for how long it could run; mean over its processes
    consumed_us: int  # CPU time of all its processes
    share_ppm: int | None  # None: not measured


class QuantumRecord(NamedTuple):
    """A quantum that is over.

    One in which all jobs ended is shorter than the others, and has no `QuantumEnded`; the next one has its number again.
    """

    number: int
    start_us: int
    end_us: int
    turn: int  # first slot of its turn
    jobs: int  # running jobs at its begin, those that waited for their turn included
    nodes: int  # with a job that could run, at its begin
    paired_nodes: int  # with more than one
    parts: tuple[QuantumPart, ...]  # by job id


# Changes of jobs and nodes for the accounting: plain facts, in order of occurrence.


class Origin(NamedTuple):
    """The origin of a job: its owner, and its array and task."""

    owner: str  # name of the user who submitted it; empty: the scenario's workload
    array_id: int | None = None  # id of the array's first task; None: no array
    array_index: int | None = None
    after: tuple[tuple[str, int], ...] = ()  # its dependencies: (afterok or afterany, job id)


class JobEntered(NamedTuple):
    """A job was submitted."""

    at_us: int
    job: WorkloadJob
    origin: Origin


class JobChanged(NamedTuple):
    """The state of a job has changed, or the reason of its state.

    ``state`` is PENDING, RUNNING, SUSPENDED or one of the end states; ``reason`` is for people: held, dependency, requeued ...
    """

    at_us: int
    job_id: int
    state: str
    reason: str = ""


class StayEnded(NamedTuple):
    """A running job left its nodes: one row of its allocations is complete."""

    job_id: int
    stay: Stay


class DiskLeft(NamedTuple):
    """A job that was preempted to disk left it."""

    job_id: int
    time: OnDisk


class JobFinished(NamedTuple):
    """A job ended for good; follows the `JobChanged` and the `StayEnded` of its end."""

    at_us: int
    record: JobRecord
    energy_j: float | None = None  # of all its stays; None: the watts of the nodes are not known, or it never ended


class NodeChanged(NamedTuple):
    """The state of a node has changed: UP, DOWN (failed), DRAINED (by an operator); ``reason`` is for people."""

    at_us: int
    node: int
    state: str
    reason: str = ""


class FaultHappened(NamedTuple):
    """A planned fault struck, or an unplanned one was noticed (a scheduler lost, a full disk); ``kind`` is a word or two."""

    at_us: int
    kind: str
    detail: str = ""


class QuantumPassed(NamedTuple):
    """A quantum is over."""

    record: QuantumRecord


class JobCarried(NamedTuple):
    """A job that is alive when the journal begins anew: its row, by column."""

    row: Mapping[str, Any]


Change: TypeAlias = (
    JobCarried
    | JobEntered
    | JobChanged
    | StayEnded
    | DiskLeft
    | JobFinished
    | NodeChanged
    | FaultHappened
    | QuantumPassed
)
