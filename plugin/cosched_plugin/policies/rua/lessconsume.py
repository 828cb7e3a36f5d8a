"""LessConsume and LessConsume Threshold: place a job where its expected loss to neighbours is least.

RUA paper, section 4. The search starts from first fit's allocation; a *bucket* is a place for one process. The worst
chosen bucket (largest penalised time of its node; ties: the last in node order) is exchanged for the next free bucket
not yet looked at, if the job would lose strictly less there. It ends when every free bucket has been looked at once,
when the job loses nothing, or, with a threshold, when the penalty factor is low enough.

The search reaches the least factor of all allocations at that instant: the tests compare it with enumeration. So
counting places, before any search, tells whether a threshold can be met. Factors only fall as running jobs end, so
bisection finds the first instant at which it can be met.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.planning.losses import SAME, Key, LimitRule, Losses, factor, factor_of, losses_in

_MOST_KEPT = 32  # places from before the last change
_MOST_AT_ONCE = 256  # run times in one array


class Places:
    """The nodes on which a snapshot has places for jobs of one shape, and the losses of such jobs there."""

    __slots__ = ("_free", "_ground", "_losses", "_outlooks", "_rooms", "_rows", "_within", "total")

    def __init__(self, job: api.JobSpec, snapshot: api.Snapshot, losses: Losses) -> None:
        """``job`` is one of them; ``losses`` are those to the jobs that run on each node."""
        rooms = _rooms(job, snapshot)
        self._losses = losses
        self._ground = losses.ground(rooms.nonzero()[0], job, snapshot)
        self._rooms: api.Ints = rooms[self._ground.nodes]
        self._rows: Rows | None = None
        self.total = int(np.add.reduce(self._rooms))
        self._within = np.arange(snapshot.view.machine.depth)[:, None] < self._rooms  # [processes - 1, node]
        self._free = snapshot.free
        self._outlooks: dict[Key, Outlook] = {}

    def outlook(self, job: api.JobSpec, planned: tuple[api.Planned, ...]) -> Outlook:
        """Return the losses of ``job`` beside the running jobs and the ``planned`` ones."""
        (key,) = self._losses.keys((job,), planned)
        outlook = self._outlooks.get(key)
        if outlook is None:
            lost = self._loss_us(job, job.estimate_us, planned)
            levels = lost[self._within]
            levels.sort()
            outlook = self._outlooks[key] = Outlook(self, lost, levels)
        return outlook

    def foresee(self, jobs: Sequence[api.JobSpec], planned: tuple[api.Planned, ...]) -> None:
        """Compute the losses of these jobs together, once for equal jobs: users ask for round run times."""
        asked: dict[Hashable, dict[Key, api.JobSpec]] = {}  # by kind
        for key, job in zip(self._losses.keys(jobs, planned), jobs, strict=True):
            if key not in self._outlooks:
                asked.setdefault(key[0], {})[key] = job
        for of_kind in asked.values():
            keys = list(of_kind)
            one = of_kind[keys[0]]
            for first in range(0, len(keys), _MOST_AT_ONCE):
                some = keys[first : first + _MOST_AT_ONCE]
                spans_us = np.array([key[1] for key in some], dtype=np.int64)
                lost = self._loss_us(one, spans_us[:, None, None], planned)
                levels = np.sort(lost[:, self._within], axis=1)
                for row, key in enumerate(some):
                    self._outlooks[key] = Outlook(self, lost[row], levels[row])

    @property
    def rows(self) -> Rows:
        """Return the nodes that have a place."""
        if self._rows is None:
            at = self._rooms.nonzero()[0]
            rooms = self._rooms[at]
            self._rows = Rows(at, self._ground.nodes[at], rooms, rooms.cumsum())
        return self._rows

    def runs(self, job: api.JobSpec, exchange: Exchange) -> tuple[api.Run, ...]:
        """Return where ``job`` goes."""
        return exchange.runs(self.rows.nodes, self._free, job.threads_per_process)

    def _loss_us(self, job: api.JobSpec, run_us: int | api.Ints, planned: tuple[api.Planned, ...]) -> api.Floats:
        return self._ground.lost_us(job, len(self._within), run_us, planned)


class Rows(NamedTuple):
    """Nodes that have a place."""

    at: api.Ints  # their positions among the nodes with known losses
    nodes: api.Ints  # ascending
    rooms: api.Ints  # how many processes each can take
    filled: api.Ints  # and how many it and the nodes before it


class Exchange:
    """The final number of processes on each node, and the loss of the worst of these nodes."""

    __slots__ = ("_counts", "_runs", "worst_us")

    def __init__(self, lost: api.Floats, rooms: api.Ints, filled: api.Ints, processes: int, goal_us: float) -> None:
        """``lost`` [processes - 1, node] us, ``rooms`` [node] processes, ``filled`` [node] their sum up to the node."""
        last = int(filled.searchsorted(processes))  # the node that first fit fills last, perhaps in part
        counts = rooms[: last + 1].copy()
        counts[last] -= filled[last] - processes
        self._counts = counts
        self._runs: tuple[api.Run, ...] | None = None
        loses: list[float] = lost[counts - 1, np.arange(last + 1)].tolist()
        self.worst_us = max(loses)
        if self.worst_us > goal_us:
            self._exchange(loses, lost, rooms, goal_us)

    def _exchange(self, loses: list[float], lost: api.Floats, rooms: api.Ints, goal_us: float) -> None:
        """Improve first fit's allocation; ``loses`` is the loss on each of its nodes."""
        chosen: list[int] = self._counts.tolist()
        places: list[int] = rooms.tolist()
        rows: list[list[float]] = lost.T.tolist()
        row = len(chosen) - 1  # the node whose free buckets come next, and how many of them there are
        left = places[row] - chosen[row]
        chosen += [0] * (len(places) - len(chosen))
        # (-penalised time, -row, processes): the worst node first. An entry with an outdated number of processes is void. A node that
        # does not lose more than the goal is never to be exchanged.
        worst = [(-loss, -bad, chosen[bad]) for bad, loss in enumerate(loses) if loss > goal_us]
        heapify(worst)
        while worst:
            worst_us = -worst[0][0]
            # Section 4: the worst chosen bucket is replaced by one that has not been evaluated, as long as this lowers the penalty.
            while not left or rows[row][chosen[row]] >= worst_us:  # the other free buckets of this node are no better
                row += 1
                if row == len(places):
                    break
                left = places[row]
            if row == len(places):
                break
            left -= 1
            out = -heappop(worst)[1]
            chosen[out] -= 1
            chosen[row] += 1
            for moved in (out, row):
                count = chosen[moved]
                if count and rows[moved][count - 1] > goal_us:
                    heappush(worst, (-rows[moved][count - 1], -moved, count))
            while worst and chosen[-worst[0][1]] != worst[0][2]:
                heappop(worst)
        self._counts = np.array(chosen[: row + 1], dtype=np.int64)
        self.worst_us = -worst[0][0] if worst else max([rows[at][n - 1] for at, n in enumerate(chosen) if n])

    def runs(self, nodes: api.Ints, free: api.Layers, width: int) -> tuple[api.Run, ...]:
        """Return the allocation: on every node the lowest free threads, ``width`` for each process."""
        if self._runs is None:
            alike: dict[int, int] = {}  # processes -> nodes
            last = found = 0  # processes on the nodes before, and which nodes these are
            for node, count in zip(nodes.tolist(), self._counts.tolist(), strict=False):
                if count != last:
                    alike[last] = alike.get(last, 0) | found
                    last, found = count, 0
                found |= 1 << node
            alike[last] = alike.get(last, 0) | found
            del alike[0]
            self._runs = api.lowest_runs([(count, api.NodeSet(found)) for count, found in alike.items()], free, width)
        return self._runs


