"""Future availability with many reservations, for conservative backfilling.

`CountProfile` counts threads, which is exact for jobs that take any threads: a promise made by counting can always be kept,
because jobs that have not started can take other threads than planned. `NodeProfile` and `FullNodeProfile` count nodes, for jobs
that take whole ones that are all alike. `placed_profile` plans with individual threads, where counting is not exact.

A *promise* is a tuple of ints and runs that a note can hold: the start, and where places are planned the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias, cast

from cosched_plugin.api import (
    Ints,
    JobSpec,
    NodePlacement,
    NoteValue,
    Occupancy,
    Offer,
    Placement,
    View,
    WholeNodesView,
    snapshot_now,
)
from cosched_plugin.policies.planning.timeline import Change, Timeline

Promise: TypeAlias = tuple[NoteValue, ...]
# Number of promises entered one by one; after these, batches grow as long as all promises can be kept.
_ONE_BY_ONE: Final = 8
_GROWTH: Final = 4


def start_of(promise: Promise) -> int:
    """Return the instant that was promised."""
    return cast(int, promise[0])


class Promises(NamedTuple):
    """Promises made before, in queue order."""

    jobs: Sequence[JobSpec]
    promises: Sequence[Promise]
    needs: Ints
    spans_us: Ints
    starts_us: Ints


# What was reserved must be lifted with the same promise. A job that starts as promised keeps its part: `follow` then compares what
# running jobs leave free, before and now.
class Profile(Protocol):
    """Answers when a job may start, given all promises."""

    timeline: Timeline  # the number of free threads or nodes over time: `need` is compared with it
    counts: ClassVar[bool]  # whether a job that fits by number fits

    def need(self, job: JobSpec) -> tuple[int, int]:
        """Return the least amount of `timeline` that the job takes, and for how long."""
        ...

    def earliest(self, job: JobSpec) -> Promise | None:
        """Return the first place in time from which ``job`` fits for its whole estimate; None if it never does."""
        ...

    def sooner(self, job: JobSpec, promise: Promise, since_us: int) -> Promise | None:
        """Return the first place from ``since_us`` on that is before the one that ``job`` has by ``promise``; None if there is none."""
        ...

    def fits(self, job: JobSpec, promise: Promise) -> bool:
        """Tell whether ``job`` fits there for its whole estimate."""
        ...

    def reserve(self, job: JobSpec, promise: Promise) -> None:
        """Take what ``job`` needs; it must fit."""
        ...

    def reserve_all(self, past: Promises, first: int) -> int:
        """Reserve the promises from number ``first`` on, up to the first that does not fit; return its number."""
        ...

    def lift(self, job: JobSpec, promise: Promise) -> None:
        """Undo `reserve`."""
        ...

    def follow(self, before: Self, after: Self) -> list[Change] | None:
        """Advance to the present with the new running jobs; return the changes, or None if they conflict with a promise.

        ``before`` and ``after``: what running jobs leave free, by the plans before and now.
        """
        ...

    def offer(self, job: JobSpec, promise: Promise) -> Offer | None:
        """Return the job's place now; its promise must be for now."""
        ...

    def admits(self, occupancies: Sequence[Occupancy]) -> bool:
        """Tell whether these jobs, all on whole nodes from now on, find them free besides what is reserved."""
        ...

    def never(self, job: JobSpec) -> bool:
        """Tell whether the job cannot be put on this machine, empty and with all nodes in service."""
        ...


