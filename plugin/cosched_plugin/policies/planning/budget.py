"""Budgets: how much a decision may cost."""

from __future__ import annotations

from cosched_plugin.api import Budget, View


class Counted(Budget):
    """The same number of units of work for each decision."""

    def __init__(self, *, units: int) -> None:
        self._units = units

    def units(self, view: View) -> int:
        """Return the units allowed."""
        return self._units
