"""Future availability with many reservations: steps of constant free capacity, for conservative backfilling.

`CountProfile` counts threads, which is exact for jobs that take any threads: whatever can be promised by counting can be kept,
because jobs that have not started can take other threads than planned. `NodeProfile` counts nodes, for jobs that take whole ones
that are all alike. `PlacedProfile` plans with the threads themselves, for queues in which some job needs whole nodes among others
that do not, memory or a certain number of processes a node.

A *promise* is a tuple of ints and runs that a note can hold: the start, and for `PlacedProfile` the runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol, TypeAlias, cast

from cosched_plugin.api import (
    JobSpec,
    Layers,
    NoteValue,
    Run,
    Stay,
    View,
    WholeNodesView,
    each_node,
    layers_of,
    minus,
    union,
)
from cosched_plugin.policies.offers import Offer, Plan, plan_now
from cosched_plugin.policies.placements import Placement
from cosched_plugin.policies.spread import Spread

Promise: TypeAlias = tuple[NoteValue, ...]


def start_of(promise: Promise) -> int:
    """Return the instant that was promised."""
    return cast(int, promise[0])


class Profile(Protocol):
    """When may a job start, given all that has been promised?"""

    def earliest(self, job: JobSpec) -> Promise | None:
        """Return the first place in time from which ``job`` fits for its whole estimate; None if it never does."""
        ...

    def fits(self, job: JobSpec, promise: Promise) -> bool:
        """Tell whether ``job`` fits there for its whole estimate."""
        ...

    def reserve(self, job: JobSpec, promise: Promise) -> None:
        """Take what ``job`` needs; it must fit."""
        ...

    def lift(self, job: JobSpec, promise: Promise) -> None:
        """Undo `reserve`."""
        ...

    def offer(self, job: JobSpec, promise: Promise) -> Offer | None:
        """Return the job's place now, its promise being for now."""
        ...

    def never(self, job: JobSpec) -> bool:
        """Tell whether the job cannot be put on this machine, empty and with all nodes in service."""
        ...


class CountProfile:
    """Free threads over time."""

    __slots__ = ("_free", "_placement", "_times", "_view")

    def __init__(self, view: View, placement: Placement) -> None:
        self._view = view
        self._placement = placement
        self._times = [view.now_us]
        self._free = [view.free_threads]
        for expected_us, job_id in view.releases:
            end_us = max(expected_us, view.now_us + 1)
            free = self._free[-1] + view.threads_back(view.running[job_id])
            if self._times[-1] == end_us:
                self._free[-1] = free
            else:
                self._times.append(end_us)
                self._free.append(free)

    def advance(self) -> None:
        """Forget what lies before the view's present, which has gone as planned."""
        now_us = self._view.now_us
        past = _step_at(self._times, now_us)
        if past > 0:
            del self._times[:past]
            del self._free[:past]
        self._times[0] = now_us

    def earliest(self, job: JobSpec) -> Promise | None:
        """Return the first instant from which there are enough threads for the whole estimate."""
        need, span = self._needs(job)
        times, free = self._times, self._free
        steps = len(times)
        start = 0
        step = 0
        while start < steps:
            end_us = times[start] + span
            while step < steps and times[step] < end_us and free[step] >= need:
                step += 1
            if step == steps or times[step] >= end_us:
                return (times[start],)
            step += 1
            start = step
        return None

    def fits(self, job: JobSpec, promise: Promise) -> bool:
        """Tell whether there are enough threads for the whole estimate."""
        need, span = self._needs(job)
        start_us = start_of(promise)
        if start_us < self._view.now_us:
            return False
        last = bisect_left(self._times, start_us + span)
        return min(self._free[_step_at(self._times, start_us) : last]) >= need

    def reserve(self, job: JobSpec, promise: Promise) -> None:
        """Take the job's threads."""
        need, span = self._needs(job)
        self._add(start_of(promise), span, -need)

    def lift(self, job: JobSpec, promise: Promise) -> None:
        """Give the job's threads back."""
        need, span = self._needs(job)
        self._add(start_of(promise), span, need)

    def offer(self, job: JobSpec, promise: Promise) -> Offer | None:  # noqa: ARG002 - any threads will do
        """Return the job's place now, on whatever threads the placement likes."""
        return self._placement.offer(job, plan_now(self._view))

    def never(self, job: JobSpec) -> bool:
        """Tell whether the job does not fit on this machine."""
        return self._view.never(job)

    def _needs(self, job: JobSpec) -> tuple[int, int]:
        """Return how much the job takes, and for how long."""
        return job.processes, job.estimate_us

    def _add(self, start_us: int, span_us: int, amount: int) -> None:
        first = self._cut(start_us)
        last = self._cut(start_us + span_us)
        free = self._free
        for step in range(first, last):
            free[step] += amount

    def _cut(self, at_us: int) -> int:
        """Return the step that begins at ``at_us``, made if there is none."""
        step = bisect_left(self._times, at_us)
        if step == len(self._times) or self._times[step] != at_us:
            self._times.insert(step, at_us)
            self._free.insert(step, self._free[step - 1])
        return step


