"""The users' endpoint: a ROUTER socket that identifies the user of each request and limits each user's share. It never blocks.

On ipc the kernel identifies the user (the user id of the connecting process), on tcp the key does. A message cannot claim another
identity. On ipc root and the manager's own user are operators, on tcp those in the keyring's ``operators/``.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

import zmq

from cosched_emulator.couplings.scheduler_port import listen
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.users import requests as r
from cosched_emulator.users.user_limits import Bucket, Buckets, Connections
from cosched_plugin.common.curve import Keyring
from cosched_plugin.common.sockets import EVERYBODY, remove_socket, router_socket
from cosched_plugin.protocol.codec import unpack
from cosched_plugin.protocol.endpoint import takes_keys, why_not_for_users
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.limits import INT64_MAX, INT64_MIN
from cosched_terminal.console import WARNING, Log

# Large answers that are not read yet: a user who does not read them gets no more.


class Unread:
    """Bytes of each user's answers that ZeroMQ still holds."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[zmq.MessageTracker, int]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def bytes_of(self, name: str) -> int:
        """Return the unread bytes of ``name``."""
        self._forget_read()
        return sum([size for _, size in self._waiting.get(name, [])])

    def add(self, name: str, tracker: zmq.MessageTracker, size: int) -> None:
        """Note a sent answer of ``size`` bytes; its tracker is done when the answer has left, or its connection is closed."""
        self._forget_read()
        self._waiting.setdefault(name, []).append((tracker, size))

    def _forget_read(self) -> None:
        left = {name: [each for each in waiting if not each[0].done] for name, waiting in self._waiting.items()}
        self._waiting = {name: waiting for name, waiting in left.items() if waiting}


MOST_MESSAGES: Final = 64  # messages in one call
MOST_FRAMES: Final = 1_024  # frames in one call, if messages have too many
MOST_BYTES: Final = 262_144  # bytes in one call: after that, no further message is decoded
FRAMES: Final = 3  # frames of a request: sender, name of the framing, body
# A request costs one token, plus one per this number of bytes of it and its answer, and per this much time of the manager's.
BYTES_A_TOKEN: Final = 65_536
SECONDS_A_TOKEN: Final = 0.0025  # with 100 tokens a second a user gets a quarter of the manager's time
WAITING_REQUESTS: Final = 4  # incoming messages per connection; further ones wait at the sender
WAITING_ANSWERS: Final = 8  # outgoing messages per connection; further ones are dropped
LARGE_BYTES: Final = 65_536  # an answer of this size or more counts against its user until it is read
MOST_UNREAD_BYTES: Final = r.MAX_ANSWER_BYTES
# Jobs that a user who is no operator submits, cancels, holds or releases: each is written to the database.
CHANGES_PER_S: Final = 200.0
CHANGES: Final = 50_000.0  # at once
COMPLAINTS_PER_S: Final = 5.0  # answers per second to malformed or excess requests, for each user; the rest is dropped
COMPLAINTS: Final = 10.0  # burst of such answers
HANDSHAKE_MS: Final = 5_000
HEARTBEAT_MS: Final = 5_000  # on tcp: time until a vanished host is noticed
HEARTBEAT_TIMEOUT_MS: Final = 15_000
LINGER_MS: Final = 500  # longest time to send the last answers
MOST_TOLD: Final = 500  # characters of an operator's request in the log
NO_TICKET: Final = 0  # ticket of an answer to a message without a readable ticket


class Asked(NamedTuple):
    """A request and its user; ``sender`` and ``ticket`` address the answer. ``peer`` is what the system says of the connection."""

    sender: bytes
    ticket: int
    who: r.Requester
    request: r.Request
    peer: str = ""
    size: int = 0  # bytes of the request


