"""The interface of a scheduler for a driver: the core implements it, and other classes may."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from cosched_plugin.protocol.messages import Action, Event, Welcome


class Scheduler(Protocol):
    """Turns events into actions."""

    def handle(self, now_us: int, events: Sequence[Event]) -> list[Action]:
        """Apply all events of one instant and return the decisions that follow, in order."""


# Makes a scheduler with the state of the welcome.
SchedulerFactory: TypeAlias = Callable[[Welcome], Scheduler]