class NodeProfile(CountProfile):
    """Free nodes over time, under a placement that knows how many a job takes."""

    __slots__ = ("_spread",)

    def __init__(self, view: WholeNodesView, spread: Spread, besides: Sequence[Stay] = ()) -> None:
        """``besides``: jobs that are not running, as if they were from now on."""
        self._view = view
        self._placement = self._spread = spread
        steps = view.steps(besides)
        self._times = [at_us for at_us, _ in steps]
        self._free = [nodes.bit_count() for _, nodes in steps]

    def admits(self, stays: Sequence[Stay]) -> bool:
        """Tell whether these stays, all from now on, find enough free nodes besides what is reserved."""
        nodes = 0
        for stay in sorted(stays, reverse=True):  # the longest first: others add to its nodes while they last
            nodes |= stay.nodes
            if min(self._free[: bisect_left(self._times, stay.end_us)]) < nodes.bit_count():
                return False
        return True

    def earliest(self, job: JobSpec) -> Promise | None:
        """Return the first instant from which there are enough nodes for the whole time that the job takes on them."""
        return None if self._spread.footprint(job, self._view) is None else super().earliest(job)

    def never(self, job: JobSpec) -> bool:
        """Tell whether the job does not fit on this machine."""
        return self._spread.footprint(job, self._view) is None

    def _needs(self, job: JobSpec) -> tuple[int, int]:
        footprint = self._spread.footprint(job, self._view)
        assert footprint is not None  # nobody plans with a job that has no place
        return footprint.nodes, footprint.run_us


class PlacedProfile:
    """Free threads and memory over time, each by its node."""

    __slots__ = ("_free", "_memory", "_placement", "_times", "_view")

    def __init__(self, view: View, placement: Placement) -> None:
        self._view = view
        self._placement = placement
        self._times: list[int] = []
        self._free: list[Layers] = []
        self._memory: list[list[int]] = []
        for at_us, free in view.plan():
            self._times.append(at_us)
            self._free.append(free)
            self._memory.append(list(view.memory_at(at_us)))

    def earliest(self, job: JobSpec) -> Promise | None:
        """Return the first place that stays free for the whole estimate."""
        for start_us in self._times:
            offer = self._placement.offer(job, self._plan(job, start_us))
            if offer is not None:
                return (start_us, *offer.runs)
        return None

    def fits(self, job: JobSpec, promise: Promise) -> bool:
        """Tell whether the promised threads and memory are free for the whole estimate."""
        start_us = start_of(promise)
        runs = _runs(promise)
        if start_us < self._view.now_us or not runs:
            return False
        plan = self._plan(job, start_us)
        wanted = layers_of(runs, self._view.machine.depth)
        if any(want & ~free for want, free in zip(wanted, plan.free, strict=True)):
            return False
        memory = plan.memory_for(job)
        return all(memory[node] >= count * job.memory_mb for node, count in each_node(runs))

    def reserve(self, job: JobSpec, promise: Promise) -> None:
        """Take the promised threads and memory."""
        layers = layers_of(_runs(promise), self._view.machine.depth)
        for step in self._steps(job, start_of(promise)):
            self._free[step] = minus(self._free[step], layers)
            for node, count in each_node(_runs(promise)):
                self._memory[step][node] -= count * job.memory_mb

    def lift(self, job: JobSpec, promise: Promise) -> None:
        """Give the promised threads and memory back."""
        layers = layers_of(_runs(promise), self._view.machine.depth)
        for step in self._steps(job, start_of(promise)):
            self._free[step] = union(self._free[step], layers)
            for node, count in each_node(_runs(promise)):
                self._memory[step][node] += count * job.memory_mb

    def offer(self, job: JobSpec, promise: Promise) -> Offer | None:
        """Return the job where it was promised."""
        return Offer(job, self._view.now_us, _runs(promise), 1.0, job.estimate_us, job.limit_us)

    def never(self, job: JobSpec) -> bool:
        """Tell whether the job does not fit on this machine."""
        return self._view.never(job)

    def _plan(self, job: JobSpec, start_us: int) -> Plan:
        """Return what is free from ``start_us`` on for the whole of the job's estimate."""
        first = _step_at(self._times, start_us)
        last = bisect_left(self._times, start_us + job.estimate_us)
        free = self._free[first]
        for layers in self._free[first + 1 : last]:
            free = tuple([a & b for a, b in zip(free, layers, strict=True)])
        memory = [min(column) for column in zip(*self._memory[first:last], strict=True)]
        return Plan(self._view, start_us, free, (), memory)

    def _steps(self, job: JobSpec, start_us: int) -> range:
        first = self._cut(start_us)
        return range(first, self._cut(start_us + job.estimate_us))

    def _cut(self, at_us: int) -> int:
        step = bisect_left(self._times, at_us)
        if step == len(self._times) or self._times[step] != at_us:
            self._times.insert(step, at_us)
            self._free.insert(step, self._free[step - 1])
            self._memory.insert(step, list(self._memory[step - 1]))
        return step


def _step_at(times: Sequence[int], at_us: int) -> int:
    """Return the step in which ``at_us`` lies."""
    step = bisect_left(times, at_us)
    return step if step < len(times) and times[step] == at_us else step - 1


def _runs(promise: Promise) -> tuple[Run, ...]:
    return cast("tuple[Run, ...]", promise[1:])
