"""The constraints of LOMARC on jobs that share nodes, as named masks over many candidates at once.

One code path serves the decision, the funnel of the paper's table 5 and the reasons in a decision trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.lomarc.queue_table import Jobs, JobTable, QueueTable, may_share, queue_table

# The funnel, in the order of table 5; "type" is the paper's "matchable".
CONSTRAINTS: Final = ("short", "size", "memory", "type", "slowdown")
# Kinds of CPU, the paper's first: hyperthreaded, or time-shared, where only cpu-bound and disk-bound jobs match.
HYPERTHREADED, STANDARD = "hyperthreaded", "standard"
CPUS: Final = (HYPERTHREADED, STANDARD)
_CPU: Final = api.BOUNDS.index("cpu")
_DISK: Final = api.BOUNDS.index("disk")
_STANDARD_PARTNERS: Final = {_CPU: _DISK, _DISK: _CPU}


class Rules(NamedTuple):
    """The conditions of a match. ``standard``: the CPU is time-shared, and only cpu-bound and disk-bound jobs match."""

    max_slowdown: float
    standard: bool


class Filtered(NamedTuple):
    """The remaining candidates: ``fine`` [candidate], and for each constraint those that pass it and all before it."""

    fine: api.Bools
    slowdowns: api.Floats
    passed: Mapping[str, api.Bools]
    self_place: int | None = None  # place of the job itself among the candidates, if it is there
    pair: tuple[api.JobSpec, api.PairModel] | None = None  # the job itself, and the model that was asked

    def without(self, place: int) -> Filtered:
        """Return this result with one candidate left out of all counts: the job itself."""
        for mask in self.passed.values():
            mask[place] = False
        return self._replace(self_place=place)

    def facts(self, jobs: Jobs, fine: api.Ints, profits: api.Floats | None) -> dict[str, object]:
        """Return the facts for a decision trace: how many candidates were left after each constraint, and what removed the others.

        ``fine``: places of the candidates that were compared, in the order of ``profits`` (None: not computed).
        """
        ids = jobs.ids.tolist()
        before = np.ones(len(ids), dtype=np.bool_)
        if self.self_place is not None:
            before[self.self_place] = False
        left = {"all": int(np.count_nonzero(before))}
        removed: dict[str, list[int]] = {}
        for name, mask in self.passed.items():
            left[name] = int(np.count_nonzero(mask))
            removed[name] = [ids[place] for place in np.flatnonzero(before & ~mask).tolist()]
            before = mask
        facts: dict[str, object] = {"left": left, "removed": removed}
        by_resource = self._slowed_by(jobs, removed)
        if by_resource:
            facts["slowed_by"] = by_resource
        facts["candidates"] = [ids[place] for place in fine.tolist()]
        if profits is not None:
            facts["profits"] = [round(profit, 9) for profit in profits.tolist()]
        return facts

    def _slowed_by(self, jobs: Jobs, removed: Mapping[str, list[int]]) -> dict[str, list[int]]:
        """Return the jobs that were too slow, by the resource that adds most to the slowdown; none where the belief names none."""
        too_slow = set(removed.get("slowdown", ()))
        found: dict[str, list[int]] = {}
        for other in jobs.jobs if too_slow and self.pair is not None else ():
            if other.id in too_slow and self.pair is not None:
                resource = api.worst_resource(self.pair[0], other, self.pair[1])
                if resource is not None:
                    found.setdefault(resource, []).append(other.id)
        return found


def apply_constraints(
    job: api.JobSpec, candidates: Jobs, rules: Rules, model: api.PairModel, *, as_host: bool
) -> Filtered:
    """Check ``candidates`` against the constraints for sharing nodes with ``job``.

    ``as_host``: the candidates would join the nodes of ``job`` and may not be larger; else ``job`` would join theirs.
    The constraints on memory and type apply where the usage of jobs is known and the model includes it.
    """
    slow, compete = model.beside(job, candidates)
    fine = np.ones(len(candidates.ids), dtype=np.bool_)
    room = fits = fine
    if model.by_usage and job.usage is not None:
        own, memory_ppm = api.BOUNDS.index(job.usage[0]), job.usage[4]
        usage, unknown = candidates.usage, ~candidates.used
        room = (usage.memory + memory_ppm <= api.WHOLE_PPM) | unknown
        if rules.standard:
            wanted = _STANDARD_PARTNERS.get(own)
            fits = unknown if wanted is None else (usage.bound == wanted) | unknown
        else:
            # Two cpu-bound jobs match unless they compete for the same parts of the CPU.
            fits = (usage.bound != own) | ((usage.bound == _CPU) & ~compete) | unknown
    # Figure 4: `matchable`, then MAX_SLOWDOWN. Figure 1: short jobs are never matched.
    masks = (
        candidates.matchable & may_share(job, model),
        candidates.sizes <= job.processes if as_host else candidates.sizes >= job.processes,
        room,
        fits,
        slow <= rules.max_slowdown,
    )
    passed = {}
    for name, mask in zip(CONSTRAINTS, masks, strict=True):
        fine = fine & mask
        passed[name] = fine
    return Filtered(fine, slow, passed, pair=(job, model))


def slowdown_beside(host: api.JobSpec, guest: api.JobSpec, rules: Rules, model: api.PairModel) -> float:
    """Return the slowdown of two jobs, the second on the nodes of the first; 0 where `apply_constraints` would not let them share."""
    if guest.processes > host.processes or not (may_share(guest, model) and may_share(host, model)):
        return 0.0
    one, other = host.usage, guest.usage
    if model.by_usage and one is not None and other is not None:
        if one[4] + other[4] > api.WHOLE_PPM:
            return 0.0
        own, its = api.BOUNDS.index(one[0]), api.BOUNDS.index(other[0])
        if rules.standard and _STANDARD_PARTNERS.get(own) != its:
            return 0.0
        if not rules.standard and own == its and (own != _CPU or model.compete(host, guest)):
            return 0.0
    slowdown = model.both(host, guest)
    return slowdown if slowdown <= rules.max_slowdown else 0.0


# The running jobs that a pending job may join: a cache of `apply_constraints`, whose result for two jobs never changes.

_FEW: Final = 16  # number of pairs below which arrays do not pay


class Pairs(NamedTuple):
    """Pending jobs and the running jobs that they may join, in columns: all hosts of the first, all of the second, ..."""

    newcomers: api.Ints  # places in the queue
    ranks: api.Ints  # places of the hosts among `hosts`
    slowdowns: api.Floats
    hosts: Sequence[api.Running]  # by start and id
    sizes: api.Ints  # of the hosts
    left_us: api.Ints  # expected time left of the hosts

    def only(self, which: api.Ints) -> Pairs:
        """Return these pairs."""
        of_pairs = (self.newcomers[which], self.ranks[which], self.slowdowns[which])
        return tuple.__new__(Pairs, (*of_pairs, *self[3:]))  # a call of the class takes twice as long

    @property
    def left_s(self) -> api.Floats:
        """Return the expected time left of the hosts, in seconds."""
        return self.left_us / api.SECOND_US


class Hosts:
    """Pairs of a pending and a running job that may share the nodes of the running one."""

    __slots__ = (
        "_alone",
        "_alone_at",
        "_hospitable",
        "_job_table",
        "_learnt",
        "_may_share",
        "_renewals",
        "_rules",
        "_slow",
        "_upto",
    )

    def __init__(self, rules: Rules, job_table: JobTable) -> None:
        self._rules = rules
        self._job_table = job_table
        self._renewals = 0  # of the job table, when this cache was begun
        # By running job: slowdown beside each of the job table; 0: may not share
        self._slow: dict[int, api.Floats] = {}
        self._upto: dict[int, int] = {}  # by running job: how many rows of the job table it was checked against
        self._learnt = (0, 0, -1)  # what it was last checked against, and the version of the view then
        self._may_share: dict[int, bool] = {}  # by running job that is alone
        self._alone: list[int] = []  # ids: times may change while nodes and jobs do not
        self._hospitable: list[int] = []
        self._alone_at = -1

    def pairs(self, table: QueueTable, hosts: Sequence[api.Running], view: api.View, model: api.PairModel) -> Pairs:
        """Return which pending job may join which of the `hospitable` jobs now; the hosts of each by start and id."""
        self._learn(hosts, view, model)
        rows = table.rows
        slow = np.array([self._slow[host.job.id][rows] for host in hosts]).reshape(len(hosts), len(rows))
        newcomers, ranks = slow.T.nonzero()
        return self._pairs_in_columns(newcomers, ranks, slow[ranks, newcomers], hosts, view)

    def pairs_of(
        self,
        job: api.JobSpec,
        pending: api.PendingJobs,
        hosts: Sequence[api.Running],
        view: api.View,
        model: api.PairModel,
    ) -> Pairs | None:
        """Return the pairs of one pending job; None if it may join no running job."""
        row = self._job_table.row(job)
        self._learn(hosts, view, model)
        slow = [self._slow[host.job.id][row] for host in hosts]
        if not any(slow):
            return None
        slowdowns = np.array(slow)
        ranks = slowdowns.nonzero()[0]
        newcomers = np.full(len(ranks), queue_table(pending, self._job_table).place(job))
        return self._pairs_in_columns(newcomers, ranks, slowdowns[ranks], hosts, view)

    def _pairs_in_columns(
        self, newcomers: api.Ints, ranks: api.Ints, slowdowns: api.Floats, hosts: Sequence[api.Running], view: api.View
    ) -> Pairs:
        sizes = np.array([host.job.processes for host in hosts], dtype=np.int64)
        left_us = np.array(view.times_left_us(hosts), dtype=np.int64)
        return Pairs(newcomers, ranks, slowdowns, hosts, sizes, left_us)

    def let_in(self, pairs: Pairs, table: QueueTable, view: api.View, gate: api.Gatekeeper) -> Pairs:
        """Return the pairs of the newcomers that ``gate`` may admit beside a host."""
        now_us, ranks, newcomers = view.now_us, pairs.ranks, pairs.newcomers
        sizes, estimates_us = self._job_table.sizes_and_estimates_us(table.rows[newcomers])
        left_us = pairs.left_us[ranks]
        overlap_us = np.minimum(left_us, estimates_us)
        # A microsecond less allows for rounding; `join` is exact.
        slower_us = now_us + overlap_us * (pairs.slowdowns - 1.0) - 1.0
        since_us = now_us + left_us
        may = gate.may_hold_each(since_us, left_us + slower_us, pairs.sizes[ranks])
        may &= gate.may_hold_each(since_us, estimates_us + slower_us, sizes)
        admitted = may.nonzero()[0]
        if not len(admitted):
            return pairs.only(admitted)
        some = np.zeros(len(table.rows), dtype=np.bool_)
        some[newcomers[admitted]] = True
        return pairs.only(some[newcomers].nonzero()[0])

    def available(self, view: api.View) -> list[api.Running]:
        """Return the running jobs that share no node with another and are not stopped, by start and id."""
        running_jobs = self._renew(view)
        return [running_jobs[job_id] for job_id in self._alone]

    def hospitable(self, view: api.View) -> list[api.Running]:
        """Return the running jobs that may be co-located."""
        running_jobs = self._renew(view)
        return [running_jobs[job_id] for job_id in self._hospitable]

    def any_hospitable(self, view: api.View) -> bool:
        """Tell whether there are such jobs."""
        self._renew(view)
        return bool(self._hospitable)

    def _renew(self, view: api.View) -> Mapping[int, api.Running]:
        """Bring the lists of hosts up to the view's version, and return all running jobs.

        Whether a job may share never changes, so only jobs that are new are asked.
        """
        version, jobs = view.version, view.running
        if self._alone_at == version:
            return jobs
        self._alone_at = version
        nodes_by_job, model, known = view.nodes_by_job, view.pairs, self._may_share
        once = twice = 0
        for job_id in jobs:
            nodes = nodes_by_job[job_id]
            twice |= once & nodes
            once |= nodes
        alone = [
            (running.start_us, job_id)
            for job_id, running in jobs.items()
            if running.suspended_us is None and not nodes_by_job[job_id] & twice
        ]
        alone.sort()
        self._alone = [job_id for _, job_id in alone]
        self._may_share = {
            job_id: known[job_id] if job_id in known else may_share(jobs[job_id].job, model) for job_id in self._alone
        }
        self._hospitable = [job_id for job_id in self._alone if self._may_share[job_id]]
        return jobs

    def facts(self, job: api.JobSpec, profits: Mapping[int, float], view: api.View) -> dict[str, object]:
        """Return the facts for a decision trace about a search; ``profits``: by host, of the hosts compared."""
        assert view.pairs is not None  # otherwise the search would have found nothing
        jobs = Jobs.of([running.job for running in self.available(view)], view.pairs)
        filtered = apply_constraints(job, jobs, self._rules, view.pairs, as_host=False)
        fine = np.flatnonzero(filtered.fine)
        ids = jobs.ids.tolist()
        told = np.array([profits[ids[place]] for place in fine.tolist()]) if profits else None
        return filtered.facts(jobs, fine, told) | {"not_alone": sorted(set(view.running) - set(ids))}

    def _learn(self, hosts: Sequence[api.Running], view: api.View, model: api.PairModel) -> None:
        """Check running jobs against the rows of the job table that they were not checked against yet."""
        job_table, slow, upto = self._job_table, self._slow, self._upto
        last = len(job_table)
        now = (job_table.renewals, last, self._alone_at)  # `hosts` are those of this version
        if self._learnt == now:
            return
        self._learnt = now
        if self._renewals != job_table.renewals or len(slow) > 2 * len(view.running) + _FEW:
            self._renewals = job_table.renewals
            slow.clear()
            upto.clear()
        for running in hosts:
            host = running.job
            first = upto.get(host.id, 0)
            if first == last:
                continue
            upto[host.id] = last
            if first == 0:
                slow[host.id] = np.zeros(job_table.room)
            elif len(slow[host.id]) < last:
                slow[host.id] = np.concatenate((slow[host.id][:first], np.zeros(job_table.room - first)))
            if last - first < _FEW:
                beside = slow[host.id]
                for row in range(first, last):
                    beside[row] = slowdown_beside(host, job_table.jobs[row], self._rules, model)
            else:
                rows = job_table.rows_within(host.processes, slice(first, last))
                if len(rows):
                    filtered = apply_constraints(host, job_table.columns(rows), self._rules, model, as_host=True)
                    slow[host.id][rows] = np.where(filtered.fine, filtered.slowdowns, 0.0)
