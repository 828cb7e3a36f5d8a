"""The placement of co-execution: all cores of n nodes (*compact*), or half of the cores of 2n (*spread*), beside other jobs.

The place with the best *gain* is taken: the work that the machine does more each second for the job, less what its neighbours do
less, for each half of a node that it takes. Work is counted in nodes: a compact job does as much as it has nodes. A job waits
for its slowest process, so its worst neighbour decides.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from math import inf
from typing import ClassVar, Final, NamedTuple, cast

from cosched_plugin import api
from cosched_plugin.policies.placement.spread import Kind, Kinds, NodeHalves, limit_beside
from cosched_plugin.policies.planning.reservation import PlacedReservation, rejection, take_seat

# What a site believes of spread jobs: run times over those of the same jobs alone on all cores of their nodes (compact).


def ratio_alone(job: api.JobSpec, model: api.PairModel | None) -> float:
    """Return the run time of a spread job without neighbours over its compact one; 1 if nothing is known of it."""
    spread = None if model is None or not model.knows(job) else model.spread(job)
    return 1.0 if spread is None else spread


def ratio_beside(job: api.JobSpec, other: api.JobSpec, model: api.PairModel | None) -> float:
    """Return the run time of a spread job beside another one over its compact one; inf if nothing is known of the two."""
    if model is None or not (api.may_meet(job, model) and api.may_meet(other, model)):
        return inf
    spread = model.spread(job)
    slowdown = model.slowdown(job, other)
    return slowdown if spread is None else spread * slowdown


# Which nodes have an open half, and beside which job: the machine as co-execution sees it at one instant.
#
# A *tenant* is a job that is spread: it has one half of the cores of its nodes. A *half* is the lower or the upper cores of every
# CPU (`NodeHalves`). Jobs that have more of a node than a half are alone there.

NOTE: Final = "spread"  # of a tenant: its expected run time among its neighbours over the compact one


class Tenant(NamedTuple):
    """A spread job, with the nodes whose other half is open."""

    job: api.JobSpec
    per_node: int  # processes
    ratio: float  # expected run time among its present neighbours over the compact one
    lower: api.NodeSet  # nodes whose lower half is open
    upper: api.NodeSet

    @property
    def open(self) -> int:
        """Return the number of open halves."""
        return self.lower.bit_count() + self.upper.bit_count()


class OpenNodes(NamedTuple):
    """The nodes on which a job may start."""

    empty: api.NodeSet
    tenants: Sequence[Tenant]  # those with an open half beside them, by job

    def within(self, nodes: api.NodeSet) -> OpenNodes:
        """Return those of them that are among these nodes."""
        tenants = [
            tenant._replace(lower=api.NodeSet(tenant.lower & nodes), upper=api.NodeSet(tenant.upper & nodes))
            for tenant in self.tenants
            if (tenant.lower | tenant.upper) & nodes
        ]
        return OpenNodes(api.NodeSet(self.empty & nodes), tenants)


class Sides:
    """The hardware threads of the two halves of each node of a kind."""

    __slots__ = ("_every", "_known", "_lower", "_masks", "_upper", "halves", "nodes")

    def __init__(self, kind: Kind) -> None:
        self.halves, self.nodes = halves, _ = kind
        # Caches: the nodes that were open last, and the threads of processes on a half.
        self._known: tuple[api.View, int, int, api.Layers, OpenNodes] | None = None
        self._masks: dict[tuple[int, bool], api.ThreadMask] = {}
        cores, whole = halves.cores, halves.whole
        threads = range(halves.node.threads)
        if cores > 1:
            part = cores // 2
            lower = [thread for thread in threads if thread % whole % cores < part]
            upper = [thread for thread in threads if thread % whole % cores >= cores - part]
        else:  # the first and the second hardware threads of the cores
            lower = [thread for thread in threads if thread < whole]
            upper = [thread for thread in threads if whole <= thread < 2 * whole]
        self._every, self._lower, self._upper = [
            api.ThreadMask(sum([1 << thread for thread in some])) for some in (threads, lower, upper)
        ]

    def mask(self, processes: int, *, upper: bool) -> api.ThreadMask:
        """Return the hardware threads of a number of processes on the lower or the upper half of a node."""
        mask = self._masks.get((processes, upper))
        if mask is None:
            mask = self._masks[processes, upper] = self.halves.mask(processes, upper=upper)
        return mask

    def open_nodes(self, snapshot: api.Snapshot, planned: Sequence[api.Offer] = ()) -> OpenNodes:
        """Return the empty nodes, and the open halves beside running and ``planned`` jobs, as expected at the snapshot's instant."""
        view, at_us, free = snapshot.view, snapshot.at_us, snapshot.free
        known = self._known
        if known is None or planned or known[:3] != (view, view.version, at_us) or known[3] != free:
            known = (view, view.version, at_us, free, self._find(snapshot, planned))
            self._known = None if planned else known
        return known[4]

    def _find(self, snapshot: api.Snapshot, planned: Sequence[api.Offer]) -> OpenNodes:
        view, at_us, free = snapshot.view, snapshot.at_us, snapshot.free
        closed = _of_other_slots(view, at_us)
        there = self.nodes & ~closed
        empty = api.NodeSet(api.with_all(free, self._every) & there)
        if not self.halves.half:
            return OpenNodes(empty, ())
        lower = api.NodeSet(api.with_all(free, self._lower) & there & ~empty)
        upper = api.NodeSet(api.with_all(free, self._upper) & there & ~empty)
        if not (lower or upper):
            return OpenNodes(empty, ())
        present = [
            each
            for each in view.running.values()
            if not each.slot and (at_us == view.now_us or view.expected_end(each) > at_us)
        ]
        taken = twice = 0
        nodes_of = view.nodes_by_job
        for running in present:
            nodes = 0 if running.on_disk else nodes_of[running.job.id]
            taken, twice = taken | nodes, twice | (taken & nodes)
        # Where a manager has put two jobs on one half, the other half stays closed: a job there has one neighbour on a node.
        lower, upper = api.NodeSet(lower & ~twice), api.NodeSet(upper & ~twice)
        here = {running.job.id for running in present}
        tenants = []
        for running in running_tenants(view):
            nodes = nodes_of[running.job.id]
            if running.job.id in here and (lower | upper) & nodes:
                tenants.append(_tenant(running.job, running.runs, ratio_of(running, view), (lower, upper), nodes))
        for offer in planned:
            nodes = api.nodes_of(offer.runs)
            if (lower | upper) & nodes and offer.end_us > at_us and self.is_spread(offer.runs):
                tenants.append(_tenant(offer.job, offer.runs, offer.factor, (lower, upper), nodes))
        return OpenNodes(empty, tenants)

    def is_spread(self, runs: Sequence[api.Run]) -> bool:
        """Tell whether a job leaves a half of each of its nodes to others."""
        return all(self.halves.on_one_side(run.mask) for run in runs)


