"""Runs in which counting decides: FCFS, EASY and SJBF where each node has one thread and nothing but jobs happens.

Manager and scheduler then exchange nothing that is not known beforehand, so one loop does the work of both, with the same records.
`backfill_of` tells which runs these are: it names what the loop honours, and all else takes the ordinary path.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from cosched_emulator.errors import EmulatorError
from cosched_emulator.manager.record import JobRecord, Stay
from cosched_emulator.run.loop import LAST_US, too_late
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.workload.job import WorkloadJob
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import lowest_nodes
from cosched_plugin.config import PolicyChoice, choose
from cosched_plugin.protocol.messages import COMPLETED, REJECTED, TIMEOUT, Run

_PRESETS: Final = {"none": "fcfs", "easy": "easy", "sjbf": "sjbf"}  # by backfill
# Columns of jobs that the loop honours, or that no manager and no such policy looks at.
_FREE: Final = frozenset(
    (
        "id",
        "submit_us",
        "processes",
        "estimate_us",
        "limit_us",
        "run_us",
        "source_id",
        "user",
        "name",
        "queue",
        "partition",
        "group",
        "status",
        "logged_us",
        "waited_us",
    )
)
_LAST_ID: Final = 1 << 62
_new = tuple.__new__  # a call of the class of a named tuple takes twice as long


def backfill_of(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return the backfill of a run in which counting decides; None: it takes the ordinary path."""
    backfill = choice.settings.get("backfill")
    name = backfill.get("name") if isinstance(backfill, dict) else None
    if name not in _PRESETS or not choice.shipped or choice.settings != choose(_PRESETS[name]).settings:
        return None
    given = prepared.scenario
    plain = Scenario(given.seed, given.cluster, workload=given.workload, results=given.results, policy=given.policy)
    if given != plain or prepared.gated or prepared.contends or prepared.script or prepared.lags or prepared.own:
        return None
    if prepared.power is not None or prepared.licences or prepared.workload.programs is not None:
        return None
    alike = all(item.threads == 1 and not item.resources for item in prepared.nodes)
    return name if alike and columns_of(prepared.workload.jobs).usual(_FREE) else None


