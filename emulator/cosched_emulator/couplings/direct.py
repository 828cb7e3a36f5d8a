"""The direct coupling: manager and scheduler call each other in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cosched_plugin.protocol.errors import LocalProtocolError
from cosched_plugin.protocol.messages import Action, Event, Welcome
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory


class DirectLink:
    """The scheduler as a plain object: no codec, no checks, full speed. The plugin's own errors propagate."""

    def __init__(self, scheduler_factory: SchedulerFactory) -> None:
        self._scheduler_factory = scheduler_factory
        self.scheduler: Scheduler | None = None

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Make the scheduler."""
        self.scheduler = self._scheduler_factory(inventory())

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:  # noqa: ARG002 - Link
        """Call the scheduler."""
        if self.scheduler is None:
            raise LocalProtocolError("the link is not open")
        return self.scheduler.handle(now_us, events)

    def close(self) -> None:
        """Forget the scheduler."""
        self.scheduler = None
