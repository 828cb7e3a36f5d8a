"""Running jobs as processes on the nodes of a cluster: what may run, what ends when, and what was used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.managed_job import RUNNING, ManagedJob
from cosched_emulator.manager.timeline import END, Timeline
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.common.allocation import each_node
from cosched_plugin.protocol.messages import COMPLETED, FAILED, TIMEOUT

if TYPE_CHECKING:
    from cosched_emulator.nodeos.clusters import ProcessCluster, ProcessUse, Program

# What the jobs of a cluster use on each node and when: the trace that energy is integrated over.


@runtime_checkable
class TellsSpinning(Protocol):
    """A cluster whose processes may poll for messages, and which counts it."""

    def spun_us(self, job: int) -> int:
        """Return the CPU time in which a job's processes polled since its start; also of one that left since the last `collect`."""


class CpuUse(NamedTuple):
    """The CPU time that a job used on a node between two times, in microseconds."""

    job: int
    node: int
    begin_us: int
    end_us: int
    consumed_us: float
    spun_us: float  # part of it in which processes polled: the job's, by CPU time on each node


class CpuMeter:
    """Passes on what jobs used, each time that the cluster is asked for it; a `Dispatcher` tells it of time and jobs.

    What a job used between two collections counts as spread evenly over that time, as that of all others: so no CPU is ever
    more than busy.
    """

    def __init__(self, cluster: ProcessCluster, receive: Callable[[Sequence[CpuUse]], None]) -> None:
        self.now_us = 0
        self._cluster = cluster
        self._receive = receive
        self._tells = cluster if isinstance(cluster, TellsSpinning) else None
        self._since_us = 0  # the last collection; later if nothing ran for some time
        self._spun_before: dict[int, int] = {}  # up to the last collection, of jobs that are there
        self._spun_us: dict[int, int] = {}  # since then, of jobs that have left

    def resume(self, now_us: int) -> None:
        """Note that nothing has run since the last collection."""
        self.now_us = self._since_us = now_us

    def allow(self, now_us: int, jobs: Iterable[int]) -> None:
        """Note that these jobs may run from now on."""
        self.now_us = now_us
        for job in jobs:
            self._spun_before.setdefault(job, 0)

    def leave(self, job: int, now_us: int) -> None:
        """Note that a job has ended, or is about to be removed."""
        self.now_us = now_us
        before_us = self._spun_before.pop(job, None)
        if before_us is not None and self._tells is not None:
            self._spun_us[job] = self._spun_us.get(job, 0) + self._tells.spun_us(job) - before_us

    def collect(self, now_us: int | None = None) -> list[ProcessUse]:
        """Return what `ProcessCluster.collect` does, and pass it on; None: nothing has run since the meter was told of a time."""
        if now_us is not None:
            self.now_us = now_us
        if self._tells is not None:
            for job, before_us in self._spun_before.items():
                after_us = self._spun_before[job] = self._tells.spun_us(job)
                self._spun_us[job] = self._spun_us.get(job, 0) + after_us - before_us
        usages = self._cluster.collect()
        consumed: dict[int, int] = {}
        for usage in usages:
            consumed[usage.job] = consumed.get(usage.job, 0) + usage.consumed_us
        self._receive([self._use(usage, consumed[usage.job]) for usage in usages if usage.consumed_us])
        self._spun_us.clear()
        self._since_us = self.now_us
        return usages

    def _use(self, usage: ProcessUse, of_job_us: int) -> CpuUse:
        spun_us = self._spun_us.get(usage.job, 0) * usage.consumed_us / of_job_us
        return CpuUse(usage.job, usage.node, self._since_us, self.now_us, usage.consumed_us, spun_us)


FOREVER_US: Final = 1 << 61  # later than anything


