"""Runs in which counting decides: FCFS, EASY and SJBF, or shortest first, where nothing but jobs happens.

Manager and scheduler then exchange nothing that is not known beforehand, so one loop does the work of both, with the same records.
It counts hardware threads, or nodes where each is one job's alone.
`rule_of` tells which runs these are: it names what the loop honours, and all else takes the ordinary path.
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
from cosched_emulator.scenario.machine import cores_of
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.workload.jobs_in_columns import BLOCK, OF_LOGS, Column, Numbers, columns_of
from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.threads import (
    DEEP,
    Layers,
    layers_of,
    lowest_nodes,
    lowest_of_layers,
    minus,
    nodes_of,
    union,
)
from cosched_plugin.config import PolicyChoice, choose
from cosched_plugin.protocol.messages import COMPLETED, REJECTED, TIMEOUT, Run

_PRESETS: Final = {"none": "fcfs", "easy": "easy", "sjbf": "sjbf"}  # by backfill
_ORDERS: Final = ("fcfs", "shortest")
_SHAPES: Final = ("threads", "nodes")
_TOLD: Final = ("limit_us", "name", "user", "source_id", "group", "queue", "partition")  # columns of jobs as they are
_NEVER: Final = 1 << 62
_new = tuple.__new__  # a call of the class of a named tuple takes twice as long


class Rule(NamedTuple):
    """Who starts next, and on what."""

    order: str
    backfill: str
    shape: str


def rule_of(choice: PolicyChoice, prepared: Prepared) -> Rule | None:
    """Return the rule of a run in which counting decides; None: it takes the ordinary path."""
    rule = Rule(*[_name_in(choice.settings.get(kind)) for kind in Rule._fields])
    if rule.order not in _ORDERS or rule.backfill not in _PRESETS or rule.shape not in _SHAPES:
        return None
    changed = {"order": {"name": rule.order}, "shape": {"name": rule.shape}}
    if choice.settings != {**choose(_PRESETS[rule.backfill]).settings, **changed}:
        return None
    given = prepared.scenario
    plain = Scenario(given.seed, given.cluster, workload=given.workload, results=given.results, policy=given.policy)
    if given != plain or prepared.gated or prepared.contends or prepared.script or prepared.lags or prepared.own:
        return None
    if prepared.power is not None or prepared.licences or prepared.workload.programs is not None:
        return None
    nodes, jobs = prepared.nodes, columns_of(prepared.workload.jobs)
    if any(item.resources for item in nodes) or not jobs.usual(OF_LOGS):
        return None
    if rule.shape == "threads":
        return rule if all(item.threads < DEEP and not item.same_nodes for item in nodes) else None
    # A job that second threads alone would hold: the scheduler refuses it, in its turn.
    between = (jobs.processes.array > cores_of(nodes)) & (jobs.processes.array <= threads_of(prepared))
    return rule if len(nodes) == 1 and not between.any() else None


def _name_in(part: object) -> str:
    return str(part.get("name")) if isinstance(part, dict) else ""


def threads_of(prepared: Prepared) -> int:
    """Return how many hardware threads the machine has."""
    return sum(item.nodes * item.threads for item in prepared.nodes)


def _all_of(prepared: Prepared) -> tuple[NodeSet, ...]:
    layers = [0] * max(item.threads for item in prepared.nodes)
    first = 0
    for item in prepared.nodes:
        for thread in range(item.threads):
            layers[thread] |= ((1 << item.nodes) - 1) << first
        first += item.nodes
    return tuple(map(NodeSet, layers))


class End(NamedTuple):
    """What a job's end leaves behind, and what it gives back."""

    end_us: int
    id: int
    start_us: int
    release_us: int  # when it was expected to end
    units: int  # hardware threads that it held, or nodes where each is one job's alone
    held: Layers  # these
    runs: tuple[Run, ...]  # the same; empty: it was refused


