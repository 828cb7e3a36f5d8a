"""A job in the manager's care: its state, where it is, and what has become of it so far."""

from __future__ import annotations

from typing import Final

from cosched_emulator.results.record import Interval, JobRecord, OnDisk
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol.allocation import Layers
from cosched_plugin.protocol.messages import COMPLETED, Run, RunningJob

PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
SUSPENDED: Final = "SUSPENDED"  # among the running jobs: it keeps what it holds, or its place on disk


class ManagedJob:
    """A job in the manager's care."""

    __slots__ = (
        "disk",
        "disturbances",
        "done_us",
        "end_us",
        "estimate_us",
        "held",
        "idle_us",
        "intervals",
        "job",
        "layers",
        "limit_us",
        "measured_ppm",
        "on_disk",
        "outcome",
        "ready_us",
        "reason",
        "resumed",
        "runs",
        "since_us",
        "start_us",
        "state",
        "suspended_us",
        "version",
        "work_us",
    )

    def __init__(self, job: WorkloadJob) -> None:
        self.job = job
        self.state = PENDING
        self.held = False
        self.start_us = 0
        self.since_us = 0  # start of the present stay on its nodes
        self.resumed = False  # this stay began with its coming back from disk
        self.end_us: int | None = None
        self.runs: tuple[Run, ...] = ()
        self.layers: Layers = ()
        self.estimate_us = job.spec.estimate_us
        self.limit_us = job.spec.limit_us
        self.outcome = COMPLETED  # what its scheduled end will make of it
        self.version = 0  # of its scheduled end
        self.done_us = 0  # when it completes, if nothing changes
        self.suspended_us: int | None = None  # since when it is suspended
        self.on_disk = False  # suspended to disk
        self.ready_us = 0  # when it last came back from disk and went on, or will; 0: never
        # Time since its start in which it was suspended, or came back from disk: up to its last resumption, or to `ready_us`.
        self.idle_us = 0
        self.measured_ppm = 0
        self.disturbances = 0  # changes among its neighbours: the version of its scheduled measurement
        self.work_us = 0
        self.reason = ""
        self.intervals: list[Interval] = []
        self.disk: list[OnDisk] = []

    def idle_until(self, now_us: int) -> int:
        """Return up to when `idle_us` counts: the present, a suspension, or the end of the way back from disk."""
        return max(now_us if self.suspended_us is None else self.suspended_us, self.ready_us)

    def work_alone_us(self, now_us: int) -> int:
        """Return the work done since its start, if nothing has slowed it."""
        return min(self.idle_until(now_us) - self.start_us - self.idle_us, self.job.run_us)

    def lose(self, span_us: int) -> None:
        """Have its times wait, as it makes no progress for so long."""
        self.idle_us += span_us
        self.done_us += span_us
        self.estimate_us += span_us
        if self.limit_us is not None:
            self.limit_us += span_us

    def leave_nodes(self, now_us: int) -> None:
        """Write down the stay on its nodes that ends now."""
        self.intervals.append(Interval(self.since_us, now_us, self.runs, self.resumed))

    def leave_disk(self, now_us: int) -> None:
        """Write down its time on disk, which ends now; where it goes on, this is the beginning of another stay."""
        assert self.suspended_us is not None
        self.disk.append(OnDisk(self.suspended_us, now_us))
        self.on_disk = False
        self.since_us = now_us
        self.resumed = True

    def running(self) -> RunningJob:
        """Return what an inventory tells of it while it is among the running jobs."""
        return RunningJob(
            self.job.spec,
            self.start_us,
            self.runs,
            self.estimate_us,
            self.limit_us,
            self.suspended_us,
            self.measured_ppm,
            self.idle_us,
            self.on_disk,
            self.ready_us,
        )

    def record(self) -> JobRecord:
        """Return the job's story so far."""
        still_there = [OnDisk(self.suspended_us, None)] if self.on_disk and self.suspended_us is not None else []
        return JobRecord(
            self.job,
            self.state,
            self.end_us,
            tuple(self.intervals),
            self.work_us,
            self.estimate_us,
            self.limit_us,
            self.reason,
            self.idle_us,
            (*self.disk, *still_there),
        )
