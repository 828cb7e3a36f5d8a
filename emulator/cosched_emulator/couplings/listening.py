"""Where a manager listens: an address that it may use, or the reason why not, as a key of its configuration."""

from __future__ import annotations

import zmq

from cosched_emulator.errors import ConfigurationError
from cosched_plugin.common.binding import bind_private
from cosched_plugin.errors import EndpointError


def listen(router: zmq.Socket[bytes], endpoint: str, mode: int) -> str:
    """Bind ``router`` and return the endpoint really bound; the file of an ipc endpoint has ``mode``. Raises ConfigurationError."""
    try:
        return bind_private(router, endpoint, mode)
    except EndpointError as error:
        found = f"{endpoint}, {error.got}" if error.got else endpoint
        raise ConfigurationError("endpoint", error.expected, found) from error
