"""The interface between a manager and its scheduler, the same for every coupling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cosched_plugin.protocol.messages import Action, Event, Welcome


class Link(Protocol):
    """The manager's side of a coupling.

    The manager commits a batch only after `exchange` has returned, so ``inventory`` always returns the state as of the last answered
    batch, also during an `exchange`.
    """

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Start a scheduler from the state that ``inventory`` returns."""
        ...

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Hand over all events of one instant and return the scheduler's actions, in order."""
        ...

    def close(self) -> None:
        """Dismiss the scheduler; safe to call at any time, also twice."""
        ...
