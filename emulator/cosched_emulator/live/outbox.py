"""The events for the scheduler's next batch: each is applied to the manager at once, and told later.

A batch is open from `batch` until its answer has come; meanwhile events are collected. The refusals of the scheduler's own actions come
first in a batch, so that it takes these actions back before it reads the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from cosched_emulator.manager.manager import Manager
from cosched_plugin.protocol import messages as m

# What a scheduler that does not answer, or whose actions were refused in such a number, is not told any more: it gets the present
# state instead, which replaces it all.
MOST_EVENTS: Final = 50_000
MOST_REFUSALS: Final = 1_000
_ACTION: Final = itemgetter(0, 1)  # of a refusal: batch and place in its answer


class Outbox:
    """The events that the scheduler does not know yet, and the batch that it has not answered."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._refusals: list[m.ActionRefused] = []
        self._events: list[m.Event] = []
        self._changed: dict[int, int] = {}  # when the manager last changed a job by itself, by job
        self._open: int | None = None  # number of the unanswered batch
        self._kick = False  # a new scheduler must decide, whether or not anything happens
        self.overflows = False  # there was too much to tell: the scheduler must take over the present state

    @property
    def has_only_wakes(self) -> bool:
        """Return whether the next batch would tell of nothing but the time."""
        return (
            bool(self._events)
            and not self._kick
            and not self._refusals
            and all(isinstance(event, m.Woken) for event in self._events)
        )

    @property
    def awaits_answer(self) -> bool:
        """Return whether a batch is unanswered."""
        return self._open is not None

    @property
    def has_news(self) -> bool:
        """Return whether something has happened since the batch that the scheduler answers."""
        return bool(self._events or self._refusals or self.overflows)

    # By time, as a replay of the journal knows no batches, and must refuse the same.
    def changed_jobs(self, since_us: int) -> list[int]:
        """Return the jobs that the manager has started or changed by itself since a batch of that time."""
        return [job_id for job_id, at_us in self._changed.items() if at_us > since_us]

    def forget(self, job_id: int) -> None:
        """Forget a job that has ended."""
        self._changed.pop(job_id, None)

    def tell(self, at_us: int, *events: m.Event) -> None:
        """Apply events, and add them to the next batch.

        All events of a live manager go through here, so that manager and scheduler cannot know different things.
        """
        self._manager.apply(at_us, events)
        for event in events:
            if isinstance(event, m.ActionRefused):  # a late one
                self._refusals.append(event)
            else:
                self._events.append(event)
            if isinstance(event, m.JobModified):
                self._changed[event.job.id] = at_us
            elif isinstance(event, m.JobStarted | m.JobRevised | m.JobSuspended | m.JobResumed):
                self._changed[event.job_id] = at_us
        self._bound()

    def batch(self, now_us: int) -> tuple[int, int, tuple[m.Event, ...]] | None:
        """Return (number, time, events) of the next batch, and count it as sent; None if there is none, or a batch is unanswered."""
        if self._open is not None or self.overflows or not (self._refusals or self._events or self._kick):
            return None
        # The scheduler undoes the last one first: what it decided later may build on what is refused late.
        events = (*sorted(self._refusals, key=_ACTION), *self._events)
        self.discard()
        self._kick = False
        self._open = self._manager.seq + 1
        return self._open, now_us, events

    def close_batch(self, refusals: Sequence[m.ActionRefused]) -> None:
        """Note that the open batch is answered, with the refusals of its actions.

        Must be called after these actions were carried out: a measurement taken meanwhile is sent after the scheduler's decisions,
        which may have made it void.
        """
        self._open = None
        self._refusals += refusals
        self._events = [
            event for event in self._events if not isinstance(event, m.ProgressMeasured) or self._holds(event)
        ]
        self._bound()

    def _bound(self) -> None:
        if self.overflows or len(self._events) > MOST_EVENTS or len(self._refusals) > MOST_REFUSALS:
            self.discard()
            self.overflows = True

    def discard(self) -> None:
        """Drop the events: the scheduler is gone, and the next one gets the present state."""
        self._refusals.clear()
        self._events.clear()
        self.overflows = False

    def empty(self) -> None:
        """Drop the events, but not that there were some: the next batch is empty. In a replay only its number counts."""
        if self.has_news:
            self.discard()
            self._kick = True

    def inventory(self, now_us: int) -> m.Welcome:
        """Return the present state for a new scheduler. It includes all events not sent yet; an unanswered batch is given up."""
        if self._open is not None:
            # A number is never used twice: the answer to a batch that was given up may still be on its way.
            self._manager.seq = self._open
            self._open = None
        self.discard()
        self._kick = True
        return self._manager.inventory()._replace(now_us=now_us)

    def _holds(self, event: m.ProgressMeasured) -> bool:
        job = self._manager.running.get(event.job_id)
        return job is not None and job.measured_ppm == event.slowdown_ppm
