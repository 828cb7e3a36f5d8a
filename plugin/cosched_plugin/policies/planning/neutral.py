"""Parts without a will of their own: every job alone, every row alone, no limit on delays, and a budget that is a number."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from cosched_plugin import api


class NoMatching(api.Matching):
    """Every job alone on its threads."""

    alone: ClassVar[bool] = True
    settled: ClassVar[bool] = True

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return the offer as it is."""
        return offer if gate.admit(offer) else None


class NoPairing(api.Pairing):
    """Every row runs alone: strict gang scheduling."""

    alone: ClassVar[bool] = True
    provides: ClassVar[api.Needs] = api.NONE

    def fits(self, one_ppm: int, other_ppm: int) -> bool:
        """Tell that no two jobs run on one hardware thread."""
        return False

    def partners(self, rows: Sequence[api.RowLoad], of: Collection[int]) -> Mapping[int, int]:
        """Return nothing."""
        return {}


class NoFairness(api.Fairness):
    """No limit."""

    def limit(self, matching: api.Matching) -> api.Matching:
        """Return the matching as it is."""
        return matching


class Counted(api.Budget):
    """The same number of units of work for each decision."""

    def __init__(self, *, units: int = 2000) -> None:
        self._units = units

    def units(self, view: api.View) -> int:
        """Return the units allowed."""
        return self._units
