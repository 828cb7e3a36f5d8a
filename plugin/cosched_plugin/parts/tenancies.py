"""Jobs that share nodes with several others: a start beside them (a *group seat*), and what is kept of each while they run.

A job waits for its slowest process, so the worst of its neighbours decides. What is believed of a job that shares, or has shared,
its nodes is a note, its *tenancy*: how fast it runs, what it has lost. `Tenancies.keep_up`, the monitor, brings notes and expected
ends up to date when neighbours come or go, or are measured.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import inf
from typing import Final, NamedTuple

from cosched_hwmodel.composite.node_classes import shape_of
from cosched_hwmodel.contention import Load
from cosched_hwmodel.pairs import PairModel
from cosched_hwmodel.units import WHOLE_PPM, round_up_us
from cosched_plugin.common.threads import Layers, common, each_mask, nodes_of, size, union
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import Occupancy
from cosched_plugin.ledger.running import Running
from cosched_plugin.parts.colocated import delete_stale_notes, expect_end, may_meet, slowed
from cosched_plugin.parts.kinds import Context
from cosched_plugin.parts.offers import Offer, snapshot_now
from cosched_plugin.protocol.messages import Action, JobSpec, NoteValue, Run, SetNote, StartTogether

NOTE: Final = "tenancy"
_SAME: Final = 1 / WHOLE_PPM  # ratios this close are one: measured ones are told in millionths
_TYPES: Final = (tuple, int, int, float, int)  # of a note
_INTEGERS: Final = frozenset((int,))
_SAME_US: Final = 20  # ends this close are one: each note rounds to a microsecond


class Tenancy(NamedTuple):
    """What is believed of a running job among its neighbours."""

    beside: tuple[int, ...]  # the jobs that it shares nodes with, ascending
    progress_us: int  # span in which it had made progress when this was written
    left_us: int  # span: run time alone that was left then
    ratio: float  # run time among these neighbours / run time alone, at least 1
    lost_us: int  # span that neighbours had cost it by then

    @property
    def work_us(self) -> int:
        """Return the work done: the span that it would have taken alone."""
        return self.progress_us - self.lost_us

    def now(self, progress_us: int, ratio: float | None = None) -> Tenancy:
        """Return the same after a span of progress; ``ratio``: what it was in truth, where that was measured."""
        ratio = self.ratio if ratio is None else ratio
        span_us = progress_us - self.progress_us
        done_us = span_us / ratio
        left_us = max(1, round_up_us(self.left_us - done_us))
        return Tenancy(self.beside, progress_us, left_us, ratio, self.lost_us + round(span_us - done_us))


def tenancy_of(running: Running, view: View) -> Tenancy:
    """Return what is believed of a running job at present; one without a note has never shared its nodes."""
    noted = noted_tenancy(running.job.id, view)
    progress_us = view.progress_us(running)
    if noted is None:
        return Tenancy((), progress_us, view.expected_end(running) - view.now_us, 1.0, 0)
    return noted.now(progress_us, measured(running))


def noted_tenancy(job_id: int, view: View) -> Tenancy | None:
    """Return the note of a job; None where it has none, or one of another form."""
    note = view.note(job_id, NOTE)
    if type(note) is not tuple or tuple(map(type, note)) != _TYPES:
        return None
    found = Tenancy._make(note)
    return found if found.ratio >= 1.0 and {*map(type, found.beside)} <= _INTEGERS else None


def measured(running: Running) -> float | None:
    """Return a job's measured slowdown among its present neighbours; None where there is none."""
    return max(1.0, running.measured_ppm / WHOLE_PPM) if running.measured_ppm else None


def slowdown_by(job: JobSpec, other: JobSpec, model: PairModel | None) -> float:
    """Return the believed slowdown of a job by another one; inf where they may not meet."""
    if model is None or not (may_meet(job, model) and may_meet(other, model)):
        return inf
    return max(1.0, model.slowdown(job, other))


def alone_on(running: Running, model: PairModel, view: View) -> float:
    """Return how many times as long a job takes on its threads by itself, on the worst node, as a model of pairs says."""
    job, nodes = running.job, view.machine.classes
    if model.spread(job) is None and model.own(job, 1, 1) is None:
        return 1.0
    contention, ends = model.among({job.id: job}), [*accumulate([item.nodes for item in nodes])]
    there = {(bisect(ends, node), mask) for node, mask in each_mask(running.runs)}
    loads = [(shape_of(nodes[kind]), Load(job.id, mask.bit_count(), mask, (0, 0, 0))) for kind, mask in there]
    return 1.0 + max([contention.penalties(shape, [load])[0] for shape, load in loads])


class Sharer(NamedTuple):
    """A job among its neighbours, as a forecast needs it."""

    left_us: float  # span: run time alone that is left
    beside: dict[int, float]  # its slowdown by each neighbour


