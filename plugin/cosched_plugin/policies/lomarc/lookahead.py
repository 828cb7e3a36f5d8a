"""LOMARC's matchings: the next job in the queue, or the best partner of all pending jobs and the best host of all running ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from math import inf
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.lomarc.constraints import (
    HYPERTHREADED,
    STANDARD,
    Filtered,
    Hosts,
    Pairs,
    Rules,
    apply_constraints,
)
from cosched_plugin.policies.lomarc.queue_table import (
    Future,
    Jobs,
    JobTable,
    Match,
    QueueTable,
    impact_on_running,
    impact_on_waiting,
    may_gain,
    may_share,
    queue_table,
    utilisation_gain_1,
    utilisation_gain_2,
)
from cosched_plugin.policies.orders import RemembersStarts

# Matchings that consider only the next job in the queue: AC and AM, the baselines of the paper.

# The slowdown that a blind scheduler assumes for a pair without a belief: time-sharing.
BLIND_SLOWDOWN = 2.0


class _WithTheNext(api.Matching):
    """The base of the matchings that consider only the next job in the queue."""

    needs: ClassVar[api.Needs] = frozenset({api.WHOLE_NODES, api.COMPANY})
    protocol_features: ClassVar[api.Needs] = api.PAIRING

    def __init__(self, max_slowdown: float = inf) -> None:
        self._monitor = api.PairMonitor(max_slowdown)

    def prepare(self, context: api.Context) -> Iterator[api.Action]:
        """Yield the new expected ends of jobs whose partner has ended."""
        return self._monitor.keep_up(context.view)


class Always(_WithTheNext):
    """AC: a job and the next one in the queue, whatever they are; the smaller joins the nodes of the larger."""

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return the offer with the next job, where both fit; else alone."""
        following = _next(offer.job, context)
        if following is not None:
            pair = self._pair(offer, following, context, gate)
            if pair is not None:
                return pair
        return offer if gate.admit(offer) else None

    def _pair(self, offer: api.Offer, following: api.JobSpec, context: api.Context, gate: api.Gate) -> api.Seat | None:
        guest = following
        # The larger job is the host: the smaller one must find a node for each of its processes there.
        if following.processes > offer.job.processes:
            host = context.offer(following, api.snapshot_now(context.view))
            if host is None:
                return None
            offer, guest = host, offer.job
        return api.pair_up(offer, guest, blind_slowdown(offer.job, guest, context.view), context, gate)


class Adjacent(_WithTheNext):
    """AM: a job and the next one in the queue, if they are a match."""

    needs: ClassVar[api.Needs] = frozenset({api.WHOLE_NODES, api.COMPANY, api.PAIR_BELIEF})

    def __init__(self, *, max_slowdown: float = 1.6, cpu: str = HYPERTHREADED, weak_load: float = 0.2) -> None:
        super().__init__(max_slowdown)
        self._rules = Rules(max_slowdown, cpu == STANDARD)
        self._weak_load = weak_load

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return the offer with the next job, where they are a match; else alone."""
        view = context.view
        following = _next(offer.job, context)
        if following is not None and view.pairs is not None and not is_weak(context, self._weak_load):
            jobs = Jobs.of([following], view.pairs)
            filtered = apply_constraints(offer.job, jobs, self._rules, view.pairs, as_host=True)
            slowdown, most = float(filtered.slowdowns[0]), self._rules.max_slowdown
            pair = api.pair_up(offer, following, slowdown, context, gate, most) if filtered.fine[0] else None
            view.explain(offer.job.id, lambda: {"partners": _facts(filtered, jobs, pair)})
            if pair is not None:
                return pair
        return offer if gate.admit(offer) else None


def is_weak(context: api.Context, margin: float) -> bool:
    """Tell whether the queue asks for no more than the free nodes, less a margin: then no job needs a partner (section 5.1).

    It counts processes and cores; under a placement with footprints, which may leave cores idle, nodes.
    """
    view, jobs = context.view, context.pending.jobs
    if context.footprints is not context.placement:
        return sum([job.processes for job in jobs]) <= (1.0 - margin) * view.free_threads
    footprints = [context.footprints.footprint(job, view) for job in jobs]
    wanted = sum([footprint.nodes for footprint in footprints if footprint is not None])
    return wanted <= (1.0 - margin) * api.any_layer(view.free).bit_count()


def blind_slowdown(one: api.JobSpec, other: api.JobSpec, view: api.View) -> float:
    """Return the believed slowdown of a pair that was matched without a look at it; `BLIND_SLOWDOWN` if there is no belief."""
    model = view.pairs
    known = api.may_meet(one, model) and api.may_meet(other, model)
    slowdown = model.both(one, other) if model is not None and known else inf
    return BLIND_SLOWDOWN if slowdown == inf else slowdown


def _facts(filtered: Filtered, jobs: Jobs, pair: api.Pair | None) -> dict[str, object]:
    """Return the facts for a decision trace about the next job, which may have become a partner."""
    return filtered.facts(jobs, np.flatnonzero(filtered.fine), None) | _chosen_partner(pair, 0, None)


def _next(job: api.JobSpec, context: api.Context) -> api.JobSpec | None:
    """Return the job behind one in the queue; None where there is none, or no work is left to examine it."""
    jobs = context.pending.jobs
    if not context.view.work.pay(api.prices.NEXT_JOB, len(jobs)):
        return None
    after = next((index + 1 for index, other in enumerate(jobs) if other.id == job.id), len(jobs))
    following = jobs[after] if after < len(jobs) else None
    return None if following is None or following.unpaired or job.unpaired else following


# The profit of a match: heuristics that lookahead matchmaking uses to compare partners and hosts (LOMARC paper, section 5).

FUTURES: Final = ("longer", "all", "none")


class Heuristic(Protocol):
    """Gives each match a profit. The match with the highest one above 0 is taken, the first among equals."""

    @property
    def compares(self) -> bool:
        """Tell whether profits differ, so that a decision trace should show them."""
        return True

    def with_waiting(self, match: Match, own: int, places: api.Ints, table: QueueTable, view: api.View) -> api.Floats:
        """Return the profit of each pending job at ``places`` of the queue as a partner of the one at ``own``."""

    def with_running(self, pairs: Pairs, table: QueueTable, view: api.View) -> api.Floats:
        """Return the profit of each pair of a pending job and a running one."""

    def promising(self, pairs: Pairs, table: QueueTable, view: api.View) -> Pairs:
        """Return the pairs that may have a profit above 0: a quick check that never drops such a pair."""
        return pairs

    def price(self, pending: int) -> int:
        """Return the price of one pair's profit, in units of work; it depends on the number of pending jobs."""
        return api.prices.RANKED_PAIR.units()


