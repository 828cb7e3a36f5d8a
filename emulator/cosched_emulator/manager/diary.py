"""The diary of changes of jobs and nodes, for the accounting, with the energy of jobs; it costs nothing in a run without accounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from cosched_emulator.manager.managed_job import RUNNING, ManagedJob
from cosched_emulator.manager.record import Change, JobChanged, JobFinished, StayEnded
from cosched_hwmodel.energy import NodePower, threads_by_core
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import NodeClass, Run

# The energy of jobs as they run: joules of each job that has ended, for its row in the accounts.
#
# The rules are those of the run folder (`results.figures.run_energy`): the jobs that hold a node at an instant have equal parts of its
# idle watts, and the watts of a core go to the jobs that hold its hardware threads, by threads. Where jobs share time, busy energy is
# that of the CPU time of a job, spread evenly over its processes; polling counts as computing.


class _Node:
    """A node: the jobs on it, each with its threads, and what each has drawn since the last change of them."""

    __slots__ = ("busy_w", "cores", "idle_w", "masks", "since_us")

    def __init__(self, cores: int, power: NodePower) -> None:
        self.cores = cores
        self.idle_w = power.idle_w
        self.busy_w = power.busy_w
        self.masks: dict[int, int] = {}
        self.since_us = 0


class JobEnergy:
    """Adds up the energy of each job from its first start to its end; the diary tells it of each stay on nodes."""

    def __init__(self, machine: Sequence[NodeClass], power: Sequence[NodePower], *, time_shared: bool) -> None:
        """``power`` is the watts of each class of nodes; ``time_shared``: jobs use CPU time, and do not hold cores."""
        self._nodes = [
            _Node(0 if time_shared else item.cores, watts)
            for item, watts in zip(machine, power, strict=True)
            for _ in range(item.nodes)
        ]
        self._joules: dict[int, float] = {}  # of jobs that have not ended
        self._counted_us: dict[int, int] = {}  # of the CPU time since their last start

    def begin(self, job: ManagedJob) -> None:
        """Note that a job has come to its nodes; or that it goes on there, which changes nothing."""
        job_id = job.id
        for run in job.runs:
            for node in self._of(run):
                if job_id in node.masks:
                    return
                self._count(node, job.since_us)
                node.masks[job_id] = run.mask

    def end(self, job: ManagedJob) -> None:
        """Note that a job has left its nodes: its last stay is complete."""
        job_id, stay = job.id, job.intervals[-1]
        for run in stay.runs:
            for node in self._of(run):
                self._count(node, stay.end_us)
                del node.masks[job_id]
        if job.cpu_us is not None:
            self._count_cpu(job_id, job.cpu_us, stay.runs)

    def take(self, job_id: int) -> float:
        """Return the joules of a job that has ended, and forget it."""
        self._counted_us.pop(job_id, None)
        return self._joules.pop(job_id, 0.0)

    def state(self, now_us: int) -> dict[str, Any]:
        """Return in plain values what jobs have drawn up to now, for `take_over`."""
        for node in self._nodes:
            self._count(node, now_us)
        return {"joules": list(self._joules.items()), "counted_us": list(self._counted_us.items())}

    def take_over(self, state: Mapping[str, Any], jobs: Iterable[ManagedJob], now_us: int) -> None:
        """Go on with what jobs had drawn in another manager up to now; these jobs hold nodes."""
        self._joules |= dict(state["joules"])
        self._counted_us |= dict(state["counted_us"])
        for node in self._nodes:
            node.since_us = now_us
        for job in jobs:
            for run in job.runs:
                for node in self._of(run):
                    node.masks[job.id] = run.mask

    def _of(self, run: Run) -> Iterator[_Node]:
        for node in range(run.first, run.first + run.count):
            yield self._nodes[node]

    def _count(self, node: _Node, now_us: int) -> None:
        """Count what the jobs on a node have drawn there since the last change."""
        span_s, node.since_us = (now_us - node.since_us) / SECOND_US, now_us
        if not node.masks or not span_s:
            return
        idle_j = node.idle_w * span_s / len(node.masks)
        for job_id, cores in zip(node.masks, _cores_held(tuple(node.masks.values()), node.cores), strict=True):
            self._joules[job_id] = self._joules.get(job_id, 0.0) + idle_j + node.busy_w * span_s * cores

    def _count_cpu(self, job_id: int, cpu_us: int, runs: Iterable[Run]) -> None:
        """Count the CPU time of a process of a job, in the mean, as far as it has not been counted."""
        before_us = self._counted_us.get(job_id, 0)
        used_us = cpu_us - before_us if cpu_us >= before_us else cpu_us  # else it was requeued, and has started again
        self._counted_us[job_id] = cpu_us
        watts = sum([node.busy_w * run.processes for run in runs for node in self._of(run)])
        self._joules[job_id] = self._joules.get(job_id, 0.0) + used_us / SECOND_US * watts


@lru_cache(maxsize=4096)
def _cores_held(masks: tuple[int, ...], cores: int) -> tuple[float, ...]:
    """Return how many of the cores of a node belong to each of these sets of threads."""
    if not cores:
        return (0.0,) * len(masks)
    held = [threads_by_core(mask, cores) for mask in masks]
    on_core = Counter[int]()
    for threads in held:
        on_core.update(threads)
    return tuple(sum(count / on_core[core] for core, count in threads.items()) for threads in held)


class Diary:
    """The facts since the last `drain`, in order; always empty without ``kept``."""

    def __init__(self) -> None:
        self.kept = False
        self.meter: JobEnergy | None = None  # of jobs, for accounts; None: the watts of the nodes are not known
        self.entries: list[Change] = []

    # A live manager must drain after every step, and pass all entries on before the next step is appended to the journal: after a
    # restart the entries of a step are counted to find those that are on disk already.
    def drain(self) -> list[Change]:
        """Return the facts so far, and start a new list."""
        entries, self.entries = self.entries, []
        return entries

    def note(self, change: Change) -> None:
        """Note a fact."""
        if self.kept:
            self.entries.append(change)

    def note_state(self, at_us: int, job: ManagedJob, reason: str = "") -> None:
        """Note a change of a job's state, or of its reason."""
        if self.kept:
            self.entries.append(JobChanged(at_us, job.id, job.state, reason))
            if self.meter is not None and job.state == RUNNING:
                self.meter.begin(job)

    def note_occupancy(self, job: ManagedJob) -> None:
        """Note the end of a job's stay on its nodes."""
        if self.kept:
            self.entries.append(StayEnded(job.id, job.intervals[-1]))
            if self.meter is not None:
                self.meter.end(job)

    def note_end(self, at_us: int, job: ManagedJob) -> None:
        """Note that a job has ended for good."""
        if self.kept:
            self.entries.append(JobChanged(at_us, job.id, job.state, job.reason))
            energy_j = None if self.meter is None else self.meter.take(job.id)
            self.entries.append(JobFinished(at_us, job.record(), energy_j))
