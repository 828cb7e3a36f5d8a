"""Messages to frames and back: the only place where bytes are made or read.

For any input bytes, the result is a checked message or RemoteProtocolError, nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

from cosched_plugin.protocol.errors import Fault, LocalProtocolError, RemoteProtocolError
from cosched_plugin.protocol.limits import MAGIC, MAX_ARRAY_ITEMS, MAX_FRAME_BYTES, MAX_STRING_BYTES
from cosched_plugin.protocol.messages import Message
from cosched_plugin.protocol.vocabulary import MESSAGES_BY_KIND, MESSAGES_BY_TAG, read_tagged


def write(message: Message) -> dict[str, Any]:
    """Return the map that describes ``message``; raises KeyError for any other object."""
    return MESSAGES_BY_KIND[type(message)].write(message)


class _Packers(threading.local):
    """One packer for each thread, which is a third faster than a new one for each message."""

    def __init__(self) -> None:
        self.pack = msgpack.Packer(use_bin_type=True).pack


_PACKERS: Final = _Packers()


def encode(message: Message) -> list[bytes]:
    """Return the two frames of ``message``.

    Raises LocalProtocolError for a value without a form on the wire (a foreign type, an integer beyond 64 bits) or one too large.
    """
    try:
        body: bytes = _PACKERS.pack(write(message))
    except (KeyError, TypeError, ValueError, OverflowError, Fault) as error:
        raise LocalProtocolError(f"{type(message).__name__} cannot be sent: {error}") from error
    if len(body) > MAX_FRAME_BYTES:
        raise LocalProtocolError(f"{type(message).__name__} has {len(body)} bytes; the limit is {MAX_FRAME_BYTES}")
    return [MAGIC, body]


def decode(frames: Sequence[bytes]) -> Message:
    """Return the message in ``frames``; raises RemoteProtocolError with code, path and text for an invalid one."""
    if len(frames) != 2 or frames[0] != MAGIC:
        raise RemoteProtocolError("frame", "", f"expected 2 frames, the first of them {MAGIC.decode()}")
    raw = unpack(frames[1], MAX_FRAME_BYTES)
    try:
        message: Message = read_tagged(MESSAGES_BY_TAG, raw, None)
    except Fault as fault:
        raise RemoteProtocolError(fault.code, fault.path, fault.text) from None
    return message


# Not by the packer of the thread: that keeps the buffer of the largest message, and answers to users may have 64 MiB.
def pack(raw: Mapping[str, Any], plain: Callable[[Any], Any] | None = None) -> bytes:
    """Return a map of plain values as bytes; TypeError, ValueError or OverflowError for values without a form there.

    ``plain`` gives the plain value of another one when its turn comes.
    """
    body: bytes = msgpack.packb(raw, use_bin_type=True, default=plain)
    return body


def unpack(body: bytes, most_bytes: int) -> Any:
    """Return the one value in ``body``, lists as tuples; RemoteProtocolError beyond the limits, or for invalid msgpack."""
    if len(body) > most_bytes:
        raise RemoteProtocolError("limit", "", f"{len(body)} bytes in a frame; the limit is {most_bytes}")
    try:
        if len(body) <= MAX_STRING_BYTES:  # too short to hold a string or list beyond its limit
            return msgpack.unpackb(body, use_list=False)
        return msgpack.unpackb(body, use_list=False, max_str_len=MAX_STRING_BYTES, max_array_len=MAX_ARRAY_ITEMS)
    except Exception as error:  # msgpack documents no closed list of what bad bytes may raise
        text = str(error) or type(error).__name__
        raise RemoteProtocolError("malformed", "", f"not acceptable as msgpack: {text}") from None
