"""Future availability of individual threads, of memory, and of what is counted: needed where some job asks for whole nodes among others
that do not, for memory, certain nodes, countable resources, or a certain number of processes a node.

Counting comes first here, too: individual threads are examined only where there are enough of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import ClassVar, Final, TypeAlias

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.planning.profile import (
    FOREVER_US,
    Change,
    NodeProfile,
    Promise,
    Promises,
    Timeline,
    start_of,
)

# What is left besides threads, one array each with a row for every step: memory by node, each countable resource by node, and the
# licences by name. What a job takes of them is written alike, in one row, None for what it takes nothing of.
Left: TypeAlias = list[api.Ints]
Taken: TypeAlias = tuple[api.Ints | None, ...]


class PlacedProfile:
    """Free threads, memory and countable resources over time, each by its node."""

    __slots__ = ("_free", "_left", "_placement", "_threads", "_view", "timeline")
    _threads: api.Ints | None  # how many are free, by step and node, once a place is looked for
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
        self._left: Left = _left_at(self.timeline, view)
        self._threads = None

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
        first = timeline.step_at(by_number_us)
        if api.nodes_view(self._view) is None and next(self._begins(job, first, own_us, promise), None) is None:
            return None  # without lifting it, which makes and merges steps
        self.lift(job, promise)
        found = self._place(job, first, own_us)
        self.reserve(job, promise)
        return found

    def fits(self, job: api.JobSpec, promise: Promise) -> bool:
        """Tell whether the promised threads, and what the job takes besides, are free for the whole estimate."""
        start_us = start_of(promise)
        runs = _runs(promise)
        if start_us < self._view.now_us or not _suits(job, runs, self._view):
            return False
        wanted = self._claimed(runs)
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

    def renew(self, past: Promises, work: api.Work) -> dict[int, Promise | None]:
        """Reserve promises one after the other, and in place of each that does not fit the earliest one."""
        renewed: dict[int, Promise | None] = {}
        for number in range(len(past)):
            job, promise = past[number]
            if not self.fits(job, promise):
                renewed[number] = found = None if work.spent else self.earliest(job)
                if found is None:
                    continue
                work.pay(api.prices.PROMISE)
                promise = found
            self.reserve(job, promise)
        return renewed

    def lift(self, job: api.JobSpec, promise: Promise) -> None:
        """Give back what was promised."""
        self._change(job, promise, taken=False)

    def follow(self, before: PlacedProfile, after: PlacedProfile) -> list[Change] | None:
        """Advance to the present with the new running jobs; None if they are in places promised to pending jobs."""
        now_us = self._view.now_us
        self._advance(now_us)
        before._advance(now_us)
        same = before._free == after._free and before.timeline.times == after.timeline.times
        if same and all(map(np.array_equal, before._left, after._left)):
            return []
        changes: list[Change] = []
        instants = sorted({*before.timeline.times, *after.timeline.times})
        olds, news = before._steps_at(instants), after._steps_at(instants)
        more = [now[news] - then[olds] for now, then in zip(after._left, before._left, strict=True)]
        differs = np.zeros(len(instants), dtype=np.bool_)
        for rows in more:
            differs |= rows.any(axis=1)
        spans = zip(instants, [*instants[1:], FOREVER_US], olds.tolist(), news.tolist(), differs.tolist(), strict=True)
        for row, (at_us, until_us, old, new, differ) in enumerate(spans):
            lost = before._free[old] & ~after._free[new]
            gained = after._free[new] & ~before._free[old]
            if not (lost or gained or differ):
                continue
            steps = self._cut_out(at_us, until_us)
            for step in steps:
                if lost & ~self._free[step]:
                    return None
                self._free[step] = free = self._free[step] & ~lost | gained
                self.timeline.values[step] = free.bit_count()
            for left, by in zip(self._left, more, strict=True):
                left[steps.start : steps.stop] += by[row]
            if self._threads is not None:
                for sign, threads in ((1, gained), (-1, lost)):
                    if threads:  # mostly one of them has none
                        self._threads[steps.start : steps.stop] += sign * self._counts_of(threads)
            if any(left[steps.start : steps.stop].min(initial=0) < 0 for left in self._left):
                return None
            # Without threads, too: a job on a node that has failed gives its licences back when it ends.
            freed = gained.bit_count() or int(any(bool((by[row] > 0).any()) for by in more))
            changes.append(Change(at_us, until_us, freed))
        return changes

    def offer(self, job: api.JobSpec, promise: Promise) -> api.Offer | None:
        """Return the job where it was promised."""
        return self._placement.offer_on(job, _runs(promise), api.snapshot_now(self._view))

    def admits(self, occupancies: Sequence[api.Occupancy]) -> bool:
        """Tell whether exactly these nodes are free, and the licences of these jobs."""
        times = self.timeline.times
        if not self._licences_last(occupancies):
            return False
        for occupancy in occupancies:
            wanted = self._all_of(occupancy.nodes)
            if any(wanted & ~free for free in self._free[: bisect_left(times, occupancy.end_us)]):
                return False
        return True

    def _licences_last(self, occupancies: Sequence[api.Occupancy]) -> bool:
        """Tell whether these jobs find their licences until they end."""
        taken = self._licences_taken(occupancies)
        return all(bool((self._left[-1][step] >= amounts).all()) for step, amounts in taken.items())

    def _licences_taken(self, occupancies: Sequence[api.Occupancy]) -> dict[int, api.Ints]:
        """Return what these jobs take besides, by step; a running one has its licences up to its expected end."""
        view, times = self._view, self.timeline.times
        taken: dict[int, api.Ints] = {}
        for end_us, job_id, _ in occupancies:
            running = view.running.get(job_id)
            job = view.pending(job_id) if running is None else running.job
            wanted = None if job is None else _licences_of(job, view)
            if wanted is not None:
                since_us = view.now_us if running is None else view.expected_end(running)
                for step in range(max(0, self.timeline.step_at(since_us)), bisect_left(times, end_us)):
                    taken[step] = taken[step] + wanted if step in taken else wanted
        return taken

    def never(self, job: api.JobSpec) -> bool:
        """Tell whether the job does not fit on this machine."""
        return self._placement.never(job, self._view)

    def _place(self, job: api.JobSpec, first: int, until_us: int = FOREVER_US) -> Promise | None:
        """Return the job's first place that begins with step ``first`` or a later one, and before ``until_us``."""
        for start_us in self._begins(job, first, until_us):
            offer = self._placement.offer(job, self._snapshot(job, start_us))
            if offer is not None:
                return (start_us, *api.note_of_runs(offer.runs))
        return None

    def _begins(self, job: api.JobSpec, first: int, until_us: int, own: Promise | None = None) -> Iterator[int]:
        """Yield the instants, ascending, from which there may be room for the job until it ends, by numbers alone.

        ``own``: the job's promise, which counts as lifted.
        """
        need, span_us = self.need(job)
        if api.nodes_view(self._view) is not None:
            start_us = self.timeline.earliest(need, span_us, first)
            while start_us is not None and start_us < until_us:
                yield start_us
                step = self.timeline.step_at(start_us) + 1
                later = step < len(self.timeline.times)
                start_us = self.timeline.earliest(need, span_us, step) if later else None
            return
        last = bisect_left(self.timeline.times, until_us + span_us)
        times = np.array(self.timeline.times[first:last])
        rooms = self._rooms(job, first, last, own)
        blocked = np.zeros(len(times) + 1, dtype=np.int64)  # steps before each
        np.cumsum(rooms.sum(axis=1) < job.processes, out=blocked[1:])
        ends = np.searchsorted(times, times + span_us)
        fine = (blocked[ends] == blocked[:-1]) & (times < until_us)
        for step in fine.nonzero()[0].tolist():
            if rooms[step : ends[step]].min(axis=0).sum() >= job.processes:
                yield int(times[step])

    def _rooms(self, job: api.JobSpec, first: int, last: int, own: Promise | None) -> api.Ints:
        """Return how many processes each node can take at most, by step."""
        if self._threads is None:
            self._threads = np.array([self._counts_of(free) for free in self._free])
        left = [rows[first:last] for rows in (self._threads, *self._left)]
        if own is not None:
            times, start_us, runs = self.timeline.times, start_of(own), _runs(own)
            begin, end = self.timeline.step_at(start_us), bisect_left(times, start_us + self.need(job)[1])
            theirs = slice(max(first, begin) - first, max(first, end) - first)
            for row, by in enumerate((self._counts_of(self._claimed(runs)), *self._besides(job, runs))):
                if by is not None:
                    left[row] = left[row].copy()
                    left[row][theirs] += by
        machine, amounts = self._view.machine, dict(job.resources)
        threads, memory_mb, *resources, _ = left
        rooms = api.rooms_of(job, threads, machine, memory_mb, machine.eligible(job) if job.eligible else None)
        for name, rows in zip(machine.resources, resources, strict=True):
            if name in amounts:
                rooms = np.where(rows >= amounts[name], rooms, 0)
            for other, nodes in machine.apart.get(name, ()):
                if other in amounts:  # the nodes of that rule on which somebody takes some of this one
                    ruled = np.zeros(machine.nodes, np.bool_)
                    ruled[[*api.bits_of(nodes)]] = True
                    rooms = np.where(ruled & (rows < np.asarray(machine.resources[name])), 0, rooms)
        return rooms

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
        return api.Counts(machine, each, dict(zip(machine.licences, self._least(steps, -1).tolist(), strict=True)))

    def _besides(self, job: api.JobSpec, runs: Sequence[api.Run]) -> Taken:
        return _held_by(job, runs, self._view)

    # A set of threads is one integer here, in which 128 layers are side by side.
    def _counts_of(self, threads: int) -> api.Ints:
        machine = self._view.machine
        return api.thread_counts(api.apart(threads, machine.nodes, machine.depth), machine.nodes)

    def _claimed(self, runs: tuple[api.Run, ...]) -> int:
        return api.side_by_side(self._view.claim(runs), self._view.machine.nodes)

    def _all_of(self, nodes: api.NodeSet) -> int:
        return api.side_by_side(api.whole_nodes(self._view).firsts(nodes), self._view.machine.nodes)

    def _least(self, steps: range, row: int) -> api.Ints:
        least: api.Ints = self._left[row][steps.start : steps.stop].min(axis=0)
        return least

    def _steps(self, job: api.JobSpec, start_us: int) -> range:
        """Return the steps that the job overlaps."""
        times = self.timeline.times
        return range(self.timeline.step_at(start_us), bisect_left(times, start_us + self.need(job)[1]))

    def _steps_at(self, instants: Sequence[int]) -> api.Ints:
        """Return the steps in which some instants lie, none before the first step."""
        return np.searchsorted(np.frombuffer(self.timeline.times, np.int64), instants, side="right") - 1

    def _change(self, job: api.JobSpec, promise: Promise, *, taken: bool) -> None:
        runs = _runs(promise)
        start_us = start_of(promise)
        threads = self._claimed(runs)
        besides = self._besides(job, runs)
        steps = self._cut_out(start_us, start_us + self.need(job)[1])
        span = slice(steps.start, steps.stop)
        free = (
            [each & ~threads for each in self._free[span]] if taken else [each | threads for each in self._free[span]]
        )
        self._free[span] = free
        sign = -1 if taken else 1
        # All of them were free, or taken
        np.frombuffer(self.timeline.values, np.int64)[span] += sign * threads.bit_count()
        for left, by in zip(self._left, besides, strict=True):
            if by is not None:
                left[span] += sign * by
        if self._threads is not None:
            self._threads[span] += sign * self._counts_of(threads)
        self._join(steps.stop)
        self._join(steps.start)

    def _cut_out(self, start_us: int, end_us: int) -> range:
        """Return the steps between two instants, with steps made to begin there."""
        first = self._cut(start_us)
        return range(first, self._cut(end_us) if end_us < FOREVER_US else len(self._free))

    def _cut(self, at_us: int) -> int:
        step = self.timeline.cut(at_us)
        if len(self.timeline.times) > len(self._free):
            self._free.insert(step, self._free[step - 1])
            self._rearrange(lambda rows: np.insert(rows, step, rows[step - 1], axis=0))
        return step

    def _join(self, step: int) -> None:
        """Merge a step into the one before, if they are equal."""
        if not 0 < step < len(self._free) or self._free[step] != self._free[step - 1]:
            return
        if all(np.array_equal(left[step], left[step - 1]) for left in self._left):
            del self._free[step], self.timeline.times[step], self.timeline.values[step]
            self._rearrange(lambda rows: np.delete(rows, step, axis=0))

    def _advance(self, now_us: int) -> None:
        past = max(0, self.timeline.step_at(now_us))  # a class's clock goes back where all jobs ended before its slice
        del self._free[:past]
        self._rearrange(lambda rows: rows[past:])
        self.timeline.advance(now_us)

    def _rearrange(self, steps: Callable[[api.Ints], api.Ints]) -> None:
        """Add or remove steps, as rows of all arrays."""
        self._left = [steps(rows) for rows in self._left]
        if self._threads is not None:
            self._threads = steps(self._threads)


