"""The pending jobs during one scan of the queue. A new object is made when a job starts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from cosched_plugin.protocol.messages import JobSpec


class PendingJobs:
    """Pending jobs in queue order, at one instant."""

    __slots__ = ("_gone", "_jobs", "memo")

    def __init__(self, jobs: list[JobSpec], gone: frozenset[int] = frozenset()) -> None:
        """``gone``: jobs to leave out."""
        self._jobs = jobs
        self._gone = gone
        self.memo: object = None  # a matching's cache, derived from this queue

    def without(self, job_ids: Collection[int]) -> PendingJobs:
        """Return the queue without some jobs."""
        return PendingJobs(self._jobs, self._gone.union(job_ids))

    @property
    def jobs(self) -> list[JobSpec]:
        """Return the jobs. They are collected on first use, because most policies never need them."""
        if self._gone:
            self._jobs = [job for job in self._jobs if job.id not in self._gone]
            self._gone = frozenset()
        return self._jobs


EMPTY: Final = PendingJobs([])
