"""The matching of symbiosis: a pending job as the guest of several running jobs, or beside one that starts with it.

A guest's *gain* is the work that the machine does more: its processes over its own slowdown, less what its hosts do less. Jobs
share nodes where that is a fair part of what the guest would do alone, or where the guest is brief; and no host pays more than its
budget.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from math import inf
from typing import ClassVar, Final, NamedTuple

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.lomarc.queue_table import is_willing, queue_table
from cosched_plugin.policies.symbiosis.hosts import Host, OpenHosts, Search
from cosched_plugin.policies.symbiosis.slowdowns import Slowdowns, of_two

_LEFT: Final = 64  # jobs that have left may be remembered so far


class _Terms(NamedTuple):
    """On which terms jobs share nodes."""

    min_gain: float
    budget: float
    brief: float = -inf  # what a brief guest must gain more than, in processes


class _Refused(NamedTuple):
    """Jobs that are not guests of any hosts."""

    jobs: set[int]
    gate: api.Gate  # by what it lets be held
    at: object  # the key of the view


class Guests(api.Matching):
    """Pending jobs as guests of running ones, and in pairs that start together.

    ``min_gain``: the least gain of a guest, as a part of its processes. ``budget``: what its neighbours may cost a job, as a part of
    its estimate. ``brief_s``: jobs up to this estimate may be guests whatever they gain. ``hosts``: of a guest, at most (0: any
    number). ``empty_nodes``: a guest may take empty nodes besides. ``pairs``: a job that starts may take one with it, the first in
    queue order that gains enough. ``inside``: a guest's limit must end before those of its hosts, so that no reservation which counts
    on these is later for it. Where jobs share all of their nodes or none, as on GPUs, a guest needs half the least gain, a brief one
    some gain, and the budget is four times as large.
    """

    needs: ClassVar[api.Needs] = frozenset({api.WHOLE_NODES, api.COMPANY, api.PAIR_BELIEF})
    provides: ClassVar[api.Needs] = frozenset({api.PAYMENTS})
    protocol_features: ClassVar[api.Needs] = api.PAIRING

    def __init__(
        self,
        *,
        min_gain: float = 0.5,
        budget: float = 0.25,
        brief_s: float = 600.0,
        hosts: int = 0,
        empty_nodes: bool = True,
        pairs: bool = True,
        inside: bool = False,
    ) -> None:
        # Measured pairs on GPUs slow each other down by 2.7 in the median (V100), by the larger factor of the two, so that a budget for
        # pairs of hyperthreads refuses most that gain; and few pairs gain on some (K80: 16 %), so that brief guests without gain cost
        # more than their wait. Factors were chosen on seeds 1 to 3 of docs/results/gpus.md.
        self._by_device = {False: _Terms(min_gain, budget), True: _Terms(min_gain / 2, budget * 4, 0.0)}
        self._brief_us = round(brief_s * api.SECOND_US)
        self._most = hosts
        self._empty_nodes = empty_nodes
        self._pairs = pairs
        self._inside = inside
        self._tenancies = api.Tenancies()
        # Caches: slowdowns of pairs; the hosts at an instant, of jobs that may have any nodes (None) or some; the last candidates.
        self._slowdowns = Slowdowns()
        self._hosts: dict[api.NodeSet | None, OpenHosts] = {}
        self._hosts_at: object = None  # the key of the view
        self._candidates: frozenset[int] = frozenset()
        self._asked: tuple[api.Gate, int] = (api.UNRESERVED, -1)  # for which gate these were sought, and when
        self._refused = _Refused(set(), api.UNRESERVED, None)
        # By running job, what its other threads follow from, and these.
        self._others: dict[int, tuple[api.JobSpec, Sequence[api.Run], api.PairModel | None, api.Layers | None]] = {}

    def prepare(self, context: api.Context) -> Iterator[api.Action]:
        """Yield new expected ends and notes of jobs whose neighbours have changed."""
        self._slowdowns.begin(context.view)
        return self._tenancies.keep_up(context.view)

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return the offer, with the first pending job that may start beside it; others may join later."""
        view, pending = context.view, context.pending
        crowded = sum([job.processes for job in pending.jobs]) > view.free_threads  # or each gets nodes of its own
        if self._pairs and crowded and self._may_share(offer.job):
            pair = self._pair(offer, context, gate)
            if pair is not None:
                _explain(pair, gate)
                return pair
        return offer if gate.admit(offer) else None

    def may_host(self, job: api.JobSpec) -> bool:
        """Tell whether other jobs may join ``job``."""
        return self._may_share(job)

    def has_hosts(self, view: api.View) -> bool:
        """Tell whether there are running jobs with threads open beside them."""
        return view.pairs is not None and bool(self._open_hosts(view).hosts)

    def join_candidates(self, context: api.Context, gate: api.Gatekeeper = api.UNRESERVED) -> Collection[int]:
        """Return the pending jobs that would gain enough as guests of the cheapest hosts, or are brief."""
        view, pending, model = context.view, context.pending, context.view.pairs
        self._candidates, self._asked = frozenset(), (gate, view.now_us)
        hosts = self._open_hosts(view)
        jobs, count = pending.jobs, len(hosts.hosts)
        if model is None or not count or not jobs:
            return ()
        if not view.work.pay(api.prices.HOSTS, len(jobs), len(jobs) * count):
            return ()
        rows = queue_table(pending, self._slowdowns.table).rows
        slow = self._slowdowns.both(hosts.jobs, rows, model)
        sizes, estimates_us = self._slowdowns.table.sizes_and_estimates_us(rows)
        free = self._free_to(jobs, view)
        known = slow < inf
        places = ((known * hosts.rooms).sum(axis=0) + free >= sizes).nonzero()[0]
        places = places[known[:, places].any(axis=0)]
        if not len(places):
            return ()
        sizes, slow = sizes[places], slow[:, places]
        # Of a model by which two jobs slow each other down by unlike factors, the larger one says too little of what the machine does.
        own, theirs = self._slowdowns.each(hosts.jobs, rows[places], view)
        gains = self._gains(hosts, free[places], np.where(slow < inf, own, inf), theirs, sizes)
        enough = self._enough(gains, sizes, estimates_us[places], view)
        self._candidates = frozenset([jobs[place].id for place in places[enough].tolist()])
        return self._candidates

    def join(self, job: api.JobSpec, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return a seat beside the cheapest hosts, if that gains enough and is admitted."""
        view = context.view
        refused = self._refused
        if job.id in refused.jobs and refused.gate is gate and refused.at == view.key:
            return None
        if view.pairs is None or not self._may_share(job):
            return None
        hosts = self._open_hosts(view, view.open_nodes(job))
        if not hosts.hosts or not (view.work.limited or self._has_room(job, hosts, view)):
            return None
        # Each host is asked whether it may be held past its own end, by one thread at first, as only some of its nodes may be;
        # where the gate then refuses the seat, by all of them.
        for one in (True, False):
            search = self._search(job, hosts, gate, context, one=one)
            if search.fine[search.column[job.id]]:
                seat = self._seat_among(job, search, hosts, context)
                if seat is not None and gate.admit(seat):
                    _explain(seat, gate)
                    return seat
            if view.work.limited or self._most:
                continue
            if gate is api.UNRESERVED or search.has_too_few(job, hosts):
                break  # no other hosts may be held by all of their threads
        return None

    def _has_room(self, job: api.JobSpec, hosts: OpenHosts, view: api.View) -> bool:
        """Quick check: tell whether there are threads enough beside all hosts, or beside those whose limits end late enough."""
        wanted = job.processes - (view.free_threads if self._empty_nodes else 0)
        if not self._inside or wanted > hosts.room or job.id in self._candidates:
            return wanted <= hosts.room
        return bool(hosts.rooms[hosts.lasts_us >= view.now_us + job.longest_us].sum() >= wanted)

    # Two pending jobs that start together.

    def _pair(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.GroupSeat | None:
        """Return the first pending job in queue order that gains enough beside ``offer``, with it; None if there is none."""
        view, host, pending = context.view, offer.job, context.pending
        model = view.pairs
        if model is None or not view.work.pay(api.prices.PARTNERS, len(pending.jobs)):
            return None
        table = queue_table(pending, self._slowdowns.table)
        sizes, _ = self._slowdowns.table.sizes_and_estimates_us(table.rows)
        slow = np.maximum(self._slowdowns.both([host], table.rows, model)[0], 1.0)
        # A quick check: as if only one of the two, whichever is cheaper, were slowed down.
        gains = np.maximum(sizes / slow, sizes - host.processes * (1.0 - 1.0 / slow))
        fine = (gains >= self._terms(view).min_gain * sizes) & (sizes <= host.processes) & (slow < inf)
        for place in fine.nonzero()[0].tolist():
            guest = table.jobs[place]
            if guest is host or not self._may_share(guest):
                continue
            pair = self._pair_with(guest, offer, context)
            if pair is not None and gate.admit(pair):
                return pair
        return None

    def _pair_with(self, guest: api.JobSpec, offer: api.Offer, context: api.Context) -> api.GroupSeat | None:
        """Return both jobs together; None where that gains too little, is too dear for one of them, or has no place."""
        view, host = context.view, offer.job
        host_slow, guest_slow = of_two(host, guest, view)
        lost = host.processes * (1.0 - 1.0 / host_slow)
        if not guest.processes / guest_slow - lost >= self._terms(view).min_gain * guest.processes:
            return None
        runs = api.beside(host, offer.runs, guest, view)
        if runs is None:
            return None
        alone = context.placement.offer_on(guest, runs, api.snapshot_now(view))
        ends = api.forecast(
            0,
            {
                host.id: api.Sharer(offer.run_us, {guest.id: host_slow}),
                guest.id: api.Sharer(alone.run_us, {host.id: guest_slow}),
            },
        )
        both = []
        for each, other, ratio in ((offer, guest, host_slow), (alone, host, guest_slow)):
            span_us = ends[each.job.id]
            if span_us - each.run_us > self._terms(view).budget * each.job.estimate_us:
                return None
            both.append(api.Newcomer(api.slowed(each, span_us), api.Tenancy((other.id,), 0, each.run_us, ratio, 0)))
        return api.GroupSeat(tuple(both), (), view)

    # A pending job beside running ones.

    def _terms(self, view: api.View) -> _Terms:
        return self._by_device[bool(view.machine.same_nodes)]

    def _enough(self, gains: api.Floats, sizes: api.Ints, estimates_us: api.Ints, view: api.View) -> api.Bools:
        """Tell which guests gain enough, or are brief."""
        terms = self._terms(view)
        enough: api.Bools = (gains >= terms.min_gain * sizes) | (
            (estimates_us <= self._brief_us) & (gains > terms.brief)
        )
        return enough

    def _free_to(self, jobs: Sequence[api.JobSpec], view: api.View) -> api.Ints:
        """Return the threads of empty nodes that each job may have besides: none where it shares all of its nodes, or none."""
        free = view.free_threads if self._empty_nodes else 0
        if not free or not view.machine.same_nodes:
            return np.full(len(jobs), free, dtype=np.int64)
        return np.array([0 if view.machine.shares_sets(job) else free for job in jobs], dtype=np.int64)

    def _gains(
        self, hosts: OpenHosts, free: api.Ints, own: api.Floats, theirs: api.Floats, sizes: api.Ints
    ) -> api.Floats:
        """Return the gain of each candidate beside its cheapest hosts, by its own slowdowns [host, candidate] and theirs."""
        known = own < inf
        own, theirs = np.where(known, own, 1.0), np.where(known, theirs, 1.0)
        losses = np.where(known, hosts.losses(np.maximum(hosts.ratios, theirs)), inf)
        costs = losses / np.minimum(hosts.rooms, sizes) + (1.0 - 1.0 / own)
        return hosts.cheapest(costs, losses, own, sizes, free).gains

    def _search(self, job: api.JobSpec, hosts: OpenHosts, gate: api.Gate, context: api.Context, *, one: bool) -> Search:
        """Return the cheapest hosts of a job, and perhaps of others that the same gate will be asked for: many cost little more."""
        last = hosts.searches.get(one)
        known = last is not None and last.gate == gate
        if last is not None and known and job.id in last.column:
            return last
        if known or job.id not in self._candidates or not self._asks_many(gate, context.view):
            return self._searched([job], hosts, gate, context, one=one)
        asks, view = _limits_of(job), context.view
        waiting = [other for other in context.pending.jobs if other.id in self._candidates and view.pending(other.id)]
        others = [other for other in waiting if _limits_of(other) == asks]
        search = self._searched(others, hosts, gate, context, one=one)
        hosts.searches[one] = search
        self._refuse(hosts, gate, context.view)
        return search

    def _asks_many(self, gate: api.Gate, view: api.View) -> bool:
        """Tell whether a gate will be asked for many jobs, and not for the head of the queue alone, and has a quick check of them."""
        backfills = gate.reserved is not None or (gate is self._asked[0] and view.now_us == self._asked[1])
        return backfills and hasattr(gate, "may_hold_each") and not view.work.limited

    def _refuse(self, hosts: OpenHosts, gate: api.Gate, view: api.View) -> None:
        """Remember the jobs for which a gate lets too few hosts be held, or hosts of too little gain, until something changes."""
        if self._most:
            return
        first, second = hosts.searches[True], hosts.searches.get(False)
        refused = first.unfit()
        if second is not None and second.gate == gate:
            refused &= second.unfit()
        elif gate is not api.UNRESERVED:
            refused &= first.with_too_few(hosts)
        if self._refused.gate is gate and self._refused.at == view.key:  # of jobs that may have other nodes
            refused |= self._refused.jobs
        self._refused = _Refused(refused, gate, view.key)

    def _searched(
        self, jobs: list[api.JobSpec], hosts: OpenHosts, gate: api.Gate, context: api.Context, *, one: bool
    ) -> Search:
        view, now_us = context.view, context.view.now_us
        rows = self._slowdowns.table.rows(jobs)
        sizes, estimates_us = self._slowdowns.table.sizes_and_estimates_us(rows)
        own, theirs = self._slowdowns.each(hosts.jobs, rows, view)
        may = own < inf
        longest_us = np.array([job.longest_us for job in jobs], dtype=np.int64)
        if self._inside:
            may &= now_us + longest_us <= hosts.lasts_us  # beside a host it takes as long, at least
        if view.work.limited:
            may &= np.array([[pays and view.work.pay(api.prices.RANKED_PAIR)] for pays in may[:, 0].tolist()])
        own = np.where(may, own, 1.0)
        if self._inside:
            may &= now_us + np.rint(longest_us * own) <= hosts.lasts_us
        slower = np.maximum(hosts.ratios, np.where(may, theirs, 1.0))
        spans_us = estimates_us * own
        later_us = hosts.later_us(slower, spans_us)
        mine = np.minimum(hosts.rooms, sizes)
        may &= _may_hold(gate, hosts.ends_us, now_us + np.rint(spans_us), 1 if one else mine)
        may &= _may_hold(gate, hosts.ends_us, hosts.ends_us + np.rint(later_us), 1 if one else hosts.sizes)
        may &= self._affordable(hosts, later_us, context)
        free = self._free_to(jobs, view)
        if free.any():
            free *= _may_hold(gate, now_us, now_us + estimates_us, 1 if one else view.free_threads)
        losses = np.where(may, hosts.losses(slower), inf)
        ranked = hosts.cheapest(losses / mine + 1.0 - 1.0 / own, losses, own, sizes, free)
        fine = self._enough(ranked.gains, sizes, estimates_us, view)
        if self._most:
            fine &= ranked.needed < self._most
        column = {job.id: place for place, job in enumerate(jobs)}
        return Search(gate, column, ranked, fine.tolist(), (free > 0).tolist())

    def _affordable(self, hosts: OpenHosts, later_us: api.Floats, context: api.Context) -> api.Bools:
        """Tell whether hosts have the budget for guests that cost them so much, or are that far ahead by the ledger."""
        may: api.Bools = (later_us == 0.0) | (
            hosts.lost_us + later_us <= self._terms(context.view).budget * hosts.estimates_us
        )
        ledger = context.ledger
        if ledger is not None and not may.all():
            spare_us = [ledger.spare_us(host.running, context.view) for host in hosts.hosts]
            may |= later_us <= np.array(spare_us, dtype=np.int64)[:, None]
        return may

    def _seat_among(
        self, job: api.JobSpec, search: Search, hosts: OpenHosts, context: api.Context
    ) -> api.GroupSeat | None:
        """Return the job on the threads that its hosts leave open; None where memory, or the layout, does not allow it."""
        view, chosen = context.view, search.hosts_of(job, hosts)
        empty = search.empty[search.column[job.id]]
        open_, *more = [*([view.free] if empty else []), *[host.open for host in chosen]]
        for layers in more:
            open_ = api.union(open_, layers)
        runs = api.first_fit(job, open_, view.machine, view.free_memory_mb, view.open_nodes(job))
        if runs is None:
            return None
        nodes = api.nodes_of(runs)
        there = [host.running for host in chosen if nodes & view.nodes_by_job[host.running.job.id]]
        if not all(view.machine.may_meet(nodes, view.nodes_by_job[host.job.id]) for host in there):
            return None
        return api.seat_among(job, runs, there, context)

    # Who may share.

    def _open_hosts(self, view: api.View, nodes: api.NodeSet | None = None) -> OpenHosts:
        """Return the running jobs with threads open beside them, on some nodes (None: all)."""
        if self._hosts_at != view.key:
            self._hosts = {None: OpenHosts(self._find_hosts(view), view)}
            self._hosts_at = view.key
        hosts = self._hosts.get(nodes)
        if hosts is None and nodes is not None:
            there = [narrow for host in self._hosts[None].hosts if (narrow := host.on(nodes)).room]
            hosts = self._hosts[nodes] = OpenHosts(there, view)
        assert hosts is not None
        return hosts

    def _find_hosts(self, view: api.View) -> list[Host]:
        once = twice = 0
        nodes_by_job, free = view.nodes_by_job, view.all_free
        for nodes in nodes_by_job.values():
            twice |= once & nodes
            once |= nodes
        alone = once & ~twice  # a node has one guest
        if len(self._others) > len(view.running) + _LEFT:
            self._others = {job_id: known for job_id, known in self._others.items() if job_id in view.running}
        found = []
        for job_id, running in view.running.items():
            mine = nodes_by_job[job_id] & alone
            if not mine or running.suspended_us is not None or running.leaving or running.slot:
                continue
            others = self._others_of(running, view)
            if others is None:
                continue
            open_ = api.common(api.on_nodes(others, mine), free)
            room = api.size(open_)
            if room:
                found.append(Host(running, api.tenancy_of(running, view), open_, room))
        found.sort(key=lambda host: (host.running.start_us, host.running.job.id))
        return found

    def _others_of(self, running: api.Running, view: api.View) -> api.Layers | None:
        """Return the other hardware threads of a job's cores; None where it shares no nodes, or leaves none of them."""
        job, runs, model = running.job, running.runs, self._slowdowns.table.model
        known = self._others.get(job.id)
        if known is None or known[0] is not job or known[1] is not runs or known[2] is not model:
            others = api.other_threads(running.layers, view.machine) if self._may_share(job) else None
            known = self._others[job.id] = (job, runs, model, others)
        return known[3]

    def _may_share(self, job: api.JobSpec) -> bool:
        return is_willing(job, self._slowdowns.table.model)


def _limits_of(job: api.JobSpec) -> tuple[object, ...]:
    """Return what decides which nodes a job may have."""
    return job.eligible, job.resources, job.licences


def _may_hold(
    gate: api.Gate, since_us: api.Ints | int, until_us: api.Floats | api.Ints, threads: api.Ints | int
) -> api.Bools:
    """Return what a gate says of each of many, one by one where it has no quick check of them."""
    each = getattr(gate, "may_hold_each", None)
    if each is None:
        every = np.broadcast(since_us, until_us, threads)
        found = [gate.may_hold(int(since), int(until), int(wanted)) for since, until, wanted in every]
        return np.array(found, dtype=np.bool_).reshape(every.shape)
    may: api.Bools = each(since_us, until_us, threads)
    return may


def _explain(seat: api.GroupSeat, gate: api.Gate) -> None:
    """Record for a trace who was asked to pay what, and whose reservation is kept."""
    for own in seat.newcomers:
        facts = {} if gate.reserved is None else {"reserved": gate.reserved}
        seat.view.explain(own.offer.job.id, partial(_facts, own, seat), slowdown=own.tenancy.ratio, **facts)


def _facts(own: api.Newcomer, seat: api.GroupSeat) -> dict[str, object]:
    hosts = [(host.running, host.tenancy, host.end_us) for host in seat.hosts]
    beside = [(job.job.id, its.ratio, end_us - job.end_us) for job, its, end_us in hosts if its is not None]
    others = [other for other in seat.newcomers if other is not own]
    beside += [(each.offer.job.id, each.tenancy.ratio, each.offer.run_us - each.tenancy.left_us) for each in others]
    return {"beside": [{"job": job, "slowdown": ratio, "later_us": later_us} for job, ratio, later_us in beside]}
