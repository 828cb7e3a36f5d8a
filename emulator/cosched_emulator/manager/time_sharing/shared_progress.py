"""Running jobs as processes on the nodes of a cluster: what may run, what ends when, and what was used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cosched_emulator.errors import ConfigurationError, InvariantError
from cosched_emulator.manager.job_ends import JobProgress
from cosched_emulator.manager.managed_job import RUNNING, ManagedJob
from cosched_emulator.manager.time_sharing.cpu_meter import CpuMeter, CpuUse
from cosched_emulator.manager.timeline import END, FOREVER_US, Timeline
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.common.threads import each_node
from cosched_plugin.protocol.messages import COMPLETED, FAILED, TIMEOUT

if TYPE_CHECKING:
    from cosched_emulator.nodeos.clusters import ProcessCluster, ProcessUse, Program


def _asked_mb(job: WorkloadJob) -> int:
    """Return the memory that a job asks for, for each process."""
    return job.spec.memory_mb


class ProcessNodes(NamedTuple):
    """Nodes that run processes: the truth of a manager whose jobs share time."""

    cluster: ProcessCluster
    program_of: Callable[[WorkloadJob], Program]
    quantum_us: int
    memory_of: Callable[[WorkloadJob], int] = _asked_mb  # what a process of a job takes, in MB
    memory_mb: int = 0  # of a node, for the processes there; 0: everything fits


class ProcessProgress(JobProgress):
    """The processes of the running jobs. It enters the ends of jobs into the manager's timeline when they are known.

    An end is known when the cluster has come there: a completion lies never ahead. The kill at a limit, which counts the time for
    which a job could run, is entered in advance, as far as the job may run. Slowdowns are not measured.
    """

    def __init__(self, timeline: Timeline, running: Mapping[int, ManagedJob], nodes: ProcessNodes) -> None:
        super().__init__(timeline, running)
        self.allowed: dict[int, ManagedJob] = {}  # jobs that may run now
        self._nodes = nodes
        self.cluster = nodes.cluster
        self._jobs: dict[int, ManagedJob] = {}  # with processes in the cluster
        self.nodes_of: dict[int, tuple[int, ...]] = {}  # of each running job
        self._since_us: dict[int, int] = {}  # from when on the allowed jobs may run
        self._until_us = FOREVER_US  # how long they may, at least
        self.meter: CpuMeter | None = None  # of what jobs use on each node

    def refusal(self, job: WorkloadJob) -> str | None:
        """Return why the processes of a job cannot run, such as a number on which its program does not run; None: they can."""
        try:
            self._nodes.program_of(job)
        except ConfigurationError as error:
            return str(error)
        need_mb, room_mb = self._nodes.memory_of(job), self._nodes.memory_mb
        if room_mb and need_mb > room_mb:
            return f"a process wants {need_mb} MB of memory, nodes have {room_mb} MB for processes"
        return None

    # ------------------------------------------------------------ jobs

    def start(self, job: ManagedJob, now_us: int) -> None:  # noqa: ARG002 - of `JobProgress`
        """Put the processes of a job on its nodes, stopped."""
        places = [node for node, processes in each_node(job.runs) for _ in range(processes)]
        self._jobs[job.id] = job
        self.nodes_of[job.id] = tuple([node for node, _ in each_node(job.runs)])
        self.cluster.start(job.id, self._nodes.program_of(job.job), places, self._nodes.memory_of(job.job))
        job.dispatched_us = job.cpu_us = 0

    def leave(self, job: ManagedJob, now_us: int) -> None:
        """Take a job off its nodes or the disk, and note what it has done and used."""
        job_id = job.id
        self.stop(job, now_us)
        if self.meter is not None:
            self.meter.leave(job_id, now_us)
        del self.nodes_of[job_id]
        if self._jobs.pop(job_id, None) is not None:  # it has not ended by itself
            job.work_us = self.work_us(job, now_us)
            job.cpu_us = self._cpu_us(job)
            self.cluster.remove(job_id)

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

    def work_us(self, job: ManagedJob, now_us: int) -> int:  # noqa: ARG002 - of `JobProgress`
        """Return the work that a job has done: the share of its program that is done, of its run time alone."""
        return round(self.cluster.progress(job.id) * job.job.run_us)

    def _cpu_us(self, job: ManagedJob) -> int:
        """Return the CPU time that a process of a job has used, in the mean."""
        processes = job.job.spec.processes
        return (2 * self.cluster.consumed_us(job.id) + processes) // (2 * processes)

    def count(self, now_us: int) -> None:
        """Count CPU time and the time for which each job could run up to now; they go on."""
        for job_id, job in self._running.items():
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
        reached = self.cluster.advance(until_us)
        if self.meter is not None:
            for job_id in reached.ended:
                self.meter.leave(job_id, reached.now_us)
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
            self.cluster.advance(now_us)  # while nothing could run, time has stood still there
            if self.meter is not None:
                self.meter.resume(now_us)
        wanted = {job.id: job for job in jobs}
        for job_id in [job_id for job_id in self.allowed if job_id not in wanted]:
            self.stop(self.allowed[job_id], now_us)
        runnable: dict[int, list[int]] = {}
        for job_id in wanted:
            for node in self.nodes_of[job_id]:
                runnable.setdefault(node, []).append(job_id)
        self.cluster.allow(now_us, runnable)
        if self.meter is not None:
            self.meter.allow(now_us, wanted)
        for job_id in wanted:
            self._since_us.setdefault(job_id, now_us)
        self.allowed = wanted
        self._until_us = until_us
        for job in jobs:
            self.schedule_end(job)
        return {node: len(there) for node, there in runnable.items()}

    def schedule_end(self, job: ManagedJob, end_us: int = FOREVER_US) -> None:  # noqa: ARG002 - of `JobProgress`
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
        return self.cluster.collect() if self.meter is None else self.meter.collect(now_us)

    def measure_use(self, receive: Callable[[Sequence[CpuUse]], None]) -> None:
        """Have what `collect` returns passed on, with its times."""
        self.meter = CpuMeter(self.cluster, receive)

    def check(self) -> None:
        """Raise `InvariantError` if processes are there whose jobs do not run, or the other way round."""
        running = self._running
        if set(self.nodes_of) != set(running) or not set(self._jobs) <= set(running):
            raise InvariantError(f"processes of jobs {sorted(self.nodes_of)}, and jobs {sorted(running)} run")
        for job_id, job in self.allowed.items():
            if running.get(job_id) is not job or job.state != RUNNING:
                raise InvariantError(f"job {job_id} may use CPUs, and is {job.state}")
