"""The socket to a scheduler that was written for Batsim: it binds, the emulator connects, and every message gets one reply."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

import zmq
from zmq.utils.monitor import recv_monitor_message

from cosched_emulator.errors import LinkError
from cosched_plugin.batsim.messages import MAX_MESSAGE_BYTES
from cosched_plugin.common.sockets import connect
from cosched_plugin.protocol.endpoint import why_not

LOOK_MS: Final = 200  # how soon a scheduler that is gone is noticed
LINGER_MS: Final = 500
_RCVMORE: Final = int(zmq.RCVMORE)


class BatsimLink:
    """A REQ socket with deadlines; LinkError where no reply comes.

    ``wait_s`` is how long to wait for the first reply, as the scheduler may start later; ``deadline_s`` for each of the others.
    """

    def __init__(self, endpoint: str, *, wait_s: float, deadline_s: float) -> None:
        reason = why_not(endpoint)
        if reason is not None or endpoint.endswith(":*"):
            raise LinkError(f"--connect: {reason or 'expected a port number'}", endpoint)
        self._endpoint = endpoint
        self._wait_s, self._deadline_s = wait_s, deadline_s
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.linger = 0
        self._socket.maxmsgsize = MAX_MESSAGE_BYTES
        self._socket.rcvtimeo = LOOK_MS
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        connect(self._socket, endpoint)
        self._heard = False
        self.spent_s = 0.0  # in waiting for replies

    def ask(self, frame: bytes) -> bytes:
        """Send a message and return the reply."""
        began_s = time.monotonic()
        most_s = self._deadline_s if self._heard else self._wait_s
        self._socket.send(frame)
        while True:
            try:
                reply = self._socket.recv()
            except zmq.Again:
                self._check(time.monotonic() - began_s, most_s)
                continue
            if self._socket.get(_RCVMORE):
                raise LinkError("expected a reply of one part, got several", self._endpoint)
            self._heard = True
            self.spent_s += time.monotonic() - began_s
            return reply

    def close(self, reason: str = "") -> None:
        """Release the socket; with a ``reason`` the scheduler gets it, as a message that is none, so that it ends and does not wait."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        if reason and self._heard:
            with suppress(zmq.ZMQError):
                self._socket.send(f"cosched-emulator: {reason}".encode()[:500], zmq.NOBLOCK)
                self._socket.linger = LINGER_MS
        self._socket.close()
        self._context.term()

    def _check(self, quiet_s: float, most_s: float) -> None:
        """Raise LinkError once there is no reason to wait any more."""
        while self._heard and self._monitor.poll(0):
            recv_monitor_message(self._monitor, zmq.NOBLOCK)
            text = f"the scheduler is gone, or its reply had more than {MAX_MESSAGE_BYTES >> 20} MiB"
            raise LinkError(text, self._endpoint)
        if quiet_s > most_s:
            what = "reply" if self._heard else "scheduler"
            raise LinkError(f"no {what} within {most_s:g} s", self._endpoint)
