"""LOMARC's matchmaking: the best partner among all waiting jobs, the best host among all running ones (sections 5.1 and 5.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import ClassVar, Final, TypeAlias

import numpy as np

from cosched_plugin.api import Action, Floats, Ints, JobSpec, Running, View
from cosched_plugin.policies.hosts import Hosts, Pairs
from cosched_plugin.policies.matching import is_weak
from cosched_plugin.policies.offers import Gate, Offer, Seat
from cosched_plugin.policies.profit import (
    Future,
    Match,
    impact_on_running,
    impact_on_waiting,
    utilisation_gain_1,
    utilisation_gain_2,
)
from cosched_plugin.policies.sharing import join, keep_up, together
from cosched_plugin.policies.sift import Rules, may_share, sift
from cosched_plugin.policies.waiting import Waiting

FIRST: Final = "first"
FUTURES: Final = ("longer", "all", "none")
HEURISTICS: Final = (FIRST, "u1", "u2", "response")
Ranking: TypeAlias = dict[int, list[tuple[Running, float, float]]]  # by waiting job: (host, slowdown, profit)


class Lookahead:
    """Company by a heuristic: the first match, or the one with the highest profit above 0.

    ``cpu``: hyperthreaded, or standard (time-shared: cpu-bound with disk-bound only). ``weak_load``: nobody is matched while the queue
    asks for no more than the free nodes less this share. ``future``: the expected arrivals that the heuristic response counts:
    all, the medium and long ones (longer), or none.
    """

    remembers: ClassVar[bool] = True
    settled: ClassVar[bool] = False

    def __init__(
        self,
        heuristic: str,
        *,
        max_slowdown: float = 1.6,
        cpu: str = "hyperthreaded",
        weak_load: float = 0.2,
        future: str = "longer",
    ) -> None:
        self.name = heuristic
        self._future = future
        self._max_slowdown = max_slowdown
        self._rules = Rules(max_slowdown, cpu == "standard")
        self._weak_load = weak_load
        self._hosts = Hosts(self._rules)
        # A cache: of which queue, at which version of the view.
        self._ranked: tuple[Waiting, int, Ranking] | None = None

    def prepare(self, view: View) -> Iterator[Action]:
        """Yield the expectations of those whose partner is gone, and stop one of a pair that is too slow."""
        return keep_up(view, self._max_slowdown)

    def seat(self, offer: Offer, waiting: Waiting, view: View, gate: Gate) -> Seat | None:
        """Return the offer with its best partner that is admitted, else alone."""
        job = offer.job
        why = self._why_alone(job, waiting, view)
        if why is not None or view.pairs is None:
            if view.trace is not None:
                view.trace.explain(job.id, no_search=why)
            return offer if gate.admit(offer) else None
        jobs = waiting.columns()
        own = waiting.places()[job.id]
        sifted = sift(job, jobs, self._rules, view.pairs, as_host=True).without(own)
        fine = np.flatnonzero(sifted.fine)
        profits = self._with_waiting(job, own, fine, sifted.slowdowns[fine], waiting, view)
        chosen: Seat | None = None
        facts: dict[str, object] = {}
        for rank in _best_first(profits):
            place = int(fine[rank])
            pair = together(offer, waiting.jobs[place], float(sifted.slowdowns[place]), view, gate)
            if pair is not None:
                chosen = pair
                facts = {"partner": pair.guest.job.id, "selected": rank + 1, "slowdown": pair.slowdown}
                break
        if view.trace is not None:
            if facts and self.name != FIRST:
                facts["profit"] = round(float(profits[rank]), 9)
            view.trace.explain(job.id, partners=sifted.facts(jobs, fine, self._told(profits)) | facts)
            if "partner" in facts:
                view.trace.explain(waiting.jobs[int(fine[rank])].id, chosen_by=job.id)
        return chosen or (offer if gate.admit(offer) else None)

    def hopeful(self, waiting: Waiting, view: View) -> Collection[int]:
        """Return the waiting jobs that would gain by joining a running one."""
        return self._ranking(waiting, view)

    def join(self, job: JobSpec, waiting: Waiting, view: View, gate: Gate) -> Seat | None:
        """Return a seat on the nodes of the best host that is admitted."""
        ranking = self._ranking(waiting, view).get(job.id, ())
        for host, slowdown, profit in ranking:
            guest = join(host, job, slowdown, view, gate)
            if guest is not None:
                if view.trace is not None:
                    chosen = {"host": host.job.id, "slowdown": slowdown}
                    profits = {}
                    if self.name != FIRST:
                        chosen["profit"] = round(profit, 9)
                        profits = self._profits_of(job, waiting, view)
                    view.trace.explain(job.id, hosts=self._hosts.looked(job, profits, view) | chosen)
                return guest
        return None

    def _why_alone(self, job: JobSpec, waiting: Waiting, view: View) -> str | None:
        """Return why no partner is sought for a job that has a place, None if one is."""
        if len(waiting.jobs) < 2:
            return "nobody-waits"
        if view.pairs is None:
            return "no-belief"
        if not may_share(job):
            return "may-not-share"
        return "weak-load" if is_weak(waiting, view, self._weak_load) else None

    def _ranking(self, waiting: Waiting, view: View) -> Ranking:
        """Return the hosts that each waiting job would gain by joining, best first."""
        if view.pairs is None:
            return {}
        if self._ranked is None or self._ranked[:2] != (waiting, view.version):
            ranking: Ranking = {}
            pairs = self._hosts.pairs(waiting, view, view.pairs)
            if len(pairs.hosts):
                profits = self._with_running(pairs, waiting, view)
                # By newcomer, best first; the sort is stable, which keeps (start, id) among equals.
                for row in np.lexsort((-profits, pairs.newcomers)).tolist():
                    if profits[row] > 0.0:
                        job = waiting.jobs[pairs.newcomers[row]]
                        entry = (pairs.hosts[row], float(pairs.slowdowns[row]), float(profits[row]))
                        ranking.setdefault(job.id, []).append(entry)
            self._ranked = (waiting, view.version, ranking)
        return self._ranked[2]

    def _profits_of(self, job: JobSpec, waiting: Waiting, view: View) -> dict[int, float]:
        """Return the profit by host of one waiting job, losses included: for a decision trace."""
        assert view.pairs is not None
        pairs = self._hosts.pairs(waiting, view, view.pairs)
        profits = self._with_running(pairs, waiting, view)
        rows = np.flatnonzero(pairs.newcomers == waiting.places()[job.id]).tolist()
        return {pairs.hosts[row].job.id: float(profits[row]) for row in rows}

    def _with_waiting(
        self, job: JobSpec, own: int, places: Ints, slowdowns: Floats, waiting: Waiting, view: View
    ) -> Floats:
        jobs = waiting.columns()
        match = Match(
            view.machine.cores, job.processes, jobs.times_s[own], jobs.sizes[places], jobs.times_s[places], slowdowns
        )
        if self.name != "response" or not len(places):
            return self._gain(match)
        return impact_on_waiting(match, waiting.work_s(match.processors), own, places, self._expected(waiting, view))

    def _with_running(self, pairs: Pairs, waiting: Waiting, view: View) -> Floats:
        jobs = waiting.columns()
        own = pairs.newcomers
        match = Match(
            view.machine.cores, pairs.sizes, pairs.left_s, jobs.sizes[own], jobs.times_s[own], pairs.slowdowns
        )
        if self.name != "response":
            return self._gain(match)
        return impact_on_running(match, waiting.work_s(match.processors), own, self._expected(waiting, view))

    def _expected(self, waiting: Waiting, view: View) -> Future:
        """Return those of the expected arrivals that count."""
        if self._future == "none":
            return Future()
        future = waiting.future(view)
        return future if self._future == "all" else Future(longer=future.longer)

    def _gain(self, match: Match) -> Floats:
        if self.name == "u1":
            return utilisation_gain_1(match.size, match.time_s, match.sizes, match.times_s, match.slowdowns)
        if self.name == "u2":
            return utilisation_gain_2(match.size, match.sizes, match.slowdowns)
        return np.ones(len(match.sizes))  # all the same: the first wins

    def _told(self, profits: Floats) -> Floats | None:
        """Return the profits that mean something."""
        return None if self.name == FIRST else profits


def _best_first(profits: Floats) -> Iterator[int]:
    """Yield the positions of candidates, best first and earliest among equals, as long as the profit is above 0."""
    for rank in np.argsort(-profits, kind="stable").tolist():
        if not profits[rank] > 0.0:
            return
        yield rank
