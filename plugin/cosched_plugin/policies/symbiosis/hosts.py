"""The running jobs with threads open beside them, and which of these are the cheapest for each of several pending jobs.

Tables are [host, job], with hosts by start and id.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from cosched_plugin import api


class Host(NamedTuple):
    """A running job with hardware threads open beside it."""

    running: api.Running
    tenancy: api.Tenancy  # at present
    open: api.Layers  # the free threads of its cores
    room: int  # how many these are

    def on(self, nodes: api.NodeSet) -> Host:
        """Return the host as a job sees it that may have these nodes only."""
        open_ = api.on_nodes(self.open, nodes)
        return Host(self.running, self.tenancy, open_, api.size(open_))


class OpenHosts:
    """Hosts at one instant, in columns."""

    __slots__ = (
        "ends_us", "estimates_us", "hosts", "jobs", "lasts_us", "left_us", "lost_us", "ratios", "room", "rooms", "searches", "sizes",
    )  # fmt: skip

    def __init__(self, hosts: list[Host], view: api.View) -> None:
        """``hosts`` are by start and id."""
        self.hosts = hosts
        self.jobs = [host.running.job for host in hosts]
        self.searches: dict[bool, Search] = {}  # the last one, by whether one thread of each is asked for
        self.room = sum([host.room for host in hosts])
        ends_us = [view.expected_end(host.running) for host in hosts]
        self.rooms = _column([host.room for host in hosts])
        self.sizes = _column([job.processes for job in self.jobs])
        self.estimates_us = _column([job.estimate_us for job in self.jobs])
        self.ends_us = _column(ends_us)  # expected
        # When it has left its nodes by its own limit, as a manager that knows limits alone plans
        self.lasts_us = _column([max(host.running.limit_end_us, end) for host, end in zip(hosts, ends_us, strict=True)])
        self.left_us = _column([host.tenancy.left_us for host in hosts])
        # What neighbours have cost it, and what its present ones still will
        paid = [(host.tenancy.lost_us - host.tenancy.left_us) for host in hosts]
        self.lost_us = _column([lost + end - view.now_us for lost, end in zip(paid, ends_us, strict=True)])
        self.ratios: api.Floats = np.array([host.tenancy.ratio for host in hosts], dtype=np.float64)[:, None]

    def losses(self, slower: api.Floats) -> api.Floats:
        """Return the processes by which each host does less at other ratios."""
        losses: api.Floats = self.sizes / self.ratios - self.sizes / slower
        return losses

    def later_us(self, slower: api.Floats, spans_us: api.Floats) -> api.Floats:
        """Return how much later each host ends that runs at other ratios for a span, or until its end."""
        later_us: api.Floats = np.minimum(spans_us, self.left_us * slower) * (1.0 / self.ratios - 1.0 / slower)
        return later_us

    def cheapest(
        self, costs: api.Floats, losses: api.Floats, own: api.Floats, sizes: api.Ints, free: api.Ints
    ) -> Ranked:
        """Rank hosts by costs (inf: not to be had); ``own``: each job's slowdown; ``free``: threads that it may have besides."""
        places = np.arange(len(sizes))
        order = np.argsort(costs, axis=0, kind="stable")
        had = costs[order, places] < inf
        room = np.where(had, self.rooms[order, 0], 0).cumsum(axis=0) + free
        needed = (room < sizes).sum(axis=0)  # hosts before the last one
        last = np.minimum(needed, len(self.hosts) - 1)
        worst = np.maximum.accumulate(own[order, places], axis=0)[last, places]
        lost = losses[order, places].cumsum(axis=0)[last, places]
        enough = (needed < len(self.hosts)) & had[last, places]
        return Ranked(order, needed, np.where(enough, sizes / worst - lost, -inf))


class Ranked(NamedTuple):
    """Hosts of several jobs."""

    order: api.Ints  # places of hosts, those of each job from the cheapest on
    # of each job: hosts before the last one that it needs; as many as there are: all have too little room
    needed: api.Ints
    gains: api.Floats  # of each job beside these hosts; -inf: there are too few


class Search(NamedTuple):
    """The cheapest hosts of some jobs, as a gate lets them be held."""

    gate: api.Gate
    column: dict[int, int]  # of each job, by id
    ranked: Ranked
    fine: list[bool]  # whether a job gains enough
    empty: list[bool]  # whether it may have threads of empty nodes besides

    def hosts_of(self, job: api.JobSpec, hosts: OpenHosts) -> list[Host]:
        """Return the hosts of a job that gains enough."""
        place = self.column[job.id]
        return [hosts.hosts[number] for number in self.ranked.order[: self.ranked.needed[place] + 1, place].tolist()]

    def has_too_few(self, job: api.JobSpec, hosts: OpenHosts) -> bool:
        """Tell whether all hosts that may be held have too little room for a job."""
        return int(self.ranked.needed[self.column[job.id]]) == len(hosts.hosts)

    def unfit(self) -> set[int]:
        """Return the jobs that gain too little, or have too few hosts."""
        return {job_id for job_id, place in self.column.items() if not self.fine[place]}

    def with_too_few(self, hosts: OpenHosts) -> set[int]:
        """Return the jobs for which all hosts that may be held have too little room."""
        too_few = (self.ranked.needed == len(hosts.hosts)).tolist()
        return {job_id for job_id, place in self.column.items() if too_few[place]}


def _column(numbers: list[int]) -> api.Ints:
    return np.array(numbers, dtype=np.int64)[:, None]
