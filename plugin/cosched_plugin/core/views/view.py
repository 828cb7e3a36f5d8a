"""The read-only view of the state for a policy."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from cosched_hwmodel.bandwidth.bandwidth_matrix import Ints, NodeTable
from cosched_hwmodel.pairs import PairModel
from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import Counts, Machine, ResumeCosts, is_plain
from cosched_plugin.common.slots import Rotation
from cosched_plugin.common.threads import Layers, layers_of, none_of, on_nodes, side_by_side, size
from cosched_plugin.core.first_fit import thread_counts
from cosched_plugin.core.state import Neighbours, State, empty_table
from cosched_plugin.core.trace import Trace
from cosched_plugin.core.views.availability import Availability, with_returns
from cosched_plugin.core.work import Work
from cosched_plugin.ledger.ledger import Queue
from cosched_plugin.ledger.running import Ended, Running, progress_us
from cosched_plugin.protocol.messages import COUNTABLE, ELIGIBLE_NODES, Belief, Capabilities, JobSpec, NoteValue, Run

_NOTHING: Final[frozenset[str]] = frozenset()
_instant = itemgetter(0)

# What a view shows of time sharing: slots, rotation and quanta.


class SlotFacts:
    """The part of a view that shows time sharing; all else in a view, such as free threads, is about slot 0."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def quantum_us(self) -> int:
        """Return the length of a quantum; 0: the machine has no slots."""
        slots = self._state.slots
        return 0 if slots is None else slots.quantum_us

    @property
    def quantum(self) -> int:
        """Return the number of the last quantum that has ended; 0: none yet. A rotation begins with the next one."""
        slots = self._state.slots
        return 0 if slots is None else slots.quantum

    @property
    def quantum_ended(self) -> bool:
        """Tell whether a quantum has ended in the present batch."""
        slots = self._state.slots
        return slots is not None and slots.quantum_ended

    @property
    def rotation(self) -> Rotation:
        """Return the rotation, the next turn first; without turns, slot 0 runs all the time."""
        slots = self._state.slots
        return Rotation() if slots is None else slots.rotation

    @property
    def slots_used(self) -> Sequence[int]:
        """Return the slots with a running job, ascending; suspended jobs count."""
        return sorted({running.slot for running in self._state.running.values()})

    def free_in(self, slot: int) -> Layers:
        """Return the free threads of the nodes in service in a slot; a machine without slots has slot 0 only."""
        if not slot:
            return self._state.pool.free
        return none_of(self._state.pool.free) if self._state.slots is None else self._state.pools.free(slot)


