"""The manager's socket for its scheduler: it serves one scheduler and refuses others. No call waits longer than one slice.

The session interprets messages; `standby` decides when a second scheduler takes over. The user of the port decides when to give
up: `zmq_link` in virtual time, where the manager waits for the answer, `live.server` where it does not.
"""

from __future__ import annotations

import subprocess
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, NamedTuple

import zmq

from cosched_emulator.couplings.channel import NOBLOCK, Channel
from cosched_emulator.errors import ConfigurationError, LinkError, UnsupportedError
from cosched_plugin.common.curve import Keyring
from cosched_plugin.common.errors import EndpointError
from cosched_plugin.common.sockets import OWNER_ONLY, bind_private, remove_socket, router_socket
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.endpoint import takes_keys, why_not
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.limits import MAX_FRAME_BYTES
from cosched_plugin.protocol.session import ManagerSession, State, report_of

# The endpoints of a manager: checks and binds them; errors name a configuration key.

LINGER_S: Final = 0.5  # longest time to send the last messages
# Messages per peer: a scheduler has one or two under way; other peers must not use up memory.
WAITING_IN: Final = 16
WAITING_OUT: Final = 64
HEARTBEAT_MS: Final = 2_000  # on tcp: time until a vanished host is noticed
HEARTBEAT_TIMEOUT_MS: Final = 10_000


def listen(router: zmq.Socket[bytes], endpoint: str, mode: int) -> str:
    """Bind ``router`` and return the actual endpoint; the file of an ipc endpoint has ``mode``.

    Raises ConfigurationError.
    """
    try:
        return bind_private(router, endpoint, mode)
    except EndpointError as error:
        found = f"{endpoint}, {error.got}" if error.got else endpoint
        raise ConfigurationError("endpoint", error.expected, found) from error


def scheduler_socket(context: zmq.Context[zmq.Socket[bytes]], endpoint: str, wait_s: float) -> zmq.Socket[bytes]:
    """Return a socket for one scheduler at ``endpoint``, not bound yet, on which receiving takes ``wait_s`` at most."""
    socket = router_socket(context)
    socket.linger = round(LINGER_S * 1000)
    socket.router_mandatory = True  # reports immediately that the scheduler is gone
    socket.maxmsgsize = MAX_FRAME_BYTES
    socket.rcvhwm, socket.sndhwm = WAITING_IN, WAITING_OUT
    socket.rcvtimeo = round(wait_s * 1000)
    if endpoint.startswith("tcp:"):
        socket.heartbeat_ivl = HEARTBEAT_MS
        socket.heartbeat_timeout = HEARTBEAT_TIMEOUT_MS
    return socket


# The standby: a second scheduler that takes over when the served one is gone or does not answer.
#
# This module reads no clock and no socket; times are seconds of one monotonic clock.

# Silence after which a standby takes over; together with a ping and a slice, less than two seconds
TAKEOVER_S: Final = 1.2
PING_S: Final = 0.25  # interval of pings to the served scheduler while a standby waits
FRESH_S: Final = 3.0  # time without a hello after which a standby counts as gone


class Standby(NamedTuple):
    """A declared standby that has been refused for now."""

    sender: bytes
    hello: m.Hello
    seen_s: float