# id, submission, units, estimate, run time, limit, processes
_Waiting: TypeAlias = tuple[int, int, int, int, int, int | None, int]
_NONE: Final = (0, _NEVER, 0, 0, 0, None, 0)


class CountedRun:
    """One run of the jobs of a scenario that `rule_of` names."""

    def __init__(
        self,
        prepared: Prepared,
        rule: Rule,
        ended: Callable[[End], None],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """``ended`` is told of every job as it ends; ``progress`` is called with the number of jobs that have ended."""
        self.batches = 0  # that a scheduler would have answered
        self._jobs = columns_of(prepared.workload.jobs)
        self._cores = prepared.nodes[0].cores if rule.shape == "nodes" else 0  # of a node that is one job's alone
        # Layers: a call of NodeSet takes as long as what it checks
        self._free: Any = ((1 << prepared.nodes[0].nodes) - 1,) if self._cores else _all_of(prepared)
        self._depth = len(self._free)
        self._units = self._count = sum(map(int.bit_count, self._free))  # all, and free ones
        self._backfills, self._by_estimate = rule.backfill != "none", rule.order == "shortest"
        self._shortest = self._by_estimate or rule.backfill == "sjbf"  # the first to overtake
        self._ended = ended
        self._progress = progress
        self._queue = _Queue(indexed=self._backfills, by_estimate=self._by_estimate)
        self._ends: list[End] = []  # a heap of running jobs
        self._releases: list[tuple[int, int, int]] = []  # (expected end, id, units) of running jobs, sorted
        # The first job, which waits; it and the next two hold until a running job ends
        self._head: _Waiting | None = None
        self._shadow_us = self._extra = 0

    # At an instant ends come first, by id, then submissions; a job that takes no time ends in the next batch of its instant.
    def run(self) -> None:
        """Run to the end of all jobs."""
        ends, releases, every, coming_jobs = self._ends, self._releases, self._units, self._coming()
        backfills, told, progress, decide = self._backfills, self._ended, self._progress, self._decide
        coming = next(coming_jobs, _NONE)
        over, deep = 0, self._depth
        while True:
            now_us = coming[1]
            if ends and ends[0][0] < now_us:
                now_us = ends[0][0]
            if now_us > LAST_US:
                if now_us == _NEVER:
                    break
                raise EmulatorError(too_late(len(ends), len(self._queue.jobs), now_us))
            gone = 0
            while ends and ends[0][0] <= now_us:
                end = heappop(ends)
                _, job_id, _, release_us, units, held, _ = end
                gone += 1
                free = self._free
                self._free = (free[0] | held[0],) if deep == 1 else union(free, held)
                self._count += units
                if backfills:
                    del releases[bisect_left(releases, (release_us, job_id))]
                told(end)
            new: list[_Waiting] = []
            while coming[1] <= now_us:
                if coming[2] > every:
                    told(_new(End, (now_us, coming[0], 0, 0, coming[2], (), ())))
                else:
                    new.append(coming)
                coming = next(coming_jobs, _NONE)
            if gone or new:
                self.batches += 1
                if progress is not None:
                    over += gone
                    progress(over)
                decide(now_us, new, gone > 0)

    def _coming(self) -> Iterator[_Waiting]:
        """Yield the jobs in order of submission."""
        jobs, rows = self._jobs, len(self._jobs)
        units = Numbers(-(-jobs.processes.array // self._cores)) if self._cores > 1 else jobs.processes
        columns = (jobs.id, jobs.submit_us, units, jobs.estimate_us, jobs.run_us, jobs.limit_us, jobs.processes)
        spans = ((first, min(first + BLOCK, rows)) for first in range(0, rows, BLOCK))
        return chain.from_iterable(
            zip(*[column.values(first, last) for column in columns], strict=False) for first, last in spans
        )

    # The rule and its short cut are those of `policies.backfilling.easy.Counting`: while no running job ends or is late, refused jobs
    # stay refused, and only those that have come matter.
    def _decide(self, now_us: int, new: list[_Waiting], changed: bool) -> None:
        """Start the jobs that may start now; ``new`` ones are not in the queue yet."""
        queue, head = self._queue, self._head
        if self._by_estimate and new:
            new.sort(key=itemgetter(3))
            if head is not None and new[0][3] < head[3]:
                head = None  # another one is first now
        if head is not None and not changed and (not self._backfills or self._releases[0][0] > now_us):
            if not self._backfills:
                queue.enter(new)
                return
            left_us, extra, free = self._shadow_us - now_us, self._extra, self._count
            found = [job for job in new if job[2] <= free and (job[3] <= left_us or job[2] <= extra)]
            started = self._overtake(found, now_us) if found else ()
            queue.enter([job for job in new if job[0] not in started] if started else new)
            return
        if queue.jobs:
            queue.enter(new)
        else:  # mostly they start at once
            for place, job in enumerate(new):
                if job[2] > self._count:
                    queue.enter(new[place:])
                    break
                self._start(job, now_us)
        while True:
            self._head = head = queue.first()
            if head is None:
                return
            if head[2] > self._count:
                break
            queue.leave(head)
            self._start(head, now_us)
        if self._backfills:
            self._shadow_us, self._extra = self._shadow(head[2], now_us)
            if self._count:
                waiting = queue.fitting(self._count, self._extra, self._shadow_us - now_us)
                if waiting:
                    for job_id in self._overtake(waiting, now_us):
                        queue.leave(queue.jobs[job_id])

    def _start(self, job: _Waiting, now_us: int) -> None:
        job_id, _, units, estimate_us, run_us, limit_us, processes = job
        free, depth = self._free, self._depth
        held: Layers
        if depth == 1:
            runs = lowest_nodes(units, free[0])
            assert runs is not None
            held = (nodes_of(runs),)
            self._free = (free[0] ^ held[0],)
            if self._cores > 1:
                runs = _on_cores(runs, processes, self._cores)
        else:
            runs = lowest_of_layers(units, free)
            held = layers_of(runs, depth)
            self._free = minus(free, held)
        self._count -= units
        release_us = now_us + estimate_us
        if self._backfills:
            insort(self._releases, (release_us, job_id, units))
        end_us = now_us + (run_us if limit_us is None or run_us <= limit_us else limit_us)
        heappush(self._ends, _new(End, (end_us, job_id, now_us, release_us, units, held, runs)))

    def _shadow(self, units: int, now_us: int) -> tuple[int, int]:
        """Return when the first job is expected to start, and how many units it leaves then."""
        missing = units - self._count
        shadow_us = now_us + 1  # the end of all jobs that are overdue
        for expected_us, _, freed in self._releases:
            if expected_us > shadow_us:
                if missing <= 0:
                    break
                shadow_us = expected_us
            missing -= freed
        return shadow_us, -missing

    def _overtake(self, found: list[_Waiting], now_us: int) -> list[int]:
        """Start the jobs in ``found`` that leave the first job its start and its units, and return which."""
        if self._shortest:
            found.sort(key=itemgetter(3))
        longest_us = self._shadow_us - now_us
        started = []
        for job in found:
            units = job[2]
            if units > self._count:
                continue
            if job[3] > longest_us:
                if units > self._extra:
                    continue
                self._extra -= units
            self._start(job, now_us)
            started.append(job[0])
            if not self._count:
                break
        return started


def _on_cores(nodes: Iterable[Run], processes: int, cores: int) -> tuple[Run, ...]:
    """Return the first hardware threads of the cores of whole nodes; the last node may have fewer processes than cores."""
    runs: list[Run] = []
    for first, count, _, _ in nodes:
        full = min(count, processes // cores)
        if full:
            runs.append(_new(Run, (first, full, (1 << cores) - 1, cores)))
            processes -= full * cores
        if full < count:
            runs.append(_new(Run, (first + full, 1, (1 << processes) - 1, processes)))
    return tuple(runs)


class _Queue:
    """The pending jobs, in order and by size: refused jobs need more units than are free, or more time, and are not looked at."""

    def __init__(self, *, indexed: bool, by_estimate: bool) -> None:
        self.jobs: dict[int, _Waiting] = {}
        self._order: deque[int] = deque()  # their ids as they came, and of some that have started
        self._shortest: list[tuple[int, int]] | None = [] if by_estimate else None  # the same, a heap of (estimate, id)
        self._indexed = indexed
        self._by_size: dict[int, list[tuple[int, int]]] = {}  # (estimate, id), sorted
        self._sizes: list[int] = []  # sorted

    def enter(self, jobs: Iterable[_Waiting]) -> None:
        """Add jobs at the end."""
        for job in jobs:
            job_id, _, units, estimate_us, _, _, _ = job
            self.jobs[job_id] = job
            if self._shortest is None:
                self._order.append(job_id)
            else:
                heappush(self._shortest, (estimate_us, job_id))
            if self._indexed:
                alike = self._by_size.get(units)
                if alike:
                    insort(alike, (estimate_us, job_id))
                else:
                    self._by_size[units] = [(estimate_us, job_id)]
                    insort(self._sizes, units)

    def leave(self, job: _Waiting) -> None:
        """Remove a job."""
        job_id, _, units, estimate_us, _, _, _ = job
        del self.jobs[job_id]
        if self._indexed:
            alike = self._by_size[units]
            if len(alike) == 1:
                alike.clear()
                self._sizes.remove(units)
            else:
                del alike[bisect_left(alike, (estimate_us, job_id))]

    def first(self) -> _Waiting | None:
        """Return the first job; None: there is none."""
        order, jobs, shortest = self._order, self.jobs, self._shortest
        while shortest:
            job = jobs.get(shortest[0][1])
            if job is not None:
                return job
            heappop(shortest)
        while order:
            job = jobs.get(order[0])
            if job is not None:
                return job
            order.popleft()
        return None

    def fitting(self, units: int, extra: int, longest_us: int) -> list[_Waiting]:
        """Return, in order, the jobs of at most so many units that take at most ``extra`` of them, or at most so long."""
        found: list[tuple[int, int]] = []
        by_size, bound = self._by_size, (longest_us, _NEVER)
        for size in self._sizes:
            if size > units:
                break
            alike = by_size[size]
            if size <= extra:
                found += alike
            elif alike[0] < bound:  # the shortest one
                found += alike[: bisect_right(alike, bound)]
        if len(found) > 1:
            found.sort(key=itemgetter(1))
        return [self.jobs[job_id] for _, job_id in found]


class CountedJobs:
    """What became of the jobs of such a run, in columns and as records."""

    def __init__(self, prepared: Prepared) -> None:
        self._jobs = jobs = columns_of(prepared.workload.jobs)
        self._threads = threads_of(prepared)
        self._deep = any(item.threads > 1 for item in prepared.nodes)
        self._known = [column.array for column in (jobs.processes, jobs.submit_us, jobs.estimate_us, jobs.run_us)]

    def columns(self, ends: list[End]) -> EndedJobs:
        """Return the jobs that have ended so."""
        count = len(ends)
        end_us, job_id, start_us, _, _, _, runs = zip(*ends, strict=True) if ends else [()] * 7
        ids, ended_us = (np.array(column, dtype=np.int64) for column in (job_id, end_us))
        rows = ids - 1
        asked, submit_us, estimate_us, run_us = [column[rows] for column in self._known]
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
        nodes = [sum([run.count for run in its]) for its in runs] if self._deep else asked
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
            threads=np.where(started, asked, 0),
            nodes=np.where(started, nodes, 0),
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
        why = f"{job.spec.processes} processes wanted, the machine holds {self._threads} of this kind"
        return JobRecord(job, REJECTED, end.end_us, (), 0, job.spec.estimate_us, job.spec.limit_us, why)

    def _told(self, name: str, rows: IntArray) -> Iterable[Any]:
        column: Column[Any] = getattr(self._jobs, name)
        return column.select(rows).values(0, len(rows))
