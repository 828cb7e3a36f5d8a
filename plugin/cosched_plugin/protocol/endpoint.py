"""Which endpoints may be used without encryption: those that do not leave this machine."""

from __future__ import annotations

import ipaddress
import os

# sun_path of a Unix socket has 108 bytes on Linux, the last of them a zero.
MAX_IPC_PATH_BYTES = 107


def why_not(endpoint: str) -> str | None:
    """Return why ``endpoint`` may not be used, None if it may: ``ipc://PATH`` or ``tcp://LOOPBACK:PORT``."""
    scheme, separator, rest = endpoint.partition("://")
    if separator and scheme == "ipc":
        if not rest:
            return "expected a path after ipc://"
        if len(os.fsencode(rest)) > MAX_IPC_PATH_BYTES:
            return f"the path of an ipc endpoint may have at most {MAX_IPC_PATH_BYTES} bytes"
        return None
    if not separator or scheme != "tcp":
        return "expected ipc://PATH or tcp://127.0.0.1:PORT"
    host, separator, port = rest.rpartition(":")
    if not separator or not (port == "*" or (port.isascii() and port.isdigit() and int(port) < 65_536)):
        return "expected a port number after the last colon"
    if host == "localhost" or _is_loopback(host):
        return None
    return f"{host} is not a loopback address, and encryption, which other addresses need, is not supported yet"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
