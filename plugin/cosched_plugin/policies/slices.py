"""Coarse time slices for classes of jobs, with preemption to disk: Scojo-PECT around any policy that plans with whole nodes.

Each class (short, medium, long by estimate) is alone on the machine in its own slices, by `calendar`, and has a policy of its own
that does not know of slices: it plans with a `VirtualMachine`. When a slice ends all jobs are preempted, and the jobs of the next
class go on where they were. On nodes that the slice's class leaves idle, jobs of other classes may go on or start, if their own
policy decides so ("safe non-type slice backfilling", G-LOMARC-TS paper, section 4.7). When the slice's class wants such a node,
these jobs are preempted at once, so that no job of the class ever waits for them; longer jobs make way for shorter ones likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from itertools import compress
from operator import is_not
from typing import ClassVar, Final, NamedTuple

from cosched_plugin import api
from cosched_plugin.policies.turns import Bundle, Bundles, Room, fits_on_disk, following, from_disk, to_disk

# The calendar of time slices: when each class of jobs has the machine (Scojo-PECT; G-LOMARC-TS paper, sections 4.7 and 5.1).
#
# Time is cut into intervals of equal length. Each has a slice for short jobs if some exist when it begins, and one each for medium
# and long jobs, which share the rest. At the start of every slice all jobs are preempted, and no job makes progress for a while.

NOTE: Final = "slices"
SHORT: Final = 0
MEDIUM: Final = 1
LONG: Final = 2
CLASSES: Final = ("short", "medium", "long")
_IN_TURN: Final = {True: (SHORT, MEDIUM, LONG), False: (MEDIUM, LONG)}  # in an interval with a short slice, and without


class Lengths(NamedTuple):
    """The lengths of slices, in microseconds."""

    interval_us: int
    short_us: int  # of the short slice
    medium_share: float  # the medium slice's part of the rest
    switch_us: int  # time at the start of a slice in which no job makes progress

    def ends_us(self, *, short: bool) -> tuple[int, int, int]:
        """Return when the three slices end, counted from the start of the interval."""
        short_us = self.short_us if short else 0
        medium_us = short_us + round((self.interval_us - short_us) * self.medium_share)
        return short_us, medium_us, self.interval_us

    def progress_us(self, kind: int, *, short: bool) -> int:
        """Return the time of progress of a class in one interval."""
        ends_us = (0, *self.ends_us(short=short))
        return max(0, ends_us[kind + 1] - ends_us[kind] - self.switch_us)


class Slice(NamedTuple):
    """The present slice, and the classes' clocks at its beginning: each class's time of progress so far."""

    begin_us: int  # of the interval
    short: bool  # whether the interval has a short slice
    kind: int
    clocks_us: tuple[int, int, int]

    def start_us(self, lengths: Lengths) -> int:
        """Return when the slice began."""
        return self.begin_us + (0, *lengths.ends_us(short=self.short))[self.kind]

    def end_us(self, lengths: Lengths) -> int:
        """Return when the slice will end."""
        return self.begin_us + lengths.ends_us(short=self.short)[self.kind]

    def ready_us(self, lengths: Lengths) -> int:
        """Return the instant from which the class makes progress."""
        return min(self.start_us(lengths) + lengths.switch_us, self.end_us(lengths))

    def clock_us(self, kind: int, now_us: int, lengths: Lengths) -> int:
        """Return the time of a class's clock."""
        gone_us = max(0, now_us - self.ready_us(lengths)) if kind == self.kind else 0
        return self.clocks_us[kind] + gone_us

    def successor(self, lengths: Lengths, *, short: bool) -> Slice:
        """Return the next slice; ``short``: whether a new interval, if this is the last of its own, has a short slice."""
        clocks_us = tuple([self.clock_us(kind, self.end_us(lengths), lengths) for kind in (SHORT, MEDIUM, LONG)])
        assert len(clocks_us) == 3
        (kind, *_), begins = following(_IN_TURN[short], self.kind)
        if begins:
            return Slice(self.begin_us + lengths.interval_us, short, kind, clocks_us)
        return Slice(self.begin_us, self.short, kind, clocks_us)

    def wall_us(self, kind: int, at_us: int, now_us: int, lengths: Lengths) -> int:
        """Return when a class's clock will reach ``at_us``, if no further interval has a short slice."""
        return self.wall_clock(kind, now_us, lengths)(at_us)

    def wall_clock(self, kind: int, now_us: int, lengths: Lengths) -> Callable[[int], int]:
        """Return the function that tells `wall_us` of many instants of a class's clock."""
        clock_us = self.clock_us(kind, now_us, lengths)
        own = self._replace(kind=kind)
        since_us = max(now_us, own.ready_us(lengths))
        # Its slice of this interval is yet to end, or there is none.
        left_us = own.end_us(lengths) - since_us if kind >= self.kind else 0
        each_us = lengths.progress_us(kind, short=kind == SHORT)
        later_us = Slice(self.begin_us + lengths.interval_us, kind == SHORT, kind, self.clocks_us).ready_us(lengths)

        def wall_us(at_us: int) -> int:
            missing_us = at_us - clock_us
            if missing_us <= 0:
                return now_us
            if missing_us <= left_us:
                return since_us + missing_us
            missing_us -= left_us
            full = (missing_us - 1) // each_us
            return later_us + full * lengths.interval_us + missing_us - full * each_us

        return wall_us

    def note(self) -> api.SetNote:
        """Return the decision that writes the slice as a note."""
        return api.SetNote(None, NOTE, (self.begin_us, self.short, self.kind, *self.clocks_us))


