"""The small resource manager that `cosched_plugin.testing.check` plays against a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from cosched_hwmodel.units import ThreadMask
from cosched_plugin.common.allocation import Machine, room_on
from cosched_plugin.core.running import REQUEUED, Ended, running_job
from cosched_plugin.protocol.messages import (
    CANCELLED,
    FEATURES,
    FILLED,
    PROTOCOL_VERSION,
    Action,
    ActionRefused,
    Amounts,
    Belief,
    Capabilities,
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
    NodeClass,
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
from cosched_plugin.testing.site_job import SiteJob, node_shares, places
from cosched_plugin.testing.site_slots import TimeSharing, pairing_problem

ALL_IT_SAYS: Final = Capabilities()


class Site:
    """A resource manager in its simplest form: nothing is cached, and threads are pairs of numbers."""

    def __init__(
        self,
        nodes: tuple[NodeClass, ...],
        belief: Belief,
        resume_us: int = 0,
        quantum_us: int | None = None,
        licences: Amounts = (),
        capabilities: Capabilities = ALL_IT_SAYS,
        features: tuple[str, ...] = FEATURES,
    ) -> None:
        """With a ``quantum_us``, the machine has slots."""
        self.licences = licences
        self.can = capabilities
        self.features = features
        self.nodes = nodes
        self.belief = belief
        self.resume_us = resume_us
        self.seq = 0
        self.number = 0  # of the action that is carried out
        self.left: list[JobEnded | JobRequeued] = []  # what follows from the actions: jobs that were to leave do
        self.asked: list[JobSpec] = []  # jobs that the scheduler has submitted
        self.now_us = 0
        self.down: set[int] = set()
        self.jobs: dict[int, SiteJob] = {}
        self.notes: dict[tuple[int | None, str], NoteValue] = {}  # None for a removed one
        self.wakes: set[int] = set()
        self.machine = Machine(nodes, licences, capabilities.layout)
        self.slots = None if quantum_us is None else TimeSharing(quantum_us)

    def inventory(self) -> Welcome:
        """Return the state that a scheduler needs to continue from the last answered batch."""
        pending = sorted((job for job in self.in_state("pending")), key=lambda job: (job.spec.submit_us, job.spec.id))
        return Welcome(
            PROTOCOL_VERSION,
            self.features,
            self.seq,
            self.now_us,
            self.nodes,
            tuple(sorted(self.down)),
            self.belief,
            tuple(job.told() for job in self.in_state("running")),
            tuple(PendingJob(job.spec, job.held) for job in pending),
            tuple(Note(job_id, key, value) for (job_id, key), value in self.notes.items() if value is not None),
            tuple(sorted(self.wakes)),
            self.resume_us,
            slots=None if self.slots is None else self.slots.told(),
            capabilities=self.can,
            licences=self.licences,
        )

    def in_state(self, state: str) -> list[SiteJob]:
        """Return the jobs in one state, by id."""
        return [job for _, job in sorted(self.jobs.items()) if job.state == state]

    def on_node(self, node: int) -> list[SiteJob]:
        """Return the running jobs that hold threads of ``node``, or have their image on its disk."""
        return [job for job in self.in_state("running") if node in job.nodes]

    def sharing(self) -> list[SiteJob]:
        """Return the jobs that make progress beside others that do, by id."""
        active = [job for job in self.in_state("running") if job.suspended_us is None]
        return [job for job in active if any(other is not job and other.nodes & job.nodes for other in active)]

    def ends(self) -> list[int]:
        """Return the times at which jobs will end or be killed at their limits."""
        return [job.end_us for job in self.in_state("running") if job.end_us is not None]

    def due_us(self) -> int | None:
        """Return the instant of the next due event, or at which a quantum begins; None if there is none."""
        quantum = [] if self.slots is None else self.slots.due_us(self.now_us, self.in_state("running"))
        return min(self.ends() + quantum + list(self.wakes), default=None)

    def settle(self) -> None:
        """Let the jobs run whose turn it is; after a batch has been answered."""
        if self.slots is not None:
            self.slots.settle(self.now_us, self.in_state("running"))

    def could_run(self, spec: JobSpec) -> bool:
        """Return whether the nodes in service could hold such a job if they were empty."""
        machine = self.machine
        up = [node for node in range(machine.nodes) if node not in self.down]
        threads = machine.threads_of
        up = [node for node in up if self._suits_empty(spec, node)]
        return spec.processes <= sum(room_on(spec, threads[n], threads[n], machine.memory_mb[n]) for n in up)

    def _suits_empty(self, spec: JobSpec, node: int) -> bool:
        """Return whether a job might have a node that is empty, in a cluster that is."""
        ranges = [range(first, first + count) for first, count in spec.eligible]
        resources = self.machine.resources
        return (
            (not ranges or any(node in nodes for nodes in ranges))
            and all(resources.get(name, [0] * self.machine.nodes)[node] >= amount for name, amount in spec.resources)
            and all(dict(self.licences).get(name, 0) >= amount for name, amount in spec.licences)
        )

    def ended_by(self, event: Event) -> list[Ended]:
        """Return the entry of a running job among the ended ones after ``event``, which has not happened yet."""
        if not isinstance(event, JobEnded | JobRequeued) or self.jobs[event.job_id].state != "running":
            return []
        job = self.jobs[event.job_id]
        running = running_job(job.told(), self.machine)._replace(measured_ppm=job.measured_ppm)
        return [
            Ended(
                running,
                event.state if isinstance(event, JobEnded) else REQUEUED,
                self.now_us,
                job.progressed_us(self.now_us),
            )
        ]

    def happen(self, event: Event) -> None:
        """Apply an event."""
        match event:
            case JobSubmitted():
                self.jobs[event.job.id].state = "pending"
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
            case NodeReturned():
                self.down.discard(event.node)
            case ProgressMeasured():
                self.jobs[event.job_id].measured_ppm = event.slowdown_ppm
            case QuantumEnded():
                assert self.slots is not None
                self.slots.end(event, self.in_state("running"))
            case Woken():
                self.wakes.discard(event.at_us)
            case ActionRefused():
                for job_id in event.job_ids if event.seq < self.seq - 1 else ():
                    self._leave(self.jobs[job_id], "pending")
            case _:
                assert_never(event)

    def _act_itself(self, event: JobStarted | JobModified | JobRevised | JobSuspended | JobResumed) -> None:
        """Do what no scheduler has asked for."""
        match event:
            case JobStarted():
                job = self.jobs[event.job_id]
                if job.state == "running":
                    self._leave(job, "pending")
                job.started_by = None
                job.start(event, event.start_us)
                self._disturb(job)
            case JobModified():
                self.jobs[event.job.id].spec = event.job
            case JobRevised():
                job = self.jobs[event.job_id]
                job.estimate_us, job.limit_us = event.estimate_us, event.limit_us
            case JobSuspended():
                self._stop(self.jobs[event.job_id], to_disk=event.to_disk)
                self.jobs[event.job_id].kept = True
            case JobResumed():
                self.jobs[event.job_id].kept = False
                self._go_on(self.jobs[event.job_id])

    def place_for(self, spec: JobSpec, slot: int = 0) -> tuple[Run, ...] | None:
        """Return free threads on which a job can start, on nodes drawn by their numbers; None if there are too few."""
        held = self._held_threads(slot)
        memory = self._room(self.machine.memory_mb, on_disk=False)
        runs: list[Run] = []
        left = spec.processes
        for node, width in enumerate(self.machine.threads_of):
            free = [thread for thread in range(width) if (node, thread) not in held]
            suits = node not in self.down and self._suits(spec._replace(licences=()), [(node, 1)])
            count = min(left, room_on(spec, len(free), width, memory[node])) if suits else 0
            if count:
                taken = free if spec.exclusive else free[: count * spec.threads_per_process]
                runs.append(Run(node, 1, ThreadMask(sum(1 << thread for thread in taken)), count))
                left -= count
        shares = node_shares(runs)
        return None if left or not self._suits(spec, shares) else tuple(runs)

    def swap_left(self) -> list[int]:
        """Return the disk space of each node for the memory of further jobs."""
        return self._room(self.machine.swap_mb, on_disk=True)

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
                if self.slots is None:
                    return "there are no slots"
                return self.slots.set_rotation(action, self.now_us, self.in_state("running"))
            case SetNote():
                if action.job_id is not None and self.jobs[action.job_id].state == "ended":
                    return f"a note about job {action.job_id}, which has ended"
                self.notes[action.job_id, action.key] = action.value
            case WakeAt():
                if action.at_us <= self.now_us:
                    return f"a wake at {action.at_us}, now is {self.now_us}"
                self.wakes.add(action.at_us)
            case RejectJob():
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

    def _start(self, start: StartJob) -> str | None:
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

    def _suits(self, spec: JobSpec, shares: Sequence[tuple[int, int]]) -> bool:
        """Return whether a job may have these nodes, with enough of what is counted there, in a layout that can be made."""
        counts = [processes for _, processes in sorted(shares)]
        if self.can.layout == FILLED and (set(counts[:-1]) - {counts[0]} or counts[-1] > counts[0]):
            return False
        ranges = [range(first, first + count) for first, count in spec.eligible]
        if ranges and not all(any(node in nodes for nodes in ranges) for node, _ in shares):
            return False
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
        return True

    def _start_together(self, group: StartTogether) -> str | None:
        started: list[SiteJob] = []
        for start in group.starts:
            reason = self._start(start)
            if reason is not None:
                for job in started:
                    job.state = "pending"
                return reason
            started.append(self.jobs[start.job_id])
        return None

    def _change_slot(self, action: ChangeSlot) -> str | None:
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

    def _slot_problem(self, job: SiteJob) -> str | None:
        """Return why a job cannot be in its slot, beside those that run in the same turns."""
        if self.slots is None:
            return None if job.slot == 0 else "there are no slots"
        return pairing_problem(self.slots.turns, self.in_state("running"))

    def _revise(self, revision: ReviseJob) -> str | None:
        job = self.jobs.get(revision.job_id)
        if job is None or job.state != "running":
            return f"job {revision.job_id} does not run"
        if revision.estimate_us < 1 or (revision.limit_us is None) != (job.spec.limit_us is None):
            return f"{job.spec} cannot have estimate {revision.estimate_us} and limit {revision.limit_us}"
        if (revision.limit_us or 0) < (job.limit_us or 0):
            return f"limit {job.limit_us} of job {revision.job_id} would fall to {revision.limit_us}"
        limit_us = revision.limit_us
        if limit_us is not None:
            if limit_us > (job.limit_us or 0) and not self.can.limits_grow:
                return f"{job.spec} cannot have the limit {limit_us}"
            limit_us = -(-limit_us // self.can.limit_grain_us) * self.can.limit_grain_us
        job.estimate_us, job.limit_us = revision.estimate_us, limit_us
        return None

    def _suspend(self, action: SuspendJob) -> str | None:
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running" or job.suspended_us is not None:
            return f"job {action.job_id} cannot be suspended"
        if action.to_disk:
            swap = self.swap_left()
            if any(processes * job.spec.memory_mb > swap[node] for node, processes in node_shares(job.runs)):
                return f"the memory of job {action.job_id} finds no room on disk: {swap}"
        self._stop(job, to_disk=action.to_disk)
        return None

    def _stop(self, job: SiteJob, *, to_disk: bool) -> None:
        job.let_run(self.now_us, may_run=True)  # it waits no more: it is suspended
        if self.slots is not None:
            self.slots.stop(job)
        job.suspended_us, job.on_disk = self.now_us, to_disk
        job.worked_us += max(0, self.now_us - job.since_us)
        self._disturb(job)

    def _resume(self, action: ResumeJob) -> str | None:
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running" or job.suspended_us is None or job.kept:
            return f"job {action.job_id} is not suspended by a scheduler"
        if not self.can_go_on(job):
            return f"job {action.job_id} cannot come back to {list(job.runs)}"
        self._go_on(job)
        return None

    def can_go_on(self, job: SiteJob) -> bool:
        """Return whether a suspended job can go on: from disk, if nothing is in its place."""
        memory = self._room(self.machine.memory_mb, on_disk=False)
        return not job.on_disk or not (
            self._held_threads(job.slot) & set(places(job.runs))
            or self.down & job.nodes
            or any(processes * job.spec.memory_mb > memory[node] for node, processes in node_shares(job.runs))
        )

    def _go_on(self, job: SiteJob) -> None:
        if job.on_disk:
            job.ready_us = self.now_us + self.resume_us
        job.suspended_us, job.on_disk = None, False
        job.since_us = max(self.now_us, job.ready_us)
        before_us, job.idle_us = job.idle_us, job.since_us - job.start_us - job.worked_us
        job.estimate_us += job.idle_us - before_us
        if job.limit_us is not None:
            job.limit_us += job.idle_us - before_us
        self._disturb(job)

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

    def _disturb(self, cause: SiteJob) -> None:
        """Forget the measurements on the nodes of a job that starts, ends, is suspended or resumes: its neighbours change."""
        for job in self.jobs.values():
            if job.nodes & cause.nodes:
                job.measured_ppm = 0

    def _leave(self, job: SiteJob, state: str) -> None:
        if job.state == "running":
            if not job.on_disk:
                self._disturb(job)
            job.suspended_us, job.on_disk, job.kept, job.leaving = None, False, False, False
            if self.slots is not None:
                self.slots.left_by(job)
        job.state = state

    def _end(self, job_id: int) -> None:
        self._leave(self.jobs[job_id], "ended")
        for key in self.notes:
            if key[0] == job_id:
                self.notes[key] = None