class First(Heuristic):
    """All matches have the same profit: the first one is taken."""

    compares: ClassVar[bool] = False

    def with_waiting(self, match: Match, own: int, places: api.Ints, table: QueueTable, view: api.View) -> api.Floats:
        """Return the same profit for all."""
        return np.ones(len(places))

    def with_running(self, pairs: Pairs, table: QueueTable, view: api.View) -> api.Floats:
        """Return the same profit for all."""
        return np.ones(len(pairs.newcomers))


class SharedTimeGain(Heuristic):
    """The utilisation gain over the shared time (U1)."""

    def with_waiting(self, match: Match, own: int, places: api.Ints, table: QueueTable, view: api.View) -> api.Floats:
        """Return the gains."""
        return utilisation_gain_1(match.size, match.time_s, match.sizes, match.times_s, match.slowdowns)

    def with_running(self, pairs: Pairs, table: QueueTable, view: api.View) -> api.Floats:
        """Return the gains over the time that the running jobs have left."""
        match = match_with_running(pairs, table, view)
        return utilisation_gain_1(match.size, match.time_s, match.sizes, match.times_s, match.slowdowns)


class TimelessGain(Heuristic):
    """The utilisation gain whatever the run times (U2)."""

    def with_waiting(self, match: Match, own: int, places: api.Ints, table: QueueTable, view: api.View) -> api.Floats:
        """Return the gains."""
        return utilisation_gain_2(match.size, match.sizes, match.slowdowns)

    def with_running(self, pairs: Pairs, table: QueueTable, view: api.View) -> api.Floats:
        """Return the gains."""
        match = match_with_running(pairs, table, view)
        return utilisation_gain_2(match.size, match.sizes, match.slowdowns)


