"""The endpoints of a manager: checks and binds them; errors name a configuration key."""

from __future__ import annotations

from typing import Final

import zmq

from cosched_emulator.errors import ConfigurationError
from cosched_plugin.common.errors import EndpointError
from cosched_plugin.common.sockets import bind_private, router_socket
from cosched_plugin.protocol.limits import MAX_FRAME_BYTES

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
