"""A placement that searches for the place with the least penalty, within the caller's thresholds (RUA paper, sections 4 and 5)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Protocol

from cosched_plugin.core.views.view import View
from cosched_plugin.parts.offers import Offer, Snapshot
from cosched_plugin.parts.placement import Placement
from cosched_plugin.protocol.messages import JobSpec


class FoundPlace(Protocol):
    """A place for a job at one instant, before it is written out."""

    @property
    def job(self) -> JobSpec:
        """Return the job."""
        ...

    @property
    def snapshot(self) -> Snapshot:
        """Return the machine in which it was found."""
        ...

    @property
    def factor(self) -> float:
        """Return the penalty factor there: expected run time / run time alone, at least 1."""
        ...

    @property
    def end_us(self) -> int:
        """Return start + estimate x factor."""
        ...

    def offer(self) -> Offer:
        """Return the place as an offer."""
        ...


class PenaltyPlacement(Placement, Protocol):
    """Provides `needs.LEAST_PENALTY`. Thresholds are ascending penalty factors; without any, the least factor is accepted."""

    def kind(self, job: JobSpec, view: View) -> Hashable:
        """Return the kind of a job: jobs of one kind get the same places. By default, each job is of a kind of its own."""
        return job.id

    @abstractmethod
    def find(self, job: JobSpec, snapshot: Snapshot, thresholds: Sequence[float] = ()) -> FoundPlace | None:
        """Return a place within the lowest threshold that can be met in ``snapshot``; None if the job has none."""
        ...

    @abstractmethod
    def first(self, job: JobSpec, view: View, thresholds: Sequence[float]) -> tuple[int, FoundPlace] | None:
        """Return the first step of the view's availability in which `find` finds a place: the step's number and the place."""
        ...

    @abstractmethod
    def meets(self, job: JobSpec, snapshot: Snapshot, threshold: float | None) -> bool:
        """Quick check: tell whether `find` would find a place within ``threshold``."""
        ...

    @abstractmethod
    def all_within_reach(self, job: JobSpec, view: View, thresholds: tuple[float, ...]) -> tuple[float, ...]:
        """Return the thresholds; a threshold that the job cannot meet on the empty machine is raised until it can."""
        ...
