"""What a manager needs of its scheduler, whichever coupling lies between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cosched_plugin.protocol.messages import Action, Event, Welcome


class Link(Protocol):
    """What a manager needs of its scheduler.

    The manager commits a batch only after `exchange` has returned, so that ``inventory`` tells the state as of the last answered
    batch whenever it is called, also in the middle of an `exchange`.
    """

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Bring a scheduler to where ``inventory`` says the manager stands."""
        ...

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Hand over all events of one instant and return the scheduler's actions, in order."""
        ...

    def close(self) -> None:
        """Let the scheduler go; safe to call at any time, also twice."""
        ...
