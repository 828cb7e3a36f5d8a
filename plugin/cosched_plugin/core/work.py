"""What a decision may cost, counted: two schedulers that know the same stop at the same place.

Where decisions must not take long, as in live use, a budget allows each of them a number of units. A unit is about what a processor
of these days does in a microsecond. Every kind of look at a job has a `Price`. A policy that has spent all looks no further: jobs
that it has not looked at wait. Without a limit nothing is ever spent. `cosched_plugin.parts.prices` is the table of prices.
"""

from __future__ import annotations

from typing import NamedTuple


class Rate(NamedTuple):
    """A part of a price that grows with a number: ``units`` for every ``per`` of what ``of`` names, rounded down."""

    of: str
    units: int = 1
    per: int = 1


class Price(NamedTuple):
    """What one kind of look costs, in units of work: a fixed part, and one for each number that it grows with."""

    meaning: str
    fixed: int
    rates: tuple[Rate, ...] = ()

    def units(self, *counts: int) -> int:
        """Return the price; ``counts``: one number for each rate, in order."""
        if not counts:
            return self.fixed
        return self.fixed + sum(
            [count * rate.units // rate.per for rate, count in zip(self.rates, counts, strict=True)]
        )


class Work:
    """The work of one decision."""

    __slots__ = ("left", "limited")

    def __init__(self) -> None:
        self.limited = False
        self.left = 0  # units, where it is limited

    @property
    def spent(self) -> bool:
        """Tell whether nothing is left."""
        return self.limited and self.left <= 0

    def begin(self, units: int) -> None:
        """Allow so many units from now on."""
        self.limited = True
        self.left = units

    def pay(self, price: Price, *counts: int) -> bool:
        """Pay for a look before it is taken; tell whether anything was left. ``counts``: a number for each rate of the price.

        The last look may cost more than was left.
        """
        return not self.limited or self.spend(price.units(*counts))

    def pay_in_full(self, price: Price, *counts: int) -> bool:
        """Pay for a look only where its whole price is left; tell whether it is."""
        if not self.limited:
            return True
        units = price.units(*counts)
        if units > self.left:
            return False
        self.left -= units
        return True

    def spend(self, units: int) -> bool:
        """Take so many units, where work is limited; tell whether any were left. The last look may cost more than there was."""
        if self.left <= 0:
            return False
        self.left -= units
        return True

    def affordable(self, units: int, share: int = 1) -> int:
        """Return how many looks at ``units`` each fit in one ``share``-th of what is left; only where work is limited."""
        return max(0, self.left) // share // units

    def refund(self, left: int) -> None:
        """Go back to what was left before a look that is not to be charged to the jobs behind it."""
        self.left = left
