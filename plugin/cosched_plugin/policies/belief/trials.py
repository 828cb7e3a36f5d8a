"""Trials: a few jobs at a time may join others of which nothing is known, so that something can be learned of them.

What is believed stays as the site says; only pairs of which it says nothing are tried. All follows from what waits and what runs, so a
scheduler that begins here goes on with the same trials.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from heapq import nsmallest
from itertools import combinations
from math import inf
from typing import ClassVar, Final, TypeAlias

import numpy as np

from cosched_plugin import api

_TURN_US: Final = 60 * api.SECOND_US  # after which other jobs are chosen: the first may find no place
_MIX: Final = 0x9E3779B97F4A7C15  # splitmix64's: numbers that follow each other are drawn apart
_WORD: Final = (1 << 64) - 1
_Pairs: TypeAlias = frozenset[frozenset[int]]


class TriedPairs(api.OnGiven):
    """What the site says; where it says nothing of a pair on trial, that each takes ``assumed`` times as long."""

    __slots__ = ("_assumed", "_chosen", "_hosts", "_together")
    name: Final = "trials"

    def __init__(
        self,
        given: api.PairModel | None,
        assumed: float,
        together: _Pairs,
        chosen: frozenset[int],
        hosts: frozenset[int],
    ) -> None:
        """``together``: pairs on trial that run; ``chosen``: jobs that may each join some of the ``hosts``."""
        super().__init__(given)
        self._assumed = assumed
        self._together = together
        self._chosen = chosen
        self._hosts = hosts if chosen else frozenset()

    def same_as(self, other: TriedPairs) -> bool:
        """Tell whether both say the same."""
        return self._given is other._given and self._key() == other._key()

    def _key(self) -> tuple[object, ...]:
        return self._together, self._chosen, self._hosts

    def knows(self, job: api.JobFacts) -> bool:
        """Tell whether the site's model knows the job, or it has a name by which something may be learned of it."""
        return bool(job.name) or (self._given is not None and self._given.knows(job))

    def slowdown(self, job: api.JobFacts, other: api.JobFacts) -> float:
        """Return what the site says, or else what is assumed of a pair on trial."""
        known = api.known_slowdown(self._given, job, other)
        return self._assumed if known == inf and self._on_trial(job.id, other.id) else known

    def slowdown_on(
        self,
        job: api.JobFacts,
        mask: api.ThreadMask,
        other: api.JobFacts,
        other_mask: api.ThreadMask,
        *,
        kind: int = 0,
        threads: tuple[int, int] = (1, 1),
    ) -> float:
        """Return the same on certain hardware threads."""
        if self._given is None or api.known_slowdown(self._given, job, other) == inf:
            return self.slowdown(job, other)
        return self._given.slowdown_on(job, mask, other, other_mask, kind=kind, threads=threads)

    def beside(self, job: api.JobFacts, others: api.JobColumns) -> api.Beside:
        """Return the larger slowdown of ``job`` and each of the others."""
        jobs = others.jobs
        given = self._given
        slow, compete = np.full(len(jobs), inf), np.zeros(len(jobs), dtype=np.bool_)
        if given is not None and given.knows(job):
            known = given.beside(job, others)
            slow = np.where([given.knows(other) for other in jobs], known.slowdowns, inf)
            compete = known.compete
        tried = self._chosen if job.id in self._hosts else self._hosts if job.id in self._chosen else frozenset()
        for place, other in enumerate(jobs):
            if other.id in tried and slow[place] == inf:
                slow[place] = self.both(job, other)
        return api.Beside(slow, compete)

    def _on_trial(self, job_id: int, other_id: int) -> bool:
        if (job_id in self._chosen and other_id in self._hosts) or (job_id in self._hosts and other_id in self._chosen):
            return True
        return frozenset((job_id, other_id)) in self._together


