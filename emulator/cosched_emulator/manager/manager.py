"""The resource manager: the states of jobs, the threads that they hold, limits, notes and wakes.

A batch of events is committed only when the scheduler has answered it. Then the actions follow in the given order, each checked
against the state at that moment. So `inventory` always returns the state as of the last answered batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.actions import KEPT_BACK, TakesActions
from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_emulator.manager.diary import Diary
from cosched_emulator.manager.job_ends import JobProgress
from cosched_emulator.manager.managed_job import ABSENT, PENDING, RUNNING, SUSPENDED, ManagedJob
from cosched_emulator.manager.node_states import NodeStates
from cosched_emulator.manager.notes import Notes
from cosched_emulator.manager.record import JobEntered, JobRecord, Origin
from cosched_emulator.manager.running_jobs import RunningJobs
from cosched_emulator.manager.time_sharing.rotating import Rotating
from cosched_emulator.manager.time_sharing.shared_progress import ProcessNodes
from cosched_emulator.manager.timeline import END, GATE, MEASURE, WAKE, Entry, Timeline
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.common import threads
from cosched_plugin.common.allocation import Machine, ResumeCosts, ThreadPool
from cosched_plugin.common.slots import SlotPools
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.messages import started_by

# The invariant of the resource manager: the held resources, recomputed from the running jobs.


def check_holdings(
    machine: Machine, slots: SlotPools, running: Mapping[int, ManagedJob], pending: Collection[int]
) -> None:
    """Raise `InvariantError` if the free resources of ``slots`` do not match the running jobs, or a state is impossible.

    ``pending`` are the ids of the pending jobs.
    """
    taken_in = {0: threads.none_of(machine.exists)}
    memory_mb, swap_mb = list(machine.memory_mb), list(machine.swap_mb)
    for job_id, job in running.items():
        if job.state not in (RUNNING, SUSPENDED, *ABSENT) or job_id in pending:
            raise InvariantError(f"job {job_id} is {job.state} among the running jobs")
        if (job.suspended_us is not None) != (job.state == SUSPENDED) or (job.on_disk and job.state != SUSPENDED):
            raise InvariantError(f"job {job_id} is {job.state}, and was suspended at {job.suspended_us}")
        for node, processes in threads.each_node(job.runs):
            (swap_mb if job.on_disk else memory_mb)[node] -= processes * job.job.spec.memory_mb
        if job.on_disk:
            continue
        taken = taken_in.get(job.slot, threads.none_of(machine.exists))
        if not threads.is_empty(threads.common(taken, job.layers)):
            raise InvariantError(f"job {job_id} shares a hardware thread")
        taken_in[job.slot] = threads.union(taken, job.layers)
    pool = slots.base
    for slot, taken in taken_in.items():
        free = threads.on_nodes(threads.minus(machine.exists, taken), pool.up)
        if free != slots.free(slot):
            raise InvariantError(f"free threads differ in slot {slot} from what running jobs leave")
    if memory_mb != pool.free_memory_mb or min(memory_mb) < 0:
        raise InvariantError("free memory differs from what running jobs leave")
    if swap_mb != pool.free_swap_mb or min(swap_mb) < 0:
        raise InvariantError("free swap space differs from what jobs on disk leave")


# The features of this manager: it takes jobs from its users alone.
MANAGER_FEATURES: Final = tuple(feature for feature in m.FEATURES if feature != m.SUBMIT)
_new = tuple.__new__  # a call of the class of an event takes twice as long
MOST_VOID: Final = 100_000  # void entries of the timeline before it is compacted
NO_COSTS: Final = ResumeCosts()
NO_ORIGIN: Final = Origin("")  # number of the scenario's jobs


class Manager(TakesActions):
    """Jobs, nodes and notes. All their changes happen here."""

    def __init__(
        self,
        nodes: Sequence[m.NodeClass],
        belief: m.Belief,
        cluster: ContendedNodes | None,
        measure_after_us: int | None = None,
        measure_above_ppm: int = WHOLE_PPM,
        costs: ResumeCosts = NO_COSTS,
        processes: ProcessNodes | None = None,
        licences: m.Amounts = (),
    ) -> None:
        """``cluster`` is the truth of the hardware; None without contention: every job then takes its run time alone.

        With ``processes``, which takes the place of ``cluster``, jobs are processes that share CPUs, and the machine has slots.

        A job's progress is measured ``measure_after_us`` after its neighbours changed (None: never), and reported if its slowdown is
        above ``measure_above_ppm``. A job that is resumed makes no progress for as long as ``costs`` says.
        """
        self._classes = tuple(nodes)
        self._belief = belief
        self._costs = costs
        self.timeline = Timeline()
        self.machine = Machine(nodes, licences)
        self.diary = Diary()
        self.settles = cluster is not None or processes is not None
        self.running: dict[int, ManagedJob] = {}
        self.processes: Rotating | None = None
        if processes is None:
            self._progress = JobProgress(self.timeline, self.running, cluster, measure_after_us, measure_above_ppm)
        else:
            self._progress = self.processes = Rotating(self.timeline, self.running, processes, self.diary)
        self._slots = SlotPools(ThreadPool(self.machine))
        self.nodes = NodeStates(self._slots, cluster, self.diary)
        self._running_jobs = self._jobs_on_nodes()
        self.unseen: dict[int, ManagedJob] = {}  # submitted jobs of which the scheduler has not been told yet
        self.seq = self.now_us = self.refused = 0  # last answered batch; time of the last change; refusals
        self.jobs: dict[int, ManagedJob] = {}
        self.pending: dict[int, ManagedJob] = {}
        self.notes = Notes()
        self.wakes: set[int] = set()
        # Called with the record of each job that has ended for good; the job is then forgotten. None: `forget` does that.
        self.ended_jobs: Callable[[JobRecord], None] | None = None
        # Called for each job that ends for good, with the time and its final state: by the gate, if there is one.
        self.left: Callable[[int, int, str], None] | None = None
        # Tells of a job that the scheduler rejects whether the gate keeps it back instead; None: there is no gate.
        self.keeps_back = None

    def _jobs_on_nodes(self) -> RunningJobs:
        return RunningJobs(self._slots, self.running, self._progress, self.diary, self._costs, self.timeline)

    def allow_late_answers(self) -> None:
        """Allow late answers: a requested wake may have passed, and a limit may have grown."""
        self._running_jobs.allows_late_answers = True

    def inventory(self, *, pending: bool = True) -> m.Welcome:
        """Return the state that a scheduler needs to continue from the last answered batch, or all of it but the ``pending`` jobs."""
        queue = sorted(self.pending.values(), key=_submission) if pending else ()
        return m.Welcome(
            version=m.PROTOCOL_VERSION,
            features=MANAGER_FEATURES,
            seq=self.seq,
            now_us=self.now_us,
            nodes=self._classes,
            down=tuple(sorted(self.nodes.down)),
            returns=self.nodes.returns(),
            belief=self._belief,
            running=tuple(job.inventory_entry() for _, job in sorted(self.running.items())),
            pending=tuple(m.PendingJob(job.job.spec, job.held) for job in queue),
            notes=self.notes.inventory_entries(),
            wakes=tuple(sorted(self.wakes)),
            licences=tuple(self.machine.licences.items()),
            **self._costs._asdict(),
            slots=None if self.processes is None else self.processes.state(),
        )

    def refusal_of(self, spec: m.JobSpec) -> str | None:
        """Return why a submission is refused, or None: a job must fit the empty machine."""
        most = self.machine.most_processes(spec)
        if spec.processes > most:
            if spec.ppn_min == spec.ppn_max:  # so a user asks by nodes
                nodes, each = -(-spec.processes // spec.ppn_max), spec.ppn_max
                return f"{nodes} nodes wanted, with {each} of its processes on each; the machine has {most // each} of this kind"
            return f"{spec.processes} processes wanted, the machine holds {most} of this kind"
        return None

    def reject(self, job: WorkloadJob, now_us: int, reason: str) -> None:
        """Enter a job that was refused at submission; the scheduler never gets it."""
        managed = self.accept(job, at_us=now_us)
        managed.reason = reason
        self.finish(managed, now_us, m.REJECTED)

    def accept(self, job: WorkloadJob, origin: Origin = NO_ORIGIN, at_us: int | None = None) -> ManagedJob:
        """Enter a job whose submission is in progress, or that waits for other jobs first; ``at_us``: None is its own time."""
        managed = self.jobs[job.spec.id] = ManagedJob(job)
        if self.diary.kept:
            self.diary.note(JobEntered(job.spec.submit_us if at_us is None else at_us, job, origin))
        return managed

    def end_event(self, job_id: int, version: int) -> m.JobEnded | None:
        """Return the event for a scheduled end; None if that end is void."""
        job = self.jobs.get(job_id)  # a live manager forgets jobs that have ended
        if job is None or job.state != RUNNING or job.version != version:
            return None
        return _new(m.JobEnded, (job_id, job.outcome))

    @property
    def pool(self) -> ThreadPool:
        """Return the free resources of slot 0; for reading."""
        return self._running_jobs.pool

    def measurement_event(self, job_id: int, disturbances: int, gone: Iterable[int]) -> m.ProgressMeasured | None:
        """Return the event for a scheduled measurement; None if it is void, as when neighbours in ``gone`` have just left."""
        job = self.jobs.get(job_id)
        if job is None or job.state != RUNNING or job.disturbances != disturbances:
            return None
        if any(other in self.running and threads.share_nodes(job.layers, self.running[other].layers) for other in gone):
            return None
        return self._progress.measure(job_id)

    def quantum_event(self, version: int, gone: Collection[int]) -> m.QuantumEnded | None:
        """Return the event for the scheduled end of a quantum; None if it is void. Jobs in ``gone`` have just left."""
        return None if self.processes is None else self.processes.end_event(version, gone)

    # In virtual time a batch changes nothing until it is answered: the events of `Agenda.due` are still to come for `inventory`, so
    # that a scheduler that restarts while it decides gets the state before the batch, and is asked the batch again. In running time
    # `apply` and `carry_out` are called apart, as events do not wait for the scheduler.
    def commit(self, seq: int, now_us: int, events: Iterable[m.Event], actions: Iterable[m.Action]) -> list[m.Event]:
        """Commit an answered batch: its events, then the actions in order. Returns the refusals, events of this instant."""
        self.apply(now_us, events)
        return self.carry_out(seq, now_us, actions)

    # All changes by events go through here, and each event is applied exactly once. An event must hold when it is applied: a job
    # that ends is pending or among the running ones. `Agenda.due` sees to that for one instant, `end_event` and its like for
    # entries of the timeline that have become void. `settle` must follow before time goes on.
    def apply(self, now_us: int, events: Iterable[m.Event]) -> None:
        """Apply events, in order."""
        self.now_us = now_us
        jobs = self.jobs
        for event in events:
            if type(event) is m.JobEnded:
                self._end(jobs[event.job_id], event.state)
            elif type(event) is m.JobSubmitted:
                job_id = event.job.id
                self.pending[job_id] = jobs[job_id]
            else:
                self._apply(event)

    # The one place where a scheduler changes anything. An action is checked against the state that the actions before it have left;
    # a refusal changes nothing and stops nothing: the following actions are still carried out, and the scheduler hears of it in its
    # next batch.
    def carry_out(
        self, seq: int, now_us: int, actions: Iterable[m.Action], unaware: Collection[int] = ()
    ) -> list[m.Event]:
        """Carry out the actions of the answer to batch ``seq``, in order; return a refusal for each impossible one.

        The scheduler did not know what the manager did to jobs that it is ``unaware`` of: actions about them are refused.
        The ends and requeues that some ask for follow them; they have not happened yet.
        """
        self.seq = seq
        self.now_us = now_us
        follow: list[m.Event] = []
        if not actions:
            return follow
        execute = self._carry_out
        left: list[m.JobEnded | m.JobRequeued | m.ProgressMeasured] = []
        for number, action in enumerate(actions):
            reason = _unaware_refusal(action, unaware) if unaware else None
            if reason is None:
                reason = execute(action, now_us)
            if reason is not None:
                self.refused += reason != KEPT_BACK
                follow.append(m.ActionRefused(seq, number, reason, started_by(action)))
            elif type(action) is m.KillJob:
                left.append(m.JobEnded(action.job_id, m.CANCELLED))
            elif type(action) is m.RequeueJob:
                left.append(m.JobRequeued(action.job_id))
        if len(self.timeline.heap) > MOST_VOID:
            self.compact()
        if follow:  # the scheduler has counted them as void
            left += self._progress.still_measured([self.running[event.job_id] for event in left])
        return follow + left

    def compact(self) -> None:
        """Drop the void entries of the timeline if most are void: revisions and cancellations leave void ends."""
        if len(self.timeline) > MOST_VOID + 4 * (len(self.jobs) + len(self.wakes)):
            self.timeline.compact(self._is_void)

    def _is_void(self, entry: Entry) -> bool:
        _, rank, ident, version = entry
        if rank == GATE:  # of no job: it concerns many
            return ident != 0 and ident not in self.jobs
        if rank not in (END, MEASURE):
            return False
        job = self.running.get(ident)
        return job is None or version != (job.version if rank == END else job.disturbances)

    # Must be called once after all changes of an instant, before the next due entry is asked for: until then the ends of jobs whose
    # neighbours have changed stand at their old times on the timeline. Once, not after each batch: a job that comes and goes at one
    # instant has slowed nobody down.
    def settle(self, now_us: int) -> None:
        """Let the hardware update the end of every job affected by the last changes; no effect without ``settles``."""
        self._progress.settle(now_us)

    def forget(self, job_id: int) -> None:
        """Drop the state of a job that has ended; KeyError if it is unknown."""
        if self.jobs[job_id].end_us is not None:
            del self.jobs[job_id]

    def work_us(self, job: ManagedJob, now_us: int) -> int:
        """Return the work that a running job has done since its start."""
        return self._progress.work_us(job, now_us)

    def unfinished_records(self, now_us: int) -> list[JobRecord]:
        """Return the records of the jobs that have not ended, with their work and allocations up to ``now_us``."""
        if self.processes is not None:
            self.processes.count(now_us)
        return [self._unfinished_record(job, now_us) for job in self.jobs.values()]

    def _unfinished_record(self, job: ManagedJob, now_us: int) -> JobRecord:
        return job.record_at(now_us, self.work_us(job, now_us) if job.id in self.running else 0)

    # ------------------------------------------------------------ events

    def _apply(self, event: m.Event) -> None:
        # An event here has been decided already; what it needs of the state was checked when it was made, so nothing is refused.
        # What leaves its nodes must do so by `RunningJobs.vacate`, which keeps threads, stays and progress in step.
        match event:
            case m.JobEnded() | m.JobSubmitted():
                pass  # the most frequent events: `apply` handles them
            case m.JobRequeued():
                self._requeue(self.jobs[event.job_id], "requeued")
            case m.JobHeld() | m.JobReleased():
                job = self.pending[event.job_id]
                job.held = isinstance(event, m.JobHeld)
                self.diary.note_state(self.now_us, job, "held" if job.held else "released")
            case m.JobModified():
                job = self.pending[event.job.id]
                job.job = job.job._replace(spec=event.job)
                job.estimate_us, job.limit_us = event.job.estimate_us, event.job.limit_us
            case m.NodeFailed():
                self.nodes.take_out(event.node)
            case m.NodeReturned():
                self.nodes.put_back(event.node, self._layers_by_slot())
            case m.ProgressMeasured():
                self._progress.remember(self.running[event.job_id], event.slowdown_ppm)
            case m.QuantumEnded():
                assert self.processes is not None
                self.processes.apply(event)
            case m.Woken():
                self.wakes.discard(event.at_us)
            case m.ActionRefused():
                pass  # it has changed nothing
            case _:
                raise InvariantError(f"only a difficult manager does this by itself: {event}")

    def _requeue(self, job: ManagedJob, why: str) -> None:
        """Put a running job back into the queue."""
        self._running_jobs.vacate(job, self.now_us)
        job.state = PENDING
        job.quanta = 0
        job.shares = ()
        self.pending[job.id] = job
        self.diary.note_state(self.now_us, job, why)

    def _layers_by_slot(self) -> dict[int, list[threads.Layers]]:
        """Return the threads of each job on its nodes, by slot."""
        found: dict[int, list[threads.Layers]] = {}
        for job in self.running.values():
            if not job.on_disk:
                found.setdefault(job.slot, []).append(job.layers)
        return found

    def _end(self, job: ManagedJob, state: str) -> None:
        job_id, now_us = job.id, self.now_us
        left_us = None
        if job_id in self.running:
            left_us = self._running_jobs.vacate(job, now_us)
        else:
            del self.pending[job_id]
        self.notes.drop(job_id)
        self.finish(job, now_us, state, left_us)

    # The last that is done to a job: it must have left the queue, its nodes and the notes before. Its record is complete from here
    # on.
    def finish(self, job: ManagedJob, now_us: int, state: str, left_us: int | None = None) -> None:
        """End a job that is neither pending nor running, and that has left its nodes at ``left_us`` (None: now)."""
        job.state = state
        job.end_us = now_us if left_us is None else left_us
        if self.diary.kept:
            self.diary.note_end(now_us, job)
        if self.left is not None:
            self.left(now_us, job.id, state)
        if self.ended_jobs is not None:
            del self.jobs[job.id]
            self.ended_jobs(job.record())

    # ------------------------------------------------------------ in another manager

    def state(self) -> dict[str, Any]:
        """Return the state in plain values, for `take_over`. All that was due has happened."""
        meter = self.diary.meter
        return {
            "seq": self.seq,
            "now_us": self.now_us,
            "refused": self.refused,
            "jobs": [[job_id, job.state_of()] for job_id, job in self.jobs.items()],
            "pending": list(self.pending),
            "running": self._running_jobs.state(),
            "notes": self.notes.inventory_entries(),
            "wakes": sorted(self.wakes),
            "nodes": self.nodes.state(),
            "rotating": None if self.processes is None else self.processes.turns_state(),
            "energy": None if meter is None else meter.state(self.now_us),
        }

    def take_over(self, state: Mapping[str, Any], jobs: Mapping[int, WorkloadJob]) -> None:
        """Take over the state of another manager, with these jobs; InvariantError if they do not fit this machine. It is a new one."""
        self.seq, self.now_us, self.refused = state["seq"], state["now_us"], state["refused"]
        for job_id, told in state["jobs"]:
            job = self.jobs[job_id] = ManagedJob(jobs[job_id])
            job.take_over(told)
        self.pending.update({job_id: self.jobs[job_id] for job_id in state["pending"]})
        self.nodes.take_over(state["nodes"])
        self._running_jobs.take_over(state["running"], self.jobs, self.now_us)
        for node in sorted(self.nodes.out):
            self.nodes.take_out(node)
        self.notes.take_over(state["notes"])
        for at_us in state["wakes"]:
            self.wakes.add(at_us)
            self.timeline.schedule(at_us, WAKE, 0)
        if self.processes is not None:
            self.processes.take_over_turns(state["rotating"])
        if self.diary.meter is not None and state["energy"] is not None:
            there = [job for job in self.running.values() if not job.on_disk]
            self.diary.meter.take_over(state["energy"], there, self.now_us)

    # ------------------------------------------------------------ invariants

    def check(self) -> None:
        """Recompute the resources that each job holds; InvariantError if they differ."""
        check_holdings(self.machine, self._slots, self.running, self.pending)
        self._progress.check()


def _unaware_refusal(action: m.Action, unaware: Collection[int]) -> str | None:
    """Return why an action was decided without what the manager did to one of its jobs, or None."""
    if isinstance(action, m.SetNote):
        return None
    for job_id in started_by(action) or (getattr(action, "job_id", None),):
        if job_id in unaware:
            return f"the manager has changed job {job_id} itself"
    return None


def _submission(job: ManagedJob) -> tuple[int, int]:
    return (job.job.spec.submit_us, job.id)
