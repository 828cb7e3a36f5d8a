"""The events for the scheduler's next batch: each is applied to the manager at once, and told later.

A batch is open from `batch` until its answer has come; meanwhile events are collected. The refusals of the scheduler's own actions come
first in a batch, so that it takes these actions back before it reads the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched_emulator.manager.manager import Manager
from cosched_plugin.protocol.messages import ActionRefused, Event, ProgressMeasured, Welcome


class Outbox:
    """The events that the scheduler does not know yet, and the batch that it has not answered."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._refusals: list[ActionRefused] = []
        self._events: list[Event] = []
        self._open: int | None = None  # number of the unanswered batch
        self._kick = False  # a new scheduler must decide, whether or not anything happens

    @property
    def has_news(self) -> bool:
        """Return whether something has happened since the batch that the scheduler answers."""
        return bool(self._events)

    def tell(self, at_us: int, *events: Event) -> None:
        """Apply events, and add them to the next batch.

        All events of a live manager go through here, so that manager and scheduler cannot know different things.
        """
        self._manager.apply(at_us, events)
        self._events += events

    def batch(self, now_us: int) -> tuple[int, int, tuple[Event, ...]] | None:
        """Return (number, time, events) of the next batch, and count it as sent; None if there is none, or a batch is unanswered."""
        if self._open is not None or not (self._refusals or self._events or self._kick):
            return None
        events = (*self._refusals, *self._events)
        self.discard()
        self._kick = False
        self._open = self._manager.seq + 1
        return self._open, now_us, events

    def close_batch(self, refusals: Sequence[ActionRefused]) -> None:
        """Note that the open batch is answered, with the refusals of its actions.

        Must be called after these actions were carried out: a measurement taken meanwhile is sent after the scheduler's decisions,
        which may have made it void.
        """
        self._open = None
        self._refusals += refusals
        self._events = [
            event for event in self._events if not isinstance(event, ProgressMeasured) or self._holds(event)
        ]
        if refusals:  # actions that were not carried out would have voided some
            for job_id, job in sorted(self._manager.running.items()):
                if job.measured_ppm:
                    self._events.append(ProgressMeasured(job_id, job.measured_ppm))

    def discard(self) -> None:
        """Drop the events: the scheduler is gone, and the next one gets the present state."""
        self._refusals.clear()
        self._events.clear()

    def inventory(self, now_us: int) -> Welcome:
        """Return the present state for a new scheduler. It includes all events not sent yet; an unanswered batch is given up."""
        if self._open is not None:
            self._manager.skip_to(self._open)
            self._open = None
        self.discard()
        self._kick = True
        return self._manager.inventory()._replace(now_us=now_us)

    def _holds(self, event: ProgressMeasured) -> bool:
        job = self._manager.running.get(event.job_id)
        return job is not None and job.measured_ppm == event.slowdown_ppm