class Dispatcher:
    """The processes of the running jobs. It enters the ends of jobs into the manager's timeline when they are known.

    An end is known when the cluster has come there: a completion lies never ahead. The kill at a limit is entered in advance, as
    far as the job may run.
    """

    def __init__(
        self,
        timeline: Timeline,
        cluster: ProcessCluster,
        program_of: Callable[[WorkloadJob], Program],
        memory_of: Callable[[WorkloadJob], int],
    ) -> None:
        self.allowed: dict[int, ManagedJob] = {}  # jobs that may run now
        self._timeline = timeline
        self._cluster = cluster
        self._program_of = program_of
        self._memory_of = memory_of
        self._jobs: dict[int, ManagedJob] = {}  # with processes in the cluster
        self._nodes_of: dict[int, tuple[int, ...]] = {}
        self._since_us: dict[int, int] = {}  # from when on the allowed jobs may run
        self._until_us = FOREVER_US  # how long they may, at least
        self._meter: CpuMeter | None = None  # of what jobs use on each node

    # ------------------------------------------------------------ jobs

    def start(self, job: ManagedJob) -> None:
        """Put the processes of a job on its nodes, stopped."""
        spec = job.job.spec
        places = [node for node, processes in each_node(job.runs) for _ in range(processes)]
        self._jobs[spec.id] = job
        self._nodes_of[spec.id] = tuple([node for node, _ in each_node(job.runs)])
        self._cluster.start(spec.id, self._program_of(job.job), places, self._memory_of(job.job))
        job.dispatched_us = job.cpu_us = 0

    def leave(self, job: ManagedJob, now_us: int) -> None:
        """Take a job off its nodes, and note what it has done and used."""
        job_id = job.id
        self.stop(job, now_us)
        if self._meter is not None:
            self._meter.leave(job_id, now_us)
        del self._nodes_of[job_id]
        if self._jobs.pop(job_id, None) is not None:  # it has not ended by itself
            job.work_us = self.work_us(job)
            job.cpu_us = self._cpu_us(job)
            self._cluster.remove(job_id)

    def stop(self, job: ManagedJob, now_us: int) -> bool:
        """Count the time for which a job could run, as it leaves or is suspended; return whether it could run until now.

        The next `allow` stops its processes.
        """
        job_id = job.id
        if self.allowed.pop(job_id, None) is None:
            return False
        assert job.dispatched_us is not None
        job.dispatched_us += now_us - self._since_us.pop(job_id)
        job.version += 1  # its kill is void
        return True

    def work_us(self, job: ManagedJob) -> int:
        """Return the work that a job has done: the share of its program that is done, of its run time alone."""
        return round(self._cluster.progress(job.id) * job.job.run_us)

    def _cpu_us(self, job: ManagedJob) -> int:
        """Return the CPU time that a process of a job has used, in the mean."""
        processes = job.job.spec.processes
        return (2 * self._cluster.consumed_us(job.id) + processes) // (2 * processes)

    def count(self, job: ManagedJob, now_us: int) -> None:
        """Count CPU time and the time for which a job could run up to now; it goes on."""
        job_id = job.id
        if job_id in self.allowed:
            job.dispatched_us = self.dispatched_us(job, now_us)
            self._since_us[job_id] = now_us
        job.cpu_us = self._cpu_us(job)

    def dispatched_us(self, job: ManagedJob, now_us: int) -> int:
        """Return for how long a running job could run since its start."""
        assert job.dispatched_us is not None
        return job.dispatched_us + now_us - self._since_us.get(job.id, now_us)

    # ------------------------------------------------------------ time

    # Must be called before the timeline is asked what is due by ``until_us``: ends of processes enter it only as the cluster gets
    # there.
    def run(self, until_us: int) -> None:
        """Let the processes run until ``until_us``, or until a job ends, and enter its end."""
        if not self.allowed:
            return
        reached = self._cluster.advance(until_us)
        if self._meter is not None:
            for job_id in reached.ended:
                self._meter.leave(job_id, reached.now_us)
        for job_id in reached.ended:
            job = self._jobs[job_id]
            job.work_us = job.job.run_us
            job.cpu_us = self._cpu_us(job)
            del self._jobs[job_id]
            job.version += 1
            job.outcome = FAILED if job.job.exit_code else COMPLETED
            self._timeline.schedule(reached.now_us, END, job_id, job.version)
        if until_us >= FOREVER_US and not reached.ended:
            raise InvariantError(f"jobs {sorted(self.allowed)} may run, and none of them ever ends")

    # The only place where it changes who may run. The cluster must have been advanced to ``now_us``: what was used up to then
    # belongs to the jobs that could run before.
    def allow(self, jobs: Sequence[ManagedJob], now_us: int, until_us: int) -> Mapping[int, int]:
        """Let these jobs run from now on, at least until ``until_us`` unless they are stopped, and stop all others.

        Their order is that in which they get a CPU. Returns the number of jobs that may run on each node.
        """
        if not self.allowed:
            self._cluster.advance(now_us)  # while nothing could run, time has stood still there
            if self._meter is not None:
                self._meter.resume(now_us)
        wanted = {job.id: job for job in jobs}
        for job_id in [job_id for job_id in self.allowed if job_id not in wanted]:
            self.stop(self.allowed[job_id], now_us)
        runnable: dict[int, list[int]] = {}
        for job_id in wanted:
            for node in self._nodes_of[job_id]:
                runnable.setdefault(node, []).append(job_id)
        self._cluster.allow(now_us, runnable)
        if self._meter is not None:
            self._meter.allow(now_us, wanted)
        for job_id in wanted:
            self._since_us.setdefault(job_id, now_us)
        self.allowed = wanted
        self._until_us = until_us
        for job in jobs:
            self.schedule_kill(job)
        return {node: len(there) for node, there in runnable.items()}

    def schedule_kill(self, job: ManagedJob) -> None:
        """Enter the kill of a job at its limit, which counts only time for which it could run, if it may run until then."""
        since_us = self._since_us.get(job.id)
        if since_us is None or job.limit_us is None:
            return
        job.version += 1
        assert job.dispatched_us is not None
        kill_us = since_us + job.limit_us - job.idle_us - job.dispatched_us
        if kill_us <= self._until_us:
            job.outcome = TIMEOUT
            self._timeline.schedule(kill_us, END, job.id, job.version)

    def collect(self, now_us: int) -> list[ProcessUse]:
        """Return what the jobs have used since the last call."""
        return self._cluster.collect() if self._meter is None else self._meter.collect(now_us)

    def measure_use(self, receive: Callable[[Sequence[CpuUse]], None]) -> CpuMeter:
        """Have what `collect` returns passed on, with its times; return the meter."""
        self._meter = CpuMeter(self._cluster, receive)
        return self._meter

    def nodes_of(self, job_id: int) -> Iterable[int]:
        """Return the nodes of a job."""
        return self._nodes_of[job_id]

    def check(self, running: Mapping[int, ManagedJob]) -> None:
        """Raise `InvariantError` if processes are there whose jobs do not run, or the other way round."""
        if set(self._nodes_of) != set(running) or not set(self._jobs) <= set(running):
            raise InvariantError(f"processes of jobs {sorted(self._nodes_of)}, and jobs {sorted(running)} run")
        for job_id, job in self.allowed.items():
            if running.get(job_id) is not job or job.state != RUNNING:
                raise InvariantError(f"job {job_id} may use CPUs, and is {job.state}")
