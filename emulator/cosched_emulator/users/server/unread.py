"""What large answers are still on their way: a user who does not read them gets no more of them."""

from __future__ import annotations

import zmq


class Unread:
    """Bytes of the answers of each user that ZeroMQ holds because nobody has taken them."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[zmq.MessageTracker, int]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def bytes_of(self, name: str) -> int:
        """Return how much waits for ``name``."""
        self._forget_read()
        return sum([size for _, size in self._waiting.get(name, [])])

    def add(self, name: str, tracker: zmq.MessageTracker, size: int) -> None:
        """Note an answer of ``size`` bytes that was sent; its tracker is done when it has left, or its connection has."""
        self._forget_read()
        self._waiting.setdefault(name, []).append((tracker, size))

    def _forget_read(self) -> None:
        left = {name: [each for each in waiting if not each[0].done] for name, waiting in self._waiting.items()}
        self._waiting = {name: waiting for name, waiting in left.items() if waiting}
