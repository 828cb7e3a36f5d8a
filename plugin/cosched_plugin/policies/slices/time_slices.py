"""Coarse time slices for classes of jobs, with preemption to disk: Scojo-PECT around any policy that plans with whole nodes.

Each class (short, medium, long by estimate) is alone on the machine in its own slices, by `calendar`, and has a policy of its own
that does not know of slices: it plans with a `VirtualMachine`. When a slice ends all jobs are preempted, and the jobs of the next
class go on where they were. On nodes that the slice's class leaves idle, jobs of other classes may go on or start, if their own
policy decides so ("safe non-type slice backfilling", G-LOMARC-TS paper, section 4.7). When the slice's class wants such a node,
these jobs are preempted at once, so that no job of the class ever waits for them; longer jobs make way for shorter ones likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import ClassVar, Final, NamedTuple

from cosched_plugin.api import (
    DISK,
    SECOND_US,
    WHOLE_NODES,
    Action,
    ClassPolicy,
    JobSpec,
    Needs,
    NodeSet,
    Policy,
    SetNote,
    Slices,
    StartJob,
    StartTogether,
    UsageError,
    View,
    VirtualMachine,
    WakeAt,
    WholeNodesView,
    nodes_of,
)
from cosched_plugin.policies.slices.calendar import (
    CLASSES,
    LONG,
    MEDIUM,
    SHORT,
    Lengths,
    Slice,
    present_slice,
    slice_at,
)
from cosched_plugin.policies.turns.members import Bundle, Bundles, nodes_of_bundle
from cosched_plugin.policies.turns.room import Room
from cosched_plugin.policies.turns.switching import fits_on_disk, from_disk, to_disk

LATEST_US: Final = (1 << 63) - 1
_KINDS: Final = (SHORT, MEDIUM, LONG)


class Classes(Slices):
    """Slices for short, medium and long jobs.

    ``interval_s``: an interval; ``short_slice_s``: the slice of short jobs, where some are there at its beginning;
    ``medium_share``: the medium jobs' part of the rest; ``short_s``, ``medium_s``: the longest estimates of short and medium jobs.
    """

    needs: ClassVar[Needs] = frozenset({WHOLE_NODES, DISK})

    def __init__(
        self,
        *,
        interval_s: float = 3600.0,
        short_slice_s: float = 600.0,
        medium_share: float = 0.3,
        short_s: float = 600.0,
        medium_s: float = 10_800.0,
    ) -> None:
        if short_s > medium_s:
            raise UsageError(f"policy.slices.short_s: expected at most medium_s, {medium_s:g}, got {short_s:g}")
        if short_slice_s >= interval_s:
            raise UsageError(
                f"policy.slices.short_slice_s: expected less than interval_s, {interval_s:g}, got {short_slice_s:g}"
            )
        self._interval_us = round(interval_s * SECOND_US)
        self._short_slice_us = round(short_slice_s * SECOND_US)
        self._medium_share = medium_share
        self._short_us = round(short_s * SECOND_US)
        self._medium_us = round(medium_s * SECOND_US)

    def divide(self, make: Callable[[], ClassPolicy]) -> Policy:
        """Return a policy that gives the machine to the classes in turn."""
        return Sliced(self, make)

    def kind_of(self, job: JobSpec) -> int:
        """Return the class of a job."""
        return SHORT if job.estimate_us <= self._short_us else MEDIUM if job.estimate_us <= self._medium_us else LONG

    def range_us(self, kind: int) -> tuple[int, int]:
        """Return the range of estimates of a class: above the first, at most the second."""
        bounds_us = (0, self._short_us, self._medium_us, LATEST_US)
        return bounds_us[kind], bounds_us[kind + 1]

    def lengths(self, switch_us: int) -> Lengths:
        """Return the lengths of slices; UsageError where a slice leaves no time beside the switch."""
        lengths = Lengths(self._interval_us, self._short_slice_us, self._medium_share, switch_us)
        for kind in _KINDS:
            if lengths.progress_us(kind, short=True) == 0:
                raise UsageError(
                    f"policy.slices: a slice of {CLASSES[kind]} jobs is not longer than the "
                    f"{switch_us / SECOND_US:g} s that jobs take to come back from disk"
                )
        return lengths


class Sliced:
    """A policy for each class, and the slices in which the classes alternate."""

    def __init__(self, slices: Classes, make: Callable[[], ClassPolicy]) -> None:
        """``make`` builds a policy: every class has one of its own, as policies keep caches."""
        self._slices = slices
        self._policies = tuple(make() for _ in _KINDS)
        self._view: View | None = None
        self._whole: WholeNodesView
        self._machines: tuple[VirtualMachine, ...] = ()
        self._lengths = slices.lengths(0)
        self._there: _Present  # a cache
        self._there_at = -1

    def decide(self, view: View) -> Iterator[Action]:
        """Yield the decisions of one pass."""
        if self._view is not view:
            for policy in self._policies:
                policy.check(view)
            self._view = view
            self._whole = WholeNodesView(view)
            self._there_at = -1
            self._lengths = self._slices.lengths(view.resume_us)
            self._machines = tuple(VirtualMachine(view, *self._slices.range_us(kind)) for kind in _KINDS)
        if not view.queued and not view.running:
            return
        now_us = view.now_us
        before = present_slice(view)
        present = self._advance(before, view)
        if present != before:
            yield present.note()
            view.tell("slice", kind_of_jobs=CLASSES[present.kind], end_us=present.end_us(self._lengths))
            for kind in _KINDS:
                for group in self._groups(view, kind, on_disk=False):
                    yield from to_disk(group, view)
        while (yield from self._turn(view, present)):
            pass
        # Where nothing runs and no job could ever start on the nodes in service, no slice will change that.
        if view.running or (view.queued and self._policies[0].may_start(self._whole)):
            wakes = view.wakes()
            for at_us in (present.ready_us(self._lengths), present.end_us(self._lengths)):
                if at_us > now_us and at_us not in wakes:
                    yield WakeAt(at_us)

    def _advance(self, present: Slice | None, view: View) -> Slice:
        """Return the slice of this instant."""
        now_us, lengths = view.now_us, self._lengths
        if present is None:
            return slice_at(now_us, (0, 0, 0), lengths)
        end_us = present.end_us(lengths)
        jobs = (*view.queue, *[running.job for running in view.running.values()]) if end_us <= now_us else ()
        if end_us == now_us or any(job.submit_us < end_us for job in jobs):
            # Where a wake comes late, the class has had its time nevertheless.
            present = present.successor(lengths, short=any(self._slices.kind_of(job) == SHORT for job in jobs))
        if present.end_us(lengths) <= now_us:  # there were no jobs when it ended, or the wake was lost
            present = slice_at(now_us, present.clocks_us, lengths)
        return present

    def _turn(self, view: View, present: Slice) -> Generator[Action, None, bool]:
        """Yield the decisions of all classes; tell whether notes about guests changed, which may affect an earlier class."""
        yield from self._own(view, present)
        remembered = False
        for action in self._others(view, present):
            match action:
                case SetNote(job_id=None):
                    remembered = True
            yield action
        return remembered

    def _own(self, view: View, present: Slice) -> Iterator[Action]:
        """Yield the decisions of the slice's class; jobs of other classes on nodes that it wants are preempted."""
        kind = present.kind
        others = [other for other in _KINDS if other != kind]
        back = self._groups(view, kind, on_disk=True)
        open_nodes = self._whole.free_nodes | self._nodes_to_yield(view, others) if back else 0
        for group in back:
            nodes = nodes_of_bundle(group)
            if not nodes & ~open_nodes:  # otherwise preempting the others would not help
                yield from self._clear(nodes, kind, view)
                yield from self._resume(group, kind, view)
        open_nodes = 0  # no job starts while the nodes change hands
        if view.now_us >= present.ready_us(self._lengths):
            open_nodes = self._whole.free_nodes | self._nodes_to_yield(view, others)
        yield from self._decide_for(view, present, kind, open_nodes)

    def _others(self, view: View, present: Slice) -> Iterator[Action]:
        """Yield the decisions for jobs of the other classes on nodes without jobs."""
        lengths = self._lengths
        for kind in _KINDS:
            if kind == present.kind:
                continue
            if view.now_us + lengths.switch_us < present.end_us(lengths):
                for group in self._groups(view, kind, on_disk=True):
                    yield from self._resume(group, kind, view)
            open_nodes = 0
            if view.now_us >= present.ready_us(lengths):
                longer = [other for other in _KINDS if other > kind and other != present.kind]
                open_nodes = self._whole.free_nodes | self._nodes_to_yield(view, longer)
            yield from self._decide_for(view, present, kind, open_nodes)

    def _nodes_to_yield(self, view: View, kinds: Collection[int]) -> NodeSet:
        """Return the nodes of jobs of these classes, which are guests and can be preempted."""
        nodes = 0
        for kind in kinds:
            for group in self._groups(view, kind, on_disk=False):
                if fits_on_disk(group, view):
                    nodes |= nodes_of_bundle(group)
        return NodeSet(nodes)

    def _resume(self, group: Bundle, kind: int, view: View) -> Iterator[Action]:
        """Resume jobs that share nodes, all of them or none, where no job of another class is."""
        there = self._present(view).on_nodes
        room = Room()
        for other in _KINDS:
            if other != kind:
                room.take(there[other].held)
        if room.admits(nodes_of_bundle(group)):
            yield from from_disk(group, view)

    def _decide_for(self, view: View, present: Slice, kind: int, open_nodes: int) -> Iterator[Action]:
        """Yield the decisions of a class's policy, if its jobs may start on ``open_nodes``."""
        machine = self._machines[kind]
        if not machine.populated:
            return
        if open_nodes:
            open_nodes |= self._present(view).on_nodes[kind].held
        now_us, lengths = view.now_us, self._lengths
        machine.turn_to(
            present.clock_us(kind, now_us, lengths),
            NodeSet(open_nodes),
            lambda at_us: present.wall_us(kind, at_us, now_us, lengths),
        )
        policy = self._policies[kind]
        # Where there is no empty node, jobs join others in their own slice only.
        join_candidates = machine.free_nodes or (open_nodes and kind == present.kind)
        for action in policy.decide(machine) if join_candidates else policy.prepare(machine):
            for start in _starts(action):
                yield from self._clear(nodes_of(start.runs), kind, view)
            yield action

    def _clear(self, nodes: NodeSet, kind: int, view: View) -> Iterator[Action]:
        """Yield the preemption of all jobs of other classes, and of their groups, that are on ``nodes``."""
        if not nodes & ~self._whole.free_nodes:
            return
        for other in _KINDS:
            if other != kind:
                for group in self._groups(view, other, on_disk=False):
                    if nodes_of_bundle(group) & nodes:
                        yield from to_disk(group, view)

    def _groups(self, view: View, kind: int, *, on_disk: bool) -> Sequence[Bundle]:
        """Return the jobs of a class by id, grouped where they share nodes: the jobs on disk, or the jobs on their nodes."""
        there = self._present(view)
        return (there.on_disk if on_disk else there.on_nodes)[kind].members

    def _present(self, view: View) -> _Present:
        """Return the started jobs."""
        if self._there_at != view.version:
            self._there_at = view.version
            there = _Present([Bundles() for _ in _KINDS], [Bundles() for _ in _KINDS])
            jobs = view.running
            for job_id in sorted(jobs):
                running = jobs[job_id]
                (there.on_disk if running.on_disk else there.on_nodes)[self._slices.kind_of(running.job)].add(running)
            self._there = there
        return self._there


class _Present(NamedTuple):
    """The started jobs by class: those on their nodes, and those on disk."""

    on_nodes: Sequence[Bundles]
    on_disk: Sequence[Bundles]


def _starts(action: Action) -> tuple[StartJob, ...]:
    match action:
        case StartJob():
            return (action,)
        case StartTogether():
            return action.starts
        case _:
            return ()