def _tenant(
    job: api.JobSpec, runs: Sequence[api.Run], ratio: float, halves: tuple[api.NodeSet, api.NodeSet], nodes: api.NodeSet
) -> Tenant:
    """Return a spread job with those of the open lower and upper ``halves`` that are on its nodes."""
    most = max([run.processes for run in runs])
    return Tenant(job, most, ratio, api.NodeSet(halves[0] & nodes), api.NodeSet(halves[1] & nodes))


def running_tenants(view: api.View) -> list[api.Running]:
    """Return the running jobs that are spread, by id; one that the manager has taken to disk slows nobody down."""
    found = [view.running[job_id] for job_id in api.running_with_note(NOTE, view)]
    return [running for running in found if not running.on_disk] if view.on_disk else found


def ratio_of(running: api.Running, view: api.View) -> float:
    """Return a running job's expected run time among its neighbours over the compact one, as last noted."""
    note = view.note(running.job.id, NOTE)
    return note if type(note) is float and note > 0.0 else 1.0


def _of_other_slots(view: api.View, at_us: int) -> int:
    """Return the nodes of jobs with memory that a manager has put into other slots: their threads are free here, and it is not.

    `View.availability` has a step where such a job ends, and none for a job that leaves nothing: that one must close no node.
    """
    nodes = 0
    for running in view.running.values() if view.quantum_us else ():
        if running.slot and running.job.memory_mb and not running.on_disk and view.expected_end(running) > at_us:
            nodes |= api.nodes_of(running.runs)
    return nodes


# A half on an empty node counts as so many halves: what the other half will do is not known yet.
_ON_EMPTY: Final = 1.5


class Place(NamedTuple):
    """A place for a job, before it is written out."""

    job: api.JobSpec
    gain: float  # nodes' worth of work for each half of a node
    ratio: float  # expected run time there over the compact one
    taken: tuple[tuple[Tenant, int], ...]  # tenants, and the number of halves beside each
    empty: int  # further nodes
    compact: bool


