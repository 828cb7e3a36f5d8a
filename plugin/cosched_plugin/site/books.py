"""A manager's books: its jobs, nodes, notes and wakes, and what events and actions change in them.

The rules are those of PROTOCOL.md; whether a job can have its threads, the pools of `cosched_plugin.common` say, as they do for the
scheduler. The books of an adapter hold what its scheduler was told and has decided (`cosched_plugin.site.driver`); the conformance
check adds run times and slots (`cosched_plugin.testing.site`). The same rules once more, with nothing kept and threads as pairs of
numbers, are `tests/reference/literal_books.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar, assert_never

from cosched_plugin.common.allocation import (
    Layers,
    Machine,
    ThreadPool,
    busy_refusal,
    each_node,
    layers_of,
    limit_granted,
    resume_costs,
    times_refusal,
)
from cosched_plugin.common.slots import SlotPools
from cosched_plugin.protocol.messages import (
    CANCELLED,
    Action,
    ActionRefused,
    ChangeSlot,
    Event,
    JobEnded,
    JobHeld,
    JobModified,
    JobReleased,
    JobRequeued,
    JobResumed,
    JobRevised,
    JobSpec,
    JobStarted,
    JobSubmitted,
    JobSuspended,
    KillJob,
    NodeFailed,
    NodeReturned,
    Note,
    NoteValue,
    PendingJob,
    ProgressMeasured,
    QuantumEnded,
    RejectJob,
    RequeueJob,
    ResumeJob,
    ReviseJob,
    Run,
    RunningJob,
    SetNote,
    SetRotation,
    StartJob,
    StartTogether,
    SubmitJob,
    SuspendJob,
    UnknownAction,
    WakeAt,
    Welcome,
    Woken,
)
from cosched_plugin.site.snapshots import PENDING, RUNNING, SUSPENDED, PolledJob, Snapshot

AnyJob = TypeVar("AnyJob", bound="Job")

# What a job and its entry in a welcome call alike.
_SAME: Final = tuple(name for name in RunningJob._fields if name not in ("spec", "start_us", "runs", "held"))


class Job:
    """The manager's state of a job."""

    __slots__ = (
        "estimate_us",
        "held",
        "idle_us",
        "kept",
        "leaving",
        "limit_us",
        "measured_ppm",
        "on_disk",
        "quanta",
        "ready_us",
        "restarts",
        "runs",
        "shares",
        "since_us",
        "slot",
        "spec",
        "start_us",
        "started_by",
        "state",
        "suspended_us",
        "worked_us",
    )

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.state = "new"  # new, pending, running (suspended or not), ended
        self.held = False
        self.start_us = 0
        self.runs: tuple[Run, ...] = ()
        self.estimate_us = 0
        self.limit_us: int | None = None
        # batch and number of the action that started it; None: the manager did
        self.started_by: tuple[int, int] | None = None
        self.leaving = False  # it is to be killed or requeued
        self.kept = False  # the manager has suspended it, and it alone resumes it
        self.suspended_us: int | None = None  # start of its suspension
        self.on_disk = False  # suspended to disk
        self.idle_us = 0  # time from its start to `since_us` without work
        self.since_us = 0  # when it last resumed, or will
        self.worked_us = 0  # work done before `since_us`
        self.ready_us = 0  # when it last resumed after a return from disk, or will
        self.restarts = 0  # how often it had been requeued when it was last seen, where a manager counts that
        self.measured_ppm = 0
        self.slot = 0
        self.quanta = 0
        self.shares: tuple[int, ...] = ()

    def start(self, start: StartJob | JobStarted, now_us: int) -> None:
        """Start it."""
        self.state, self.start_us, self.runs = "running", now_us, start.runs
        self.held = self.kept = self.leaving = False
        self.estimate_us, self.limit_us = start.estimate_us, start.limit_us
        self.suspended_us, self.since_us = None, now_us
        self.idle_us = self.worked_us = self.ready_us = 0
        self.slot, self.quanta, self.shares = start.slot, 0, ()

    def told(self) -> RunningJob:
        """Return its entry in a welcome while it is running."""
        same = (getattr(self, name) for name in _SAME)
        return RunningJob(self.spec, self.start_us, self.runs, held=self.kept, **dict(zip(_SAME, same, strict=True)))

    def restore(self, told: RunningJob) -> None:
        """Make it what its entry in a welcome says."""
        self.state, self.spec, self.start_us, self.runs, self.kept = (
            "running",
            told.spec,
            told.start_us,
            told.runs,
            told.held,
        )
        for name in _SAME:
            setattr(self, name, getattr(told, name))
        self.since_us, self.worked_us = told.start_us + told.idle_us, 0
        if told.suspended_us is not None:
            self.worked_us = max(0, told.suspended_us - self.since_us)

    def seen(self) -> PolledJob:
        """Return it as a look would show it, if it is what the books say."""
        if self.state != "running":
            return PolledJob(self.spec, PENDING, self.held, restarts=self.restarts)
        return PolledJob(
            self.spec,
            RUNNING if self.suspended_us is None else SUSPENDED,
            start_us=self.start_us,
            runs=self.runs,
            estimate_us=max(1, self.estimate_us - self.idle_us),
            limit_us=None if self.limit_us is None else self.limit_us - self.idle_us,
            idle_us=self.idle_us,
            since_us=self.suspended_us or 0,
            to_disk=self.on_disk,
            restarts=self.restarts,
        )

    def progressed_us(self, now_us: int) -> int:
        """Return its time without suspensions since its start."""
        return self.worked_us + (max(0, now_us - self.since_us) if self.suspended_us is None else 0)

    @property
    def nodes(self) -> set[int]:
        """Return its present or last nodes."""
        return {node for node, _ in each_node(self.runs)}


