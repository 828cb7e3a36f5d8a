"""Messages of several frames through a socket: as pyzmq's own ``*_multipart``, without the cost of their enumerations.

A batch and its answer pass four times through here, and these two took a fifth of a round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import zmq

_SNDMORE: Final = int(zmq.SNDMORE)
_RCVMORE: Final = int(zmq.RCVMORE)


def send_frames(socket: zmq.Socket[bytes], frames: Sequence[bytes], flags: int = 0) -> None:
    """Send a message; zmq.ZMQError when it cannot be sent: then no part of it has been sent."""
    send = socket.send
    *first, last = frames
    for frame in first:
        send(frame, flags | _SNDMORE)
    send(last, flags)


def receive_frames(socket: zmq.Socket[bytes], flags: int = 0) -> list[bytes]:
    """Return the frames of a message; zmq.Again when none came within the socket's timeout."""
    receive = socket.recv
    get = socket.get
    frames = [receive(flags)]
    while get(_RCVMORE):
        frames.append(receive(flags))
    return frames