class CountedRun:
    """One run of the jobs of a scenario that `backfill_of` names."""

    def __init__(
        self,
        prepared: Prepared,
        backfill: str,
        ended: Callable[[JobRecord], None],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """``ended`` gets the record of every job as it ends; ``progress`` is called with the number of jobs that have ended."""
        self.batches = 0  # that a scheduler would have answered
        self._jobs = prepared.workload.jobs
        self._threads = self._count = sum(item.nodes for item in prepared.nodes)  # all, and free ones
        self._free = (1 << self._threads) - 1
        self._backfills, self._shortest = backfill != "none", backfill == "sjbf"
        self._ended = ended
        self._progress = progress
        self._pending: dict[int, WorkloadJob] = {}
        self._order: deque[int] = deque()  # ids of pending jobs as they came, and of some that have started
        # The index of the queue by size: refused jobs need more threads than are free, or more time, and are not looked at.
        self._by_size: dict[int, list[tuple[int, int]]] = {}  # (estimate, id), sorted
        self._sizes: list[int] = []  # of pending jobs, sorted
        self._running: dict[int, tuple[WorkloadJob, int, str, tuple[Run, ...], int]] = {}
        self._ends: list[tuple[int, int]] = []  # a heap of (end, id)
        self._releases: list[tuple[int, int]] = []  # (expected end, id), sorted
        self._blocked = False  # the first job waits, and these two hold until a running job ends
        self._shadow_us = self._extra = 0

    # At an instant ends come first, by id, then submissions; a job that takes no time ends in the next batch of its instant.
    def run(self) -> None:
        """Run to the end of all jobs."""
        ends, jobs = self._ends, iter(self._jobs)
        coming = next(jobs, None)
        over = 0
        while ends or coming is not None:
            now_us = ends[0][0] if ends else _LAST_ID
            if coming is not None and coming.spec.submit_us < now_us:
                now_us = coming.spec.submit_us
            if now_us > LAST_US:
                raise EmulatorError(too_late(len(self._running), len(self._pending), now_us))
            gone: list[int] = []
            while ends and ends[0][0] <= now_us:
                gone.append(heappop(ends)[1])
            new: list[WorkloadJob] = []
            while coming is not None and coming.spec.submit_us <= now_us:
                if coming.spec.processes > self._threads:
                    self._reject(coming, now_us)
                else:
                    new.append(coming)
                coming = next(jobs, None)
            if not gone and not new:
                continue
            self.batches += 1
            if self._progress is not None:
                over += len(gone)
                self._progress(over)
            for job_id in gone:
                self._end(job_id, now_us)
            for job in new:
                self._enter(job)
            self._decide(now_us, new, changed=bool(gone))

    def _reject(self, job: WorkloadJob, now_us: int) -> None:
        spec = job.spec
        why = f"{spec.processes} processes wanted, the machine holds {self._threads} of this kind"
        self._ended(JobRecord(job, REJECTED, now_us, (), 0, spec.estimate_us, spec.limit_us, why))

    def _end(self, job_id: int, now_us: int) -> None:
        job, start_us, state, runs, taken = self._running.pop(job_id)
        spec = job.spec
        del self._releases[bisect_left(self._releases, (start_us + spec.estimate_us, job_id))]
        self._free |= taken
        self._count += spec.processes
        stays = (_new(Stay, (start_us, now_us, runs, False)),)
        work_us = min(now_us - start_us, job.run_us)
        told = (job, state, now_us, stays, work_us, spec.estimate_us, spec.limit_us)
        self._ended(_new(JobRecord, (*told, "", 0, (), None, None, None, 0, ())))

    def _enter(self, job: WorkloadJob) -> None:
        spec = job.spec
        self._pending[spec.id] = job
        self._order.append(spec.id)
        if self._backfills:
            alike = self._by_size.get(spec.processes)
            if alike is None:
                alike = self._by_size[spec.processes] = []
            if not alike:
                insort(self._sizes, spec.processes)
            insort(alike, (spec.estimate_us, spec.id))

    def _start(self, job: WorkloadJob, now_us: int) -> None:
        spec = job.spec
        job_id, processes = spec.id, spec.processes
        del self._pending[job_id]
        if self._backfills:
            alike = self._by_size[processes]
            del alike[bisect_left(alike, (spec.estimate_us, job_id))]
            if not alike:
                self._sizes.remove(processes)
        runs = lowest_nodes(processes, NodeSet(self._free))
        assert runs is not None
        taken = 0
        for first, count, _, _ in runs:
            taken |= ((1 << count) - 1) << first
        self._free ^= taken
        self._count -= processes
        end_us, state = now_us + job.run_us, COMPLETED
        if spec.limit_us is not None and job.run_us > spec.limit_us:
            end_us, state = now_us + spec.limit_us, TIMEOUT
        insort(self._releases, (now_us + spec.estimate_us, job_id))
        heappush(self._ends, (end_us, job_id))
        self._running[job_id] = (job, now_us, state, runs, taken)

    # The rule and its short cut are those of `policies.backfilling.easy.Counting`: while no running job ends or is late, refused jobs
    # stay refused, and only those that have come matter.
    def _decide(self, now_us: int, new: list[WorkloadJob], *, changed: bool) -> None:
        """Start the jobs that may start now."""
        if self._blocked and not changed and self._releases[0][0] > now_us:
            if not self._backfills:
                return
            left_us, extra = self._shadow_us - now_us, self._extra
            found = [
                job
                for job in new
                if job.spec.processes <= self._count
                and (job.spec.estimate_us <= left_us or job.spec.processes <= extra)
            ]
        else:
            head = self._start_in_order(now_us)
            self._blocked = head is not None
            if head is None or not self._backfills:
                return
            self._shadow_us, self._extra = self._shadow(head.spec.processes, now_us)
            found = self._fitting(self._shadow_us - now_us) if self._count else []
        if found:
            self._overtake(found, now_us)

    def _start_in_order(self, now_us: int) -> WorkloadJob | None:
        """Start the first jobs, and return the first one that waits."""
        order, pending = self._order, self._pending
        while order:
            job = pending.get(order[0])
            if job is not None:
                if job.spec.processes > self._count:
                    return job
                self._start(job, now_us)
            order.popleft()
        return None

    def _shadow(self, threads: int, now_us: int) -> tuple[int, int]:
        """Return when the first job is expected to start, and how many threads it leaves then."""
        missing, running = threads - self._count, self._running
        shadow_us = now_us + 1  # the end of all jobs that are overdue
        for expected_us, job_id in self._releases:
            if expected_us > shadow_us:
                if missing <= 0:
                    break
                shadow_us = expected_us
            missing -= running[job_id][0].spec.processes
        return shadow_us, -missing

    def _fitting(self, longest_us: int) -> list[WorkloadJob]:
        """Return, in order, the pending jobs that the free threads hold, and that are short or narrow."""
        found: list[tuple[int, int]] = []
        for size in self._sizes:
            if size > self._count:
                break
            alike = self._by_size[size]
            found += alike if size <= self._extra else alike[: bisect_right(alike, (longest_us, _LAST_ID))]
        pending = self._pending
        return [pending[job_id] for job_id in sorted([job_id for _, job_id in found])]

    def _overtake(self, found: list[WorkloadJob], now_us: int) -> None:
        """Start the jobs in ``found`` that leave the first job its start and its threads."""
        if self._shortest:
            found.sort(key=_estimate)
        longest_us = self._shadow_us - now_us
        for job in found:
            processes = job.spec.processes
            if processes > self._count:
                continue
            if job.spec.estimate_us > longest_us:
                if processes > self._extra:
                    continue
                self._extra -= processes
            self._start(job, now_us)
            if not self._count:
                break


def _estimate(job: WorkloadJob) -> int:
    return job.spec.estimate_us
