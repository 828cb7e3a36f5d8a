"""Placements that do not look at demand: first fit and packed. (`lessconsume` has those that do.)"""

from __future__ import annotations

from typing import ClassVar

from cosched_plugin.api import JobSpec, StartJob, View, first_fit, is_plain, lowest_nodes, packed, size
from cosched_plugin.policies.planning.offers import Offer, Snapshot, snapshot_at
from cosched_plugin.policies.planning.parts import Placement
from cosched_plugin.policies.planning.penalties import factor_of, penalised_offer


class FirstFit:
    """The lowest free threads, node by node.

    With ``extend_limit`` the job's limit and expected run time grow by the penalty factor expected there, as under LessConsume.
    """

    name: ClassVar[str] = "first-fit"
    _choose = staticmethod(first_fit)

    def __init__(self, *, extend_limit: bool = False) -> None:
        self.extend_limit = extend_limit

    @property
    def counts(self) -> bool:
        """Tell that neighbours do not matter, unless limits are to grow with them."""
        return not self.extend_limit

    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job on the first free threads."""
        runs = self._choose(
            job, snapshot.view.open_to(job, snapshot.free), snapshot.view.machine, snapshot.memory_for(job)
        )
        if runs is None:
            return None
        if not self.extend_limit:
            return Offer(job, snapshot.at_us, runs, 1.0, job.estimate_us, job.limit_us)
        return penalised_offer(job, snapshot, runs, factor_of(job, snapshot, runs), extend_limit=True)

    def start(self, job: JobSpec, view: View) -> StartJob:
        """Return the decision to start ``job`` now; there must be a place for it, and its limit is its own."""
        free = view.free
        if len(free) == 1 and is_plain(job):
            runs = lowest_nodes(job.processes, free[0])
        else:
            runs = self._choose(job, view.open_to(job, free), view.machine, view.free_memory_mb)
        assert runs is not None
        return StartJob(job.id, runs, job.estimate_us, job.limit_us)

    def promising(self, jobs: list[JobSpec], snapshot: Snapshot) -> list[JobSpec]:  # noqa: ARG002 - part of Placement
        """Return the jobs as they are: looking at one costs next to nothing."""
        return jobs

    def earliest(self, job: JobSpec, view: View) -> Offer | None:
        """Return the first place as running jobs leave."""
        return earliest_by_walk(self, job, view)


class Packed(FirstFit):
    """The nodes with the fewest free threads first: keeps whole nodes free for those who need them."""

    name: ClassVar[str] = "packed"
    _choose = staticmethod(packed)


def earliest_by_walk(placement: Placement, job: JobSpec, view: View) -> Offer | None:
    """Ask ``placement`` at one expected end after the other until it makes an offer."""
    for at_us, free in view.availability():
        if size(free) < job.processes:
            continue
        offer = placement.offer(job, snapshot_at(view, at_us, free))
        if offer is not None:
            return offer
    return None
