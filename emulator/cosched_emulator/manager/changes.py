"""Changes of jobs and nodes for the accounting: plain facts, in order of occurrence."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from cosched_emulator.manager.record import Interval, JobRecord, OnDisk
from cosched_emulator.manager.time_sharing.record import QuantumRecord
from cosched_emulator.workload.job import WorkloadJob


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
    stay: Interval


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


Change: TypeAlias = (
    JobEntered | JobChanged | StayEnded | DiskLeft | JobFinished | NodeChanged | FaultHappened | QuantumPassed
)