class Books(Generic[AnyJob]):
    """The state of a manager, as its scheduler must know it."""

    def __init__(self, machine: Welcome, make_job: Callable[[JobSpec], AnyJob]) -> None:
        """``machine`` is a welcome without jobs: nodes, beliefs, and what the manager can do."""
        self._told = machine
        self._make_job = make_job
        self.nodes = machine.nodes
        self.belief = machine.belief
        self.resume_costs = resume_costs(machine)
        self.licences = machine.licences
        self.can = machine.capabilities
        self.left: list[JobEnded | JobRequeued] = []  # what follows from the actions: jobs that were to leave do
        self.asked: list[JobSpec] = []  # jobs that the scheduler has submitted
        self.seq = 0
        self.number = 0  # of the action that is carried out
        self.now_us = 0
        self.down: set[int] = set()
        self.jobs: dict[int, AnyJob] = {}
        self.notes: dict[tuple[int | None, str], NoteValue] = {}  # None for a removed one
        self.wakes: set[int] = set()
        self.machine = Machine(machine.nodes, machine.licences, machine.capabilities.layout)
        self._measured: set[int] = set()  # jobs with a measured slowdown
        self._kept: SlotPools | None = None  # as `pools`; None: they must be derived anew

    @property
    def pools(self) -> SlotPools:
        """Return what the running jobs leave free, by slot."""
        if self._kept is not None:
            return self._kept
        pools = SlotPools(ThreadPool(self.machine))
        twice = False
        for job in self.jobs.values():
            if job.state == "running" and job.on_disk:
                pools.base.put_on_disk(job.spec, job.runs)
            elif job.state == "running":
                pool, layers = pools.pool(job.slot), self._layers(job)
                twice = twice or busy_refusal(layers, pool.free) is not None
                pool.take(job.spec, job.runs, layers)
        for node in self.down:
            pools.fail_node(node)
        # Where a manager lets two jobs have one thread, that is not free when one of them leaves: derived each time.
        self._kept = None if twice else pools
        return pools

    def inventory(self) -> Welcome:
        """Return the state that a scheduler needs to continue from the last answered batch."""
        pending = sorted((job for job in self.in_state("pending")), key=lambda job: (job.spec.submit_us, job.spec.id))
        return self._told._replace(
            seq=self.seq,
            now_us=self.now_us,
            down=tuple(sorted(self.down)),
            running=tuple(job.told() for job in self.in_state("running")),
            pending=tuple(PendingJob(job.spec, job.held) for job in pending),
            notes=tuple(Note(job_id, key, value) for (job_id, key), value in self.notes.items() if value is not None),
            wakes=tuple(sorted(self.wakes)),
        )

    def restore(self, told: Welcome) -> None:
        """Make the books what an inventory says."""
        self.seq, self.now_us, self.down = told.seq, told.now_us, set(told.down)
        self.jobs.clear()
        for running in told.running:
            self._job(running.spec).restore(running)
        for pending in told.pending:
            job = self._job(pending.spec)
            job.state, job.held = "pending", pending.held
        self.notes = {(note.job_id, note.key): note.value for note in told.notes}
        self.wakes = set(told.wakes)
        self._forget_kept()

    def _forget_kept(self) -> None:
        """Derive what is kept of the jobs again when it is next asked for."""
        self._kept = None
        self._measured = {job_id for job_id, job in self.jobs.items() if job.measured_ppm}

    def look(self) -> Snapshot:
        """Return what a look at the manager would show, if it is what the books say."""
        there = {job.spec.id: job.seen() for job in self.jobs.values() if job.state in ("pending", "running")}
        return Snapshot(there, frozenset(self.down))

    def take_back(self, job_id: int) -> None:
        """Let a job wait again whose start did not come true."""
        self._leave(self.jobs[job_id], "pending")

    def put_back(self, jobs: Mapping[int, AnyJob]) -> None:
        """Make some jobs what they were before an action that the manager has refused."""
        self.jobs.update(jobs)
        self._forget_kept()

    def forget_ended(self) -> None:
        """Drop the jobs that have ended, and their notes."""
        for job_id in [job_id for job_id, job in self.jobs.items() if job.state == "ended"]:
            del self.jobs[job_id]
            self._measured.discard(job_id)
        self.notes = {key: value for key, value in self.notes.items() if value is not None}

    def in_state(self, state: str) -> list[AnyJob]:
        """Return the jobs in one state, by id."""
        return [job for _, job in sorted(self.jobs.items()) if job.state == state]

    def happen(self, event: Event) -> None:
        """Apply an event."""
        match event:
            case JobSubmitted():
                self._job(event.job).state = "pending"
            case JobEnded():
                self._end(event.job_id)
            case JobRequeued():
                self._leave(self.jobs[event.job_id], "pending")
            case JobHeld() | JobReleased():
                self.jobs[event.job_id].held = isinstance(event, JobHeld)
            case JobStarted() | JobModified() | JobRevised() | JobSuspended() | JobResumed():
                self._act_itself(event)
            case NodeFailed():
                self.down.add(event.node)
                if self._kept is not None:
                    self._kept.fail_node(event.node)
            case NodeReturned():
                self._return_node(event.node)
            case ProgressMeasured():
                self.jobs[event.job_id].measured_ppm = event.slowdown_ppm
                self._measured.add(event.job_id)
            case QuantumEnded():
                self._end_quantum(event)
            case Woken():
                self.wakes.discard(event.at_us)
            case ActionRefused():
                for job_id in event.job_ids if event.seq < self.seq - 1 else ():
                    self._leave(self.jobs[job_id], "pending")
            case _:
                assert_never(event)

    def _return_node(self, node: int) -> None:
        self.down.discard(node)
        if self._kept is None:
            return
        holders: dict[int, list[Layers]] = {}  # by slot
        for job in self.jobs.values():
            on_it = any(first <= node < first + count for first, count, _, _ in job.runs)
            if on_it and job.state == "running" and not job.on_disk:
                holders.setdefault(job.slot, []).append(self._layers(job))
        self._kept.return_node(node, holders)

    def _job(self, spec: JobSpec) -> AnyJob:
        """Return a job, which may be new."""
        if spec.id not in self.jobs:
            self.jobs[spec.id] = self._make_job(spec)
        return self.jobs[spec.id]

    # What only a manager with slots does.

    def _end_quantum(self, event: QuantumEnded) -> None:
        raise ValueError(f"{event}, and there are no slots")

    def _set_rotation(self, action: SetRotation) -> str | None:  # noqa: ARG002
        return "there are no slots"

    def _slot_problem(self, job: AnyJob) -> str | None:
        """Return why a job cannot be in its slot, beside those that run in the same turns."""
        return None if job.slot == 0 else "there are no slots"

    def _stops(self, job: AnyJob) -> None:
        """A running job is suspended."""

    def _leaves(self, job: AnyJob) -> None:
        """A running job ends, or is requeued."""

    def _act_itself(self, event: JobStarted | JobModified | JobRevised | JobSuspended | JobResumed) -> None:
        """Do what no scheduler has asked for."""
        match event:
            case JobStarted():
                job = self.jobs[event.job_id] if event.job is None else self._job(event.job)
                job.spec = event.job or job.spec
                if job.state == "running":
                    self._leave(job, "pending")
                job.started_by = None
                job.start(event, event.start_us)
                self._take(job)
                self._disturb(job)
            case JobModified():
                job = self.jobs[event.job.id]
                job.spec = event.job
                if job.state == "running":  # it holds what the description says
                    self._kept = None
            case JobRevised():
                job = self.jobs[event.job_id]
                job.estimate_us, job.limit_us = event.estimate_us, event.limit_us
            case JobSuspended():
                self._stop(self.jobs[event.job_id], event.at_us, to_disk=event.to_disk)
                self.jobs[event.job_id].kept = True
            case JobResumed():
                self.jobs[event.job_id].kept = False
                self._go_on(self.jobs[event.job_id], event.at_us)

    def act(self, action: Action) -> str | None:
        """Carry out an action, or return why it is impossible."""
        match action:
            case StartJob():
                return self._start(action)
            case StartTogether():
                return self._start_together(action)
            case ReviseJob():
                return self._revise(action)
            case SuspendJob():
                return self._suspend(action)
            case ResumeJob():
                return self._resume(action)
            case ChangeSlot():
                return self._change_slot(action)
            case SetRotation():
                return self._set_rotation(action)
            case SetNote():
                if action.job_id is not None and self._state_of(action.job_id) == "ended":
                    return f"a note about job {action.job_id}, which has ended"
                self.notes[action.job_id, action.key] = action.value
            case WakeAt():
                if action.at_us <= self.now_us:
                    return f"a wake at {action.at_us}, now is {self.now_us}"
                self.wakes.add(action.at_us)
            case RejectJob():
                if self._state_of(action.job_id) != "pending":
                    return f"job {action.job_id} is not waiting to be started"
                self._end(action.job_id)
            case RequeueJob() | KillJob():
                return self._ask_to_leave(action)
            case SubmitJob():
                self.asked.append(action.job)
            case UnknownAction():
                return "unknown action"
            case _:
                assert_never(action)
        return None

    def _ask_to_leave(self, action: RequeueJob | KillJob) -> str | None:
        """Let a job leave with the next batch."""
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running" or job.leaving:
            return f"job {action.job_id} does not run, or leaves already"
        job.leaving = True
        again = isinstance(action, RequeueJob)
        self.left.append(JobRequeued(action.job_id) if again else JobEnded(action.job_id, CANCELLED))
        return None

    def _state_of(self, job_id: int) -> str:
        return self.jobs[job_id].state if job_id in self.jobs else "ended"

    def _start(self, start: StartJob) -> str | None:
        job = self.jobs.get(start.job_id)
        if job is None or job.state != "pending" or job.held:
            return f"job {start.job_id} is not waiting to be started"
        spec = job.spec
        pools = self.pools
        pool = pools.pool(start.slot)
        placed = times_refusal(spec.limit_us, start) or pool.place(spec, start.runs)
        limit_us = limit_granted(self.can, start.limit_us, spec.limit_us)
        if isinstance(limit_us, str):
            placed = limit_us
        if isinstance(placed, str):
            pools.drop(start.slot)
            return f"{spec} cannot start on {list(start.runs)}: {placed}"
        assert not isinstance(limit_us, str)
        job.start(start._replace(limit_us=limit_us), self.now_us)
        job.started_by = (self.seq, self.number)
        problem = self._slot_problem(job)
        if problem is not None:
            job.state = "pending"
            pools.drop(start.slot)
            return problem
        pool.take(spec, start.runs, placed)
        self._disturb(job)
        return None

    def _start_together(self, group: StartTogether) -> str | None:
        started: list[AnyJob] = []
        for start in group.starts:
            reason = self._start(start)
            if reason is not None:
                for job in started:
                    self._release(job)
                    job.state = "pending"
                return reason
            started.append(self.jobs[start.job_id])
        return None

    def _change_slot(self, action: ChangeSlot) -> str | None:
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running":
            return f"job {action.job_id} does not run"
        reason = self.pools.change_refusal(action.slot, job.slot, self._layers(job))
        if reason is not None:
            return f"job {action.job_id} cannot be in slot {action.slot}: {reason}"
        before, job.slot = job.slot, action.slot
        problem = self._slot_problem(job)
        job.slot = before
        if problem is None:
            self._release(job)
            job.slot = action.slot
            self._take(job)
        return problem

    def _revise(self, revision: ReviseJob) -> str | None:
        job = self.jobs.get(revision.job_id)
        if job is None or job.state != "running":
            return f"job {revision.job_id} does not run"
        limit_us = limit_granted(self.can, revision.limit_us, job.limit_us)
        reason = times_refusal(job.limit_us, revision) or (limit_us if isinstance(limit_us, str) else None)
        if isinstance(limit_us, str) or reason is not None:
            return f"{job.spec} cannot be revised: {reason}"
        job.estimate_us, job.limit_us = revision.estimate_us, limit_us
        return None

    def _suspend(self, action: SuspendJob) -> str | None:
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running" or job.suspended_us is not None:
            return f"job {action.job_id} cannot be suspended"
        if action.to_disk:
            reason = self.pools.base.disk_refusal(job.spec, job.runs)
            if reason is not None:
                return f"the memory of job {action.job_id} finds no room on disk: {reason}"
        self._stop(job, self.now_us, to_disk=action.to_disk)
        return None

    def _stop(self, job: AnyJob, at_us: int, *, to_disk: bool) -> None:
        self._stops(job)
        if to_disk:
            self._release(job)
        job.suspended_us, job.on_disk = at_us, to_disk
        if to_disk:
            self._take(job)
        job.worked_us += max(0, at_us - job.since_us)
        self._disturb(job)

    def _resume(self, action: ResumeJob) -> str | None:
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running" or job.suspended_us is None or job.kept:
            return f"job {action.job_id} is not suspended by a scheduler"
        if not self.can_go_on(job):
            return f"job {action.job_id} cannot come back to {list(job.runs)}"
        self._go_on(job, self.now_us)
        return None

    def can_go_on(self, job: AnyJob) -> bool:
        """Return whether a suspended job can go on: from disk, if nothing is in its place."""
        if not job.on_disk:
            return True
        pools = self.pools
        reason = pools.pool(job.slot).return_refusal(job.spec, job.runs, self._layers(job))
        pools.drop(job.slot)
        return reason is None

    def _go_on(self, job: AnyJob, at_us: int) -> None:
        job.ready_us = self.resume_costs.ready_us(job.spec, job.runs, job.ready_us, at_us, on_disk=job.on_disk)
        if job.on_disk:
            self._release(job)
            job.on_disk = False
            self._take(job)
        job.suspended_us = None
        job.since_us = max(at_us, job.ready_us)
        before_us, job.idle_us = job.idle_us, job.since_us - job.start_us - job.worked_us
        job.estimate_us += job.idle_us - before_us
        if job.limit_us is not None:
            job.limit_us += job.idle_us - before_us
        self._disturb(job)

    # What a running job holds goes through these two, wherever it is: on its threads, or on disk.

    def _take(self, job: AnyJob) -> None:
        """Give a job what it holds; only a manager that does so itself may let two jobs have one thread."""
        pools, layers = self._kept, self._layers(job)
        if pools is None:
            return
        if job.on_disk:
            pools.base.put_on_disk(job.spec, job.runs)
        elif busy_refusal(layers, pools.pool(job.slot).free) is not None:
            self._kept = None
        else:
            pools.pool(job.slot).take(job.spec, job.runs, layers)

    def _release(self, job: AnyJob) -> None:
        """Take back what a job holds."""
        pools = self._kept
        if pools is None:
            return
        if job.on_disk:
            pools.base.drop_from_disk(job.spec, job.runs)
        else:
            pools.pool(job.slot).give_back(job.spec, job.runs, self._layers(job))
            pools.drop(job.slot)

    def _layers(self, job: AnyJob) -> Layers:
        return layers_of(job.runs, self.machine.depth)

    def _disturb(self, cause: AnyJob) -> None:
        """Forget the measurements on the nodes of a job that starts, ends, is suspended or resumes: its neighbours change."""
        for job_id in list(self._measured):
            if self.jobs[job_id].nodes & cause.nodes:
                self.jobs[job_id].measured_ppm = 0
                self._measured.discard(job_id)

    def _leave(self, job: AnyJob, state: str) -> None:
        if job.state == "running":
            self._release(job)
            if not job.on_disk:
                self._disturb(job)
            job.suspended_us, job.on_disk, job.kept, job.leaving = None, False, False, False
            self._leaves(job)
        job.state = state

    def _end(self, job_id: int) -> None:
        self._leave(self.jobs[job_id], "ended")
        for key in self.notes:
            if key[0] == job_id:
                self.notes[key] = None