class ResponseImpact(Heuristic):
    """The impact on the response times of all pending jobs, and of expected arrivals.

    ``future``: the expected arrivals that count: all, the medium and long ones (longer), or none.
    """

    def __init__(self, future: str = FUTURES[0]) -> None:
        self._future = future

    def with_waiting(self, match: Match, own: int, places: api.Ints, table: QueueTable, view: api.View) -> api.Floats:
        """Return the impacts of taking each candidate out of the queue."""
        if not len(places):
            return np.ones(0)
        return impact_on_waiting(match, table.work_s(match.processors), own, places, self._arrivals(table, view))

    def with_running(self, pairs: Pairs, table: QueueTable, view: api.View) -> api.Floats:
        """Return the impacts of putting each pending job beside a running one."""
        if not len(pairs.newcomers):
            return np.ones(0)
        match = match_with_running(pairs, table, view)
        return impact_on_running(match, table.work_s(match.processors), pairs.newcomers, self._arrivals(table, view))

    def promising(self, pairs: Pairs, table: QueueTable, view: api.View) -> Pairs:
        """Return the pairs for which a bound of the impact is above 0."""
        match = match_with_running(pairs, table, view)
        may = may_gain(match, table.work_s(match.processors), self._arrivals(table, view))
        return pairs.only(may.nonzero()[0])

    def price(self, pending: int) -> int:
        """Return the price of a pair, which grows with the jobs whose response times it changes."""
        return api.prices.RANKED_RESPONSE.units(pending)

    def _arrivals(self, table: QueueTable, view: api.View) -> Future:
        """Return the expected arrivals that count."""
        if self._future == "none":
            return Future()
        future = table.future(view)
        return future if self._future == "all" else Future(longer=future.longer)


def match_with_running(pairs: Pairs, table: QueueTable, view: api.View) -> Match:
    """Return the hosts, with the time that they have left, as the current jobs, and the newcomers as the candidates."""
    jobs, own, ranks = table.columns, pairs.newcomers, pairs.ranks
    return Match(
        view.machine.cores, pairs.sizes[ranks], pairs.left_s[ranks], jobs.sizes[own], jobs.times_s[own], pairs.slowdowns
    )


Ranking: TypeAlias = dict[int, list[tuple[api.Running, float, float]]]  # by pending job: (host, slowdown, profit)
_NO_HOSTS: Final[Ranking] = {}


