"""A scheduler's knowledge: the manager's facts, and caches that follow from them.

Everything here is either reported by the manager (queue, running jobs, nodes, notes, wakes) or derivable from that bit for bit;
`invariants.check_invariants` re-derives it. Only `engine` changes a `State`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import Any, Final

from cosched_hwmodel.bandwidth.bandwidth_matrix import NodeTable
from cosched_hwmodel.models.by_name import BUILT_IN, PairFactory
from cosched_hwmodel.pairs import PairModel
from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import (
    Layers,
    Machine,
    ThreadPool,
    resume_costs,
    share_nodes,
)
from cosched_plugin.common.slots import NO_SLOTS
from cosched_plugin.core.contention import (
    KnownJobs,
    Neighbours,
    Residents,
    believed_contention,
    believed_model,
    believed_pairs,
)
from cosched_plugin.core.first_fit import any_layer
from cosched_plugin.core.queue import Queue
from cosched_plugin.core.running import Running, delay, running_job, side_by_side
from cosched_plugin.core.slots import Slots, with_share
from cosched_plugin.core.work import Work
from cosched_plugin.protocol.messages import (
    JobRevised,
    JobSpec,
    NoteValue,
    QuantumEnded,
    ReviseJob,
    Run,
    Welcome,
)

_new = tuple.__new__
_AT_START: Final = tuple(Running._field_defaults.values())


class State:
    """The mutable state behind one scheduler core."""

    __slots__ = (
        "arrived",
        "away",
        "belief",
        "believed",
        "capabilities",
        "ended",
        "features",
        "given_pairs",
        "held",
        "interventions",
        "job_nodes",
        "limits",
        "machine",
        "measured",
        "measured_now",
        "model",
        "noted",
        "notes",
        "now_us",
        "on_disk",
        "pairs",
        "pool",
        "queue",
        "releases",
        "residents",
        "resume_costs",
        "running",
        "slots",
        "version",
        "wakes",
        "work",
    )

    def __init__(self, welcome: Welcome, models: Mapping[str, PairFactory] = BUILT_IN) -> None:
        """``models`` are the contention models that the manager's site may believe in, by name."""
        self.machine = Machine(welcome.nodes, welcome.licences, welcome.capabilities.layout)
        self.capabilities = welcome.capabilities
        self.features = frozenset(welcome.features)
        can = welcome.capabilities
        self.limits = not can.limits_grow or can.limit_grain_us > 1  # whether limits have rules of their own here
        self.belief = welcome.belief
        self.model = believed_model(welcome.belief)
        self.given_pairs = believed_pairs(welcome.belief, models, welcome.nodes)
        self.now_us = welcome.now_us
        self.resume_costs = resume_costs(welcome)
        self.pool = ThreadPool(self.machine, welcome.down)  # of slot 0
        self.slots = None if welcome.slots is None else Slots(welcome.slots, self.pool)
        # Jobs that may be started, in order of (submission, id).
        self.queue = Queue(pending.spec for pending in welcome.pending if not pending.held)
        self.held = {pending.spec.id: pending.spec for pending in welcome.pending if pending.held}
        self.running: dict[int, Running] = {}
        self.arrived: list[JobSpec] = []  # jobs that have come in the present batch
        # Jobs that ran and left in the present batch, with the outcome of each: a state, or REQUEUED.
        self.ended: list[tuple[Running, str]] = []
        self.releases: list[tuple[int, int]] = []  # (expected end, job id), sorted
        self.notes: dict[int | None, dict[str, NoteValue]] = {}
        self.noted: dict[str, set[int | None]] = {}  # by key: the jobs with such a note
        self.wakes: set[int] = set(welcome.wakes)
        self.measured: set[int] = set()  # running jobs with a measured slowdown
        self.measured_now: list[int] = []  # jobs that were measured in the present batch
        self.on_disk: set[int] = set()  # running jobs that are suspended to disk
        self.away: set[int] = set()  # running jobs that hold no threads of slot 0: on disk, or in another slot
        self.work = Work()
        self.version = 0  # changes whenever nodes or running jobs do
        self.interventions = 0  # how often the manager has started or modified a job itself, or the belief has changed
        self.residents: Residents | None = None  # kept after the first call of `node_table`
        self.job_nodes: dict[int, NodeSet] | None = None  # kept after the first call of `nodes_by_job`
        # Where the believed penalties of a node's jobs do not follow from summed demand.
        self.pairs = self.given_pairs
        self.believed = self._believed()
        for running in welcome.running:
            self.seat(running_job(running, self.machine))
        for running in welcome.running:
            if running.measured_ppm:
                self.measure(running.spec.id, running.measured_ppm)
        self.measured_now.clear()  # in batches of another scheduler
        for note in welcome.notes:
            self.set_note(note.job_id, note.key, note.value)

    # ------------------------------------------------------------ jobs
    #
    # Whatever changes a running job, or which nodes are in service, must raise `version`: views, placements and searches keep what
    # they have derived for as long as it stays the same. The queue has a number of its own, `Queue.changes`. Notes and the present
    # time are in neither: who keeps something that depends on them compares them, too.

    # Any tuple: compiled, the types of a `StartJob` would be checked before plain tuples in it become runs.
    def start(self, start: tuple[Any, ...], layers: Layers) -> None:
        """Start a queued job by a `StartJob`; ``layers`` are its threads in the pool."""
        job_id, runs, estimate_us, limit_us, slot = start
        job = self.queue.take(job_id)
        assert job is not None
        now_us = self.now_us
        joined = side_by_side(layers, self.machine.nodes)
        end_us = now_us + estimate_us
        if type(runs) is not tuple or type(runs[0]) is not Run:  # a policy may have left plain tuples
            runs = tuple(map(Run._make, runs))
        fields = (job, now_us, end_us, runs, layers, joined, joined.bit_count(), limit_us)
        running: Running = _new(Running, fields + _AT_START)  # a call of the class takes twice as long
        self.seat(running._replace(slot=slot) if slot else running)

    def leave(self, job_id: int) -> JobSpec:
        """Take a running job off its nodes and return it."""
        self.version += 1
        running = self.running.pop(job_id)
        job = running.job
        del self.releases[bisect_left(self.releases, (running.end_us, job_id))]
        if self.job_nodes is not None:
            del self.job_nodes[job_id]
        if self.away and job_id in self.away:
            self._leave_away(running)
            return job
        self.pool.give_back(job, running.runs, running.layers)
        if self.measured:
            self.measured.discard(job_id)
            self._disturb(running)
        if self.residents is not None:
            self.residents.remove(running)
        return job

    def _leave_away(self, running: Running) -> None:
        """Release what a job holds that has no threads of slot 0."""
        job_id = running.job.id
        self.away.discard(job_id)
        self.measured.discard(job_id)
        if running.on_disk:
            self.on_disk.discard(job_id)
            self.pool.drop_from_disk(running.job, running.runs)
            return
        self._release(running)
        self._disturb(running)

    def pool_of(self, slot: int) -> ThreadPool:
        """Return the pool of a slot."""
        if not slot:
            return self.pool
        assert self.slots is not None
        return self.slots.pools.pool(slot)

    def _release(self, running: Running) -> None:
        """Take a job's threads and memory back, in its slot."""
        self.pool_of(running.slot).give_back(running.job, running.runs, running.layers)
        if self.slots is not None:
            self.slots.pools.drop(running.slot)

    def revise(self, revision: ReviseJob | JobRevised) -> None:
        """Set a new expected run time and limit of a running job."""
        self.version += 1
        running = self.running[revision.job_id]
        revised = running._replace(end_us=running.start_us + revision.estimate_us, limit_us=revision.limit_us)
        self._replace(running, revised)

    def redescribe(self, job: JobSpec) -> None:
        """Replace the description of a running job, with the memory that it holds by it."""
        self.version += 1
        running = self.running[job.id]
        before = running.job
        pool = self.pool_of(running.slot)
        if running.on_disk:
            pool.drop_from_disk(before, running.runs)
            pool.put_on_disk(job, running.runs)
        else:
            pool.give_back(before, running.runs, running.layers)
            pool.take(job, running.runs, running.layers)
        self._replace(running, running._replace(job=job))

    def suspend(self, job_id: int, at_us: int, *, to_disk: bool = False, held: bool = False) -> None:
        """Suspend a running job on its nodes, or to disk; ``held``: the manager did, and it alone resumes it."""
        self.version += 1
        running = self.running[job_id]
        suspended = running._replace(suspended_us=at_us, on_disk=to_disk, held=held)
        self._replace(running, suspended)
        self._disturb(suspended)
        if to_disk:
            self.on_disk.add(job_id)
            self._release(running)
            self.pool.put_on_disk(running.job, running.runs)

    def resume(self, job_id: int, at_us: int) -> None:
        """Resume a suspended job; its limit and its expected end move by the time of suspension."""
        self.version += 1
        running = self.running[job_id]
        assert running.suspended_us is not None
        # If it was suspended on its way back, its times have moved up to `ready_us` already.
        since_us = max(running.suspended_us, running.ready_us)
        ready_us = self.resume_costs.ready_us(
            running.job, running.runs, running.ready_us, at_us, on_disk=running.on_disk
        )
        resumed = delay(running, max(at_us, ready_us) - since_us)
        resumed = resumed._replace(suspended_us=None, on_disk=False, ready_us=ready_us, held=False)
        self._replace(running, resumed)
        if running.on_disk:
            self.on_disk.discard(job_id)
            self.pool_of(running.slot).from_disk(running.job, running.runs, running.layers)
        self._disturb(resumed)

    def let_leave(self, job_id: int) -> None:
        """Mark a running job that the manager is asked to kill or to requeue; it holds its nodes until that is done."""
        self.version += 1
        self.running[job_id] = self.running[job_id]._replace(leaving=True)

    def change_slot(self, job_id: int, slot: int) -> None:
        """Put a running job into another slot."""
        self.version += 1
        running = self.running[job_id]
        changed = running._replace(slot=slot)
        if not running.on_disk:
            self._release(running)
            self.pool_of(slot).take(running.job, running.runs, running.layers)
        self._replace(running, changed)
        self._disturb(running)

    def end_quantum(self, event: QuantumEnded) -> None:
        """Move the rotation on, and keep what jobs consumed; shares of jobs that have left since have no effect."""
        slots = self.slots
        if slots is None:
            raise ValueError(f"a quantum ended: {NO_SLOTS}")
        self.version += 1
        slots.end_quantum(event)
        for job_id, share_ppm in event.shares:
            running = self.running.get(job_id)
            if running is not None:
                self.running[job_id] = with_share(running, share_ppm)

    def restore(self, job_id: int, values: Mapping[str, Any]) -> None:
        """Give fields of a running job the values from before a change that the manager has refused.

        What jobs hold is derived again by `recount`.
        """
        now = self.running.get(job_id)
        if now is None:
            return
        self.version += 1
        restored = now._replace(**values)
        if restored.on_disk:
            self.on_disk.add(job_id)
        else:
            self.on_disk.discard(job_id)
        self._replace(now, restored)
        self._disturb(restored)

    # Must be called after refusals were undone and all later events were applied. In between, free resources are not those of the
    # running jobs: a job that came back may hold a thread on which the manager has started another one.
    def recount(self) -> None:
        """Derive the free resources again from those that the running jobs hold."""
        if self.slots is not None:
            self.slots.pools.clear()
        else:
            self.pool.clear()
        for running in self.running.values():
            if running.on_disk:
                self.pool.put_on_disk(running.job, running.runs)
            else:
                self.pool_of(running.slot).take(running.job, running.runs, running.layers)

    # Must be called after any change of a running job that may have changed its expected end or where its threads are: `releases`,
    # `away` and the residents of nodes follow from these two. A share or a measured slowdown changes neither.
    def _replace(self, before: Running, after: Running) -> None:
        """Replace a running job by the same one with other values."""
        del self.releases[bisect_left(self.releases, (before.end_us, before.job.id))]
        insort(self.releases, (after.end_us, after.job.id))
        self.running[before.job.id] = after
        if after.on_disk or after.slot:
            self.away.add(before.job.id)
        else:
            self.away.discard(before.job.id)
        if self.residents is not None:
            if not (before.on_disk or before.slot):
                self.residents.remove(before)
            if not (after.on_disk or after.slot):
                self.residents.add(after)

    def measure(self, job_id: int, slowdown_ppm: int) -> None:
        """Set the measured slowdown of a running job; it holds until its neighbours change."""
        self.version += 1
        self.measured.add(job_id)
        self.measured_now.append(job_id)
        self.running[job_id] = self.running[job_id]._replace(measured_ppm=slowdown_ppm)

    def believe(self, pairs: PairModel | None) -> None:
        """Replace the model of pairs that policies ask; whatever they have kept by the model before is out of date."""
        self.pairs = pairs
        self.interventions += 1
        self.forget_penalties()

    def forget_penalties(self) -> None:
        """Begin anew what is kept of the believed penalties of jobs by id: a model may read a job's name, or its user."""
        self.version += 1
        self.believed = self._believed()

    def _believed(self) -> Neighbours | None:
        contention = believed_contention(self.pairs, KnownJobs(self.queue, self.running))
        return None if contention is None else Neighbours(contention, self.machine)

    # Must be called after anything that may have changed who makes progress beside whom: a slowdown was measured among the neighbours
    # of its time.
    def _disturb(self, cause: Running) -> None:
        """Delete the measured slowdowns of a job that starts, ends, is suspended or resumes, and of all jobs on its nodes."""
        if not self.measured:
            return
        for job_id in [job_id for job_id in self.measured if share_nodes(self.running[job_id].layers, cause.layers)]:
            self.measured.discard(job_id)
            self.running[job_id] = self.running[job_id]._replace(measured_ppm=0)

    def has(self, job_id: int) -> bool:
        """Tell whether a job is pending, held or running."""
        return job_id in self.queue or job_id in self.running or job_id in self.held

    def forget(self, job_id: int, how: str) -> None:
        """Remove a job for good, wherever it is, with its notes; an unknown id is ignored. ``how`` is its final state."""
        running = self.running.get(job_id)
        if running is not None:
            self.ended.append((running, how))
            self.leave(job_id)
        elif self.queue.take(job_id) is None:
            self.held.pop(job_id, None)
        if self.notes:
            for key in self.notes.pop(job_id, ()):
                self.noted[key].discard(job_id)

    # Every job that begins to run comes through here, those of the welcome included, and leaves through `leave`. What one of the two
    # enters into a cache the other takes out; `invariants` derives each of these caches again.
    def seat(self, running: Running) -> None:
        """Let a job run that was told, or is started now."""
        self.version += 1
        job, layers = running.job, running.layers
        job_id = job.id
        self.running[job_id] = running
        insort(self.releases, (running.end_us, job_id))
        if self.job_nodes is not None:
            self.job_nodes[job_id] = any_layer(layers)
        if running.on_disk or running.slot:
            self._seat_away(running)
            return
        self.pool.take(job, running.runs, layers)
        if self.measured:
            self._disturb(running)
        if self.residents is not None:
            self.residents.add(running)

    def _seat_away(self, running: Running) -> None:
        """Seat a job that holds no threads of slot 0."""
        job = running.job
        self.away.add(job.id)
        if running.on_disk:
            self.on_disk.add(job.id)
            self.pool.put_on_disk(job, running.runs)
        else:
            self.pool_of(running.slot).take(job, running.runs, running.layers)
            self._disturb(running)

    # ------------------------------------------------------------ nodes and notes

    def fail_node(self, node: int) -> None:
        """Take a node out of service."""
        self.version += 1
        if self.slots is None:
            self.pool.fail_node(node)
        else:
            self.slots.pools.fail_node(node)

    def return_node(self, node: int) -> None:
        """Put a node back into service, less what jobs still hold there."""
        self.version += 1
        if self.slots is None:
            self.pool.return_node(node, [running.layers for running in self.running.values() if not running.on_disk])
            return
        holders: dict[int, list[Layers]] = {}
        for running in self.running.values():
            if not running.on_disk:
                holders.setdefault(running.slot, []).append(running.layers)
        self.slots.pools.return_node(node, holders)

    def set_note(self, job_id: int | None, key: str, value: NoteValue) -> None:
        """Keep a note, or drop it where ``value`` is None."""
        if value is not None:
            self.notes.setdefault(job_id, {})[key] = value
            self.noted.setdefault(key, set()).add(job_id)
        elif job_id in self.notes:
            self.notes[job_id].pop(key, None)
            self.noted.get(key, set()).discard(job_id)
            if not self.notes[job_id]:
                del self.notes[job_id]

    # ------------------------------------------------------------ caches
    #
    # Each is made, or brought up to date, when a policy asks for it: most policies never pay for any.

    def node_table(self) -> NodeTable:
        """Return the running jobs on each node and their demands; kept up to date from the first call on."""
        if self.residents is None:
            self.residents = Residents(self.model, self.machine, self.running.values())
        return self.residents.table()

    def nodes_by_job(self) -> Mapping[int, NodeSet]:
        """Return the nodes of each running job, on disk or not; kept up to date from the first call on.

        A job keeps its threads for as long as it runs, so only starts and ends change this.
        """
        if self.job_nodes is None:
            self.job_nodes = {job_id: any_layer(running.layers) for job_id, running in self.running.items()}
        return self.job_nodes

    def neighbours(self) -> Neighbours | None:
        """Return the running jobs on each node, as the believed model of a node's jobs sees them; None where demand alone counts."""
        if self.believed is not None:
            self.believed.renew(self.version, self.running.values())
        return self.believed


