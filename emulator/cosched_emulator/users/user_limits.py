"""What one user may take of the users' endpoint: connections, and requests a second."""

from __future__ import annotations

import os
import resource
import socket
import stat
import struct
from collections import Counter, OrderedDict
from typing import Final

# The limit on the connections of an endpoint: further ones are shut.
#
# ZeroMQ sets no limit itself, and aborts the process (an assertion) when no file descriptor is left for a connection to an ipc
# endpoint. It does not list its connections either. So this module asks the system which sockets of this process belong to the
# endpoint, and to which users.

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


# The rate limit of each user: token buckets, in bounded memory. The caller supplies the time.


class Bucket:
    """Fills by ``per_s`` tokens a second up to ``burst``; full at first. ``now_s`` never goes back."""

    __slots__ = ("_burst", "_filled_s", "_per_s", "_tokens")

    def __init__(self, per_s: float, burst: float, now_s: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens = burst
        self._filled_s = now_s

    def take(self, tokens: float, now_s: float) -> bool:
        """Take ``tokens``, or none and return False if there are fewer. More than ``burst`` take a full bucket."""
        self._fill(now_s)
        tokens = min(tokens, self._burst)
        if self._tokens < tokens:
            return False
        self._tokens -= tokens
        return True

    def charge(self, tokens: float, now_s: float) -> None:
        """Take ``tokens`` even if there are fewer: no more can be taken until the debt is refilled."""
        self._fill(now_s)
        self._tokens -= tokens

    def is_full(self, now_s: float) -> bool:
        """Return whether the bucket is equivalent to a new one."""
        self._fill(now_s)
        return self._tokens >= self._burst

    def _fill(self, now_s: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_s) * self._per_s)
        self._filled_s = now_s


class Buckets:
    """One `Bucket` for each name, of which at most ``most`` are remembered.

    A full bucket may be forgotten, because a new one is equivalent. When there is no place for a further name, it shares one bucket
    with all other names without a place: many invented names together get no more than one name.
    """

    def __init__(self, per_s: float, burst: float, most: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._most = most
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()  # the most recently used is the last
        self._shared: Bucket | None = None

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: str, tokens: float, now_s: float) -> bool:
        """Take ``tokens`` from the bucket of ``name``; False if there are fewer."""
        return self._bucket(name, now_s).take(tokens, now_s)

    def charge(self, name: str, tokens: float, now_s: float) -> None:
        """Take ``tokens`` from the bucket of ``name``, even if there are fewer."""
        self._bucket(name, now_s).charge(tokens, now_s)

    def _bucket(self, name: str, now_s: float) -> Bucket:
        bucket = self._buckets.get(name)
        if bucket is not None:
            self._buckets.move_to_end(name)
            return bucket
        if len(self._buckets) >= self._most:
            oldest = next(iter(self._buckets))
            if not self._buckets[oldest].is_full(now_s):
                self._shared = self._shared or self._new(now_s)
                return self._shared
            del self._buckets[oldest]
        self._buckets[name] = bucket = self._new(now_s)
        return bucket

    def _new(self, now_s: float) -> Bucket:
        return Bucket(self._per_s, self._burst, now_s)
