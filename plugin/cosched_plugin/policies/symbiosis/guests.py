"""The matching of symbiosis: a pending job as the guest of several running jobs, or beside one that starts with it.

A guest's *gain* is the work that the machine does more: its processes over its own slowdown, less what its hosts do less. Jobs
share nodes where that is a fair part of what the guest would do alone, or where the guest is brief; and no host pays more than its
budget.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.lomarc.queue_table import JobTable, QueueTable, queue_table


class Host(NamedTuple):
    """A running job with hardware threads open beside it."""

    running: api.Running
    tenancy: api.Tenancy  # at present
    open: api.Layers  # the free threads of its cores
    room: int  # how many these are

    @property
    def size(self) -> int:
        """Return its processes."""
        return self.running.job.processes

    def on(self, nodes: api.NodeSet) -> Host:
        """Return the host as a job sees it that may have these nodes only."""
        open_ = tuple([api.NodeSet(layer & nodes) for layer in self.open])
        return Host(self.running, self.tenancy, open_, api.size(open_))


class _Choice(NamedTuple):
    """Enough hosts for a guest, the cheapest ones."""

    hosts: list[Host]
    empty: bool  # threads of empty nodes are wanted besides


class Guests(api.Matching):
    """Pending jobs as guests of running ones, and in pairs that start together.

    ``min_gain``: the least gain of a guest, as a part of its processes. ``budget``: what its neighbours may cost a job, as a part of
    its estimate. ``brief_s``: jobs up to this estimate may be guests whatever they gain. ``hosts``: of a guest, at most (0: any
    number). ``empty_nodes``: a guest may take empty nodes besides. ``pairs``: a job that starts may take one with it, the first in
    queue order that gains enough. ``inside``: a guest's limit must end before those of its hosts, so that no reservation which counts
    on these is later for it.
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
        self._min_gain = min_gain
        self._budget = budget
        self._brief_us = round(brief_s * api.SECOND_US)
        self._most = hosts
        self._empty_nodes = empty_nodes
        self._pairs = pairs
        self._inside = inside
        self._tenancies = api.Tenancies()
        self._job_table = JobTable()
        # Caches: by running job, its slowdown with each job of the table (inf: they may not share); and the hosts at an instant.
        self._slow: dict[int, api.Floats] = {}
        self._renewals = 0
        self._interventions = 0
        self._hosts: list[Host] = []
        self._hosts_at: object = None  # the key of the view

    def prepare(self, context: api.Context) -> Iterator[api.Action]:
        """Yield new expected ends and notes of jobs whose neighbours have changed."""
        view = context.view
        if self._interventions != view.interventions:  # a job may have another description
            self._interventions = view.interventions
            self._job_table = JobTable()
            self._slow.clear()
        self._job_table.renew(view.queued, view.pairs)
        if self._renewals != self._job_table.renewals:
            self._renewals = self._job_table.renewals
            self._slow.clear()
        return self._tenancies.keep_up(view)

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
        return view.pairs is not None and bool(self._open_hosts(view))

    def join_candidates(self, context: api.Context, gate: api.Gatekeeper = api.UNRESERVED) -> Collection[int]:
        """Return the pending jobs that would gain enough as guests of the cheapest hosts, or are brief."""
        view, pending = context.view, context.pending
        hosts = self._open_hosts(view)
        jobs = pending.jobs
        if not hosts or not jobs or not view.work.pay(api.prices.HOSTS, len(jobs), len(jobs) * len(hosts)):
            return ()
        table = queue_table(pending, self._job_table)
        slow = self._slowdowns(hosts, table, view)
        sizes, estimates_us = self._job_table.sizes_and_estimates_us(table.rows)
        rooms = np.array([host.room for host in hosts], dtype=np.int64)
        free = view.free_threads if self._empty_nodes else 0
        known = slow < inf
        places = ((known * rooms[:, None]).sum(axis=0) + free >= sizes).nonzero()[0]
        places = places[known[:, places].any(axis=0)]
        if not len(places):
            return ()
        gains = self._gains(hosts, rooms, free, slow[:, places], sizes[places])
        enough = (gains >= self._min_gain * sizes[places]) | ((estimates_us[places] <= self._brief_us) & (gains > -inf))
        return {jobs[place].id for place in places[enough].tolist()}

    def join(self, job: api.JobSpec, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return a seat beside the cheapest hosts, if that gains enough and is admitted."""
        view = context.view
        if view.pairs is None or not self._may_share(job):
            return None
        hosts = self._open_hosts(view)
        nodes = view.open_nodes(job)
        if nodes is not None:
            hosts = [narrow for host in hosts if (narrow := host.on(nodes)).room]
        # Each host is asked whether it may be held past its own end, by one thread at first, as only some of its nodes may be;
        # where the gate then refuses the seat, by all of them.
        for one in (True, False):
            choice = self._cheapest(job, hosts, gate, context, one=one)
            seat = None if choice is None else self._seat_among(job, choice, context)
            if seat is not None and gate.admit(seat):
                _explain(seat, gate)
                return seat
        return None

    # Two pending jobs that start together.

    def _pair(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.GroupSeat | None:
        """Return the first pending job in queue order that gains enough beside ``offer``, with it; None if there is none."""
        view, host, pending = context.view, offer.job, context.pending
        model = view.pairs
        if model is None or not view.work.pay(api.prices.PARTNERS, len(pending.jobs)):
            return None
        table = queue_table(pending, self._job_table)
        jobs = table.columns
        slow = np.maximum(model.beside(host, jobs).slowdowns, 1.0)
        # A quick check: as if only one of the two, whichever is cheaper, were slowed down.
        gains = np.maximum(jobs.sizes / slow, jobs.sizes - host.processes * (1.0 - 1.0 / slow))
        fine = (gains >= self._min_gain * jobs.sizes) & (jobs.sizes <= host.processes) & (slow < inf)
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
        host_slow, guest_slow = self._slowdowns_of(host, guest, view)
        lost = host.processes * (1.0 - 1.0 / host_slow)
        if not guest.processes / guest_slow - lost >= self._min_gain * guest.processes:
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
            if span_us - each.run_us > self._budget * each.job.estimate_us:
                return None
            both.append(api.Newcomer(api.slowed(each, span_us), api.Tenancy((other.id,), 0, each.run_us, ratio, 0)))
        return api.GroupSeat(tuple(both), (), view)

    # A pending job beside running ones.

    def _gains(
        self, hosts: Sequence[Host], rooms: api.Ints, free: int, slow: api.Floats, sizes: api.Ints
    ) -> api.Floats:
        """Return the gain of each candidate beside its cheapest hosts; ``slow`` [host, candidate]: the larger slowdown of the two."""
        ratios = np.array([host.tenancy.ratio for host in hosts])[:, None]
        widths = np.array([host.size for host in hosts], dtype=np.float64)[:, None]
        known = slow < inf
        slower = np.where(known, slow, 1.0)
        losses = np.where(known, widths / ratios - widths / np.maximum(ratios, slower), inf)
        costs = np.where(known, losses / np.minimum(rooms[:, None], sizes) + (1.0 - 1.0 / slower), inf)
        order = np.argsort(costs, axis=0, kind="stable")
        ordered = np.take_along_axis(slow, order, 0)
        room = np.where(ordered < inf, rooms[order], 0).cumsum(axis=0) + free
        needed = (room < sizes).sum(axis=0)  # hosts before the last one
        last = np.minimum(needed, len(hosts) - 1)
        columns = np.arange(slow.shape[1])
        worst = np.maximum.accumulate(ordered, axis=0)[last, columns]
        lost = np.take_along_axis(losses, order, 0).cumsum(axis=0)[last, columns]
        gains: api.Floats = np.where((needed < len(hosts)) & (worst < inf), sizes / worst - lost, -inf)
        return gains

    def _cheapest(
        self, job: api.JobSpec, hosts: Sequence[Host], gate: api.Gate, context: api.Context, *, one: bool
    ) -> _Choice | None:
        """Return enough hosts, the cheapest ones; None where there are too few, or the gain is too small."""
        view = context.view
        now_us = view.now_us
        ranked: list[tuple[float, int, int, Host, float, float]] = []
        for host in hosts:
            last_us = _last_us(host.running, view) if self._inside else inf
            if now_us + job.longest_us > last_us:  # beside a host it takes as long, at least
                continue
            own, theirs = self._slowdowns_of(job, host.running.job, view)
            if own == inf or not view.work.pay(api.prices.RANKED_PAIR):
                continue
            if now_us + round(job.longest_us * own) > last_us:
                continue
            ratio, span_us = max(host.tenancy.ratio, theirs), job.estimate_us * own
            later_us = _later_us(host.tenancy, ratio, span_us)
            end_us = view.expected_end(host.running)
            mine, whole = (1, 1) if one else (min(job.processes, host.room), host.size)
            if not (
                gate.may_hold(end_us, now_us + round(span_us), mine)
                and gate.may_hold(end_us, end_us + round(later_us), whole)
                and self._affordable(host, later_us, context)
            ):
                continue
            lost = host.size / host.tenancy.ratio - host.size / ratio
            cost = lost / min(host.room, job.processes) + 1.0 - 1.0 / own
            ranked.append((cost, host.running.start_us, host.running.job.id, host, own, lost))
        ranked.sort(key=_cost)
        free = view.free_threads if self._empty_nodes else 0
        if free and not gate.may_hold(now_us, now_us + job.estimate_us, 1 if one else free):
            free = 0
        room, lost, worst = free, 0.0, 1.0
        chosen: list[Host] = []
        for _, _, _, host, own, loses in ranked[: self._most or None]:
            chosen.append(host)
            room, lost, worst = room + host.room, lost + loses, max(worst, own)
            if room >= job.processes:
                fair = job.processes / worst - lost >= self._min_gain * job.processes
                return _Choice(chosen, free > 0) if fair or self._is_brief(job) else None
        return None

    def _affordable(self, host: Host, later_us: float, context: api.Context) -> bool:
        """Tell whether a host has the budget for a guest that costs it so much, or is that far ahead by the ledger."""
        view, ledger, now = context.view, context.ledger, host.tenancy
        # What its present neighbours still cost it
        expected_us = view.expected_end(host.running) - view.now_us - now.left_us
        if not later_us or now.lost_us + expected_us + later_us <= self._budget * host.running.job.estimate_us:
            return True
        return ledger is not None and later_us <= ledger.spare_us(host.running, view)

    def _seat_among(self, job: api.JobSpec, choice: _Choice, context: api.Context) -> api.GroupSeat | None:
        """Return the job on the threads that these hosts leave open; None where memory, or the layout, does not allow it."""
        view = context.view
        open_, *more = [*([view.free] if choice.empty else []), *[host.open for host in choice.hosts]]
        for layers in more:
            open_ = api.union(open_, layers)
        runs = api.first_fit(job, open_, view.machine, view.free_memory_mb, view.open_nodes(job))
        if runs is None:
            return None
        nodes = api.nodes_of(runs)
        hosts = [host.running for host in choice.hosts if nodes & view.nodes_by_job[host.running.job.id]]
        return api.seat_among(job, runs, hosts, context)

    # Who may share, and how slow two jobs are beside each other.

    def _open_hosts(self, view: api.View) -> list[Host]:
        """Return the running jobs with threads open beside them, by start and id."""
        if self._hosts_at == view.key:
            return self._hosts
        once = twice = 0
        for nodes in view.nodes_by_job.values():
            twice |= once & nodes
            once |= nodes
        alone = once & ~twice  # a node has one guest
        found = []
        for job_id, running in view.running.items():
            stays = running.suspended_us is None and not running.leaving and not running.slot
            if not (stays and self._may_share(running.job)):
                continue
            mine = view.nodes_by_job[job_id] & alone
            open_ = api.open_beside(running.runs, view) if mine else None
            if open_ is None:
                continue
            open_ = tuple([api.NodeSet(layer & mine) for layer in open_])
            room = api.size(open_)
            if room:
                found.append(Host(running, api.tenancy_of(running, view), open_, room))
        found.sort(key=lambda host: (host.running.start_us, host.running.job.id))
        self._hosts, self._hosts_at = found, view.key
        return found

    def _is_brief(self, job: api.JobSpec) -> bool:
        return job.estimate_us <= self._brief_us

    def _may_share(self, job: api.JobSpec) -> bool:
        return api.may_meet(job, self._job_table.model) and not job.exclusive

    def _slowdowns_of(self, job: api.JobSpec, other: api.JobSpec, view: api.View) -> tuple[float, float]:
        """Return the slowdown of each of two jobs by the other; inf where they may not share nodes."""
        if not fit_together(job, other, view):
            return inf, inf
        return api.slowdown_by(job, other, view.pairs), api.slowdown_by(other, job, view.pairs)

    def _slowdowns(self, hosts: Sequence[Host], table: QueueTable, view: api.View) -> api.Floats:
        """Return the slowdown of each host with each pending job [host, job]: the larger one of the two; inf: they may not share."""
        last = len(self._job_table)
        model = view.pairs
        assert model is not None  # or there were no hosts
        if len(self._slow) > 2 * len(view.running) + 16:
            self._slow = {job_id: known for job_id, known in self._slow.items() if job_id in view.running}
        for host in hosts:
            job = host.running.job
            known = self._slow.get(job.id)
            first = 0 if known is None else len(known)
            if first == last:
                continue
            columns = self._job_table.columns(np.arange(first, last))
            fits = np.array([self._may_share(other) and fit_together(job, other, view) for other in columns.jobs])
            slow = np.where(fits, model.beside(job, columns).slowdowns, inf)
            self._slow[job.id] = slow if known is None else np.concatenate((known, slow))
        return np.array([self._slow[host.running.job.id][table.rows] for host in hosts])


def _last_us(running: api.Running, view: api.View) -> int:
    """Return when a running job has left its nodes by its own limit, as a manager that knows limits alone plans."""
    return max(running.limit_end_us, view.expected_end(running))


def _later_us(host: api.Tenancy, ratio: float, span_us: float) -> float:
    """Return how much later a host ends that runs at another ratio for a span, or until its end."""
    together_us = min(span_us, host.left_us * ratio)
    return together_us * (1.0 / host.ratio - 1.0 / ratio)


def _cost(ranked: tuple[float, int, int, Host, float, float]) -> tuple[float, int, int]:
    return ranked[:3]


def fit_together(job: api.JobSpec, other: api.JobSpec, view: api.View) -> bool:
    """Tell whether the memory of a node holds both, where the model counts it."""
    model = view.pairs
    if model is None or not model.by_usage or job.usage is None or other.usage is None:
        return True
    return job.usage[4] + other.usage[4] <= api.WHOLE_PPM


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