def present_slice(view: api.View) -> Slice | None:
    """Return the slice in the note; None if there is none yet."""
    match view.note(None, NOTE):
        case (int(begin_us), bool(short), int(kind), int(a), int(b), int(c)) if SHORT <= kind <= LONG:
            return Slice(begin_us, short, kind, (a, b, c))
        case _:
            return None


def slice_at(now_us: int, clocks_us: tuple[int, int, int], lengths: Lengths) -> Slice:
    """Return the slice of an instant before which there were no jobs."""
    begin_us = now_us - now_us % lengths.interval_us
    medium = Slice(begin_us, False, MEDIUM, clocks_us)
    return medium if now_us < medium.end_us(lengths) else medium._replace(kind=LONG)


LATEST_US: Final = (1 << 63) - 1
_KINDS: Final = (SHORT, MEDIUM, LONG)
_Place = tuple[int, bool]  # a class, and whether it is on disk


class Classes(api.Slices):
    """Slices for short, medium and long jobs.

    ``interval_s``: an interval; ``short_slice_s``: the slice of short jobs, where some are there at its beginning;
    ``medium_share``: the medium jobs' part of the rest; ``short_s``, ``medium_s``: the longest estimates of short and medium jobs.
    """

    needs: ClassVar[api.Needs] = frozenset({api.WHOLE_NODES, api.DISK})
    protocol_features: ClassVar[api.Needs] = frozenset({"notes", "wakes", "suspend", "disk"})

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
            raise api.UsageError(f"policy.slices.short_s: expected at most medium_s, {medium_s:g}, got {short_s:g}")
        if short_slice_s >= interval_s:
            raise api.UsageError(
                f"policy.slices.short_slice_s: expected less than interval_s, {interval_s:g}, got {short_slice_s:g}"
            )
        self._interval_us = round(interval_s * api.SECOND_US)
        self._short_slice_us = round(short_slice_s * api.SECOND_US)
        self._medium_share = medium_share
        self._short_us = round(short_s * api.SECOND_US)
        self._medium_us = round(medium_s * api.SECOND_US)

    def divide(self, make: Callable[[], api.ClassPolicy]) -> api.Policy:
        """Return a policy that gives the machine to the classes in turn."""
        return Sliced(self, make)

    def kind_of(self, job: api.JobSpec) -> int:
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
                raise api.UsageError(
                    f"policy.slices: a slice of {CLASSES[kind]} jobs is not longer than the "
                    f"{switch_us / api.SECOND_US:g} s that jobs take to come back from disk"
                )
        return lengths


