"""Runs in which counting decides: FCFS, EASY and SJBF where each node has one thread and nothing but jobs happens.

Manager and scheduler then exchange nothing that is not known beforehand, so one loop does the work of both, with the same records.
`backfill_of` tells which runs these are: it names what the loop honours, and all else takes the ordinary path.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from cosched_emulator.errors import EmulatorError
from cosched_emulator.manager.record import JobRecord, Stay
from cosched_emulator.results.ended_jobs import NO_STAYS, UNLIMITED, EndedJobs, IntArray, StayRows
from cosched_emulator.run.loop import LAST_US, too_late
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.workload.jobs_in_columns import BLOCK, Column, columns_of
from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.threads import lowest_nodes
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
_TOLD: Final = ("limit_us", "name", "user", "source_id", "group", "queue", "partition")  # columns of jobs as they are
_NEVER: Final = 1 << 62
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


class End(NamedTuple):
    """What a job's end leaves behind, and what it gives back."""

    end_us: int
    id: int
    start_us: int
    release_us: int  # when it was expected to end
    processes: int
    nodes: int  # that it held, as a set
    runs: tuple[Run, ...]  # the same; empty: it was refused


_Waiting: TypeAlias = tuple[int, int, int, int, int, int | None]  # id, submission, processes, estimate, run time, limit
_NONE: Final = (0, _NEVER, 0, 0, 0, None)


