"""The budget: how much a decision may cost."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from cosched_plugin.core.views.view import View
from cosched_plugin.parts.part import Part


class Budget(Part, Protocol):
    """Limits the work of a decision; jobs that it does not reach stay pending."""

    @abstractmethod
    def units(self, view: View) -> int:
        """Return how many units of work this decision may cost, from what the manager knows: the `View` alone."""
        ...
