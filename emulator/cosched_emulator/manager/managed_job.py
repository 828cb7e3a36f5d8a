"""The manager's state of a job: its state, its place, and its history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from cosched_emulator.manager.record import JobRecord, OnDisk, Stay, Suspension
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.units import ThreadMask
from cosched_plugin.common.threads import Layers
from cosched_plugin.protocol.messages import COMPLETED, Run, RunningJob

PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
SUSPENDED: Final = "SUSPENDED"  # still among the running jobs: it keeps its resources, or its place on disk

# States of a job of a difficult manager that holds its threads, and is not on its nodes.
AWAITED: Final = "AWAITED"  # its start was decided, and it has not started yet
GONE: Final = "GONE"  # it has ended, and the manager has not seen that yet
ABSENT: Final = (AWAITED, GONE)

_new = tuple.__new__  # a call of the class of a named tuple takes twice as long
_IN_INVENTORY: Final = attrgetter(*RunningJob._fields[1:])


def _runs(runs: Iterable[Sequence[int]]) -> tuple[Run, ...]:
    return tuple([Run(first, count, ThreadMask(mask), processes) for first, count, mask, processes in runs])


# What does not go along with a job to another manager: it follows there, or is over at the end of an instant.
NOT_CARRIED: Final = frozenset({"job", "id", "leaving", "end_us", "layers", "outcome", "version", "disturbances"})
# How plain values are read there, where they do not say it themselves.
_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "runs": _runs,
    "shares": tuple,
    "intervals": lambda stays: tuple([Stay(begin, end, _runs(runs), resumed) for begin, end, runs, resumed in stays]),
    "disk": lambda times: tuple([OnDisk(*time) for time in times]),
    "suspensions": lambda times: tuple([Suspension(*time) for time in times]),
}


class ManagedJob:
    """The manager's state of a job."""

    # Fields that few jobs change are class attributes, so that a job is quick to create.
    state = PENDING
    held = False  # pending: it must not be started; running: the manager has suspended it
    leaving = False  # a scheduler has asked to kill or to requeue it
    start_us = 0
    since_us = 0  # start of the present stay on its nodes
    resumed = False  # this stay began with its return from disk
    end_us: int | None = None
    runs: tuple[Run, ...] = ()
    layers: Layers = ()
    outcome = COMPLETED  # the end state of its scheduled end
    version = 0  # version of its scheduled end
    done_us = 0  # when it completes, if nothing changes
    suspended_us: int | None = None  # since when it is suspended
    on_disk = False  # suspended to disk
    ready_us = 0  # when it last resumes after a return from disk; 0: never
    # Time since its start in which it was suspended or returning from disk: up to its last resumption, or to `ready_us`.
    idle_us = 0
    measured_ppm = 0
    disturbances = 0  # number of changes among its neighbours: the version of its scheduled measurement
    work_us = 0
    slot = 0  # in which it is, or was last
    quanta = 0  # in which a share was measured
    shares: tuple[int, ...] = ()  # the last of them, the newest first
    cpu_us: int | None = None  # CPU time of a process in the mean, as of its end; None: nodes do not run processes
    # Time since its start for which it could run, up to when it last began to; None: likewise
    dispatched_us: int | None = None
    reason = ""
    intervals: tuple[Stay, ...] = ()
    disk: tuple[OnDisk, ...] = ()
    suspensions: tuple[Suspension, ...] = ()  # on its nodes

    def __init__(self, job: WorkloadJob) -> None:
        spec = job.spec
        self.job = job
        self.id = spec.id
        self.estimate_us = spec.estimate_us
        self.limit_us = spec.limit_us

    def state_of(self) -> dict[str, Any]:
        """Return in plain values what differs from a job that has just been submitted, for `take_over`."""
        return {key: value for key, value in vars(self).items() if key not in NOT_CARRIED}

    def take_over(self, state: Mapping[str, Any]) -> None:
        """Take over the state of a job in another manager; `layers`, and all versions, are made anew."""
        for key, value in state.items():
            setattr(self, key, _READ[key](value) if key in _READ else value)

    def idle_until(self, now_us: int) -> int:
        """Return the time up to which `idle_us` counts: the present, the suspension, or the end of the return from disk."""
        return max(now_us if self.suspended_us is None else self.suspended_us, self.ready_us)

    def work_alone_us(self, now_us: int) -> int:
        """Return the work done since its start, assuming no slowdown."""
        until_us = self.idle_until(now_us) if self.suspended_us is not None or self.ready_us else now_us
        return min(until_us - self.start_us - self.idle_us, self.job.run_us)

    def lose(self, span_us: int) -> None:
        """Shift its expected end and its limit by a span without progress."""
        self.idle_us += span_us
        self.done_us += span_us
        self.estimate_us += span_us
        if self.limit_us is not None:
            self.limit_us += span_us

    def leave_disk(self, now_us: int) -> None:
        """Record its time on disk, which ends now; if it resumes, a new stay begins."""
        assert self.suspended_us is not None
        self.disk += (OnDisk(self.suspended_us, now_us),)
        self.on_disk = False
        self.since_us = now_us
        self.resumed = True

    def end_suspension(self, now_us: int) -> None:
        """Record its suspension on its nodes, which ends now."""
        assert self.suspended_us is not None
        self.suspensions += (Suspension(self.suspended_us, now_us),)

    def inventory_entry(self) -> RunningJob:
        """Return its entry in an inventory while it is among the running jobs."""
        return _new(RunningJob, (self.job.spec, *_IN_INVENTORY(self)))

    def record_at(self, now_us: int, work_us: int) -> JobRecord:
        """Return the record up to ``now_us`` of a job that has not ended, with ``work_us`` done since its last start."""
        present = None
        if self.state in (RUNNING, SUSPENDED) and not self.on_disk:
            present = Stay(self.since_us, now_us, self.runs, self.resumed)
        idle_us = self.idle_us
        if self.suspended_us is not None or self.ready_us:
            idle_us += now_us - self.idle_until(now_us)
        return self.record()._replace(work_us=work_us, suspended_us=idle_us, present=present)

    def record(self) -> JobRecord:
        """Return the job's record so far."""
        disk, suspensions = self.disk, self.suspensions
        if self.suspended_us is not None and self.on_disk:
            disk += (OnDisk(self.suspended_us, None),)
        elif self.suspended_us is not None:
            suspensions += (Suspension(self.suspended_us, None),)
        return _new(
            JobRecord,
            (
                self.job, self.state, self.end_us, self.intervals, self.work_us, self.estimate_us, self.limit_us, self.reason,
                self.idle_us, disk, None, self.cpu_us, self.dispatched_us, self.slot, suspensions,
            ),
        )  # fmt: skip
