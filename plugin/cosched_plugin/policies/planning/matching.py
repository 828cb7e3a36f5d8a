"""The matching that starts every job alone."""

from __future__ import annotations

from typing import ClassVar

from cosched_plugin.api import Context, Gate, Matching, Offer, Seat


class NoMatching(Matching):
    """Every job alone on its threads."""

    alone: ClassVar[bool] = True
    settled: ClassVar[bool] = True

    def seat(self, offer: Offer, context: Context, gate: Gate) -> Seat | None:
        """Return the offer as it is."""
        return offer if gate.admit(offer) else None
