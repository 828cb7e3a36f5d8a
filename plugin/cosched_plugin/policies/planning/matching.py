"""Matchings that start every job alone, and the base of those that put no job beside a running one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import ClassVar

from cosched_plugin.api import Action, JobSpec, View
from cosched_plugin.policies.planning.offers import Offer
from cosched_plugin.policies.planning.pending import PendingJobs
from cosched_plugin.policies.planning.seats import UNRESERVED, Gate, Gatekeeper, Seat


class WithoutHosts:
    """The base of matchings that put no job beside a running one."""

    remembers: ClassVar[bool] = False

    def may_host(self, job: JobSpec) -> bool:  # noqa: ARG002 - part of Matching
        """Tell that no job may."""
        return False

    def has_hosts(self, view: View) -> bool:  # noqa: ARG002 - part of Matching
        """Tell that there are none."""
        return False

    def join_candidates(self, pending: PendingJobs, view: View, gate: Gatekeeper = UNRESERVED) -> Collection[int]:  # noqa: ARG002
        """Return none."""
        return ()

    def join(self, job: JobSpec, pending: PendingJobs, view: View, gate: Gate) -> Seat | None:  # noqa: ARG002
        """Return None."""
        return None


class NoMatching(WithoutHosts):
    """Every job alone on its threads."""

    name: ClassVar[str] = "none"
    settled: ClassVar[bool] = True

    def prepare(self, view: View) -> Iterator[Action]:  # noqa: ARG002 - part of Matching
        """Yield nothing."""
        return iter(())

    def seat(self, offer: Offer, pending: PendingJobs, view: View, gate: Gate) -> Seat | None:  # noqa: ARG002
        """Return the offer as it is."""
        return offer if gate.admit(offer) else None
