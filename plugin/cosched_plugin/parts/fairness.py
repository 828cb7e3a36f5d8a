"""Fairness: what co-location may cost others."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from cosched_plugin.parts.matching import Matching
from cosched_plugin.parts.part import Part


class Fairness(Part, Protocol):
    """Limits the delay that co-located starts may cause for other jobs."""

    @abstractmethod
    def limit(self, matching: Matching) -> Matching:
        """Return ``matching``, restricted by this limit."""
        ...