class Audit:
    """The lines of a log about who was refused, and about what operators do. Of a flood of refusals most lines are left out."""

    def __init__(self, log: Log, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock_s = clock_s
        self._refusals = Bucket(COMPLAINTS_PER_S, COMPLAINTS, clock_s())
        self._left_out = 0

    def refused(self, who: str, why: str) -> None:
        """Log that somebody was not admitted, or may not do what it asked for; threads may call this."""
        if not self._refusals.take(1, self._clock_s()):
            self._left_out += 1
            return
        more = f" ({self._left_out} like it before were left out)" if self._left_out else ""
        self._left_out = 0
        self._log("refused", f"{who} was refused: {why}{more}", level=WARNING, who=who)

    def acted(self, asked: Asked) -> None:
        """Log a change that an operator has made."""
        values = r.to_map(asked.request)
        kind, text = values.pop("type"), " ".join([f"{key}={_in_short(value)}" for key, value in values.items()])
        who = asked.who.name
        self._log(
            "operator", f"operator {who} ({asked.peer}): {kind} {text[:MOST_TOLD]}", who=who, peer=asked.peer, what=kind
        )


def _in_short(value: object) -> str:
    """Return a field of a request: numbers of nodes, jobs (``12``, ``12_3``) or a text."""
    if isinstance(value, list | tuple):
        return ",".join(map(_in_short, value))
    return (
        "_".join([str(part) for part in value.values() if part is not None]) if isinstance(value, dict) else str(value)
    )


class UserDoor:
    """The socket at ``endpoint``, bound from construction to `close`; ``.endpoint`` is the actual one.

    Each user may send ``requests_per_s``, with bursts of ``burst``, over any number of connections, and fewer that take long; the
    limits distinguish ``most_users`` users. ``operators`` are names of further operators.
    Raises ConfigurationError for an endpoint that does not identify users, or cannot be bound.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        *,
        keys: Keyring | None = None,
        operators: frozenset[str] = frozenset(),
        requests_per_s: float = 100.0,
        burst: float = 200.0,
        most_users: int = 10_000,
        clock_s: Callable[[], float] = time.monotonic,
        audit: Audit | None = None,
    ) -> None:
        reason = why_not_for_users(endpoint, secured=keys is not None)
        if reason is not None:
            raise ConfigurationError("endpoint", f"an endpoint for users ({reason})", endpoint)
        self.dropped = 0  # messages without an answer
        self._connections: Connections | None = None
        self._keys = keys if takes_keys(endpoint) else None
        self._operators = operators
        self._audit = audit
        self._clock_s = clock_s
        now_s = clock_s()
        self._requests = Buckets(requests_per_s, burst, most_users)
        self._changes = Buckets(CHANGES_PER_S, CHANGES, most_users)
        self._complaints = Buckets(COMPLAINTS_PER_S, COMPLAINTS, most_users)
        self._strangers = Bucket(COMPLAINTS_PER_S, COMPLAINTS, now_s)
        self._unread = Unread()
        self._frames: list[zmq.Frame] = []  # relevant frames of the message that is being received
        self.socket = router_socket(context)
        self.socket.linger = LINGER_MS
        self.socket.maxmsgsize = r.MAX_REQUEST_BYTES
        self.socket.rcvhwm = WAITING_REQUESTS
        self.socket.sndhwm = WAITING_ANSWERS
        self.socket.handshake_ivl = HANDSHAKE_MS
        if takes_keys(endpoint):
            self.socket.heartbeat_ivl = HEARTBEAT_MS
            self.socket.heartbeat_timeout = HEARTBEAT_TIMEOUT_MS
        try:
            if self._keys is not None:
                self._keys.secure(self.socket, "user")
            self.endpoint = listen(self.socket, endpoint, EVERYBODY)
            self._connections = Connections(self.endpoint)
            self._connections.start()
        except BaseException:
            self.close()
            raise

    def receive(self) -> list[Asked]:
        """Return the received requests that are within their users' limits; refuse or drop the others."""
        asked: list[Asked] = []
        messages = size = 0
        for _ in range(MOST_FRAMES):
            try:
                frame = self.socket.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            size += len(frame)
            if len(self._frames) <= FRAMES:  # one frame more than a request has: enough to recognise an invalid message
                self._frames.append(frame)
            if frame.more:
                continue
            frames, self._frames = self._frames, []
            request = self._request(frames)
            if request is not None:
                asked.append(request)
            messages += 1
            if messages >= MOST_MESSAGES or size >= MOST_BYTES:
                break
        return asked

    def charge(self, asked: Asked, spent_s: float) -> None:
        """Charge a request's user for the processor time that the manager has spent on it: when it stood still is nobody's doing."""
        self._requests.charge(asked.who.name, spent_s / SECONDS_A_TOKEN, self._clock_s())

    def takes_changes(self, who: r.Requester, jobs: float) -> bool:
        """Charge a user for the change of so many jobs; False if it has changed too many of late."""
        return who.operator or self._changes.take(who.name, jobs, self._clock_s())

    def answer(self, asked: Asked, answer: r.Done | r.Refused) -> None:
        """Send the answer, unless the client is gone or does not read."""
        name = asked.who.name
        try:
            frames = r.encode_answer(answer, asked.ticket)
        except (TypeError, ValueError, OverflowError) as error:
            self._refuse(
                asked.sender, asked.ticket, r.Refused("limit", f"the manager cannot encode its answer: {error}")
            )
            return
        size = len(frames[-1])
        self._requests.charge(name, size / BYTES_A_TOKEN, self._clock_s())
        if size > r.MAX_ANSWER_BYTES:
            text = f"the answer has {size} bytes, and the limit is {r.MAX_ANSWER_BYTES}: ask for less"
            self._refuse(asked.sender, asked.ticket, r.Refused("limit", text))
        elif size < LARGE_BYTES:
            self.socket.send_multipart([asked.sender, *frames], zmq.NOBLOCK)
        elif self._unread.bytes_of(name) + size > MOST_UNREAD_BYTES:
            text = f"more than {MOST_UNREAD_BYTES} bytes of earlier answers wait to be read"
            self._refuse(asked.sender, asked.ticket, r.Refused("limit", text))
        else:
            for frame in (asked.sender, *frames[:-1]):
                self.socket.send(frame, zmq.SNDMORE | zmq.NOBLOCK)
            self._unread.add(name, self.socket.send(frames[-1], zmq.NOBLOCK, copy=False, track=True), size)

    def close(self) -> None:
        """Release the endpoint; the context belongs to the caller, and holds no socket of this object afterwards."""
        if self._connections is not None:
            self._connections.close()
        if not self.socket.closed:
            remove_socket(self.socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self.socket.close()
        if self._keys is not None:
            self._keys.close()

    def _request(self, frames: list[zmq.Frame]) -> Asked | None:
        """Return the request in ``frames``; None for an invalid message, which is refused or dropped."""
        now_s = self._clock_s()
        sender, *parts = [frame.bytes for frame in frames]
        who = self._who(frames[-1])
        if who is None:
            if self._audit is not None:
                self._audit.refused(
                    f"a user at {peer_of(frames[-1])}", "the key was revoked, or the connection has no name"
                )
            if self._strangers.take(1, now_s):
                text = "the manager cannot tell whose connection this is: its key was revoked, or the client is too old"
                self._refuse(sender, _ticket_in(parts), r.Refused("permission", text))
            else:
                self.dropped += 1
            return None
        size = sum(map(len, parts))
        try:
            if not self._requests.take(who.name, 1 + size / BYTES_A_TOKEN, now_s):
                raise _TooFast
            began_s = time.thread_time()
            ticket, request = r.decode_request(parts)
            self._requests.charge(who.name, (time.thread_time() - began_s) / SECONDS_A_TOKEN, now_s)
        except (_TooFast, RemoteProtocolError) as error:
            if self._complaints.take(who.name, 1, now_s):
                self._refuse(sender, _ticket_in(parts), _refusal(error))
            else:
                self.dropped += 1
            return None
        return Asked(sender, ticket, who, request, peer_of(frames[-1]), size)

    def _refuse(self, sender: bytes, ticket: int, refused: r.Refused) -> None:
        # Without ROUTER_MANDATORY, a ROUTER drops messages that it cannot deliver, and never waits.
        self.socket.send_multipart([sender, *r.encode_answer(refused, ticket)], zmq.NOBLOCK)

    def _who(self, frame: zmq.Frame) -> r.Requester | None:
        """Return the sender of ``frame``; None if unknown.

        Each property is read only for transports where the library sets it: elsewhere a peer could forge it.
        """
        if self._keys is not None:
            member = self._keys.sender(frame, "user")
            if member is None:
                return None
            return r.Requester(member.name, member.role == "operator" or member.name in self._operators)
        try:
            address = str(frame.get("Peer-Address"))
        except zmq.ZMQError:
            return None
        uid = int(address.split(":")[-3])  # localhost:UID:GID:PID
        name = _user_name(uid)
        return r.Requester(name, uid in (0, os.geteuid()) or name in self._operators)


def peer_of(frame: zmq.Frame) -> str:
    """Return what the system says of the other end: on ipc ``localhost:UID:GID:PID``, on tcp its address; empty if nothing."""
    try:
        return str(frame.get("Peer-Address"))
    except zmq.ZMQError:
        return ""


class _TooFast(Exception):
    """A user exceeds its limit of requests."""


@lru_cache(maxsize=4096)
def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _refusal(error: _TooFast | RemoteProtocolError) -> r.Refused:
    if isinstance(error, RemoteProtocolError):
        return r.Refused("request", error.text, error.path)
    return r.TOO_MANY


def _ticket_in(parts: list[bytes]) -> int:
    """Return the ticket of a refused request, if it is readable."""
    try:
        raw = unpack(parts[-1], r.MAX_REQUEST_BYTES)
    except (IndexError, RemoteProtocolError):
        return NO_TICKET
    ticket = raw.get("ticket") if isinstance(raw, dict) else None
    return ticket if type(ticket) is int and INT64_MIN <= ticket <= INT64_MAX else NO_TICKET
