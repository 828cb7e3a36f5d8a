"""The manager's record of a job at the end of the run: the source of all results."""

from __future__ import annotations

from typing import NamedTuple

from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol.messages import Run


class Interval(NamedTuple):
    """One stay of a job on its nodes."""

    start_us: int
    end_us: int
    runs: tuple[Run, ...]
    resumed: bool = False  # it began with the job coming back from disk, not with a start


class OnDisk(NamedTuple):
    """A time that a preempted job spent suspended to disk."""

    start_us: int
    end_us: int | None  # when it resumed, ended or was requeued; None: it never left


class JobRecord(NamedTuple):
    """The complete record of one job. Times in integer microseconds since the first submission."""

    job: WorkloadJob
    state: str  # COMPLETED, TIMEOUT, CANCELLED, REJECTED, ... (Slurm's names)
    end_us: int | None  # None: never ended (the run was cut short)
    intervals: tuple[Interval, ...]  # empty: never started
    work_us: int  # work done since the last start: equals the job's run_us when it completed
    estimate_us: int  # run time expected at its last start, or as last revised, plus its idle time since then
    limit_us: int | None  # limit granted, likewise
    reason: str = ""  # why it was refused, failed or cancelled
    suspended_us: int = 0  # time since the last start in which it was suspended or returning from disk
    disk: tuple[OnDisk, ...] = ()  # of all starts
    present: Interval | None = None  # the open stay of a run that was cut short; it ends at that time
    cpu_us: int | None = (
        None  # CPU time of a process since the last start, in the mean; None: nodes do not run processes
    )
    dispatched_us: int | None = None  # time since the last start for which it could run; None: likewise
    slot: int = 0  # in which it was last

    @property
    def stays(self) -> tuple[Interval, ...]:
        """Return all stays in order, including an open one."""
        return self.intervals if self.present is None else (*self.intervals, self.present)

    @property
    def last_stays(self) -> tuple[Interval, ...]:
        """Return the stays since the last start; empty if it never started."""
        stays = self.intervals if self.present is None else self.stays
        first = len(stays) - 1
        while first > 0 and stays[first].resumed:
            first -= 1
        return stays[first:] if first > 0 else stays

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
