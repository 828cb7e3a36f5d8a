"""CC: co-ordinated coscheduling."""

from __future__ import annotations

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.coscheduling.advice import AdvisesOne
from cosched_emulator.nodeos.coscheduling.protocol import ACKNOWLEDGEMENT, Node
from cosched_emulator.nodeos.process import Process


class CoordinatedCoscheduling(AdvisesOne):
    """Senders and receivers poll for a fixed time and then block (section 2.2).

    A sender polls ``send_spin_us`` for the acknowledgement of the network interface, a receiver ``spin_us`` for its
    message. Every ``interval_us`` the process with most unread messages is advised; of equal ones the first started.
    """

    acknowledged = True

    def __init__(self, spin_us: int = 1_000, send_spin_us: int = 20, interval_us: int = 10_000) -> None:
        if interval_us < 1:
            raise ConfigurationError("interval_us", "a whole number of at least 1", str(interval_us))
        self.interval_us = interval_us
        self._spin_us = spin_us
        self._send_spin_us = send_spin_us

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Poll for the time that belongs to what is awaited."""
        return self._send_spin_us if waiting == ACKNOWLEDGEMENT else self._spin_us

    def tick(self, node: Node) -> None:
        """Advise the process with most unread messages."""
        self._advised, most = None, 0
        for process in node.ports:
            unread = node.unread(process)
            if unread > most:
                self._advised, most = process, unread
