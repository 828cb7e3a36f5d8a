"""Queue orders: which waiting job comes first."""

from __future__ import annotations

from typing import ClassVar, Protocol

from cosched_plugin.api import JobSpec, View
from cosched_plugin.policies.history import MEDIUM_US, SHORT_US, history


class Order(Protocol):
    """Sorts waiting jobs. Ties must be broken by (submission, id), so that a schedule never depends on anything else."""

    name: ClassVar[str]
    remembers: ClassVar[bool]  # whether it looks at `history`

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return ``jobs``, given in order of (submission, id), in queue order."""
        ...


class Fcfs:
    """First come, first served."""

    name: ClassVar[str] = "fcfs"
    remembers: ClassVar[bool] = False

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:  # noqa: ARG002 - the order does not age
        """Return the jobs as they came."""
        return jobs


class Shortest:
    """Shortest estimate first."""

    name: ClassVar[str] = "shortest"
    remembers: ClassVar[bool] = False

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:  # noqa: ARG002 - the order does not age
        """Return the jobs by ascending estimate; `sorted` is stable, which keeps (submission, id) among equals."""
        return sorted(jobs, key=_estimate)


class ClassPriority:
    """Short before medium before long jobs, first come, first served among equals; a job that waits rises (LOMARC, section 6.2).

    It rises by one class for every ``T_age`` that it has waited. ``T_age`` is the mean wait of the jobs started so far, or a
    fixed number of seconds (``age_s``); none rises while there is no mean wait.
    """

    name: ClassVar[str] = "class-priority"
    remembers: ClassVar[bool] = True

    def __init__(self, *, age_s: float = 0.0) -> None:
        self._age_us = max(1, round(age_s * 1_000_000)) if age_s else 0

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs by class less the classes that they have risen."""
        age_us = self._age_us or history(view).mean_wait_us
        now_us = view.wall_us(view.now_us)
        once_us = now_us - age_us if age_us else -1  # who was submitted by then has risen by one class
        twice_us = once_us - age_us
        first: list[JobSpec] = []
        second: list[JobSpec] = []
        third: list[JobSpec] = []
        for job in jobs:
            estimate_us = job.estimate_us
            submit_us = job.submit_us
            if estimate_us <= SHORT_US:
                first.append(job)
            elif estimate_us <= MEDIUM_US:
                (first if submit_us <= once_us else second).append(job)
            else:
                (first if submit_us <= twice_us else second if submit_us <= once_us else third).append(job)
        return first + second + third


def _estimate(job: JobSpec) -> int:
    return job.estimate_us
