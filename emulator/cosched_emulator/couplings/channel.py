"""The channel of a socket: sends and receives messages as frames. A fault plan replaces it by a faulty one."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

import zmq

from cosched_emulator.scenario.fault_sections import MessageFaultsSection
from cosched_hwmodel.draws import uniform
from cosched_plugin.common.sockets import receive_frames, send_frames

NOBLOCK: Final = int(zmq.NOBLOCK)


class Channel:
    """A channel that passes every message immediately."""

    def send(self, socket: zmq.Socket[bytes], frames: Sequence[bytes]) -> None:
        """Send one message, without waiting: zmq.Again when the peer's queue is full, another ZMQError when it cannot be sent."""
        send_frames(socket, frames, NOBLOCK)

    def receive(self, socket: zmq.Socket[bytes], flags: int = 0) -> list[bytes]:
        """Return one message; zmq.Again when none came in the socket's time."""
        return receive_frames(socket, flags)

    def next_due_s(self) -> float | None:
        """Return the seconds until `receive` must be called even if the socket is quiet; None: not needed."""
        return None


# A channel that drops, duplicates, delays and reorders messages by a fault plan, at the manager's end of the connection.
#
# The fate of a message is a random draw keyed by its direction and its number in that direction. The channel holds a delayed or
# reordered message, at most for the plan's ``delay_s`` or `REORDER_S`. `receive` returns held messages that are due even if the
# socket is quiet, and sends those due in the other direction. Code that polls the socket itself must check `next_due_s` first.

OUT: Final = 0  # from manager to scheduler
IN: Final = 1
# Longest hold of a reordered message if no next one comes, for example because the peer first needs this one
REORDER_S: Final = 0.05

Frames = list[bytes]


class _Direction:
    """The messages of one direction: the held ones, and their due times."""

    __slots__ = ("held", "number", "overtaken")

    def __init__(self) -> None:
        self.number = 0
        self.held: list[tuple[float, int, Frames]] = []  # a heap: when due, number, message
        # Held until the next message has passed, or until its due time
        self.overtaken: list[tuple[float, int, Frames]] = []

    def next_s(self) -> float | None:
        """Return the due time of the first held message."""
        return min([entry[0] for entry in (*self.held[:1], *self.overtaken)], default=None)

    def due(self, now_s: float) -> list[Frames]:
        """Remove and return the held messages that are due."""
        found = []
        while self.held and self.held[0][0] <= now_s:
            found.append(heappop(self.held))
        found += [entry for entry in self.overtaken if entry[0] <= now_s]
        self.overtaken = [entry for entry in self.overtaken if entry[0] > now_s]
        return [frames for _, _, frames in sorted(found)]


class FaultyChannel(Channel):
    """The channel of one socket.

    ``counts`` holds the numbers of messages "dropped", "duplicated", "delayed" and "reordered", and of late ones "lost" because their
    receiver was gone.
    """

    def __init__(self, faults: MessageFaultsSection, seed: int) -> None:
        self._faults, self._seed = faults, seed
        self._directions = (_Direction(), _Direction())
        self._arrived: deque[Frames] = deque()
        self.counts: Counter[str] = Counter()

    def send(self, socket: zmq.Socket[bytes], frames: Sequence[bytes]) -> None:
        """Send one message once, twice, later or not at all. A late message that can no longer be sent is lost."""
        self._send_due(socket)
        message = list(frames)
        passing = self._passing(OUT, message)
        for position, each in enumerate(passing):
            if each is message and position == 0:
                super().send(socket, each)  # an error here is for the caller
            else:
                self._send_late(socket, each)

    def receive(self, socket: zmq.Socket[bytes], flags: int = 0) -> list[bytes]:
        """Return one message; zmq.Again when none came in the socket's time."""
        started_s = time.monotonic()
        patience_ms = 0 if flags & zmq.NOBLOCK else int(socket.rcvtimeo)  # below 0: no limit
        while True:
            self._send_due(socket)
            self._arrived += self._directions[IN].due(time.monotonic())
            if self._arrived:
                return self._arrived.popleft()
            try:
                self._arrived += self._passing(IN, super().receive(socket, zmq.NOBLOCK))
                continue
            except zmq.Again:
                pass
            waits_ms = [] if patience_ms < 0 else [patience_ms - (time.monotonic() - started_s) * 1000]
            if waits_ms and waits_ms[0] <= 0:
                raise zmq.Again
            due_s = self.next_due_s()
            waits_ms += [] if due_s is None else [due_s * 1000]
            # At least one millisecond, to avoid a busy loop just before the due time.
            socket.poll(max(1, round(min(waits_ms))) if waits_ms else None)

    def next_due_s(self) -> float | None:
        """Return the seconds until `receive` must be called even if the socket is quiet; None: no message is held."""
        if self._arrived:
            return 0.0
        dues_s = [due_s for direction in self._directions if (due_s := direction.next_s()) is not None]
        return max(0.0, min(dues_s) - time.monotonic()) if dues_s else None

    def _passing(self, which: int, frames: Frames) -> list[Frames]:
        """Decide the fate of the next message of a direction; return the messages that pass now, in order."""
        faults = self._faults
        direction = self._directions[which]
        direction.number += 1
        number = direction.number
        waiting, direction.overtaken = direction.overtaken, []
        passing = [frames]
        if self._strikes("drop", faults.drop, which, number):
            passing = []
        else:
            if self._strikes("duplicate", faults.duplicate, which, number):
                passing.append(frames)
            now_s = time.monotonic()
            if self._strikes("delay", faults.delay, which, number):
                after_s = faults.delay_s * uniform(self._seed, "message delay length", which, number)
                heappush(direction.held, (now_s + after_s, number, passing.pop()))
            elif self._strikes("reorder", faults.reorder, which, number):
                direction.overtaken.append((now_s + REORDER_S, number, passing.pop()))
        return passing + [held for _, _, held in waiting]

    def _strikes(self, what: str, probability: float, which: int, number: int) -> bool:
        strikes = uniform(self._seed, f"message {what}", which, number) < probability
        if strikes:
            self.counts[_PAST[what]] += 1
        return strikes

    def _send_due(self, socket: zmq.Socket[bytes]) -> None:
        for frames in self._directions[OUT].due(time.monotonic()):
            self._send_late(socket, frames)

    def _send_late(self, socket: zmq.Socket[bytes], frames: Frames) -> None:
        try:
            super().send(socket, frames)
        except zmq.ZMQError:
            self.counts["lost"] += 1  # the receiver is gone, or does not read


_PAST: Final = {"drop": "dropped", "duplicate": "duplicated", "delay": "delayed", "reorder": "reordered"}
