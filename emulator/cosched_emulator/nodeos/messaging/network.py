"""The network between nodes: ways out that queue, and messages that wait for their receiver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from cosched_emulator.nodeos.devices import FifoServer


class Network:
    """Messages from node to node: a queue for each node's way out, a fixed latency, an inbox for each process.

    A message leaves when all earlier ones of its node have left. Speed in MB/s is bytes a microsecond.
    """

    def __init__(self, nodes: int, latency_us: int, mb_s: int) -> None:
        self._latency_us = latency_us
        self._mb_s = mb_s
        self._ways_out = [FifoServer() for _ in range(nodes)]
        self._inboxes: Counter[tuple[int, int]] = Counter()  # by index of the receiver, rank of the sender
        self._expected: dict[int, int] = {}  # index of a process that waits -> rank of the sender

    def send(self, node: int, size_bytes: int, now_us: int) -> int:
        """Let a message leave a node; return when it arrives."""
        return self._ways_out[node].serve(now_us, self.transfer_us(size_bytes)) + self._latency_us

    def shift(self, node: int, by_us: int) -> None:
        """What leaves a node leaves later."""
        self._ways_out[node].free_us += by_us

    def transfer_us(self, size_bytes: int) -> int:
        """Return how long a way out is busy with a message."""
        return -(-size_bytes // self._mb_s)

    def arrive(self, receiver: int, sender_rank: int) -> bool:
        """Put a message into an inbox; return whether the receiver was waiting for it, and has it now."""
        if self._expected.get(receiver) == sender_rank:
            del self._expected[receiver]
            return True
        self._inboxes[receiver, sender_rank] += 1
        return False

    def receive(self, receiver: int, sender_rank: int) -> bool:
        """Take a message out of an inbox; return whether there was one. If not, the receiver waits for it."""
        if self._inboxes[receiver, sender_rank]:
            self._inboxes[receiver, sender_rank] -= 1
            return True
        self._expected[receiver] = sender_rank
        return False

    def forget(self, indices: Collection[int]) -> None:
        """Drop the messages for these processes."""
        for key in [key for key in self._inboxes if key[0] in indices]:
            del self._inboxes[key]
        for index in indices:
            self._expected.pop(index, None)