# Numbers, lists and sets of threads must be asked for again after each decision that was yielded; `running` and `releases` of the
# whole machine are the state's own, and follow. Whoever keeps something derived must compare `version`, and `now_us` where expected
# ends are in it: time moves between batches only, the version with each decision that changes a running job, too.
class View(SlotFacts):
    """A view of the scheduler's state, always current: after each decision it shows that decision's effect.

    Jobs, running jobs and sets of threads are immutable; containers must be read, never changed.
    """

    __slots__ = (
        "_availability",
        "_availability_us",
        "_availability_version",
        "_counted",
        "_counted_threads",
        "_left",
        "_left_key",
        "_memory_left",
        "trace",
    )

    def __init__(self, state: State, trace: Trace | None = None) -> None:
        super().__init__(state)
        self.trace = trace  # the trace that listens; None in an untraced run
        self._availability: Availability | None = None
        self._availability_us = 0
        self._availability_version = -1
        # What running jobs leave of amounts and of memory, by instant: the candidates of a pass ask for the same few.
        self._left: dict[int, Counts] = {}
        self._memory_left: dict[int, Sequence[int]] = {}
        self._left_key: object = None
        # The set of free threads that was counted last: 128 layers take as long as the rest of a look at a candidate.
        self._counted: Layers = ()
        self._counted_threads = 0

    @property
    def now_us(self) -> int:
        """Return the present instant."""
        return self._state.now_us

    @property
    def machine(self) -> Machine:
        """Return the nodes."""
        return self._state.machine

    @property
    def work(self) -> Work:
        """Return the remaining work of this decision."""
        return self._state.work

    def explain(self, job_id: int, costly: Callable[[], Mapping[str, Any]] | None = None, /, **facts: Any) -> None:
        """Record in a trace, if there is one, why a job is about to be started; only then ``costly`` is called, for more facts."""
        if self.trace is not None:
            self.trace.explain(job_id, **facts, **(costly() if costly is not None else {}))

    def tell(self, kind: str, /, **facts: Any) -> None:
        """Emit a record of another kind to a trace, if there is one."""
        if self.trace is not None:
            self.trace.tell(kind, **facts)

    @property
    def capabilities(self) -> Capabilities:
        """Return what the manager can do."""
        return self._state.capabilities

    @property
    def features(self) -> Collection[str]:
        """Return the features that the manager and this scheduler have agreed on."""
        return self._state.features

    @property
    def licences(self) -> Mapping[str, int]:
        """Return how many are left of each countable resource of the whole cluster."""
        return self._counts_now().licences

    @property
    def licences_elsewhere(self) -> Mapping[str, int]:
        """Return how many of each jobs have that only other views show: as nodes closed to this view, free at the next instant."""
        return {}

    @property
    def free_resources(self) -> Mapping[str, Sequence[int]]:
        """Return how many are left of each countable resource on each node."""
        return self._counts_now().resources

    @property
    def asked(self) -> frozenset[str]:
        """Return what pending jobs ask for beyond threads and memory: `eligible nodes`, `countable resources`."""
        queue = self._state.queue
        if not (queue.choosy or queue.counted):
            return _NOTHING
        return frozenset([word for word, jobs in ((ELIGIBLE_NODES, queue.choosy), (COUNTABLE, queue.counted)) if jobs])

    @property
    def belief(self) -> Belief:
        """Return the site's belief about contention."""
        return self._state.belief

    @property
    def pairs(self) -> PairModel | None:
        """Return the believed model of pairs of jobs on one node; None if there is none. It changes at `believe` alone."""
        return self._state.pairs

    @property
    def given_pairs(self) -> PairModel | None:
        """Return the same as the manager's welcome states it."""
        return self._state.given_pairs

    def believe(self, pairs: PairModel | None) -> None:
        """Replace the model that `pairs` returns, before a pass; caches by `version` or `interventions` are begun anew."""
        if pairs is not self._state.believed:
            self._state.believe(pairs)

    @property
    def any_threads(self) -> bool:
        """Tell whether the view shows all jobs and all free threads: a plain job may take any of these."""
        return True

    @property
    def counts(self) -> bool:
        """Tell whether the number of free threads alone decides if a plain job fits."""
        return not self._state.machine.filled

    def open_to(self, job: JobSpec, free: Layers, at_us: int | None = None, counts: Counts | None = None) -> Layers:
        """Return the threads, out of a set that is free at ``at_us`` (None: now), on which ``job`` may be put.

        They are on nodes that it may have, with enough of the countable resources that it takes: by ``counts``, or where that is
        None, by what the running jobs leave.
        """
        free, nodes = self.open_on(job, free, at_us, counts)
        return free if nodes is None else on_nodes(free, nodes)

    def open_on(
        self, job: JobSpec, free: Layers, at_us: int | None = None, counts: Counts | None = None
    ) -> tuple[Layers, NodeSet | None]:
        """Return the same as a set of threads, and the nodes (None: any) of which those count."""
        return free, self.open_nodes(job, at_us, counts)

    def open_nodes(self, job: JobSpec, at_us: int | None = None, counts: Counts | None = None) -> NodeSet | None:
        """Return the nodes that ``job`` may have, with enough of the countable resources that it takes; None: any."""
        if not (job.eligible or job.resources or job.licences):
            return None
        nodes = self._state.machine.eligible(job)
        if not (job.resources or job.licences):
            return nodes
        return (self.counts_at(at_us) if counts is None else counts).open_to(job, nodes)

    def counts_at(self, at_us: int | None = None) -> Counts:
        """Return what is left of countable resources at an instant (None: now), by the running jobs; it must not be changed."""
        now = self._counts_now()
        if at_us is None or at_us <= self.now_us:
            return now
        self._forget_what_was_left()
        counts = self._left.get(at_us)
        if counts is None:
            counts = self._left[at_us] = now.copy()
            for name, amount in self.licences_elsewhere.items():
                counts.licences[name] += amount
            for running in self._gone_by(at_us):
                counts.count(running.job, running.runs, 1)
        return counts

    def _counts_now(self) -> Counts:
        return self._state.pool.counts

    def never(self, job: JobSpec) -> bool:
        """Tell whether ``job`` cannot be put on this machine, empty and with all nodes in service; managers refuse such jobs."""
        return False

    def holds(self, running: Running) -> bool:
        """Tell whether a started job has memory and amounts now that others may take once it ends: on disk it has none."""
        return not running.on_disk

    def claim(self, runs: tuple[Run, ...]) -> Layers:
        """Return the free threads that no other job can take once a job is on ``runs``."""
        return layers_of(runs, self.machine.depth, self.machine.nodes)

    @property
    def queue(self) -> list[JobSpec]:
        """Return the jobs that may be started, in order of (submission, id); a fresh list."""
        return list(self._state.queue.values())

    def pending(self, job_id: int) -> JobSpec | None:
        """Return a job that may be started, by id; None if it may not."""
        return self._state.queue.get(job_id)

    @property
    def whole_queue(self) -> Queue | None:
        """Return the queue itself, for operations on thousands of jobs at once; None where the view shows only some of them."""
        return self._state.queue

    @property
    def queued(self) -> int:
        """Return the number of jobs that may be started."""
        return len(self._state.queue)

    @property
    def running(self) -> Mapping[int, Running]:
        """Return the running jobs by id."""
        return self._state.running

    @property
    def all_running(self) -> Mapping[int, Running]:
        """Return the running jobs by id, those that other views show included, with times of the run's clock."""
        return self._state.running

    @property
    def nodes_by_job(self) -> Mapping[int, NodeSet]:
        """Return the nodes of each running job by id, those of jobs that other views show included."""
        return self._state.nodes_by_job()

    @property
    def arrived(self) -> Sequence[JobSpec]:
        """Return the jobs that have come in the present batch, in order of the events: submitted, released, or requeued.

        It is empty once the policy has answered the batch, and a scheduler's welcome is no arrival.
        """
        queue = self._state.queue
        return [job for job in self._state.arrived if job.id in queue] if self._state.arrived else ()

    @property
    def ended(self) -> Sequence[Ended]:
        """Return the jobs that ran and left in the present batch, in order of the events.

        It is empty once the policy has answered the batch. A scheduler is not told of jobs that left before its welcome.
        """
        ended, now_us = self._state.ended, self._state.now_us
        return (
            tuple([Ended(running, how, now_us, progress_us(running, now_us)) for running, how in ended])
            if ended
            else ()
        )

    @property
    def measured(self) -> Sequence[Running]:
        """Return the jobs whose slowdown was measured in the present batch and still holds, in order of the events."""
        jobs = self._state.running
        return [jobs[job_id] for job_id in self._state.measured_now if job_id in self._state.measured]

    @property
    def releases(self) -> Sequence[tuple[int, int]]:
        """Return (expected end, job id) of the running jobs, sorted. An end may have passed: that job may end at any moment."""
        return self._state.releases

    @property
    def free(self) -> Layers:
        """Return the free threads of the nodes in service, in slot 0."""
        return self._state.pool.free

    @property
    def free_threads(self) -> int:
        """Return the number of free threads of the nodes in service."""
        free = self._state.pool.free
        if len(free) == 1:
            return free[0].bit_count()
        if free is not self._counted:
            self._counted, self._counted_threads = free, size(free)
        return self._counted_threads

    @property
    def in_service(self) -> Layers:
        """Return all threads of the nodes in service, free or not."""
        return on_nodes(self._state.machine.exists, self._state.pool.up)

    @property
    def all_free(self) -> Layers:
        """Return the free threads of the nodes in service, including nodes with jobs."""
        return self._state.pool.free

    @property
    def version(self) -> int:
        """Return a number that grows whenever nodes or running jobs change; it is meant for caches only."""
        return self._state.version

    # What depends on free nodes must be kept by this key, never by `version` alone: another class's turn (`VirtualMachine.turn_to`)
    # opens and closes nodes without any job starting or ending.
    @property
    def key(self) -> object:
        """Return a value that changes whenever time, nodes or running jobs change: for caches."""
        return (self._state.now_us, self._state.version)

    @property
    def interventions(self) -> int:
        """Return how often the manager has started, modified or refused a job, or the belief has changed; for caches only.

        It counts from when this scheduler was made.
        """
        return self._state.interventions

    @property
    def free_memory_mb(self) -> Sequence[int]:
        """Return the free memory of each node."""
        return self._state.pool.free_memory_mb

    def node_table(self) -> NodeTable:
        """Return the running jobs on each node, their expected ends and demands, under the believed contention model."""
        return self._state.node_table()

    def empty_node_table(self) -> NodeTable:
        """Return the table of the same nodes without jobs."""
        return empty_table(self._state.model, self._state.machine)

    def neighbours(self) -> Neighbours | None:
        """Return the running jobs on each node and what they cost a job that comes; None where that follows from demand alone."""
        return self._state.neighbours()

    def note(self, job_id: int | None, key: str) -> NoteValue:
        """Return the note under ``key`` about a job, or (None) about the cluster; None if there is no note."""
        notes = self._state.notes.get(job_id)
        return None if notes is None else notes.get(key)

    def with_note(self, key: str) -> Collection[int | None]:
        """Return the jobs with a note under ``key``, in no order; this includes held jobs and jobs of other views."""
        return self._state.noted.get(key, ())

    def pending_with_note(self, key: str) -> list[JobSpec]:
        """Return the jobs that may be started and have a note under ``key``, in order of (submission, id)."""
        noted = self.with_note(key)
        if all(job_id is None or job_id in self._state.running for job_id in noted):
            return []
        return [job for job in self.queue if job.id in noted]

    def wakes(self) -> Sequence[int]:
        """Return the instants at which the manager will wake the scheduler, ascending."""
        return sorted(self._state.wakes)

    @property
    def resume_us(self) -> int:
        """Return the time without progress of a job that comes back from disk, besides that for its memory."""
        return self._state.resume_costs.resume_us

    @property
    def resume_costs(self) -> ResumeCosts:
        """Return how long jobs that are resumed make no progress."""
        return self._state.resume_costs

    @property
    def on_disk(self) -> Sequence[int]:
        """Return the running jobs that are suspended to disk, by id."""
        on_disk = self._state.on_disk
        return sorted(on_disk) if on_disk else ()

    @property
    def free_swap_mb(self) -> Sequence[int]:
        """Return the disk space of each node for the memory of further jobs."""
        return self._state.pool.free_swap_mb

    def may_resume(self, running: Running) -> bool:
        """Tell whether a decision could resume a job on disk now: its threads and memory are free."""
        if running.held:
            return False
        pool = self._state.pool_of(running.slot)
        return pool.return_refusal(running.job, running.runs, running.layers) is None

    def progress_us(self, running: Running) -> int:
        """Return a running job's time of progress since its start: neither suspended nor on its way back from disk."""
        # Another view may have another time: the plain state counts.
        return progress_us(self._state.running[running.job.id], self._state.now_us)

    def wall_us(self, at_us: int) -> int:
        """Return an instant of this view's time on the run's clock; the view of a class with time slices has its own clock."""
        return at_us

    def expected_end(self, running: Running) -> int:
        """Return the expected end of a running job; an overdue job may end at the next instant."""
        return max(running.end_us, self._state.now_us + 1)

    def times_left_us(self, jobs: Iterable[Running]) -> list[int]:
        """Return the expected time left of each of these running jobs: a microsecond of those that are overdue."""
        now_us = self._state.now_us
        return [max(running.end_us - now_us, 1) for running in jobs]

    def notes(self, key: str) -> dict[int | None, NoteValue]:
        """Return the notes under ``key`` by job (None: the cluster), held jobs and jobs of other views included, in no order.

        It does not follow later decisions: ask again once one was yielded.
        """
        notes = self._state.notes
        return {job_id: notes[job_id][key] for job_id in self._state.noted.get(key, ())}

    # `threads_back`, `shadow`, `free_steps` and `availability` must tell the same story: EASY's fast pass counts with the second,
    # conservative with the third, and everything that places a job with the last. Where all nodes are up and all jobs hold threads
    # of slot 0, `Running.threads` is the answer of the first, without a call for each job.
    def threads_back(self, running: Running) -> int:
        """Return how many threads of slot 0 become free when a running job ends: those on nodes in service."""
        pool = self._state.pool
        if running.on_disk or running.slot:
            return 0
        if pool.all_up:
            return running.threads
        return size(on_nodes(running.layers, pool.up))

    def shadow(self, threads: int) -> tuple[int, int] | None:
        """Return the first expected end after which ``threads`` threads are free, and the number of extra ones; None if there is none.

        All jobs with an expected end at that instant count. The instant is 0 where that many threads are free now.
        """
        state = self._state
        if state.returns:
            return next(((at_us, free - threads) for at_us, free in self.free_steps() if free >= threads), None)
        running = state.running
        missing = threads - size(state.pool.free)
        if missing <= 0:
            return 0, -missing
        shadow_us = state.now_us + 1  # the end of all jobs that are overdue
        in_place = state.pool.all_up and not state.away
        for expected_us, job_id in state.releases:
            if expected_us > shadow_us:
                if missing <= 0:
                    break
                shadow_us = expected_us
            missing -= running[job_id].threads if in_place else self.threads_back(running[job_id])
        return None if missing > 0 else (shadow_us, -missing)

    def free_steps(self) -> list[tuple[int, int]]:
        """Return (instant, number of free threads from then on) now and at every expected end, ascending."""
        state = self._state
        if state.returns:
            return [(at_us, size(free)) for at_us, free in self.availability()]
        soonest_us = state.now_us + 1
        free = self.free_threads
        steps = [(state.now_us, free)]
        running = state.running
        in_place = state.pool.all_up and not state.away
        for expected_us, job_id in state.releases:
            end_us = expected_us if expected_us > soonest_us else soonest_us
            free += running[job_id].threads if in_place else self.threads_back(running[job_id])
            if steps[-1][0] == end_us:
                steps[-1] = (end_us, free)
            else:
                steps.append((end_us, free))
        return steps

    # The result must not be kept over a decision. While no job starts, ends or changes, only its first step moves with the present, up
    # to the first expected end (`Availability.at`).
    def availability(self) -> Availability:
        """Return (instant, free threads from then on) now and at every expected end, ascending, by the running jobs."""
        state = self._state
        if self._availability is None or self._availability_version != state.version:
            self._availability = None
        elif self._availability_us != state.now_us:
            self._availability = self._availability.at(state.now_us)
        if self._availability is None:
            self._availability = self._build_availability()
            self._availability_version = state.version
        self._availability_us = state.now_us
        return self._availability

    def _build_availability(self) -> Availability:
        state = self._state
        nodes = state.machine.nodes
        soonest_us = state.now_us + 1
        running = state.running
        # A job of another slot leaves no threads of this one, but memory, and what else a node has once.
        ends = [
            (
                expected_us if expected_us > soonest_us else soonest_us,
                0 if job_id in state.away else running[job_id].joined,
            )
            for expected_us, job_id in state.releases
            if job_id not in state.away or not (running[job_id].on_disk or is_plain(running[job_id].job))
        ]
        if state.returns:
            ends = with_returns(ends, self.returning(), state.pool.up, state.machine)
        elif not state.pool.all_up:
            up = side_by_side(on_nodes(state.machine.exists, state.pool.up), nodes)
            ends = [(end_us, threads & up) for end_us, threads in ends]
        return Availability.of(state.now_us, side_by_side(state.pool.free, nodes), ends, state.machine)

    @property
    def returns(self) -> Mapping[int, int]:
        """Return when nodes out of service are announced to return, on the run's clock."""
        return self._state.returns

    def returning(self) -> list[tuple[int, NodeSet]]:
        """Return (instant, nodes) of what is out of service and announced to return, ascending; what is late may be next."""
        nodes: dict[int, int] = {}
        for node, announced_us in self.returns.items():
            at_us = max(announced_us, self._state.now_us + 1)
            nodes[at_us] = nodes.get(at_us, 0) | 1 << node
        return [(at_us, NodeSet(nodes[at_us])) for at_us in sorted(nodes)]

    def thread_counts(self, layers: Layers) -> Ints:
        """Return the number of threads in the set, node by node; it must not be changed."""
        return thread_counts(layers, self.machine.nodes)

    def memory_at(self, instant_us: int) -> Sequence[int]:
        """Return the free memory of each node now, or at a later instant by the running jobs; it must not be changed."""
        present = instant_us <= self.now_us
        if present and self.machine.depth == 1:
            return self.free_memory_mb
        self._forget_what_was_left()
        memory = self._memory_left.get(0 if present else instant_us)
        if memory is not None:
            return memory
        # Of the instants before, the last one that is known: those that are asked for while an earliest place is sought are near.
        since_us = max([at_us for at_us in self._memory_left if at_us < instant_us], default=0)
        # numpy reads it as it is; a list of 400 nodes takes it 12 us each time
        left = array("q", self._memory_left[since_us] if since_us else self.free_memory_mb)
        for running in () if present else self._gone_by(instant_us, since_us):
            memory_mb = running.job.memory_mb
            for first, count, _, processes in running.runs if memory_mb else ():
                for node in range(first, first + count):
                    left[node] += processes * memory_mb
        self._memory_left[0 if present else instant_us] = left
        return left

    def _gone_by(self, at_us: int, since_us: int = 0) -> Iterator[Running]:
        """Yield the jobs that `holds` and that are expected to end by a later instant, but not by ``since_us``, later too or 0."""
        jobs, releases = self.running, self.releases
        begin = bisect_right(releases, since_us, key=_instant) if since_us else 0
        # What is overdue ends in a microsecond.
        end = bisect_right(releases, at_us, key=_instant) if at_us > self.now_us else 0
        for _, job_id in releases[begin:end]:
            running = jobs[job_id]
            if self.holds(running):
                yield running

    def _forget_what_was_left(self) -> None:
        if self._left_key != self.key:
            self._left_key = self.key
            self._left.clear()
            self._memory_left.clear()
