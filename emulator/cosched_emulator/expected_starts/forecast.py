"""One copy of the scheduler's core, run ahead from a state with assumed run times.

The copy of the manager in here is small: it knows no hardware. What a job has left to run is scaled whenever the core expects another
end, as when a pair forms, so that jobs slow each other down as the core believes. The core checks its own decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from cosched_plugin.common.allocation import resume_costs
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory

# Of a job, the run time that its plan expects, and how long it has run: all of it
RunTime = Callable[[m.JobSpec, int, int], int]
_END, _SUBMISSION, _WAKE = 0, 1, 2  # in the order of one instant
MOST_ROUNDS: Final = 1000  # batches at one instant, as in a run
MOST_IDLE: Final = 100_000  # wakes in a row with which nothing happens


class Start(NamedTuple):
    """The start of a job in a run ahead."""

    at_us: int
    runs: tuple[m.Run, ...]


class Forecast(NamedTuple):
    """What a run ahead has found."""

    starts: Mapping[int, Start]  # of the jobs asked for
    reached_us: int  # the others start later, or never


class _Job:
    """A job on its nodes, or suspended."""

    def __init__(
        self, spec: m.JobSpec, runs: tuple[m.Run, ...], start_us: int, estimate_us: int, limit_us: int | None
    ) -> None:
        self.spec = spec
        self.runs = runs
        self.start_us = start_us
        self.estimate_us = estimate_us
        self.limit_us = limit_us
        self.left_us = 0.0  # as of `since_us`
        self.since_us = start_us
        self.suspended_us: int | None = None
        self.on_disk = False
        self.ready_us = 0
        self.version = 0


class _Copy:
    """The jobs of a manager, as far as a run ahead needs them."""

    def __init__(self, welcome: m.Welcome, run_time: RunTime, wanted: Collection[int]) -> None:
        self.now_us = welcome.now_us
        self.starts: dict[int, Start] = {}
        self.wanted = set(wanted)
        self.heap: list[tuple[int, int, int, int]] = []
        self._run_time = run_time
        self._resume_costs = resume_costs(welcome)
        self._pending = {job.spec.id: job.spec for job in welcome.pending}
        self._running: dict[int, _Job] = {}
        self._wakes: set[int] = set()
        for job in welcome.running:
            self._take_over(job)
        for at_us in welcome.wakes:
            self._wake(at_us)

    def _take_over(self, running: m.RunningJob) -> None:
        job = _Job(running.spec, running.runs, running.start_us, running.estimate_us, running.limit_us)
        job.suspended_us, job.on_disk, job.ready_us = running.suspended_us, running.on_disk, running.ready_us
        job.since_us = max(self.now_us if job.suspended_us is None else job.suspended_us, running.ready_us)
        self._run(job, max(0, job.since_us - running.start_us))

    def _run(self, job: _Job, elapsed_us: int) -> None:
        run_us = self._run_time(job.spec, job.estimate_us, elapsed_us)
        job.left_us = max(1, run_us - elapsed_us)
        self._running[job.spec.id] = job
        self._expect_end(job)

    def _expect_end(self, job: _Job) -> None:
        """Enter the end of a job at its present speed, or at its limit."""
        job.version += 1
        if job.suspended_us is not None:
            return
        end_us = job.since_us + max(1, round(job.left_us))
        if job.limit_us is not None:
            end_us = min(end_us, job.start_us + job.limit_us)
        heappush(self.heap, (max(end_us, self.now_us + 1), _END, job.spec.id, job.version))

    def _wake(self, at_us: int) -> None:
        if at_us not in self._wakes:
            self._wakes.add(at_us)
            heappush(self.heap, (max(at_us, self.now_us), _WAKE, at_us, 0))

    # ------------------------------------------------------------ events

    def submit(self, spec: m.JobSpec) -> None:
        """Enter a submission to come."""
        self._pending[spec.id] = spec
        heappush(self.heap, (max(spec.submit_us, self.now_us), _SUBMISSION, spec.id, 0))

    def event(self, rank: int, ident: int, version: int) -> m.Event | None:
        """Apply a due entry; None if it is void."""
        if rank == _WAKE:
            self._wakes.discard(ident)
            return m.Woken(ident)
        if rank == _SUBMISSION:
            return m.JobSubmitted(self._pending[ident])
        job = self._running.get(ident)
        if job is None or job.version != version:
            return None
        del self._running[ident]
        return m.JobEnded(ident, m.COMPLETED)

    # ------------------------------------------------------------ actions

    def carry_out(self, actions: Sequence[m.Action]) -> list[m.Event]:
        """Carry out the core's decisions; return the events that some of them ask for."""
        follow: list[m.Event] = []
        for action in actions:
            match action:
                case m.StartJob():
                    self._start(action)
                case m.StartTogether():
                    for start in action.starts:
                        self._start(start)
                case m.ReviseJob():
                    self._revise(action)
                case m.SuspendJob():
                    self._suspend(action)
                case m.ResumeJob():
                    self._resume(self._running[action.job_id])
                case m.RejectJob():
                    del self._pending[action.job_id]
                    self.wanted.discard(action.job_id)
                case m.KillJob():
                    del self._running[action.job_id]
                    follow.append(m.JobEnded(action.job_id, m.CANCELLED))
                case m.RequeueJob():
                    self._pending[action.job_id] = self._running.pop(action.job_id).spec
                    follow.append(m.JobRequeued(action.job_id))
                case m.WakeAt():
                    self._wake(action.at_us)
        return follow

    def _start(self, start: m.StartJob) -> None:
        job_id = start.job_id
        job = _Job(self._pending.pop(job_id), start.runs, self.now_us, start.estimate_us, start.limit_us)
        self._run(job, 0)
        if job_id in self.wanted:
            self.wanted.discard(job_id)
            self.starts[job_id] = Start(self.now_us, start.runs)

    def _progress(self, job: _Job) -> None:
        if job.suspended_us is None and self.now_us > job.since_us:
            job.left_us = max(1.0, job.left_us - (self.now_us - job.since_us))
            job.since_us = self.now_us

    def _revise(self, revision: m.ReviseJob) -> None:
        """Scale what a job has left as the core scales it; a job beyond its expected end goes on as it is."""
        job = self._running[revision.job_id]
        self._progress(job)
        before_us = job.start_us + job.estimate_us - job.since_us
        after_us = job.start_us + revision.estimate_us - job.since_us
        if before_us > 0 and after_us > 0:
            job.left_us *= after_us / before_us
        job.estimate_us, job.limit_us = revision.estimate_us, revision.limit_us
        self._expect_end(job)

    def _suspend(self, action: m.SuspendJob) -> None:
        job = self._running[action.job_id]
        self._progress(job)
        job.suspended_us, job.on_disk = self.now_us, action.to_disk
        job.version += 1

    def _resume(self, job: _Job) -> None:
        """Let a job go on; what it has lost moves its expected end and its limit."""
        assert job.suspended_us is not None
        job.ready_us = self._resume_costs.ready_us(job.spec, job.runs, job.ready_us, self.now_us, on_disk=job.on_disk)
        ready_us = max(self.now_us, job.ready_us)
        lost_us = ready_us - max(job.suspended_us, job.since_us)
        job.estimate_us += lost_us
        if job.limit_us is not None:
            job.limit_us += lost_us
        job.suspended_us, job.on_disk, job.since_us = None, False, ready_us
        self._expect_end(job)


