"""A difficult manager: starts and ends come late or otherwise than decided, and it changes jobs by itself.

`Manager`, its running jobs and its agenda know nothing of that. With lags a job is *absent* for a while: it holds its threads and
does not run, before it starts or after it has ended. No inventory shows that: it says what the scheduler knows. What a scheduler
cannot have done to such a job is refused, and it is told of the job at once: so one that asks again at the same instant gets
another answer. `OwnActs` are what the manager does by itself. When, and to which job, follows from the seed and from the state of
the manager alone, so a replay does the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.agenda import ProcessAgenda, taken_off
from cosched_emulator.manager.managed_job import ABSENT, AWAITED, GONE, RUNNING, SUSPENDED, ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord, Stay
from cosched_emulator.manager.running_jobs import RunningJobs
from cosched_emulator.manager.timeline import END, OWN, STARTED, SUBMISSION
from cosched_emulator.scenario.difficult_manager import ACTS, Fate, Lags, OwnPlan
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.draws import uniform
from cosched_hwmodel.units import SECOND_US, ThreadMask
from cosched_plugin.common.allocation import ThreadPool, room_on
from cosched_plugin.common.threads import Layers
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.limits import MAX_SPAN_US


class _Awaited(NamedTuple):
    """A start that was decided, and has not come yet."""

    decided: tuple[int, int]  # batch and action
    fate: Fate


class DifficultJobs(RunningJobs):
    """Running jobs of which some are absent, and some are suspended by the manager itself."""

    def __init__(self, lags: Lags, *parts: Any) -> None:
        """``parts`` are those of `RunningJobs`."""
        super().__init__(*parts)
        self.deciding = (0, 0)  # batch and action that is carried out
        self._lags = lags
        self._awaited: dict[int, _Awaited] = {}
        self._gone_us: dict[int, int] = {}  # when jobs ended that are gone
        self._tries = Counter[int]()  # starts that were decided, by job
        self._noticed: dict[int, ManagedJob] = {}  # absent jobs of which the scheduler asked what is impossible

    def start(self, job: ManagedJob, start: m.StartJob, layers: Layers, now_us: int) -> None:
        """Start a job on its allocated threads, or let it wait for its start there."""
        self._tries[job.id] += 1
        lag_us = self._lags.us("start_s", job.job, self._tries[job.id])
        fate = self._lags.fate(job.id, self._tries[job.id])
        if not lag_us and not fate:
            super().start(job, start, layers, now_us)
            return
        self._seat(job, start, layers, now_us)
        job.state = AWAITED
        job.work_us = 0
        job.version += 1
        self._awaited[job.id] = _Awaited(self.deciding, fate)
        self._progress.change_neighbours(job)
        self._timeline.schedule(now_us + lag_us, STARTED, job.id, job.version)

    def start_by_itself(self, job: ManagedJob, event: m.JobStarted) -> None:
        """Start a job of which no scheduler has decided that."""
        layers = self.pool.place(job.job.spec, event.runs)
        if isinstance(layers, str):
            raise InvariantError(f"the manager starts job {job.id} where it cannot: {layers}")
        self.pool.take(job.job.spec, event.runs, layers)
        start = m.StartJob(job.id, event.runs, event.estimate_us, event.limit_us, event.slot)
        super().start(job, start, layers, event.start_us)

    def awaited_event(self, job: ManagedJob, now_us: int, elsewhere: Callable[[], tuple[m.Run, ...] | None]) -> m.Event:
        """Return what becomes of an awaited job: it starts, maybe in another place, or its start is refused."""
        decided, fate = self._awaited[job.id]
        if fate == "refused":
            return m.ActionRefused(*decided, f"job {job.id} did not start after all", (job.id,))
        runs = elsewhere() if fate == "elsewhere" else None
        return _started(job, now_us) if runs is None else _started(job, now_us)._replace(runs=runs)

    def begin_awaited(self, job: ManagedJob, event: m.JobStarted) -> None:
        """Let a job run that has its threads since its start was decided."""
        if event.runs != job.runs:
            spec = job.job.spec
            self._progress.change_neighbours(job)
            self.pool.give_back(spec, job.runs, job.layers)
            layers = self.pool.place(spec, event.runs)
            assert not isinstance(layers, str), layers
            self.pool.take(spec, event.runs, layers)
            job.runs, job.layers = event.runs, layers
        del self._awaited[job.id]
        job.state = RUNNING
        job.version += 1
        job.start_us = job.since_us = event.start_us
        self._progress.start(job, event.start_us)
        self._diary.note_state(event.start_us, job)

    def take_back(self, refusal: m.ActionRefused) -> list[ManagedJob]:
        """Return the jobs whose start is refused late; a start that was refused at once has left them pending."""
        awaited = [(job_id, self._awaited.get(job_id)) for job_id in refusal.job_ids]
        place = (refusal.seq, refusal.action)
        return [self.by_id[job_id] for job_id, start in awaited if start is not None and start.decided == place]

    def ends_unseen(self, job: ManagedJob, now_us: int) -> bool:
        """Note that a job has done its work, or was killed; return whether it stays, or has not been seen to have ended."""
        number = len(job.intervals)
        extra_us = self._lags.us("extra_s", job.job, number)
        seen_us = now_us + extra_us + self._lags.us("ended_s", job.job, number)
        if seen_us == now_us:
            return False
        job.state = GONE
        job.version += 1
        self._gone_us[job.id] = now_us + extra_us
        self._progress.cease(job, now_us)
        self._timeline.schedule(seen_us, END, job.id, job.version)
        return True

    def vacate(self, job: ManagedJob, now_us: int) -> int:
        """Take a job off its nodes, on which it may not be; return when it has left them."""
        job.held = False
        if job.state not in ABSENT:
            return super().vacate(job, now_us)
        del self.by_id[job.id]
        self._progress.change_neighbours(job)
        self._release(job, now_us)
        self._awaited.pop(job.id, None)
        return min(now_us, self._gone_us.pop(job.id, now_us))

    def present(self, job: ManagedJob, now_us: int) -> Stay | None:
        """Return the open stay of an absent job; None: it has not started."""
        return None if job.state == AWAITED else Stay(job.since_us, min(now_us, self._gone_us[job.id]), job.runs)

    def _leave_nodes(self, job: ManagedJob, now_us: int) -> None:
        if job.state != AWAITED:
            super()._leave_nodes(job, min(now_us, self._gone_us.get(job.id, now_us)))

    def suspend(self, job_id: int, now_us: int, *, to_disk: bool) -> str | None:
        """Suspend a job as `RunningJobs` does; return the reason if that is impossible."""
        job = self.by_id.get(job_id)
        if job is None or job.state not in ABSENT:
            return super().suspend(job_id, now_us, to_disk=to_disk)
        self._noticed[job_id] = job
        return f"stale: job {job_id} {'has not started yet' if job.state == AWAITED else 'has ended'}"

    def resume(self, job_id: int, now_us: int) -> str | None:
        """Resume a job that the scheduler has suspended; return the reason if that is impossible."""
        job = self.by_id.get(job_id)
        if job is not None and job.held:
            return f"the manager has suspended job {job_id}, and it alone resumes it"
        return super().resume(job_id, now_us)

    def noticed_events(self, now_us: int) -> list[m.Event]:
        """Return the events of absent jobs of which the scheduler asked what is impossible."""
        jobs, self._noticed = sorted(self._noticed.items()), {}
        ends = [m.JobEnded(job_id, job.outcome) for job_id, job in jobs if job.state == GONE]
        return [*ends, *[_started(job, now_us) for _, job in jobs if job.state == AWAITED]]

    def suspend_by_itself(self, event: m.JobSuspended) -> None:
        """Suspend a job that the manager alone resumes."""
        reason = self.suspend(event.job_id, event.at_us, to_disk=event.to_disk)
        assert reason is None, reason
        self.by_id[event.job_id].held = True

    def resume_by_itself(self, event: m.JobResumed) -> None:
        """Resume such a job."""
        self.by_id[event.job_id].held = False
        super().resume(event.job_id, event.at_us)

    def revise_by_itself(self, event: m.JobRevised) -> None:
        """Set a new expected run time and limit of a job that is on its nodes; the limit may fall."""
        job = self.by_id[event.job_id]
        job.estimate_us, job.limit_us = event.estimate_us, event.limit_us
        if job.state == RUNNING:
            self._progress.schedule_end(job, job.done_us)

    def forget(self, job_id: int) -> None:
        """Forget a job that has ended."""
        self._tries.pop(job_id, None)


def _started(job: ManagedJob, at_us: int) -> m.JobStarted:
    """Return the event that an awaited job has started."""
    return m.JobStarted(job.id, at_us, job.runs, job.estimate_us, job.limit_us, job.slot)


class DifficultManager(Manager):
    """A manager with lags, which may act by itself."""

    _running_jobs: DifficultJobs

    def __init__(self, lags: Lags, *parts: Any) -> None:
        """``parts`` are those of `Manager`."""
        self.lags = lags
        super().__init__(*parts)

    def _jobs_on_nodes(self) -> DifficultJobs:
        return DifficultJobs(
            self.lags, self._slots, self.running, self._progress, self.diary, self._costs, self.timeline
        )

    def submission_lag_us(self, job: WorkloadJob) -> int:
        """Return how long after its submission the scheduler is told of a job."""
        return self.lags.us("submitted_s", job)

    def seen_end(self, job_id: int, version: int, now_us: int) -> m.JobEnded | None:
        """Return the event of an end that is seen now, as the scheduler is told of it."""
        job = self.jobs.get(job_id)
        if job is None or job.version != version or job.state not in (RUNNING, GONE):
            return None
        if job.state == RUNNING and self._running_jobs.ends_unseen(job, now_us):
            return None
        return m.JobEnded(job_id, m.UNKNOWN if self.lags.loses(job_id) else job.outcome)

    def start_event(self, job_id: int, version: int, now_us: int, *, moves: bool) -> m.Event | None:
        """Return what becomes of a start that was awaited, None if it is void. It may be elsewhere if the job ``moves``."""
        job = self.running.get(job_id)
        if job is None or job.state != AWAITED or job.version != version:
            return None

        def elsewhere() -> tuple[m.Run, ...] | None:
            draw = uniform(job_id, "manager place", self.lags.seed, now_us)
            return free_place(self.pool, job.job.spec, draw) if moves else None

        return self._running_jobs.awaited_event(job, now_us, elsewhere)

    def carry_out(
        self, seq: int, now_us: int, actions: Iterable[m.Action], unaware: Collection[int] = ()
    ) -> list[m.Event]:
        """Carry out the actions as `Manager` does; tell of absent jobs."""
        jobs = self._running_jobs

        def counted() -> Iterator[m.Action]:
            for number, action in enumerate(actions):
                jobs.deciding = (seq, number)
                yield action

        return super().carry_out(seq, now_us, counted(), unaware) + jobs.noticed_events(now_us)

    def _apply(self, event: m.Event) -> None:
        jobs = self._running_jobs
        match event:
            case m.ActionRefused():
                for job in jobs.take_back(event):
                    self._requeue(job, "refused")
            case m.JobStarted() if event.job_id in self.running:
                jobs.begin_awaited(self.running[event.job_id], event)
            case m.JobStarted():
                queue = self.pending if event.job_id in self.pending else self.unseen
                jobs.start_by_itself(queue.pop(event.job_id), event)
            case m.JobRevised():
                jobs.revise_by_itself(event)
            case m.JobSuspended():
                jobs.suspend_by_itself(event)
            case m.JobResumed():
                jobs.resume_by_itself(event)
            case _:
                super()._apply(event)

    def _end(self, job: ManagedJob, state: str) -> None:
        super()._end(job, job.outcome if state == m.UNKNOWN else state)
        self._running_jobs.forget(job.id)

    def _unfinished_record(self, job: ManagedJob, now_us: int) -> JobRecord:
        if job.state not in ABSENT:
            return super()._unfinished_record(job, now_us)
        present = self._running_jobs.present(job, now_us)
        return job.record_at(now_us, job.work_us)._replace(state=RUNNING, present=present)


# Version of the entry by which the scheduler is told of a submission; that of the submission itself is 0
_SEEN: Final = 1


class DifficultAgenda(ProcessAgenda):
    """The agenda of a difficult manager."""

    _manager: DifficultManager

    def __init__(self, manager: DifficultManager, *parts: Any, acts: OwnPlan | None = None, **how: Any) -> None:
        """``parts`` and ``how`` are those of `Agenda`."""
        super().__init__(manager, *parts, **how)
        self._acts = None if acts is None else OwnActs(manager, acts, starts_unheard=self.gate is None)

    def _end(self, job_id: int, version: int, now_us: int) -> m.JobEnded | None:
        return self._manager.seen_end(job_id, version, now_us)

    def _happenings(
        self, rank: int, ident: int, version: int, now_us: int, before: Sequence[m.Event], *, failing: bool
    ) -> list[m.Event]:
        if rank == STARTED:
            # It comes true as decided if nodes fail at the same instant, or another job starts: what they leave is not known yet.
            moves = not any(isinstance(event, m.NodeFailed | m.JobStarted) for event in before)
            came = (
                None if ident in taken_off(before) else self._manager.start_event(ident, version, now_us, moves=moves)
            )
            return [] if came is None else [came]
        if rank == OWN:
            return self._act(ident, version, now_us, alone=not before)
        return super()._happenings(rank, ident, version, now_us, before, failing=failing)

    def _act(self, ident: int, version: int, now_us: int, *, alone: bool) -> list[m.Event]:
        """Return the events of what the manager does by itself."""
        acts = self._acts
        assert acts is not None
        others = len(self._heap) - (acts.standing - 1) - (self._faults.head is not None)
        events = acts.due(ident, version, now_us, alone=alone, last=others <= 0 and not self._endless)
        self.restarted, acts.restarted = self.restarted or acts.restarted, False
        return events

    # ------------------------------------------------------------ submissions that the scheduler hears of later

    def _submission(self, job_id: int, version: int, now_us: int) -> m.JobSubmitted | None:
        unseen = self._manager.unseen
        if version != _SEEN:
            job = self._enter(now_us)
            if job is None or not self._manager.submission_lag_us(job.job):
                return None if job is None else self._tell(job)
            unseen[job_id] = job
            self._schedule_seen(job_id, now_us)
        elif job_id in unseen and not unseen[job_id].held:  # else it was cancelled, or waits to be released
            return self._tell(unseen.pop(job_id))
        return None

    def _schedule_seen(self, job_id: int, now_us: int) -> None:
        job = self._manager.unseen[job_id].job
        seen_us = job.spec.submit_us + self._manager.submission_lag_us(job)
        self._manager.timeline.schedule(max(now_us, seen_us), SUBMISSION, job_id, _SEEN)

    def _change_job(self, item: Scripted, before: Sequence[m.Event]) -> list[m.Event]:
        manager, job_id = self._manager, item.target
        if job_id in manager.unseen:
            self._change_unseen(manager.unseen[job_id], item)
        elif item.change != "cancel" or job_id not in manager.running or manager.running[job_id].state != GONE:
            return super()._change_job(item, before)
        return []

    def _change_unseen(self, job: ManagedJob, item: Scripted) -> None:
        """Carry out a change of a job that the scheduler has not been told of: it is told of no such job that is held."""
        match item.change:
            case "cancel" | "cancel-pending":
                del self._manager.unseen[job.id]
                self._manager.finish(job, item.at_us, m.CANCELLED)
            case "hold":
                job.held = True
            case "release" if job.held:
                job.held = False
                self._schedule_seen(job.id, item.at_us)

    def _of_failure(self, job: ManagedJob) -> m.JobEnded | m.JobRequeued:
        return m.JobEnded(job.id, job.outcome) if job.state == GONE else super()._of_failure(job)


# What the manager does by itself.

_STANDING: Final = 0  # version of the entry of an act, whose id is its place in ACTS
_RESUMPTION: Final = 1  # version of the entry that resumes a job


class OwnActs:
    """The acts of one manager; each kind has one entry on the timeline, which enters the next one when it is due."""

    def __init__(self, manager: DifficultManager, plan: OwnPlan, *, starts_unheard: bool = True) -> None:
        """``starts_unheard``: it may start jobs of which the scheduler has not heard, which nothing else binds."""
        self._manager = manager
        self._starts_unheard = starts_unheard
        self._timeline = manager.timeline
        self._plan = plan
        self._counts = [0] * len(ACTS)
        self.restarted = False  # the manager has restarted: a scheduler must say hello again
        self.standing = 0  # entries of kinds that are still to come
        for kind, name in enumerate(ACTS):
            if plan.every_us.get(name):
                self.standing += 1
                self._schedule(kind, 0)

    def due(self, ident: int, version: int, now_us: int, *, alone: bool, last: bool) -> list[m.Event]:
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
        return [job for _, job in sorted(self._manager.running.items()) if job.state == RUNNING]

    # ------------------------------------------------------------ the acts

    def _start(self, now_us: int) -> list[m.Event]:
        """Start a job that may start and has a place; maybe one of which the scheduler has not heard."""
        manager = self._manager
        unheard = manager.unseen if self._starts_unheard else {}
        jobs = [job for _, job in sorted([*manager.pending.items(), *unheard.items()]) if not job.held]
        first = int(self._draw("start") * len(jobs))
        for job in (*jobs[first:], *jobs[:first]):
            spec = job.job.spec
            runs = free_place(manager.pool, spec, self._draw("place"))
            if runs is not None:
                told = spec if spec.id in unheard else None
                return [m.JobStarted(spec.id, now_us, runs, spec.estimate_us, spec.limit_us, 0, told)]
        return []

    def _modify(self) -> list[m.Event]:
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
        return [m.JobModified(changed)]

    def _revise(self, now_us: int) -> list[m.Event]:
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
        return [m.JobRevised(job.id, estimate_us, limit_us)]

    def _suspend(self, now_us: int) -> list[m.Event]:
        """Suspend a running job on its nodes, for a drawn time."""
        job = self._pick("suspend", self._running())
        if job is None:
            return []
        span_us = max(1, round(-self._plan.suspended_us * math.log1p(-self._draw("suspended"))))
        self._timeline.schedule(now_us + span_us, OWN, job.id, _RESUMPTION)
        return [m.JobSuspended(job.id, now_us)]

    def _resume(self, job_id: int, now_us: int) -> list[m.Event]:
        job = self._manager.running.get(job_id)
        there = job is not None and job.state == SUSPENDED and job.held
        return [m.JobResumed(job_id, now_us)] if there else []


def free_place(pool: ThreadPool, spec: m.JobSpec, draw: float) -> tuple[m.Run, ...] | None:
    """Return free threads on which a job can start, or None: empty nodes before others, from a drawn node on."""
    machine = pool.machine
    first = int(draw * machine.nodes)
    free: dict[int, list[int]] = {}
    may = machine.eligible(spec)
    for node in (*range(first, machine.nodes), *range(first)):
        threads = [thread for thread in range(machine.threads_of[node]) if pool.free[thread] >> node & 1]
        if threads and may >> node & 1:
            free[node] = threads
    chosen: list[m.Run] = []
    left = spec.processes
    for empty in (True, False):
        for node, threads in free.items():
            width = machine.threads_of[node]
            if left and (len(threads) == width) == empty:
                count = min(left, room_on(spec, len(threads), width, pool.free_memory_mb[node]))
                if count:
                    taken = threads if spec.exclusive else threads[: count * spec.threads_per_process]
                    chosen.append(m.Run(node, 1, ThreadMask(sum([1 << thread for thread in taken])), count))
                    left -= count
    return None if left else tuple(sorted(chosen))
