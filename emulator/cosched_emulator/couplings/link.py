"""The interface between a manager and its scheduler, the same for every coupling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.errors import LocalProtocolError
from cosched_plugin.protocol.messages import Action, Actions, Event, Events, Message, Welcome
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory
from cosched_plugin.protocol.session import ManagerSession, SchedulerSession


class Link(Protocol):
    """The manager's side of a coupling.

    The manager commits a batch only after `exchange` has returned, so ``inventory`` always returns the state as of the last answered
    batch, also during an `exchange`.
    """

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Start a scheduler from the state that ``inventory`` returns; again, between two batches, when the manager has restarted."""

    # Virtual time stands still meanwhile. A scheduler that dies here and comes back gets the inventory before this batch, and the
    # batch.
    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Hand over all events of one instant and return the scheduler's actions, in order."""

    def close(self) -> None:
        """Dismiss the scheduler; safe to call at any time, also twice."""


GREETING: Final = 0  # in the place of a batch: the scheduler is made

# The direct coupling: manager and scheduler call each other in one process.


class DirectLink:
    """The scheduler as a plain object: no codec, no checks, full speed. The plugin's own errors propagate."""

    def __init__(self, scheduler_factory: SchedulerFactory) -> None:
        self._scheduler_factory = scheduler_factory
        self.scheduler: Scheduler | None = None
        self.awaits: int | None = None  # the batch for which the scheduler's code is called, which may never return

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Make the scheduler."""
        self.awaits = GREETING
        self.scheduler = self._scheduler_factory(inventory())
        self.awaits = None

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Call the scheduler."""
        if self.scheduler is None:
            raise LocalProtocolError("the link is not open")
        self.awaits = seq
        actions = self.scheduler.handle(now_us, events)
        self.awaits = None
        return actions

    def close(self) -> None:
        """Forget the scheduler."""
        self.scheduler = None


# The loopback coupling: both sessions and the codec in one process, for tests of the protocol without sockets.


class LoopbackLink:
    """Both sessions and the codec in one process: every message is encoded and decoded. The plugin's own errors propagate."""

    def __init__(self, scheduler_factory: SchedulerFactory) -> None:
        self._scheduler_factory = scheduler_factory
        self._near: ManagerSession | None = None
        self._far = SchedulerSession("loopback", "")
        self.scheduler: Scheduler | None = None
        self.awaits: int | None = None

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Greet, and make the scheduler."""
        self._near = near = ManagerSession(inventory)
        self._far = far = SchedulerSession("loopback", "")
        for welcome in near.receive(_transcode(far.hello())).send:
            delivered = far.receive(_transcode(welcome)).deliver
            if isinstance(delivered, Welcome):
                self.awaits = GREETING
                self.scheduler = self._scheduler_factory(delivered)
                self.awaits = None
        near.receive(_transcode(far.ready()))

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Pass the batch to the scheduler's end, and return its answer."""
        if self._near is None or self.scheduler is None:
            raise LocalProtocolError("the link is not open")
        for message in self._near.submit(seq, now_us, events):
            batch = self._far.receive(_transcode(message)).deliver
            if isinstance(batch, Events):
                self.awaits = seq
                reply = self._far.answer(self.scheduler.handle(batch.now_us, batch.events))
                self.awaits = None
                answer = self._near.receive(_transcode(reply)).deliver
                if isinstance(answer, Actions):
                    return answer.actions
        raise LocalProtocolError("the batch was not delivered")

    def close(self) -> None:
        """Say bye."""
        if self._near is not None:
            self._far.receive(_transcode(self._near.bye("the run is over")))
        self._near = self.scheduler = None


def _transcode(message: Message) -> Message:
    """Return ``message`` after encoding and decoding."""
    return decode(encode(message))
