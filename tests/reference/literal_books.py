"""A manager's books with nothing kept of who holds what: threads are pairs of numbers, derived from the running jobs each time.

The checks of a start, a change of slot, a suspension to disk and a return are written from the protocol's page, without the pools that
`cosched_plugin.site.books` and the scheduler share.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched_plugin.common.slots import SlotPools
from cosched_plugin.protocol.messages import (
    FILLED,
    ChangeSlot,
    JobSpec,
    Run,
    StartJob,
    SuspendJob,
    Welcome,
)
from cosched_plugin.site.books import Books, Job


def places(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """Return the (node, thread) pairs that ``runs`` name, with repetitions."""
    return [
        (node, thread)
        for first, count, mask, _ in runs
        for node in range(first, first + count)
        for thread in range(mask.bit_length())
        if mask >> thread & 1
    ]


def node_shares(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """Return the (node, processes) pairs of ``runs``."""
    return [(node, processes) for first, count, _, processes in runs for node in range(first, first + count)]


class LiteralBooks(Books[Job]):
    """The state of a manager, with nothing kept that follows from something else."""

    def __init__(self, machine: Welcome) -> None:
        super().__init__(machine, Job)

    @property
    def pools(self) -> SlotPools:
        raise AssertionError("nothing here asks a pool")

    def _take(self, job: Job) -> None:
        """Nothing is kept."""

    def _release(self, job: Job) -> None:
        """Nothing is kept."""

    def swap_left(self) -> list[int]:
        """Return the disk space of each node for the memory of further jobs."""
        return self._room(self.machine.swap_mb, on_disk=True)

    def _start(self, start: StartJob) -> str | None:
        job = self.jobs.get(start.job_id)
        if job is None or job.state != "pending" or job.held:
            return f"job {start.job_id} is not waiting to be started"
        spec = job.spec
        taken = self._held_threads(start.slot)
        memory = self._room(self.machine.memory_mb, on_disk=False)
        wanted = places(start.runs)
        exists = {(node, thread) for node, width in enumerate(self.machine.threads_of) for thread in range(width)}
        shares = node_shares(start.runs)
        nodes = [node for node, _ in shares]
        width = spec.threads_per_process
        possible = (
            sum(processes for _, processes in shares) == spec.processes
            and len(set(nodes)) == len(nodes)
            and len(set(wanted)) == len(wanted)
            and set(wanted) <= exists - taken
            and not self.down & set(nodes)
            and all(0 < processes <= (spec.ppn_max or processes) for _, processes in shares)
            and sum(processes < spec.ppn_min for _, processes in shares) <= 1
            and all(processes * spec.memory_mb <= memory[node] for node, processes in shares)
        )
        for node, processes in shares if possible else ():
            threads = sum(place[0] == node for place in wanted)
            whole = self.machine.threads_of[node]
            possible = possible and threads == (whole if spec.exclusive else processes * width)
            possible = possible and threads >= processes * width
        if not possible or not self._suits(spec, shares):
            return f"{spec} cannot start on {list(start.runs)}"
        own_us, limit_us = spec.limit_us, start.limit_us
        if (own_us is None) != (limit_us is None) or (own_us or 0) > (limit_us or 0) or start.estimate_us < 1:
            return f"{spec} cannot start with estimate {start.estimate_us} and limit {limit_us}"
        if limit_us is not None:
            if limit_us > (own_us or 0) and not self.can.limits_grow:
                return f"{spec} cannot have the limit {limit_us}"
            start = start._replace(limit_us=-(-limit_us // self.can.limit_grain_us) * self.can.limit_grain_us)
        job.start(start, self.now_us)
        job.started_by = (self.seq, self.number)
        self._disturb(job)
        return None

    def _suits(self, spec: JobSpec, shares: Sequence[tuple[int, int]]) -> bool:
        """Return whether a job may have these nodes, with enough of what is counted there, in a layout that can be made."""
        counts = [processes for _, processes in sorted(shares)]
        if self.can.layout == FILLED and (set(counts[:-1]) - {counts[0]} or counts[-1] > counts[0]):
            return False
        ranges = [range(first, first + count) for first, count in spec.eligible]
        if ranges and not all(any(node in nodes for nodes in ranges) for node, _ in shares):
            return False
        return self._has_counted(spec, shares)

    def _has_counted(self, spec: JobSpec, shares: Sequence[tuple[int, int]]) -> bool:
        """Return whether there is enough of what is counted."""
        running = [job for job in self.in_state("running") if not job.on_disk]
        for name, amount in spec.licences:
            taken = sum(dict(job.spec.licences).get(name, 0) for job in running)
            if dict(self.licences).get(name, 0) - taken < amount:
                return False
        for name, amount in spec.resources:
            for node, _ in shares:
                taken = sum(dict(job.spec.resources).get(name, 0) for job in running if node in job.nodes)
                if self.machine.resources.get(name, [0] * self.machine.nodes)[node] - taken < amount:
                    return False
        return True

    def _change_slot(self, action: ChangeSlot) -> str | None:
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running":
            return f"job {action.job_id} does not run"
        taken = self._held_threads(action.slot) & set(places(job.runs))
        if taken or self.down & job.nodes or action.slot == job.slot:
            return f"job {action.job_id} cannot be in slot {action.slot}"
        job.slot = action.slot
        return None

    def _suspend(self, action: SuspendJob) -> str | None:
        job = self.jobs.get(action.job_id)
        if job is None or job.state != "running" or job.suspended_us is not None:
            return f"job {action.job_id} cannot be suspended"
        if action.to_disk:
            swap = self.swap_left()
            needed = [(node, processes * job.spec.memory_mb) for node, processes in node_shares(job.runs)]
            if any(
                memory_mb > max(0, swap[node]) for node, memory_mb in needed
            ):  # a manager may have filled more than there is
                return f"the memory of job {action.job_id} finds no room on disk: {swap}"
        self._stop(job, self.now_us, to_disk=action.to_disk)
        return None

    def can_go_on(self, job: Job) -> bool:
        """Return whether a suspended job can go on: from disk, if nothing is in its place."""
        memory = self._room(self.machine.memory_mb, on_disk=False)
        return not job.on_disk or not (
            self._held_threads(job.slot) & set(places(job.runs))
            or self.down & job.nodes
            or any(processes * job.spec.memory_mb > memory[node] for node, processes in node_shares(job.runs))
            or not self._has_counted(job.spec, node_shares(job.runs))
        )

    def _held_threads(self, slot: int) -> set[tuple[int, int]]:
        """Return the (node, thread) pairs that jobs hold in a slot."""
        holders = [job for job in self.in_state("running") if job.slot == slot and not job.on_disk]
        return {place for job in holders for place in places(job.runs)}

    def _room(self, room_mb: Sequence[int], *, on_disk: bool) -> list[int]:
        """Return what remains on each node beside the jobs on disk, or beside all others."""
        left = list(room_mb)
        for job in self.in_state("running"):
            for node, processes in node_shares(job.runs) if job.on_disk == on_disk else ():
                left[node] -= processes * job.spec.memory_mb
        return left

    def _disturb(self, cause: Job) -> None:
        """Forget the measurements on the nodes of a job that starts, ends, is suspended or resumes: its neighbours change."""
        for job in self.jobs.values():
            if job.nodes & cause.nodes:
                job.measured_ppm = 0