class Trials(api.Believer):
    """What the site says, and trials of pairs of which it says nothing.

    ``most``: guests on trial at once; ``assumed``: how many times as long the two of a pair on trial take, until more is known.
    """

    provides: ClassVar[api.Needs] = frozenset({api.PAIR_BELIEF})

    def __init__(self, *, most: int = 1, assumed: float = 1.25) -> None:
        self._most = most
        self._assumed = assumed
        self._model: TriedPairs | None = None  # a cache

    def pairs(self, view: api.View) -> api.PairModel | None:
        """Return the model: who is on trial follows from who runs together; who may be next, from the queue and the clock."""
        given = view.given_pairs
        together, guests = _trials(view, given)
        chosen: frozenset[int] = frozenset()
        hosts: frozenset[int] = frozenset()
        if len(guests) < self._most:
            alone = _alone(view)
            hosts = frozenset(alone)
            candidates = self._candidates(view, given, alone)
            chosen = frozenset(job_id for _, job_id in nsmallest(self._most - len(guests), candidates))
        model = TriedPairs(given, self._assumed, together, chosen, hosts)
        if self._model is None or not model.same_as(self._model):
            self._model = model
        return self._model

    def _candidates(
        self, view: api.View, given: api.PairModel | None, alone: Mapping[int, api.Running]
    ) -> Iterator[tuple[int, int]]:
        """Yield (a drawn number, id) of the pending jobs that should end before some lone job of which they know nothing.

        The draw changes from turn to turn: a job that finds no place for another reason does not keep the others from being tried.
        """
        turn = view.now_us // _TURN_US
        hosts: dict[str, tuple[int, api.JobSpec]] = {}  # of each name, the one that is expected to stay longest
        for running in alone.values():
            until_us = view.expected_end(running)
            if until_us > hosts.get(running.job.name, (0,))[0]:
                hosts[running.job.name] = until_us, running.job
        # Of the name of a pending job: until when a host of which it knows nothing stays
        latest_us: dict[str, int] = {}
        for job in view.queue if hosts else ():
            name = job.name
            if not name or job.exclusive or job.unpaired:
                continue
            if name not in latest_us:
                unknown = [until_us for until_us, other in hosts.values() if _is_unknown(given, job, other)]
                latest_us[name] = max(unknown, default=0)
            if view.now_us + round(job.estimate_us * self._assumed) <= latest_us[name]:
                yield (job.id + turn) * _MIX & _WORD, job.id


def _is_unknown(model: api.PairModel | None, job: api.JobSpec, other: api.JobSpec) -> bool:
    return inf in (api.known_slowdown(model, job, other), api.known_slowdown(model, other, job))


def _alone(view: api.View) -> dict[int, api.Running]:
    """Return the running jobs that a job on trial may join: with a name, and with a node that they have alone."""
    once, twice = _taken(view)
    alone = once & ~twice
    return {
        job_id: running
        for job_id, running in view.running.items()
        if view.nodes_by_job[job_id] & alone
        and running.job.name
        and not (running.job.exclusive or running.job.unpaired or running.leaving or running.suspended_us is not None)
    }


def _taken(view: api.View) -> tuple[int, int]:
    """Return the nodes that some job has, and those that several have, as bits."""
    once = twice = 0
    for nodes in view.nodes_by_job.values():
        twice |= once & nodes
        once |= nodes
    return once, twice


def _trials(view: api.View, given: api.PairModel | None) -> tuple[_Pairs, Collection[int]]:
    """Return the pairs of running jobs of which nothing is known, and those of their jobs that came second: the guests."""
    at: dict[int, list[int]] = {}  # jobs by node, of nodes that several have
    _, twice = _taken(view)
    running = view.running
    for job_id in running if twice else ():
        for node in api.bits_of(api.NodeSet(view.nodes_by_job[job_id] & twice)):
            at.setdefault(node, []).append(job_id)
    pairs = {pair for there in at.values() for pair in combinations(there, 2)}
    unknown = [(one, other) for one, other in pairs if _is_unknown(given, running[one].job, running[other].job)]
    guests = {max(pair, key=lambda job_id: (running[job_id].start_us, job_id)) for pair in unknown}
    return frozenset(frozenset(pair) for pair in unknown), guests
