"""The progress of running jobs that are processes on their nodes: with the methods of `JobProgress`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cosched_emulator.errors import ConfigurationError, InvariantError
from cosched_emulator.manager.diary import Diary
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.time_sharing.dispatch import FOREVER_US, CpuMeter, CpuUse, Dispatcher
from cosched_emulator.manager.time_sharing.rotating import Rotating
from cosched_emulator.manager.timeline import Timeline
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol.messages import ProgressMeasured

if TYPE_CHECKING:
    from cosched_emulator.nodeos.clusters import Counters, ProcessCluster, Program


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


class ProcessProgress:
    """The progress of the running jobs; enters their ends into the manager's timeline as time goes on.

    A job with a limit is killed when it could run for so long. Slowdowns are not measured.
    """

    def __init__(self, timeline: Timeline, nodes: ProcessNodes, diary: Diary) -> None:
        self.running: Mapping[int, ManagedJob] = {}  # the manager's
        self._nodes = nodes
        self._dispatcher = Dispatcher(timeline, nodes.cluster, nodes.program_of, nodes.memory_of)
        self.rotating = Rotating(timeline, self._dispatcher, nodes.quantum_us, diary)

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

    def start(self, job: ManagedJob, now_us: int) -> None:  # noqa: ARG002 - of `JobProgress`
        """Put the processes of a job on its nodes."""
        self._dispatcher.start(job)
        self.rotating.start(job.id)

    def leave(self, job: ManagedJob, now_us: int) -> None:
        """Take a job off its nodes or the disk, and record its work done."""
        self._dispatcher.leave(job, now_us)
        self.rotating.leave(self.running, now_us)

    def cease(self, job: ManagedJob, now_us: int) -> None:
        """Likewise: jobs that share time have no lags."""
        self.leave(job, now_us)

    def change_neighbours(self, cause: ManagedJob) -> None:
        """Do nothing: slowdowns are not measured."""

    def work_us(self, job: ManagedJob, now_us: int) -> int:  # noqa: ARG002 - of `JobProgress`
        """Return the work that a running job has done since its start."""
        return self._dispatcher.work_us(job)

    def suspend(self, job: ManagedJob, now_us: int) -> None:
        """Stop a job that has just been suspended, and record its work done."""
        job.work_us = self._dispatcher.work_us(job)
        self.rotating.change(stopped=self._dispatcher.stop(job, now_us))

    def resume(self, job: ManagedJob, now_us: int) -> None:
        """Let a job continue in its turn, when it is back from disk."""
        if job.ready_us > now_us:
            self.rotating.may_start_at(job.ready_us)
        else:
            self.rotating.may_start()

    def schedule_end(self, job: ManagedJob, end_us: int) -> None:  # noqa: ARG002 - of `JobProgress`
        """Enter the job's kill again, as its limit has changed."""
        self._dispatcher.schedule_kill(job)

    def progress_of(self, job_id: int) -> dict[str, Any] | None:
        """Raise InvariantError: nobody can say in plain values where processes are."""
        raise InvariantError(f"job {job_id} has processes")

    def carry_on(self, jobs: Iterable[tuple[ManagedJob, Mapping[str, Any] | None, int | None]], now_us: int) -> None:
        """Do nothing: no job runs."""

    def settle(self, running: Mapping[int, ManagedJob], now_us: int) -> None:
        """Let the jobs run whose turn it is."""
        self.rotating.settle(running, now_us)

    def measure(self, job_id: int) -> ProgressMeasured | None:  # noqa: ARG002 - of `JobProgress`
        """Return None: slowdowns are not measured."""
        return None

    def remember(self, job: ManagedJob, slowdown_ppm: int) -> None:
        """Do nothing: slowdowns are not measured."""

    def run(self, until_us: int | None) -> None:
        """Let the processes run until then (None: until the next job ends), at most until a job ends; enter its end."""
        self._dispatcher.run(FOREVER_US if until_us is None else until_us)

    @property
    def simulated(self) -> float:
        """Return the share of the time of nodes that was simulated burst by burst."""
        return self._nodes.cluster.simulated

    @property
    def counters(self) -> Counters | None:
        """Return what has happened on the nodes while they were simulated burst by burst; None: they never were."""
        return self._nodes.cluster.counters()

    @property
    def runs(self) -> bool:
        """Return whether a job may run now."""
        return bool(self._dispatcher.allowed)

    def dispatched_us(self, job: ManagedJob, now_us: int) -> int:
        """Return for how long a running job could run since its start."""
        return self._dispatcher.dispatched_us(job, now_us)

    def count(self, jobs: Iterable[ManagedJob], now_us: int) -> None:
        """Bring the times that running jobs have used up to date."""
        for job in jobs:
            self._dispatcher.count(job, now_us)

    def measure_use(self, receive: Callable[[Sequence[CpuUse]], None]) -> CpuMeter:
        """Have all that jobs use on nodes passed on; return the meter, to collect what is left at the end."""
        return self._dispatcher.measure_use(receive)

    def check(self, running: Mapping[int, ManagedJob]) -> None:
        """Raise `InvariantError` if the processes are not those of the running jobs."""
        self._dispatcher.check(running)
