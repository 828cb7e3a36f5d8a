"""The manager's end of the process that estimates starts: started anew when it dies or hangs, and never waited for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import zmq

from cosched_emulator.couplings.spawned_plugin import ENDPOINT, SpawnedPlugin
from cosched_emulator.errors import LinkError
from cosched_plugin.protocol.codec import pack, unpack
from cosched_plugin.protocol.limits import MAX_FRAME_BYTES

# Without a sign of life: it hangs, as in an endless loop of a policy; a busy machine delays it, too
SILENCE_S: Final = 60.0
PAUSES_S: Final = (0.5, 5.0, 60.0)  # before it is started again, the longer the more often it has failed in a row
MOST_WAITING: Final = 1_000  # messages that it has not read: enough for all jobs of a manager


class EstimatingProcess:
    """The process, from construction to `close`; ``allowed`` are policies and parts from outside that it may import.

    `receive` returns what it has told, and sees to it that there is one; ``on_start`` is called whenever a new one has started, which
    knows nothing yet. ``trouble`` says why there is none; empty: there is.
    """

    def __init__(self, allowed: Sequence[str], on_start: Callable[[], None], *, silence_s: float = SILENCE_S) -> None:
        self.trouble = "the process that makes estimates is starting"
        self.starts = 0
        self._allowed = allowed
        self._on_start = on_start
        self._silence_s = silence_s
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._process: SpawnedPlugin | None = None
        self._failures = 0  # in a row
        self._heard_s = 0.0
        self._start_at_s = 0.0

    @property
    def pid(self) -> int | None:
        """Return the number of the process; None if there is none."""
        return None if self._process is None else self._process.process.pid

    def send(self, **message: Any) -> bool:
        """Send a message; return whether it has been handed on."""
        if self._socket is None:
            return False
        try:
            self._socket.send(pack(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self) -> list[Mapping[str, Any]]:
        """Return what the process has told since the last call."""
        now_s = time.monotonic()
        if self._socket is None:
            if now_s >= self._start_at_s:
                self._start(now_s)
            return []
        found: list[Mapping[str, Any]] = []
        with suppress(zmq.Again):
            while True:
                message = unpack(self._socket.recv(zmq.NOBLOCK), MAX_FRAME_BYTES)
                self._heard_s = now_s
                if message["kind"] != "alive":
                    found.append(message)
                    self.trouble = ""
                    self._failures = 0
        self._watch(now_s)
        return found

    def close(self) -> None:
        """End the process."""
        self._drop()
        self._context.term()

    def _watch(self, now_s: float) -> None:
        """Give up a process that has ended or hangs."""
        assert self._process is not None
        code = self._process.process.poll()
        silent_s = now_s - self._heard_s
        if code is None and silent_s < self._silence_s:
            return
        last = self._process.stderr_tail().splitlines()[-1:]
        said = f": {last[0]}" if last and code is not None and code > 0 else ""
        what = f"has said nothing for {silent_s:.0f} s" if code is None else f"has ended with code {code}{said}"
        self.trouble = f"the process that makes estimates {what}; it starts again"
        self._drop()
        self._start_at_s = now_s + PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
        self._failures += 1

    def _start(self, now_s: float) -> None:
        argv = [sys.executable, "-m", "cosched_emulator.couplings.estimating_worker", ENDPOINT, *self._allowed]
        try:
            self._process = SpawnedPlugin(argv)
        except (LinkError, OSError) as error:
            self.trouble = f"the process that makes estimates cannot be started: {error}"
            self._start_at_s = now_s + PAUSES_S[-1]
            return
        self._socket = self._context.socket(zmq.PAIR)
        self._socket.linger = 0
        self._socket.sndhwm = MOST_WAITING
        self._socket.bind(self._process.endpoint)
        self._heard_s = now_s
        self.starts += 1
        self._on_start()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.process.kill()
            self._process.close()
            self._process = None