class CountProfile:
    """Free threads over time; on whole nodes, where every node has one core."""

    __slots__ = ("_placement", "_view", "timeline")
    counts: ClassVar[bool] = True

    def __init__(self, view: View, placement: Placement) -> None:
        self._view = view
        self._placement = placement
        self.timeline = Timeline(view.free_steps())

    def need(self, job: JobSpec) -> tuple[int, int]:
        """Return the job's threads and its estimate."""
        return job.processes, job.estimate_us

    def earliest(self, job: JobSpec) -> Promise | None:
        """Return the first instant from which there is enough for the whole estimate."""
        start_us = self.timeline.earliest(*self.need(job))
        return None if start_us is None else (start_us,)

    def sooner(self, job: JobSpec, promise: Promise, since_us: int) -> Promise | None:
        """Return the first instant before the promised one from which there is enough."""
        need, span_us = self.need(job)
        timeline = self.timeline
        start_us = timeline.sooner(need, span_us, start_of(promise), timeline.step_at(since_us))
        return None if start_us is None else (start_us,)

    def fits(self, job: JobSpec, promise: Promise) -> bool:
        """Tell whether there is enough for the whole estimate."""
        need, span_us = self.need(job)
        start_us = start_of(promise)
        return start_us >= self._view.now_us and self.timeline.least(start_us, start_us + span_us) >= need

    def reserve(self, job: JobSpec, promise: Promise) -> None:
        """Take what the job needs."""
        need, span_us = self.need(job)
        start_us = start_of(promise)
        self.timeline.add(start_us, start_us + span_us, -need)

    def reserve_all(self, past: Promises, first: int) -> int:
        """Reserve the promises up to the first that does not fit: many at once, where all fit."""
        size = _ONE_BY_ONE
        done = first
        while done < len(past.jobs):
            until = min(done + size, len(past.jobs))
            if size > _ONE_BY_ONE:
                if self._reserve_at_once(past, slice(done, until)):
                    done = until
                    size *= _GROWTH
                else:
                    size //= _GROWTH
                continue
            while done < until:
                if not self.fits(past.jobs[done], past.promises[done]):
                    return done
                self.reserve(past.jobs[done], past.promises[done])
                done += 1
            size *= _GROWTH
        return done

    def lift(self, job: JobSpec, promise: Promise) -> None:
        """Give back what the job needs."""
        need, span_us = self.need(job)
        start_us = start_of(promise)
        self.timeline.add(start_us, start_us + span_us, need)

    def follow(self, before: CountProfile, after: CountProfile) -> list[Change] | None:
        """Advance to the present with the new running jobs; None if there would be less than promised."""
        timeline = self.timeline
        now_us = self._view.now_us
        timeline.advance(now_us)
        before.timeline.advance(now_us)
        changes = after.timeline.changes(before.timeline)
        for change in changes:
            timeline.add(*change)
            if change.amount < 0 and timeline.least(change.start_us, change.end_us) < 0:
                return None
        return changes

    def offer(self, job: JobSpec, promise: Promise) -> Offer | None:
        """Return the job's place now, on threads or nodes that the placement chooses."""
        return self._placement.offer(job, snapshot_now(self._view))

    def admits(self, occupancies: Sequence[Occupancy]) -> bool:
        """Tell whether there are enough nodes. (Nodes that several jobs share count once.)"""
        nodes = 0
        for occupancy in sorted(
            occupancies, reverse=True
        ):  # the longest first: others add only to its nodes while they last
            nodes |= occupancy.nodes
            if self.timeline.least(self.timeline.times[0], occupancy.end_us) < nodes.bit_count():
                return False
        return True

    def never(self, job: JobSpec) -> bool:
        """Tell whether the job does not fit on this machine."""
        return self._placement.never(job, self._view)

    def _reserve_at_once(self, past: Promises, which: slice) -> bool:
        """Reserve the needs of all these jobs, if all fit."""
        starts_us = past.starts_us[which]
        if starts_us.min() < self._view.now_us:
            return False
        return self.timeline.add_all(starts_us, starts_us + past.spans_us[which], -past.needs[which])


class NodeProfile(CountProfile):
    """Free nodes over time, under a placement that knows how many a job takes."""

    __slots__ = ("_spread",)

    def __init__(self, view: WholeNodesView, placement: NodePlacement, besides: Sequence[Occupancy] = ()) -> None:
        """``besides``: further jobs, counted as if they ran from now on."""
        self._view = view
        self._placement = self._spread = placement
        self.timeline = Timeline((at_us, nodes.bit_count()) for at_us, nodes in view.steps(besides))

    def need(self, job: JobSpec) -> tuple[int, int]:
        """Return the job's nodes, and how long it takes on them; it must have a place on the machine."""
        footprint = self._spread.footprint(job, self._view)
        assert footprint is not None
        return footprint.nodes, footprint.run_us

    def earliest(self, job: JobSpec) -> Promise | None:
        """Return the first instant from which there are enough nodes for the job's whole run time on them."""
        return None if self._spread.footprint(job, self._view) is None else super().earliest(job)


class FullNodeProfile(CountProfile):
    """Free nodes over time, all of as many cores, for plain jobs that fill each of their nodes but the last."""

    __slots__ = ("_cores",)

    def __init__(self, view: WholeNodesView, placement: Placement) -> None:
        self._view = view
        self._placement = placement
        self._cores = view.cores_per_node
        self.timeline = Timeline((at_us, nodes.bit_count()) for at_us, nodes in view.steps())

    def need(self, job: JobSpec) -> tuple[int, int]:
        """Return the job's nodes and its estimate."""
        return -(-job.processes // self._cores), job.estimate_us
