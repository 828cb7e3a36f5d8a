"""What the manager knows of a job when the run is over: the raw material of all results."""

from __future__ import annotations

from typing import NamedTuple

from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol.messages import Run


class Interval(NamedTuple):
    """One stay of a job on its nodes."""

    start_us: int
    end_us: int
    runs: tuple[Run, ...]


class JobRecord(NamedTuple):
    """One job's whole story. Times in integer microseconds since the first submission."""

    job: WorkloadJob
    state: str  # COMPLETED, TIMEOUT, CANCELLED, REJECTED, ... (Slurm's names)
    end_us: int | None  # None: never ended (the run was cut short)
    intervals: tuple[Interval, ...]  # empty: never started
    work_us: int  # work done in the last interval: equals the job's run_us when it completed
    estimate_us: int  # run time expected at its last start
    limit_us: int | None  # limit granted at its last start
    reason: str = ""  # why it was refused, failed or cancelled
    suspended_us: int = 0  # time suspended in the last interval: it held its nodes and did no work
