"""Future availability of individual threads, of memory, and of what is counted: needed where some job asks for whole nodes among others
that do not, for memory, certain nodes, countable resources, or a certain number of processes a node.

Counting comes first here, too: individual threads are examined only where there are enough of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import ClassVar, TypeAlias

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.planning.profile import FOREVER_US, Change, Promise, Promises, Timeline, start_of

# What is left besides threads, one array each: memory by node, each countable resource by node, and the licences by name. What a job
# takes of them is written alike, None for what it takes nothing of.
Left: TypeAlias = tuple[api.Ints, ...]
Taken: TypeAlias = tuple[api.Ints | None, ...]


class PlacedProfile:
    """Free threads, memory and countable resources over time, each by its node."""

    __slots__ = ("_free", "_left", "_placement", "_view", "timeline")
    counts: ClassVar[bool] = False
    lasting: ClassVar[bool] = True

    def __init__(self, view: api.View, placement: api.Placement) -> None:
        self._view = view
        self._placement = placement
        # By step of the timeline.
        steps = view.availability()
        # Threads as one integer, by `side_by_side`: of 128 layers each operation would be 128 of them.
        self._free: list[int] = steps.joined()
        self.timeline = Timeline((steps.instant_us(step), free.bit_count()) for step, free in enumerate(self._free))
        self._left: list[Left] = _left_at(self.timeline, view)

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
        """Tell whether the promised threads, and what the job takes besides, are free for the whole estimate."""
        start_us = start_of(promise)
        runs = _runs(promise)
        if start_us < self._view.now_us or not _suits(job, runs, self._view):
            return False
        wanted = self._joined(self._view.claim(runs))
        steps = self._steps(job, start_us)
        if any(wanted & ~self._free[step] for step in steps):
            return False
        return all(
            taken is None or bool((self._least(steps, row) >= taken).all())
            for row, taken in enumerate(_taken_by(job, runs, self._view))
        )

    def reserve(self, job: api.JobSpec, promise: Promise) -> None:
        """Take the promised threads, and what the job takes besides."""
        self._change(job, promise, taken=True)

    def reserve_all(self, past: Promises, first: int) -> int:
        """Reserve promises one after the other, up to the first that does not fit."""
        done = first
        while done < len(past) and self.fits(*past[done]):
            self.reserve(*past[done])
            done += 1
        return done

    def lift(self, job: api.JobSpec, promise: Promise) -> None:
        """Give back what was promised."""
        self._change(job, promise, taken=False)

    def follow(self, before: PlacedProfile, after: PlacedProfile) -> list[Change] | None:
        """Advance to the present with the new running jobs; None if they are in places promised to pending jobs."""
        now_us = self._view.now_us
        self._advance(now_us)
        before._advance(now_us)
        same = before._free == after._free and before.timeline.times == after.timeline.times
        if same and all(_equal(old, new) for old, new in zip(before._left, after._left, strict=True)):
            return []
        changes: list[Change] = []
        instants = sorted({*before.timeline.times, *after.timeline.times})
        for at_us, until_us in zip(instants, [*instants[1:], FOREVER_US], strict=True):
            old, new = before.timeline.step_at(at_us), after.timeline.step_at(at_us)
            lost = before._free[old] & ~after._free[new]
            gained = after._free[new] & ~before._free[old]
            more = tuple([now - then for now, then in zip(after._left[new], before._left[old], strict=True)])
            if not (lost or gained or any(row.any() for row in more)):
                continue
            for step in self._cut_out(at_us, until_us):
                if lost & ~self._free[step]:
                    return None
                self._put(step, self._free[step] & ~lost | gained, _changed(self._left[step], more, 1))
                if any(row.min(initial=0) < 0 for row in self._left[step]):
                    return None
            # Without threads, too: a job on a node that has failed gives its licences back when it ends.
            freed = gained.bit_count() or int(any(bool((row > 0).any()) for row in more))
            changes.append(Change(at_us, until_us, freed))
        return changes

    def offer(self, job: api.JobSpec, promise: Promise) -> api.Offer | None:
        """Return the job where it was promised."""
        return self._placement.offer_on(job, _runs(promise), api.snapshot_now(self._view))

    def admits(self, occupancies: Sequence[api.Occupancy]) -> bool:
        """Tell whether exactly these nodes are free, and the licences of these jobs."""
        view = api.whole_nodes(self._view)
        times = self.timeline.times
        if not self._licences_last(occupancies):
            return False
        for occupancy in occupancies:
            wanted = self._joined(view.firsts(occupancy.nodes))
            if any(wanted & ~free for free in self._free[: bisect_left(times, occupancy.end_us)]):
                return False
        return True

    def _licences_last(self, occupancies: Sequence[api.Occupancy]) -> bool:
        """Tell whether these jobs find their licences until they end; a running one has them up to its expected end."""
        view, times = self._view, self.timeline.times
        taken: dict[int, api.Ints] = {}  # by step
        for end_us, job_id, _ in occupancies:
            running = view.running.get(job_id)
            job = view.pending(job_id) if running is None else running.job
            wanted = None if job is None else _licences_of(job, view)
            if wanted is not None:
                since_us = view.now_us if running is None else view.expected_end(running)
                for step in range(max(0, self.timeline.step_at(since_us)), bisect_left(times, end_us)):
                    taken[step] = taken[step] + wanted if step in taken else wanted
        return all(bool((self._left[step][-1] >= amounts).all()) for step, amounts in taken.items())

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
        """Return what is free from ``start_us`` on for the job's whole estimate."""
        steps = self._steps(job, start_us)
        free = reduce(and_, self._free[steps.start : steps.stop])
        machine = self._view.machine
        layers = api.apart(free, machine.nodes, machine.depth)
        memory_mb = self._least(steps, 0).tolist() if job.memory_mb else machine.memory_mb
        counts = self._least_counts(steps) if job.resources or job.licences else None
        return api.Snapshot(self._view, start_us, layers, (), memory_mb, counts)

    def _least_counts(self, steps: range) -> api.Counts:
        machine = self._view.machine
        each = {name: self._least(steps, row).tolist() for row, name in enumerate(machine.resources, 1)}
        return api.Counts(each, dict(zip(machine.licences, self._least(steps, -1).tolist(), strict=True)))

    def _joined(self, layers: api.Layers) -> int:
        return api.side_by_side(layers, self._view.machine.nodes)

    def _least(self, steps: range, row: int) -> api.Ints:
        least: api.Ints = np.minimum.reduce([left[row] for left in self._left[steps.start : steps.stop]])
        return least

    def _steps(self, job: api.JobSpec, start_us: int) -> range:
        """Return the steps that the job overlaps."""
        times = self.timeline.times
        return range(self.timeline.step_at(start_us), bisect_left(times, start_us + job.estimate_us))

    def _change(self, job: api.JobSpec, promise: Promise, *, taken: bool) -> None:
        runs = _runs(promise)
        start_us = start_of(promise)
        threads = self._joined(self._view.claim(runs))
        besides = _held_by(job, runs, self._view)
        steps = self._cut_out(start_us, start_us + job.estimate_us)
        for step in steps:
            free, left = self._free[step], self._left[step]
            if taken:
                self._put(step, free & ~threads, _changed(left, besides, -1))
            else:
                self._put(step, free | threads, _changed(left, besides, 1))
        self._join(steps.stop)
        self._join(steps.start)

    def _put(self, step: int, free: int, left: Left) -> None:
        self._free[step] = free
        self._left[step] = left
        self.timeline.values[step] = free.bit_count()

    def _cut_out(self, start_us: int, end_us: int) -> range:
        """Return the steps between two instants, with steps made to begin there."""
        first = self._cut(start_us)
        return range(first, self._cut(end_us) if end_us < FOREVER_US else len(self._free))

    def _cut(self, at_us: int) -> int:
        step = self.timeline.cut(at_us)
        if len(self.timeline.times) > len(self._free):
            self._free.insert(step, self._free[step - 1])
            self._left.insert(step, self._left[step - 1])
        return step

    def _join(self, step: int) -> None:
        """Merge a step into the one before, if they are equal."""
        if not 0 < step < len(self._free) or self._free[step] != self._free[step - 1]:
            return
        if _equal(self._left[step], self._left[step - 1]):
            del self._free[step], self._left[step], self.timeline.times[step], self.timeline.values[step]

    def _advance(self, now_us: int) -> None:
        past = max(0, self.timeline.step_at(now_us))  # a class's clock goes back where all jobs ended before its slice
        del self._free[:past], self._left[:past]
        self.timeline.advance(now_us)


