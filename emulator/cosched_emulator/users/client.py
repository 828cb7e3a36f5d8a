"""The client's connection to a running manager: one request at a time, and a deadline for each.

A request is never sent twice, and not sent at all without a manager. If it was sent and no answer comes, the client cannot know
whether the manager carried it out, and the error says so.
"""

from __future__ import annotations

import socket as unix
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import zmq
from zmq.utils.monitor import recv_monitor_message

from cosched_emulator.errors import ConfigurationError, EmulatorError, LinkError
from cosched_emulator.users import requests as r
from cosched_plugin.common.sockets import connect
from cosched_plugin.protocol.endpoint import takes_keys, why_not
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.messages import JobSpec

TEMPORARY: Final = frozenset({"rate", "busy"})  # refusals after which the same request may be repeated
AGAIN_S: Final = 0.25  # after such a refusal; a manager does not answer those who ask on at once
_NO_TICKET: Final = 0  # ticket of an answer to an unreadable request
_SLICE_MS: Final = 100  # one slice of waiting
_FIRST_MS: Final = 20  # the first slice: on ipc, enough time for a connection
CONNECT_S: Final = 3.0  # enough time for a connection on tcp
_UNKNOWN: Final = "; it may have carried out the request: check before you repeat it"
_NO_MANAGER: Final = (
    "the answer is not that of a manager to its users: expected the endpoint that serve has as --users, not as --bind, "
    "and the same version of cosched"
)


class SilenceError(LinkError):
    """There is no manager, or it does not answer."""


class ManagerConnection:
    """A connection to the manager at ``endpoint``; encrypted if both keys are given and the endpoint uses keys.

    With ``awaits_manager`` a request waits up to ``timeout_s`` for a manager to appear. Without, it fails immediately if no process
    listens at an ipc endpoint, and after `CONNECT_S` without a connection.

    Raises ConfigurationError for an invalid endpoint or combination of keys.
    """

    def __init__(
        self, endpoint: str, timeout_s: float, key: str = "", manager_key: str = "", *, awaits_manager: bool = True
    ) -> None:
        if bool(key) != bool(manager_key):
            missing, given = ("--manager-key", "--key") if key else ("--key", "--manager-key")
            raise ConfigurationError(missing, f"a key file, because {given} is given", "nothing")
        reason = why_not(endpoint, secured=bool(key))
        if reason is not None:
            raise ConfigurationError("--manager", f"the endpoint of a manager ({reason})", repr(endpoint))
        self.endpoint = endpoint
        self._timeout_s = timeout_s
        self._awaits_manager = awaits_manager
        self._keys = (key, manager_key) if key and takes_keys(endpoint) else None
        self._ticket = 0
        self._not_before_s = 0.0  # the next request
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._events: zmq.Socket[bytes] | None = None

    def __enter__(self) -> ManagerConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, and drop requests that were not sent."""
        self._hang_up()
        self._context.term()

    def result(self, request: r.Request, timeout_s: float | None = None) -> Mapping[str, Any]:
        """Return the result of a request; EmulatorError if it was refused, SilenceError as for `ask`."""
        answer = self.ask(request, timeout_s)
        if isinstance(answer, r.Refused):
            raise EmulatorError(refusal_text(answer))
        return answer.result

    def ask(
        self, request: r.Request, timeout_s: float | None = None, meanwhile: Callable[[], None] | None = None
    ) -> r.Done | r.Refused:
        """Send a request and return its answer; SilenceError if none comes in time (later requests are still possible).

        After a refusal for the time being the next request waits a little. ``meanwhile`` is called about every tenth of a second; its
        exceptions propagate.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        self._ticket += 1
        try:
            frames = r.encode_request(request, self._ticket)
        except UnicodeEncodeError as error:  # bytes of a command line that are not text
            raise ConfigurationError("arguments", "text in UTF-8", repr(error.object)) from None
        if len(frames[1]) > r.MAX_REQUEST_BYTES:
            raise EmulatorError(f"the request has {len(frames[1])} bytes; the limit is {r.MAX_REQUEST_BYTES}")
        time.sleep(max(0.0, min(self._not_before_s, deadline) - time.monotonic()))
        try:
            answer = self._converse(frames, request, deadline, timeout_s, meanwhile or _nothing)
            if isinstance(answer, r.Refused) and answer.code in TEMPORARY:
                self._not_before_s = time.monotonic() + AGAIN_S
            return answer
        except BaseException:
            self._hang_up()  # so that no old message arrives at either end when the manager is back
            raise

    def _converse(
        self, frames: list[bytes], request: r.Request, deadline: float, timeout_s: float, meanwhile: Callable[[], None]
    ) -> r.Done | r.Refused:
        began = deadline - timeout_s
        connected_by = deadline if self._awaits_manager else min(deadline, began + CONNECT_S)
        socket = self._dial()
        wait_ms = min(_FIRST_MS, _left_ms(deadline))
        while not (socket.poll(wait_ms, zmq.POLLOUT) and _is_sent(socket, frames)):
            meanwhile()
            absence = None if self._awaits_manager else why_absent(self.endpoint)
            if absence is not None:
                raise SilenceError(f"no manager there: {absence}", self.endpoint)
            if time.monotonic() >= connected_by:
                raise SilenceError(
                    f"no manager there within {connected_by - began:g} s{self._handshake_trouble()}", self.endpoint
                )
            wait_ms = _left_ms(deadline)
        while True:
            if socket.poll(_left_ms(deadline), zmq.POLLIN):
                try:
                    ticket, answer = r.decode_answer(socket.recv_multipart(zmq.NOBLOCK))
                except RemoteProtocolError:
                    raise LinkError(_NO_MANAGER, self.endpoint) from None
                if ticket in (self._ticket, _NO_TICKET):
                    return answer
                continue
            meanwhile()
            if time.monotonic() >= deadline:
                unknown = _UNKNOWN if isinstance(request, r.Change) else ""
                raise SilenceError(f"the manager did not answer within {timeout_s:g} s{unknown}", self.endpoint)

    def _dial(self) -> zmq.Socket[bytes]:
        """Return the socket, connected or about to be."""
        if self._socket is not None:
            return self._socket
        socket = self._context.socket(zmq.DEALER)
        try:
            socket.linger = 0
            socket.immediate = True  # a request must not reach a manager that starts after the error
            socket.maxmsgsize = r.MAX_ANSWER_BYTES
            socket.reconnect_ivl, socket.reconnect_ivl_max = 100, 1000
            if self._keys is not None:
                from cosched_plugin.common.curve import secure_client  # noqa: PLC0415 - most need no keys

                secure_client(socket, *self._keys)
            self._events = socket.get_monitor_socket(_HANDSHAKE_FAILED)
            connect(socket, self.endpoint)
        except zmq.ZMQError as error:
            self._socket = socket
            self._hang_up()
            raise ConfigurationError(
                "--manager", f"an endpoint to connect to ({error})", repr(self.endpoint)
            ) from error
        except BaseException:
            socket.close(0)
            raise
        self._socket = socket
        return socket

    def _hang_up(self) -> None:
        if self._socket is not None:
            if self._events is not None:
                self._socket.disable_monitor()
                self._events.close(0)
                self._events = None
            self._socket.close(0)
            self._socket = None

    def _handshake_trouble(self) -> str:
        """Return why a handshake failed, for an error's text."""
        if self._events is None or not self._events.poll(0):
            return ""
        recv_monitor_message(self._events, zmq.NOBLOCK)
        return "; a process listens there and does not accept this connection: expected other keys, or another endpoint"


