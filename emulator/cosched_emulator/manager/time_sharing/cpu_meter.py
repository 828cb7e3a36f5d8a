"""What the jobs of a cluster use on each node and when: the trace that energy is integrated over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from cosched_emulator.nodeos.clusters import ProcessCluster, ProcessUse


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
    """Passes on what jobs used, each time that the cluster is asked for it; `ProcessProgress` tells it of time and jobs.

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
