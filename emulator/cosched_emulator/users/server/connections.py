"""The limit on the connections of an endpoint: further ones are shut.

ZeroMQ sets no limit itself, and aborts the process (an assertion) when no file descriptor is left for a connection to an ipc
endpoint. It does not list its connections either. So this module asks the system which sockets of this process belong to the
endpoint, and to which users.
"""

from __future__ import annotations

import os
import resource
import socket
import stat
import struct
from collections import Counter
from typing import Final

MOST_CONNECTIONS: Final = 2_048
MOST_OF_A_USER: Final = 256  # on ipc
MOST_DESCRIPTORS: Final = 65_536
LOOK_S: Final = 0.1
_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group


class Connections:
    """The connections to the bound ``endpoint``. They take at most a quarter of the file descriptors allowed to this process."""

    def __init__(self, endpoint: str) -> None:
        room = raise_descriptor_limit()
        self.most = min(MOST_CONNECTIONS, room // 4)
        self.most_of_a_user = min(MOST_OF_A_USER, self.most // 4)
        scheme, _, rest = endpoint.partition("://")
        self._place: bytes | int = int(rest.rpartition(":")[2]) if scheme == "tcp" else _path(rest)
        self._look_at_s = 0.0

    def tend(self, now_s: float) -> int:
        """Shut excess connections, if a check is due; return their number."""
        if now_s < self._look_at_s:
            return 0
        self._look_at_s = now_s + LOOK_S
        names = os.listdir("/proc/self/fd")
        return self._shut_surplus(sorted(map(int, names))) if len(names) > self.most_of_a_user else 0

    def _shut_surplus(self, descriptors: list[int]) -> int:
        kept: Counter[int] = Counter()
        shut = 0
        for descriptor in descriptors:
            try:
                if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    continue
                borrowed = socket.socket(fileno=descriptor)
            except OSError:
                continue  # gone in the meantime
            try:
                user = self._user(borrowed)
                if user is None:
                    continue
                if kept.total() >= self.most or (user >= 0 and kept[user] >= self.most_of_a_user):
                    borrowed.shutdown(socket.SHUT_RDWR)  # ZeroMQ sees the end of the connection, and cleans up
                    shut += 1
                else:
                    kept[user] += 1
            except OSError:
                continue
            finally:
                borrowed.detach()
        return shut

    def _user(self, borrowed: socket.socket) -> int | None:
        """Return the user id at the other end, -1 if unknown; None for a descriptor that is not a connection to the endpoint."""
        if borrowed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return None
        name = borrowed.getsockname()
        if borrowed.family == socket.AF_UNIX:
            if (name if isinstance(name, bytes) else os.fsencode(name)) != self._place:
                return None
            return int(
                _CREDENTIALS.unpack(borrowed.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[1]
            )
        return -1 if borrowed.family in (socket.AF_INET, socket.AF_INET6) and name[1] == self._place else None


def raise_descriptor_limit() -> int:
    """Raise this process's limit of file descriptors as far as allowed, up to ``MOST_DESCRIPTORS``; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def _path(rest: str) -> bytes:
    return b"\0" + os.fsencode(rest[1:]) if rest.startswith("@") else os.fsencode(rest)
