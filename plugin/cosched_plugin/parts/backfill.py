"""The backfill: the pass over the queue."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Protocol

from cosched_plugin.parts.matching import Context
from cosched_plugin.parts.part import Part
from cosched_plugin.protocol.messages import Action


class Backfill(Part, Protocol):
    """The pass over the queue: which jobs start now."""

    @abstractmethod
    def decide(self, context: Context) -> Iterator[Action]:
        """Yield decisions until one more pass would find nothing to do. ``context.pending`` is empty: the pass fills it."""
        ...
