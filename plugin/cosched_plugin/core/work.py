"""How much of a decision's work is left: counted, so that two schedulers that know the same stop at the same place.

Where decisions must not take long, as in live use, a policy may give itself so many units for each. A unit is about what a
processor of these days does in a microsecond; every kind of look at a job has a price of its own. Whoever has spent all looks no
further: jobs that were not looked at wait. Without a limit nothing is ever spent.
"""

from __future__ import annotations


class Work:
    """The work of one decision."""

    __slots__ = ("left", "limited")

    def __init__(self) -> None:
        self.limited = False
        self.left = 0  # units, where it is limited

    def begin(self, units: int) -> None:
        """Allow so many units from now on."""
        self.limited = True
        self.left = units

    def spend(self, units: int) -> bool:
        """Take so many units; tell whether there were any left. The last look may cost more than there was."""
        if not self.limited:
            return True
        if self.left <= 0:
            return False
        self.left -= units
        return True