class Outlook:
    """Losses of jobs of one demand and estimate: on each node, and with each number of processes."""

    __slots__ = ("_exchanges", "_levels_us", "_loss_us", "_places")

    def __init__(self, places: Places, lost: api.Floats, levels_us: api.Floats) -> None:
        """``lost`` [processes - 1, node] is the penalised time in us, ``levels_us`` that of all places, ascending."""
        self._places = places
        self._loss_us = lost
        self._levels_us = levels_us
        self._exchanges: dict[tuple[int, float], Exchange] = {}

    def least_us(self, processes: int) -> float:
        """Return the least possible loss on the worst node of a job with ``processes`` processes. There must be places for them."""
        # More processes on a node never lose less, so the best places of a node are its first ones.
        return float(self._levels_us[processes - 1])

    def exchange(self, processes: int, goal_us: float) -> Exchange:
        """Return the search for places with no loss above ``goal_us``."""
        key = (processes, goal_us)
        found = self._exchanges.get(key)
        if found is None:
            rows = self._places.rows
            found = Exchange(self._loss_us.take(rows.at, axis=1), rows.rooms, rows.filled, processes, goal_us)
            self._exchanges[key] = found
        return found


class LossCache:
    """A cache of losses, for many jobs on one snapshot and for later events.

    The loss of a job that starts at some instant depends only on the jobs expected to be there then, and on planned jobs. So
    places of a later instant stay valid when jobs that end before it come and go.
    """

    __slots__ = ("_changes", "_losses", "_now_us", "_places", "_version", "_view")

    def __init__(self) -> None:
        self._view: api.View | None = None
        self._version = 0
        self._now_us = 0
        self._changes = 0  # of the losses
        self._losses: tuple[api.View, Losses] | None = None
        self._places: dict[tuple[int, api.Layers], Places] = {}

    def losses(self, view: api.View) -> Losses:
        """Return the losses on the machine of a view."""
        if self._losses is None or self._losses[0] is not view:
            self._losses = (view, losses_in(view))
        return self._losses[1]

    def places(self, job: api.JobSpec, snapshot: api.Snapshot) -> Places:
        """Return the places that ``snapshot`` has for jobs of the shape of ``job``."""
        view = snapshot.view
        if not api.is_plain(job):
            return Places(job, snapshot, self.losses(view))
        now_us = view.now_us
        if self._version != view.version or self._view is not view:
            self._turn_to(view)
        elif self._now_us != now_us:  # the past is never requested again
            self._places = {key: places for key, places in self._places.items() if key[0] >= now_us}
        self._now_us = now_us
        key = (snapshot.at_us, snapshot.free)
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = Places(job, snapshot, self.losses(view))
        return places

    def _turn_to(self, view: api.View) -> None:
        """Drop entries that may be invalid, and all but the last few."""
        losses = self.losses(view)
        settled_us = max(view.now_us, losses.settled_us(self._changes))
        kept = list(self._places.items())[-_MOST_KEPT:] if self._view is view else []
        self._places = {key: places for key, places in kept if key[0] >= settled_us}
        self._view = view
        self._version = view.version
        self._changes = losses.changes


