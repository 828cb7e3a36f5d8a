"""The channel of a socket: sends and receives messages as frames. A fault plan replaces it by a faulty one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import zmq

from cosched_plugin.common.sockets import receive_frames, send_frames

NOBLOCK: Final = int(zmq.NOBLOCK)


class Channel:
    """A channel that passes every message immediately."""

    def send(self, socket: zmq.Socket[bytes], frames: Sequence[bytes]) -> None:
        """Send one message, without waiting: zmq.Again when the peer's queue is full, another ZMQError when it cannot be sent."""
        send_frames(socket, frames, NOBLOCK)

    def receive(self, socket: zmq.Socket[bytes], flags: int = 0) -> list[bytes]:
        """Return one message; zmq.Again when none came in the socket's time."""
        return receive_frames(socket, flags)

    def next_due_s(self) -> float | None:
        """Return the seconds until `receive` must be called even if the socket is quiet; None: not needed."""
        return None
