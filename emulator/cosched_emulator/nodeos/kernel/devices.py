"""Devices that serve one request after the other."""

from __future__ import annotations


class FifoServer:
    """A disk, a server for files, a node's way out to the network, or its swap device."""

    __slots__ = ("busy_us", "free_us")

    def __init__(self) -> None:
        self.free_us = 0  # from then on it has nothing to do
        self.busy_us = 0  # in all

    def serve(self, now_us: int, service_us: int) -> int:
        """Take a request of ``service_us`` and return when it is done."""
        self.free_us = max(now_us, self.free_us) + service_us
        self.busy_us += service_us
        return self.free_us
