"""The queue order: which pending job comes first."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from cosched_plugin.core.views.view import View
from cosched_plugin.parts.part import Part
from cosched_plugin.protocol.messages import JobSpec


class Order(Part, Protocol):
    """Sorts pending jobs. Ties must be broken by (submission, id), so that a schedule never depends on anything else."""

    @property
    def by_arrival(self) -> bool:
        """Tell whether the order is that of submission: then a pass may examine new jobs alone."""
        return False

    @abstractmethod
    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return ``jobs``, given in order of (submission, id), in queue order; a stable sort keeps that order among equals."""
        ...
