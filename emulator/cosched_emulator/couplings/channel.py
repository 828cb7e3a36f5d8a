"""The channel of a socket: messages pass it as frames. A fault plan puts another one in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import zmq

from cosched_plugin.common.frames import receive_frames, send_frames

NOBLOCK: Final = int(zmq.NOBLOCK)


class Channel:
    """A channel that passes every message at once."""

    def send(self, socket: zmq.Socket[bytes], frames: Sequence[bytes]) -> None:
        """Send one message, without waiting: zmq.Again when the peer's queue is full, another ZMQError when it cannot be sent."""
        send_frames(socket, frames, NOBLOCK)

    def receive(self, socket: zmq.Socket[bytes], flags: int = 0) -> list[bytes]:
        """Return one message; zmq.Again when none came in the socket's time."""
        return receive_frames(socket, flags)

    def next_due_s(self) -> float | None:
        """Return in how many seconds `receive` is to be called although the socket may be quiet; None: that is not needed."""
        return None