def forecast(
    welcome: m.Welcome,
    make: SchedulerFactory,
    run_time: RunTime,
    wanted: Collection[int],
    arrivals: Iterable[m.JobSpec] = (),
    *,
    until_us: int,
    expired: Callable[[], bool] = lambda: False,
) -> Forecast:
    """Run a core from the state of ``welcome`` until the ``wanted`` jobs have started, at the latest to ``until_us``.

    ``arrivals`` are submissions to come, in order of time. ``expired`` is asked at every instant, and ends the run when it is true.
    What the core raises is passed on: an error of the policy.
    """
    copy = _Copy(welcome, run_time, wanted)
    core = make(welcome)
    _exchange(core, copy, [])
    later = iter(arrivals)
    coming = next(later, None)
    idle = 0
    while copy.wanted and copy.heap and not expired():
        now_us = copy.heap[0][0]
        if coming is not None and coming.submit_us <= now_us:
            copy.submit(coming)
            coming = next(later, None)
            continue
        if now_us > until_us:
            break
        copy.now_us = now_us
        events: list[m.Event] = []
        while copy.heap and copy.heap[0][0] <= now_us:
            _, rank, ident, version = heappop(copy.heap)
            event = copy.event(rank, ident, version)
            if event is not None:
                events.append(event)
        if events:
            idle = idle + 1 if type(events[0]) is m.Woken else 0
            if idle > MOST_IDLE:
                break
            _exchange(core, copy, events)
    return Forecast(copy.starts, copy.now_us if copy.heap else until_us)


def _exchange(core: Scheduler, copy: _Copy, events: list[m.Event]) -> None:
    """Let the core decide, until its decisions cause no further events."""
    for _ in range(MOST_ROUNDS):
        events = copy.carry_out(core.handle(copy.now_us, events))
        if not events:
            return
    raise RuntimeError(f"{MOST_ROUNDS} batches at one instant")
