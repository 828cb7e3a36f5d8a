"""The permitted endpoints: without keys those on this machine, with keys any."""

from __future__ import annotations

import ipaddress
import os
import re

# sun_path of a Unix socket has 108 bytes on Linux, the last of them a zero.
MAX_IPC_PATH_BYTES = 107
RUN_FOLDER = "/run/cosched"  # of a manager that is a service: its user alone may write there
SCHEDULER_SOCKET, USERS_SOCKET = "scheduler.sock", "users.sock"
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?")


def usual_endpoint(name: str, *, listens: bool = False) -> str:
    """Return the endpoint of that name in `RUN_FOLDER`, for who gives none; empty without such a folder.

    Whoever ``listens`` may have to write to it.
    """
    there = os.path.isdir(RUN_FOLDER) and (not listens or os.access(RUN_FOLDER, os.W_OK | os.X_OK))
    return f"ipc://{RUN_FOLDER}/{name}" if there else ""


def takes_keys(endpoint: str) -> bool:
    """Tell whether connections to ``endpoint`` can be secured with keys: tcp can, ipc needs none."""
    return endpoint.startswith("tcp://")


def why_not(endpoint: str, *, secured: bool = False) -> str | None:
    """Return why ``endpoint`` may not be used, None if it may: ``ipc://PATH`` or ``tcp://HOST:PORT``.

    HOST is a loopback address; with ``secured`` (there are keys for both ends) any IPv4 address, IPv6 address in brackets, name,
    or ``*``. PORT is a number, or ``*`` for any free one.
    """
    scheme, separator, rest = endpoint.partition("://")
    if separator and scheme == "ipc":
        if not rest:
            return "expected a path after ipc://"
        if len(os.fsencode(rest)) > MAX_IPC_PATH_BYTES:
            return f"the path of an ipc endpoint may have at most {MAX_IPC_PATH_BYTES} bytes"
        if not rest.isprintable():
            return "the path of an ipc endpoint may have printable characters of UTF-8 alone"
        return None
    if not separator or scheme != "tcp":
        return "expected ipc://PATH or tcp://127.0.0.1:PORT"
    host, separator, port = rest.rpartition(":")
    if not separator or not (port == "*" or (port.isascii() and port.isdigit() and int(port) < 65_536)):
        return "expected a port number after the last colon"
    try:
        address = _address(host)
    except ValueError:
        return f"{host!r} is no host: expected an IPv4 address, an IPv6 address in brackets, or a name"
    if secured or host == "localhost" or (address is not None and address.is_loopback):
        return None
    return f"{host} is not a loopback address, and others are for connections with keys on both ends"


def why_not_for_users(endpoint: str, *, secured: bool = False) -> str | None:
    """Return why ``endpoint`` may not be used for users: as `why_not`, and it must identify the user at the other end."""
    reason = why_not(endpoint, secured=secured)
    if reason is None and takes_keys(endpoint) and not secured:
        return "tcp does not tell which user is at the other end: use ipc://PATH, or keys"
    return reason


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return ``host`` as an address, None for a name or ``*``; ValueError if it is neither."""
    if host.startswith("[") and host.endswith("]"):
        return ipaddress.IPv6Address(host[1:-1])
    if re.fullmatch(r"[0-9.]+", host):
        return ipaddress.IPv4Address(host)
    if host != "*" and not _NAME.fullmatch(host):
        raise ValueError(host)
    return None