class _Home(NamedTuple):
    """The nodes of which a job gets some, all of one kind, and how many it takes."""

    sides: Sides
    nodes: api.NodeSet
    whole: int  # compact; 0: not at all
    spread: int


class _Neighbour(NamedTuple):
    """A tenant beside which a job may run."""

    tenant: Tenant
    ratio: float  # of the job beside it
    loss: float  # of the tenant, in nodes' worth of work
    value: float  # by which neighbours are ranked


class Halves(api.Placement):
    """Nodes by whole or by half.

    ``compact``: a job may have all cores of its nodes; otherwise only if the machine does not hold it spread. ``share``: a
    half may be beside another job. ``max_slowdown``: what a job may take beside another one, over its compact run time.
    """

    needs: ClassVar[api.Needs] = frozenset({api.THREADS})
    provides: ClassVar[api.Needs] = frozenset({api.HALVES})
    ignores: ClassVar[api.Needs] = frozenset({api.FILLED_LAYOUTS, api.SAME_NODES})
    shortens: ClassVar[bool] = True  # a spread job often takes less than its estimate

    def __init__(self, *, compact: bool = True, share: bool = True, max_slowdown: float = 1.05) -> None:
        self._compact = compact
        self._share = share
        self._most = max_slowdown
        # Caches: the kinds of nodes, the halves of each, the homes of jobs, and the ratios of two beside each other, by one model.
        self._kinds: Kinds | None = None
        self._sides: dict[NodeHalves, Sides] = {}
        self._homes: dict[int, tuple[api.JobSpec, _Home | None]] = {}
        self._ratios: dict[tuple[int, int], tuple[api.JobSpec, api.JobSpec, tuple[float, float]]] = {}
        self._model: api.PairModel | None = None

    def never(self, job: api.JobSpec, view: api.View) -> bool:
        """Tell whether no kind of node of the empty machine holds ``job``, neither compact nor spread."""
        return self._home(job, view) is None

    def is_spread(self, runs: Sequence[api.Run], view: api.View) -> bool:
        """Tell whether a job on nodes of one kind leaves a half of each to others."""
        halves = self._kinds_of(view).of_node(runs[0].first)
        return self._sides[halves].is_spread(runs)

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Offer | None:
        """Return the job's place with the best gain, or None if it has none at that instant."""
        return self.offer_among(job, snapshot, ())

    def offer_among(self, job: api.JobSpec, snapshot: api.Snapshot, planned: Sequence[api.Offer]) -> api.Offer | None:
        """Return the same with ``planned`` jobs among the running ones."""
        there = self.open_to(job, snapshot, planned)
        place = self.best(job, there, snapshot.view)
        return None if place is None else self.write_out(place, there, snapshot)

    def open_to(self, job: api.JobSpec, snapshot: api.Snapshot, planned: Sequence[api.Offer] = ()) -> OpenNodes:
        """Return where the job may start: on nodes of its home with enough of what it takes of amounts."""
        view = snapshot.view
        home = self._home(job, view)
        if home is None:
            return OpenNodes(api.NodeSet(0), ())
        there = home.sides.open_nodes(snapshot, planned)
        nodes = home.nodes
        if job.resources or job.licences:
            may = view.open_nodes(job, snapshot.at_us, snapshot.counts)
            assert may is not None
            nodes = api.NodeSet(nodes & may)
        return there if nodes == home.sides.nodes else there.within(nodes)

    def earliest(self, job: api.JobSpec, view: api.View) -> api.Offer | None:
        """Return the job's first place as running jobs end; a node that is open to it stays so, hence the search by halving."""
        steps = view.availability()
        low, high = 0, len(steps)
        found: api.Offer | None = None
        while low < high:
            middle = (low + high) // 2
            offer = self.offer(job, api.snapshot_at(view, *steps[middle]))
            if offer is None:
                low = middle + 1
            else:
                found, high = offer, middle
        return found

    def best(
        self, job: api.JobSpec, there: OpenNodes, view: api.View, partner: api.JobSpec | None = None
    ) -> Place | None:
        """Return the place with the best gain among open nodes; None if there is none.

        ``partner``: a pending job that will be beside this one where it gets empty nodes.
        """
        home = self._home(job, view)
        if home is None:
            return None
        _, _, whole, spread = home
        work = job.processes / home.sides.halves.whole
        empty = there.empty.bit_count()
        places = []
        if whole and empty >= whole:
            places.append(Place(job, work / (2 * whole), 1.0, (), whole, compact=True))
        if spread:
            neighbours = self._neighbours(job, there, home, work, view.pairs) if self._share else []
            if sum([each.tenant.open for each in neighbours]) + empty >= spread:
                places.append(_beside(job, neighbours, spread, work, view.pairs))
            if partner is not None and empty >= spread:
                places.append(self._with_partner(job, partner, spread, view))
        return max(places, key=lambda place: place.gain, default=None)  # the first of equals

    def may_spread_on(self, job: api.JobSpec, empty: int, view: api.View) -> bool:
        """Tell whether so many empty nodes hold the job spread, and another one may be beside it there."""
        home = self._home(job, view)
        return self._share and home is not None and 0 < home.spread <= empty

    def partner(self, job: api.JobSpec, pending: Iterable[api.JobSpec], view: api.View) -> api.JobSpec | None:
        """Return the pending job that does most work together with this one; None where none may be beside it."""
        best: api.JobSpec | None = None
        home = self._home(job, view)
        assert home is not None
        most, model = 0.0, view.pairs
        choosy = len(self._kinds_of(view).all) > 1 or view.asked
        for other in pending:
            if other.id != job.id and not (choosy and not self._may_share(job, home, other, view)):
                work = self._work_of_two(job, other, home.sides.halves, model)
                if work > most:
                    best, most = other, work
        return best

    def write_out(self, place: Place, there: OpenNodes, snapshot: api.Snapshot) -> api.Offer:
        """Return a place among the open nodes of ``snapshot`` as an offer."""
        home = self._home(place.job, snapshot.view)
        assert home is not None
        job, sides, ratio = place.job, home.sides, place.ratio
        if place.compact:
            nodes = api.lowest_threads(there.empty, place.empty)
            runs = sides.halves.runs(job, sides.halves.most(job), nodes)
            if sides.is_spread(runs):  # a small job that shares nodes with none
                ratio = ratio_alone(job, snapshot.view.pairs)
        else:
            runs = _spread_runs(place, sides, there.empty)
        run_us = api.stretch(job.estimate_us, ratio)
        return api.Offer(job, snapshot.at_us, runs, ratio, run_us, limit_beside(job, run_us))

    def _home(self, job: api.JobSpec, view: api.View) -> _Home | None:
        """Return the nodes of which a job gets some: of the kind with most of those that it may have; None if no kind holds it."""
        known = self._homes.get(job.id)
        if known is None or known[0] is not job:
            if len(self._homes) > 2 * view.queued + 1000:
                self._homes.clear()
            homes = (self._home_on(job, kind) for kind in self._kinds_of(view).open_to(job))
            known = self._homes[job.id] = (job, next((home for home in homes if home is not None), None))
        return known[1]

    def _home_on(self, job: api.JobSpec, kind: Kind) -> _Home | None:
        """Return some nodes of a kind, with how many of these the job takes; None if they do not hold it."""
        halves, nodes = kind.halves, kind.nodes.bit_count()
        most, shared = halves.most(job), halves.most_shared(job)
        spread = -(-job.processes // shared) if shared else 0
        if spread > nodes:
            spread = 0
        whole = -(-job.processes // most) if most and (self._compact or not spread) else 0
        if whole > nodes or whole == spread:  # a small job leaves half of its node open in either case
            whole = 0
        return _Home(self._sides[halves], kind.nodes, whole, spread) if whole or spread else None

    def _kinds_of(self, view: api.View) -> Kinds:
        if self._kinds is None or self._kinds.machine is not view.machine:
            self._kinds = Kinds(view.machine)
            self._homes.clear()
            self._sides = {kind.halves: Sides(kind) for kind in self._kinds.all}
        return self._kinds

    def _neighbours(
        self, job: api.JobSpec, there: OpenNodes, home: _Home, work: float, model: api.PairModel | None
    ) -> list[_Neighbour]:
        """Return the tenants beside which the job may run, those first with which most work is done."""
        halves, spread = home.sides.halves, home.spread
        found = []
        for tenant in there.tenants:
            if not halves.both(job, halves.most_shared(job), tenant.job, tenant.per_node):
                continue
            mine, its = self._both(job, tenant.job, model)
            if max(mine, its) > self._most:
                continue
            loss = tenant.job.processes / halves.whole * (1.0 / tenant.ratio - 1.0 / max(tenant.ratio, its))
            value = work / spread / mine - loss / min(tenant.open, spread)
            found.append(_Neighbour(tenant, mine, loss, value))
        found.sort(key=lambda neighbour: neighbour.value, reverse=True)  # stable: by job among equals
        return found

    def _both(self, job: api.JobSpec, other: api.JobSpec, model: api.PairModel | None) -> tuple[float, float]:
        """Return the ratios of two jobs beside each other."""
        if model is not self._model or len(self._ratios) > 50_000:  # all pairs of the kinds compared by default, twice
            self._ratios, self._model = {}, model
        known = self._ratios.get((job.id, other.id))
        if known is None or known[0] is not job or known[1] is not other:
            ratios = ratio_beside(job, other, model), ratio_beside(other, job, model)
            known = self._ratios[job.id, other.id] = (job, other, ratios)
        return known[2]

    def _with_partner(self, job: api.JobSpec, partner: api.JobSpec, spread: int, view: api.View) -> Place:
        """Return the job on empty nodes, where a partner will be; the two are worth what they do together."""
        home = self._home(job, view)
        assert home is not None
        gain = self._work_of_two(job, partner, home.sides.halves, view.pairs)
        return Place(job, gain / 2, ratio_alone(job, view.pairs), (), spread, compact=False)

    def _may_share(self, job: api.JobSpec, home: _Home, other: api.JobSpec, view: api.View) -> bool:
        """Tell whether two jobs may have the same nodes, with enough on them of what is counted."""
        its = self._home(other, view)
        nodes = api.NodeSet(0 if its is None else home.nodes & its.nodes)
        if not (nodes and job.resources and other.resources):
            return bool(nodes)
        machine = view.machine
        both = job._replace(resources=api.both_amounts(job.resources, other.resources), licences=())
        return bool(api.Counts(machine).open_to(both, nodes))

    def _work_of_two(
        self, job: api.JobSpec, other: api.JobSpec, halves: NodeHalves, model: api.PairModel | None
    ) -> float:
        """Return the work that two jobs do on a node together, in nodes; 0 if they may not be beside each other."""
        mine, its = self._both(job, other, model)
        one, two = halves.most_shared(job), halves.most_shared(other)
        if max(mine, its) > self._most or not (one and two and halves.both(job, one, other, two)):
            return 0.0
        of_job = job.processes / -(-job.processes // one) / mine
        of_other = other.processes / -(-other.processes // two) / its
        return (of_job + of_other) / halves.whole


def _beside(
    job: api.JobSpec, neighbours: list[_Neighbour], spread: int, work: float, model: api.PairModel | None
) -> Place:
    """Return the place beside the best neighbours, and on empty nodes for the rest."""
    ratio, loss, missing = ratio_alone(job, model), 0.0, spread
    taken = []
    for each in neighbours:
        if not missing:
            break
        count = min(missing, each.tenant.open)
        taken.append((each.tenant, count))
        missing -= count
        ratio = max(ratio, each.ratio)
        loss += each.loss
    gain = (work / ratio - loss) / (spread - missing + missing * _ON_EMPTY)
    return Place(job, gain, ratio, tuple(taken), missing, compact=False)


def _spread_runs(place: Place, sides: Sides, empty: api.NodeSet) -> tuple[api.Run, ...]:
    """Return the job on the halves of its place."""
    job = place.job
    per_node = sides.halves.most_shared(job)
    left = job.processes
    placed: list[tuple[int, api.ThreadMask, int]] = []
    groups: list[tuple[api.NodeSet, bool]] = []  # nodes, and whether their upper half is taken
    for tenant, count in place.taken:
        lower = api.lowest_threads(tenant.lower, min(count, tenant.lower.bit_count()))
        groups.append((lower, False))
        groups.append((api.lowest_threads(tenant.upper, count - lower.bit_count()), True))
    groups.append((api.lowest_threads(empty, place.empty), False))
    for nodes, upper in groups:
        for node in api.bits_of(nodes):
            count = min(left, per_node)
            placed.append((node, sides.mask(count, upper=upper), count))
            left -= count
    return api.runs_from(placed)


# Backfilling by gain: of the jobs that may start, the one whose place adds most work goes first.
#
# One job has a reservation: the first of the queue, when it has no place. Pending jobs of equal size that follow each other in the
# queue compete: the best gain wins, whoever came first. Smaller or larger ones further back come after them, and must leave the
# reservation alone. So with `widest` the large jobs are placed first, each with its best neighbours, and smaller ones fill what is
# left; and with equal jobs the whole queue is searched.


class _Head:
    """The placer of the reserved job: jobs that start in this pass count as its neighbours."""

    def __init__(self, placement: Halves) -> None:
        self.planned: list[api.Offer] = []
        self._placement = placement

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Offer | None:
        """Return the job's place in ``snapshot``."""
        return self._placement.offer_among(job, snapshot, self.planned)


class _Candidate(NamedTuple):
    """A pending job that has a place now."""

    rank: int  # 0: it may start whatever that does to the queue's head
    place: Place


class ByGain(api.Backfill):
    """One reservation, for the head of the queue; jobs that add most work first.

    ``lookahead``: kinds of pending jobs that are compared, at most. Jobs of one name and size, with equal estimates, are of one kind.
    """

    needs: ClassVar[api.Needs] = frozenset({api.HALVES})
    provides: ClassVar[api.Needs] = frozenset({api.COMPANY})

    def __init__(self, *, lookahead: int = 100) -> None:
        self._lookahead = lookahead

    def decide(self, context: api.Context) -> Iterator[api.Action]:
        """Yield starts, the best first, until no pending job may start."""
        while context.view.queued and context.view.free_threads and (yield from self._pass(context)):
            pass

    def _pass(self, context: api.Context) -> Generator[api.Action, None, bool]:
        """Yield the start of one job; tell whether there was one."""
        view = context.view
        placement = cast(Halves, context.placement)  # it provides HALVES: the composition requires that
        queue = context.order.arrange(view.queue, view)
        now = api.snapshot_now(view)
        candidates = self._candidates(queue, now, placement)
        first = [each for each in candidates if not each.rank]
        if first or not candidates:
            refused = next((job for job in queue if placement.never(job, view)), None) if not candidates else None
            if refused is not None:
                yield rejection(refused, view)
                return True
            return (yield from self._start(first, api.UNRESERVED, now, context))
        head = queue[0]
        if placement.never(head, view):
            yield rejection(head, view)
            return True
        placer = _Head(placement)
        offer = placement.earliest(head, view)
        if offer is None:  # nodes are out of service: nothing can be reserved
            return (yield from self._start(candidates, api.UNRESERVED, now, context))
        view.tell("reserve", job=head.id, shadow_us=view.wall_us(offer.start_us))
        reservation = PlacedReservation(view, offer, placer, shortens=True)
        return (yield from self._start(candidates, reservation, now, context, placer))

    def _start(
        self,
        candidates: list[_Candidate],
        gate: api.Gate,
        now: api.Snapshot,
        context: api.Context,
        placer: _Head | None = None,
    ) -> Generator[api.Action, None, bool]:
        """Yield the start of the first candidate that the gate admits; tell whether there was one."""
        view = context.view
        placement = cast(Halves, context.placement)
        for candidate in sorted(candidates, key=_order):
            place = candidate.place
            offer = placement.write_out(place, placement.open_to(place.job, now), now)
            if placer is not None:
                placer.planned = [offer]
            view.explain(place.job.id, gain=place.gain, compared=len(candidates))
            seat = context.matching.seat(offer, context.over(api.PendingJobs([place.job])), gate)
            if seat is not None:
                yield from take_seat(seat, "backfill" if candidate.rank else "order", view)
                return True
        return False

    def _candidates(self, queue: list[api.JobSpec], now: api.Snapshot, placement: Halves) -> list[_Candidate]:
        """Return the first job of each kind that has a place now."""
        view = now.view
        kinds: dict[object, tuple[int, api.JobSpec]] = {}
        others: dict[object, api.JobSpec] = {}  # a second one of the kind: its partner may be of its own kind
        rank = 0
        before = queue[0]
        for job in queue:
            rank += job.processes != before.processes
            before = job
            kind = _kind(job)
            if kind not in kinds:
                if len(kinds) == self._lookahead or not view.work.pay(api.prices.CANDIDATE):
                    break
                kinds[kind] = (rank, job)
            else:
                others.setdefault(kind, job)
        pending = [*[job for _, job in kinds.values()], *others.values()]
        found = []
        for rank, job in kinds.values():
            there = placement.open_to(job, now)
            empty = there.empty.bit_count()
            partner = placement.partner(job, pending, view) if placement.may_spread_on(job, empty, view) else None
            place = placement.best(job, there, view, partner)
            if place is not None:
                found.append(_Candidate(rank, place))
        return found


def _order(candidate: _Candidate) -> tuple[int, float]:
    return candidate.rank, -candidate.place.gain


def _kind(job: api.JobSpec) -> object:
    """Return what jobs of one kind have in common; a job without a name is of its own kind."""
    return job._replace(id=0, submit_us=0) if job.name else job.id
