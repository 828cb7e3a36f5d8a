"""The placement: which threads or nodes a job gets."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple, Protocol

from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import size
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import WholeNodesView
from cosched_plugin.parts.offers import Offer, Snapshot, snapshot_at, snapshot_now
from cosched_plugin.parts.part import Part
from cosched_plugin.protocol.messages import JobSpec, Run, StartJob


class Placer(Protocol):
    """The part of a placement that keeps a reservation."""

    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job's place in ``snapshot``, or None."""
        ...


class Placement(Part, Protocol):
    """Chooses threads for one job."""

    @property
    def counts(self) -> bool:
        """Tell whether a plain job's offer depends only on the number of free threads, not on which are free or what else runs."""
        return False

    @property
    def shortens(self) -> bool:
        """Tell whether an offer may plan with less than a job's estimate: then quick checks may not rely on estimates."""
        return False

    def settled(self, view: View) -> bool:
        """Tell whether starts cannot help a plain job that has no place: they only take threads from it, and bring it neighbours.

        They may help it where its loss depends on which threads of a node it gets.
        """
        return True

    def never(self, job: JobSpec, view: View) -> bool:
        """Tell whether ``job`` has no place on this machine, empty and with all nodes in service."""
        return view.never(job)

    @abstractmethod
    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job's place in ``snapshot``, or None if it has none at that instant."""
        ...

    def price(self, job: JobSpec, view: View) -> int:
        """Return the price of `offer` in units of work, which a pass pays where work is limited. `earliest` pays for itself."""
        return 0

    def offer_on(self, job: JobSpec, runs: tuple[Run, ...], snapshot: Snapshot) -> Offer:
        """Return the job on threads that another part has chosen, with its expected run time there without co-located jobs."""
        return Offer(job, snapshot.at_us, runs, 1.0, job.estimate_us, job.limit_us)

    def start(self, job: JobSpec, view: View) -> StartJob:
        """Return the decision to start ``job`` now; there must be a place for it."""
        offer = self.offer(job, snapshot_now(view))
        assert offer is not None
        return offer.start()

    def promising(self, jobs: list[JobSpec], snapshot: Snapshot) -> list[JobSpec]:
        """Quick check of many jobs: return those that may get an offer in ``snapshot``. No job with an offer is left out."""
        return jobs

    def earliest(self, job: JobSpec, view: View) -> Offer | None:
        """Return the job's first place as running jobs end; None if it has none even when all have ended."""
        for at_us, free in view.availability():
            if size(free) >= job.processes:
                offer = self.offer(job, snapshot_at(view, at_us, free))
                if offer is not None:
                    return offer
        return None


class Footprint(NamedTuple):
    """A job on whole nodes."""

    per_node: int  # processes; the last node may have fewer
    nodes: int
    factor: float  # run time there / run time at one process a node
    run_us: int  # run time there


class NodePlacement(Placement, Protocol):
    """A placement that gives every job whole nodes; their number does not depend on which they are. Provides `needs.FOOTPRINTS`."""

    def never(self, job: JobSpec, view: View) -> bool:
        """Tell whether the whole machine does not hold ``job``."""
        return self.footprint(job, view) is None

    @abstractmethod
    def footprint(self, job: JobSpec, view: View) -> Footprint | None:
        """Return what the job takes when it is alone on its nodes; None if the whole machine does not hold it."""
        ...

    @abstractmethod
    def offer_with(self, job: JobSpec, footprint: Footprint, snapshot: Snapshot) -> Offer | None:
        """Return the job on empty nodes with a given footprint; None if there are too few."""
        ...

    @abstractmethod
    def choose_nodes(self, free: NodeSet, wanted: int, view: WholeNodesView) -> NodeSet:
        """Return ``wanted`` of the ``free`` nodes, or all of them if they are fewer."""
        ...