class StandbyPlace:
    """The place of one standby behind the served scheduler, and the rules for its takeover."""

    def __init__(self, takeover_s: float, now_s: float) -> None:
        self.waiting: Standby | None = None
        self._takeover_s = takeover_s
        self._free_since_s = now_s  # since when no scheduler is served; None: one is served
        self._ping_s = 0.0  # when to ping the served scheduler next

    def set_free(self, now_s: float) -> None:
        """Note that no scheduler is served from now on."""
        self._free_since_s = now_s

    def is_reserved(self, now_s: float) -> bool:
        """Return whether the place, if free, is still reserved for a scheduler that is not a standby."""
        return now_s - self._free_since_s < self._takeover_s

    def instance(self, now_s: float) -> str:
        """Return the standby that waits, empty if none does."""
        waiting = self.waiting
        return waiting.hello.instance if waiting is not None and now_s - waiting.seen_s < FRESH_S else ""

    def next_step(self, now_s: float, *, served: bool, silent_s: float | None) -> Literal["wait", "ping", "take over"]:
        """Return the next step; forget a standby that is gone.

        ``served``: a scheduler is served; ``silent_s``: for how long it had owed an answer when its messages were last
        read; None if it owes none.
        """
        if self.waiting is None:
            return "wait"
        if now_s - self.waiting.seen_s >= FRESH_S:
            self.waiting = None
            return "wait"
        if not served:
            return "wait" if self.is_reserved(now_s) else "take over"
        if silent_s is None:
            if now_s < self._ping_s:
                return "wait"
            self._ping_s = now_s + PING_S
            return "ping"
        return "take over" if silent_s >= self._takeover_s else "wait"


SLICE_S: Final = 0.2  # one slice: longest delay in noticing Ctrl-C, a dead child or a deadline
RESEND_S: Final = 1.0  # first interval after which an open batch is sent again; it doubles up to
RESEND_MOST_S: Final = 30.0
# A welcome is not sent again before so many times what it took to send: it takes longer to read
READING_FACTOR: Final = 10


