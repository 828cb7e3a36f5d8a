"""Which running jobs a waiting one may join: a cache of what `sift` says of pairs, which never changes for two given jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from cosched_plugin.api import Floats, Ints, JobSpec, LomarcModel, Running, View, any_layer
from cosched_plugin.policies.roster import SECOND_US, Jobs, Roster, may_share
from cosched_plugin.policies.sift import Rules, sift, slowdown_beside
from cosched_plugin.policies.waiting import Listed

_FEW: Final = 16  # pairs for which arrays are not worth it


class Pairs(NamedTuple):
    """Waiting jobs beside running ones that they may join, in columns: all hosts of the first, all of the second, ..."""

    newcomers: Ints  # places in the queue
    ranks: Ints  # places of the hosts among `hosts`
    slowdowns: Floats
    hosts: Sequence[Running]  # by start and id
    sizes: Ints  # of the hosts
    left_s: Floats  # expected time left of the hosts

    def only(self, which: Ints) -> Pairs:
        """Return these pairs."""
        return self._replace(newcomers=self.newcomers[which], ranks=self.ranks[which], slowdowns=self.slowdowns[which])


class Hosts:
    """Pairs of a waiting and a running job that may share the nodes of the running one."""

    __slots__ = ("_alone", "_alone_at", "_renewals", "_roster", "_rules", "_slow", "_upto")

    def __init__(self, rules: Rules, roster: Roster) -> None:
        self._rules = rules
        self._roster = roster
        self._renewals = 0  # of the roster, when this was begun
        self._slow: dict[
            int, Floats
        ] = {}  # by running job: slowdown beside each of the roster; 0 where they may not share
        self._upto: dict[int, int] = {}  # by running job: how many rows of the roster it was held against
        self._alone: list[int] = []  # by id: times may change while nodes and jobs do not
        self._alone_at = -1

    def pairs(self, waiting: Listed, hosts: Sequence[Running], view: View, model: LomarcModel) -> Pairs:
        """Return which waiting job may join which of the `hospitable` jobs now; the hosts of each by start and id."""
        self._learn(hosts, view, model)
        slow = np.array([self._slow[host.job.id][waiting.rows] for host in hosts]).reshape(
            len(hosts), len(waiting.rows)
        )
        newcomers, ranks = np.nonzero(slow.T)
        left_us = np.array([view.expected_end(host) - view.now_us for host in hosts], dtype=np.int64)
        return Pairs(
            newcomers,
            ranks,
            slow[ranks, newcomers],
            hosts,
            np.array([host.job.processes for host in hosts], dtype=np.int64),
            left_us / SECOND_US,
        )

    def available(self, view: View) -> list[Running]:
        """Return the running jobs that share no node with another and are not stopped, by start and id."""
        if self._alone_at != view.version:
            self._alone_at = view.version
            once = twice = 0
            nodes_of = []
            for running in view.running.values():
                nodes = any_layer(running.layers)
                nodes_of.append((nodes, running))
                twice |= once & nodes
                once |= nodes
            self._alone = [
                running.job.id for nodes, running in nodes_of if not nodes & twice and running.suspended_us is None
            ]
        alone = [view.running[job_id] for job_id in self._alone]
        return sorted(alone, key=lambda running: (running.start_us, running.job.id))

    def hospitable(self, view: View) -> list[Running]:
        """Return those of them that may have company."""
        return [host for host in self.available(view) if may_share(host.job)]

    def looked(self, job: JobSpec, profits: Mapping[int, float], view: View) -> dict[str, object]:
        """Return what a decision trace should say of a search; ``profits``: by host, of those that were compared."""
        assert view.pairs is not None  # or nothing would have been found
        jobs = Jobs.of([running.job for running in self.available(view)])
        sifted = sift(job, jobs, self._rules, view.pairs, as_host=False)
        fine = np.flatnonzero(sifted.fine)
        ids = jobs.ids.tolist()
        told = np.array([profits[ids[place]] for place in fine.tolist()]) if profits else None
        return sifted.facts(jobs, fine, told) | {"not_alone": sorted(set(view.running) - set(ids))}

    def _learn(self, hosts: Sequence[Running], view: View, model: LomarcModel) -> None:
        """Hold running jobs against all rows of the roster that they were not held against yet."""
        roster, slow, upto = self._roster, self._slow, self._upto
        if self._renewals != roster.renewals or len(slow) > 2 * len(view.running) + _FEW:
            self._renewals = roster.renewals
            slow.clear()
            upto.clear()
        last = len(roster)
        for running in hosts:
            host = running.job
            first = upto.get(host.id, 0)
            if first == last:
                continue
            upto[host.id] = last
            if first == 0:
                slow[host.id] = np.zeros(roster.room)
            elif len(slow[host.id]) < last:
                slow[host.id] = np.concatenate((slow[host.id][:first], np.zeros(roster.room - first)))
            if last - first < _FEW:
                for row in range(first, last):
                    slow[host.id][row] = slowdown_beside(host, roster.jobs[row], self._rules, model)
            else:
                sifted = sift(host, roster.columns(slice(first, last)), self._rules, model, as_host=True)
                slow[host.id][first:last] = np.where(sifted.fine, sifted.slowdowns, 0.0)
