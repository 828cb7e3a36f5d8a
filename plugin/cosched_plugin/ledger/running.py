"""The record of a job on nodes: the same for the scheduler's state, the books of adapters and the site of the check."""

from __future__ import annotations

from operator import itemgetter
from typing import Final, NamedTuple

from cosched_plugin.common.allocation import Machine
from cosched_plugin.common.threads import Layers, layers_of, side_by_side, size
from cosched_plugin.protocol.messages import MOST_SHARES, JobSpec, Run, RunningJob

REQUEUED: Final = "REQUEUED"  # the state of an `Ended` job that is pending again


class Running(NamedTuple):
    """A running job, on its nodes or suspended."""

    job: JobSpec  # the job
    start_us: int  # instant of its start
    # instant at which it is expected to end, as last revised. It may have passed: `view.expected_end(running)` has not
    end_us: int
    runs: tuple[Run, ...]  # its nodes; for a job on disk, those to which it comes back
    layers: Layers  # its threads, the same as a set
    joined: int  # the same as one number, for the core's own use
    threads: int  # how many these are
    limit_us: int | None  # span from its start after which the manager kills it, as last granted; `None`: never
    suspended_us: int | None = None  # instant since which it is suspended; `None`: it runs
    measured_ppm: int = 0  # slowdown that was measured beside its present neighbours; 0: not measured
    idle_us: int = 0  # span without progress since its start, up to its last resumption or to `ready_us`
    on_disk: bool = False  # it is suspended to disk: other jobs may have its threads and its memory
    ready_us: int = 0  # instant at which it went on, or will, after it came back from disk last; 0: never
    slot: int = 0  # its slot; 0 on machines without slots
    quanta: int = 0  # in how many, since its start, a share of it was measured
    # the last four of these shares, the newest first: CPU time that was logged for it in a quantum / time for which it
    # could run then, the mean over its processes
    shares: tuple[int, ...] = ()
    held: bool = False  # the manager has suspended it: no decision can resume it
    leaving: bool = False  # it is to be killed or requeued, and holds its nodes until the manager says so

    @property
    def stopped(self) -> bool:
        """Return whether a decision has suspended it on its nodes, and may resume it there."""
        return self.suspended_us is not None and not (self.on_disk or self.held)

    @property
    def limit_end_us(self) -> int:
        """Return when it has left its nodes by the limit that its user gave it; without one, by its estimate."""
        return self.start_us + self.job.longest_us + self.idle_us


class Ended(NamedTuple):
    """A job that ran and has released its nodes."""

    running: Running  # the job as it was when it left
    # `COMPLETED`, `FAILED`, `TIMEOUT`, `CANCELLED`, `NODE_FAIL` or `UNKNOWN`; `REQUEUED`: it is pending again
    state: str
    at_us: int  # instant of the batch
    progress_us: int  # span in which it made progress: neither suspended nor on its way back from disk


# What a running job and its entry in an inventory call alike; of the whole entry, where its values are in a running job.
_SAME: Final = tuple(name for name in RunningJob._fields if name in Running._fields)
_OTHERWISE: Final = {"spec": "job", "estimate_us": "end_us"}
_values = itemgetter(*[Running._fields.index(_OTHERWISE.get(name, name)) for name in RunningJob._fields])
_ESTIMATE: Final = RunningJob._fields.index("estimate_us")


def running_job(told: RunningJob, machine: Machine) -> Running:
    """Return a running job of the manager's inventory."""
    layers = layers_of(told.runs, machine.depth, machine.nodes)
    joined = side_by_side(layers, machine.nodes)
    same = {name: getattr(told, name) for name in _SAME}
    same |= {"runs": tuple(told.runs), "shares": tuple(told.shares)}
    end_us = told.start_us + told.estimate_us
    return Running(job=told.spec, end_us=end_us, layers=layers, joined=joined, threads=size(layers), **same)


def inventory_entry(running: Running) -> RunningJob:
    """Return the entry of a running job in an inventory."""
    values = list(_values(running))  # a quarter of the time that names take
    values[_ESTIMATE] -= running.start_us
    return RunningJob._make(values)


def progress_us(running: Running, now_us: int) -> int:
    """Return a job's time of progress by ``now_us``: neither suspended nor on its way back from disk."""
    until_us = now_us if running.suspended_us is None else running.suspended_us
    return max(until_us, running.ready_us) - running.start_us - running.idle_us


def delay(running: Running, by_us: int) -> Running:
    """Return a job after a time without progress: its expected end and its limit are later by that time."""
    return running._replace(
        end_us=running.end_us + by_us,
        limit_us=None if running.limit_us is None else running.limit_us + by_us,
        idle_us=running.idle_us + by_us,
    )


def with_share(running: Running, share_ppm: int) -> Running:
    """Return a running job after a quantum in which it consumed this share of the CPU time."""
    shares = (share_ppm, *running.shares)[:MOST_SHARES]
    return running._replace(quanta=running.quanta + 1, shares=shares)
