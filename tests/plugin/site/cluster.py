"""A cluster in virtual time that is looked at and given orders, as a real manager is: what it does takes time, and may fail."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.config import choose
from cosched_plugin.core.engine import Policy, SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory
from cosched_plugin.site.driver import Driver, Outcome, Unsettled
from cosched_plugin.site.snapshots import PENDING, RUNNING, SUSPENDED, PolledJob, Snapshot

NODES: Final = 4
WIDTH: Final = 4
MACHINE: Final = m.Welcome(
    m.PROTOCOL_VERSION, m.FEATURES, 0, 0, (m.NodeClass(NODES, 1, WIDTH, 1, 0, 0, 0, 0),), (), m.Belief("none", "bulk-synchronous", ()),
    (), (), (), (),
)  # fmt: skip
FORGET_US: Final = 60 * SECOND_US  # an ended job is shown for so long


class Pausing:
    """EASY that also suspends, resumes, kills and requeues running jobs, in turn with the seconds."""

    def __init__(self) -> None:
        self.inner = choose("easy").make()

    def decide(self, view: View) -> Iterator[m.Action]:
        yield from self.inner.decide(view)
        second = view.now_us // SECOND_US
        for running in sorted(view.running.values(), key=lambda running: running.job.id):
            job_id = running.job.id
            if running.leaving or running.held or (job_id + second) % 3:
                continue
            if running.suspended_us is not None and running.suspended_us < view.now_us:
                yield m.ResumeJob(job_id)
            elif running.suspended_us is None and view.now_us > running.start_us + 5 * SECOND_US:
                kind = (job_id + second) % 12
                yield m.KillJob(job_id) if kind == 0 else m.RequeueJob(job_id) if kind == 3 else m.SuspendJob(job_id)
        if any(running.suspended_us is not None for running in view.running.values()):
            yield m.WakeAt((second + 7) * SECOND_US)


def policy_of(name: str) -> Policy:
    return Pausing() if name == "pausing" else choose(name).make()


def core_of(policy: str, welcome: m.Welcome) -> Scheduler:
    return SchedulerCore(policy_of(policy), welcome)


class ClusterJob:
    """A job there."""

    def __init__(self, spec: m.JobSpec, run_us: int) -> None:
        self.spec = spec
        self.run_us = run_us
        self.state = "COMING"
        self.held = False
        self.starts_us: int | None = None  # a start that was accepted comes true then
        self.start_us = 0
        self.runs: tuple[m.Run, ...] = ()
        self.limit_us = spec.limit_us
        self.since_us = 0
        self.idle_us = 0
        self.ended_us = 0
        self.restarts = 0

    @property
    def end_us(self) -> int | None:
        """Return when it ends if nothing happens to it."""
        if self.state != RUNNING:
            return None
        return self.start_us + self.idle_us + min(self.run_us, self.limit_us or self.run_us)

    def seen(self) -> PolledJob:
        running = self.state in (RUNNING, SUSPENDED)
        return PolledJob(
            self.spec,
            self.state,
            self.held,
            self.start_us if running else 0,
            self.runs if running else (),
            limit_us=self.limit_us,
            since_us=self.since_us if self.state == SUSPENDED else 0,
            restarts=self.restarts,
        )


class Cluster:
    """Jobs and their states. ``delay_us`` passes between a start's order and the start; ``troubles`` draws what goes wrong."""

    def __init__(self, jobs: list[tuple[m.JobSpec, int]], delay_us: int = 0, troubles: Random | None = None) -> None:
        self.jobs = {spec.id: ClusterJob(spec, run_us) for spec, run_us in jobs}
        self.delay_us = delay_us
        self.troubles = troubles
        self.now_us = 0
        self.down: set[int] = set()
        self.withdrawn = 0
        self.holds_withdrawn = False
        self.refused = 0
        self.unknown = 0

    # ------------------------------------------------------------ time

    def due_us(self) -> int | None:
        """Return when something happens next."""
        due = [job.spec.submit_us for job in self.jobs.values() if job.state == "COMING"]
        due += [job.starts_us for job in self.jobs.values() if job.starts_us is not None]
        due += [job.end_us for job in self.jobs.values() if job.end_us is not None]
        return min(due, default=None)

    def go_to(self, now_us: int) -> None:
        """Let time pass."""
        while (due_us := self.due_us()) is not None and due_us <= now_us:
            for job in self.jobs.values():
                if job.state == "COMING" and job.spec.submit_us <= due_us:
                    job.state = PENDING
                if job.end_us is not None and job.end_us <= due_us:
                    job.state = m.COMPLETED if job.run_us <= (job.limit_us or job.run_us) else m.TIMEOUT
                    job.ended_us = due_us
            for job in self.jobs.values():
                if job.starts_us is not None and job.starts_us <= due_us:
                    if self._free_for(job):
                        job.state, job.start_us, job.starts_us = RUNNING, due_us, None
                        job.idle_us = 0
                    else:
                        job.starts_us = due_us + SECOND_US
        self.now_us = now_us

    def _free_for(self, job: ClusterJob) -> bool:
        taken = {
            (node, bit)
            for other in self.jobs.values()
            if other.state in (RUNNING, SUSPENDED)
            for node, bit in _places(other.runs)
        }
        wanted = set(_places(job.runs))
        return not wanted & taken and not {node for node, _ in wanted} & self.down

    def look(self) -> Snapshot:
        """Return what is shown now."""
        there = {
            job_id: job.seen()
            for job_id, job in self.jobs.items()
            if job.state != "COMING" and (not job.ended_us or self.now_us - job.ended_us <= FORGET_US)
        }
        return Snapshot(there, frozenset(self.down))

    # ------------------------------------------------------------ orders

    def carry_out(self, action: m.Action) -> Outcome:
        """Do what is asked, or say why not."""
        draw = 1.0 if self.troubles is None else self.troubles.random()
        if draw < 0.05:
            self.refused += 1
            return "the cluster would not"
        done = self._do(action) if draw >= 0.08 or self.troubles is None or self.troubles.random() < 0.5 else None
        if 0.05 <= draw < 0.08:
            self.unknown += 1
            return Unsettled("the cluster did not answer")
        return done

    def _do(self, action: m.Action) -> str | None:
        match action:
            case m.StartJob():
                return self._start(action)
            case m.StartTogether():
                reasons = [self._start(start) for start in action.starts]
                return next((reason for reason in reasons if reason is not None), None)
            case m.ReviseJob(job_id, _, limit_us):
                self.jobs[job_id].limit_us = None if limit_us is None else limit_us - self.jobs[job_id].idle_us
            case m.SuspendJob(job_id):
                self.suspend(job_id)
            case m.ResumeJob(job_id):
                self.resume(job_id)
            case m.RejectJob(job_id) | m.KillJob(job_id):
                self.cancel(job_id)
            case m.RequeueJob(job_id):
                self.requeue(job_id)
        return None

    def _start(self, start: m.StartJob) -> str | None:
        job = self.jobs[start.job_id]
        if job.state == RUNNING and job.runs == start.runs:
            return None  # the same order once more
        if job.state != PENDING or job.held:
            return f"job {start.job_id} is {job.state}"
        job.runs, job.limit_us = start.runs, start.limit_us
        job.starts_us = self.now_us + self.delay_us
        self.go_to(self.now_us)
        return None

    def withdraw(self, start: m.StartJob) -> bool:
        """Forget a start that has not come true."""
        self.withdrawn += 1
        self.jobs[start.job_id].starts_us = None
        return self.holds_withdrawn

    # ------------------------------------------------------------ what users and operators do

    def cancel(self, job_id: int) -> None:
        job = self.jobs[job_id]
        if not job.ended_us:  # the same order once more
            job.state, job.ended_us, job.starts_us = m.CANCELLED, self.now_us, None

    def suspend(self, job_id: int) -> None:
        job = self.jobs[job_id]
        if job.state == RUNNING:
            job.state, job.since_us = SUSPENDED, self.now_us

    def resume(self, job_id: int) -> None:
        job = self.jobs[job_id]
        if job.state == SUSPENDED:
            job.state = RUNNING
            job.idle_us += self.now_us - job.since_us
            job.since_us = self.now_us

    def requeue(self, job_id: int) -> None:
        job = self.jobs[job_id]
        if job.state in (RUNNING, SUSPENDED):
            job.state, job.starts_us = PENDING, None
            job.restarts += 1
            job.spec = job.spec._replace(submit_us=self.now_us)  # as Slurm does

    def start_itself(self, job_id: int, runs: tuple[m.Run, ...]) -> None:
        job = self.jobs[job_id]
        before = job.runs
        job.runs = runs
        if job.state == PENDING and job.starts_us is None and self._free_for(job):
            job.state, job.start_us = RUNNING, self.now_us
        else:
            job.runs = before


def _places(runs: tuple[m.Run, ...]) -> list[tuple[int, int]]:
    return [
        (node, bit)
        for first, count, mask, _ in runs
        for node in range(first, first + count)
        for bit in range(mask.bit_length())
        if mask >> bit & 1
    ]


def settle(driver: Driver, make: SchedulerFactory, scheduler: Scheduler | None = None) -> Scheduler:
    """Ask a scheduler in this process until nothing follows, and return the one to ask next; a new one where it must begin anew."""
    if scheduler is None or driver.unsettled:
        scheduler = make(driver.inventory())
    while (batch := driver.next_batch()) is not None:
        driver.answer(batch.now_us, scheduler.handle(batch.now_us, batch.events))
    return scheduler
