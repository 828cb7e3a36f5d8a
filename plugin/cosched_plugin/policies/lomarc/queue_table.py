"""The queue in columns, and the expected arrivals while the machine works it off."""

from __future__ import annotations

import numpy as np

from cosched_plugin.api import (
    SECOND_US,
    Floats,
    Ints,
    JobSpec,
    PendingJobs,
    View,
)
from cosched_plugin.policies.lomarc.job_columns import Jobs, JobTable
from cosched_plugin.policies.lomarc.profit import Arrivals, Future
from cosched_plugin.policies.orders.history import Tally, history


class QueueTable:
    """A queue in columns."""

    __slots__ = ("_columns", "_job_table", "_work_s", "jobs", "rows")

    def __init__(self, jobs: list[JobSpec], job_table: JobTable) -> None:
        self.jobs = jobs
        self.rows: Ints = job_table.rows(jobs)  # of the job table
        self._job_table = job_table
        self._columns: Jobs | None = None
        self._work_s: Floats | None = None

    @property
    def columns(self) -> Jobs:
        """Return the jobs themselves; few scans of a queue need them."""
        if self._columns is None:
            self._columns = self._job_table.columns(self.rows)
        return self._columns

    def place(self, job: JobSpec) -> int:
        """Return a job's place in the queue."""
        return int((self.rows == self._job_table.row(job)).argmax())

    def work_s(self, processors: int) -> Floats:
        """Return each job's work divided by the number of processors, in seconds."""
        if self._work_s is None:
            self._work_s = self.columns.times_s * self.columns.sizes / processors
        return self._work_s

    def future(self, view: View) -> Future:
        """Return the expected arrivals while the machine works off this queue, by all arrivals so far."""
        seen = history(view)
        first_us = int(np.minimum.reduce(self.columns.submits_us))
        if seen.short.jobs or seen.longer.jobs:
            first_us = min(first_us, seen.since_us)
        now_us = view.wall_us(view.now_us)  # as submissions count
        if now_us <= first_us:
            return Future()
        processors = view.machine.cores
        work_s = self.work_s(processors)
        short = self.columns.short
        spans = float(np.add.reduce(work_s)) * SECOND_US / (now_us - first_us)

        def arrivals(started: Tally, pending: Floats) -> Arrivals:
            jobs = started.jobs + len(pending)
            # In floats: a quotient of integers beyond 2**53 rounds differently, and may break ties the other way.
            work = float(started.work_us) / float(processors * SECOND_US) + float(np.add.reduce(pending))
            return Arrivals(jobs * spans, work / jobs) if jobs else Arrivals()

        return Future(arrivals(seen.short, work_s[short]), arrivals(seen.longer, work_s[~short]))


def queue_table(pending: PendingJobs, job_table: JobTable) -> QueueTable:
    """Return a queue in columns, computed once; ``job_table`` must always be the same one, not renewed in between."""
    table = pending.memo
    if not isinstance(table, QueueTable):
        table = pending.memo = QueueTable(pending.jobs, job_table)
    return table