def _left_at(timeline: Timeline, view: api.View) -> list[Left]:
    """Return what is left at every step, by the running jobs; on whole nodes, of each node what it has when it is empty."""
    machine, whole = view.machine, api.nodes_view(view) is not None
    memory, resources = (machine.memory_mb, machine.resources) if whole else (view.free_memory_mb, view.free_resources)
    licences = [view.licences.get(name, 0) for name in machine.licences]
    rows = (memory, *[resources[name] for name in machine.resources], licences)
    left: Left = tuple([np.array(row, dtype=np.int64) for row in rows])
    leaving = [(max(end_us, view.now_us + 1), view.running[job_id]) for end_us, job_id in view.releases]
    found: list[Left] = []
    gone = 0
    for at_us in timeline.times:
        while gone < len(leaving) and leaving[gone][0] <= at_us:
            running = leaving[gone][1]
            if not running.on_disk:
                left = _changed(left, _held_by(running.job, running.runs, view), 1)
            gone += 1
        found.append(left)
    return found


def _taken_by(job: api.JobSpec, runs: Sequence[api.Run], view: api.View) -> Taken:
    """Return what a job asks for besides threads, on these nodes."""
    amounts = dict(job.resources)
    memory_mb = _on_nodes(runs, view, job.memory_mb, 0) if job.memory_mb else None
    each = [_on_nodes(runs, view, 0, amounts[name]) if name in amounts else None for name in view.machine.resources]
    return (memory_mb, *each, _licences_of(job, view))


