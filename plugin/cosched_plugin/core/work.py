"""The counted work of a decision: two schedulers with the same knowledge stop at the same place.

Where decisions must not take long, as in live use, a budget allows each of them a number of units. A unit is about the work of a
present processor in a microsecond. Every kind of check of a job has a `Price`. A policy that has spent its budget stops searching:
jobs that it has not examined stay pending. Without a limit nothing is ever spent. `cosched_plugin.parts.prices` is the table of prices.
"""

from __future__ import annotations

from typing import NamedTuple


class Rate(NamedTuple):
    """A part of a price that grows with a number: ``units`` for every ``per`` of what ``of`` names, rounded down."""

    of: str  # what is counted
    units: int = 1  # for every `per` of these
    per: int = 1  # see `units`


class Price(NamedTuple):
    """The price of one kind of check, in units of work: a fixed part, and a rate for each number that it grows with."""

    meaning: str  # what is paid for
    fixed: int  # fixed part; a unit is about a microsecond of work
    rates: tuple[Rate, ...] = ()  # parts that grow with a number

    def units(self, *counts: int) -> int:
        """Return the price; ``counts``: one number for each rate, in order."""
        if not counts:
            return self.fixed
        return self.fixed + sum(
            [count * rate.units // rate.per for rate, count in zip(self.rates, counts, strict=True)]
        )


class Work:
    """The work of one decision."""

    __slots__ = ("cut", "left", "limited")

    def __init__(self) -> None:
        self.limited = False
        self.left = 0  # units, where work is limited
        # Something has not been looked at, as the budget, or the share of it for such looks, was spent
        self.cut = False

    @property
    def spent(self) -> bool:
        """Tell whether the budget is spent."""
        return self.limited and self.left <= 0

    def begin(self, units: int) -> None:
        """Allow ``units`` units from now on."""
        self.limited = True
        self.left = units
        self.cut = False

    def pay(self, price: Price, *counts: int) -> bool:
        """Pay for a check before it is made; tell whether anything was left. ``counts``: a number for each rate of the price.

        The last check may cost more than was left.
        """
        return not self.limited or self.spend(price.units(*counts))

    def pay_in_full(self, price: Price, *counts: int) -> bool:
        """Pay for a check only where its whole price is left; tell whether it is."""
        if not self.limited:
            return True
        units = price.units(*counts)
        if units > self.left:
            self.cut = True
            return False
        self.left -= units
        return True

    def spend(self, units: int) -> bool:
        """Spend ``units`` units, where work is limited; tell whether any were left. The last check may cost more than was left."""
        if self.left <= 0:
            self.cut = True
            return False
        self.left -= units
        return True

    def affordable(self, wanted: int, units: int, share: int = 1) -> int:
        """Return how many of ``wanted`` checks at ``units`` each one ``share``-th of the rest allows; only where work is limited."""
        found = max(0, self.left) // share // units
        self.cut = self.cut or found < wanted
        return min(found, wanted)

    def refund(self, left: int) -> None:
        """Restore the rest from before a check, so that the jobs behind do not pay for it."""
        self.left = left
