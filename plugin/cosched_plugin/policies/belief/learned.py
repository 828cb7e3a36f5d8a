"""A belief about pairs of jobs that is learned: by application, refined by user, with trials of what is not known well."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import ClassVar, Final

import numpy as np

from cosched_plugin.api import (
    PAIR_BELIEF,
    Believer,
    Beside,
    Changes,
    Floats,
    JobColumns,
    JobFacts,
    Needs,
    NoteValue,
    PairModel,
    Running,
    View,
)
from cosched_plugin.policies.belief.estimate import Estimates, estimate
from cosched_plugin.policies.belief.note import MICRO, NOTE, Memory, application

_GRAIN: Final = 0.005  # of a logarithm: smaller differences do not make searches begin anew
_MOST: Final = 6.9  # a slowdown of 992, as a logarithm
_USERS_KNOWN_BY: Final = 4  # measurements by which a user's jobs count half by themselves
_MIX: Final = 0x9E3779B97F4A7C15  # splitmix64's: ids that follow each other are drawn apart
_WORD: Final = (1 << 64) - 1


class LearnedPairs(PairModel):
    """Slowdowns by estimate: with an error added, or, of a job that is on trial, with the error taken off.

    What else is known of pairs, such as whether both fit into the memory of a node, is as the site says.
    """

    __slots__ = ("_given", "_index", "_spreads", "_tables", "_trials", "_users")
    name: Final = "learned"

    def __init__(
        self,
        estimates: Estimates,
        users: Mapping[tuple[str, str], float],
        *,
        errors: float,
        trials: int,
        given: PairModel | None,
    ) -> None:
        """``users``: by how much the logarithm is larger, by application and user."""
        self._index = {name: number for number, name in enumerate(estimates.applications)}
        below, above = (estimates.means + sign * errors * estimates.errors for sign in (-1, 1))
        self._tables = tuple(np.rint(table / _GRAIN) * _GRAIN for table in (above, below))
        # A job that shares nodes may also gain, as it is on more of them: as much as beside its best neighbour.
        self._spreads = tuple(np.minimum(table.min(axis=1), 0.0) for table in self._tables)
        self._users = users
        self._trials = trials
        self._given = given

    def same_as(self, other: LearnedPairs) -> bool:
        """Tell whether both say the same."""
        return (
            self._index == other._index
            and self._users == other._users
            and self._given is other._given
            and all(map(np.array_equal, self._tables, other._tables))
        )

    @property
    def by_usage(self) -> bool:
        """Tell whether the constraints on bounds and memory apply: where the site's model says so."""
        return self._given is not None and self._given.by_usage

    def compete(self, job: JobFacts, other: JobFacts) -> bool:
        """Tell whether the two compete for parts of a CPU, as the site's model says."""
        return self._given is not None and self._given.compete(job, other)

    def own(self, job: JobFacts, cpus: int, cores: int) -> float | None:
        """Return the job's slowdown by itself, as the site's model says."""
        return None if self._given is None else self._given.own(job, cpus, cores)

    def spread(self, job: JobFacts) -> float | None:
        """Return the ratio of the job's run times beside its best neighbour and alone on all cores of its nodes, below 1; else None."""
        spread = float(self._spreads[self._is_tried(job)][self._place(job)])
        return exp(spread) if spread < 0.0 else None

    def knows(self, job: JobFacts) -> bool:
        """Tell whether the job has a name or a user."""
        return bool(application(job))

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        """Return the estimate for a job beside another one."""
        table = self._tables[self._is_tried(job) or self._is_tried(other)]
        here = self._place(job)
        user = self._users.get((application(job), job.user), 0.0)
        value = float(table[here, self._place(other)]) + (user - float(self._spreads[self._is_tried(job)][here]))
        return exp(min(max(value, 0.0), _MOST))

    def beside(self, job: JobFacts, others: JobColumns) -> Beside:
        """Return the larger slowdown of ``job`` and each of the others."""
        jobs = others.jobs
        places = np.array([self._place(other) for other in jobs], dtype=np.int64)
        tried = np.array([self._is_tried(other) for other in jobs], dtype=np.bool_)
        users: Floats | float = 0.0
        if self._users:
            users = np.array([self._users.get((application(other), other.user), 0.0) for other in jobs])
        here, is_tried = self._place(job), self._is_tried(job)
        mine = self._users.get((application(job), job.user), 0.0) - float(self._spreads[is_tried][here])
        users = users - np.where(tried, self._spreads[1][places], self._spreads[0][places])
        above, below = (np.maximum(table[here, places] + mine, table[places, here] + users) for table in self._tables)
        logs = np.clip(np.where(tried | is_tried, below, above), 0.0, _MOST)
        slowdowns = np.array([exp(value) for value in logs.tolist()])  # bit-identical to `slowdown`
        given = self._given
        if given is None or not given.by_usage:
            return Beside(slowdowns, np.zeros(len(jobs), dtype=np.bool_))
        return Beside(slowdowns, given.beside(job, others).compete)

    def _place(self, job: JobFacts) -> int:
        return self._index.get(application(job), len(self._index))

    def _is_tried(self, job: JobFacts) -> bool:
        return bool(self._trials) and (job.id * _MIX & _WORD) >> 32 < (1 << 32) // self._trials


class Learned(Believer):
    """Learns from the slowdowns that the manager measures of jobs beside others of one application."""

    note: ClassVar[str] = NOTE
    provides: ClassVar[Needs] = frozenset({PAIR_BELIEF})

    def __init__(self, *, trials: int = 20, errors: float = 0.75, most_pairs: int = 1_000) -> None:
        self._trials = trials
        self._errors = errors
        self._most = most_pairs
        self._read: NoteValue = False  # a cache: a note, and the model in it
        self._model: LearnedPairs | None = None

    def remember(self, changes: Changes, view: View) -> NoteValue:
        """Add measured slowdowns."""
        note = view.note(None, NOTE)
        memory: Memory | None = None
        for running in changes.measured:
            beside = {application(other.job) for other in _neighbours(running, view)}
            if len(beside) != 1 or "" in beside or not application(running.job):
                continue  # among neighbours of several kinds it is not known which one it was
            memory = memory or Memory(note)
            memory.learn(running.job, beside.pop(), running.measured_ppm)
        return note if memory is None else memory.note(self._most)

    def pairs(self, view: View) -> PairModel | None:
        """Return the model that follows from the note."""
        note = view.note(None, NOTE)
        if self._model is None or note is not self._read:
            memory = Memory(note)
            users = {
                key: round(its.mean / MICRO * its.times / (its.times + _USERS_KNOWN_BY) / _GRAIN) * _GRAIN
                for key, its in memory.users.items()
            }
            model = LearnedPairs(
                estimate(memory.pairs),
                {key: value for key, value in sorted(users.items()) if value},
                errors=self._errors,
                trials=self._trials,
                given=view.given_pairs,
            )
            self._read = note
            if self._model is None or not model.same_as(self._model):
                self._model = model
        return self._model


def _neighbours(running: Running, view: View) -> list[Running]:
    """Return the running jobs that share nodes with one."""
    nodes_by_job = view.nodes_by_job
    nodes = nodes_by_job[running.job.id]
    return [
        other
        for job_id, other in view.running.items()
        if nodes_by_job[job_id] & nodes and job_id != running.job.id and other.suspended_us is None
    ]
