"""The progress of the running jobs: their ends, and their measured slowdowns.

The hardware determines it; without hardware there is no contention, and every job takes its run time alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappush
from typing import Any

from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.timeline import END, MEASURE, Timeline
from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.common.threads import share_nodes
from cosched_plugin.protocol.messages import COMPLETED, FAILED, TIMEOUT, ProgressMeasured


class JobProgress:
    """The progress of the running jobs; enters their ends and measurements into the manager's timeline."""

    def __init__(
        self,
        timeline: Timeline,
        running: Mapping[int, ManagedJob],
        cluster: ContendedNodes | None = None,
        measure_after_us: int | None = None,
        measure_above_ppm: int = WHOLE_PPM,
    ) -> None:
        """``running`` are the manager's jobs; the other parameters are those of `Manager`."""
        self._timeline = timeline
        self._running = running
        self._cluster = cluster
        self._measure_after_us = measure_after_us
        self._measure_above_ppm = measure_above_ppm
        self._measured: dict[int, ManagedJob] = {}  # running jobs with a valid measurement, by id

    def start(self, job: ManagedJob, now_us: int) -> None:
        """Start a job on its nodes."""
        if self._measured:
            self.change_neighbours(job)
        if self._cluster is not None:
            self._cluster.seat(job.id, job.runs, job.job.run_us, job.job.demand, now_us)
        else:
            self.schedule_end(job, now_us + job.job.run_us)

    def leave(self, job: ManagedJob, now_us: int) -> None:
        """Take a job off its nodes or the disk, and record its work done."""
        if self._measured and not job.on_disk:
            self.change_neighbours(job)
        self.cease(job, now_us)

    def cease(self, job: ManagedJob, now_us: int) -> None:
        """Take a job off the hardware alone, and record its work done; `change_neighbours` follows when that is seen."""
        if self._cluster is not None:
            job.work_us = self._cluster.leave(job.id, now_us)
        else:
            job.work_us = job.work_alone_us(now_us)

    def work_us(self, job: ManagedJob, now_us: int) -> int:
        """Return the work that a running job has done since its start."""
        if self._cluster is not None:
            return self._cluster.work_us(job.id, now_us)
        return job.work_alone_us(now_us)

    def suspend(self, job: ManagedJob, now_us: int) -> None:
        """Stop a job that has just been suspended, and record its work done."""
        self.change_neighbours(job)
        if self._cluster is not None:
            job.work_us = self._cluster.suspend(job.id, now_us)
        else:
            job.work_us = job.work_alone_us(now_us)

    def resume(self, job: ManagedJob, now_us: int) -> None:
        """Let a job continue, immediately or when it is back from disk."""
        self.change_neighbours(job)
        if self._cluster is not None:
            self._cluster.resume(job.id, now_us, max(now_us, job.ready_us) - now_us)
        else:
            self.schedule_end(job, job.done_us)

    def schedule_end(self, job: ManagedJob, end_us: int) -> None:
        """Enter the job's end: its completion, or its kill if the limit comes first. Completion beats a kill at the same time."""
        job.version += 1
        job.done_us = end_us
        job.outcome = FAILED if job.job.exit_code else COMPLETED
        if job.limit_us is not None and end_us > job.start_us + job.limit_us:
            end_us = job.start_us + job.limit_us
            job.outcome = TIMEOUT
        heappush(self._timeline.heap, (end_us, END, job.id, job.version))  # as `Timeline.schedule`

    def progress_of(self, job_id: int) -> dict[str, Any] | None:
        """Return the progress of a running job in plain values, for `take_over`; None: its end says all."""
        return None if self._cluster is None else self._cluster.progress_of(job_id)

    def take_over(self, jobs: Iterable[tuple[ManagedJob, Mapping[str, Any] | None, int | None]], now_us: int) -> None:
        """Let running jobs go on that ran elsewhere: each with what `progress_of` said there, and the time of its next measurement."""
        jobs = list(jobs)
        moved: dict[int, int] = {}
        if self._cluster is not None:
            for job, so_far, _ in jobs:
                assert so_far is not None
                suspended = job.suspended_us is not None
                spec, whole = job.job.spec, job.job
                self._cluster.take_over(spec.id, job.runs, whole.run_us, whole.demand, so_far, suspended=suspended)
            moved = dict(self._cluster.settle(now_us))  # none, but by a program with another model
        for job, _, measured_us in jobs:
            if job.suspended_us is None:
                self.schedule_end(job, moved.get(job.id, job.done_us))
            if measured_us is not None:
                self._timeline.schedule(measured_us, MEASURE, job.id, job.disturbances)
            if job.measured_ppm:
                self.remember(job, job.measured_ppm)

    def settle(self, now_us: int) -> None:
        """Let the hardware update the end of every job affected by the last changes."""
        if self._cluster is not None:
            if self._measure_after_us is not None:
                for job_id in self._cluster.disturbed_jobs():
                    job = self._running[job_id]
                    job.disturbances += 1
                    since_us = max(now_us, job.ready_us)  # no progress to measure before this time
                    self._timeline.schedule(since_us + self._measure_after_us, MEASURE, job_id, job.disturbances)
            for job_id, end_us in self._cluster.settle(now_us):
                self.schedule_end(self._running[job_id], end_us)

    def measure(self, job_id: int) -> ProgressMeasured | None:
        """Return the event for a measurement of a running job; None if its slowdown is too small to report."""
        if self._cluster is None:
            return None
        slowdown_ppm = round(self._cluster.slowdown(job_id) * WHOLE_PPM)
        return ProgressMeasured(job_id, slowdown_ppm) if slowdown_ppm > self._measure_above_ppm else None

    def remember(self, job: ManagedJob, slowdown_ppm: int) -> None:
        """Record the measured slowdown of a job; it is valid until its neighbours change."""
        job.measured_ppm = slowdown_ppm
        self._measured[job.id] = job

    def still_measured(self, leaving: Iterable[ManagedJob]) -> list[ProgressMeasured]:
        """Return the measurements that hold, but for those of jobs beside some that are ``leaving``."""
        layers = [job.layers for job in leaving]
        return [
            ProgressMeasured(job_id, job.measured_ppm)
            for job_id, job in sorted(self._measured.items())
            if not any(share_nodes(job.layers, theirs) for theirs in layers)
        ]

    def check(self) -> None:
        """Check the hardware; AssertionError if it contradicts itself."""
        if self._cluster is not None:
            self._cluster.check()

    def change_neighbours(self, cause: ManagedJob) -> None:
        """Forget the measurements of a job that starts, ends, is suspended or resumed, and of its neighbours."""
        if not self._measured:
            return
        for job_id in [job_id for job_id, job in self._measured.items() if share_nodes(job.layers, cause.layers)]:
            self._measured.pop(job_id).measured_ppm = 0
