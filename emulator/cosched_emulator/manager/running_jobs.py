"""The jobs that hold nodes or are on disk: their start, revision, suspension, resumption and end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.diary import Diary
from cosched_emulator.manager.job_ends import JobProgress
from cosched_emulator.manager.managed_job import AWAITED, GONE, RUNNING, SUSPENDED, ManagedJob
from cosched_emulator.manager.record import TO_DISK, Stay
from cosched_emulator.manager.time_sharing.shared_progress import ProcessProgress
from cosched_emulator.manager.timeline import END, MEASURE, STARTED, Timeline
from cosched_emulator.scenario.difficult_manager import Lags
from cosched_plugin.common.allocation import Layers, ResumeCosts, layers_of, times_refusal
from cosched_plugin.common.slots import SlotPools
from cosched_plugin.protocol.messages import (
    ActionRefused,
    Event,
    JobEnded,
    JobRevised,
    JobSpec,
    JobStarted,
    JobSuspended,
    ReviseJob,
    Run,
    StartJob,
)

_new = tuple.__new__  # a call of the class of a named tuple takes twice as long


class RunningJobs:
    """Running jobs by id, with their threads, memory, swap space and progress.

    The caller has checked that a job is pending before it starts, and has taken its threads.
    """

    __slots__ = (
        "_diary",
        "_lags",
        "_noticed",
        "_progress",
        "_resume_costs",
        "_timeline",
        "allows_late_answers",
        "by_id",
        "deciding",
        "pool",
        "slots",
    )

    def __init__(
        self,
        slots: SlotPools,
        progress: JobProgress | ProcessProgress,
        diary: Diary,
        resume_costs: ResumeCosts,
        timeline: Timeline,
        lags: Lags | None,
    ) -> None:
        """``resume_costs``: how long a job that is resumed makes no progress; None: no ``lags``."""
        self.slots = slots
        self.pool = slots.base
        self.by_id: dict[int, ManagedJob] = {}
        # A scheduler's answer may come late: its revision must not lower a limit that a suspension has extended meanwhile.
        self.allows_late_answers = False
        self._progress = progress
        self._diary = diary
        self._resume_costs = resume_costs
        self._timeline = timeline
        self._lags = lags
        self.deciding = (0, 0)  # batch and action that is carried out; kept where there are lags
        self._noticed: dict[int, ManagedJob] = {}  # absent jobs of which the scheduler asked what is impossible

    def start(self, job: ManagedJob, start: StartJob, layers: Layers, now_us: int, *, own: bool = False) -> None:
        """Start a job on its allocated threads; ``own``: no scheduler has decided that."""
        job_id, runs, job.estimate_us, job.limit_us, slot = start
        self.by_id[job_id] = job
        job.state = RUNNING
        job.start_us = job.since_us = now_us
        job.runs = tuple(runs)
        job.layers = layers
        if slot != job.slot:
            job.slot = slot
        if job.intervals:  # it returns from disk
            job.resumed = False
            job.idle_us = job.ready_us = 0
        if self._lags is not None and not own:
            job.tries += 1
            lag_us = self._lags.us("start_s", job.job, job.tries)
            job.fate = self._lags.fate(job_id, job.tries)
            if lag_us or job.fate:
                job.absent = AWAITED
                job.decided = self.deciding
                job.work_us = 0
                job.version += 1
                self._progress.change_neighbours(job)
                self._timeline.schedule(now_us + lag_us, STARTED, job_id, job.version)
                return
        self._progress.start(job, now_us)
        if self._diary.kept:
            self._diary.note_state(now_us, job)

    # Lags. A job is absent while it holds its threads and does not run: before it starts, and after it has ended. Nothing of that
    # is visible in an inventory, which says what the scheduler knows. What a scheduler cannot have done to such a job is refused, and
    # the job is told of at once: a scheduler that asks again at the same instant then gets another answer.

    def begin_awaited(self, event: JobStarted) -> None:
        """Let a job run that has its threads since its start was decided."""
        job = self.by_id[event.job_id]
        if event.runs != job.runs:
            spec = job.job.spec
            self._progress.change_neighbours(job)
            self.pool.give_back(spec, job.runs, job.layers)
            layers = self.pool.place(spec, event.runs)
            assert not isinstance(layers, str), layers
            self.pool.take(spec, event.runs, layers)
            job.runs, job.layers = event.runs, layers
        job.absent = ""
        job.version += 1
        job.start_us = job.since_us = event.start_us
        self._progress.start(job, event.start_us)
        self._diary.note_state(event.start_us, job)

    def ends_unseen(self, job: ManagedJob, now_us: int) -> bool:
        """Note that a job has done its work, or was killed; return whether it stays, or has not been seen to have ended."""
        if self._lags is None or job.absent:
            return False
        number = len(job.intervals)
        extra_us = self._lags.us("extra_s", job.job, number)
        seen_us = now_us + extra_us + self._lags.us("ended_s", job.job, number)
        if seen_us == now_us:
            return False
        job.absent = GONE
        job.gone_us = now_us + extra_us
        job.version += 1
        self._progress.cease(job, now_us)
        self._timeline.schedule(seen_us, END, job.id, job.version)
        return True

    def awaited_event(self, job: ManagedJob, now_us: int, place: Callable[[JobSpec], tuple[Run, ...] | None]) -> Event:
        """Return what becomes of an awaited job: it starts, maybe at another ``place``, or its start is refused."""
        job_id = job.id
        if job.fate == "refused":
            return ActionRefused(*job.decided, f"job {job_id} did not start after all", (job_id,))
        event = started(job, now_us)
        runs = place(job.job.spec) if job.fate == "elsewhere" else None
        return event if runs is None else event._replace(runs=runs)

    def suspend_by_itself(self, event: JobSuspended) -> None:
        """Suspend a job that the manager alone resumes."""
        reason = self.suspend(event.job_id, event.at_us, to_disk=event.to_disk)
        assert reason is None, reason
        self.by_id[event.job_id].held = True

    def revise_by_itself(self, event: JobRevised) -> None:
        """Set a new expected run time and limit of a job that is on its nodes; the limit may fall."""
        job = self.by_id[event.job_id]
        job.estimate_us, job.limit_us = event.estimate_us, event.limit_us
        if job.state == RUNNING and not job.absent:
            self._progress.schedule_end(job, job.done_us)

    def told_at_once(self, now_us: int) -> list[Event]:
        """Return the events of absent jobs of which the scheduler asked what is impossible."""
        if not self._noticed:
            return []
        jobs, self._noticed = self._noticed, {}
        ends: list[Event] = [
            JobEnded(job_id, job.outcome) for job_id, job in sorted(jobs.items()) if job.absent == GONE
        ]
        starts = [started(job, now_us) for _, job in sorted(jobs.items()) if job.absent == AWAITED]
        return [*ends, *starts]

    # The one way off the nodes, whatever the reason (end, kill, requeue, node failure). The order matters: progress first, while
    # the job is still seated, then its threads, then its stay. The version rises, so the end that was scheduled is void.
    def vacate(self, job: ManagedJob, now_us: int) -> None:
        """Take a running job off its nodes, or off the disk."""
        spec = job.job.spec
        del self.by_id[job.id]
        if job.absent:
            self._progress.change_neighbours(job)
        else:
            self._progress.leave(job, now_us)
        if job.on_disk:
            self.pool.drop_from_disk(spec, job.runs)
            self._leave_disk(job, now_us)
        else:
            if job.slot:
                self.slots.pool(job.slot).give_back(spec, job.runs, job.layers)
                self.slots.drop(job.slot)
            else:
                self.pool.give_back(spec, job.runs, job.layers)
            if job.suspended_us is not None:
                job.end_suspension(now_us)
            self._leave_nodes(job, now_us)
        job.version += 1
        if job.absent:
            job.absent = ""
        if job.leaving:
            job.leaving = False
        if job.held:
            job.held = False
        if job.suspended_us is not None or job.ready_us:
            job.idle_us += now_us - job.idle_until(now_us)
            job.suspended_us = None

    def revise(self, revision: ReviseJob) -> str | None:
        """Set a new expected run time and limit of a job; return the reason if that is impossible."""
        job = self.by_id.get(revision.job_id)
        if job is None:
            return f"job {revision.job_id} does not run"
        if self.allows_late_answers and job.limit_us is not None and revision.limit_us is not None:
            revision = revision._replace(limit_us=max(revision.limit_us, job.limit_us))
        reason = times_refusal(job.limit_us, revision)
        if reason is not None:
            return reason
        job.estimate_us = revision.estimate_us
        if job.limit_us != revision.limit_us:
            job.limit_us = revision.limit_us
            if job.state == RUNNING and not job.absent:
                self._progress.schedule_end(job, job.done_us)
        return None

    def suspend(self, job_id: int, now_us: int, *, to_disk: bool) -> str | None:
        """Suspend a job on its nodes or to disk; return the reason if that is impossible."""
        job = self.by_id.get(job_id)
        if job is None or job.state != RUNNING:
            return f"job {job_id} does not run"
        if job.absent:
            self._noticed[job_id] = job
            return f"stale: job {job_id} {'has not started yet' if job.absent == AWAITED else 'has ended'}"
        spec = job.job.spec
        if to_disk:
            reason = self.pool.disk_refusal(spec, job.runs)
            if reason is not None:
                return reason
            self.slots.pool(job.slot).to_disk(spec, job.runs, job.layers)
            self.slots.drop(job.slot)
            job.on_disk = True
            self._leave_nodes(job, now_us)
        job.state = SUSPENDED
        job.suspended_us = now_us
        job.version += 1
        self._progress.suspend(job, now_us)
        self._diary.note_state(now_us, job, TO_DISK if to_disk else "")
        return None

    def resume(self, job_id: int, now_us: int, *, own: bool = False) -> str | None:
        """Resume a suspended job; return the reason if that is impossible. ``own``: the manager does."""
        job = self.by_id.get(job_id)
        if job is None or job.suspended_us is None:
            return f"job {job_id} is not suspended"
        if job.held and not own:
            return f"the manager has suspended job {job_id}, and it alone resumes it"
        job.held = False
        since_us, on_disk = job.idle_until(now_us), job.on_disk
        if on_disk:
            spec = job.job.spec
            pool = self.slots.pool(job.slot)
            reason = pool.return_refusal(spec, job.runs, job.layers)
            if reason is not None:
                return reason
            pool.from_disk(spec, job.runs, job.layers)
            self._leave_disk(job, now_us)
        else:
            job.end_suspension(now_us)
        job.ready_us = self._resume_costs.ready_us(job.job.spec, job.runs, job.ready_us, now_us, on_disk=on_disk)
        job.lose(max(now_us, job.ready_us) - since_us)
        job.state = RUNNING
        job.suspended_us = None
        self._progress.resume(job, now_us)
        self._diary.note_state(now_us, job, "resumed")
        return None

    def change_slot(self, job: ManagedJob, slot: int) -> None:
        """Put a running job into another slot, in which its threads are free; it stays on its nodes, or on the disk."""
        if not job.on_disk:
            spec = job.job.spec
            self.slots.pool(job.slot).give_back(spec, job.runs, job.layers)
            self.slots.drop(job.slot)
            self.slots.pool(slot).take(spec, job.runs, job.layers)
        job.slot = slot

    # ------------------------------------------------------------ in another manager

    def state(self) -> list[list[Any]]:
        """Return each job's id, progress and time of its next measurement in plain values, for `carry_on`. There are no lags."""
        measured_us = {
            ident: at_us
            for at_us, rank, ident, version in self._timeline.heap
            if rank == MEASURE and ident in self.by_id and self.by_id[ident].disturbances == version
        }
        return [[job_id, self._progress.progress_of(job_id), measured_us.get(job_id)] for job_id in self.by_id]

    def carry_on(self, state: Iterable[Sequence[Any]], jobs: Mapping[int, ManagedJob], now_us: int) -> None:
        """Give running jobs of another manager their places and their progress; InvariantError if they do not fit this machine."""
        told = [(jobs[job_id], progress, measured_us) for job_id, progress, measured_us in state]
        for job, _, _ in told:
            spec, pool = job.job.spec, self.slots.pool(job.slot)
            self.by_id[spec.id] = job
            if job.on_disk:
                job.layers = layers_of(job.runs, pool.machine.depth)
                pool.put_on_disk(spec, job.runs)
                continue
            layers = pool.place(spec, job.runs)
            if isinstance(layers, str):
                raise InvariantError(f"job {spec.id} cannot be where it runs: {layers}")
            job.layers = layers
            pool.take(spec, job.runs, layers)
        self._progress.carry_on(told, now_us)

    def _leave_nodes(self, job: ManagedJob, now_us: int) -> None:
        """Record the stay on its nodes that ends now."""
        if job.absent:
            if job.absent == AWAITED:
                return
            assert job.gone_us is not None
            now_us = min(now_us, job.gone_us)
        job.intervals += (_new(Stay, (job.since_us, now_us, job.runs, job.resumed)),)
        if self._diary.kept:
            self._diary.note_occupancy(job)

    def _leave_disk(self, job: ManagedJob, now_us: int) -> None:
        job.leave_disk(now_us)
        self._diary.note_disk_time(job)


def started(job: ManagedJob, at_us: int) -> JobStarted:
    """Return the event that an awaited job has started."""
    return JobStarted(job.id, at_us, job.runs, job.estimate_us, job.limit_us, job.slot)
