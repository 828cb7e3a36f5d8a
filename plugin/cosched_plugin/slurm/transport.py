"""The line to slurmrestd: HTTP on a unix socket or over TCP, each answer with a deadline and a size, and the token that is shown there.

slurmrestd and slurmctld may refuse a token: slurmrestd answers 401, or 511 where slurmctld does, after which nothing has been carried
out. The token is read again then, and where it is another one, the question is asked once more. It never stands in an error's words.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from cosched_hwmodel.units import MIB
from cosched_plugin.common.errors import UsageError
from cosched_terminal.own_file import open_own

WAIT_S: Final = 25.0
MOST_BYTES: Final = 512 * MIB  # of an answer: records of jobs have 2 to 12 kB
DENIED: Final = frozenset({401, 511})  # of slurmrestd; of slurmctld, which an expired token meets first
_MOST_TOKEN: Final = 16_384  # bytes; slurmrestd takes lines of headers up to some kB
_TOKEN: Final = re.compile(r"\s*(?:SLURM_JWT=)?([\w-]+\.([\w-]+)\.[\w-]+)\s*", re.ASCII)


class Reply(NamedTuple):
    """An answer; status 0: none came, and `sent` tells whether the request may have arrived."""

    status: int
    text: str
    sent: bool = True
    denied: str = ""  # why who asks is not known there: nothing has been carried out


class Transport(Protocol):
    """Carries one request at a time."""

    def call(self, method: str, target: str, body: object = None) -> Reply:
        """Return the answer, within `WAIT_S`."""


class Token:
    """Who we are for slurmrestd, a JSON web token: it is read anew when it has expired."""

    def __init__(self, read: Callable[[], str], name: str) -> None:
        """``read`` returns what `scontrol token` prints, ``name`` is what people call that source. UsageError for no token."""
        self._read = read
        self.name = name
        self.problem = ""  # why it could not be read the last time
        self.value = self.user = ""
        self._take()

    def _take(self) -> None:
        found = _TOKEN.fullmatch(self._read())
        if found is None:
            raise UsageError(f"{self.name}: expected a token, as `scontrol token` prints it")
        self.value, self.user = found[1], _user_of(found[2])

    def renew(self) -> bool:
        """Read it again; return whether it is another one."""
        before, self.problem = self.value, ""
        try:
            self._take()
        except UsageError as error:
            self.problem = str(error)
        return self.value != before


def file_token(path: str) -> Token:
    """Return the token in a file that nobody else may read; UsageError for any other."""

    def read() -> str:
        try:
            with open(open_own(path, private=True), "rb") as file:
                data = file.read(_MOST_TOKEN + 1)
        except OSError as error:
            raise UsageError(f"--jwt-file {path}: expected a file with a token, got {error.strerror}") from error
        return "" if len(data) > _MOST_TOKEN else data.decode("latin-1")

    return Token(read, f"--jwt-file {path}")


def _user_of(claims: str) -> str:
    """Return the user in the middle part of a token; empty where it names none."""
    try:
        found = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        user = found.get("sun") or found.get("username") or ""
    except (ValueError, AttributeError, RecursionError):
        return ""
    return user[:64] if isinstance(user, str) and user.isprintable() else ""


class _BoundedSocket(socket.socket):
    """A socket on which an answer has a deadline and a size, in however small pieces it comes."""

    until_s = 0.0  # of the monotonic clock
    left_bytes = 0

    def recv_into(self, *arguments: Any) -> int:
        """Receive within what is left of both; OSError."""
        self.settimeout(max(0.001, self.until_s - time.monotonic()))
        count = super().recv_into(*arguments)
        self.left_bytes -= count
        if time.monotonic() > self.until_s:
            raise TimeoutError("the answer did not end in time")
        if self.left_bytes < 0:
            raise _too_long()
        return count


class _Connection(http.client.HTTPConnection):
    def __init__(self, address: str | tuple[str, int]) -> None:
        super().__init__(*(("localhost",) if isinstance(address, str) else address))
        self._address = address
        self._until_s = 0.0

    def begin(self, until_s: float) -> None:
        """Set the bounds of the next answer; connect, if this is the first one."""
        self._until_s = until_s
        if self.sock is None:
            self.connect()
        assert isinstance(self.sock, _BoundedSocket)
        self.sock.until_s, self.sock.left_bytes = until_s, MOST_BYTES

    def connect(self) -> None:
        """Connect, and bound what it and each question take; http.client calls this, too."""
        problem = OSError("no address")
        for family, target in _targets(self._address):
            self.sock = _BoundedSocket(family, socket.SOCK_STREAM)
            self.sock.settimeout(max(0.001, self._until_s - time.monotonic()))
            try:
                self.sock.connect(target)
            except OSError as error:
                self.sock.close()
                self.sock, problem = None, error
                continue
            if family != socket.AF_UNIX:
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock.settimeout(WAIT_S)
            return
        raise problem


def _targets(address: str | tuple[str, int]) -> list[tuple[int, Any]]:
    """Return the families and addresses to try; OSError for a host that is not known."""
    if isinstance(address, str):
        return [(socket.AF_UNIX, address)]
    return [(row[0], row[4]) for row in socket.getaddrinfo(*address, type=socket.SOCK_STREAM)]


class HttpTransport:
    """One connection that is kept open."""

    def __init__(self, address: str | tuple[str, int], token: Token | None = None, wait_s: float = 0.0) -> None:
        """``address``: the path of a unix socket, or host and port; an answer takes at most ``wait_s``, or `WAIT_S`."""
        self._address = address
        self._wait_s = wait_s
        self.token = token
        self._connection: _Connection | None = None

    def call(self, method: str, target: str, body: object = None) -> Reply:
        """Return the answer, within `WAIT_S`; once more, and within that again, with a new token where the old one is refused."""
        reply = self._call(method, target, body)
        if reply.status in DENIED and self.token is not None and self.token.renew():
            reply = self._call(method, target, body)
        if reply.status not in DENIED:
            return reply
        if self.token is None:
            why = "it needs a token: --jwt-file FILE or --fetch-jwt"
        else:
            why = self.token.problem or f"the token of {self.token.name} is not accepted: it may have expired"
        return reply._replace(denied=f"status {reply.status}: {why}")

    def _call(self, method: str, target: str, body: object) -> Reply:
        """Return the answer; a question on a connection that has been closed meanwhile is asked again."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        if self.token is not None:
            headers["X-SLURM-USER-TOKEN"] = self.token.value
        data = None if body is None else json.dumps(body)
        until_s = time.monotonic() + (self._wait_s or WAIT_S)
        while True:
            kept = self._connection is not None
            sent = False
            try:
                self._connection = self._connection or _Connection(self._address)
                self._connection.begin(until_s)
                sent = True
                self._connection.request(method, target, data, headers)
                answer = self._connection.getresponse()
                text = _body_of(answer)
                break
            except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: of odd lengths of chunks
                self.close()
                if not kept or method != "GET" or time.monotonic() > until_s:
                    return Reply(0, f"{type(error).__name__}: {error}", sent)
        if answer.will_close:
            self.close()
        if self.token is not None:
            text = text.replace(self.token.value, "TOKEN")  # some of it may go to the log
        return Reply(answer.status, text)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _too_long() -> OSError:
    return OSError(f"the answer is longer than {MOST_BYTES} bytes")


def _body_of(answer: http.client.HTTPResponse) -> str:
    """Return the whole body; OSError or HTTPException where it is too long or is cut off."""
    if (answer.length or 0) > MOST_BYTES:
        raise _too_long()
    found = bytearray()
    while piece := answer.read(MIB):  # not at once: the room for it would be made before it has come
        found += piece
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return found.decode("utf-8", "replace")
