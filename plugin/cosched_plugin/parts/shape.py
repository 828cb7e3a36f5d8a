"""The shape: which part of the machine a pass sees as free."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from cosched_plugin.core.views.view import View
from cosched_plugin.parts.part import Part


class Shape(Part, Protocol):
    """Makes the view to plan with from the plain view."""

    @abstractmethod
    def shaped(self, view: View) -> View:
        """Return the view to plan with, which stays current as ``view`` does; asked once for each view."""
        ...