def forecast(now_us: int, sharers: Mapping[int, Sharer]) -> dict[int, int]:
    """Return when each job ends: it is as slow as its worst neighbour lets it be, and each of these goes when it ends itself."""
    beside = {job_id: dict(sharer.beside) for job_id, sharer in sharers.items()}
    left = {job_id: float(sharer.left_us) for job_id, sharer in sharers.items()}
    ratios = {job_id: max(others.values(), default=1.0) for job_id, others in beside.items()}
    since = dict.fromkeys(sharers, 0.0)
    heap = [(left[job_id] * ratio, job_id) for job_id, ratio in ratios.items()]
    heapify(heap)
    ends: dict[int, int] = {}
    while heap:
        at, job_id = heappop(heap)
        if job_id in ends or at != since[job_id] + left[job_id] * ratios[job_id]:
            continue  # an end that has moved since
        ends[job_id] = now_us + max(1, round_up_us(at))
        for other in beside[job_id]:
            if other in ends:
                continue
            del beside[other][job_id]
            ratio = max(beside[other].values(), default=1.0)
            if ratio != ratios[other]:
                left[other] -= (at - since[other]) / ratios[other]
                since[other], ratios[other] = at, ratio
                heappush(heap, (at + left[other] * ratio, other))
    return ends


class Moved(NamedTuple):
    """A running job with a new expected end, or a new tenancy as well."""

    running: Running  # the job
    tenancy: Tenancy | None  # its new one; None: its neighbours are the same
    end_us: int  # instant at which it is expected to end

    def decisions(self, view: View) -> Iterator[Action]:
        """Yield what tells the manager."""
        job_id = self.running.job.id
        yield from expect_end(job_id, self.end_us, view)
        if self.tenancy is not None:
            yield SetNote(job_id, NOTE, tuple(self.tenancy))


class Arrival(NamedTuple):
    """A pending job that is to join running ones."""

    job: JobSpec  # the job
    left_us: int  # span: its run time alone
    beside: Sequence[int]  # its hosts


def resettled(
    changed: Mapping[int, Sequence[int]], view: View, arrival: Arrival | None = None
) -> tuple[int, tuple[Moved, ...]]:
    """Return when ``arrival`` ends, and the running jobs that move, by id, where some have changed neighbours.

    Their neighbours, the neighbours of these, and so on, may move with them.
    """
    sharers: dict[int, Sharer] = {}
    tenancies: dict[int, Tenancy] = {}
    reached = dict.fromkeys(changed)
    waiting = [*changed]
    while waiting:
        job_id = waiting.pop()
        running = view.running[job_id]
        now, truth = tenancy_of(running, view), measured(running)
        others = changed.get(job_id, now.beside)
        beside = {}
        for other in others:
            if arrival is not None and other == arrival.job.id:
                beside[other] = _by(running.job, arrival.job, None, view)
                continue
            beside[other] = _by(running.job, view.running[other].job, truth, view)
            if other not in reached:
                reached[other] = None
                waiting.append(other)
        sharers[job_id] = Sharer(now.left_us, beside)
        if job_id in changed:
            ratio = max(beside.values(), default=1.0)
            tenancies[job_id] = Tenancy(tuple(sorted(others)), now.progress_us, now.left_us, ratio, now.lost_us)
    end_us = view.now_us
    if arrival is not None:
        own = {host: _by(arrival.job, view.running[host].job, None, view) for host in arrival.beside}
        sharers[arrival.job.id] = Sharer(arrival.left_us, own)
    ends = forecast(view.now_us, sharers)
    if arrival is not None:
        end_us = ends[arrival.job.id]
    found = []
    for job_id in sorted(reached):
        running = view.running[job_id]
        its_end_us = ends[job_id]
        if sharers[job_id].left_us <= 1 or abs(its_end_us - running.end_us) <= _SAME_US:
            its_end_us = running.end_us  # one that takes longer than it was expected to may end at any moment
        if job_id in tenancies or its_end_us != running.end_us:
            found.append(Moved(running, tenancies.get(job_id), its_end_us))
    return end_us, tuple(found)


def _by(job: JobSpec, other: JobSpec, truth: float | None, view: View) -> float:
    """Return the slowdown of a job by another one, as measured or believed; 1 where it is not known: no policy put them there."""
    by = slowdown_by(job, other, view.pairs) if truth is None else truth
    return by if by < inf else 1.0


class Tenancies:
    """Keeps the notes and expected ends of jobs that share nodes."""

    __slots__ = ("_settled", "_settled_at")

    def __init__(self) -> None:
        # Caches: the version of the view at which all was right, and of each job what its note was right for.
        self._settled_at = -1
        self._settled: dict[int, tuple[Running, NoteValue, Sequence[int]]] = {}

    def keep_up(self, view: View) -> Iterator[Action]:
        """Yield the decisions that bring notes and expected ends up to date."""
        yield from delete_stale_notes(view, NOTE)
        version = view.version
        if self._settled_at == version:
            return
        neighbours = sharing(view)
        jobs, before, self._settled = view.running, self._settled, {}
        notes = view.notes(NOTE)
        changed = {}
        for job_id in sorted({*neighbours, *[job_id for job_id in notes if job_id is not None and job_id in jobs]}):
            running, note, beside = jobs[job_id], notes.get(job_id), neighbours.get(job_id, ())
            known = before.get(job_id)
            if known is None or known[0] is not running or known[1] is not note or known[2] != beside:
                if _has_changed(running, beside, view):
                    changed[job_id] = beside
                    continue
                known = (running, note, beside)
            self._settled[job_id] = known
        if changed:
            for each in resettled(changed, view)[1]:
                yield from each.decisions(view)
            version = -1
        self._settled_at = version


