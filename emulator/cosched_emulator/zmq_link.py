"""The link to a scheduler in another process, in virtual time: the manager waits for each answer, and never without an end."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence

from cosched_emulator.scheduler_port import RESEND_S, TAKEOVER_S, SchedulerPort
from cosched_emulator.wire import Wire
from cosched_plugin.curve import Keyring
from cosched_plugin.protocol.errors import ProtocolError
from cosched_plugin.protocol.messages import Action, Actions, Event, Welcome
from cosched_plugin.protocol.session import State


class ZmqLink:
    """Manager's end of ``endpoint``, bound from construction to `close`; ``.endpoint`` is the one really bound.

    ``wait_s`` is how long `open` waits for a scheduler, ``deadline_s`` how long `exchange` waits for an answer, restarts of the
    scheduler included. The rest as `SchedulerPort` has it. Raises ConfigurationError when it cannot be bound.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        deadline_s: float,
        wait_s: float,
        wire: Wire | None = None,
        keys: Keyring | None = None,
        child: Callable[[], subprocess.Popen[bytes] | None] | None = None,
        diagnose: Callable[[], str] | None = None,
        resend_s: float = RESEND_S,
        takeover_s: float = TAKEOVER_S,
        note: Callable[[str, str], None] = lambda _word, _text: None,
    ) -> None:
        self._deadline_s = deadline_s
        self._wait_s = wait_s
        self.port = SchedulerPort(
            endpoint,
            wire=wire,
            keys=keys,
            child=child,
            diagnose=diagnose,
            resend_s=resend_s,
            takeover_s=takeover_s,
            note=note,
        )
        self.endpoint = self.port.endpoint

    @property
    def policy(self) -> str:
        """Return the name that the scheduler gave its policy, empty before there was one."""
        return self.port.policy

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Wait until a scheduler has taken over the state; LinkError after ``wait_s``."""
        port = self.port
        try:
            session = port.begin(inventory, lockstep=True)
            deadline = time.monotonic() + self._wait_s
            while True:
                port.receive()
                if session.state is State.READY:
                    return
                port.tend()
                if time.monotonic() >= deadline:
                    raise port.error(f"no scheduler was ready within {self._wait_s:g} s")
        except ProtocolError as error:
            raise port.error(str(error)) from error

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Send a batch and return the answer to it, whoever gives it: a scheduler that restarts is brought up to date.

        Raises LinkError when there is no answer within ``deadline_s``, or none to expect any more.
        """
        port = self.port
        port.opened()
        deadline = time.monotonic() + self._deadline_s
        try:
            port.submit(seq, now_us, events)
            while True:
                delivered = port.receive()
                if type(delivered) is Actions:
                    return delivered.actions
                if time.monotonic() >= deadline:
                    raise port.error(f"no answer to batch {seq} within {self._deadline_s:g} s")
                port.tend()
        except ProtocolError as error:
            raise port.error(str(error)) from error

    def close(self) -> None:
        """Say bye to a scheduler that listens, and give the endpoint up; takes at most half a second."""
        self.port.close()
