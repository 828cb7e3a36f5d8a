"""Queue orders: which waiting job comes first."""

from __future__ import annotations

from typing import ClassVar, Protocol

from cosched_plugin.api import JobSpec


class Order(Protocol):
    """Sorts waiting jobs. Ties must be broken by (submission, id), so that a schedule never depends on anything else."""

    name: ClassVar[str]

    def arrange(self, jobs: list[JobSpec], now_us: int) -> list[JobSpec]:
        """Return ``jobs``, given in order of (submission, id), in queue order."""
        ...


class Fcfs:
    """First come, first served."""

    name: ClassVar[str] = "fcfs"

    def arrange(self, jobs: list[JobSpec], now_us: int) -> list[JobSpec]:  # noqa: ARG002 - the order does not age
        """Return the jobs as they came."""
        return jobs


class Shortest:
    """Shortest estimate first."""

    name: ClassVar[str] = "shortest"

    def arrange(self, jobs: list[JobSpec], now_us: int) -> list[JobSpec]:  # noqa: ARG002 - the order does not age
        """Return the jobs by ascending estimate; `sorted` is stable, which keeps (submission, id) among equals."""
        return sorted(jobs, key=_estimate)


def _estimate(job: JobSpec) -> int:
    return job.estimate_us