class CountedRun:
    """One run of the jobs of a scenario that `backfill_of` names."""

    def __init__(
        self,
        prepared: Prepared,
        backfill: str,
        ended: Callable[[End], None],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """``ended`` is told of every job as it ends; ``progress`` is called with the number of jobs that have ended."""
        self.batches = 0  # that a scheduler would have answered
        self._jobs = columns_of(prepared.workload.jobs)
        self._threads = self._count = sum(item.nodes for item in prepared.nodes)  # all, and free ones
        self._free = (1 << self._threads) - 1
        self._backfills, self._shortest = backfill != "none", backfill == "sjbf"
        self._ended = ended
        self._progress = progress
        self._pending: dict[int, _Waiting] = {}
        self._order: deque[int] = deque()  # ids of pending jobs as they came, and of some that have started
        # The index of the queue by size: refused jobs need more threads than are free, or more time, and are not looked at.
        self._by_size: dict[int, list[tuple[int, int]]] = {}  # (estimate, id), sorted
        self._sizes: list[int] = []  # of pending jobs, sorted
        self._ends: list[End] = []  # a heap of running jobs
        self._releases: list[tuple[int, int, int]] = []  # (expected end, id, processes), sorted
        self._blocked = False  # the first job waits, and these two hold until a running job ends
        self._shadow_us = self._extra = 0

    # At an instant ends come first, by id, then submissions; a job that takes no time ends in the next batch of its instant.
    def run(self) -> None:
        """Run to the end of all jobs."""
        ends, releases, threads, coming_jobs = self._ends, self._releases, self._threads, self._coming()
        coming = next(coming_jobs, _NONE)
        over = 0
        while True:
            now_us = coming[1]
            if ends and ends[0][0] < now_us:
                now_us = ends[0][0]
            if now_us > LAST_US:
                if now_us == _NEVER:
                    break
                raise EmulatorError(too_late(len(ends), len(self._pending), now_us))
            gone = 0
            while ends and ends[0][0] <= now_us:
                end = heappop(ends)
                gone += 1
                self._free |= end[5]
                self._count += end[4]
                if self._backfills:
                    del releases[bisect_left(releases, (end[3], end[1]))]
                self._ended(end)
            new: list[_Waiting] = []
            while coming[1] <= now_us:
                if coming[2] > threads:
                    self._ended(_new(End, (now_us, coming[0], 0, 0, coming[2], 0, ())))
                else:
                    new.append(coming)
                coming = next(coming_jobs, _NONE)
            if not gone and not new:
                continue
            self.batches += 1
            if self._progress is not None:
                over += gone
                self._progress(over)
            self._decide(now_us, new, changed=gone > 0)

    def _coming(self) -> Iterator[_Waiting]:
        """Yield the jobs in order of submission."""
        jobs, rows = self._jobs, len(self._jobs)
        columns = (jobs.id, jobs.submit_us, jobs.processes, jobs.estimate_us, jobs.run_us, jobs.limit_us)
        spans = ((first, min(first + BLOCK, rows)) for first in range(0, rows, BLOCK))
        return chain.from_iterable(
            zip(*[column.values(first, last) for column in columns], strict=False) for first, last in spans
        )

    def _enter(self, jobs: Iterable[_Waiting]) -> None:
        for job in jobs:
            job_id, _, processes, estimate_us, _, _ = job
            self._pending[job_id] = job
            self._order.append(job_id)
            if self._backfills:
                alike = self._by_size.get(processes)
                if alike is None:
                    alike = self._by_size[processes] = []
                if not alike:
                    insort(self._sizes, processes)
                insort(alike, (estimate_us, job_id))

    def _leave(self, job: _Waiting) -> None:
        job_id, _, processes, estimate_us, _, _ = job
        del self._pending[job_id]
        if self._backfills:
            alike = self._by_size[processes]
            del alike[bisect_left(alike, (estimate_us, job_id))]
            if not alike:
                self._sizes.remove(processes)

    def _start(self, job: _Waiting, now_us: int) -> None:
        job_id, _, processes, estimate_us, run_us, limit_us = job
        runs = lowest_nodes(processes, NodeSet(self._free))
        assert runs is not None
        taken = 0
        for first, count, _, _ in runs:
            taken |= ((1 << count) - 1) << first
        self._free ^= taken
        self._count -= processes
        release_us = now_us + estimate_us
        if self._backfills:
            insort(self._releases, (release_us, job_id, processes))
        end_us = now_us + (run_us if limit_us is None or run_us <= limit_us else limit_us)
        heappush(self._ends, _new(End, (end_us, job_id, now_us, release_us, processes, taken, runs)))

    # The rule and its short cut are those of `policies.backfilling.easy.Counting`: while no running job ends or is late, refused jobs
    # stay refused, and only those that have come matter.
    def _decide(self, now_us: int, new: list[_Waiting], *, changed: bool) -> None:
        """Start the jobs that may start now; ``new`` ones are not in the queue yet."""
        if self._blocked and not changed and (not self._backfills or self._releases[0][0] > now_us):
            self._enter(new)
            if not self._backfills:
                return
            left_us, extra, free = self._shadow_us - now_us, self._extra, self._count
            found = [job for job in new if job[2] <= free and (job[3] <= left_us or job[2] <= extra)]
        else:
            if not self._order:  # mostly they start at once
                new = self._start_first(new, now_us)
            self._enter(new)
            head = self._start_in_order(now_us)
            self._blocked = head is not None
            if head is None or not self._backfills:
                return
            self._shadow_us, self._extra = self._shadow(head[2], now_us)
            found = self._fitting(self._shadow_us - now_us) if self._count else []
        if found:
            self._overtake(found, now_us)

    def _start_first(self, jobs: list[_Waiting], now_us: int) -> list[_Waiting]:
        """Start jobs up to the first one that has to wait, and return the others."""
        for place, job in enumerate(jobs):
            if job[2] > self._count:
                return jobs[place:]
            self._start(job, now_us)
        return []

    def _start_in_order(self, now_us: int) -> _Waiting | None:
        """Start the first jobs of the queue, and return the first one that waits."""
        order, pending = self._order, self._pending
        while order:
            job = pending.get(order[0])
            if job is not None:
                if job[2] > self._count:
                    return job
                self._leave(job)
                self._start(job, now_us)
            order.popleft()
        return None

    def _shadow(self, threads: int, now_us: int) -> tuple[int, int]:
        """Return when the first job is expected to start, and how many threads it leaves then."""
        missing = threads - self._count
        shadow_us = now_us + 1  # the end of all jobs that are overdue
        for expected_us, _, processes in self._releases:
            if expected_us > shadow_us:
                if missing <= 0:
                    break
                shadow_us = expected_us
            missing -= processes
        return shadow_us, -missing

    def _fitting(self, longest_us: int) -> list[_Waiting]:
        """Return, in order, the pending jobs that the free threads hold, and that are short or narrow."""
        found: list[tuple[int, int]] = []
        for size in self._sizes:
            if size > self._count:
                break
            alike = self._by_size[size]
            found += alike if size <= self._extra else alike[: bisect_right(alike, (longest_us, _NEVER))]
        pending = self._pending
        return [pending[job_id] for job_id in sorted([job_id for _, job_id in found])]

    def _overtake(self, found: list[_Waiting], now_us: int) -> None:
        """Start the jobs in ``found`` that leave the first job its start and its threads."""
        if self._shortest:
            found.sort(key=itemgetter(3))
        longest_us = self._shadow_us - now_us
        for job in found:
            processes = job[2]
            if processes > self._count:
                continue
            if job[3] > longest_us:
                if processes > self._extra:
                    continue
                self._extra -= processes
            self._leave(job)
            self._start(job, now_us)
            if not self._count:
                break


class CountedJobs:
    """What became of the jobs of such a run, in columns and as records."""

    def __init__(self, prepared: Prepared) -> None:
        self._jobs = jobs = columns_of(prepared.workload.jobs)
        self._threads = sum(item.nodes for item in prepared.nodes)
        self._times = [column.array for column in (jobs.submit_us, jobs.estimate_us, jobs.run_us)]

    def columns(self, ends: list[End]) -> EndedJobs:
        """Return the jobs that have ended so."""
        count = len(ends)
        end_us, job_id, start_us, _, processes, _, runs = zip(*ends, strict=True) if ends else [()] * 7
        ids, asked, ended_us = (np.array(column, dtype=np.int64) for column in (job_id, processes, end_us))
        rows = ids - 1
        submit_us, estimate_us, run_us = [column[rows] for column in self._times]
        told = {name: list(self._told(name, rows)) for name in _TOLD}
        limit_us = np.array([UNLIMITED if each is None else each for each in told.pop("limit_us")], dtype=np.int64)
        started = asked <= self._threads
        left_us = np.where(started, ended_us, 0)
        stayed_us = left_us - np.array(start_us, dtype=np.int64)
        killed = ((limit_us >= 0) & (run_us > limit_us)).tolist()
        states = [
            (TIMEOUT if late else COMPLETED) if began else REJECTED
            for late, began in zip(killed, started.tolist(), strict=True)
        ]
        held = np.where(started, asked, 0)
        stays = [
            (row, 0, began_us, until_us, *run)
            for row, (began_us, until_us, its) in enumerate(zip(start_us, end_us, runs, strict=True))
            for run in its
        ]
        return EndedJobs(
            id=ids,
            submit_us=submit_us,
            start_us=np.array(start_us, dtype=np.int64),
            wall_us=stayed_us,
            held_us=stayed_us,
            left_us=left_us,
            end_us=ended_us,
            work_us=np.minimum(stayed_us, run_us),
            run_us=run_us,
            estimate_us=estimate_us,
            expected_us=estimate_us,
            limit_us=limit_us,
            asked=asked,
            threads=held,
            nodes=held,
            started=started,
            ended=np.ones(count, dtype=np.bool_),
            state=states,
            runs=runs,
            stays=StayRows(*zip(*stays, strict=True)) if stays else NO_STAYS,
            more={row: self._refused(ends[row]) for row in np.flatnonzero(~started).tolist()},
            **told,
        )

    def record(self, end: End) -> JobRecord:
        """Return the record of a job that has ended so."""
        if not end.runs:
            return self._refused(end)
        job = self._jobs[end.id - 1]
        spec, stayed_us = job.spec, end.end_us - end.start_us
        state = COMPLETED if spec.limit_us is None or job.run_us <= spec.limit_us else TIMEOUT
        stays = (Stay(end.start_us, end.end_us, end.runs),)
        return JobRecord(job, state, end.end_us, stays, min(stayed_us, job.run_us), spec.estimate_us, spec.limit_us)

    def _refused(self, end: End) -> JobRecord:
        job = self._jobs[end.id - 1]
        why = f"{end.processes} processes wanted, the machine holds {self._threads} of this kind"
        return JobRecord(job, REJECTED, end.end_us, (), 0, job.spec.estimate_us, job.spec.limit_us, why)

    def _told(self, name: str, rows: IntArray) -> Iterable[Any]:
        column: Column[Any] = getattr(self._jobs, name)
        return column.select(rows).values(0, len(rows))