def _rooms(job: api.JobSpec, snapshot: api.Snapshot) -> api.Ints:
    view = snapshot.view
    if api.is_plain(job):
        return view.thread_counts(snapshot.free)
    counts = view.thread_counts(snapshot.open_to(job)).copy()
    memory = snapshot.memory_for(job)
    for node in np.flatnonzero(counts).tolist():
        counts[node] = api.room_on(job, int(counts[node]), view.machine.threads_of[node], memory[node])
    return counts


_MOST_FLOORS: Final = 10_000  # cached


class LessConsume(api.PenaltyPlacement):
    """First fit's allocation, improved at the same start until the penalty factor is least, or within ``threshold``.

    With ``may_wait`` a later place counts where the job is expected to end there earlier: the paper says both that LC improves first
    fit's allocation, and that its start "in many situations" is substantially later.
    """

    # Processes are exchanged one by one; the least factor that a job can have is known once for all.
    ignores: ClassVar[api.Needs] = frozenset({api.FILLED_LAYOUTS})

    def __init__(
        self,
        *,
        threshold: float | None = None,
        extend_limit: bool = True,
        limit_factors: Sequence[float] = (1.0,),
        may_wait: bool = False,
    ) -> None:
        self.threshold = threshold
        self.extend_limit = extend_limit
        self.may_wait = may_wait
        self._limit = LimitRule(limit_factors, extends=extend_limit)
        self._known = LossCache()
        self._floors: dict[object, float] = {}  # by kind
        self._floor_of: dict[int, tuple[api.JobSpec, float]] = {}
        # Nodes in service, and interventions, for which they are valid
        self._floors_of: tuple[api.Layers, int] = ((), 0)
        self._floors_view: api.View | None = None  # the view and its version when these were last checked
        self._floors_at = -1

    @property
    def provides(self) -> api.Needs:
        """Return that the placement searches within any thresholds, where it has none of its own."""
        return frozenset({api.LEAST_PENALTY}) if self.threshold is None else api.NONE

    def settled(self, view: api.View) -> bool:
        """Tell whether threads of a node are alike, and no start makes another job's later place worse than its place now."""
        return not self.may_wait and not self._known.losses(view).by_thread

    def offer_on(self, job: api.JobSpec, runs: tuple[api.Run, ...], snapshot: api.Snapshot) -> api.Offer:
        """Return the job on these threads, beside the neighbours that it has there."""
        return self._limit.offer(job, snapshot, runs, factor_of(job, snapshot, runs))

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Offer | None:
        """Return the job's place in ``snapshot``, or None; with a threshold, None also if none is good enough.

        None, too, where the job rather waits for a later place.
        """
        found = self.find(job, snapshot, self._own(job, snapshot.view))
        if found is None or self._sooner(found, 1, snapshot) is not found:
            return None
        return found.offer()

    def price(self, job: api.JobSpec, view: api.View) -> int:
        """Return the price of an examination of the places at one instant."""
        return _price(job).units(view.machine.nodes)

    def earliest(self, job: api.JobSpec, view: api.View) -> api.Offer | None:
        """Return the first place, as running jobs end, that is good enough."""
        first = self.first(job, view, self._own(job, view))
        return None if first is None else self._sooner(first[1], first[0] + 1, None).offer()

    def _sooner(self, best: Found, since: int, plan: api.Snapshot | None) -> Found:
        """Return the place from the step ``since`` on with the earliest expected end, if it is before that of ``best``; else that.

        ``plan`` has the planned jobs to reckon with; a place in a plan for later is never put off.
        """
        job, view = best.job, best.snapshot.view
        if not self.may_wait or (plan is not None and plan.at_us > view.now_us):
            return best
        steps = view.availability()
        planned = () if plan is None else plan.planned
        for index in range(since, len(steps)):
            if best.factor == 1.0 or steps.instant_us(index) + job.estimate_us >= best.end_us:
                break
            if not pay_for_look(job, view):
                break
            found = self.find(job, api.snapshot_at(view, *steps[index])._replace(planned=planned))
            if found is not None and found.end_us < best.end_us:
                best = found
        return best

    def first(self, job: api.JobSpec, view: api.View, thresholds: Sequence[float]) -> tuple[int, Found] | None:
        """Return the first step of the view's availability in which `find` finds a place: the step's number and the place.

        Every check is paid for, but none is skipped: a reservation is made at any cost.
        """
        steps = view.availability()
        low = middle = steps.wide(job.processes)
        high = len(steps)
        walk = bool(thresholds) and is_rigid(job)  # it fits from some step on, but first fit may do worse later
        threshold = thresholds[-1] if thresholds and not walk else None
        while low < high:  # most jobs that can start at all have a good place: try the first instant first
            pay_for_look(job, view)
            if self.meets(job, api.snapshot_at(view, *steps[middle]), threshold):
                high = middle
            else:
                low = middle + 1
            middle = (low + high) // 2
        for index in range(low, len(steps)):
            found = self.find(job, api.snapshot_at(view, *steps[index]), thresholds)
            if found is not None:
                return index, found
            pay_for_look(job, view)
        return None

    def promising(self, jobs: list[api.JobSpec], snapshot: api.Snapshot) -> list[api.JobSpec]:
        """Return the jobs that may get an offer in ``snapshot``: with a threshold, those for which it can be met there."""
        if self.threshold is None:
            return jobs
        threads = api.size(snapshot.free)
        plain = [job for job in jobs if api.is_plain(job) and job.processes <= threads]
        if plain:
            self._known.places(plain[0], snapshot).foresee(plain, snapshot.planned)
        can = {
            job.id for job in plain if self.meets(job, snapshot, self.within_reach(job, snapshot.view, self.threshold))
        }
        return [job for job in jobs if job.id in can or not api.is_plain(job)]

    def meets(self, job: api.JobSpec, snapshot: api.Snapshot, threshold: float | None) -> bool:
        """Tell whether ``snapshot`` has a place for ``job``; with a threshold, one with a factor within it."""
        if is_rigid(job):
            return self.find(job, snapshot, () if threshold is None else (threshold,)) is not None
        places = self._known.places(job, snapshot)
        if job.processes > places.total:
            return False
        if threshold is None:
            return True
        return places.outlook(job, snapshot.planned).least_us(job.processes) <= _limit_us(job, threshold)

    def kind(self, job: api.JobSpec, view: api.View) -> Hashable:
        """Return the kind of the job."""
        if not api.is_plain(job):
            return job.id
        return (job.estimate_us, job.processes, job.limit_us, self._known.losses(view).kind(job))

    def _own(self, job: api.JobSpec, view: api.View) -> tuple[float, ...]:
        return () if self.threshold is None else (self.within_reach(job, view, self.threshold),)

    def within_reach(self, job: api.JobSpec, view: api.View, threshold: float) -> float:
        """Return ``threshold``, raised to the least factor that the empty machine allows a job like this one."""
        return max(threshold, self._least_ever(job, view))

    def all_within_reach(self, job: api.JobSpec, view: api.View, thresholds: tuple[float, ...]) -> tuple[float, ...]:
        """Return the ascending ``thresholds``, each raised to the least factor that the empty machine allows a job like this one."""
        least = self._least_ever(job, view)
        if least <= thresholds[0]:
            return thresholds
        return tuple(sorted({max(threshold, least) for threshold in thresholds}))

    def _least_ever(self, job: api.JobSpec, view: api.View) -> float:
        version = view.version
        if self._floors_at != version or self._floors_view is not view:
            self._floors_at, self._floors_view = version, view
            floors_of = (view.in_service, view.interventions)
            if floors_of != self._floors_of:
                self._floors_of = floors_of
                self._floors.clear()
                self._floor_of.clear()
        known = self._floor_of.get(job.id)
        if known is None or known[0] is not job:
            if len(self._floor_of) >= _MOST_FLOORS:
                self._floor_of.clear()
            known = self._floor_of[job.id] = (job, self._floor_of_kind(job, view))
        return known[1]

    def _floor_of_kind(self, job: api.JobSpec, view: api.View) -> float:
        losses = self._known.losses(view)
        if losses.loses_nothing(job):
            return 1.0
        key = (
            losses.kind(job),
            job.processes,
            job.ppn_min,
            job.ppn_max,
            job.threads_per_process,
            job.memory_mb,
            job.exclusive,
            job.eligible,
            job.resources,
            job.licences,
        )
        floor = self._floors.get(key)
        if floor is None:
            if len(self._floors) >= _MOST_FLOORS:
                self._floors.clear()
            machine = view.machine
            counts = api.Counts(machine)
            everything = api.Snapshot(view, view.now_us, self._floors_of[0], (), machine.memory_mb, counts)
            floor = self._floors[key] = self._floor(job, everything)
        return floor

    def _floor(self, job: api.JobSpec, everything: api.Snapshot) -> float:
        places = Places(job, everything, losses_in(everything.view, empty=True))
        if places.total < job.processes:
            return 1.0
        outlook = places.outlook(job, ())
        if is_rigid(job):
            return factor(job, outlook.exchange(job.processes, inf).worst_us)
        return factor(job, outlook.least_us(job.processes))

    def least(self, job: api.JobSpec, snapshot: api.Snapshot, thresholds: Sequence[float] = ()) -> api.Offer | None:
        """Return the place with the least factor; with ascending ``thresholds``, the first within the lowest that can be met.

        None where the job does not fit, or no threshold can be met.
        """
        found = self.find(job, snapshot, thresholds)
        return None if found is None else found.offer()

    def find(self, job: api.JobSpec, snapshot: api.Snapshot, thresholds: Sequence[float] = ()) -> Found | None:
        """Return the result of `least` before it is written out as an offer."""
        if is_rigid(job):
            offer = self._rigid(job, snapshot, thresholds)
            return None if offer is None else Found(job, snapshot, offer.factor, self._limit, offer=offer)
        places = self._known.places(job, snapshot)
        if job.processes > places.total:
            return None
        outlook = places.outlook(job, snapshot.planned)
        goal_us = 0.0
        if thresholds:
            least_us = outlook.least_us(job.processes)
            for threshold in thresholds:
                goal_us = _limit_us(job, threshold)
                if least_us <= goal_us:
                    break
            else:
                return None
        exchange = outlook.exchange(job.processes, goal_us)
        return Found(job, snapshot, factor(job, exchange.worst_us), self._limit, places, exchange)

    def _rigid(self, job: api.JobSpec, snapshot: api.Snapshot, thresholds: Sequence[float]) -> api.Offer | None:
        """Place a job whose buckets cannot be exchanged one at a time."""
        view = snapshot.view
        free, nodes = snapshot.open_on(job)
        runs = api.first_fit(job, free, view.machine, snapshot.memory_for(job), nodes)
        if runs is None:
            return None
        by = factor_of(job, snapshot, runs)
        if thresholds and by > max(thresholds) + SAME:
            return None
        return self._limit.offer(job, snapshot, runs, by)