class PlacedNodeProfile(PlacedProfile):
    """Free nodes, each by itself, over time, under a placement that knows how many of its `home` a job takes; and licences.

    A promise names nodes. The memory of a node, and what is counted on it, are those of an empty one: a home is made of such.
    """

    __slots__ = ("_nodes", "_spread")

    def __init__(
        self, view: api.WholeNodesView, placement: api.NodePlacement, besides: Sequence[api.Occupancy] = ()
    ) -> None:
        """``besides``: further jobs, counted as if they ran from now on."""
        self._view = self._nodes = view
        self._placement = self._spread = placement
        steps = view.steps(besides)
        self._free = [nodes for _, nodes in steps]
        self.timeline = Timeline((at_us, nodes.bit_count()) for at_us, nodes in steps)
        self._threads = None
        self._left = _left_at(self.timeline, view)[-1:] if view.machine.licences else []
        for step, wanted in self._licences_taken(besides).items():
            self._left[-1][step] -= wanted

    def need(self, job: api.JobSpec) -> tuple[int, int]:
        """Return the job's nodes, and how long it takes on them; more than there are, if it has no place since it was modified."""
        footprint = self._spread.footprint(job, self._view)
        if footprint is None:
            return self._view.machine.nodes + 1, job.estimate_us
        return footprint.nodes, footprint.run_us

    def fits(self, job: api.JobSpec, promise: Promise) -> bool:
        """Tell whether the promised nodes are the job's, and free for its whole run time, as its licences are."""
        start_us, nodes = start_of(promise), self._claimed(_runs(promise))
        if start_us < self._view.now_us or nodes.bit_count() != self.need(job)[0]:
            return False
        wanted = _licences_of(job, self._view)
        steps = self._steps(job, start_us)
        there = not nodes & ~self._spread.home(job, self._view)
        return there and not any(nodes & ~self._free[step] or self._lacks(step, wanted) for step in steps)

    def offer(self, job: api.JobSpec, promise: Promise) -> api.Offer | None:
        """Return the job on the promised nodes."""
        footprint = self._spread.footprint(job, self._view)
        free = self._nodes.firsts(api.nodes_of(_runs(promise)))
        snapshot = api.snapshot_at(self._view, self._view.now_us, free)
        return None if footprint is None else self._spread.offer_with(job, footprint, snapshot)

    def _place(self, job: api.JobSpec, first: int, until_us: int = FOREVER_US) -> Promise | None:
        need, span_us = self.need(job)
        home, wanted = self._spread.home(job, self._view), _licences_of(job, self._view)
        times, step = self.timeline.times, first
        while step < len(times) and times[step] < until_us:
            start_us = times[step]
            nodes = home
            for at in range(step, bisect_left(times, start_us + span_us)):
                nodes = api.NodeSet(nodes & self._free[at])
                lacks = self._lacks(at, wanted)
                if lacks or nodes.bit_count() < need:
                    # A step that is too small by itself is too small for all that begin before it.
                    step = at if lacks or (home & self._free[at]).bit_count() < need else step
                    break
            else:
                return (start_us, *self._named(nodes, need, now=start_us == self._view.now_us))
            step += 1
        return None

    def _named(self, nodes: api.NodeSet, need: int, *, now: bool) -> tuple[api.NoteValue, ...]:
        """Return the nodes that are promised."""
        chosen = api.lowest_nodes(need, self._spread.choose_nodes(nodes, need, self._nodes) if now else nodes)
        assert chosen is not None
        return api.note_of_runs(chosen)

    def _besides(self, job: api.JobSpec, runs: Sequence[api.Run]) -> Taken:
        return (_licences_of(job, self._view),) if self._view.machine.licences else ()

    def _lacks(self, step: int, wanted: api.Ints | None) -> bool:
        return wanted is not None and bool((self._left[-1][step] < wanted).any())

    def _claimed(self, runs: tuple[api.Run, ...]) -> int:
        return api.nodes_of(runs)

    def _all_of(self, nodes: api.NodeSet) -> int:
        return nodes


