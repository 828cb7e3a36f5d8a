"""The link to a scheduler in another process, in virtual time: the manager waits for each answer, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cosched_emulator.couplings.scheduler_port import SchedulerPort
from cosched_plugin.protocol.errors import ProtocolError
from cosched_plugin.protocol.messages import Action, Actions, Event, Welcome
from cosched_plugin.protocol.session import State


class ZmqLink:
    """The manager's end of a scheduler's ``port``; closes the port.

    ``wait_s`` is how long `open` waits for a scheduler, ``deadline_s`` how long `exchange` waits for an answer, restarts of the
    scheduler included. ``late`` is called where a deadline is missed, before that is an error.
    """

    def __init__(
        self, port: SchedulerPort, *, deadline_s: float, wait_s: float, late: Callable[[], None] = lambda: None
    ) -> None:
        self.port = port
        self._deadline_s = deadline_s
        self._wait_s = wait_s
        self._late = late

    @property
    def policy(self) -> str:
        """Return the scheduler's name of its policy; empty before the first scheduler."""
        return self.port.policy

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Wait until a scheduler has taken over the state, anew if it had done so; LinkError after ``wait_s``."""
        port = self.port
        try:
            if port.session is not None:
                port.resync("the manager has restarted")
            session = port.session or port.begin(inventory, lockstep=True)
            deadline = time.monotonic() + self._wait_s
            while True:
                port.receive()
                if session.state is State.READY:
                    return
                port.tend()
                if time.monotonic() >= deadline:
                    self._late()
                    raise port.error(f"no scheduler was ready within {self._wait_s:g} s")
        except ProtocolError as error:
            raise port.error(str(error)) from error

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Send a batch and return the answer, possibly of a restarted scheduler, which first receives the present state.

        Raises LinkError if there is no answer within ``deadline_s``, or none can come any more.
        """
        port = self.port
        deadline = time.monotonic() + self._deadline_s
        try:
            port.submit(seq, now_us, events)
            while True:
                delivered = port.receive()
                if type(delivered) is Actions:
                    return delivered.actions
                if time.monotonic() >= deadline:
                    self._late()
                    raise port.error(f"no answer to batch {seq} within {self._deadline_s:g} s")
                port.tend()
        except ProtocolError as error:
            raise port.error(str(error)) from error

    def close(self) -> None:
        """Say bye to the scheduler, and release the endpoint; takes at most half a second."""
        self.port.close()
