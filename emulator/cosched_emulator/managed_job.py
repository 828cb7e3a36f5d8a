"""A job in the manager's care: its state, where it is, and what has become of it so far."""

from __future__ import annotations

from typing import Final

from cosched_emulator.results.record import Interval, JobRecord
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol.allocation import Layers
from cosched_plugin.protocol.messages import COMPLETED, Run

PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
SUSPENDED: Final = "SUSPENDED"  # among the running jobs: it keeps what it holds


class ManagedJob:
    """A job in the manager's care."""

    __slots__ = (
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
        "outcome",
        "reason",
        "runs",
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
        self.end_us: int | None = None
        self.runs: tuple[Run, ...] = ()
        self.layers: Layers = ()
        self.estimate_us = job.spec.estimate_us
        self.limit_us = job.spec.limit_us
        self.outcome = COMPLETED  # what its scheduled end will make of it
        self.version = 0  # of its scheduled end
        self.done_us = 0  # when it completes, if nothing changes
        self.suspended_us: int | None = None  # since when it is suspended
        self.idle_us = 0  # time suspended in this stay, up to the last resumption
        self.measured_ppm = 0
        self.disturbances = 0  # changes among its neighbours: the version of its scheduled measurement
        self.work_us = 0
        self.reason = ""
        self.intervals: list[Interval] = []

    def record(self) -> JobRecord:
        """Return the job's story so far."""
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
        )
