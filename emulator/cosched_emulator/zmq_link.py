"""The link to a scheduler in another process: a ROUTER socket and the manager's session. No wait here is without an end."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Final

import zmq

from cosched_emulator.errors import ConfigurationError, LinkError
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.endpoint import why_not
from cosched_plugin.protocol.errors import ProtocolError, RemoteProtocolError
from cosched_plugin.protocol.limits import MAX_FRAME_BYTES
from cosched_plugin.protocol.messages import (
    Action,
    Actions,
    Bye,
    ErrorReport,
    Event,
    Hello,
    Message,
    Ping,
    Ready,
    Welcome,
)
from cosched_plugin.protocol.session import ManagerSession, State, report_of

SLICE_S: Final = 0.2  # longest wait that notices nothing: Ctrl-C, a dead child and a deadline are at most this late
RESEND_S: Final = 1.0  # first interval after which an open batch is sent again; it doubles up to
RESEND_MOST_S: Final = 30.0
LINGER_S: Final = 0.5  # how long the last message may take to leave


class ZmqLink:
    """Manager's end of ``endpoint``, bound from construction to `close`; ``.endpoint`` is the one really bound.

    ``wait_s`` is how long `open` waits for a scheduler, ``deadline_s`` how long `exchange` waits for an answer, restarts of the
    scheduler included. With ``child`` a wait ends as soon as that process has; ``diagnose`` then adds its last words.
    Raises ConfigurationError for an endpoint that is not local, LinkError when it cannot be bound.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        deadline_s: float,
        wait_s: float,
        child: subprocess.Popen[bytes] | None = None,
        diagnose: Callable[[], str] | None = None,
        resend_s: float = RESEND_S,
    ) -> None:
        reason = why_not(endpoint)
        if reason is not None:
            raise ConfigurationError("endpoint", f"a local endpoint ({reason})", endpoint)
        if endpoint.startswith("ipc://") and not endpoint.startswith("ipc://@"):
            _check_free(endpoint.removeprefix("ipc://"), endpoint)
        self.endpoint = endpoint
        self._deadline_s = deadline_s
        self._wait_s = wait_s
        self._child = child
        self._diagnose = diagnose
        self._resend_s = resend_s
        self._session: ManagerSession | None = None
        self._peer: bytes | None = None  # routing id of the scheduler that is served
        self._trouble = ""  # last reason why a scheduler was not taken, or went away
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = round(LINGER_S * 1000)
        self._socket.router_mandatory = True  # tells at once when the scheduler is gone
        self._socket.maxmsgsize = MAX_FRAME_BYTES
        self._socket.rcvtimeo = self._socket.sndtimeo = round(SLICE_S * 1000)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ConfigurationError("endpoint", f"one to listen at ({error})", endpoint) from error
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    @property
    def policy(self) -> str:
        """Return the name that the scheduler gave its policy, empty before there was one."""
        return "" if self._session is None or self._session.peer is None else self._session.peer.policy

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Wait until a scheduler has taken over the state; LinkError after ``wait_s``."""
        try:
            self._session = session = ManagerSession(inventory)
            deadline = time.monotonic() + self._wait_s
            while True:
                self._turn(session)
                if session.state is State.READY:
                    return
                if time.monotonic() >= deadline:
                    raise self._error(f"no scheduler was ready within {self._wait_s:g} s")
        except ProtocolError as error:
            raise self._error(str(error)) from error

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Send a batch and return the answer to it, whoever gives it: a scheduler that restarts is brought up to date.

        Raises LinkError when there is no answer within ``deadline_s``, or none to expect any more.
        """
        session = self._opened()
        started = time.monotonic()
        deadline = started + self._deadline_s
        interval = self._resend_s
        resend_at = started + interval
        try:
            for message in session.submit(seq, now_us, events):
                self._send(session, message)
            while True:
                delivered = self._turn(session)
                if type(delivered) is Actions:
                    return delivered.actions
                now = time.monotonic()
                if now >= deadline:
                    raise self._error(f"no answer to batch {seq} within {self._deadline_s:g} s")
                if now >= resend_at:
                    for message in session.resend():
                        self._send(session, message)
                    interval = min(2 * interval, RESEND_MOST_S)
                    resend_at = now + interval
        except ProtocolError as error:
            raise self._error(str(error)) from error

    def tend(self, seconds: float) -> None:
        """Answer the scheduler while there is nothing to ask of it: what a manager in real time does instead of sleeping."""
        session = self._opened()
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._socket.poll(round(min(left, SLICE_S) * 1000), zmq.POLLIN):
                self._turn(session)

    def close(self) -> None:
        """Say bye to a scheduler that listens, and give the endpoint up; takes at most half a second."""
        if self._socket.closed:
            return
        if self._session is not None and self._peer is not None:
            self._send(self._session, self._session.bye("the manager closes"))
        self._socket.close()
        self._context.term()

    def _opened(self) -> ManagerSession:
        if self._session is None or self._socket.closed:
            raise self._error("the link is not open")
        return self._session

    def _turn(self, session: ManagerSession) -> Message | None:
        """Take in one message, or let one slice pass; return what the session delivers to the manager."""
        try:
            sender, *frames = self._socket.recv_multipart()
        except zmq.Again:
            self._check_child()
            return None
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
            raise self._error(f"the scheduler sent what cannot be accepted ({error.code}): {error}") from error
        if type(message) is Hello:
            self._peer = sender
        for reply in received.send:
            self._send(session, reply)
        # One that is gone may have left word of why.
        return self._act_on(message if type(message) in (Bye, ErrorReport) else received.deliver)

    def _act_on(self, delivered: Message | None) -> Message | None:
        match delivered:
            case ErrorReport(code, path, text):
                raise self._error(f"the scheduler reports {code}: {path}{': ' if path else ''}{text}")
            case Bye(reason):
                self._trouble = f"the scheduler left: {reason}"
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
            for reply in session.receive(message).send:
                self._send_to(sender, reply)
            return False
        return True

    def _send(self, session: ManagerSession, message: Message) -> None:
        """Send ``message`` to the scheduler that is served; a vanished one is noted, and the next hello is waited for."""
        if self._peer is None or not self._send_to(self._peer, message):
            self._trouble = self._trouble or "the scheduler's connection is gone"
            session.peer_lost()

    def _send_to(self, peer: bytes, message: Message) -> bool:
        """Send ``message`` to ``peer``; return False when there is no such peer any more."""
        try:
            self._socket.send_multipart([peer, *encode(message)])
        except zmq.Again:
            return True  # its queue is full: what matters will be sent again
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return False
            raise self._error(str(error)) from error
        return True

    def _check_child(self) -> None:
        code = None if self._child is None else self._child.poll()
        if code is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise self._error(f"the scheduler's process {how}")

    def _error(self, text: str) -> LinkError:
        parts = [text, self._trouble, "" if self._diagnose is None else self._diagnose()]
        return LinkError("\n".join([part for part in parts if part]), self.endpoint)


def _check_free(path: str, endpoint: str) -> None:
    """Refuse a path that is somebody else's: ZeroMQ would unlink whatever is there, and take the place of who listens."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # nothing there; bind tells what else may be wrong
    if not stat.S_ISSOCK(mode):
        raise ConfigurationError("endpoint", "a new path for a socket", f"{endpoint}, where there is something else")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(SLICE_S)
        try:
            probe.connect(path)
        except OSError:
            return  # left over by a manager that is gone
    raise ConfigurationError("endpoint", "a path where no other manager listens", endpoint)
