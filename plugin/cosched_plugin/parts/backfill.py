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
        """Yield decisions until a further pass would decide nothing. ``context.pending`` is empty at first: the pass fills it."""
        ...
