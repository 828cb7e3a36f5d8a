"""Fairness: what co-location may cost others."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from cosched_plugin.parts.matching import Matching
from cosched_plugin.parts.part import Part


class Fairness(Part, Protocol):
    """Limits what company may cost other jobs."""

    @abstractmethod
    def limit(self, matching: Matching) -> Matching:
        """Return ``matching`` under this limit."""
        ...
