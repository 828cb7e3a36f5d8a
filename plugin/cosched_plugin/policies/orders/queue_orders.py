"""Queue orders: which pending job comes first."""

from __future__ import annotations

from bisect import bisect_right
from typing import ClassVar

from cosched_plugin.api import SECOND_US, JobSpec, Order, View
from cosched_plugin.policies.orders.history import MEDIUM_US, SHORT_US, RemembersStarts, history


class Fcfs(Order):
    """First come, first served."""

    by_arrival: ClassVar[bool] = True

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs in order of arrival."""
        return jobs


class Shortest(Order):
    """Shortest estimate first."""

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs by ascending estimate; `sorted` is stable, which keeps (submission, id) among equals."""
        return sorted(jobs, key=_estimate)


class Widest(Order):
    """Most processes first."""

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs by descending size; `sorted` keeps (submission, id) among equals."""
        return sorted(jobs, key=_processes, reverse=True)


class ClassPriority(RemembersStarts, Order):
    """Short before medium before long jobs, first come, first served among equals; a pending job rises (LOMARC, section 6.2).

    It rises by one class for every ``T_age`` that it has waited. ``T_age`` is the mean wait of the jobs started so far, or a
    fixed number of seconds (``age_s``); no job rises while there is no mean wait.
    """

    def __init__(self, *, age_s: float = 0.0) -> None:
        self._age_us = max(1, round(age_s * SECOND_US)) if age_s else 0

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs by class minus the number of classes that they have risen."""
        age_us = self._age_us or history(view).mean_wait_us
        now_us = view.wall_us(view.now_us)
        once_us = now_us - age_us if age_us else -1  # a job submitted by then has risen by one class
        twice_us = once_us - age_us
        # In order of submission, jobs that have risen by two classes come first, then jobs that have risen by one.
        risen = bisect_right(jobs, once_us, key=_submission)
        twice = bisect_right(jobs, twice_us, 0, risen, key=_submission)
        between = jobs[twice:risen]
        short, medium, long = _by_class(jobs[risen:])
        return [
            *jobs[:twice],
            *[job for job in between if job.estimate_us <= MEDIUM_US],
            *short,
            *[job for job in between if job.estimate_us > MEDIUM_US],
            *medium,
            *long,
        ]


def _by_class(jobs: list[JobSpec]) -> tuple[list[JobSpec], list[JobSpec], list[JobSpec]]:
    """Return the short, the medium and the long ones of ``jobs``, each in their order."""
    short: list[JobSpec] = []
    medium: list[JobSpec] = []
    long: list[JobSpec] = []
    for job in jobs:
        estimate_us = job.estimate_us
        if estimate_us <= SHORT_US:
            short.append(job)
        elif estimate_us <= MEDIUM_US:
            medium.append(job)
        else:
            long.append(job)
    return short, medium, long


def _submission(job: JobSpec) -> int:
    return job.submit_us


def _processes(job: JobSpec) -> int:
    return job.processes


def _estimate(job: JobSpec) -> int:
    return job.estimate_us
