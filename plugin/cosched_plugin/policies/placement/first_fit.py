"""Placements that ignore demand: first fit and packed. (`lessconsume` has those that use it.)"""

from __future__ import annotations

from cosched_plugin.api import (
    FIXED_RUN_TIMES,
    NONE,
    JobSpec,
    Needs,
    Offer,
    Placement,
    Run,
    Snapshot,
    StartJob,
    View,
    first_fit,
    is_plain,
    lowest_nodes,
    packed,
)
from cosched_plugin.policies.planning.penalties import factor_of, penalised_offer


class FirstFit(Placement):
    """The lowest free threads, node by node.

    With ``extend_limit`` the job's limit and expected run time grow by the penalty factor expected there, as under LessConsume.
    """

    _choose = staticmethod(first_fit)

    def __init__(self, *, extend_limit: bool = False) -> None:
        self.extend_limit = extend_limit

    @property
    def provides(self) -> Needs:
        """Return that run times follow from the job, unless limits grow with neighbours."""
        return NONE if self.extend_limit else frozenset({FIXED_RUN_TIMES})

    @property
    def counts(self) -> bool:
        """Tell that neighbours do not matter, unless limits grow with them."""
        return not self.extend_limit

    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job on the first free threads."""
        runs = self._choose(
            job, snapshot.view.open_to(job, snapshot.free), snapshot.view.machine, snapshot.memory_for(job)
        )
        return None if runs is None else self.offer_on(job, runs, snapshot)

    def offer_on(self, job: JobSpec, runs: tuple[Run, ...], snapshot: Snapshot) -> Offer:
        """Return the job on these threads."""
        if not self.extend_limit:
            return Offer(job, snapshot.at_us, runs, 1.0, job.estimate_us, job.limit_us)
        return penalised_offer(job, snapshot, runs, factor_of(job, snapshot, runs), extend_limit=True)

    def start(self, job: JobSpec, view: View) -> StartJob:
        """Return the decision to start ``job`` now; there must be a place for it. Its limit stays its own."""
        free = view.free
        if len(free) == 1 and is_plain(job):
            runs = lowest_nodes(job.processes, free[0])
        else:
            runs = self._choose(job, view.open_to(job, free), view.machine, view.free_memory_mb)
        assert runs is not None
        return StartJob(job.id, runs, job.estimate_us, job.limit_us)


class Packed(FirstFit):
    """The nodes with the fewest free threads first: keeps whole nodes free for jobs that need them."""

    _choose = staticmethod(packed)
