"""The ledger: pending and running jobs, nodes, notes and wakes, and all changes of them.

Everything here is either reported by the manager (queue, running jobs, nodes, notes, wakes) or follows from that bit for bit;
`cosched_plugin.core.invariants` derives it again. `entries` checks before they change anything here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import Machine, ThreadPool, is_plain, resume_costs
from cosched_plugin.common.slots import Rotation, SlotPools
from cosched_plugin.common.threads import Layers, any_layer, bits_of, nodes_of, share_nodes, side_by_side, size
from cosched_plugin.ledger.running import Running, delay, inventory_entry, running_job, with_share
from cosched_plugin.protocol import messages as m

_new = tuple.__new__
_AT_START: Final = tuple(Running._field_defaults.values())


class Slots:
    """Quanta and rotation of time sharing (PROTOCOL.md, "Slots"). A machine without slots has none: its jobs are in slot 0."""

    __slots__ = ("quantum", "quantum_ended", "quantum_us", "rotation")

    def __init__(self, told: m.SlotState) -> None:
        self.quantum_us = told.quantum_us
        self.quantum = told.quantum  # number of the last quantum that has ended
        self.quantum_ended = False  # in the present batch
        self.rotation = Rotation(tuple(told.turns), told.left)


class Residents(Protocol):
    """Follows the running jobs that have threads of slot 0."""

    def add(self, running: Running) -> None:
        """Enter a job on its nodes."""

    def remove(self, running: Running) -> None:
        """Take a job off its nodes."""


class Ledger:
    """The jobs and nodes of a manager, as a welcome tells them and as events and actions change them."""

    __slots__ = (
        "_told",
        "arrived",
        "away",
        "capabilities",
        "ended",
        "held",
        "interventions",
        "job_nodes",
        "limits",
        "machine",
        "measured",
        "measured_now",
        "noted",
        "notes",
        "now_us",
        "on_disk",
        "pool",
        "pools",
        "queue",
        "releases",
        "residents",
        "resume_costs",
        "returns",
        "running",
        "slots",
        "version",
        "wakes",
    )

    def __init__(self, welcome: m.Welcome) -> None:
        can = self.capabilities = welcome.capabilities
        self._told = welcome
        self.machine = Machine(welcome.nodes, welcome.licences, can.layout)
        self.limits = not can.limits_grow or can.limit_grain_us > 1  # whether limits have rules of their own here
        self.now_us = welcome.now_us
        self.resume_costs = resume_costs(welcome)
        self.pool = ThreadPool(self.machine, welcome.down)  # of slot 0
        self.returns = {node: at_us for node, at_us in zip(welcome.down, welcome.returns, strict=False) if at_us}
        self.pools = SlotPools(self.pool)
        self.slots = None if welcome.slots is None else Slots(welcome.slots)
        # Jobs that may be started, in order of (submission, id).
        self.queue = Queue(pending.spec for pending in welcome.pending if not pending.held)
        self.held = {pending.spec.id: pending.spec for pending in welcome.pending if pending.held}
        self.running: dict[int, Running] = {}
        self.arrived: list[m.JobSpec] = []  # jobs that have come in the present batch
        # Jobs that ran and left in the present batch, with the outcome of each: a state, or REQUEUED.
        self.ended: list[tuple[Running, str]] = []
        self.releases: list[tuple[int, int]] = []  # (expected end, job id), sorted
        self.notes: dict[int | None, dict[str, m.NoteValue]] = {}
        self.noted: dict[str, set[int | None]] = {}  # by key: the jobs with such a note
        self.wakes: set[int] = set(welcome.wakes)
        self.measured: set[int] = set()  # running jobs with a measured slowdown
        self.measured_now: list[int] = []  # jobs that were measured in the present batch
        self.on_disk: set[int] = set()  # running jobs that are suspended to disk
        self.away: set[int] = set()  # running jobs that hold no threads of slot 0: on disk, or in another slot
        self.version = 0  # changes whenever nodes or running jobs do
        self.interventions = 0  # how often the manager started, modified or refused a job, or the belief changed
        self.residents: Residents | None = None
        self.job_nodes: dict[int, NodeSet] | None = None  # kept after the first call of `nodes_by_job`
        for running in welcome.running:
            self.seat(running_job(running, self.machine))
        self.measured |= {running.spec.id for running in welcome.running if running.measured_ppm}
        for note in welcome.notes:
            self.set_note(note.job_id, note.key, note.value)

    def inventory(self, only: Collection[int | None] | None = None) -> m.Welcome:
        """Return the welcome of a scheduler that continues from here; or ``only`` what it says of some jobs (None: of none)."""
        slots, rotation = self.slots, Rotation() if self.slots is None else self.slots.rotation
        queue: Mapping[int, m.JobSpec] = self.queue
        running, held, notes = self.running, self.held, self.notes
        if only is not None:
            running, held = _some(running, only), _some(held, only)
            queue, notes = _some(queue, only), _some(notes, only)
        pending = [*[m.PendingJob(job, True) for job in held.values()], *[m.PendingJob(job) for job in queue.values()]]
        down = tuple(bits_of(NodeSet(((1 << self.machine.nodes) - 1) & ~self.pool.up)))
        return self._told._replace(
            now_us=self.now_us,
            down=down,
            returns=tuple([self.returns.get(node, 0) for node in down]) if self.returns else (),
            running=tuple([inventory_entry(running[job_id]) for job_id in sorted(running)]),
            pending=tuple(sorted(pending, key=lambda each: (each.spec.submit_us, each.spec.id))),
            notes=tuple([m.Note(who, key, value) for who, each in notes.items() for key, value in each.items()]),
            wakes=tuple(sorted(self.wakes)),
            slots=None if slots is None else m.SlotState(slots.quantum_us, slots.quantum, *rotation),
        )

    def end_batch(self) -> None:
        """Forget what is of the present batch alone."""
        # Most of these are empty, and a call costs more than a look.
        if self.arrived:
            self.arrived.clear()
        if self.ended:
            self.ended.clear()
        if self.measured_now:
            self.measured_now.clear()
        if self.slots is not None:
            self.slots.quantum_ended = False

    # ------------------------------------------------------------ jobs
    #
    # Whatever changes a running job, or which nodes are in service, must raise `version`: views, placements and searches keep what
    # they have derived for as long as it stays the same. The queue has a number of its own, `Queue.changes`. Notes and the present
    # time are in neither: who keeps something that depends on them compares them, too.

    def description(self, job_id: int) -> m.JobSpec | None:
        """Return the description of a job that is pending, held or running."""
        running = self.running.get(job_id)
        return self.queue.get(job_id) or self.held.get(job_id) if running is None else running.job

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

    def requeue(self, job_id: int) -> None:
        """Take a running job off its nodes; it is pending again."""
        job = self.leave(job_id)
        self.arrived.append(job)
        self.queue.enter(job)

    def start(self, start: tuple[Any, ...], layers: Layers) -> None:
        """Start a queued job by a `StartJob`; ``layers`` are its threads in the pool."""
        job_id, runs, estimate_us, limit_us, slot = start
        job = self.queue.take(job_id)
        assert job is not None
        now_us = self.now_us
        joined = side_by_side(layers, self.machine.nodes)
        end_us = now_us + estimate_us
        if type(runs) is not tuple or type(runs[0]) is not m.Run:  # a policy may have left plain tuples
            runs = tuple(map(m.Run._make, runs))
        fields = (job, now_us, end_us, runs, layers, joined, size(layers), limit_us)
        running: Running = _new(Running, fields + _AT_START)  # a call of the class takes twice as long
        self.seat(running._replace(slot=slot) if slot else running)

    # Every job that begins to run comes through here, those of the welcome included, and leaves through `leave`. What one of the two
    # enters into a cache the other takes out; `invariants` derives each of these caches again.
    def seat(self, running: Running) -> None:
        """Let a job run that was told, or is started now."""
        self.version += 1
        job = running.job
        job_id = job.id
        self.running[job_id] = running
        insort(self.releases, (running.end_us, job_id))
        if self.job_nodes is not None:
            self.job_nodes[job_id] = nodes_of(running.runs)
        if running.on_disk or running.slot:
            self._take(running)
        else:
            self.pool.take(job, running.runs, running.layers)
            if self.residents is not None:
                self.residents.add(running)
        if self.measured:
            self._disturb(running)

    def leave(self, job_id: int) -> m.JobSpec:
        """Take a running job off its nodes and return it."""
        self.version += 1
        running = self.running.pop(job_id)
        job = running.job
        del self.releases[bisect_left(self.releases, (running.end_us, job_id))]
        if self.job_nodes is not None:
            del self.job_nodes[job_id]
        if self.away and job_id in self.away:
            self._release(running)
        else:
            self.pool.give_back(job, running.runs, running.layers)
            if self.residents is not None:
                self.residents.remove(running)
        if self.measured:
            self.measured.discard(job_id)
            if not running.on_disk:
                self._disturb(running)
        return job

    # What a job holds goes through these two, wherever it is: on its threads, or on disk. (Above, those of slot 0 alone: most jobs.)

    def _take(self, running: Running) -> None:
        """Give a job what it holds."""
        if running.on_disk:
            self.on_disk.add(running.job.id)
            self.pool.put_on_disk(running.job, running.runs)
        else:
            self.pool_of(running.slot).take(running.job, running.runs, running.layers)
        if running.on_disk or running.slot:
            self.away.add(running.job.id)

    def _release(self, running: Running) -> None:
        """Take back what a job holds."""
        self.away.discard(running.job.id)
        if running.on_disk:
            self.on_disk.discard(running.job.id)
            self.pool.drop_from_disk(running.job, running.runs)
        else:
            self.pool_of(running.slot).give_back(running.job, running.runs, running.layers)
            if running.slot:
                self.pools.drop(running.slot)

    def pool_of(self, slot: int) -> ThreadPool:
        """Return the pool of a slot."""
        return self.pools.pool(slot) if slot else self.pool

    def revise(self, revision: m.ReviseJob | m.JobRevised) -> None:
        """Set a new expected run time and limit of a running job."""
        running = self.running[revision.job_id]
        end_us = running.start_us + revision.estimate_us
        self._replace(running, running._replace(end_us=end_us, limit_us=revision.limit_us))

    def redescribe(self, job: m.JobSpec) -> None:
        """Replace the description of a running job, with the memory that it holds by it."""
        running = self.running[job.id]
        self._replace(running, running._replace(job=job))

    def suspend(self, job_id: int, at_us: int, *, to_disk: bool = False, held: bool = False) -> None:
        """Suspend a running job on its nodes, or to disk; ``held``: the manager did, and it alone resumes it."""
        running = self.running[job_id]
        self._replace(running, running._replace(suspended_us=at_us, on_disk=to_disk, held=held))
        self._disturb(running)

    def resume(self, job_id: int, at_us: int) -> None:
        """Resume a suspended job; its limit and its expected end move by the time of suspension."""
        running = self.running[job_id]
        assert running.suspended_us is not None
        # If it was suspended on its way back, its times have moved up to `ready_us` already.
        since_us = max(running.suspended_us, running.ready_us)
        ready_us = self.resume_costs.ready_us(
            running.job, running.runs, running.ready_us, at_us, on_disk=running.on_disk
        )
        resumed = delay(running, max(at_us, ready_us) - since_us)
        self._replace(running, resumed._replace(suspended_us=None, on_disk=False, ready_us=ready_us, held=False))
        self._disturb(running)

    def let_leave(self, job_id: int) -> None:
        """Mark a running job that the manager is asked to kill or to requeue; it holds its nodes until that is done."""
        self.version += 1
        self.running[job_id] = self.running[job_id]._replace(leaving=True)

    def change_slot(self, job_id: int, slot: int) -> None:
        """Put a running job into another slot."""
        running = self.running[job_id]
        self._replace(running, running._replace(slot=slot))
        self._disturb(running)

    def end_quantum(self, event: m.QuantumEnded) -> None:
        """Move the rotation on, and keep what jobs consumed; shares of jobs that have left since have no effect."""
        slots = self.slots
        assert slots is not None
        self.version += 1
        slots.quantum = event.quantum
        slots.quantum_ended = True
        slots.rotation = slots.rotation.ended(event.slot, event.left)
        for job_id, share_ppm in event.shares:
            running = self.running.get(job_id)
            if running is not None:
                self.running[job_id] = with_share(running, share_ppm)

    # Must be followed by `recount`, once all later events were applied. In between, free resources are not those of the running jobs:
    # a job that came back may hold a thread on which the manager has started another one.
    def restore(self, job_id: int, values: Mapping[str, Any]) -> None:
        """Give fields of a running job the values from before a change that the manager has refused; a measurement stays lost."""
        now = self.running.get(job_id)
        if now is None:
            return
        restored = now._replace(**{**values, "measured_ppm": now.measured_ppm})
        self._replace(now, restored)
        if restored.suspended_us != now.suspended_us or restored.slot != now.slot:
            self._disturb(now)

    def recount(self) -> None:
        """Derive the free resources again from those that the running jobs hold."""
        self.pools.clear()
        for running in self.running.values():
            self._take(running)

    # Must be called after any change of a running job that may have changed its expected end, or what it holds: `releases`, the pools
    # and the residents of nodes follow from these. A share or a measured slowdown changes neither.
    def _replace(self, before: Running, after: Running) -> None:
        """Replace a running job by the same one with other values."""
        self.version += 1
        job_id = before.job.id
        del self.releases[bisect_left(self.releases, (before.end_us, job_id))]
        insort(self.releases, (after.end_us, job_id))
        self.running[job_id] = after
        if before.on_disk != after.on_disk or before.slot != after.slot or before.job is not after.job:
            self._release(before)
            self._take(after)
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

    # Must be called after anything that may have changed who makes progress beside whom: a slowdown was measured among the neighbours
    # of its time.
    def _disturb(self, cause: Running) -> None:
        """Delete the measured slowdowns of a job that starts, ends, is suspended or resumes, and of all jobs on its nodes."""
        if not self.measured:
            return
        for job_id in [job_id for job_id in self.measured if share_nodes(self.running[job_id].layers, cause.layers)]:
            self.measured.discard(job_id)
            self.running[job_id] = self.running[job_id]._replace(measured_ppm=0)

    # ------------------------------------------------------------ nodes and notes

    def fail_node(self, node: int, until_us: int = 0) -> None:
        """Take a node out of service, for as long as is announced; 0: nobody knows."""
        self.version += 1
        self.returns.pop(node, None)
        self.returns |= {node: until_us} if until_us else {}
        self.pools.fail_node(node)

    def return_node(self, node: int) -> None:
        """Put a node back into service, less what jobs still hold there."""
        self.version += 1
        self.returns.pop(node, None)
        holders: dict[int, list[Layers]] = {}  # by slot
        for running in self.running.values():
            if not running.on_disk:
                holders.setdefault(running.slot, []).append(running.layers)
        self.pools.return_node(node, holders)

    def set_note(self, job_id: int | None, key: str, value: m.NoteValue) -> None:
        """Keep a note, or drop it where ``value`` is None."""
        if value is not None:
            self.notes.setdefault(job_id, {})[key] = value
            self.noted.setdefault(key, set()).add(job_id)
        elif job_id in self.notes:
            self.notes[job_id].pop(key, None)
            self.noted.get(key, set()).discard(job_id)
            if not self.notes[job_id]:
                del self.notes[job_id]

    def nodes_by_job(self) -> Mapping[int, NodeSet]:
        """Return the nodes of each running job, on disk or not; kept up to date from the first call on.

        A job keeps its threads for as long as it runs, so only starts and ends change this.
        """
        if self.job_nodes is None:
            self.job_nodes = {job_id: any_layer(running.layers) for job_id, running in self.running.items()}
        return self.job_nodes


# Pending jobs, with cheap arrivals and departures.
#
# A long queue also has its numbers in arrays, to find the jobs that might fit among thousands. These are made on first use and
# updated from then on; once half of the places belong to jobs that have left, they are made again.

_GONE: Final = np.iinfo(np.int64).max  # processes of a job that has left: they fit nowhere
_LONG: Final = 96  # number of jobs from which on arrays are faster than a loop
_LEAST: Final = 64  # places of new arrays

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _some(found: Mapping[_Key, _Value], keys: Collection[Any]) -> dict[_Key, _Value]:
    return {key: found[key] for key in keys if key in found}


class Queue(dict[int, m.JobSpec]):
    """Pending jobs by id, in order; only `enter`, `replace` and `take` may change it."""

    __slots__ = ("_columns", "_end", "changes", "choosy", "counted", "entered", "particular")

    def __init__(self, jobs: Iterable[m.JobSpec] = ()) -> None:
        super().__init__({job.id: job for job in sorted(jobs, key=_place)})
        self.changes = 0  # grows with every change except an arrival at the end; for caches
        self.entered = len(self)  # how often a job has come, or was described anew
        self.particular = sum([not is_plain(job) for job in self.values()])  # jobs with constraints on their nodes
        self.choosy = sum([bool(job.eligible) for job in self.values()])  # jobs that may have some nodes only
        self.counted = sum([bool(job.resources or job.licences) for job in self.values()])  # with countable resources
        self._end = max(map(_place, self.values()), default=(0, 0))  # place of the last job that was ever at the end
        self._columns: _Columns | None = None

    def enter(self, job: m.JobSpec) -> None:
        """Enter a job, at the place of its submission; ValueError if it is there already."""
        job_id = job.id
        if job_id in self:
            raise ValueError(f"job {job_id} waits already")
        place = (job.submit_us, job_id)
        self[job_id] = job
        self.entered += 1
        if not is_plain(job):
            self._tally(job, 1)
        if place >= self._end:
            self._end = place
            if self._columns is not None and not self._columns.append(job):
                self._columns = None
            return
        # It was held, or comes back.
        self.changes += 1
        self._columns = None
        self._arrange()

    def _tally(self, job: m.JobSpec, number: int) -> None:
        """Count a job with constraints on its nodes."""
        self.particular += number
        if job.eligible:
            self.choosy += number
        if job.resources or job.licences:
            self.counted += number

    def _arrange(self) -> None:
        jobs = sorted(self.values(), key=_place)
        self.clear()
        self.update({job.id: job for job in jobs})

    def replace(self, job: m.JobSpec) -> None:
        """Replace a pending job by its new description; KeyError if it is not there."""
        before = self[job.id]
        if not is_plain(before):
            self._tally(before, -1)
        if not is_plain(job):
            self._tally(job, 1)
        self[job.id] = job
        self._end = max(self._end, _place(job))
        self.changes += 1
        self.entered += 1
        self._columns = None
        if _place(before) != _place(job):
            self._arrange()

    def take(self, job_id: int) -> m.JobSpec | None:
        """Remove a job and return it; None if it is not there."""
        job = self.pop(job_id, None)
        if job is not None:
            self.changes += 1
            if self.particular and not is_plain(job):
                self._tally(job, -1)
            if self._columns is not None and not self._columns.clear(job_id):
                self._columns = None
        return job

    def first(self) -> m.JobSpec:
        """Return the first job; StopIteration if there is none."""
        return next(iter(self.values()))

    def fitting(self, threads: int, longest_us: int, extra: int) -> list[m.JobSpec]:
        """Return, in order, the jobs of at most ``threads`` processes that are short, or of at most ``extra`` processes.

        Short is an estimate up to ``longest_us``.
        """
        if len(self) < _LONG:
            return short_or_narrow(self.values(), threads, longest_us, extra)
        columns = self._columns
        if columns is None:
            columns = self._columns = _Columns(list(self.values()))
        return columns.fitting(threads, longest_us, extra)

    def check(self) -> None:
        """Raise AssertionError where the order or the arrays are wrong."""
        places = [_place(job) for job in self.values()]
        assert places == sorted(places), "the queue is not in order of submission"
        assert not places or self._end >= places[-1], "the queue has forgotten its end"
        assert self.particular == sum([not is_plain(job) for job in self.values()]), "jobs that care where they run"
        assert self.choosy == sum([bool(job.eligible) for job in self.values()]), "jobs that may have some nodes only"
        assert self.counted == sum([bool(job.resources or job.licences) for job in self.values()]), (
            "countable resources"
        )
        if self._columns is not None:
            assert self._columns.fitting(_GONE - 1, 0, _GONE) == list(self.values()), (
                "the arrays of the queue differ from it"
            )


class _Columns:
    """Sizes and estimates of jobs in order of arrival, with holes."""

    __slots__ = ("_end", "_estimates_us", "_jobs", "_left", "_places", "_processes")

    def __init__(self, jobs: list[m.JobSpec]) -> None:
        room = max(_LEAST, 2 * len(jobs))
        self._processes: NDArray[np.int64] = np.full(room, _GONE, np.int64)
        self._estimates_us: NDArray[np.int64] = np.zeros(room, np.int64)
        self._processes[: len(jobs)] = [job.processes for job in jobs]
        self._estimates_us[: len(jobs)] = [job.estimate_us for job in jobs]
        self._jobs: list[m.JobSpec | None] = list(jobs)
        self._places = {job.id: place for place, job in enumerate(jobs)}
        self._end = len(jobs)

    def append(self, job: m.JobSpec) -> bool:
        """Enter a job behind all others; return whether there was room for it."""
        if self._end == len(self._processes):
            return False
        self._processes[self._end] = job.processes
        self._estimates_us[self._end] = job.estimate_us
        self._jobs.append(job)
        self._places[job.id] = self._end
        self._end += 1
        return True

    def clear(self, job_id: int) -> bool:
        """Replace a job by a hole; return whether there are fewer holes than jobs, or few."""
        place = self._places.pop(job_id)
        self._jobs[place] = None
        self._processes[place] = _GONE
        return self._end <= 2 * len(self._places) + _LEAST

    def fitting(self, threads: int, longest_us: int, extra: int) -> list[m.JobSpec]:
        """Return the result of `Queue.fitting`."""
        processes = self._processes[: self._end]
        fits = processes <= threads
        if extra < threads:
            fits &= (self._estimates_us[: self._end] <= longest_us) | (processes <= extra)
        jobs = self._jobs
        return [job for place in fits.nonzero()[0].tolist() if (job := jobs[place]) is not None]


def short_or_narrow(jobs: Iterable[m.JobSpec], free: int, longest_us: int, extra: int) -> list[m.JobSpec]:
    """Return the jobs that fit and end by the shadow time, or leave the head enough threads: EASY's rule."""
    return [job for job in jobs if job.processes <= free and (job.estimate_us <= longest_us or job.processes <= extra)]


def _place(job: m.JobSpec) -> tuple[int, int]:
    return job.submit_us, job.id
