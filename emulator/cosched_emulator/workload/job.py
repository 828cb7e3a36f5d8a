"""A job of a workload: what its user tells the manager, and what the hardware will find out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cosched_plugin.protocol.messages import DemandTuple, JobSpec, SelfSlowdown, UsageTuple

WARNING: Final = "warning: "  # how a note begins that is shown even where others are not


class WorkloadJob(NamedTuple):
    """One job with both sides of it: ``spec`` is all that manager and scheduler ever see, the rest is the truth."""

    spec: JobSpec
    run_us: int  # run time alone on its nodes, in work time
    demand: DemandTuple | None  # true demand per process; None: none that contends
    source_id: int  # number in the trace that it came from
    usage: UsageTuple | None = (
        None  # true use of its nodes; None: not known, it neither slows others nor is slowed by them
    )
    self_slowdown: SelfSlowdown | None = None  # the true one; None: not known, its processes do not slow each other
    requeue: bool | None = None  # whether it runs again when a node fails under it; None: as the scenario says of all
    exit_code: int = 0  # with which it ends when its work is done; any other is a failure
    queue: int = -1  # of its log: number of the queue it was submitted to; -1: not known
    partition: int = -1  # of its log: number of the partition it ran in; -1: not known

    @property
    def id(self) -> int:
        """Return the job's number: with the next three, what makes this the `JobFacts` of the truth."""
        return self.spec.id

    @property
    def user(self) -> str:
        """Return whose job it is."""
        return self.spec.user

    @property
    def name(self) -> str:
        """Return the job's name."""
        return self.spec.name

    @property
    def processes(self) -> int:
        """Return the number of processes."""
        return self.spec.processes


class CutRuns(NamedTuple):
    """What it costs that run times are cut to the estimate: of the jobs of a workload, not of the whole log."""

    jobs: int  # with a run time that was cut
    work_us: int  # run time x processes of all jobs, as in the log
    kept_us: int  # the same with the run times that are left

    @property
    def lost(self) -> float:
        """Return the share of the work that is lost."""
        return 1 - self.kept_us / self.work_us


class Calendar(NamedTuple):
    """Where the time 0 of a workload lies in the day, and in the week where that is known."""

    start_s: float  # time 0 on a local clock, in seconds since a midnight
    named_days: bool  # that midnight is the first of 1970, a Thursday; else days have no names


class Workload(NamedTuple):
    """Jobs in submission order, ids dense from 1, first submission at time 0."""

    jobs: Sequence[WorkloadJob]  # as columns (`Jobs`), where there may be many
    processors: int | None  # size of the machine that the source names, if it does
    origin: str  # file or model, for people
    notes: tuple[str, ...] = ()  # what was repaired or dropped, one line each
    cut: CutRuns | None = None  # None: no run time was
    calendar: Calendar | None = None  # None: not known

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the notes that are warnings, without the word."""
        return tuple(note.removeprefix(WARNING) for note in self.notes if note.startswith(WARNING))
