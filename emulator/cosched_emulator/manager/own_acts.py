"""What a difficult manager does by itself: it starts, modifies, revises, suspends and resumes jobs, and restarts.

When, and to which job, follows from the seed and from the state of the manager alone, so a replay does the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from cosched_emulator.manager.managed_job import RUNNING, SUSPENDED, ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.timeline import OWN
from cosched_emulator.scenario.difficult_manager import ACTS, OwnPlan
from cosched_hwmodel.draws import uniform
from cosched_hwmodel.units import SECOND_US, ThreadMask
from cosched_plugin.common.allocation import ThreadPool, room_on
from cosched_plugin.protocol.limits import MAX_SPAN_US
from cosched_plugin.protocol.messages import (
    Event,
    JobModified,
    JobResumed,
    JobRevised,
    JobSpec,
    JobStarted,
    JobSuspended,
    Run,
)

_STANDING: Final = 0  # version of the entry of an act, whose id is its place in ACTS
_RESUMPTION: Final = 1  # version of the entry that resumes a job


class OwnActs:
    """The acts of one manager; each kind has one entry on the timeline, which enters the next one when it is due."""

    __slots__ = ("_counts", "_manager", "_plan", "_timeline", "restarted", "standing")

    def __init__(self, manager: Manager, plan: OwnPlan) -> None:
        self._manager = manager
        self._timeline = manager.timeline
        self._plan = plan
        self._counts = [0] * len(ACTS)
        self.restarted = False  # the manager has restarted: a scheduler must say hello again
        self.standing = 0  # entries of kinds that are still to come
        for kind, name in enumerate(ACTS):
            if plan.every_us.get(name):
                self.standing += 1
                self._schedule(kind, 0)

    def due(self, ident: int, version: int, now_us: int, *, alone: bool, last: bool) -> list[Event]:
        """Return the events of the entry that is due.

        An act is ``alone`` at its instant, or comes a microsecond later: so it finds the state that the scheduler knows. If it is
        the ``last``, as nothing else will happen any more, its kind comes to its end.
        """
        if not alone:
            self._timeline.schedule(now_us + 1, OWN, ident, version)
            return []
        if version == _RESUMPTION:
            return self._resume(ident, now_us)
        if last:
            self.standing -= 1
            return []
        self._counts[ident] += 1
        self._schedule(ident, now_us)
        match ACTS[ident]:
            case "start":
                return self._start(now_us)
            case "modify":
                return self._modify()
            case "revise":
                return self._revise(now_us)
            case "suspend":
                return self._suspend(now_us)
            case "restart":
                self.restarted = True
        return []

    def _schedule(self, kind: int, now_us: int) -> None:
        name = ACTS[kind]
        part = uniform(self._plan.seed, f"manager next {name}", self._counts[kind])
        gap_us = max(1, round(-self._plan.every_us[name] * math.log1p(-part)))
        self._timeline.schedule(now_us + gap_us, OWN, kind, _STANDING)

    def _draw(self, name: str, *more: int) -> float:
        return uniform(self._plan.seed, f"manager {name}", *self._counts, *more)

    def _pick(self, name: str, jobs: Sequence[ManagedJob]) -> ManagedJob | None:
        return jobs[int(self._draw(name) * len(jobs))] if jobs else None

    def _running(self) -> list[ManagedJob]:
        return [job for _, job in sorted(self._manager.running.items()) if job.state == RUNNING and not job.absent]

    # ------------------------------------------------------------ the acts

    def _start(self, now_us: int) -> list[Event]:
        """Start a job that may start and has a place; maybe one of which the scheduler has not heard."""
        manager = self._manager
        unheard = manager.unseen
        jobs = [job for _, job in sorted([*manager.pending.items(), *unheard.items()]) if not job.held]
        first = int(self._draw("start") * len(jobs))
        for job in (*jobs[first:], *jobs[:first]):
            spec = job.job.spec
            runs = free_place(manager.pool, spec, self._draw("place"))
            if runs is not None:
                told = spec if spec.id in unheard else None
                return [JobStarted(spec.id, now_us, runs, spec.estimate_us, spec.limit_us, 0, told)]
        return []

    def _modify(self) -> list[Event]:
        """Give a pending job another estimate, limit and size."""
        job = self._pick("modify", [job for _, job in sorted(self._manager.pending.items())])
        if job is None:
            return []
        spec = job.job.spec
        factor = (0.5, 1.0, 2.0)[int(self._draw("estimate") * 3)]
        estimate_us = min(max(1, round(spec.estimate_us * factor)), MAX_SPAN_US // 4)
        limit_us = None if spec.limit_us is None else min(max(1, round(spec.limit_us * factor)), MAX_SPAN_US // 4)
        changed = spec._replace(estimate_us=estimate_us, limit_us=limit_us)
        if self._manager.processes is None:  # their programs are made for a number of processes
            sizes = (spec.processes, max(1, spec.processes // 2), spec.processes + 1)
            larger = changed._replace(processes=sizes[int(self._draw("size") * 3)])
            changed = changed if self._manager.refusal_of(larger) else larger
        return [JobModified(changed)]

    def _revise(self, now_us: int) -> list[Event]:
        """Give a running job another expected run time and limit, which may fall, but not below what it has run."""
        job = self._pick("revise", self._running())
        if job is None:
            return []
        factor = 0.75 + 0.75 * self._draw("limit")
        least_us = now_us - job.start_us + SECOND_US
        limit_us = job.limit_us
        if limit_us is not None:
            least_us = least_us if self._manager.processes is None else limit_us
            limit_us = min(max(least_us, round(limit_us * factor)), MAX_SPAN_US // 4)
        estimate_us = min(max(1, round(job.estimate_us * factor)), MAX_SPAN_US // 4)
        return [JobRevised(job.id, estimate_us, limit_us)]

    def _suspend(self, now_us: int) -> list[Event]:
        """Suspend a running job on its nodes, for a drawn time."""
        job = self._pick("suspend", self._running())
        if job is None:
            return []
        span_us = max(1, round(-self._plan.suspended_us * math.log1p(-self._draw("suspended"))))
        self._timeline.schedule(now_us + span_us, OWN, job.id, _RESUMPTION)
        return [JobSuspended(job.id, now_us)]

    def _resume(self, job_id: int, now_us: int) -> list[Event]:
        job = self._manager.running.get(job_id)
        there = job is not None and job.state == SUSPENDED and job.held
        return [JobResumed(job_id, now_us)] if there else []


def free_place(pool: ThreadPool, spec: JobSpec, draw: float) -> tuple[Run, ...] | None:
    """Return free threads on which a job can start, or None: empty nodes before others, from a drawn node on."""
    machine = pool.machine
    first = int(draw * machine.nodes)
    free: dict[int, list[int]] = {}
    for node in (*range(first, machine.nodes), *range(first)):
        threads = [thread for thread in range(machine.threads_of[node]) if pool.free[thread] >> node & 1]
        if threads:
            free[node] = threads
    chosen: list[Run] = []
    left = spec.processes
    for empty in (True, False):
        for node, threads in free.items():
            width = machine.threads_of[node]
            if left and (len(threads) == width) == empty:
                count = min(left, room_on(spec, len(threads), width, pool.free_memory_mb[node]))
                if count:
                    taken = threads if spec.exclusive else threads[: count * spec.threads_per_process]
                    chosen.append(Run(node, 1, ThreadMask(sum([1 << thread for thread in taken])), count))
                    left -= count
    return None if left else tuple(sorted(chosen))
