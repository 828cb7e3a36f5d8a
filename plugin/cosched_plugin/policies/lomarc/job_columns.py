"""Jobs in columns, one row for each: entered once and read many times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from cosched_plugin.api import (
    BOUNDS,
    SECOND_US,
    UNKNOWN_USAGE,
    Bools,
    Floats,
    Ints,
    JobSpec,
    PairModel,
    UsageColumns,
)
from cosched_plugin.policies.orders.history import is_short

_FIELDS: Final = 12
_SIZE: Final = 1
_ESTIMATE: Final = 2
_MATCHABLE: Final = 5
_LEAST: Final = 64  # rows of a new job table


class Jobs:
    """Many jobs in columns."""

    __slots__ = ("_jobs", "_rows", "_shares", "ids", "matchable", "short", "sizes", "submits_us", "times_s", "used")

    ids: Ints
    sizes: Ints
    submits_us: Ints

    def __init__(self, numbers: Ints, jobs: Sequence[JobSpec], rows: Ints) -> None:
        """``numbers`` [field, job]: see `_row`; these jobs are those of the ``rows`` of ``jobs``."""
        self._jobs, self._rows = jobs, rows
        self.ids, self.sizes, estimates_us, self.submits_us = numbers[:4]
        self.times_s: Floats = estimates_us / SECOND_US  # run time alone
        self.short: Bools = numbers[4] > 0
        self.matchable: Bools = numbers[5] > 0  # of medium length or longer, of known usage, and willing to share
        self.used: Bools = numbers[6] > 0  # their usage is known
        self._shares: Ints = numbers[7:]

    @classmethod
    def of(cls, jobs: Sequence[JobSpec], model: PairModel | None) -> Jobs:
        """Return the columns of ``jobs``; ``model`` is the believed model of pairs."""
        job_table = JobTable()
        job_table.renew(len(jobs), model)
        return job_table.columns(job_table.rows(jobs))

    @property
    def jobs(self) -> Sequence[JobSpec]:
        """Return the jobs themselves."""
        return [self._jobs[row] for row in self._rows.tolist()]

    @property
    def usage(self) -> UsageColumns:
        """Return the usage of the jobs; `UNKNOWN_USAGE` where it is not known."""
        return UsageColumns.of(self.ids, *self._shares)


class JobTable:
    """The columns of all jobs requested so far; ``renewals``: how often the table was emptied."""

    __slots__ = ("_numbers", "_row_of", "jobs", "model", "renewals")

    def __init__(self) -> None:
        self.model: PairModel | None = None  # the believed model of pairs
        self.jobs: list[JobSpec] = []  # by row
        self._row_of: dict[int, int] = {}
        self._numbers: Ints = np.zeros((_FIELDS, _LEAST), dtype=np.int64)
        self.renewals = 0

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def room(self) -> int:
        """Return the number of rows, unused ones included."""
        return int(self._numbers.shape[1])

    def rows(self, jobs: Sequence[JobSpec]) -> Ints:
        """Return the row of each job; new jobs are entered."""
        row_of = self._row_of
        try:
            return np.array([row_of[job.id] for job in jobs], dtype=np.int64)
        except KeyError:
            self._enter({job.id: job for job in jobs if job.id not in row_of})
            return np.array([row_of[job.id] for job in jobs], dtype=np.int64)

    def row(self, job: JobSpec) -> int:
        """Return the row of one job, entered if it is new."""
        row = self._row_of.get(job.id)
        return int(self.rows([job])[0]) if row is None else row

    def sizes_and_estimates_us(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return sizes and estimates of the jobs of these rows."""
        return self._numbers[_SIZE, rows], self._numbers[_ESTIMATE, rows]

    def rows_within(self, processes: int, among: slice) -> Ints:
        """Return the rows ``among`` some of jobs that may share nodes and are no larger: few, because most jobs are short."""
        sizes, matchable = self._numbers[_SIZE, among], self._numbers[_MATCHABLE, among]
        rows: Ints = ((sizes <= processes) & (matchable > 0)).nonzero()[0] + among.start
        return rows

    def columns(self, rows: Ints) -> Jobs:
        """Return the jobs of these rows."""
        return Jobs(self._numbers[:, rows], self.jobs, rows)

    def renew(self, queued: int, model: PairModel | None) -> None:
        """Set the believed model of pairs; forget all jobs if it is another model, or most rows cannot be ``queued`` jobs."""
        if self.model is not model or len(self._row_of) > 2 * queued + 1000:
            self.model = model
            self._row_of.clear()
            self.jobs = []  # a new list: columns made of the old one keep it
            self.renewals += 1

    def _enter(self, jobs: dict[int, JobSpec]) -> None:
        first = len(self._row_of)
        last = first + len(jobs)
        if last > self.room:
            grown = np.zeros((_FIELDS, 2 * last), dtype=np.int64)
            grown[:, :first] = self._numbers[:, :first]
            self._numbers = grown
        self._numbers[:, first:last] = np.array([_row(job, self.model) for job in jobs.values()], dtype=np.int64).T
        self.jobs += jobs.values()
        self._row_of.update(zip(jobs, range(first, last), strict=True))


def may_share(job: JobSpec, model: PairModel | None) -> bool:
    """Tell whether a job may be co-located at all: it is not short (no gain), and ``model`` knows it."""
    return not is_short(job) and model is not None and model.knows(job) and not job.exclusive


def _row(job: JobSpec, model: PairModel | None) -> tuple[int, ...]:
    bound, *shares = job.usage or UNKNOWN_USAGE
    return (
        job.id,
        job.processes,
        job.estimate_us,
        job.submit_us,
        is_short(job),
        may_share(job, model),
        job.usage is not None,
        BOUNDS.index(bound),
        *shares,
    )