class Lookahead(RemembersStarts, api.Matching):
    """Co-location by a heuristic: the first match, or the one with the highest profit above 0.

    ``cpu``: hyperthreaded, or standard (time-shared: cpu-bound with disk-bound only). ``weak_load``: no job is matched while the queue
    asks for no more than the free nodes less this share. ``all_join``: every pending job may join running ones; figure 1 of the paper
    has the first of the queue alone do so, and others be backfilled "onto free nodes".
    """

    needs: ClassVar[api.Needs] = frozenset({api.WHOLE_NODES, api.COMPANY, api.PAIR_BELIEF})
    protocol_features: ClassVar[api.Needs] = api.PAIRING

    def __init__(
        self,
        heuristic: Heuristic,
        *,
        max_slowdown: float = 1.6,
        cpu: str = HYPERTHREADED,
        weak_load: float = 0.2,
        all_join: bool = True,
    ) -> None:
        self._heuristic = heuristic
        self._all_join = all_join
        self._monitor = api.PairMonitor(max_slowdown)
        self._rules = Rules(max_slowdown, cpu == STANDARD)
        self._weak_load = weak_load
        self._job_table = JobTable()
        self._hosts = Hosts(self._rules, self._job_table)
        self._interventions = 0  # of the manager, when these two caches were begun
        # Caches: the results of the last scan of the queue.
        self._paired: tuple[api.PendingJobs | None, Pairs | None] = (None, None)
        self._ranked: tuple[api.PendingJobs | None, Ranking] = (None, _NO_HOSTS)

    def prepare(self, context: api.Context) -> Iterator[api.Action]:
        """Yield the new expected ends of jobs whose partner has ended, and suspend one job of a pair that is too slow."""
        view = context.view
        if self._interventions != view.interventions:  # a job may have another description
            self._interventions = view.interventions
            self._job_table = JobTable()
            self._hosts = Hosts(self._rules, self._job_table)
        self._job_table.renew(view.queued, view.pairs)
        self._paired = (None, None)
        self._ranked = (None, _NO_HOSTS)  # a scheduler that has just taken over lacks it, and must spend as much
        return self._monitor.keep_up(view)

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return the offer with the best partner that is admitted, else alone."""
        view, pending, job = context.view, context.pending, offer.job
        why = self._why_alone(job, context)
        if why is None and not view.work.pay(api.prices.PARTNERS, len(pending.jobs)):
            why = "no-time"
        if why is not None or view.pairs is None:
            view.explain(job.id, no_search=why)
            return offer if gate.admit(offer) else None
        table = queue_table(pending, self._job_table)
        jobs = table.columns
        own = table.place(job)
        # Figure 4, `find_match`: every job of the queue is a candidate, whatever its place and class of priority.
        filtered = apply_constraints(job, jobs, self._rules, view.pairs, as_host=True).without(own)
        fine = filtered.fine.nonzero()[0]
        profits = self._with_waiting(job, own, fine, filtered.slowdowns[fine], table, view)
        pair: api.Pair | None = None
        rank = 0
        for rank in _best_first(profits):
            place = int(fine[rank])
            slowdown = float(filtered.slowdowns[place])
            pair = api.pair_up(offer, pending.jobs[place], slowdown, context, gate, self._rules.max_slowdown)
            if pair is not None:
                view.explain(pair.guest.job.id, chosen_by=job.id)
                break
        compared = profits if self._heuristic.compares else None
        view.explain(
            job.id, lambda: {"partners": filtered.facts(jobs, fine, compared) | _chosen_partner(pair, rank, compared)}
        )
        return pair or (offer if gate.admit(offer) else None)

    def may_host(self, job: api.JobSpec) -> bool:
        """Tell whether ``job`` may be co-located at all."""
        return may_share(job, self._job_table.model)

    def has_hosts(self, view: api.View) -> bool:
        """Tell whether there are running jobs that may be co-located."""
        return view.pairs is not None and self._hosts.any_hospitable(view)

    def join_candidates(self, context: api.Context, gate: api.Gatekeeper = api.UNRESERVED) -> Collection[int]:
        """Return the pending jobs that would gain by joining a running one, without those that ``gate`` surely refuses."""
        if not self._all_join:
            return ()
        return self._rank_all(context.pending, context.view, gate)

    def join(self, job: api.JobSpec, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return a seat on the nodes of the best host that is admitted."""
        view, pending = context.view, context.pending
        # Figure 1, `find_match_among_running`.
        for host, slowdown, profit in self._rank_for(job, pending, view):
            if not view.work.pay(api.prices.RANKED_PAIR):
                return None
            guest = api.join_host(host, job, slowdown, context, gate, self._rules.max_slowdown)
            if guest is not None:
                view.explain(job.id, partial(self._host_facts, guest, profit, pending, view))
                return guest
        return None

    def _host_facts(
        self, guest: api.Guest, profit: float, pending: api.PendingJobs, view: api.View
    ) -> dict[str, object]:
        """Return the facts for a decision trace about the hosts among which one was chosen."""
        job = guest.guest.job
        chosen: dict[str, object] = {"host": guest.host.job.id, "slowdown": guest.slowdown}
        profits: dict[int, float] = {}
        if self._heuristic.compares:
            chosen["profit"] = round(profit, 9)
            profits = self._profits_of(job, pending, view)
        return {"hosts": self._hosts.facts(job, profits, view) | chosen}

    def _why_alone(self, job: api.JobSpec, context: api.Context) -> str | None:
        """Return why no partner is sought for a job that has a place, None if one is."""
        view = context.view
        if len(context.pending.jobs) < 2:
            return "nobody-waits"
        if view.pairs is None:
            return "no-belief"
        if not may_share(job, view.pairs):
            return "may-not-share"
        # Section 5.1: on a weakly loaded machine jobs go to free nodes by themselves.
        return "weak-load" if is_weak(context, self._weak_load) else None

    def _rank_for(
        self, job: api.JobSpec, pending: api.PendingJobs, view: api.View
    ) -> Sequence[tuple[api.Running, float, float]]:
        """Return the hosts that one pending job would gain by joining, best first."""
        known, ranking = self._ranked
        if known is not pending or job.id not in ranking:
            if view.work.limited:
                ranking = self._rank_all(pending, view, api.UNRESERVED)  # paid for together
            elif (model := view.pairs) is not None:
                pairs = self._hosts.pairs_of(job, pending, self._hosts.hospitable(view), view, model)
                ranking = (
                    _NO_HOSTS if pairs is None else self._ranking(pairs, queue_table(pending, self._job_table), view)
                )
        return ranking.get(job.id, ())

    def _rank_all(self, pending: api.PendingJobs, view: api.View, gate: api.Gatekeeper) -> Ranking:
        if view.work.limited and self._ranked[0] is pending:
            return self._ranked[1]
        ranking = _NO_HOSTS
        pairs = self._pairs(pending, view)
        if pairs is not None:
            table = queue_table(pending, self._job_table)
            if gate is not api.UNRESERVED:
                pairs = self._hosts.let_in(pairs, table, view, gate)
            ranking = self._ranking(pairs, table, view)
        self._ranked = (pending, ranking)
        return ranking

    def _pairs(self, pending: api.PendingJobs, view: api.View) -> Pairs | None:
        """Return the pairs from the first scan of ``pending``, found if necessary; None if there are none or no work is left."""
        known, pairs = self._paired
        if known is not pending:
            pairs = None
            model = view.pairs
            hosts = [] if model is None else self._hosts.hospitable(view)
            jobs = len(pending.jobs)
            if hosts and jobs and view.work.pay(api.prices.HOSTS, jobs, jobs * len(hosts)):
                assert model is not None  # or there were no hosts
                pairs = self._hosts.pairs(queue_table(pending, self._job_table), hosts, view, model)
            self._paired = (pending, pairs)
        return pairs

    def _ranking(self, pairs: Pairs, table: QueueTable, view: api.View) -> Ranking:
        """Return the hosts that each newcomer would gain by joining, best first."""
        if not len(pairs.newcomers):
            return _NO_HOSTS
        pairs, profits = self._with_gain(pairs, table, view)
        ranking: Ranking = {}
        newcomers, ranks, slowdowns = pairs.newcomers.tolist(), pairs.ranks.tolist(), pairs.slowdowns.tolist()
        # By newcomer, best first; the sort is stable, which keeps (start, id) among equals.
        for row in np.lexsort((-profits, pairs.newcomers)).tolist():
            job = table.jobs[newcomers[row]]
            ranking.setdefault(job.id, []).append((pairs.hosts[ranks[row]], slowdowns[row], float(profits[row])))
        return ranking

    def _profits_of(self, job: api.JobSpec, pending: api.PendingJobs, view: api.View) -> dict[int, float]:
        """Return the profit by host of one pending job, losses included: for a decision trace."""
        assert view.pairs is not None
        table = queue_table(pending, self._job_table)
        pairs = self._hosts.pairs(table, self._hosts.hospitable(view), view, view.pairs)
        pairs = pairs.only((pairs.newcomers == table.place(job)).nonzero()[0])
        profits = self._heuristic.with_running(pairs, table, view)
        return {
            pairs.hosts[rank].job.id: profit
            for rank, profit in zip(pairs.ranks.tolist(), profits.tolist(), strict=True)
        }

    def _with_gain(self, pairs: Pairs, table: QueueTable, view: api.View) -> tuple[Pairs, api.Floats]:
        """Return the pairs with a profit above 0, and the profits; where work is limited, those of the first newcomers."""
        heuristic = self._heuristic
        pairs = _within_budget(heuristic.promising(pairs, table, view), heuristic.price(len(table.jobs)), view)
        profits = heuristic.with_running(pairs, table, view)
        above = (profits > 0.0).nonzero()[0]
        return pairs.only(above), profits[above]

    def _with_waiting(
        self, job: api.JobSpec, own: int, places: api.Ints, slowdowns: api.Floats, table: QueueTable, view: api.View
    ) -> api.Floats:
        jobs = table.columns
        match = Match(
            view.machine.cores, job.processes, jobs.times_s[own], jobs.sizes[places], jobs.times_s[places], slowdowns
        )
        return self._heuristic.with_waiting(match, own, places, table, view)


