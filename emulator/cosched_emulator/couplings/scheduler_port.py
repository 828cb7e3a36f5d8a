"""The manager's socket for its scheduler: who is served, who is refused, who takes over. It never waits longer than a slice.

What a message means is the session's affair; when to give up is that of whoever uses the port: `zmq_link` in virtual time, where
the manager waits for the answer, `live.server` where it does not.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import zmq

from cosched_emulator.couplings.listening import listen
from cosched_emulator.couplings.socket_frames import Wire
from cosched_emulator.errors import ConfigurationError, LinkError, UnsupportedError
from cosched_plugin.common.binding import OWNER_ONLY, router_socket
from cosched_plugin.common.curve import Keyring
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.endpoint import takes_keys, why_not
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.limits import MAX_FRAME_BYTES
from cosched_plugin.protocol.messages import (
    Actions,
    Bye,
    ErrorReport,
    Event,
    Events,
    Hello,
    Message,
    Ping,
    Ready,
    Welcome,
)
from cosched_plugin.protocol.session.base import report_of
from cosched_plugin.protocol.session.manager import ManagerSession
from cosched_plugin.protocol.session.table import State

SLICE_S: Final = 0.2  # longest wait that notices nothing: Ctrl-C, a dead child and a deadline are at most this late
RESEND_S: Final = 1.0  # first interval after which an open batch is sent again; it doubles up to
RESEND_MOST_S: Final = 30.0
LINGER_S: Final = 0.5  # how long the last message may take to leave
TAKEOVER_S: Final = (
    1.2  # silence after which a standby takes over; with a ping and a slice before it, under two seconds in all
)
PING_S: Final = 0.25  # while a standby waits, the scheduler that is served is asked so often whether it is there
STANDBY_FRESH_S: Final = 3.0  # a standby that has not said hello for so long is gone
WAITING_IN, WAITING_OUT = (
    16,
    64,
)  # messages of one peer: a scheduler has one or two under way, others are to cost no memory
HEARTBEAT_MS: Final = 2_000  # on tcp: a host that has vanished is noticed after
HEARTBEAT_TIMEOUT_MS: Final = 10_000


class _Standby(NamedTuple):
    """A declared standby that has been refused for now."""

    sender: bytes
    hello: Hello
    seen_s: float


class SchedulerPort:
    """The ROUTER socket at ``endpoint``, bound from construction to `close`; ``.endpoint`` is the one really bound.

    ``child`` returns the scheduler's process if it is ours: when it has ended, so has the wait for it; ``diagnose`` then adds its last
    words. Off this machine only with ``keys``. ``note`` is told, as (short word, text), who comes and goes.
    Raises ConfigurationError for an endpoint that may not be used or cannot be bound.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        wire: Wire | None = None,
        keys: Keyring | None = None,
        child: Callable[[], subprocess.Popen[bytes] | None] | None = None,
        diagnose: Callable[[], str] | None = None,
        resend_s: float = RESEND_S,
        takeover_s: float = TAKEOVER_S,
        note: Callable[[str, str], None] = lambda _word, _text: None,
    ) -> None:
        reason = why_not(endpoint, secured=keys is not None)
        if reason is not None:
            raise ConfigurationError("endpoint", f"one that may be used ({reason})", endpoint)
        self.endpoint = endpoint
        self.session: ManagerSession | None = None
        self._wire = Wire() if wire is None else wire
        self._keys = keys if takes_keys(endpoint) else None
        self._child = child
        self._diagnose = diagnose
        self._resend_s = resend_s
        self._takeover_s = takeover_s
        self._note = note
        self.heard = 0  # messages, from whomever
        self._peer: bytes | None = None  # routing id of the scheduler that is served
        self._standby: _Standby | None = None
        self._free_since_s = time.monotonic()  # since when nobody is served, if nobody is
        self._trouble = ""  # last reason why a scheduler was not taken, or went away
        self._heard_all_s = 0.0  # when nothing more had come: its answer may lie in the socket since
        self._asked_s: float | None = None  # since when the one that is served owes us a word
        self._ping_s = 0.0  # when it is to be asked next
        self._resend_at_s = 0.0
        self._interval_s = resend_s
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = router_socket(self.context)
        self.socket.linger = round(LINGER_S * 1000)
        self.socket.router_mandatory = True  # tells at once when the scheduler is gone
        self.socket.maxmsgsize = MAX_FRAME_BYTES
        self.socket.rcvhwm, self.socket.sndhwm = WAITING_IN, WAITING_OUT
        self.socket.rcvtimeo = round(SLICE_S * 1000)
        if endpoint.startswith("tcp:"):
            self.socket.heartbeat_ivl = HEARTBEAT_MS
            self.socket.heartbeat_timeout = HEARTBEAT_TIMEOUT_MS
        try:
            if self._keys is not None:
                self._keys.secure(self.socket, "plugin")
            self.endpoint = listen(self.socket, endpoint, OWNER_ONLY)
        except BaseException:
            self.close()
            raise

    @property
    def policy(self) -> str:
        """Return the name that the scheduler gave its policy, empty before there was one."""
        return "" if self.session is None or self.session.peer is None else self.session.peer.policy

    @property
    def instance(self) -> str:
        """Return who is served, empty if nobody is."""
        served = self.session is not None and self.session.state not in (State.START, State.CLOSED)
        return (
            self.session.peer.instance if served and self.session is not None and self.session.peer is not None else ""
        )

    @property
    def silent_s(self) -> float:
        """Return for how long the scheduler that is served has owed an answer, 0 where it does not."""
        return 0.0 if self._asked_s is None or not self.instance else round(time.monotonic() - self._asked_s, 3)

    @property
    def standby(self) -> str:
        """Return the declared standby that waits, empty if none does."""
        waiting = self._standby
        return waiting.hello.instance if waiting is not None and self._is_fresh(waiting, time.monotonic()) else ""

    def begin(self, inventory: Callable[[], Welcome], *, lockstep: bool) -> ManagerSession:
        """Begin a conversation, with whoever says hello."""
        self.session = ManagerSession(inventory, lockstep=lockstep)
        return self.session

    def submit(self, seq: int, now_us: int, events: tuple[Event, ...]) -> None:
        """Send a batch; where no scheduler is ready, it gets the batch when it is."""
        session = self.opened()
        self._interval_s = self._resend_s
        self._resend_at_s = time.monotonic() + self._interval_s
        for message in session.submit(seq, now_us, events):
            self._send(session, message)

    def receive(self, flags: int = 0) -> Message | None:
        """Take in one message, or let one slice pass (none with zmq.NOBLOCK); return what is for the manager, if anything is.

        Raises LinkError when the scheduler that is served reports an error, breaks the protocol, or its process has ended.
        """
        session = self.opened()
        try:
            sender, *frames = self._wire.receive(self.socket, flags)
        except zmq.Again:
            self._heard_all_s = time.monotonic()
            self._check_child()
            return None
        self.heard += 1
        if sender == self._peer:
            self._asked_s = None
            session.silent = False
        try:
            message = decode(frames)
            if sender != self._peer and not self._admit(session, sender, message):
                return None
            received = session.receive(message)
        except RemoteProtocolError as error:
            self._send_to(sender, report_of(error))
            if sender != self._peer:
                self._trouble = f"a scheduler was refused: {error}"
                return None
            raise self.error(f"the scheduler sent what cannot be accepted ({error.code}): {error}") from error
        if type(received.deliver) is Hello:
            self._serve(sender)
        for reply in received.send:
            self._send(session, reply)
        if type(message) is Actions:
            return received.deliver
        # One that is gone may have left word of why.
        return self._act_on(message if type(message) in (Bye, ErrorReport) else received.deliver)

    def wait_s(self, most_s: float) -> float:
        """Return how long the socket may be left alone, ``most_s`` at most."""
        due_s = self._wire.next_due_s()
        return most_s if due_s is None else min(most_s, due_s)

    def tend(self) -> None:
        """Do what time brings: send again what was not answered, ask a scheduler behind whom another waits, let that one take over."""
        session = self.opened()
        now_s = time.monotonic()
        if session.state in (State.OPEN, State.WELCOMED) and now_s >= self._resend_at_s:
            for message in session.resend():
                self._send(session, message)
            self._interval_s = min(2 * self._interval_s, RESEND_MOST_S)
            self._resend_at_s = now_s + self._interval_s
        waiting = self._standby
        if waiting is None:
            return
        if not self._is_fresh(waiting, now_s):
            self._standby = None
        elif session.state in (State.START, State.CLOSED):
            if now_s - self._free_since_s >= self._takeover_s:
                self._take_over(session, waiting)
        elif self._asked_s is None:
            if now_s >= self._ping_s:
                self._ping_s = now_s + PING_S
                self._send(session, Ping(0))
        elif self._heard_all_s - self._asked_s >= self._takeover_s:
            session.silent = True
            self._take_over(session, waiting)

    def dismiss(self) -> None:
        """Serve that scheduler no longer; the next hello is waited for."""
        self._peer = None
        self._asked_s = None
        self._free_since_s = time.monotonic()
        self.opened().peer_lost()

    def close(self) -> None:
        """Say bye to a scheduler that listens, and give the endpoint up; takes at most half a second."""
        if self.socket.closed:
            return
        if self.session is not None and self._peer is not None:
            self._send(self.session, self.session.bye("the manager closes"))
        if self._standby is not None:
            self._send_to(self._standby.sender, Bye("the manager closes"))
        self.socket.close()
        if self._keys is not None:
            self._keys.close()
        self.context.term()

    def opened(self) -> ManagerSession:
        """Return the session; LinkError where there is none."""
        if self.session is None or self.socket.closed:
            raise self.error("the link is not open")
        return self.session

    def error(self, text: str) -> LinkError:
        """Return the error that says ``text``, and what else is known of the trouble."""
        return LinkError(self._described(text), self.endpoint)

    def _described(self, text: str) -> str:
        parts = [text, self._trouble, "" if self._diagnose is None else self._diagnose()]
        return "\n".join([part for part in parts if part])

    def _act_on(self, delivered: Message | None) -> Message | None:
        match delivered:
            case ErrorReport("unsupported", path, text):
                raise UnsupportedError(f"{path}{': ' if path else ''}{text}", self.endpoint)
            case ErrorReport(code, path, text):
                raise self.error(f"the scheduler reports {code}: {path}{': ' if path else ''}{text}")
            case Bye(reason):
                self._trouble = f"the scheduler left: {reason}"
                self._free_since_s = time.monotonic()
                self._note("scheduler-left", self._trouble)
            case Hello():
                self._note("scheduler-came", f"scheduler {delivered.instance} says hello, policy {delivered.policy}")
            case Ready():
                self._trouble = ""
        return delivered

    def _admit(self, session: ManagerSession, sender: bytes, message: Message) -> bool:
        """Return whether the session is to hear ``message``, which does not come from the scheduler that is served."""
        if type(message) is not Hello:
            if type(message) not in (ErrorReport, Bye):
                self._send_to(sender, ErrorReport("state", "type", "say hello first"))
            return False
        if session.would_be_second(message):
            self._send(session, Ping(0))  # fails, and so clears the place, if the first one's connection is gone
        if session.would_be_second(message):
            if message.standby and session.speaks(message):
                self._standby = _Standby(sender, message, time.monotonic())
            for reply in session.receive(message).send:
                self._send_to(sender, reply)
            return False
        if session.takes_over(message):
            self._replace(session, message)
        elif message.standby and session.state in (State.START, State.CLOSED) and session.speaks(message):
            # Whoever was served until now, or is meant to be, comes back at once if it can: it goes first.
            now_s = time.monotonic()
            if now_s - self._free_since_s < self._takeover_s:
                self._standby = _Standby(sender, message, now_s)
                self._send_to(sender, ErrorReport("busy", "", "a scheduler that is no standby is waited for"))
                return False
        return True

    def _take_over(self, session: ManagerSession, waiting: _Standby) -> None:
        """Serve the standby from now on, as if it had said hello once more."""
        if session.takes_over(waiting.hello):
            self._replace(session, waiting.hello)
        else:
            self._note("takeover", f"standby {waiting.hello.instance} serves from now on: nobody else has come")
        self._standby = None
        received = session.receive(waiting.hello)
        self._serve(waiting.sender)
        for reply in received.send:
            self._send(session, reply)

    def _serve(self, sender: bytes) -> None:
        """Have another scheduler's word count from now on, which owes none yet."""
        self._peer = sender
        self._asked_s = None

    def _replace(self, session: ManagerSession, hello: Hello) -> None:
        served = self.instance
        last_word = session.replace(hello)
        if self._peer is not None:
            self._send_to(self._peer, last_word)
        self._note("takeover", f"standby {hello.instance} has taken over from {served}, which did not answer")

    def _is_fresh(self, waiting: _Standby, now_s: float) -> bool:
        return now_s - waiting.seen_s < STANDBY_FRESH_S

    def _send(self, session: ManagerSession, message: Message) -> None:
        """Send ``message`` to the scheduler that is served; a vanished one is noted, and the next hello is waited for."""
        if self._peer is None or not self._send_to(self._peer, message):
            if not self._trouble:
                self._trouble = "the scheduler's connection is gone"
                self._note("scheduler-gone", self._trouble)
            session.peer_lost()
            self._free_since_s = time.monotonic()
        elif self._asked_s is None and type(message) in (Events, Welcome, Ping):
            self._asked_s = time.monotonic()
            if type(message) is Welcome:
                self._interval_s = self._resend_s
                self._resend_at_s = self._asked_s + self._interval_s

    def _send_to(self, peer: bytes, message: Message) -> bool:
        """Send ``message`` to ``peer``; return False when there is no such peer any more."""
        try:
            self._wire.send(self.socket, [peer, *encode(message)])
        except zmq.Again:
            return True  # its queue is full: what matters will be sent again
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return False
            raise self.error(str(error)) from error
        return True

    def _check_child(self) -> None:
        child = None if self._child is None else self._child()
        code = None if child is None else child.poll()
        if code is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise self.error(f"the scheduler's process {how}")
