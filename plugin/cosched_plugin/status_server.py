"""The status of a running process: the thread that answers, and the client that asks.

Two frames each way: the name of the framing, ``cosched-status/1``, and a msgpack map. The question is ``{"type": "status"}``; the
answer has type ``status`` and the status fields, or type ``error`` and a ``text``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import zmq

from cosched_plugin.common.errors import ProtocolError, RemoteProtocolError, UsageError
from cosched_plugin.common.sockets import OWNER_ONLY, bind_private, connect, remove_socket, router_socket
from cosched_plugin.protocol.codec import pack, unpack
from cosched_plugin.protocol.endpoint import why_not

MAGIC: Final = b"cosched-status/1"
MAX_QUESTION_BYTES: Final = 1_024
MAX_ANSWER_BYTES: Final = 65_536
QUEUED: Final = 16  # questions and answers of one client that may wait
PAUSE_S: Final = 0.005  # pause after each answer, so that frequent questions do not take all the time


class StatusServer:
    """Answers at ``endpoint`` with what ``snapshot`` returns, in a thread of its own, from construction to `close`.

    ``snapshot`` is called in that thread. Raises UsageError for an endpoint that is not local, is taken, or cannot be bound. The
    socket of an ipc endpoint can be used by its owner only.
    """

    def __init__(self, endpoint: str, snapshot: Callable[[], Mapping[str, Any]]) -> None:
        _check(endpoint)
        self._snapshot = snapshot
        self._context = zmq.Context()  # its own: a flood of questions does not affect the manager's connection
        self._socket = router_socket(self._context)
        self._socket.linger = 0
        self._socket.maxmsgsize = MAX_QUESTION_BYTES
        self._socket.rcvhwm = self._socket.sndhwm = QUEUED
        try:
            self.endpoint = bind_private(self._socket, endpoint, OWNER_ONLY)
        except UsageError:
            self._give_up()
            raise
        self._thread = threading.Thread(target=self._serve, name="status", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Release the endpoint; safe to call twice."""
        remove_socket(self.endpoint)
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
        """Return the answer to a question; None for frames of another protocol."""
        if len(frames) != 2 or frames[0] != MAGIC:
            return None
        try:
            question = unpack(frames[1], MAX_QUESTION_BYTES)
            if not isinstance(question, dict) or question.get("type") != "status":
                return pack({"type": "error", "text": 'expected {"type": "status"}'})
            return pack({"type": "status", **self._snapshot()})
        except RemoteProtocolError as error:
            return pack({"type": "error", "text": error.text[:200]})
        except Exception as error:  # a defect in `snapshot` must not end the thread
            return pack({"type": "error", "text": f"no status available: {type(error).__name__}"})


def ask_status(endpoint: str, timeout_s: float) -> dict[str, Any]:
    """Return the status of the process that answers at ``endpoint``.

    Raises UsageError for an endpoint that is not local, ProtocolError when there is no valid answer within
    ``timeout_s``.
    """
    _check(endpoint)
    with zmq.Context() as context, context.socket(zmq.DEALER) as asker:
        asker.linger = 0
        asker.maxmsgsize = MAX_ANSWER_BYTES
        asker.rcvtimeo = asker.sndtimeo = round(timeout_s * 1000)
        try:
            connect(asker, endpoint)
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
        reason = "expected a path: any user of this machine could use an abstract name"
    if reason is not None:
        raise UsageError(f"{endpoint}: {reason}")
