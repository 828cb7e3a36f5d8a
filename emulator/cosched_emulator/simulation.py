"""The loop of a run: time goes from instant to instant, and each instant's events are answered before time goes on.

All events of one instant travel in one batch, in the order that PROTOCOL.md fixes; what the answer causes at that same instant
follows in further batches. Contention settles once, after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cosched_emulator.agenda import Agenda
from cosched_emulator.errors import InvariantError, LinkError
from cosched_emulator.links import Link
from cosched_emulator.manager import Manager
from cosched_emulator.results.record import JobRecord
from cosched_plugin.protocol.messages import JobEnded, Woken

# So many batches at one instant are a scheduler and a manager that quarrel for ever.
MOST_ROUNDS: Final = 1000
# So many wakes in a row without anything else are a scheduler that will never end.
MOST_IDLE_WAKES: Final = 5_000_000


class Simulation:
    """One run of a workload on one machine under one scheduler, in virtual time."""

    def __init__(
        self,
        manager: Manager,
        agenda: Agenda,
        link: Link,
        *,
        progress: Callable[[int], None] | None = None,
        committed: Callable[[], None] | None = None,
    ) -> None:
        """``progress`` is called with the number of jobs that have ended, ``committed`` after every batch, and when all is over."""
        self.manager = manager
        self.batches = 0
        self._agenda = agenda
        self._link = link
        self._progress = progress
        self._committed = committed
        self._ended = 0

    def run(self) -> list[JobRecord]:
        """Run to the end and return every job's record, in order of id.

        Ends when nothing is due any more; jobs that still wait then (held, or never started by the scheduler) have no end.
        """
        manager = self.manager
        self._link.open(manager.inventory)
        try:
            idle = 0
            while (now_us := self._agenda.next_us()) is not None:
                idle = 0 if self._instant(now_us) else idle + 1
                if idle > MOST_IDLE_WAKES:
                    raise LinkError(f"the scheduler has had itself woken {idle} times, and nothing else has happened")
            if self._committed is not None:
                self._committed()
        finally:
            self._link.close()
        return [job.record() for _, job in sorted(manager.jobs.items())]

    def _instant(self, now_us: int) -> bool:
        """Play one instant; tell whether anything happened but the scheduler's own wakes."""
        manager = self.manager
        events = self._agenda.due(now_us)
        if events and self._progress is not None:
            self._ended += sum([isinstance(event, JobEnded) for event in events])
            self._progress(self._ended)
        eventful = any(type(event) is not Woken for event in events)
        rounds = 0
        while events:
            rounds += 1
            if rounds > MOST_ROUNDS:
                raise InvariantError(f"{rounds} batches at {now_us} us, and still actions are refused: {events[0]}")
            seq = manager.seq + 1
            self.batches += 1
            actions = self._link.exchange(seq, now_us, tuple(events))
            events = manager.commit(seq, now_us, events, actions)
            if self._committed is not None:
                self._committed()
        manager.settle(now_us)
        return eventful
