"""Future availability of individual threads and of memory: needed where some job asks for whole nodes among others that do not, for
memory, or for a certain number of processes a node.

Counting comes first here, too: individual threads are examined only where there are enough of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import ClassVar

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.planning.profile import FOREVER_US, Change, Promise, Promises, Timeline, start_of


class PlacedProfile:
    """Free threads and memory over time, each by its node."""

    __slots__ = ("_free", "_memory", "_placement", "_view", "timeline")
    counts: ClassVar[bool] = False
    lasting: ClassVar[bool] = True

    def __init__(self, view: api.View, placement: api.Placement) -> None:
        self._view = view
        self._placement = placement
        # By step of the timeline. Steps may share arrays: these are replaced, never changed.
        steps = view.availability()
        # Threads as one integer, by `side_by_side`: of 128 layers each operation would be 128 of them.
        self._free: list[int] = steps.joined()
        self.timeline = Timeline((steps.instant_us(step), free.bit_count()) for step, free in enumerate(self._free))
        self._memory: list[api.Ints] = _memory_at(self.timeline, view)

    def need(self, job: api.JobSpec) -> tuple[int, int]:
        """Return the least number of threads that the job takes, and its estimate."""
        if job.exclusive and api.nodes_view(self._view) is not None:
            return job.processes, job.estimate_us  # it may take the second threads of its cores, which are not counted
        return job.processes * job.threads_per_process, job.estimate_us

    def earliest(self, job: api.JobSpec) -> Promise | None:
        """Return the first place that stays free for the whole estimate."""
        return self._place(job, 0)

    def sooner(self, job: api.JobSpec, promise: Promise, since_us: int) -> Promise | None:
        """Return the first place before the promised one that stays free for the whole estimate."""
        need, span_us = self.need(job)
        own_us = start_of(promise)
        timeline = self.timeline
        by_number_us = timeline.sooner(need, span_us, own_us, timeline.step_at(since_us))
        if by_number_us is None:
            return None
        self.lift(job, promise)
        found = self._place(job, timeline.step_at(by_number_us), own_us)
        self.reserve(job, promise)
        return found

    def fits(self, job: api.JobSpec, promise: Promise) -> bool:
        """Tell whether the promised threads and memory are free for the whole estimate."""
        start_us = start_of(promise)
        runs = _runs(promise)
        if start_us < self._view.now_us or not _suits(job, runs):
            return False
        wanted = self._joined(self._view.claim(runs))
        steps = self._steps(job, start_us)
        if any(wanted & ~self._free[step] for step in steps):
            return False
        if not job.memory_mb:
            return True
        memory = self._least_memory(steps)
        return all(memory[node] >= count * job.memory_mb for node, count in api.each_node(runs))

    def reserve(self, job: api.JobSpec, promise: Promise) -> None:
        """Take the promised threads and memory."""
        self._change(job, promise, taken=True)

    def reserve_all(self, past: Promises, first: int) -> int:
        """Reserve promises one after the other, up to the first that does not fit."""
        done = first
        while done < len(past) and self.fits(*past[done]):
            self.reserve(*past[done])
            done += 1
        return done

    def lift(self, job: api.JobSpec, promise: Promise) -> None:
        """Give the promised threads and memory back."""
        self._change(job, promise, taken=False)

    def follow(self, before: PlacedProfile, after: PlacedProfile) -> list[Change] | None:
        """Advance to the present with the new running jobs; None if they are in places promised to pending jobs."""
        now_us = self._view.now_us
        self._advance(now_us)
        before._advance(now_us)
        same = before._free == after._free and before.timeline.times == after.timeline.times
        if same and all(map(np.array_equal, before._memory, after._memory)):
            return []
        changes: list[Change] = []
        instants = sorted({*before.timeline.times, *after.timeline.times})
        for at_us, until_us in zip(instants, [*instants[1:], FOREVER_US], strict=True):
            old, new = before.timeline.step_at(at_us), after.timeline.step_at(at_us)
            lost = before._free[old] & ~after._free[new]
            gained = after._free[new] & ~before._free[old]
            more_mb = after._memory[new] - before._memory[old]
            if not (lost or gained or more_mb.any()):
                continue
            for step in self._cut_out(at_us, until_us):
                if lost & ~self._free[step]:
                    return None
                self._put(step, self._free[step] & ~lost | gained, self._memory[step] + more_mb)
                if self._memory[step].min() < 0:
                    return None
            changes.append(Change(at_us, until_us, gained.bit_count()))
        return changes

    def offer(self, job: api.JobSpec, promise: Promise) -> api.Offer | None:
        """Return the job where it was promised."""
        return self._placement.offer_on(job, _runs(promise), api.snapshot_now(self._view))

    def admits(self, occupancies: Sequence[api.Occupancy]) -> bool:
        """Tell whether exactly these nodes are free."""
        view = api.whole_nodes(self._view)
        times = self.timeline.times
        for occupancy in occupancies:
            wanted = self._joined(view.firsts(occupancy.nodes))
            if any(wanted & ~free for free in self._free[: bisect_left(times, occupancy.end_us)]):
                return False
        return True

    def never(self, job: api.JobSpec) -> bool:
        """Tell whether the job does not fit on this machine."""
        return self._placement.never(job, self._view)

    def _place(self, job: api.JobSpec, first: int, until_us: int = FOREVER_US) -> Promise | None:
        """Return the job's first place that begins with step ``first`` or a later one, and before ``until_us``."""
        need, span_us = self.need(job)
        timeline = self.timeline
        step = first
        while step < len(timeline.times):
            start_us = timeline.earliest(need, span_us, step)
            if start_us is None or start_us >= until_us:
                break
            offer = self._placement.offer(job, self._snapshot(job, start_us))
            if offer is not None:
                return (start_us, *api.note_of_runs(offer.runs))
            step = timeline.step_at(start_us) + 1
        return None

    def _snapshot(self, job: api.JobSpec, start_us: int) -> api.Snapshot:
        """Return the threads and memory that are free from ``start_us`` on for the job's whole estimate."""
        steps = self._steps(job, start_us)
        free = reduce(and_, self._free[steps.start : steps.stop])
        machine = self._view.machine
        memory_mb = self._least_memory(steps) if job.memory_mb else machine.memory_mb
        return api.Snapshot(self._view, start_us, api.apart(free, machine.nodes, machine.depth), (), memory_mb)

    def _joined(self, layers: api.Layers) -> int:
        return api.side_by_side(layers, self._view.machine.nodes)

    def _least_memory(self, steps: range) -> list[int]:
        least: list[int] = np.minimum.reduce(self._memory[steps.start : steps.stop]).tolist()
        return least

    def _steps(self, job: api.JobSpec, start_us: int) -> range:
        """Return the steps that the job overlaps."""
        times = self.timeline.times
        return range(self.timeline.step_at(start_us), bisect_left(times, start_us + job.estimate_us))

    def _change(self, job: api.JobSpec, promise: Promise, *, taken: bool) -> None:
        runs = _runs(promise)
        start_us = start_of(promise)
        threads = self._joined(self._view.claim(runs))
        memory_mb = _memory_of(job, runs, self._view)
        steps = self._cut_out(start_us, start_us + job.estimate_us)
        for step in steps:
            free, left_mb = self._free[step], self._memory[step]
            if taken:
                self._put(step, free & ~threads, left_mb if memory_mb is None else left_mb - memory_mb)
            else:
                self._put(step, free | threads, left_mb if memory_mb is None else left_mb + memory_mb)
        self._join(steps.stop)
        self._join(steps.start)

    def _put(self, step: int, free: int, memory_mb: api.Ints) -> None:
        self._free[step] = free
        self._memory[step] = memory_mb
        self.timeline.values[step] = free.bit_count()

    def _cut_out(self, start_us: int, end_us: int) -> range:
        """Return the steps between two instants, with steps made to begin there."""
        first = self._cut(start_us)
        return range(first, self._cut(end_us) if end_us < FOREVER_US else len(self._free))

    def _cut(self, at_us: int) -> int:
        step = self.timeline.cut(at_us)
        if len(self.timeline.times) > len(self._free):
            self._free.insert(step, self._free[step - 1])
            self._memory.insert(step, self._memory[step - 1])
        return step

    def _join(self, step: int) -> None:
        """Merge a step into the one before, if they are equal."""
        if not 0 < step < len(self._free) or self._free[step] != self._free[step - 1]:
            return
        if self._memory[step] is self._memory[step - 1] or np.array_equal(self._memory[step], self._memory[step - 1]):
            del self._free[step], self._memory[step], self.timeline.times[step], self.timeline.values[step]

    def _advance(self, now_us: int) -> None:
        past = max(0, self.timeline.step_at(now_us))  # a class's clock goes back where all jobs ended before its slice
        del self._free[:past], self._memory[:past]
        self.timeline.advance(now_us)


