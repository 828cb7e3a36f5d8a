"""The machine of one class of jobs: its own queue, its own running jobs, and a clock that stands still outside the class's slices.

Under time slices every class of jobs has the whole machine to itself, for a part of the time (Scojo-PECT, G-LOMARC-TS paper,
section 4.7). A policy that plans with this view schedules the class and need not know of slices: its time is that in which the
class makes progress, and a job that is on disk during other slices holds its nodes like a running one.

The layer of time slices sets the clock, and the nodes on which jobs of the class may be started at this moment.
"""

from __future__ import annotations

from collections import Counter as CountedNames
from collections.abc import Callable, Iterable, Mapping, Sequence

from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import Counts
from cosched_plugin.common.threads import Layers, each_node, minus, on_nodes, size
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import Occupancy, WholeNodesView
from cosched_plugin.ledger.running import Ended, Running
from cosched_plugin.protocol.messages import JobSpec


class VirtualMachine(WholeNodesView):
    """A view of the jobs with estimates in a range."""

    __slots__ = (
        "_above_us",
        "_counts",
        "_counts_key",
        "_elsewhere",
        "_held",
        "_held_at",
        "_jobs",
        "_jobs_key",
        "_most_us",
        "_nodes",
        "_occupancies",
        "_occupancies_key",
        "_open",
        "_queue",
        "_queue_key",
        "_virtual_us",
        "_wall_us",
    )  # fmt: skip

    def __init__(self, view: View, above_us: int, most_us: int) -> None:
        """Show the jobs with an estimate above ``above_us``, and of ``most_us`` at most."""
        super().__init__(view)
        self._above_us = above_us
        self._most_us = most_us
        self._virtual_us = 0
        self._open = NodeSet(0)
        self._wall_us: Callable[[int], int] = int
        self._jobs: dict[int, Running] = {}
        self._jobs_key: object = None
        self._nodes: dict[int, NodeSet] = {}  # of each running job
        self._held = 0  # all of these nodes
        self._held_at = -1
        self._queue: list[JobSpec] = []
        self._queue_key: object = None
        self._occupancies: list[Occupancy] = []
        self._occupancies_key: object = None
        self._counts: Counts | None = None
        self._counts_key = -1
        self._elsewhere: Mapping[str, int] = {}

    # Must be called before the policy of this class is asked, in every batch, and again after anything that may have changed which
    # nodes the class may use: until then the view has the clock and the nodes of its last turn.
    def turn_to(self, virtual_us: int, open_nodes: NodeSet, wall_us: Callable[[int], int]) -> None:
        """Set the clock, the nodes on which jobs may be started now, and the conversion of later instants to the run's clock."""
        self._virtual_us = virtual_us
        self._open = open_nodes
        self._wall_us = wall_us

    @property
    def key(self) -> object:
        """Return a value that changes whenever time, nodes, running jobs, or the nodes open to the class change."""
        return (self._virtual_us, self._state.now_us, self._state.version, self._open)

    @property
    def now_us(self) -> int:
        """Return the present instant of the class's own time."""
        return self._virtual_us

    def wall_us(self, at_us: int) -> int:
        """Return an instant of the class's time on the run's clock."""
        return self._wall_us(at_us)

    @property
    def queue(self) -> list[JobSpec]:
        """Return the jobs of the class that may be started, in order of (submission, id); a fresh list."""
        return list(self._queue_now())

    @property
    def whole_queue(self) -> None:
        """Return None: the queue also holds jobs of other classes."""
        return None

    @property
    def queued(self) -> int:
        """Return the number of jobs of the class that may be started."""
        return len(self._queue_now())

    @property
    def populated(self) -> bool:
        """Tell whether a job of the class is pending or has been started."""
        return bool(self._queue_now() or self._nodes_now())

    @property
    def running(self) -> Mapping[int, Running]:
        """Return the jobs of the class that have been started, on disk or not, with times of the class's own."""
        key = (self._virtual_us, self._state.now_us, self._state.version)
        if self._jobs_key != key:
            self._jobs_key = key
            jobs = self._state.running
            self._jobs = {job_id: self._translate(jobs[job_id]) for job_id in self._nodes_now()}
        return self._jobs

    @property
    def arrived(self) -> Sequence[JobSpec]:
        """Return the jobs of the class that have come in the present batch."""
        return [job for job in super().arrived if self._above_us < job.estimate_us <= self._most_us]

    @property
    def ended(self) -> Sequence[Ended]:
        """Return the jobs of the class that ran and left in the present batch, with times of the class's own."""
        above_us, most_us = self._above_us, self._most_us
        return tuple(
            [
                ended._replace(running=self._translate(ended.running), at_us=self._virtual_us)
                for ended in super().ended
                if above_us < ended.running.job.estimate_us <= most_us
            ]
        )

    @property
    def releases(self) -> Sequence[tuple[int, int]]:
        """Return (expected end, job id) of the running jobs, sorted."""
        return [(occupancy.end_us, occupancy.job_id) for occupancy in self.occupancies()]

    def returning(self) -> list[tuple[int, NodeSet]]:
        """Return none: in the class's time nobody knows when a node returns."""
        return []

    def expected_end(self, running: Running) -> int:
        """Return the expected end of a running job; an overdue job may end at the next instant."""
        return max(running.end_us, self._virtual_us + 1)

    def times_left_us(self, jobs: Iterable[Running]) -> list[int]:
        """Return the expected time left of each of these running jobs, in the class's time."""
        now_us = self._virtual_us
        return [max(running.end_us - now_us, 1) for running in jobs]

    @property
    def free_nodes(self) -> NodeSet:
        """Return the nodes that no job of the class holds and that are open to it now."""
        self._nodes_now()
        return NodeSet(self._state.pool.up & self._open & ~self._held)

    @property
    def idle_nodes(self) -> NodeSet:
        """Return the free nodes without a job of another class."""
        return NodeSet(super().free_nodes & self.free_nodes)

    @property
    def unclaimed_nodes(self) -> NodeSet:
        """Return the idle nodes to which no job of another class on disk will come back."""
        claim, nodes = 0, self._state.nodes_by_job()
        for job_id in self._state.on_disk:
            claim |= nodes[job_id]
        return NodeSet(self.idle_nodes & ~claim)

    @property
    def all_free(self) -> Layers:
        """Return the threads that no job of the class holds, on nodes that are open to it now."""
        free = on_nodes(self._state.machine.exists, self._state.pool.up & self._open)
        for running in self.running.values():
            free = minus(free, running.layers)
        return free

    @property
    def free_memory_mb(self) -> Sequence[int]:
        """Return the memory of each node that no job of the class holds."""
        memory = list(self._state.machine.memory_mb)
        for running in self.running.values():
            for node, processes in each_node(running.runs) if running.job.memory_mb else ():
                memory[node] -= processes * running.job.memory_mb
        return memory

    def holds(self, running: Running) -> bool:
        """Return True: other jobs of the class find neither memory nor amounts of a job on disk."""
        return True

    @property
    def licences_elsewhere(self) -> Mapping[str, int]:
        """Return how many of each countable resource of the whole cluster jobs of other classes have."""
        self._counts_now()
        return self._elsewhere

    # Jobs of other classes leave a node before one of this class starts there, and the nodes of a class on disk are its own. Licences
    # are of all classes: a job keeps them on disk, so that it can always come back.
    def _counts_now(self) -> Counts:
        pool, version = self._state.pool, self._state.version
        if not pool.counted:
            return pool.counts
        if self._counts is None or self._counts_key != version:
            machine, own = self._state.machine, self._nodes_now()
            self._counts_key, self._counts = version, Counts(machine)
            elsewhere = CountedNames[str]()
            for job_id, running in self._state.running.items():
                if job_id in own:
                    self._counts.count(running.job, running.runs, -1)
                else:
                    elsewhere.update(dict(running.job.licences))
            self._elsewhere = elsewhere
            for name, amount in elsewhere.items():
                self._counts.licences[name] = self._counts.licences.get(name, 0) - amount
        return self._counts

    def steps(self, besides: Sequence[Occupancy] = ()) -> list[tuple[int, NodeSet]]:
        """Return (instant, free nodes from then on), ascending: nodes closed to the class now are open at the next."""
        closed = NodeSet(self._state.pool.up & ~self._open)
        later = closed or self.licences_elsewhere
        return super().steps([*besides, Occupancy(self._virtual_us + 1, 0, closed)] if later else besides)

    def shadow(self, threads: int) -> tuple[int, int] | None:
        """Return the first later instant of the class's time from which ``threads`` threads are free, and the number of extra ones."""
        for at_us, nodes in self.steps()[1:]:
            extra = size(self.firsts(nodes)) - threads
            if extra >= 0:
                return at_us, extra
        return None

    def occupancies(self) -> list[Occupancy]:
        """Return the nodes held and until when, in the class's time, by (expected end, job id)."""
        key = (self._virtual_us, self._state.now_us, self._state.version)
        if self._occupancies_key != key:
            self._occupancies_key = key
            soonest_us = self._virtual_us + 1
            nodes = self._nodes_now()
            self._occupancies = sorted(
                [
                    Occupancy(max(running.end_us, soonest_us), job_id, nodes[job_id])
                    for job_id, running in self.running.items()
                ]
            )
        return self._occupancies

    def _queue_now(self) -> list[JobSpec]:
        """Return the jobs of the class that may be started, in order of (submission, id)."""
        queue = self._state.queue
        key = (queue.changes, len(queue))
        if self._queue_key != key:
            self._queue_key = key
            above_us, most_us = self._above_us, self._most_us
            self._queue = [job for job in queue.values() if above_us < job.estimate_us <= most_us]
        return self._queue

    def _nodes_now(self) -> dict[int, NodeSet]:
        """Return the nodes of each job of the class that has been started."""
        if self._held_at != self._state.version:
            self._held_at = self._state.version
            above_us, most_us = self._above_us, self._most_us
            nodes_by_job = self._state.nodes_by_job()
            self._nodes = {
                job_id: nodes_by_job[job_id]
                for job_id, running in self._state.running.items()
                if above_us < running.job.estimate_us <= most_us
            }
            self._held = 0
            for nodes in self._nodes.values():
                self._held |= nodes
        return self._nodes

    def _translate(self, running: Running) -> Running:
        """Return a running job with times of the class's clock: its remaining time counts from now."""
        since_us = self._state.now_us if running.suspended_us is None else running.suspended_us
        by_us = self._virtual_us - max(since_us, running.ready_us)
        job, start_us, end_us, *others = running  # `_replace` takes three times as long
        return tuple.__new__(Running, (job, start_us + by_us, end_us + by_us, *others))