def _held_by(job: api.JobSpec, runs: Sequence[api.Run], view: api.View) -> Taken:
    """Return what no other job can have meanwhile; on whole nodes, no other job could use what it leaves of a node."""
    if api.nodes_view(view) is None:
        return _taken_by(job, runs, view)
    return (*[None] * (1 + len(view.machine.resources)), _licences_of(job, view))


def _licences_of(job: api.JobSpec, view: api.View) -> api.Ints | None:
    if not job.licences:
        return None
    amounts = dict(job.licences)
    return np.array([amounts.get(name, 0) for name in view.machine.licences], dtype=np.int64)


def _on_nodes(runs: Sequence[api.Run], view: api.View, of_process: int, of_node: int) -> api.Ints:
    taken = np.zeros(view.machine.nodes, dtype=np.int64)
    for run in runs:
        taken[run.first : run.first + run.count] += run.processes * of_process + of_node
    return taken


def _changed(left: Left, taken: Taken, sign: int) -> Left:
    """Return what is left after a change. Steps may share arrays: these are replaced, never changed."""
    return tuple([row if by is None else row + sign * by for row, by in zip(left, taken, strict=True)])


def _equal(one: Left, other: Left) -> bool:
    return one is other or all(a is b or np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _suits(job: api.JobSpec, runs: Sequence[api.Run], view: api.View) -> bool:
    """Tell whether the job may have a place of so many processes and threads: it may have been modified since it was promised."""
    if job.eligible and api.nodes_of(runs) & ~view.machine.eligible(job):
        return False
    width = job.threads_per_process
    alike = job.exclusive or all(mask.bit_count() == count * width for _, _, mask, count in runs)
    return alike and sum(nodes * count for _, nodes, _, count in runs) == job.processes


def _runs(promise: Promise) -> tuple[api.Run, ...]:
    return api.runs_of_note(promise[1:])
