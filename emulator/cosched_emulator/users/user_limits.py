"""What one user may take of the users' endpoint: connections, requests a second, and its turn among users."""

from __future__ import annotations

import os
import resource
import socket
import stat
import struct
import threading
import time
from collections import OrderedDict, deque
from typing import Final, Generic, TypeVar

from cosched_plugin.common.process import return_free_memory

# The limit on the connections of an endpoint: further ones are shut.
#
# ZeroMQ sets no limit itself, and aborts the process (an assertion) when no file descriptor is left for a connection to an ipc
# endpoint. It does not list its connections either. So a thread asks the system which sockets of this process belong to the
# endpoint, and to which users: a thread, as ZeroMQ accepts thousands of connections while one large request is answered.

MOST_CONNECTIONS: Final = 2_048
MOST_OF_A_USER: Final = 256  # on ipc
MOST_DESCRIPTORS: Final = 65_536
LOOK_S: Final = 0.005
CROWD: Final = 1_000  # so many that were shut have left ZeroMQ's 4 kB each between blocks that stay
RETURN_S: Final = 1.0  # between two times that these are given back
_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group


class Connections:
    """The connections to the bound ``endpoint``. They take at most a quarter of the file descriptors allowed to this process."""

    def __init__(self, endpoint: str) -> None:
        room = raise_descriptor_limit()
        self.most = min(MOST_CONNECTIONS, room // 4)
        self.most_of_a_user = min(MOST_OF_A_USER, self.most // 4)
        self.shut = 0
        scheme, _, rest = endpoint.partition("://")
        self._place: bytes | int = int(rest.rpartition(":")[2]) if scheme == "tcp" else _path(rest)
        self._closed = threading.Event()
        self._guard = threading.Thread(target=self._watch, name="connections", daemon=True)

    def start(self) -> None:
        """Watch until `close`."""
        self._guard.start()

    def close(self) -> None:
        """End the watch."""
        self._closed.set()
        if self._guard.ident is not None:
            self._guard.join()

    def _watch(self) -> None:
        shut, returned_s = 0, time.monotonic()
        while not self._closed.wait(LOOK_S):
            self.tend()
            if self.shut - shut >= CROWD and time.monotonic() - returned_s >= RETURN_S:
                return_free_memory()
                shut, returned_s = self.shut, time.monotonic()

    def tend(self) -> None:
        """Shut excess connections: of users with more than their limit, and if there are too many in all, of those with most."""
        names = os.listdir("/proc/self/fd")
        if len(names) <= self.most_of_a_user:
            return
        by_user: dict[int, list[int]] = {}
        for descriptor in sorted(map(int, names)):
            user = self._with_user(descriptor)
            if user is not None:
                by_user.setdefault(user, []).append(descriptor)
        limit = self.most_of_a_user
        while limit and sum([min(limit, len(each)) for user, each in by_user.items() if user >= 0]) > self.most:
            limit -= 1 + limit // 16
        for user, each in by_user.items():
            for descriptor in each[self.most if user < 0 else limit :]:
                if self._with_user(descriptor, shut=True) is not None:
                    self.shut += 1

    def _with_user(self, descriptor: int, *, shut: bool = False) -> int | None:
        """Return the user at the other end of a connection, as `_user`, after it is ``shut``."""
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return None
            borrowed = socket.socket(fileno=descriptor)
        except OSError:
            return None  # gone in the meantime
        try:
            user = self._user(borrowed)
            if shut and user is not None:
                borrowed.shutdown(socket.SHUT_RDWR)  # ZeroMQ sees the end of the connection, and cleans up
            return user
        except OSError:
            return None
        finally:
            borrowed.detach()

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


# The requests that wait: served by user in turn, however many connections one has.

MOST_WAITING: Final = 256  # requests of one user
MOST_WAITING_BYTES: Final = 524_288  # of its requests as they came: read ones take ten times as much memory
_Item = TypeVar("_Item")


class Turns(Generic[_Item]):
    """Items of users: each user's in order, and the users in turn."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._waiting: OrderedDict[str, deque[tuple[_Item, int]]] = OrderedDict()  # whose turn it is comes first
        self._bytes: dict[str, int] = {}  # by user

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, name: str, item: _Item, size: int = 0) -> bool:
        """Add an item of user ``name``, of ``size`` bytes; False if that user has too many, or too large ones."""
        waiting = self._waiting.setdefault(name, deque())
        total = self._bytes.get(name, 0) + size
        if waiting and (len(waiting) >= self._most or total > MOST_WAITING_BYTES):
            return False
        waiting.append((item, size))
        self._bytes[name] = total
        return True

    def take(self) -> _Item:
        """Return the next item; LookupError if there is none."""
        name = next(iter(self._waiting), None)
        if name is None:
            raise LookupError
        waiting = self._waiting[name]
        item, size = waiting.popleft()
        if waiting:
            self._bytes[name] -= size
            self._waiting.move_to_end(name)
        else:
            del self._waiting[name], self._bytes[name]
        return item
