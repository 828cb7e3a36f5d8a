"""A manager's books, written from PROTOCOL.md alone: nothing is kept of who holds what, and threads are pairs of numbers.

They share no rule with `cosched_plugin.ledger`, which the scheduler, adapters and the site of the conformance check have; a test
compares the two. `literal_site` adds run times and slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar, assert_never

from cosched_plugin.common.allocation import Machine, resume_costs, times_refusal
from cosched_plugin.common.threads import each_node
from cosched_plugin.protocol import messages as m

AnyJob = TypeVar("AnyJob", bound="Job")


def places(runs: Sequence[m.Run]) -> list[tuple[int, int]]:
    """Return the (node, thread) pairs that ``runs`` name, with repetitions."""
    return [
        (node, thread)
        for first, count, mask, _ in runs
        for node in range(first, first + count)
        for thread in range(mask.bit_length())
        if mask >> thread & 1
    ]


def node_shares(runs: Sequence[m.Run]) -> list[tuple[int, int]]:
    """Return the (node, processes) pairs of ``runs``."""
    return [(node, processes) for first, count, _, processes in runs for node in range(first, first + count)]


# What a job and its entry in a welcome call alike.
_SAME: Final = tuple(name for name in m.RunningJob._fields if name not in ("spec", "start_us", "runs", "held"))


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

    def __init__(self, spec: m.JobSpec) -> None:
        self.spec = spec
        self.state = "new"  # new, pending, running (suspended or not), ended
        self.held = False
        self.start_us = 0
        self.runs: tuple[m.Run, ...] = ()
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

    def start(self, start: m.StartJob | m.JobStarted, now_us: int) -> None:
        """Start it."""
        self.state, self.start_us, self.runs = "running", now_us, start.runs
        self.held = self.kept = self.leaving = False
        self.estimate_us, self.limit_us = start.estimate_us, start.limit_us
        self.suspended_us, self.since_us = None, now_us
        self.idle_us = self.worked_us = self.ready_us = 0
        self.slot, self.quanta, self.shares = start.slot, 0, ()

    def told(self) -> m.RunningJob:
        """Return its entry in a welcome while it is running."""
        same = (getattr(self, name) for name in _SAME)
        return m.RunningJob(self.spec, self.start_us, self.runs, held=self.kept, **dict(zip(_SAME, same, strict=True)))

    def progressed_us(self, now_us: int) -> int:
        """Return its time without suspensions since its start."""
        return self.worked_us + (max(0, now_us - self.since_us) if self.suspended_us is None else 0)

    @property
    def nodes(self) -> set[int]:
        """Return its present or last nodes."""
        return {node for node, _ in each_node(self.runs)}


class LiteralBooks(Generic[AnyJob]):
    """The state of a manager, with nothing kept that follows from something else."""

    def __init__(self, machine: m.Welcome, make_job: Callable[[m.JobSpec], AnyJob]) -> None:
        """``machine`` is a welcome without jobs: nodes, beliefs, and what the manager can do."""
        self._told = machine
        self._make_job = make_job
        self.belief = machine.belief
        self.resume_costs = resume_costs(machine)
        self.licences = machine.licences
        self.can = machine.capabilities
        self.left: list[m.JobEnded | m.JobRequeued] = []  # what follows from the actions: jobs that were to leave do
        self.asked: list[m.JobSpec] = []  # jobs that the scheduler has submitted
        self.seq = 0
        self.number = 0  # of the action that is carried out
        self.now_us = 0
        self.down: set[int] = set()
        self.jobs: dict[int, AnyJob] = {}
        self.notes: dict[tuple[int | None, str], m.NoteValue] = {}  # None for a removed one
        self.wakes: set[int] = set()
        self.machine = Machine(machine.nodes, machine.licences, machine.capabilities.layout)

    def inventory(self) -> m.Welcome:
        """Return the state that a scheduler needs to continue from the last answered batch."""
        pending = sorted((job for job in self.in_state("pending")), key=lambda job: (job.spec.submit_us, job.spec.id))
        return self._told._replace(
            seq=self.seq,
            now_us=self.now_us,
            down=tuple(sorted(self.down)),
            running=tuple(job.told() for job in self.in_state("running")),
            pending=tuple(m.PendingJob(job.spec, job.held) for job in pending),
            notes=tuple(m.Note(job_id, key, value) for (job_id, key), value in self.notes.items() if value is not None),
            wakes=tuple(sorted(self.wakes)),
        )

    def in_state(self, state: str) -> list[AnyJob]:
        """Return the jobs in one state, by id."""
        return [job for _, job in sorted(self.jobs.items()) if job.state == state]

    def happen(self, event: m.Event) -> None:
        """Apply an event."""
        match event:
            case m.JobSubmitted():
                self._job(event.job).state = "pending"
            case m.JobEnded():
                self._end(event.job_id)
            case m.JobRequeued():
                self._leave(self.jobs[event.job_id], "pending")
            case m.JobHeld() | m.JobReleased():
                self.jobs[event.job_id].held = isinstance(event, m.JobHeld)
            case m.JobStarted() | m.JobModified() | m.JobRevised() | m.JobSuspended() | m.JobResumed():
                self._act_itself(event)
            case m.NodeFailed():
                self.down.add(event.node)
            case m.NodeReturned():
                self.down.discard(event.node)
            case m.ProgressMeasured():
                self.jobs[event.job_id].measured_ppm = event.slowdown_ppm
            case m.QuantumEnded():
                self._end_quantum(event)
            case m.Woken():
                self.wakes.discard(event.at_us)
            case m.ActionRefused():
                for job_id in event.job_ids if event.seq < self.seq - 1 else ():
                    self._leave(self.jobs[job_id], "pending")
            case _:
                assert_never(event)

    def _job(self, spec: m.JobSpec) -> AnyJob:
        """Return a job, which may be new."""
        if spec.id not in self.jobs:
            self.jobs[spec.id] = self._make_job(spec)
        return self.jobs[spec.id]

    # What only a manager with slots does.

    def _end_quantum(self, event: m.QuantumEnded) -> None:
        raise ValueError(f"{event}, and there are no slots")

    def _set_rotation(self, action: m.SetRotation) -> str | None:
        return "there are no slots"

    def _slot_problem(self, job: AnyJob) -> str | None:
        """Return why a job cannot be in its slot, beside those that run in the same turns."""
        return None if job.slot == 0 else "there are no slots"

    def _stops(self, job: AnyJob) -> None:
        """A running job is suspended."""

    def _leaves(self, job: AnyJob) -> None:
        """A running job ends, or is requeued."""

    def _act_itself(self, event: m.JobStarted | m.JobModified | m.JobRevised | m.JobSuspended | m.JobResumed) -> None:
        """Do what no scheduler has asked for."""
        match event:
            case m.JobStarted():
                job = self.jobs[event.job_id] if event.job is None else self._job(event.job)
                job.spec = event.job or job.spec
                if job.state == "running":
                    self._leave(job, "pending")
                job.started_by = None
                job.start(event, event.start_us)
                self._disturb(job)
            case m.JobModified():
                job = self.jobs[event.job.id]
                job.spec = event.job
            case m.JobRevised():
                job = self.jobs[event.job_id]
                job.estimate_us, job.limit_us = event.estimate_us, event.limit_us
            case m.JobSuspended():
                self._stop(self.jobs[event.job_id], event.at_us, to_disk=event.to_disk)
                self.jobs[event.job_id].kept = True
            case m.JobResumed():
                self.jobs[event.job_id].kept = False
                self._go_on(self.jobs[event.job_id], event.at_us)

    def act(self, action: m.Action) -> str | None:
        """Carry out an action, or return why it is impossible."""
        match action:
            case m.StartJob():
                return self._start(action)
            case m.StartTogether():
                return self._start_together(action)
            case m.ReviseJob():
                return self._revise(action)
            case m.SuspendJob():
                return self._suspend(action)
            case m.ResumeJob():
                return self._resume(action)
            case m.ChangeSlot():
                return self._change_slot(action)
            case m.SetRotation():
                return self._set_rotation(action)
            case m.SetNote():
                if action.job_id is not None and self._state_of(action.job_id) == "ended":
                    return f"a note about job {action.job_id}, which has ended"
                self.notes[action.job_id, action.key] = action.value
            case m.WakeAt():
                if action.at_us <= self.now_us:
                    return f"a wake at {action.at_us}, now is {self.now_us}"
                self.wakes.add(action.at_us)
            case m.RejectJob():
                if self._state_of(action.job_id) != "pending":
                    return f"job {action.job_id} is not waiting to be started"
                self._end(action.job_id)
            case m.RequeueJob() | m.KillJob():
                return self._ask_to_leave(action)
            case m.SubmitJob():
                self.asked.append(action.job)
            case m.UnknownAction():
                return "unknown action"
            case _:
                assert_never(action)
        return None

    def _ask_to_leave(self, action: m.RequeueJob | m.KillJob) -> str | None:
        """Let a job leave with the next batch."""
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running" or job.leaving:
            return f"job {action.job_id} does not run, or leaves already"
        job.leaving = True
        again = isinstance(action, m.RequeueJob)
        self.left.append(m.JobRequeued(action.job_id) if again else m.JobEnded(action.job_id, m.CANCELLED))
        return None

    def _state_of(self, job_id: int) -> str:
        return self.jobs[job_id].state if job_id in self.jobs else "ended"

    def _start_together(self, group: m.StartTogether) -> str | None:
        started: list[AnyJob] = []
        measured_ppm = {job_id: job.measured_ppm for job_id, job in self.jobs.items()}
        for start in group.starts:
            reason = self._start(start)
            if reason is not None:
                for job in started:
                    job.state = "pending"
                for job_id, before_ppm in measured_ppm.items():
                    self.jobs[job_id].measured_ppm = before_ppm
                return reason
            started.append(self.jobs[start.job_id])
        return None

    def _revise(self, revision: m.ReviseJob) -> str | None:
        job = self.jobs.get(revision.job_id)
        if job is None or job.state != "running":
            return f"job {revision.job_id} does not run"
        limit_us = self.can.granted(revision.limit_us, job.limit_us)
        reason = times_refusal(job.limit_us, revision) or (limit_us if isinstance(limit_us, str) else None)
        if isinstance(limit_us, str) or reason is not None:
            return f"{job.spec} cannot be revised: {reason}"
        job.estimate_us, job.limit_us = revision.estimate_us, limit_us
        return None

    def _stop(self, job: AnyJob, at_us: int, *, to_disk: bool) -> None:
        self._stops(job)
        job.suspended_us, job.on_disk = at_us, to_disk
        job.worked_us += max(0, at_us - job.since_us)
        self._disturb(job)

    def _resume(self, action: m.ResumeJob) -> str | None:
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running" or job.suspended_us is None or job.kept:
            return f"job {action.job_id} is not suspended by a scheduler"
        if not self.can_go_on(job):
            return f"job {action.job_id} cannot come back to {list(job.runs)}"
        self._go_on(job, self.now_us)
        return None

    def _go_on(self, job: AnyJob, at_us: int) -> None:
        job.ready_us = self.resume_costs.ready_us(job.spec, job.runs, job.ready_us, at_us, on_disk=job.on_disk)
        if job.on_disk:
            job.on_disk = False
        job.suspended_us = None
        job.since_us = max(at_us, job.ready_us)
        before_us, job.idle_us = job.idle_us, job.since_us - job.start_us - job.worked_us
        job.estimate_us += job.idle_us - before_us
        if job.limit_us is not None:
            job.limit_us += job.idle_us - before_us
        self._disturb(job)

    # What a running job holds goes through these two, wherever it is: on its threads, or on disk.

    def _leave(self, job: AnyJob, state: str) -> None:
        if job.state == "running":
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

    def swap_left(self) -> list[int]:
        """Return the disk space of each node for the memory of further jobs."""
        return self._room(self.machine.swap_mb, on_disk=True)

    def _start(self, start: m.StartJob) -> str | None:
        job = self.jobs.get(start.job_id)
        if job is None or job.state != "pending" or job.held:
            return f"job {start.job_id} is not waiting to be started"
        spec = job.spec
        taken = self._held_threads(start.slot)
        memory = self._room(self.machine.memory_mb, on_disk=False)
        wanted = places(start.runs)
        exists = {(node, thread) for node, width in enumerate(self.machine.threads_of) for thread in range(width)}
        shares = node_shares(start.runs)
        nodes = [node for node, _ in shares]
        width = spec.threads_per_process
        possible = (
            sum(processes for _, processes in shares) == spec.processes
            and len(set(nodes)) == len(nodes)
            and len(set(wanted)) == len(wanted)
            and set(wanted) <= exists - taken
            and not self.down & set(nodes)
            and all(0 < processes <= (spec.ppn_max or processes) for _, processes in shares)
            and sum(processes < spec.ppn_min for _, processes in shares) <= 1
            and all(processes * spec.memory_mb <= memory[node] for node, processes in shares)
        )
        for node, processes in shares if possible else ():
            threads = sum(place[0] == node for place in wanted)
            whole = self.machine.threads_of[node]
            possible = possible and threads == (whole if spec.exclusive else processes * width)
            possible = possible and threads >= processes * width
        if not possible or not self._suits(spec, shares):
            return f"{spec} cannot start on {list(start.runs)}"
        own_us, limit_us = spec.limit_us, start.limit_us
        if (own_us is None) != (limit_us is None) or (own_us or 0) > (limit_us or 0) or start.estimate_us < 1:
            return f"{spec} cannot start with estimate {start.estimate_us} and limit {limit_us}"
        if limit_us is not None:
            if limit_us > (own_us or 0) and not self.can.limits_grow:
                return f"{spec} cannot have the limit {limit_us}"
            start = start._replace(limit_us=-(-limit_us // self.can.limit_grain_us) * self.can.limit_grain_us)
        job.start(start, self.now_us)
        job.started_by = (self.seq, self.number)
        problem = self._slot_problem(job)
        if problem is not None:
            job.state = "pending"
            return problem
        self._disturb(job)
        return None

    def _suits(self, spec: m.JobSpec, shares: Sequence[tuple[int, int]]) -> bool:
        """Return whether a job may have these nodes, with enough of what is counted there, in a layout that can be made."""
        counts = [processes for _, processes in sorted(shares)]
        if self.can.layout == m.FILLED and (set(counts[:-1]) - {counts[0]} or counts[-1] > counts[0]):
            return False
        ranges = [range(first, first + count) for first, count in spec.eligible]
        if ranges and not all(any(node in nodes for nodes in ranges) for node, _ in shares):
            return False
        devices = {node for node in range(self.machine.nodes) if self._class_of(node).same_nodes}
        mine = {node for node, _ in shares} & devices
        for job in self.in_state("running"):
            theirs = set(job.nodes) & devices
            if not job.on_disk and mine & theirs and mine != theirs:
                return False
        return self._has_counted(spec, shares)

    def _has_counted(self, spec: m.JobSpec, shares: Sequence[tuple[int, int]]) -> bool:
        """Return whether there is enough of what is counted."""
        running = [job for job in self.in_state("running") if not job.on_disk]
        for name, amount in spec.licences:
            taken = sum(dict(job.spec.licences).get(name, 0) for job in running)
            if dict(self.licences).get(name, 0) - taken < amount:
                return False
        for name, amount in spec.resources:
            for node, _ in shares:
                taken = sum(dict(job.spec.resources).get(name, 0) for job in running if node in job.nodes)
                if self.machine.resources.get(name, [0] * self.machine.nodes)[node] - taken < amount:
                    return False
        mine = {name for name, _ in spec.resources}
        for node, _ in shares:
            theirs = {name for job in running if node in job.nodes for name, _ in job.spec.resources}
            for one, other in self._class_of(node).apart:
                if (one in mine and other in theirs) or (other in mine and one in theirs):
                    return False
        return True

    def _class_of(self, node: int) -> m.NodeClass:
        """Return the class of a node."""
        return [item for item in self.machine.classes for _ in range(item.nodes)][node]

    def _change_slot(self, action: m.ChangeSlot) -> str | None:
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running":
            return f"job {action.job_id} does not run"
        taken = self._held_threads(action.slot) & set(places(job.runs))
        if taken or self.down & job.nodes or action.slot == job.slot:
            return f"job {action.job_id} cannot be in slot {action.slot}"
        before, job.slot = job.slot, action.slot
        problem = self._slot_problem(job)
        if problem is not None:
            job.slot = before
            return problem
        self._disturb(job)
        return None

    def _suspend(self, action: m.SuspendJob) -> str | None:
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running" or job.suspended_us is not None:
            return f"job {action.job_id} cannot be suspended"
        if action.to_disk:
            swap = self.swap_left()
            needed = [(node, processes * job.spec.memory_mb) for node, processes in node_shares(job.runs)]
            if any(
                memory_mb > max(0, swap[node]) for node, memory_mb in needed
            ):  # a manager may have filled more than there is
                return f"the memory of job {action.job_id} finds no room on disk: {swap}"
        self._stop(job, self.now_us, to_disk=action.to_disk)
        return None

    def can_go_on(self, job: AnyJob) -> bool:
        """Return whether a suspended job can go on: from disk, if nothing is in its place."""
        memory = self._room(self.machine.memory_mb, on_disk=False)
        return not job.on_disk or not (
            self._held_threads(job.slot) & set(places(job.runs))
            or self.down & job.nodes
            or any(processes * job.spec.memory_mb > memory[node] for node, processes in node_shares(job.runs))
            or not self._has_counted(job.spec, node_shares(job.runs))
        )

    def _held_threads(self, slot: int) -> set[tuple[int, int]]:
        """Return the (node, thread) pairs that jobs hold in a slot."""
        holders = [job for job in self.in_state("running") if job.slot == slot and not job.on_disk]
        return {place for job in holders for place in places(job.runs)}

    def _room(self, room_mb: Sequence[int], *, on_disk: bool) -> list[int]:
        """Return what remains on each node beside the jobs on disk, or beside all others."""
        left = list(room_mb)
        for job in self.in_state("running"):
            for node, processes in node_shares(job.runs) if job.on_disk == on_disk else ():
                left[node] -= processes * job.spec.memory_mb
        return left

    def _disturb(self, cause: AnyJob) -> None:
        """Forget the measurements on the nodes of a job that starts, ends, is suspended or resumes: its neighbours change."""
        for job in self.jobs.values():
            if job.nodes & cause.nodes:
                job.measured_ppm = 0
