"""Which running jobs a waiting one may join: a cache of what `sift` says of pairs, which never changes for two given jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cosched_plugin.api import Floats, Ints, JobSpec, LomarcModel, Running, View, any_layer
from cosched_plugin.policies.sift import SECOND_US, Jobs, Rules, may_share, sift
from cosched_plugin.policies.waiting import Waiting


class Pairs(NamedTuple):
    """Waiting jobs beside running ones that they may join, in columns: all hosts of the first, all of the second, ..."""

    newcomers: Ints  # places in the queue
    hosts: list[Running]
    sizes: Ints  # of the hosts
    left_s: Floats  # expected time left of the hosts
    slowdowns: Floats


class Hosts:
    """Pairs of a waiting and a running job that may share the nodes of the running one."""

    __slots__ = ("_alone", "_alone_at", "_known", "_rules", "_seen", "_slow")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._seen: dict[int, JobSpec] = {}  # jobs that wait or have waited, held against all running ones
        self._known: set[int] = set()  # running jobs that all seen ones were held against
        self._slow: dict[int, dict[int, float]] = {}  # slowdown by running job, by waiting job
        self._alone: list[int] = []  # by id: times may change while nodes and jobs do not
        self._alone_at = -1

    def pairs(self, waiting: Waiting, view: View, model: LomarcModel) -> Pairs:
        """Return which waiting job may join which running one now; the hosts of each by start and id."""
        self._learn(waiting.jobs, view, model)
        places = waiting.places()
        found: list[tuple[int, int, float]] = []
        hosts = self.available(view)
        for rank, host in enumerate(hosts):
            slow = self._slow.get(host.job.id)
            if slow:
                found += [(places[job_id], rank, sl) for job_id, sl in slow.items() if job_id in places]
        found.sort()
        ranks = [rank for _, rank, _ in found]
        sizes = np.array([host.job.processes for host in hosts], dtype=np.int64)
        left_us = np.array([view.expected_end(host) - view.now_us for host in hosts], dtype=np.int64)
        return Pairs(
            np.array([place for place, _, _ in found], dtype=np.int64),
            [hosts[rank] for rank in ranks],
            sizes[ranks],
            left_us[ranks] / SECOND_US,
            np.array([slowdown for _, _, slowdown in found]),
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

    def looked(self, job: JobSpec, profits: Mapping[int, float], view: View) -> dict[str, object]:
        """Return what a decision trace should say of a search; ``profits``: by host, of those that were compared."""
        assert view.pairs is not None  # or nothing would have been found
        available = self.available(view)
        jobs = Jobs.of([running.job for running in available])
        sifted = sift(job, jobs, self._rules, view.pairs, as_host=False)
        fine = np.flatnonzero(sifted.fine)
        told = np.array([profits[jobs.ids[place]] for place in fine.tolist()]) if profits else None
        return sifted.facts(jobs, fine, told) | {"not_alone": sorted(set(view.running) - set(jobs.ids))}

    def _learn(self, waiting: Sequence[JobSpec], view: View, model: LomarcModel) -> None:
        """Hold every new waiting job against all running ones, and every new running job against all that wait."""
        running = view.running
        if len(self._known) != len(running) or not self._known <= running.keys():
            for host_id in self._known - running.keys():
                self._known.discard(host_id)
                self._slow.pop(host_id, None)
            new = [running[job_id].job for job_id in running.keys() - self._known]
            self._known.update([job.id for job in new])
            hosts = [job for job in new if may_share(job)]
            if hosts and self._seen:
                jobs = Jobs.of(list(self._seen.values()))
                for host in hosts:
                    sifted = sift(host, jobs, self._rules, model, as_host=True)
                    self._slow[host.id] = {
                        jobs.ids[place]: float(sifted.slowdowns[place])
                        for place in np.flatnonzero(sifted.fine).tolist()
                    }
        fresh = [job for job in waiting if job.id not in self._seen]
        if fresh:
            self._prune(view)
            self._seen |= {job.id: job for job in fresh}
            hosts = [running[job_id].job for job_id in self._known if may_share(running[job_id].job)]
            if hosts:
                columns = Jobs.of(hosts)
                for job in fresh:
                    self._against(job, columns, model)

    def _against(self, job: JobSpec, hosts: Jobs, model: LomarcModel) -> None:
        if may_share(job):
            sifted = sift(job, hosts, self._rules, model, as_host=False)
            for place in np.flatnonzero(sifted.fine).tolist():
                self._slow.setdefault(hosts.ids[place], {})[job.id] = float(sifted.slowdowns[place])

    def _prune(self, view: View) -> None:
        """Forget jobs that wait no more, now and then."""
        if len(self._seen) > 2 * view.queued + 100:
            there = {job.id for job in view.queue}
            self._seen = {job_id: job for job_id, job in self._seen.items() if job_id in there}
            for host_id, slow in self._slow.items():
                self._slow[host_id] = {job_id: value for job_id, value in slow.items() if job_id in there}
