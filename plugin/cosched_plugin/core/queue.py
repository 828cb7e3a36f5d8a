"""Pending jobs by (submission, id), with cheap arrivals and departures.

A long queue also has its numbers in arrays, to find the jobs that might fit among thousands. These are made on first use and
updated from then on; once half of the places belong to jobs that have left, they are made again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cosched_plugin.common.allocation import is_plain
from cosched_plugin.protocol.messages import JobSpec

_GONE: Final = np.iinfo(np.int64).max  # processes of a job that has left: they fit nowhere
_LONG: Final = 96  # number of jobs from which on arrays are faster than a loop
_LEAST: Final = 64  # places of new arrays


class Queue(dict[int, JobSpec]):
    """Pending jobs by id, in order; only `enter`, `replace` and `take` may change it."""

    __slots__ = ("_columns", "_end", "changes", "choosy", "counted", "entered", "particular")

    def __init__(self, jobs: Iterable[JobSpec] = ()) -> None:
        super().__init__({job.id: job for job in sorted(jobs, key=_place)})
        self.changes = 0  # grows with every change except an arrival at the end; for caches
        self.entered = len(self)  # how often a job has come, or was described anew
        self.particular = sum([not is_plain(job) for job in self.values()])  # jobs with constraints on their nodes
        self.choosy = sum([bool(job.eligible) for job in self.values()])  # jobs that may have some nodes only
        self.counted = sum([bool(job.resources or job.licences) for job in self.values()])  # with countable resources
        self._end = max(map(_place, self.values()), default=(0, 0))  # place of the last job that was ever at the end
        self._columns: _Columns | None = None

    def enter(self, job: JobSpec) -> None:
        """Enter a job, at the place of its submission; ValueError if it is there already."""
        job_id = job.id
        if job_id in self:
            raise ValueError(f"job {job_id} waits already")
        place = (job.submit_us, job_id)
        self[job_id] = job
        self.entered += 1
        if not is_plain(job):
            self._tally(job, 1)
        if place >= self._end:
            self._end = place
            if self._columns is not None and not self._columns.append(job):
                self._columns = None
            return
        # It was held, or comes back.
        self.changes += 1
        self._columns = None
        self._arrange()

    def _tally(self, job: JobSpec, number: int) -> None:
        """Count a job with constraints on its nodes."""
        self.particular += number
        if job.eligible:
            self.choosy += number
        if job.resources or job.licences:
            self.counted += number

    def _arrange(self) -> None:
        jobs = sorted(self.values(), key=_place)
        self.clear()
        self.update({job.id: job for job in jobs})

    def replace(self, job: JobSpec) -> None:
        """Replace a pending job by its new description; KeyError if it is not there."""
        before = self[job.id]
        if not is_plain(before):
            self._tally(before, -1)
        if not is_plain(job):
            self._tally(job, 1)
        self[job.id] = job
        self._end = max(self._end, _place(job))
        self.changes += 1
        self.entered += 1
        self._columns = None
        if _place(before) != _place(job):
            self._arrange()

    def take(self, job_id: int) -> JobSpec | None:
        """Remove a job and return it; None if it is not there."""
        job = self.pop(job_id, None)
        if job is not None:
            self.changes += 1
            if self.particular and not is_plain(job):
                self._tally(job, -1)
            if self._columns is not None and not self._columns.clear(job_id):
                self._columns = None
        return job

    def first(self) -> JobSpec:
        """Return the first job; StopIteration if there is none."""
        return next(iter(self.values()))

    def fitting(self, threads: int, longest_us: int, extra: int) -> list[JobSpec]:
        """Return, in order, the jobs of at most ``threads`` processes that are short, or of at most ``extra`` processes.

        Short is an estimate up to ``longest_us``.
        """
        if len(self) < _LONG:
            return short_or_narrow(self.values(), threads, longest_us, extra)
        columns = self._columns
        if columns is None:
            columns = self._columns = _Columns(list(self.values()))
        return columns.fitting(threads, longest_us, extra)

    def check(self) -> None:
        """Raise AssertionError where the order or the arrays are wrong."""
        places = [_place(job) for job in self.values()]
        assert places == sorted(places), "the queue is not in order of submission"
        assert not places or self._end >= places[-1], "the queue has forgotten its end"
        assert self.particular == sum([not is_plain(job) for job in self.values()]), "jobs that care where they run"
        assert self.choosy == sum([bool(job.eligible) for job in self.values()]), "jobs that may have some nodes only"
        assert self.counted == sum([bool(job.resources or job.licences) for job in self.values()]), (
            "countable resources"
        )
        if self._columns is not None:
            assert self._columns.fitting(_GONE - 1, 0, _GONE) == list(self.values()), (
                "the arrays of the queue differ from it"
            )


class _Columns:
    """Sizes and estimates of jobs in order of arrival, with holes."""

    __slots__ = ("_end", "_estimates_us", "_jobs", "_left", "_places", "_processes")

    def __init__(self, jobs: list[JobSpec]) -> None:
        room = max(_LEAST, 2 * len(jobs))
        self._processes: NDArray[np.int64] = np.full(room, _GONE, np.int64)
        self._estimates_us: NDArray[np.int64] = np.zeros(room, np.int64)
        self._processes[: len(jobs)] = [job.processes for job in jobs]
        self._estimates_us[: len(jobs)] = [job.estimate_us for job in jobs]
        self._jobs: list[JobSpec | None] = list(jobs)
        self._places = {job.id: place for place, job in enumerate(jobs)}
        self._end = len(jobs)

    def append(self, job: JobSpec) -> bool:
        """Enter a job behind all others; return whether there was room for it."""
        if self._end == len(self._processes):
            return False
        self._processes[self._end] = job.processes
        self._estimates_us[self._end] = job.estimate_us
        self._jobs.append(job)
        self._places[job.id] = self._end
        self._end += 1
        return True

    def clear(self, job_id: int) -> bool:
        """Replace a job by a hole; return whether there are fewer holes than jobs, or few."""
        place = self._places.pop(job_id)
        self._jobs[place] = None
        self._processes[place] = _GONE
        return self._end <= 2 * len(self._places) + _LEAST

    def fitting(self, threads: int, longest_us: int, extra: int) -> list[JobSpec]:
        """Return the result of `Queue.fitting`."""
        processes = self._processes[: self._end]
        fits = processes <= threads
        if extra < threads:
            fits &= (self._estimates_us[: self._end] <= longest_us) | (processes <= extra)
        jobs = self._jobs
        return [job for place in fits.nonzero()[0].tolist() if (job := jobs[place]) is not None]


def short_or_narrow(jobs: Iterable[JobSpec], free: int, longest_us: int, extra: int) -> list[JobSpec]:
    """Return the jobs that fit and end by the shadow time, or leave the head enough threads: EASY's rule."""
    return [job for job in jobs if job.processes <= free and (job.estimate_us <= longest_us or job.processes <= extra)]


def _place(job: JobSpec) -> tuple[int, int]:
    return job.submit_us, job.id
