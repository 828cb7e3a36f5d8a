"""The slowdowns of running jobs and pending ones by each other: a model is asked once about each pair."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Final

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.lomarc.queue_table import Jobs, JobTable

_LEFT: Final = 64  # jobs that have left may be remembered so far


class Slowdowns:
    """What the believed model says of running jobs (hosts) beside pending ones; inf: the two may not share nodes.

    A cache of pure functions of the jobs. Jobs are those of some rows of ``table``.
    """

    __slots__ = ("_both", "_each", "_interventions", "_renewals", "table")

    def __init__(self) -> None:
        self.table = JobTable()
        self._both = _Known(1)
        self._each = _Known(2)
        self._renewals = 0
        self._interventions = 0

    # Must be called before each pass, or rows mean other jobs.
    def begin(self, view: api.View) -> None:
        """Follow the queue, and forget what was known of other descriptions of jobs, of another model, or of jobs that are gone."""
        changed = self._interventions != view.interventions  # a job may have another description
        if changed:
            self._interventions = view.interventions
            self.table = JobTable()
        self.table.renew(view.queued, view.pairs)
        if changed or self._renewals != self.table.renewals:
            self._renewals = self.table.renewals
            self._both, self._each = _Known(1), _Known(2)
        self._both.keep(view.running)
        self._each.keep(view.running)

    def both(self, hosts: Sequence[api.JobSpec], rows: api.Ints, model: api.PairModel) -> api.Floats:
        """Return the larger slowdown of the two [host, job]."""
        return self._both.read(hosts, rows, self.table, lambda some, jobs: (_larger(some, jobs, model),))[0]

    def each(self, hosts: Sequence[api.JobSpec], rows: api.Ints, view: api.View) -> tuple[api.Floats, api.Floats]:
        """Return the slowdown of the job by the host, and that of the host by the job [host, job]."""
        model = view.pairs
        if model is not None and model.mutual:
            both = np.maximum(self.both(hosts, rows, model), 1.0)
            return both, both

        def one_by_one(some: Jobs, jobs: Jobs) -> Sequence[api.Floats]:
            others = jobs.jobs
            pairs = np.array([[of_two(job, host, view) for job in others] for host in some.jobs])
            return pairs[:, :, 0], pairs[:, :, 1]

        own, theirs = self._each.read(hosts, rows, self.table, one_by_one)
        return own, theirs


_Ask = Callable[[Jobs, Jobs], Sequence[api.Floats]]  # numbers of some hosts and jobs [host, job]


class _Known:
    """Numbers of hosts and rows of a job table."""

    __slots__ = ("_free", "_numbers", "_place_of")

    def __init__(self, count: int) -> None:
        """``count``: numbers of each pair."""
        self._place_of: dict[int, int] = {}  # of a host, by id
        self._free: list[int] = []  # places
        self._numbers = [np.full((0, 0), np.nan) for _ in range(count)]  # [place, row]; NaN: not asked for yet

    def keep(self, running: Collection[int]) -> None:
        """Forget jobs that run no more, once they are many."""
        if len(self._place_of) > len(running) + _LEFT:
            for job_id in [job_id for job_id in self._place_of if job_id not in running]:
                place = self._place_of.pop(job_id)
                self._free.append(place)
                for numbers in self._numbers:
                    numbers[place] = np.nan

    def read(self, hosts: Sequence[api.JobSpec], rows: api.Ints, table: JobTable, ask: _Ask) -> list[api.Floats]:
        """Return the numbers [host, row]; ``ask`` is called for those that are not known."""
        try:
            places = np.array([[self._place_of[host.id]] for host in hosts])
        except KeyError:
            self._enter([host.id for host in hosts if host.id not in self._place_of])
            places = np.array([[self._place_of[host.id]] for host in hosts])
        if self._numbers[0].shape[1] < len(table):
            self._grow(0, len(table))
        found = [numbers[places, rows] for numbers in self._numbers]
        missing = np.isnan(found[0])
        if missing.any():
            new = missing.all(axis=1)  # mostly hosts that have started, or jobs that have come
            for which, columns in ((new, missing[new].any(axis=0)), (~new, missing[~new].any(axis=0))):
                some, at = which.nonzero()[0], columns.nonzero()[0]
                if len(some) and len(at):
                    asked = table.columns(table.rows([hosts[number] for number in some.tolist()]))
                    for numbers, answer in zip(self._numbers, ask(asked, table.columns(rows[at])), strict=True):
                        numbers[places[some], rows[at]] = answer
            found = [numbers[places, rows] for numbers in self._numbers]
        return found

    def _enter(self, job_ids: Sequence[int]) -> None:
        if len(job_ids) > len(self._free):
            self._grow(len(job_ids) - len(self._free), 0)
        for job_id in job_ids:
            self._place_of[job_id] = self._free.pop()

    def _grow(self, places: int, rows: int) -> None:
        """Make room for so many more hosts, and for rows up to a number."""
        before, width = self._numbers[0].shape
        height = before + places + (before // 4 if places else 0)
        width = max(width, rows + rows // 4)
        self._free += range(before, height)
        for number, numbers in enumerate(self._numbers):
            grown = np.full((height, width), np.nan)
            grown[: numbers.shape[0], : numbers.shape[1]] = numbers
            self._numbers[number] = grown


def _larger(hosts: Jobs, jobs: Jobs, model: api.PairModel) -> api.Floats:
    """Ask the model about each host, or about each job where they are fewer: of two it has one number."""
    if len(hosts.ids) <= len(jobs.ids):
        found = np.array([model.beside(host, jobs).slowdowns for host in hosts.jobs])
    else:
        found = np.array([model.beside(job, hosts).slowdowns for job in jobs.jobs]).T
    may = hosts.willing[:, None] & jobs.willing
    if model.by_usage:
        may &= _memory(hosts)[:, None] + _memory(jobs) <= api.WHOLE_PPM
    return np.where(may, found, inf)


def _memory(jobs: Jobs) -> api.Ints:
    """Return the part of a node's memory that each job takes; less than none where that is not known."""
    memory: api.Ints = np.where(jobs.used, jobs.usage.memory, -api.WHOLE_PPM)
    return memory


def of_two(job: api.JobSpec, other: api.JobSpec, view: api.View) -> tuple[float, float]:
    """Return the slowdown of each of two jobs by the other; inf where they may not share nodes."""
    if not fit_together(job, other, view):
        return inf, inf
    return api.slowdown_by(job, other, view.pairs), api.slowdown_by(other, job, view.pairs)


def fit_together(job: api.JobSpec, other: api.JobSpec, view: api.View) -> bool:
    """Tell whether the memory of a node holds both, where the model counts it."""
    model = view.pairs
    if model is None or not model.by_usage or job.usage is None or other.usage is None:
        return True
    return job.usage[4] + other.usage[4] <= api.WHOLE_PPM