# The changes of running jobs in the last reply, for taking back those that the manager refuses.


class Changes:
    """What the actions of a reply have changed in running jobs, by number of the action."""

    __slots__ = ("_changes", "_old")

    def __init__(self) -> None:
        self._changes: dict[int, tuple[Running, Running]] = {}  # before and after
        # The same after a refusal: the job, and the values that hold if this action is refused, too.
        self._old: dict[int, tuple[int, dict[str, Any]]] = {}

    def add(self, number: int, before: Running, after: Running) -> None:
        """Add the change by action ``number``, which is higher than those before."""
        self._changes[number] = (before, after)

    def take_back(self, number: int, state: State) -> None:
        """Undo what action ``number`` has changed, if anything; what later actions have set stays."""
        if not self._old:
            self._old = {which: _changed(*change) for which, change in self._changes.items()}
        job_id, values = self._old.pop(number, (0, {}))
        for later, (other, its) in self._old.items():
            if later > number and other == job_id:
                for name in its.keys() & values.keys():
                    its[name] = values.pop(name)
        if values:
            state.restore(job_id, values)


def _changed(before: Running, after: Running) -> tuple[int, dict[str, Any]]:
    """Return a job's number, and the fields that have changed, with the values from before."""
    pairs = zip(Running._fields, before, after, strict=True)
    return before.job.id, {name: old for name, old, new in pairs if old != new}
