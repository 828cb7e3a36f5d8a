"""The matching, which decides which jobs are co-located, and the context in which a pass asks it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator
from itertools import takewhile
from typing import NamedTuple, Protocol

from cosched_plugin.core.views.view import View
from cosched_plugin.parts.offers import Offer, Snapshot
from cosched_plugin.parts.order import Order
from cosched_plugin.parts.part import Part
from cosched_plugin.parts.pending import EMPTY, PendingJobs
from cosched_plugin.parts.placement import NodePlacement, Placement
from cosched_plugin.parts.seats import UNRESERVED, Gate, Gatekeeper, Seat
from cosched_plugin.parts.turns.pairing import Pairing
from cosched_plugin.protocol.messages import Action, JobSpec


class Matching(Part, Protocol):
    """Finds co-located jobs. Every seat that it returns has been admitted by the gate.

    A matching that extends this protocol and defines `seat` alone puts no job beside a running one.
    """

    @property
    def alone(self) -> bool:
        """Tell whether it starts every job alone, so that a pass need not ask it."""
        return False

    @property
    def settled(self) -> bool:
        """Tell whether starts in a pass cannot help a job that found no seat earlier in the same pass."""
        return False

    def prepare(self, context: Context) -> Iterator[Action]:
        """Yield the decisions that bring notes and expected ends up to date before a pass."""
        return iter(())

    @abstractmethod
    def seat(self, offer: Offer, context: Context, gate: Gate) -> Seat | None:
        """Return a seat for ``offer``, co-located or alone; None if neither is admitted. ``context.pending`` includes the job."""
        ...

    def may_host(self, job: JobSpec) -> bool:
        """Tell whether other jobs may join ``job`` once it runs alone on its nodes."""
        return False

    def has_hosts(self, view: View) -> bool:
        """Tell whether there are running jobs that a pending one might join."""
        return False

    def join_candidates(self, context: Context, gate: Gatekeeper = UNRESERVED) -> Collection[int]:
        """Return the ids of pending jobs that might join a running one; jobs that ``gate`` refuses everywhere may be left out.

        Without a gate, a call may repeat a ``context.pending`` from before the last starts: the answer is as it was then.
        """
        return ()

    def join(self, job: JobSpec, context: Context, gate: Gate) -> Seat | None:
        """Return a seat for ``job`` on a running job's nodes."""
        return None


class Context(NamedTuple):
    """What the parts of a pass share during one scan of the queue."""

    view: View
    order: Order
    placement: Placement
    matching: Matching
    footprints: NodePlacement  # footprints of jobs on whole nodes: the placement itself, where it provides them
    pairing: Pairing
    pending: PendingJobs = EMPTY

    def over(self, pending: PendingJobs) -> Context:
        """Return this context with another queue."""
        return Context(self.view, self.order, self.placement, self.matching, self.footprints, self.pairing, pending)

    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Pay for and return the job's place in ``snapshot``; None if it has none, or if the budget is spent."""
        if self.view.work.limited and not self._pay_for(job):
            return None
        return self.placement.offer(job, snapshot)

    def promising(self, jobs: list[JobSpec], snapshot: Snapshot) -> list[JobSpec]:
        """Return the jobs that may get an offer in ``snapshot``: the first of them, as many as the budget can pay an offer for."""
        return self.placement.promising(self.within_budget(jobs), snapshot)

    def within_budget(self, jobs: list[JobSpec]) -> list[JobSpec]:
        """Return the first of ``jobs``, as many as the budget can pay one offer each for."""
        work = self.view.work
        if not work.limited:
            return jobs
        left = work.left
        paid = list(takewhile(self._pay_for, jobs))
        work.refund(left)
        return paid

    def _pay_for(self, job: JobSpec) -> bool:
        """Pay for an offer, where work is limited; tell whether anything was left. A free offer is always granted."""
        price = self.placement.price(job, self.view)
        return not price or self.view.work.spend(price)

    def arranged(self) -> PendingJobs:
        """Return all pending jobs in queue order."""
        return PendingJobs(self.order.arrange(self.view.queue, self.view))
