"""The network between nodes: ways out that queue."""

from __future__ import annotations

from cosched_emulator.nodeos.kernel.devices import FifoServer


class Network:
    """A queue for each node's way out, and a fixed latency. A message leaves when all earlier ones of its node have left.

    Speed in MB/s is bytes a microsecond.
    """

    def __init__(self, nodes: int, latency_us: int, mb_s: int) -> None:
        self.latency_us = latency_us
        self._mb_s = mb_s
        self.ways_out = [FifoServer() for _ in range(nodes)]

    def send(self, node: int, size_bytes: int, now_us: int) -> int:
        """Let a message leave a node; return when it arrives."""
        way_out = self.ways_out[node]
        us = -(-size_bytes // self._mb_s)
        free_us = way_out.free_us
        way_out.free_us = free_us = (now_us if now_us > free_us else free_us) + us
        way_out.busy_us += us
        return free_us + self.latency_us

    def shift(self, node: int, by_us: int) -> None:
        """What leaves a node leaves later."""
        self.ways_out[node].free_us += by_us

    def pass_control(self, now_us: int) -> int:
        """Let a request to send, or its answer, leave a node; return when it arrives.

        Network interfaces send large messages in packets of a few KB, and a control message goes between two of them: it does
        not wait for the data of its node.
        """
        return now_us + self.latency_us

    def transfer_us(self, size_bytes: int) -> int:
        """Return how long a way out is busy with a message."""
        return -(-size_bytes // self._mb_s)
