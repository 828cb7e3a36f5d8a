"""Large answers that are not read yet: a user who does not read them gets no more."""

from __future__ import annotations

import zmq


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
