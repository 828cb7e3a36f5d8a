"""The process that decides for Batsim: one socket, one simulation, and a deadline on every wait.

Batsim connects a REQ socket and stands still until it is answered; it has no timeout of its own, aborts on a reply that it cannot
read, and tells nobody. So a failure here is told to it as a reply that is no JSON, which ends it with that text in its log; and a
Batsim that has aborted is seen by its connection, which is gone, and not waited for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import zmq

from cosched_plugin.batsim.adapter import Decisions
from cosched_plugin.batsim.messages import MAX_MESSAGE_BYTES, MOST_REASON
from cosched_plugin.common import sockets
from cosched_plugin.common.errors import PluginError, ProtocolError, UsageError
from cosched_plugin.common.process import freeze_heap, stop_on_signals
from cosched_plugin.protocol.endpoint import why_not
from cosched_terminal.console import WARNING, Log

SLICE_MS: Final = 200  # how soon signals, deadlines and a lost connection are seen
LINGER_MS: Final = 500
NOBLOCK: Final = int(zmq.NOBLOCK)


def serve(endpoint: str, make: Callable[[], Decisions], *, wait_s: float, silence_s: float, log: Log) -> int:
    """Decide for the first simulation that begins at ``endpoint``; return the exit code: 0, or 128 + n after signal n.

    ``wait_s`` is how long to wait for SIMULATION_BEGINS, ``silence_s`` how long Batsim may simulate without a message. Raises
    UsageError for an endpoint that cannot be used, ProtocolError for a Batsim that does not come, leaves before SIMULATION_ENDS or
    says what cannot be; the policy's own errors propagate.
    """
    reason = why_not(endpoint)
    if reason is not None:
        raise UsageError(f"--bind: {endpoint}: {reason}")
    server = _Server(make, wait_s, silence_s, log)
    try:
        bound = server.bind(endpoint)
        log("waits", f"waiting for Batsim at {bound}", endpoint=bound)
        with freeze_heap(), stop_on_signals(server.stop, log):
            return server.run()
    finally:
        server.close()


class _Server:
    """A socket with one simulation, and strangers that are sent away."""

    def __init__(self, make: Callable[[], Decisions], wait_s: float, silence_s: float, log: Log) -> None:
        self._make = make
        self._decisions = make()
        self._wait_s, self._silence_s = wait_s, silence_s
        self._log = log
        self._signal = 0
        self._peer: bytes | None = None  # the Batsim that is served
        self._connections = 0
        self._context = zmq.Context()
        # It tells who says what, and serves REQ sockets like a REP one
        self._socket = sockets.router_socket(self._context)
        self._socket.linger = LINGER_MS
        self._socket.maxmsgsize = MAX_MESSAGE_BYTES
        self._socket.rcvtimeo = SLICE_MS
        self._socket.router_mandatory = True
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)

    def bind(self, endpoint: str) -> str:
        """Bind the socket; return the endpoint that it has."""
        return sockets.bind_private(self._socket, endpoint, sockets.OWNER_ONLY)

    def stop(self, number: int) -> None:
        """End within a slice; may be called at any moment."""
        self._signal = number

    def close(self) -> None:
        """Release the endpoint."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        sockets.remove_socket(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self._socket.close(LINGER_MS)
        self._context.term()

    def run(self) -> int:
        """Serve to the end of the simulation; return the exit code."""
        socket = self._socket
        heard_s = time.monotonic()
        while True:
            try:
                frames = sockets.receive_frames(socket)
            except zmq.Again:
                frames = []
            if self._signal:
                self._fail(f"ended by signal {self._signal}")
                return 128 + self._signal
            if not frames:
                self._check(time.monotonic() - heard_s)
            elif self._hear(frames):
                heard_s = time.monotonic()
                if self._decisions.ended:
                    done = self._decisions
                    text = f"the simulation is over: {done.jobs} jobs, {done.starts} starts, {done.rejected} rejected"
                    self._log("ends", text, jobs=done.jobs, starts=done.starts, rejected=done.rejected)
                    return 0

    def _hear(self, frames: list[bytes]) -> bool:
        """Answer a message; return whether it is one of the simulation's."""
        sender, *rest = frames
        if self._peer not in (None, sender):
            self._say(sender, b"cosched-plugin: another simulation is being served")
            return False
        if len(rest) != 2 or rest[0]:
            self._log("stranger", "a message without the empty frame of a REQ socket is ignored", level=WARNING)
            return False
        try:
            reply = self._decisions.answer(rest[1])
        except ProtocolError as error:
            if self._decisions.begun:
                self._peer = sender
                self._fail(str(error))
                raise
            self._say(sender, _failure(str(error)))
            self._log("stranger", f"a message that does not begin a simulation: {error}", level=WARNING)
            self._decisions = self._make()
            return False
        except PluginError as error:
            self._peer = sender
            self._fail(str(error))
            raise
        except BaseException:
            self._peer = sender
            self._fail("a defect of the scheduler; see its output")
            raise
        if self._peer is None:
            self._left()  # who came and went before does not count
            self._peer = sender
        self._say(sender, reply)
        return True

    def _check(self, quiet_s: float) -> None:
        """Raise ProtocolError once there is no reason to wait any more."""
        left = self._left()
        if self._peer is None:
            if quiet_s > self._wait_s:
                raise ProtocolError(f"no simulation has begun within {self._wait_s:g} s")
        elif left:
            raise ProtocolError(
                "Batsim ended before SIMULATION_ENDS; its output says why "
                f"(a message of more than {MAX_MESSAGE_BYTES >> 20} MiB also closes the connection)"
            )
        elif quiet_s > self._silence_s:
            self._fail(f"no message for {self._silence_s:g} s")
            raise ProtocolError(f"no message from Batsim for {self._silence_s:g} s (--silence)")

    def _left(self) -> bool:
        """Count connections; return whether there was none for a moment: a socket whose message was too large connects again."""
        left = self._connections <= 0
        while self._monitor.poll(0):
            event = sockets.receive_event(self._monitor)
            self._connections += 1 if event == zmq.EVENT_ACCEPTED else -1
            left = left or self._connections <= 0
        return left

    def _fail(self, reason: str) -> None:
        """Tell the served Batsim, which may stand in its wait for a reply, that none will come."""
        if self._peer is not None:
            self._say(self._peer, _failure(reason))

    def _say(self, to: bytes, frame: bytes) -> None:
        with suppress(zmq.ZMQError):  # it is gone, which `_check` tells
            sockets.send_frames(self._socket, (to, b"", frame), NOBLOCK)


def _failure(reason: str) -> bytes:
    """Return a failure as a reply: no message of the protocol, so that Batsim ends, with the text in its log."""
    return f"cosched-plugin: {json.dumps(reason[:MOST_REASON])}".encode()
