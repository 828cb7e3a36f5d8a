"""The parts of a composition, as protocols: what a part must offer to take the place of another of its kind.

A composition is queue order x backfill x placement x matching x fairness. A pass (the backfill) asks the order for the queue, the
placement for places, and the matching for co-located jobs; a fairness rule wraps a matching.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import ClassVar, NamedTuple, Protocol

from cosched_plugin.api import Action, JobSpec, View
from cosched_plugin.policies.planning.offers import Offer, Snapshot
from cosched_plugin.policies.planning.pending import PendingJobs
from cosched_plugin.policies.planning.seats import UNRESERVED, Gate, Gatekeeper, Seat


class Order(Protocol):
    """Sorts waiting jobs. Ties must be broken by (submission, id), so that a schedule never depends on anything else."""

    name: ClassVar[str]
    remembers: ClassVar[bool]  # whether it looks at `history`

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return ``jobs``, given in order of (submission, id), in queue order."""
        ...


class Backfill(Protocol):
    """The pass over the queue: which jobs start now."""

    name: ClassVar[str]

    def decide(self, view: View, order: Order, placement: Placement, matching: Matching) -> Iterator[Action]:
        """Yield decisions until one more pass would find nothing to do."""
        ...


class Placer(Protocol):
    """The part of a placement that keeps a reservation."""

    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job's place in ``snapshot``, or None."""
        ...


class Placement(Protocol):
    """Chooses threads for one job."""

    name: ClassVar[str]

    @property
    def counts(self) -> bool:
        """Tell whether a plain job's offer is only a matter of how many threads are free, whichever, and whoever else runs."""
        ...

    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job's place in ``snapshot``, or None if it has none at that instant."""
        ...

    def promising(self, jobs: list[JobSpec], snapshot: Snapshot) -> list[JobSpec]:
        """Return the jobs that may get an offer in ``snapshot``: a quick look at many at once that leaves none out wrongly."""
        ...

    def earliest(self, job: JobSpec, view: View) -> Offer | None:
        """Return the job's first place as running jobs leave; None if it has none even when all have left."""
        ...


class Footprint(NamedTuple):
    """A job on whole nodes."""

    per_node: int  # processes; the last node may have fewer
    nodes: int
    factor: float  # run time there / run time at one process a node
    run_us: int  # run time there


class NodePlacement(Placement, Protocol):
    """A placement that gives every job whole nodes, as many wherever they are."""

    def footprint(self, job: JobSpec, view: View) -> Footprint | None:
        """Return what the job takes when it is alone on its nodes; None if the whole machine does not hold it."""
        ...


class Matching(Protocol):
    """Finds co-located jobs. Every seat that it returns has been admitted."""

    @property
    def name(self) -> str:
        """Return its name in a composition."""
        ...

    @property
    def remembers(self) -> bool:
        """Tell whether it looks at `history`."""
        ...

    @property
    def settled(self) -> bool:
        """Tell whether a job that found no seat in a pass has no better chance for those that did."""
        ...

    def may_host(self, job: JobSpec) -> bool:
        """Tell whether other jobs may join ``job`` once it runs alone on its nodes."""
        ...

    def prepare(self, view: View) -> Iterator[Action]:
        """Yield what has to be put in order before a pass."""
        ...

    def seat(self, offer: Offer, pending: PendingJobs, view: View, gate: Gate) -> Seat | None:
        """Return ``offer``, with company or without; None if neither is admitted. ``pending``: the queue, the job included."""
        ...

    def has_hosts(self, view: View) -> bool:
        """Tell whether there are running jobs that somebody might join."""
        ...

    def join_candidates(self, pending: PendingJobs, view: View, gate: Gatekeeper = UNRESERVED) -> Collection[int]:
        """Return the waiting jobs that might join a running one; those may be left out of whom ``gate`` lets none join any.

        Without a gate it may be asked again about a ``pending`` of before the last starts: the answer is as it was then.
        """
        ...

    def join(self, job: JobSpec, pending: PendingJobs, view: View, gate: Gate) -> Seat | None:
        """Return a seat for ``job`` on a running job's nodes."""
        ...


class Fairness(Protocol):
    """Limits what company may cost others."""

    name: ClassVar[str]

    def limit(self, matching: Matching, placement: NodePlacement) -> Matching:
        """Return ``matching`` under this limit, for jobs that ``placement`` places when they are alone."""
        ...
