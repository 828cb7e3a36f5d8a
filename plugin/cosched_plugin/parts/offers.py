"""Input and output of placements: the machine at one instant, now or expected, and an offer to run a job there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from cosched_hwmodel.bandwidth.bandwidth_matrix import Bools, Floats, Ints, Planned
from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import Counts, is_plain
from cosched_plugin.common.threads import Layers, minus, nodes_of, size
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import Occupancy
from cosched_plugin.protocol.messages import Action, JobSpec, Run, StartJob

# The pending jobs during one scan of the queue. A new object is made when a job starts.


class PendingJobs:
    """Pending jobs in queue order, at one instant."""

    __slots__ = ("_gone", "_jobs", "memo")

    def __init__(self, jobs: list[JobSpec], gone: frozenset[int] = frozenset()) -> None:
        """``gone``: jobs to leave out."""
        self._jobs = jobs
        self._gone = gone
        self.memo: object = None  # a matching's cache, derived from this queue

    def without(self, job_ids: Collection[int]) -> PendingJobs:
        """Return the queue without some jobs."""
        return PendingJobs(self._jobs, self._gone.union(job_ids))

    @property
    def jobs(self) -> list[JobSpec]:
        """Return the jobs. They are collected on first use, because most policies never need them."""
        if self._gone:
            self._jobs = [job for job in self._jobs if job.id not in self._gone]
            self._gone = frozenset()
        return self._jobs


EMPTY: Final = PendingJobs([])


class Offer(NamedTuple):
    """A job on certain threads from a certain instant on."""

    job: JobSpec  # the job
    start_us: int  # instant of the start
    runs: tuple[Run, ...]  # its nodes
    factor: float  # run time expected there / run time alone
    run_us: int  # span: the run time to plan with
    limit_us: int | None  # span: the limit to ask for
    slot: int = 0  # the slot that it is to start in; 0 unless the machine has slots

    @property
    def sole(self) -> Offer:
        """Return this offer: no other job is concerned."""
        return self

    @property
    def end_us(self) -> int:
        """Return when the job is expected to release its threads."""
        return self.start_us + self.run_us

    @property
    def job_ids(self) -> tuple[int, ...]:
        """Return the one job that starts."""
        return (self.job.id,)

    @property
    def decisions(self) -> tuple[Action, ...]:
        """Return the decision that takes the offer."""
        return (self.start(),)

    @property
    def occupancies(self) -> tuple[Occupancy, ...]:
        """Return the one job on its nodes."""
        return (Occupancy(self.end_us, self.job.id, nodes_of(self.runs)),)

    def start(self) -> StartJob:
        """Return the decision that takes the offer."""
        return StartJob(self.job.id, self.runs, self.run_us, self.limit_us, self.slot)

    def threads_held(self, at_us: int, view: View) -> Layers:
        """Return the threads that the job still holds at ``at_us``."""
        return view.claim(self.runs) if self.end_us > at_us else ()

    def count_held(self, at_us: int, view: View) -> int:
        """Return how many threads these are."""
        if self.end_us <= at_us:
            return 0
        return self.job.processes if is_plain(self.job) else size(view.claim(self.runs))


_new = tuple.__new__  # a call of the class takes twice as long, `_replace` five times


class Snapshot(NamedTuple):
    """The machine as it is, or as it is expected from a later instant on; running jobs and planned ones count."""

    view: View  # the view
    at_us: int  # the instant
    free: Layers  # threads that a job may hold from then on, without a time limit
    planned: tuple[Planned, ...] = ()  # jobs that will run besides the running ones
    # free memory of each node; `None`: what running jobs leave. Ask `memory_for(job)`
    memory_mb: Sequence[int] | None = None
    # countable resources that are left; `None`: what running jobs leave. Ask `open_on(job)`, or `open_to(job)`
    counts: Counts | None = None

    def open_on(self, job: JobSpec) -> tuple[Layers, NodeSet | None]:
        """Return the threads on which ``job`` may be put: a set of threads, and the nodes (None: any) of which these count."""
        return self.view.open_on(job, self.free, self.at_us, self.counts)

    def open_to(self, job: JobSpec) -> Layers:
        """Return the same as one set of threads."""
        return self.view.open_to(job, self.free, self.at_us, self.counts)

    def memory_for(self, job: JobSpec) -> Sequence[int]:
        """Return the free memory of each node; where ``job`` asks for none, that of the present, which is cheaper."""
        if self.memory_mb is not None:
            return self.memory_mb
        return self.view.memory_at(self.at_us) if job.memory_mb else self.view.free_memory_mb

    def without(self, layers: Layers) -> Snapshot:
        """Return the snapshot without these threads."""
        return _new(Snapshot, (self.view, self.at_us, minus(self.free, layers), *self[3:]))

    def with_planned(self, offer: Offer) -> Snapshot:
        """Return the snapshot with ``offer`` among the jobs that will run; its threads stay as they are.

        Where jobs start on empty nodes only, the snapshot is as it was: ``offer`` shares its nodes with none of them.
        """
        demand = offer.job.demand
        if not self.view.any_threads or (demand is None and self.view.neighbours() is None):
            return self
        bandwidth, network, disk = demand or (0, 0, 0)
        planned = Planned(
            offer.start_us,
            offer.end_us,
            tuple(
                [
                    (first, count, (bandwidth * processes, network * processes, disk * processes))
                    for first, count, _, processes in offer.runs
                ]
            ),
            offer.job.id,
            offer.runs,
        )
        return _new(Snapshot, (*self[:3], (*self.planned, planned), *self[4:]))


def snapshot_now(view: View) -> Snapshot:
    """Return the machine as it is."""
    return _new(Snapshot, (view, view.now_us, view.free, (), None, None))


def snapshot_at(view: View, instant_us: int, free: Layers) -> Snapshot:
    """Return the machine at a later instant with the threads ``free``, which `View.availability` returns."""
    return _new(Snapshot, (view, instant_us, free, (), None, None))


# A seat: a possible decision to start a job now. A gate: the reservation that such a decision must respect.


class Seat(Protocol):
    """A possible decision to start a job now: an offer, alone or with co-located jobs."""

    @property
    def sole(self) -> Offer | None:
        """Return the job's offer where no other job is concerned; None for a co-located job."""

    @property
    def job_ids(self) -> tuple[int, ...]:
        """Return the jobs that start."""

    @property
    def end_us(self) -> int:
        """Return the latest expected end of the jobs that it concerns."""

    @property
    def decisions(self) -> tuple[Action, ...]:
        """Return the decisions that carry it out."""

    @property
    def occupancies(self) -> tuple[Occupancy, ...]:
        """Return the occupied nodes and their expected ends once it is taken, for the started jobs and those beside them."""

    def threads_held(self, at_us: int, view: View) -> Layers:
        """Return the threads that are free at ``at_us`` without this seat, by `View.availability`, and are held with it."""

    def count_held(self, at_us: int, view: View) -> int:
        """Return how many threads these are."""


class Gate(Protocol):
    """Admits seats: it protects a reservation, or nothing."""

    @property
    def reserved(self) -> int | None:
        """Return the job that has the one reservation; None: there is none, or more than one job has a promise."""

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Quick check: tell whether ``threads`` threads, free from ``since_us`` on, might be held until ``until_us``."""

    def admit(self, seat: Seat) -> bool:
        """Tell whether ``seat`` may be taken; if so it counts as taken."""


class Gatekeeper(Gate, Protocol):
    """A gate with a quick check of many jobs at once."""

    def may_hold_each(self, since_us: Ints, until_us: Floats, threads: Ints) -> Bools:
        """Return what `may_hold` returns, for each of many."""


class Unreserved:
    """A gate without a reservation: every seat is admitted."""

    __slots__ = ()
    reserved = None

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Return True."""
        return True

    def may_hold_each(self, since_us: Ints, until_us: Floats, threads: Ints) -> Bools:
        """Return True for each."""
        return np.ones(until_us.shape, dtype=np.bool_)

    def admit(self, seat: Seat) -> bool:
        """Return True."""
        return True


UNRESERVED: Final = Unreserved()