def _memory_at(timeline: Timeline, view: api.View) -> list[api.Ints]:
    """Return the free memory of each node at every step, by the running jobs; on whole nodes, that of the empty node."""
    if api.nodes_view(view) is not None:
        return [np.array(view.machine.memory_mb, dtype=np.int64)] * len(timeline.times)
    memory_mb = np.array(view.free_memory_mb, dtype=np.int64)
    leaving = [(max(end_us, view.now_us + 1), view.running[job_id]) for end_us, job_id in view.releases]
    found: list[api.Ints] = []
    gone = 0
    for at_us in timeline.times:
        while gone < len(leaving) and leaving[gone][0] <= at_us:
            running = leaving[gone][1]
            back_mb = None if running.on_disk else _memory_of(running.job, running.runs, view)
            if back_mb is not None:
                memory_mb = memory_mb + back_mb
            gone += 1
        found.append(memory_mb)
    return found


def _memory_of(job: api.JobSpec, runs: Sequence[api.Run], view: api.View) -> api.Ints | None:
    """Return the memory of each node that a job takes; None if it asks for none, or no other job can use the rest."""
    if not job.memory_mb or api.nodes_view(view) is not None:
        return None
    memory_mb = np.zeros(view.machine.nodes, dtype=np.int64)
    for run in runs:
        memory_mb[run.first : run.first + run.count] += run.processes * job.memory_mb
    return memory_mb


def _suits(job: api.JobSpec, runs: Sequence[api.Run]) -> bool:
    """Tell whether a place has as many processes and threads as the job: the job may have been modified since it was promised."""
    width = job.threads_per_process
    alike = job.exclusive or all(mask.bit_count() == count * width for _, _, mask, count in runs)
    return alike and sum(nodes * count for _, nodes, _, count in runs) == job.processes


def _runs(promise: Promise) -> tuple[api.Run, ...]:
    return api.runs_of_note(promise[1:])
