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
        """Tell whether a plain job's offer is only a matter of how many threads are free, whichever, and whoever else runs."""
        return False

    @property
    def shortens(self) -> bool:
        """Tell whether an offer may plan with less than a job's estimate: then no quick look may go by estimates."""
        return False

    def never(self, job: JobSpec, view: View) -> bool:
        """Tell whether ``job`` has no place on this machine, empty and with all nodes in service."""
        return view.never(job)

    @abstractmethod
    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job's place in ``snapshot``, or None if it has none at that instant."""
        ...

    def price(self, job: JobSpec, view: View) -> int:
        """Return how many units of work `offer` costs where they are limited: what a pass pays. `earliest` pays by itself."""
        return 0

    def offer_on(self, job: JobSpec, runs: tuple[Run, ...], snapshot: Snapshot) -> Offer:
        """Return the job on threads that another part has chosen: how long it should run there without co-located jobs."""
        return Offer(job, snapshot.at_us, runs, 1.0, job.estimate_us, job.limit_us)

    def start(self, job: JobSpec, view: View) -> StartJob:
        """Return the decision to start ``job`` now; there must be a place for it."""
        offer = self.offer(job, snapshot_now(view))
        assert offer is not None
        return offer.start()

    def promising(self, jobs: list[JobSpec], snapshot: Snapshot) -> list[JobSpec]:
        """Return the jobs that may get an offer in ``snapshot``: a quick look at many at once that leaves none out wrongly."""
        return jobs

    def earliest(self, job: JobSpec, view: View) -> Offer | None:
        """Return the job's first place as running jobs leave; None if it has none even when all have left."""
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
    """A placement that gives every job whole nodes, as many wherever they are; it provides `needs.FOOTPRINTS`."""

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
        """Return ``wanted`` nodes out of ``free``, or all of them if they are fewer."""
        ...
