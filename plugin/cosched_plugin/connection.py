"""The scheduler's socket: it sends and receives messages and observes the manager's presence. No wait is longer than a slice."""

from __future__ import annotations

import enum
from contextlib import suppress
from typing import Final, NamedTuple

import zmq

from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.sockets import connect, receive_event, receive_frames, send_frames
from cosched_plugin.protocol.codec import encode
from cosched_plugin.protocol.endpoint import takes_keys, why_not
from cosched_plugin.protocol.limits import MAX_FRAME_BYTES
from cosched_plugin.protocol.messages import Hello, Message

SLICE_S: Final = 0.2  # longest uninterrupted wait: a signal or a deadline is noticed at most this late
LINGER_S: Final = 0.5  # time that the last message may take to leave
WAITING: Final = 64  # messages that may wait for a manager that does not read; the session has one or two under way
HEARTBEAT_MS: Final = 2_000  # on tcp: time until a vanished host is noticed
HEARTBEAT_TIMEOUT_MS: Final = 10_000


class Keys(NamedTuple):
    """Files: the own secret key, and the manager's public key."""

    own_secret: str
    manager_public: str


class Change(enum.Enum):
    """An event of the connection."""

    LOST = "lost"
    REFUSED = "refused"


_CHANGES: Final = {
    int(zmq.EVENT_DISCONNECTED): Change.LOST,
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): Change.REFUSED,
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): Change.REFUSED,
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): Change.REFUSED,
}
_CONNECTED: Final = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)


class Connection:
    """A DEALER socket, which connects to ``endpoint`` whenever a manager listens there.

    Raises UsageError for an endpoint that may not be used: beyond this machine only with ``keys``.
    """

    def __init__(self, endpoint: str, keys: Keys | None) -> None:
        secured = keys is not None and takes_keys(endpoint)
        reason = why_not(endpoint, secured=secured)
        if reason is not None:
            raise UsageError(f"{endpoint}: {reason}")
        self.heard = 0  # messages received
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = round(LINGER_S * 1000)
        # With a low limit, ZeroMQ's own thread would signal ours for every sent message, and wake it while it waits for an answer.
        self._socket.sndhwm = WAITING
        self._socket.maxmsgsize = MAX_FRAME_BYTES
        self._socket.rcvtimeo = self._socket.sndtimeo = round(SLICE_S * 1000)
        if takes_keys(endpoint):
            self._socket.heartbeat_ivl = HEARTBEAT_MS
            self._socket.heartbeat_timeout = HEARTBEAT_TIMEOUT_MS
        self._connected = False
        self._waits = False  # a hello, for a connection
        self._found: list[Change] = []
        self._monitor = self._socket.get_monitor_socket(_CONNECTED | sum(_CHANGES))
        self._monitor.linger = 0
        try:
            if keys is not None and secured:
                from cosched_plugin.common.curve import secure_client  # noqa: PLC0415 - few have keys

                secure_client(self._socket, keys.own_secret, keys.manager_public)
            connect(self._socket, endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise UsageError(f"{endpoint}: cannot connect there: {error}") from error
        except BaseException:
            self.close()
            raise

    def greet(self, hello: Hello) -> bool:
        """Send ``hello``; return whether it was sent: not while another hello waits for a manager.

        (With ZeroMQ's IMMEDIATE no hello would wait, but the last message of a leaving manager, its bye, would be lost.)
        """
        self._read_monitor()
        if self._waits:
            return False
        self._waits = not self._connected
        return self.send(hello)

    def send(self, message: Message) -> bool:
        """Send ``message``; return whether it was sent: not while too many wait for a manager that does not read."""
        try:
            send_frames(self._socket, encode(message))
        except zmq.Again:
            return False
        return True

    def receive(self) -> list[bytes] | None:
        """Return the frames of one message; None if none came within a slice."""
        try:
            frames = receive_frames(self._socket)
        except zmq.Again:
            return None
        self.heard += 1
        return frames

    def changes(self) -> list[Change]:
        """Return the events of the connection since the last call, in order."""
        self._read_monitor()
        found, self._found = self._found, []
        return found

    def _read_monitor(self) -> None:
        with suppress(zmq.Again):
            while True:
                event = receive_event(self._monitor)
                self._connected = event == _CONNECTED
                if self._connected:
                    self._waits = False
                else:
                    self._found.append(_CHANGES[event])

    def close(self) -> None:
        """Close the socket; takes at most the linger time, and no time if there never was a manager."""
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close(None if self.heard else 0)
        self._context.term()
