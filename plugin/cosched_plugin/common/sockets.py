"""What both programs do with ZeroMQ sockets: bind and connect them, and send and receive messages of several frames."""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import zmq

from cosched_plugin.common.errors import EndpointError
from cosched_terminal.own_file import is_ours

# Messages of several frames through a socket: like pyzmq's ``*_multipart`` methods, without the cost of their enumerations.
#
# A batch and its answer take four calls of these functions; pyzmq's took a fifth of a round trip.

_SNDMORE: Final = int(zmq.SNDMORE)
_RCVMORE: Final = int(zmq.RCVMORE)
_NOBLOCK: Final = int(zmq.NOBLOCK)
_EVENT: Final = struct.Struct("=Hi")  # its number and a value: zmq_socket_monitor(3)


def send_frames(socket: zmq.Socket[bytes], frames: Sequence[bytes], flags: int = 0) -> None:
    """Send a message; zmq.ZMQError if it cannot be sent, and then no part of it is sent."""
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


# pyzmq's own reader of events loads asyncio, which takes a fifth of a scheduler's start.
def receive_event(monitor: zmq.Socket[bytes]) -> int:
    """Return the next event of a socket that is monitored; zmq.Again when there is none."""
    number, _ = _EVENT.unpack(receive_frames(monitor, _NOBLOCK)[0])
    return int(number)


# Binding of sockets: never over another process's socket, with the file's permissions set, and unpredictable peer names.

OWNER_ONLY: Final = 0o600
EVERYBODY: Final = 0o666
_PROBE_S: Final = 0.2  # time that a listening process may take to accept a connection


def router_socket(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    """Return a ROUTER socket whose peer numbers start at an unpredictable value.

    ZeroMQ takes the first number from C's ``rand``, which gives the same one in every process unless it is seeded; and a peer that
    claims to be the next one before it comes makes libzmq 4.3.5 end the process (an assertion in ``add_out_pipe``).
    """
    ctypes.CDLL(None).srand(int.from_bytes(os.urandom(4), "little"))
    return context.socket(zmq.ROUTER)


def bind_private(router: zmq.Socket[bytes], endpoint: str, mode: int) -> str:
    """Bind ``router`` and return the endpoint actually bound. The file of an ipc endpoint has ``mode`` from its creation.

    Raises EndpointError for a path that is taken, and for an endpoint that cannot be bound.
    """
    check_free(endpoint)
    if "[" in endpoint:
        router.ipv6 = True
    before = os.umask(0o777 & ~mode)
    try:
        router.bind(endpoint)
    except zmq.ZMQError as error:
        raise EndpointError(endpoint, f"one to listen at ({error})") from error
    finally:
        os.umask(before)
    return router.getsockopt_string(zmq.LAST_ENDPOINT)


def connect(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Connect, also to an IPv6 address, which ZeroMQ by default takes and never reaches; zmq.ZMQError as ZeroMQ."""
    socket.ipv6 = "[" in endpoint
    socket.connect(endpoint)


def remove_socket(endpoint: str) -> None:
    """Remove the file of an ipc endpoint at which this process listens, just before it closes; ZeroMQ leaves it behind.

    Nothing happens if another process listens there by now, and for other endpoints.
    """
    if not endpoint.startswith("ipc://") or endpoint.startswith("ipc://@"):
        return
    path = endpoint.removeprefix("ipc://")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(OSError):
        probe.settimeout(_PROBE_S)
        probe.connect(path)
        (listener,) = struct.unpack("i2I", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[:1]
        if listener == os.getpid():
            os.unlink(path)


def check_free(endpoint: str) -> None:
    """Refuse a path in use: ZeroMQ would unlink the file there, and replace a process that listens on it."""
    if endpoint.startswith("ipc://") and not endpoint.startswith("ipc://@"):
        check_free_path(endpoint.removeprefix("ipc://"), endpoint)


def check_free_path(path: str, endpoint: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> None:
    """Raise EndpointError if there is something else at a path than a socket of this user's that nobody listens at."""
    try:
        found = os.lstat(path)
    except OSError:
        return  # nothing there; bind reports other errors
    if not stat.S_ISSOCK(found.st_mode):
        raise EndpointError(endpoint, "a new path for a socket", "where there is something else")
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            if is_ours(found):
                return  # left over by a process that is gone
            raise EndpointError(
                endpoint, "a path for a socket of our own", f"where user {found.st_uid} has one"
            ) from None
        except OSError:
            pass  # a process listens there but is too busy to accept (EAGAIN), or refuses
    raise EndpointError(endpoint, "a path where no other process listens")