class Sliced:
    """A policy for each class, and the slices in which the classes alternate."""

    def __init__(self, slices: Classes, make: Callable[[], api.ClassPolicy]) -> None:
        """``make`` builds a policy: every class has one of its own, as policies keep caches."""
        self._slices = slices
        self._policies = tuple(make() for _ in _KINDS)
        self._view: api.View | None = None
        self._whole: api.WholeNodesView
        self._machines: tuple[api.VirtualMachine, ...] = ()
        self._lengths = slices.lengths(0)
        # Caches: of each started job its class, whether it is on disk, and itself on its nodes, as it was seen last; the bundles of
        # each class on nodes or on disk, and of which of them jobs have come or gone since these were made.
        self._places: dict[int, tuple[_Place, Bundle]] = {}
        self._seen: dict[int, api.Running] = {}
        self._places_at = -1
        self._bundles: dict[_Place, Bundles] = {}
        self._stale: set[_Place] = set()
        self._clocks: dict[int, tuple[Slice, int, Callable[[int], int]]] = {}  # by class, at an instant

    def decide(self, view: api.View) -> Iterator[api.Action]:
        """Yield the decisions of one pass."""
        if self._view is not view:
            for policy in self._policies:
                policy.check(view)
            self._view = view
            self._whole = api.WholeNodesView(view)
            self._places, self._seen, self._places_at, self._bundles = {}, {}, -1, {}
            self._lengths = self._slices.lengths(view.resume_us)
            self._clocks.clear()
            self._machines = tuple(api.VirtualMachine(view, *self._slices.range_us(kind)) for kind in _KINDS)
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
                    yield api.WakeAt(at_us)

    def _advance(self, present: Slice | None, view: api.View) -> Slice:
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

    def _turn(self, view: api.View, present: Slice) -> Generator[api.Action, None, bool]:
        """Yield the decisions of all classes; tell whether notes about guests changed, which may affect an earlier class."""
        yield from self._own(view, present)
        remembered = False
        for action in self._others(view, present):
            match action:
                case api.SetNote(job_id=None):
                    remembered = True
            yield action
        return remembered

    def _own(self, view: api.View, present: Slice) -> Iterator[api.Action]:
        """Yield the decisions of the slice's class; jobs of other classes on nodes that it wants are preempted."""
        kind = present.kind
        others = [other for other in _KINDS if other != kind]
        back = self._groups(view, kind, on_disk=True)
        open_nodes = self._whole.free_nodes | self._guests(kind, others, view)[0] if back else 0
        for group in back:
            nodes = group.nodes
            if not nodes & ~open_nodes:  # otherwise preempting the others would not help
                yield from self._clear(nodes, kind, view)
                yield from self._resume(group, kind, view)
        yield from self._decide_for(view, present, kind, others)

    def _others(self, view: api.View, present: Slice) -> Iterator[api.Action]:
        """Yield the decisions for jobs of the other classes on nodes without jobs."""
        lengths = self._lengths
        for kind in _KINDS:
            if kind == present.kind:
                continue
            if view.now_us + lengths.switch_us < present.end_us(lengths):
                for group in self._groups(view, kind, on_disk=True):
                    yield from self._resume(group, kind, view)
            longer = [other for other in _KINDS if other > kind and other != present.kind]
            yield from self._decide_for(view, present, kind, longer)

    def _guests(self, kind: int, yielding: Collection[int], view: api.View) -> tuple[api.NodeSet, api.NodeSet]:
        """Return the nodes that jobs of the ``yielding`` classes leave to a class, and those where jobs of others stay.

        The manager may have put jobs of two classes on one node.
        """
        leave = stay = 0
        for other in _KINDS:
            if other != kind and other not in yielding:
                stay |= self._started(view, other).held
            elif other != kind:
                for group in self._started(view, other).members:
                    if fits_on_disk(group, view):
                        leave |= group.nodes
                    else:
                        stay |= group.nodes
        return api.NodeSet(leave & ~(stay | self._started(view, kind).held)), api.NodeSet(stay)

    def _resume(self, group: Bundle, kind: int, view: api.View) -> Iterator[api.Action]:
        """Resume jobs that share nodes, all of them or none, where no job of another class is."""
        room = Room()
        for other in _KINDS:
            if other != kind:
                room.take(self._started(view, other).held)
        if room.admits(group.nodes):
            yield from from_disk(group, view)

    def _decide_for(self, view: api.View, present: Slice, kind: int, yielding: Collection[int]) -> Iterator[api.Action]:
        """Yield the decisions of a class's policy, for which jobs of the ``yielding`` classes are preempted."""
        machine = self._machines[kind]
        if not machine.populated:
            return
        open_nodes = 0  # no job starts while the nodes change hands
        if view.now_us >= present.ready_us(self._lengths):
            leave, stay = self._guests(kind, yielding, view)
            open_nodes = self._whole.free_nodes | leave | (self._started(view, kind).held & ~stay)
        now_us, lengths = view.now_us, self._lengths
        machine.turn_to(
            present.clock_us(kind, now_us, lengths), api.NodeSet(open_nodes), self._wall_clock(kind, present, now_us)
        )
        policy = self._policies[kind]
        # Where there is no empty node, jobs join others in their own slice only.
        join_candidates = machine.free_nodes or (open_nodes and kind == present.kind)
        for action in policy.decide(machine) if join_candidates else policy.prepare(machine):
            for start in api.starts_of(action):
                yield from self._clear(api.nodes_of(start.runs), kind, view)
            yield action

    def _wall_clock(self, kind: int, present: Slice, now_us: int) -> Callable[[int], int]:
        known = self._clocks.get(kind)
        if known is None or known[0] is not present or known[1] != now_us:
            known = self._clocks[kind] = (present, now_us, present.wall_clock(kind, now_us, self._lengths))
        return known[2]

    def _clear(self, nodes: api.NodeSet, kind: int, view: api.View) -> Iterator[api.Action]:
        """Yield the preemption of all jobs of other classes, and of their groups, that are on ``nodes``."""
        if not nodes & ~self._whole.free_nodes:
            return
        for other in _KINDS:
            if other != kind:
                for group in self._groups(view, other, on_disk=False):
                    if group.nodes & nodes:
                        yield from to_disk(group, view)

    def _groups(self, view: api.View, kind: int, *, on_disk: bool) -> Sequence[Bundle]:
        """Return the jobs of a class by id, grouped where they share nodes: those on nodes, or those on disk that may come back."""
        there = self._started(view, kind, on_disk=on_disk).members
        if not on_disk:
            return there
        return [group for group in there if not any(running.held for running in group.jobs)]

    def _started(self, view: api.View, kind: int, *, on_disk: bool = False) -> Bundles:
        """Return the started jobs of a class: those on their nodes, or those on disk."""
        if self._places_at != view.version:
            self._places_at = view.version
            self._follow(view)
        place = (kind, on_disk)
        if place in self._stale or place not in self._bundles:
            self._stale.discard(place)
            self._bundles[place] = bundles = Bundles()
            for job_id in sorted([job_id for job_id, (its, _) in self._places.items() if its == place]):
                bundles.add(self._places[job_id][1])
        return self._bundles[place]

    def _follow(self, view: api.View) -> None:
        """Find the jobs that have started, ended, moved or changed since the last look; mostly there are one or two among many."""
        places, seen, jobs, stale = self._places, self._seen, view.running, self._stale
        for job_id in [*compress(jobs, map(is_not, map(seen.get, jobs), jobs.values()))]:
            running = seen[job_id] = jobs[job_id]
            if job_id in places:
                stale.add(places[job_id][0])
            places[job_id] = (
                (self._slices.kind_of(running.job), running.on_disk),
                Bundle([running], view.nodes_by_job[job_id]),
            )
            stale.add(places[job_id][0])
        if len(seen) > len(jobs):
            for job_id in seen.keys() - jobs.keys():
                del seen[job_id]
                stale.add(places.pop(job_id)[0])