def _chosen_partner(pair: api.Pair | None, rank: int, profits: api.Floats | None) -> dict[str, object]:
    """Return the facts for a decision trace about the chosen partner, at ``rank`` among the candidates."""
    if pair is None:
        return {}
    facts: dict[str, object] = {"partner": pair.guest.job.id, "selected": rank + 1, "slowdown": pair.slowdown}
    return facts if profits is None else facts | {"profit": round(float(profits[rank]), 9)}


def _within_budget(pairs: Pairs, each: int, view: api.View) -> Pairs:
    """Return the pairs of the first newcomers that the remaining work can pay, at ``units`` units each, and spend it."""
    work = view.work
    if work.limited:
        many = len(pairs.newcomers)
        pairs = pairs.only(np.arange(min(many, max(1, work.affordable(many, each)))))
        work.spend(len(pairs.newcomers) * each)
    return pairs


def _best_first(profits: api.Floats) -> Iterator[int]:
    """Yield the positions of candidates with a profit above 0, best first and earliest among equals."""
    for rank in np.argsort(-profits, kind="stable").tolist():
        # Figure 4: `maxprofit` begins at 0, so a match that gains nothing is none.
        if not profits[rank] > 0.0:
            return
        yield rank


# The matchings of the catalogue.


def first_match(**settings: Any) -> Lookahead:
    """Return the matching that takes the first match; ``settings``: those of `Lookahead`."""
    return Lookahead(First(), **settings)


def by_shared_time_gain(**settings: Any) -> Lookahead:
    """Return the matching of U1."""
    return Lookahead(SharedTimeGain(), **settings)


def by_timeless_gain(**settings: Any) -> Lookahead:
    """Return the matching of U2."""
    return Lookahead(TimelessGain(), **settings)


def by_response(*, future: str = FUTURES[0], **settings: Any) -> Lookahead:
    """Return the matching by the impact on response times."""
    return Lookahead(ResponseImpact(future), **settings)