def is_rigid(job: api.JobSpec) -> bool:
    """Tell whether the job wants whole nodes, or a least number of processes on each: then first fit's place is the only one."""
    return job.exclusive or job.ppn_min > 1


def _limit_us(job: api.JobSpec, threshold: float) -> float:
    return (threshold - 1.0 + SAME) * job.estimate_us


def pay_for_look(job: api.JobSpec, view: api.View) -> bool:
    """Pay for an examination of the places at one instant; tell whether the budget allowed it."""
    work = view.work
    return not work.limited or work.pay(_price(job), view.machine.nodes)


def _price(job: api.JobSpec) -> api.Price:
    return api.prices.PLACES if api.is_plain(job) else api.prices.PLACES_BY_NODE


class Found:
    """The end of a search: the factor at once, the offer on request."""

    __slots__ = ("_exchange", "_limit", "_offer", "_places", "factor", "job", "snapshot")

    def __init__(
        self,
        job: api.JobSpec,
        snapshot: api.Snapshot,
        by: float,
        limit: LimitRule,
        places: Places | None = None,
        exchange: Exchange | None = None,
        offer: api.Offer | None = None,
    ) -> None:
        self.job = job
        self.snapshot = snapshot
        self.factor = by
        self._places = places
        self._exchange = exchange
        self._offer = offer
        self._limit = limit

    @property
    def end_us(self) -> int:
        """Return start + estimate x factor: the job's expected end without a limit."""
        return self.snapshot.at_us + api.stretch(self.job.estimate_us, self.factor)

    def offer(self) -> api.Offer:
        """Return the place."""
        if self._offer is None:
            assert self._places is not None  # set together, or the offer is set
            assert self._exchange is not None
            runs = self._places.runs(self.job, self._exchange)
            self._offer = self._limit.offer(self.job, self.snapshot, runs, self.factor)
        return self._offer


def within_threshold(*, threshold: float = 1.15, **settings: Any) -> LessConsume:
    """Return LessConsume Threshold; ``settings``: those of `LessConsume`."""
    return LessConsume(threshold=threshold, **settings)
