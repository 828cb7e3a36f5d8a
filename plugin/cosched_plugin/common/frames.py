"""One message of several frames through a socket: what pyzmq's own ``*_multipart`` do, without the price of their enumerations.

A batch and its answer pass four times through here, and these two took a fifth of a round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import zmq

_SNDMORE: Final = int(zmq.SNDMORE)
_RCVMORE: Final = int(zmq.RCVMORE)


def send_frames(socket: zmq.Socket[bytes], frames: Sequence[bytes], flags: int = 0) -> None:
    """Send a message; zmq.ZMQError when it cannot be sent, of which nothing is then under way."""
    send = socket.send
    *first, last = frames
    for frame in first:
        send(frame, flags | _SNDMORE)
    send(last, flags)


def receive_frames(socket: zmq.Socket[bytes], flags: int = 0) -> list[bytes]:
    """Return the frames of a message; zmq.Again when none came in the socket's time."""
    receive = socket.recv
    get = socket.get
    frames = [receive(flags)]
    while get(_RCVMORE):
        frames.append(receive(flags))
    return frames