def sharing(view: View) -> dict[int, tuple[int, ...]]:
    """Return the running jobs that share nodes at present, each with its neighbours, ascending.

    A job that is stopped, or has turns of its own, is nobody's neighbour.
    """
    running, nodes_by_job = view.running, view.nodes_by_job
    active = sorted([job_id for job_id, each in running.items() if each.suspended_us is None and not each.slot])
    once = twice = 0
    for job_id in active:
        nodes = nodes_by_job[job_id]
        twice |= once & nodes
        once |= nodes
    if not twice:
        return {}
    shared = [(job_id, common) for job_id in active if (common := nodes_by_job[job_id] & twice)]
    return {
        job_id: tuple([other for other, theirs in shared if theirs & nodes and other != job_id])
        for job_id, nodes in shared
    }


def _has_changed(running: Running, beside: Sequence[int], view: View) -> bool:
    """Tell whether a job's neighbours, or its measured slowdown, are others than its note says."""
    if running.suspended_us is not None:
        return False
    noted, truth = noted_tenancy(running.job.id, view), measured(running)
    if noted is None:
        return bool(beside)
    return noted.beside != beside or (truth is not None and bool(beside) and abs(truth - noted.ratio) > _SAME)


# What a start beside others decides: who starts where, who runs slower because of it, and until when all are expected to run.


class Newcomer(NamedTuple):
    """A pending job that starts beside others."""

    offer: Offer  # where and until when, beside the others
    tenancy: Tenancy  # what is believed of it from its start on


class GroupSeat(NamedTuple):
    """One pending job on nodes of running ones, or two that start together; and what this does to the running ones."""

    newcomers: tuple[Newcomer, ...]  # who starts
    hosts: tuple[Moved, ...]  # running jobs beside them, and jobs beside these that move with them
    view: View  # the view

    @property
    def sole(self) -> None:
        """Return None: the jobs are co-located."""
        return

    @property
    def job_ids(self) -> tuple[int, ...]:
        """Return the jobs that start."""
        return tuple([each.offer.job.id for each in self.newcomers])

    @property
    def end_us(self) -> int:
        """Return the latest expected end of all."""
        return max([*[each.offer.end_us for each in self.newcomers], *[host.end_us for host in self.hosts]])

    @property
    def decisions(self) -> tuple[Action, ...]:
        """Return the starts, and the notes and new expected ends of all."""
        starts = tuple([each.offer.start() for each in self.newcomers])
        actions: list[Action] = [StartTogether(starts) if len(starts) > 1 else starts[0]]
        actions += [SetNote(each.offer.job.id, NOTE, tuple(each.tenancy)) for each in self.newcomers]
        for host in self.hosts:
            actions += host.decisions(self.view)
        return tuple(actions)

    @property
    def occupancies(self) -> tuple[Occupancy, ...]:
        """Return all jobs on their nodes."""
        hosts = [Occupancy(host.end_us, host.running.job.id, nodes_of(host.running.runs)) for host in self.hosts]
        return (*hosts, *[one for each in self.newcomers for one in each.offer.occupancies])

    def threads_held(self, at_us: int, view: View) -> Layers:
        """Return the threads that are free at ``at_us`` without this start, and are held because of it."""
        held = [each.offer.threads_held(at_us, view) for each in self.newcomers]
        held += [
            view.claim(host.running.runs)
            for host in self.hosts
            if view.expected_end(host.running) <= at_us < host.end_us
        ]
        held = [threads for threads in held if threads]
        if not held:
            return ()
        together = held[0]
        for threads in held[1:]:
            together = union(together, threads)
        steps = view.availability()
        free = steps[steps.by(at_us) - 1][1]
        return common(together, free)

    def count_held(self, at_us: int, view: View) -> int:
        """Return how many threads these are."""
        return size(self.threads_held(at_us, view))


def seat_among(job: JobSpec, runs: tuple[Run, ...], hosts: Sequence[Running], context: Context) -> GroupSeat:
    """Return a pending job on free threads of running jobs' nodes, and perhaps of empty ones, and until when all then run.

    ``hosts``: the running jobs on these nodes, which make progress.
    """
    view = context.view
    alone = context.placement.offer_on(job, runs, snapshot_now(view))
    changed = {host.job.id: (*tenancy_of(host, view).beside, job.id) for host in hosts}
    end_us, moved = resettled(changed, view, Arrival(job, alone.run_us, [*changed]))
    ratio = max([_by(job, host.job, None, view) for host in hosts], default=1.0)
    tenancy = Tenancy(tuple(sorted(changed)), 0, alone.run_us, ratio, 0)
    return GroupSeat((Newcomer(slowed(alone, end_us - view.now_us), tenancy),), moved, view)
