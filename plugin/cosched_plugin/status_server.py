"""Ask a process how it is, while it works: the answering thread, and the question.

Two frames each way: the name of the framing, ``cosched-status/1``, and a msgpack map. The question is ``{"type": "status"}``; the
answer has type ``status`` and what there is to tell, or type ``error`` and a ``text``.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import zmq

from cosched_plugin.errors import ProtocolError, RemoteProtocolError, UsageError
from cosched_plugin.protocol.codec import pack, unpack
from cosched_plugin.protocol.endpoint import why_not

MAGIC: Final = b"cosched-status/1"
MAX_QUESTION_BYTES: Final = 1_024
MAX_ANSWER_BYTES: Final = 65_536
QUEUED: Final = 16  # questions and answers of one asker that may wait
PAUSE_S: Final = 0.005  # after each answer: those who ask all the time do not get all the time
PROBE_S: Final = 0.2  # how long one who listens may take to let us connect


class StatusServer:
    """Answers at ``endpoint`` with what ``snapshot`` returns, in a thread of its own, from construction to `close`.

    ``snapshot`` is called in that thread. Raises UsageError for an endpoint that is not local, is taken, or cannot be bound. The
    socket of an ipc endpoint can be used by its owner only.
    """

    def __init__(self, endpoint: str, snapshot: Callable[[], Mapping[str, Any]]) -> None:
        _check(endpoint)
        self._snapshot = snapshot
        self._context = zmq.Context()  # of its own: whoever floods it does not flood the conversation with the manager
        # ZeroMQ numbers its peers from C's rand on, the same in every process unless it is seeded, and libzmq 4.3.5 ends the process
        # when a peer claims the number of the next.
        ctypes.CDLL(None).srand(secrets.randbits(32))
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.maxmsgsize = MAX_QUESTION_BYTES
        self._socket.rcvhwm = self._socket.sndhwm = QUEUED
        before = os.umask(0o177)
        try:
            _check_free(endpoint)
            self._socket.ipv6 = "[" in endpoint
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self._give_up()
            raise UsageError(f"{endpoint}: cannot listen there: {error}") from error
        except UsageError:
            self._give_up()
            raise
        finally:
            os.umask(before)
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._thread = threading.Thread(target=self._serve, name="status", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give the endpoint up; safe to call twice."""
        self._context.term()  # ends the wait of the thread, which closes the socket
        self._thread.join()

    def _give_up(self) -> None:
        self._socket.close(0)
        self._context.term()

    def _serve(self) -> None:
        try:
            while True:
                asker, *frames = self._socket.recv_multipart()  # ends at the latest with the context
                answer = self._answer(frames)
                if answer is not None:
                    self._socket.send_multipart([asker, MAGIC, answer], zmq.NOBLOCK)  # drops what cannot be sent
                time.sleep(PAUSE_S)
        except zmq.ContextTerminated:
            return
        finally:
            self._socket.close(0)

    def _answer(self, frames: Sequence[bytes]) -> bytes | None:
        """Return the answer to a question; None for what is none of ours."""
        if len(frames) != 2 or frames[0] != MAGIC:
            return None
        try:
            question = unpack(frames[1], MAX_QUESTION_BYTES)
            if not isinstance(question, dict) or question.get("type") != "status":
                return pack({"type": "error", "text": 'expected {"type": "status"}'})
            return pack({"type": "status", **self._snapshot()})
        except RemoteProtocolError as error:
            return pack({"type": "error", "text": error.text[:200]})
        except Exception as error:  # a defect there must not end the thread
            return pack({"type": "error", "text": f"no status to be had: {type(error).__name__}"})


def ask_status(endpoint: str, timeout_s: float) -> dict[str, Any]:
    """Return what the process that answers at ``endpoint`` tells.

    Raises UsageError for an endpoint that is not local, ProtocolError when there is no answer within ``timeout_s``, or none that
    can be understood.
    """
    _check(endpoint)
    with zmq.Context() as context, context.socket(zmq.DEALER) as asker:
        asker.linger = 0
        asker.maxmsgsize = MAX_ANSWER_BYTES
        asker.rcvtimeo = asker.sndtimeo = round(timeout_s * 1000)
        asker.ipv6 = "[" in endpoint
        try:
            asker.connect(endpoint)
            asker.send_multipart([MAGIC, pack({"type": "status"})])
            frames = asker.recv_multipart()
        except zmq.Again:
            raise ProtocolError(f"{endpoint}: no answer within {timeout_s:g} s") from None
        except zmq.ZMQError as error:
            raise UsageError(f"{endpoint}: cannot ask there: {error}") from error
    if len(frames) != 2 or frames[0] != MAGIC:
        raise ProtocolError(f"{endpoint}: expected an answer of 2 frames, the first of them {MAGIC.decode()}")
    try:
        answer = unpack(frames[1], MAX_ANSWER_BYTES)
    except RemoteProtocolError as error:
        raise ProtocolError(f"{endpoint}: {error}") from error
    if not isinstance(answer, dict) or answer.pop("type", None) != "status":
        text = answer.get("text") if isinstance(answer, dict) else None
        raise ProtocolError(f"{endpoint}: {text if isinstance(text, str) else 'expected a status'}")
    return answer


def _check(endpoint: str) -> None:
    reason = why_not(endpoint)
    if reason is None and endpoint.startswith("ipc://@"):
        reason = "expected a path: whoever is on this machine could use an abstract name"
    if reason is not None:
        raise UsageError(f"{endpoint}: {reason}")


def _check_free(endpoint: str) -> None:
    """Refuse a path that is somebody else's: ZeroMQ would unlink whatever is there, and take the place of who listens."""
    path = endpoint.removeprefix("ipc://")
    if path == endpoint:
        return
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # nothing there; bind tells what else may be wrong
    if not stat.S_ISSOCK(mode):
        raise UsageError(f"{endpoint}: expected a new path for a socket, got one where there is something else")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(path)
        except TimeoutError:
            pass  # somebody listens who is too busy to let us in
        except OSError:
            return  # left over by a process that is gone
    raise UsageError(f"{endpoint}: expected a path where nobody listens")
