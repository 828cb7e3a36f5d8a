"""What a driver needs of a scheduler: the core implements it, and so may anything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from cosched_plugin.protocol.messages import Action, Event, Welcome


class Scheduler(Protocol):
    """Events in, actions out."""

    def handle(self, now_us: int, events: Sequence[Event]) -> list[Action]:
        """Take in all events of one instant and return the decisions that follow, in order."""
        ...


# Makes a scheduler that stands where the welcome says.
SchedulerFactory: TypeAlias = Callable[[Welcome], Scheduler]