# By whether counting nodes is exact.
NODE_PROFILES: Final[Mapping[bool, type[NodeProfile | PlacedNodeProfile]]] = {
    True: NodeProfile,
    False: PlacedNodeProfile,
}


def _left_at(timeline: Timeline, view: api.View) -> Left:
    """Return what is left at every step, by the running jobs; on whole nodes, of each node what it has when it is empty."""
    machine, whole = view.machine, api.nodes_view(view) is not None
    memory, resources = (machine.memory_mb, machine.resources) if whole else (view.free_memory_mb, view.free_resources)
    licences = [view.licences.get(name, 0) for name in machine.licences]
    times = timeline.times
    left: Left = []
    for row in (memory, *[resources[name] for name in machine.resources], licences):
        rows = np.zeros((len(times), len(row)), dtype=np.int64)
        rows[0] = row
        left.append(rows)
    # Each row holds what comes free in its step until they are summed up.
    elsewhere, later = _licences(view.licences_elsewhere, view), bisect_right(times, view.now_us)
    if elsewhere is not None and later < len(times):
        left[-1][later] += elsewhere
    for end_us, job_id in view.releases:
        running = view.running[job_id]
        step = bisect_left(times, max(end_us, view.now_us + 1))
        if step < len(times) and view.holds(running):
            _give_back(left, step, running.job, () if whole else running.runs, view)
    return [np.cumsum(rows, axis=0) for rows in left]