class SchedulerPort:
    """The ROUTER socket at ``endpoint``, bound from construction to `close`; ``.endpoint`` is the actual one.

    ``child`` returns the scheduler's process if this program started it: its end also ends the wait for an answer, and ``diagnose``
    returns its last output. An endpoint for other machines needs ``keys``. ``note`` is called with (short word, text) when a scheduler
    comes or goes.
    Raises ConfigurationError for an endpoint that may not be used or cannot be bound.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        channel: Channel | None = None,
        keys: Keyring | None = None,
        child: Callable[[], subprocess.Popen[bytes] | None] | None = None,
        diagnose: Callable[[], str] | None = None,
        resend_s: float = RESEND_S,
        note: Callable[[str, str], None] = lambda _word, _text: None,
    ) -> None:
        reason = why_not(endpoint, secured=keys is not None)
        if reason is not None:
            raise ConfigurationError("endpoint", f"one that may be used ({reason})", endpoint)
        self.endpoint = endpoint
        self.session: ManagerSession | None = None
        self._channel = Channel() if channel is None else channel
        self._keys = keys if takes_keys(endpoint) else None
        self._child = child
        self._diagnose = diagnose
        self._resend_s = resend_s
        self._note = note
        self.most_bytes = MAX_FRAME_BYTES  # of a message
        self.heard = 0  # messages from any sender
        self._peer: bytes | None = None  # routing id of the scheduler that is served
        self._standby = StandbyPlace(TAKEOVER_S, time.monotonic())
        self._trouble = ""  # last reason why a scheduler was refused or went away
        self._heard_all_s = 0.0  # when the socket was last found empty: an answer may have arrived since
        self._asked_s: float | None = None  # since when the served scheduler owes an answer
        self._resend_at_s = 0.0
        self._interval_s = resend_s
        self._ahead: deque[list[bytes]] = deque()  # messages that were read behind a hello
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = scheduler_socket(self.context, endpoint, SLICE_S)
        try:
            if self._keys is not None:
                self._keys.secure(self.socket, "plugin")
            self.endpoint = listen(self.socket, endpoint, OWNER_ONLY)
        except BaseException:
            self.close()
            raise

    @property
    def policy(self) -> str:
        """Return the scheduler's name of its policy; empty before the first scheduler."""
        return "" if self.session is None or self.session.peer is None else self.session.peer.policy

    @property
    def policy_arguments(self) -> tuple[str, ...]:
        """Return how the scheduler says that its policy is made; empty if it does not, and before the first scheduler."""
        return () if self.session is None or self.session.peer is None else self.session.peer.arguments

    @property
    def policy_ignores(self) -> tuple[str, ...] | None:
        """Return what the scheduler's policy does not honour of what jobs ask for; None before the first scheduler."""
        return None if self.session is None or self.session.peer is None else self.session.peer.ignores

    @property
    def instance(self) -> str:
        """Return the scheduler that is served, empty if none is."""
        served = self.session is not None and self.session.state not in (State.START, State.CLOSED)
        return (
            self.session.peer.instance if served and self.session is not None and self.session.peer is not None else ""
        )

    @property
    def silent_s(self) -> float:
        """Return for how many seconds the served scheduler has owed an answer; 0 if it owes none."""
        return 0.0 if self._asked_s is None or not self.instance else round(time.monotonic() - self._asked_s, 3)

    @property
    def standby(self) -> str:
        """Return the declared standby that waits, empty if none does; one that has taken over does not."""
        waiting = self._standby.instance(time.monotonic())
        return "" if waiting == self.instance else waiting

    # ``inventory`` is called anew for each hello, and the welcome with it gets the next greeting number. All later messages of that
    # scheduler repeat the number; the session drops those with an older one, such as an answer or a ready that was delayed until
    # after the next hello. Without numbers they could undo what both ends have agreed since.
    def begin(self, inventory: Callable[[], m.Welcome], *, lockstep: bool) -> ManagerSession:
        """Begin a conversation with the next scheduler that says hello."""
        self.session = ManagerSession(inventory, features=inventory().features, lockstep=lockstep)
        return self.session

    def submit(self, seq: int, now_us: int, events: tuple[m.Event, ...]) -> None:
        """Send a batch; a scheduler that is not ready yet gets it when it is."""
        session = self.require_session()
        self._interval_s = self._resend_s
        self._resend_at_s = time.monotonic() + self._interval_s
        try:
            messages = session.submit(seq, now_us, events)
        except RemoteProtocolError as error:  # the scheduler insists on what is refused
            if self._peer is not None:
                self._send_to(self._peer, report_of(error))
            raise self.error(f"the scheduler is dismissed ({error.code}): {error}") from error
        for message in messages:
            self._send(session, message)

    def resync(self, reason: str, unsettled: tuple[tuple[int, int], ...] = ()) -> None:
        """Make the served scheduler say hello again; ``unsettled`` are actions of unknown fate, as (batch, number)."""
        session = self.require_session()
        self._interval_s = self._resend_s
        self._resend_at_s = time.monotonic() + self._interval_s
        for message in session.resync(reason, unsettled):
            self._send(session, message)

    def receive(self, flags: int = 0) -> m.Message | None:
        """Process one message, or wait for one slice (not at all with zmq.NOBLOCK); return the result for the manager, if any.

        Raises LinkError if the served scheduler reports an error, breaks the protocol, or its process has ended.
        """
        session = self.require_session()
        try:
            sender, *frames = self._next(flags)
        except zmq.Again:
            self._heard_all_s = time.monotonic()
            self._check_child()
            return None
        self.heard += 1
        if sender == self._peer:
            self._asked_s = None
            session.silent = False
        try:
            if len(frames[-1]) > self.most_bytes:
                raise RemoteProtocolError(
                    "limit", "", f"expected at most {self.most_bytes} bytes, got {len(frames[-1])}"
                )
            message = decode(frames)
            if type(message) is m.Hello:
                message = self._newest(sender, message)
            if sender != self._peer and not self._admit(session, sender, message):
                return None
            received = session.receive(message)
        except RemoteProtocolError as error:
            self._send_to(sender, report_of(error))
            if sender != self._peer:
                self._trouble = f"a scheduler was refused: {error}"
                return None
            raise self.error(f"the scheduler sent an unacceptable message ({error.code}): {error}") from error
        if type(received.deliver) is m.Hello:
            self._serve(sender)
        for reply in received.send:
            self._send(session, reply)
        if type(message) is m.Actions:
            return received.deliver
        # A scheduler that has ended may have sent the reason.
        return self._act_on(message if type(message) in (m.Bye, m.ErrorReport) else received.deliver)

    def _next(self, flags: int) -> list[bytes]:
        return self._ahead.popleft() if self._ahead else self._channel.receive(self.socket, flags)

    # A scheduler says hello twice a second until it has its welcome. That of 100,000 jobs takes longer to make, and each of the hellos
    # that have come meanwhile would cost another one.
    def _newest(self, sender: bytes, hello: m.Hello) -> m.Hello:
        """Return the last of the hellos that have come one after the other from a scheduler."""
        with suppress(zmq.Again):
            while True:
                after = self._next(NOBLOCK)
                try:
                    message = decode(after[1:]) if after[0] == sender else None
                except RemoteProtocolError:
                    message = None
                if type(message) is not m.Hello or message._replace(greeting=hello.greeting) != hello:
                    self._ahead.appendleft(after)
                    break
                self.heard += 1
                hello = message if message.greeting > hello.greeting else hello
        return hello

    def wait_s(self, most_s: float) -> float:
        """Return how many seconds the socket needs no attention, at most ``most_s``."""
        if self._ahead:
            return 0.0
        due_s = self._channel.next_due_s()
        return most_s if due_s is None else min(most_s, due_s)

    # Must be called at least once a slice: sending again, pinging and taking over happen nowhere else.
    def tend(self) -> None:
        """Do due work: resend unanswered messages; with a waiting standby, ping the scheduler, or let the standby take over."""
        session = self.require_session()
        now_s = time.monotonic()
        if session.state in (State.OPEN, State.WELCOMED, State.ASKED) and now_s >= self._resend_at_s:
            for message in session.resend():
                self._send(session, message)
            self._interval_s = min(2 * self._interval_s, RESEND_MOST_S)
            self._resend_at_s = now_s + self._interval_s
        served = session.state not in (State.START, State.CLOSED)
        silent_s = None if self._asked_s is None else self._heard_all_s - self._asked_s
        step = self._standby.next_step(now_s, served=served, silent_s=silent_s)
        if step == "ping":
            self._send(session, m.Ping(0))
        elif step == "take over":
            if served:
                session.silent = True
            self._take_over(session)

    # Must be called after a failure of the served scheduler: until then its messages would still be taken. Its routing id is
    # forgotten, so what is still on its way counts as a stranger's.
    def dismiss(self) -> None:
        """Stop serving this scheduler, and wait for the next hello."""
        self._peer = None
        self._asked_s = None
        self._standby.set_free(time.monotonic())
        self.require_session().peer_lost()

    def close(self) -> None:
        """Say bye to the scheduler, and release the endpoint; takes at most half a second."""
        if self.socket.closed:
            return
        if self.session is not None and self._peer is not None:
            self._send(self.session, self.session.bye("the manager closes"))
        if self._standby.waiting is not None:
            self._send_to(self._standby.waiting.sender, m.Bye("the manager closes"))
        remove_socket(self.socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self.socket.close()
        if self._keys is not None:
            self._keys.close()
        self.context.term()

    def require_session(self) -> ManagerSession:
        """Return the session; LinkError if there is none."""
        if self.session is None or self.socket.closed:
            raise self.error("the link is not open")
        return self.session

    def error(self, text: str) -> LinkError:
        """Return the error with ``text`` and further known reasons."""
        parts = [text, self._trouble, "" if self._diagnose is None else self._diagnose()]
        return LinkError("\n".join([part for part in parts if part]), self.endpoint)

    def _act_on(self, delivered: m.Message | None) -> m.Message | None:
        match delivered:
            case m.ErrorReport("unsupported", path, text):
                raise UnsupportedError(f"{path}{': ' if path else ''}{text}", self.endpoint)
            case m.ErrorReport(code, path, text):
                raise self.error(": ".join([part for part in (f"the scheduler reports {code}", path, text) if part]))
            case m.Bye(reason):
                self._trouble = f"the scheduler left{': ' * bool(reason)}{reason}"
                self._standby.set_free(time.monotonic())
                self._note("scheduler-left", self._trouble)
            case m.Hello():
                self._note("scheduler-came", f"scheduler {delivered.instance} says hello, policy {delivered.policy}")
            case m.Ready():
                self._trouble = ""
        return delivered

    # Everything from a sender that is not served goes through here before the session sees it: one scheduler is served at a time,
    # and a second hello may neither disturb it nor be lost (a standby waits, others are told to come back).
    def _admit(self, session: ManagerSession, sender: bytes, message: m.Message) -> bool:
        """Return whether the session may process ``message``, which does not come from the served scheduler."""
        if type(message) is not m.Hello:
            if type(message) not in (m.ErrorReport, m.Bye):
                self._send_to(sender, m.ErrorReport("state", "type", "say hello first"))
            return False
        if self.instance and not session.takes_over(message):
            # This send fails, and so frees the place, if the first scheduler's connection is gone
            self._send(session, m.Ping(0))
        # A peer with the name of the served one, and a connection of its own, is a second one too.
        if session.would_be_second(message) or self.instance == message.instance:
            if message.standby and session.speaks(message):
                self._standby.waiting = Standby(sender, message, time.monotonic())
            self._send_to(sender, session.refuse_second(message))
            return False
        if session.takes_over(message):
            self._replace(session, message)
        elif message.standby and session.state in (State.START, State.CLOSED) and session.speaks(message):
            # The scheduler served so far, or the intended one, returns quickly if it can: it has precedence.
            now_s = time.monotonic()
            if self._standby.is_reserved(now_s):
                self._standby.waiting = Standby(sender, message, now_s)
                self._send_to(
                    sender, m.ErrorReport("busy", "", "the manager waits for a scheduler that is not a standby")
                )
                return False
        return True

    def _take_over(self, session: ManagerSession) -> None:
        """Serve the standby from now on, as if it had just said hello."""
        waiting = self._standby.waiting
        assert waiting is not None
        if session.takes_over(waiting.hello):
            self._replace(session, waiting.hello)
        else:
            self._note("takeover", f"standby {waiting.hello.instance} serves from now on: no other scheduler has come")
        self._standby.waiting = None
        try:
            received = session.receive(waiting.hello)
        except RemoteProtocolError as error:  # what it lacks may not have mattered when it said hello
            self._send_to(waiting.sender, report_of(error))
            self._trouble = f"a standby was refused: {error}"
            self._standby.set_free(time.monotonic())
            return
        self._serve(waiting.sender)
        for reply in received.send:
            self._send(session, reply)

    def _serve(self, sender: bytes) -> None:
        """Serve another scheduler from now on; it owes no answer yet."""
        self._peer = sender
        self._asked_s = None

    def _replace(self, session: ManagerSession, hello: m.Hello) -> None:
        served = self.instance
        last_word = session.replace(hello)
        if self._peer is not None:
            self._send_to(self._peer, last_word)
        self._note("takeover", f"standby {hello.instance} has taken over from {served}, which did not answer")

    def _send(self, session: ManagerSession, message: m.Message) -> None:
        """Send ``message`` to the served scheduler; if it has vanished, note that and wait for the next hello."""
        began_s = time.monotonic()
        if self._peer is None or not self._send_to(self._peer, message):
            if not self._trouble:
                self._trouble = "the scheduler's connection is gone"
                self._note("scheduler-gone", self._trouble)
            session.peer_lost()
            self._standby.set_free(time.monotonic())
        elif self._asked_s is None and type(message) in (m.Events, m.Welcome, m.Ping, m.Resync):
            self._asked_s = time.monotonic()
            if type(message) is m.Welcome:
                self._interval_s = max(self._resend_s, READING_FACTOR * (self._asked_s - began_s))
                self._resend_at_s = self._asked_s + self._interval_s

    def _send_to(self, peer: bytes, message: m.Message) -> bool:
        """Send ``message`` to ``peer``; return False if the peer is gone."""
        try:
            self._channel.send(self.socket, [peer, *encode(message)])
        except zmq.Again:
            return True  # its queue is full: messages that matter are sent again
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
