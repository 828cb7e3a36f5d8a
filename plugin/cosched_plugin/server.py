"""The scheduler's process: a DEALER socket, a session and a scheduler in one loop. The only file of the plugin that imports zmq."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import zmq

from cosched_plugin.errors import PolicyError, ProtocolError, RemoteProtocolError, UsageError
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.endpoint import why_not
from cosched_plugin.protocol.limits import MAX_FRAME_BYTES
from cosched_plugin.protocol.messages import Bye, ErrorReport, Events, Message, Ping, Welcome
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory
from cosched_plugin.protocol.session import SchedulerSession, State, report_of

__all__ = ["Scheduler", "SchedulerFactory", "serve"]

SLICE_S: Final = 0.2  # longest wait that notices nothing: a signal or a deadline is at most this late
HELLO_INTERVAL_S: Final = 0.5
LINGER_S: Final = 0.5  # how long the last message may take to leave


def serve(
    endpoint: str,
    scheduler_factory: SchedulerFactory,
    *,
    policy_name: str,
    wait_s: float,
    silence_s: float,
    log: Callable[[str], None],
) -> int:
    """Serve the manager at ``endpoint`` until it says bye, and return the exit code: 0, or 128 + n after signal n.

    ``wait_s`` is how long to look for a manager, ``silence_s`` how long it may be silent before it is asked whether it is there,
    and then how long it may take to answer. SIGTERM and SIGINT are honoured between two batches (bye, then 143 or 130); the same
    signal again ends the process as it would any other. Signals are left alone outside the main thread.

    Raises UsageError for an endpoint that is not local, ProtocolError when there is no manager, it goes away, breaks the protocol
    or refuses us, and lets the scheduler's own errors through once the manager has been told.
    """
    reason = why_not(endpoint)
    if reason is not None:
        raise UsageError(f"{endpoint}: {reason}")
    for name, span_s in (("wait", wait_s), ("silence", silence_s)):
        if not 0 <= span_s < float("inf"):
            raise UsageError(f"--{name}: expected a number of seconds, got {span_s}")
    server = _Server(endpoint, scheduler_factory, policy_name, log)
    try:
        with _stopped_by_signals(server):
            return server.run(wait_s, silence_s)
    finally:
        server.close()


class _Server:
    """One conversation."""

    def __init__(
        self, endpoint: str, scheduler_factory: SchedulerFactory, policy_name: str, log: Callable[[str], None]
    ) -> None:
        self.stop_signal = 0  # set by a signal handler
        self._endpoint = endpoint
        self._scheduler_factory = scheduler_factory
        self._scheduler: Scheduler | None = None
        self._log = log
        self._heard = 0  # messages received
        self._refusal = ""  # why a manager did not want us yet
        self._session = SchedulerSession(f"{os.getpid()}-{secrets.token_hex(4)}", policy_name)
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = round(LINGER_S * 1000)
        # One message may wait for a manager that is not there yet. (IMMEDIATE would let none wait, but loses what a manager said
        # just before it left: its bye.)
        self._socket.sndhwm = 1
        self._socket.maxmsgsize = MAX_FRAME_BYTES
        self._socket.rcvtimeo = self._socket.sndtimeo = round(SLICE_S * 1000)
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise UsageError(f"{endpoint}: cannot connect there: {error}") from error

    def close(self) -> None:
        """Close the socket; takes at most the linger time, and none when there never was a manager."""
        self._socket.close(None if self._heard else 0)
        self._context.term()

    def run(self, wait_s: float, silence_s: float) -> int:
        """Greet, then answer batches until the end; return the exit code."""
        ending = self._greet(wait_s)
        if ending is None:
            ending = self._answer_batches(silence_s)
        return ending

    def _greet(self, wait_s: float) -> int | None:
        """Say hello until the manager has welcomed us; return an exit code if it ended before that."""
        deadline = time.monotonic() + wait_s
        hello_at = 0.0
        while self._scheduler is None:
            now = time.monotonic()
            if self.stop_signal:
                return self._leave()
            if now >= deadline:
                why = f": {self._refusal}" if self._refusal else ""
                raise ProtocolError(f"no manager welcomed us at {self._endpoint} within {wait_s:g} s{why}")
            if now >= hello_at and self._send(self._session.hello()):
                hello_at = now + HELLO_INTERVAL_S
            ending = self._receive()
            if ending is not None:
                return ending
        return None

    def _answer_batches(self, silence_s: float) -> int:
        heard_at = time.monotonic()
        pinged_at: float | None = None
        token = 0
        while True:
            if self.stop_signal:
                return self._leave()
            before = self._heard
            ending = self._receive()
            if ending is not None:
                return ending
            now = time.monotonic()
            if self._heard != before:
                heard_at, pinged_at = now, None
            elif pinged_at is None and now - heard_at > silence_s:
                token += 1
                pinged_at = now
                self._send(Ping(token))
            elif pinged_at is not None and now - pinged_at > silence_s:
                raise ProtocolError(f"the manager at {self._endpoint} has been silent for {now - heard_at:.1f} s")

    def _leave(self) -> int:
        name = signal.Signals(self.stop_signal).name
        self._log(f"leaving on {name}")
        if self._session.state is not State.START:
            self._send(self._session.bye(name))
        return 128 + self.stop_signal

    def _send(self, message: Message) -> bool:
        """Send ``message``; return whether it went, which it does not while another waits for a connection."""
        try:
            self._socket.send_multipart(encode(message))
        except zmq.Again:
            return False
        return True

    def _receive(self) -> int | None:
        """Receive and act on one message, if one comes within the slice; return the exit code when it was the last."""
        try:
            frames = self._socket.recv_multipart()
        except zmq.Again:
            return None
        self._heard += 1
        try:
            received = self._session.receive(decode(frames))
            for message in received.send:
                self._send(message)
            return None if received.deliver is None else self._act_on(received.deliver)
        except RemoteProtocolError as error:
            self._send(report_of(error))
            raise
        except PolicyError as error:
            self._send(ErrorReport("policy", "", str(error)))
            raise
        except Exception as error:
            if type(error) is not ProtocolError:  # that one tells what the manager reported
                self._send(ErrorReport("internal", "", f"{type(error).__name__}: {error}"))
            raise

    def _act_on(self, message: Message) -> int | None:
        match message:
            case Events():
                if self._scheduler is None:  # pragma: no cover - the session delivers no batch before a welcome
                    raise ProtocolError("a batch before any welcome")
                self._send(self._session.answer(self._scheduler.handle(message.now_us, message.events)))
            case Welcome():
                again = self._scheduler is not None
                self._scheduler = self._scheduler_factory(message)
                nodes = sum([each.nodes for each in message.nodes])
                self._log(
                    f"{'resynced' if again else 'welcomed'} by the manager at {self._endpoint}: {nodes} nodes, "
                    f"{len(message.running)} running, {len(message.pending)} pending, batch {message.seq}"
                )
                self._send(self._session.ready())
            case Bye(reason):
                self._log(f"the manager said bye: {reason}" if reason else "the manager said bye")
                return 0
            case ErrorReport(code, path, text):
                refusal = f"the manager reports {code}: {path}{': ' if path else ''}{text}"
                if code != "busy" or self._scheduler is not None:
                    raise ProtocolError(f"{self._endpoint}: {refusal}")
                self._refusal = refusal  # the other scheduler may yet turn out to be dead
            case _:  # pragma: no cover - the session delivers nothing else
                raise ProtocolError(f"unexpected {type(message).__name__}")
        return None


@contextmanager
def _stopped_by_signals(server: _Server) -> Iterator[None]:
    """Let SIGTERM and SIGINT ask ``server`` to stop; a second one has its default effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: FrameType | None) -> None:
        server.stop_signal = number
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