_HANDSHAKE_FAILED: Final = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


def refusal_text(refused: r.Refused) -> str:
    """Return a refusal in one line, with the command-line option that it concerns."""
    field = refused.path.split("[")[0].split(".")[0]
    option = _OPTIONS.get(field, "")
    if not option and field in (*JobSpec._fields, *_ALIKE):
        option = "--" + field.removesuffix("_us").replace("_", "-")
    elif not option and refused.code == "request":
        option = _ARGUMENTS.get(field, "")
    return f"refused: {option}: {refused.text}" if option else f"refused: {refused.text}"


# Named only if the text does not name the job or node
_ARGUMENTS: Final[Mapping[str, str]] = {"jobs": "JOB", "nodes": "NODE"}
# Fields of a request whose command-line option has their name, as most fields of a job; the option of the others.
_ALIKE: Final = ("run_us", "token", "reason", "user", "most", "qos", "account")
_OPTIONS: Final[Mapping[str, str]] = {
    "processes": "--ntasks",
    "limit_us": "--time",
    "name": "--job-name",
    "ppn_min": "--ntasks-per-node",
    "ppn_max": "--ntasks-per-node",
    "threads_per_process": "--cpus-per-task",
    "memory_mb": "--mem",
    "resources": "--gres",
    "licences": "--licenses",
    "all_memory": "--mem",
    "tasks": "--array",
    "at_once": "--array",
    "after": "--dependency",
    "delay_us": "--begin",
    "partitions": "--partition",
}


def why_absent(endpoint: str) -> str | None:
    """Return why no process listens at an ipc endpoint; None if one does, and for other endpoints."""
    scheme, _, path = endpoint.partition("://")
    if scheme != "ipc":
        return None
    with unix.socket(unix.AF_UNIX, unix.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a busy manager may have a full queue of connections
        try:
            probe.connect("\0" + path[1:] if path.startswith("@") else path)
        except (FileNotFoundError, NotADirectoryError):
            return "there is no such socket; is the manager running?"
        except ConnectionRefusedError:
            return "no process listens there; is the manager running?"
        except PermissionError:
            return "no permission to connect to this socket"
        except OSError:
            return None
    return None


def _nothing() -> None:
    """Do nothing meanwhile."""


def _is_sent(socket: zmq.Socket[bytes], frames: list[bytes]) -> bool:
    """Send and return True; return False if the connection was lost after the poll."""
    try:
        socket.send_multipart(frames, zmq.NOBLOCK)
    except zmq.Again:
        return False
    return True


def _left_ms(deadline: float) -> int:
    return min(_SLICE_MS, max(0, round(1000 * (deadline - time.monotonic()))))
