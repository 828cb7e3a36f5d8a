"""The jobs that hold nodes or are on disk: their start, revision, suspension, resumption and end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.diary import Diary
from cosched_emulator.manager.job_ends import JobProgress
from cosched_emulator.manager.managed_job import RUNNING, SUSPENDED, ManagedJob
from cosched_emulator.manager.record import TO_DISK, DiskLeft, Stay
from cosched_emulator.manager.timeline import MEASURE, Timeline
from cosched_plugin.common.allocation import ResumeCosts, times_refusal
from cosched_plugin.common.slots import SlotPools
from cosched_plugin.common.threads import Layers, layers_of
from cosched_plugin.protocol.messages import ReviseJob, StartJob

_new = tuple.__new__  # a call of the class of a named tuple takes twice as long


class RunningJobs:
    """Running jobs by id, with their threads, memory, swap space and progress.

    The caller has checked that a job is pending before it starts, and has taken its threads.
    """

    def __init__(
        self,
        slots: SlotPools,
        running: dict[int, ManagedJob],
        progress: JobProgress,
        diary: Diary,
        resume_costs: ResumeCosts,
        timeline: Timeline,
    ) -> None:
        """``resume_costs``: how long a job that is resumed makes no progress."""
        self.slots = slots
        self.pool = slots.base
        self.by_id = running
        # A scheduler's answer may come late: its revision must not lower a limit that a suspension has extended meanwhile.
        self.allows_late_answers = False
        self._progress = progress
        self._diary = diary
        self._resume_costs = resume_costs
        self._timeline = timeline

    def start(self, job: ManagedJob, start: StartJob, layers: Layers, now_us: int) -> None:
        """Start a job on its allocated threads."""
        self._seat(job, start, layers, now_us)
        self._progress.start(job, now_us)
        if self._diary.kept:
            self._diary.note_state(now_us, job)

    def _seat(self, job: ManagedJob, start: StartJob, layers: Layers, now_us: int) -> None:
        """Give a job its place among the running jobs."""
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

    # The one way off the nodes, whatever the reason (end, kill, requeue, node failure). The order matters: progress first, while
    # the job is still seated, then its threads, then its stay. The version rises, so the end that was scheduled is void.
    def vacate(self, job: ManagedJob, now_us: int) -> int:
        """Take a running job off its nodes, or off the disk; return when it has left them."""
        del self.by_id[job.id]
        self._progress.leave(job, now_us)
        self._release(job, now_us)
        return now_us

    def _release(self, job: ManagedJob, now_us: int) -> None:
        """Give back what a job holds, which makes no progress any more."""
        spec = job.job.spec
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
        if job.leaving:
            job.leaving = False
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
            if job.state == RUNNING:
                self._progress.schedule_end(job, job.done_us)
        return None

    def suspend(self, job_id: int, now_us: int, *, to_disk: bool) -> str | None:
        """Suspend a job on its nodes or to disk; return the reason if that is impossible."""
        job = self.by_id.get(job_id)
        if job is None or job.state != RUNNING:
            return f"job {job_id} does not run"
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

    def resume(self, job_id: int, now_us: int) -> str | None:
        """Resume a suspended job; return the reason if that is impossible."""
        job = self.by_id.get(job_id)
        if job is None or job.suspended_us is None:
            return f"job {job_id} is not suspended"
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
        """Return each job's id, progress and time of its next measurement in plain values, for `take_over`."""
        measured_us = {
            ident: at_us
            for at_us, rank, ident, version in self._timeline.heap
            if rank == MEASURE and ident in self.by_id and self.by_id[ident].disturbances == version
        }
        return [[job_id, self._progress.progress_of(job_id), measured_us.get(job_id)] for job_id in self.by_id]

    def take_over(self, state: Iterable[Sequence[Any]], jobs: Mapping[int, ManagedJob], now_us: int) -> None:
        """Give running jobs of another manager their places and their progress; InvariantError if they do not fit this machine."""
        told = [(jobs[job_id], progress, measured_us) for job_id, progress, measured_us in state]
        for job, _, _ in told:
            spec, pool = job.job.spec, self.slots.pool(job.slot)
            self.by_id[spec.id] = job
            if job.on_disk:
                job.layers = layers_of(job.runs, pool.machine.depth, pool.machine.nodes)
                pool.put_on_disk(spec, job.runs)
                continue
            layers = pool.place(spec, job.runs)
            if isinstance(layers, str):
                raise InvariantError(f"job {spec.id} cannot be where it runs: {layers}")
            job.layers = layers
            pool.take(spec, job.runs, layers)
        self._progress.take_over(told, now_us)

    def _leave_nodes(self, job: ManagedJob, now_us: int) -> None:
        """Record the stay on its nodes that ends now."""
        job.intervals += (_new(Stay, (job.since_us, now_us, job.runs, job.resumed)),)
        if self._diary.kept:
            self._diary.note_occupancy(job)

    def _leave_disk(self, job: ManagedJob, now_us: int) -> None:
        job.leave_disk(now_us)
        self._diary.note(DiskLeft(job.id, job.disk[-1]))