def _give_back(left: Left, step: int, job: api.JobSpec, runs: Sequence[api.Run], view: api.View) -> None:
    """Add what a job has besides threads, on these nodes, to what comes free in a step."""
    amounts = [(0, job.memory_mb, 0)] if job.memory_mb else []
    known = list(view.machine.resources)
    amounts += [(1 + known.index(name), 0, amount) for name, amount in job.resources if name in known]
    for row, of_process, of_node in amounts:
        for run in runs:
            left[row][step, run.first : run.first + run.count] += run.processes * of_process + of_node
    wanted = _licences_of(job, view)
    if wanted is not None:
        left[-1][step] += wanted


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
    return _licences(dict(job.licences), view) if job.licences else None


def _licences(amounts: Mapping[str, int], view: api.View) -> api.Ints | None:
    """Return these amounts as a row; None where there are none."""
    if not amounts:
        return None
    return np.array([amounts.get(name, 0) for name in view.machine.licences], dtype=np.int64)


def _on_nodes(runs: Sequence[api.Run], view: api.View, of_process: int, of_node: int) -> api.Ints:
    taken = np.zeros(view.machine.nodes, dtype=np.int64)
    for run in runs:
        taken[run.first : run.first + run.count] += run.processes * of_process + of_node
    return taken


def _suits(job: api.JobSpec, runs: Sequence[api.Run], view: api.View) -> bool:
    """Tell whether the job may have a place of so many processes and threads: it may have been modified since it was promised."""
    if job.eligible and api.nodes_of(runs) & ~view.machine.eligible(job):
        return False
    width = job.threads_per_process
    alike = job.exclusive or all(mask.bit_count() == count * width for _, _, mask, count in runs)
    return alike and sum(nodes * count for _, nodes, _, count in runs) == job.processes


def _runs(promise: Promise) -> tuple[api.Run, ...]:
    return api.runs_of_note(promise[1:])
