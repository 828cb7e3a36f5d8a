"""The port of a process: what has been sent to it, and what it waits for."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Final

# What a process waits for, unless that is a message: then it is the rank of the sender.
NOTHING: Final = -1
AN_ANSWER: Final = -2
AN_ACKNOWLEDGEMENT: Final = -3


class Port:
    """The message layer of one process. All times are absolute, in microseconds."""

    __slots__ = ("acknowledged_us", "arrived_us", "expects", "granted", "inbox", "requests", "spin_us", "spun_from_us")

    def __init__(self) -> None:
        self.inbox: defaultdict[int, deque[int]] = defaultdict(deque)  # by rank of the sender: arrivals, some to come
        self.requests: list[int] = []  # ranks of processes that wait for an answer, as they came
        self.expects = NOTHING
        self.granted = False  # the answer to its own request is there
        self.acknowledged_us = 0  # when the last message it sent is acknowledged
        self.spin_us = 0  # for how long it polls, from when it gets the CPU
        self.spun_from_us = 0  # CPU time that it had used when it began to poll
        self.arrived_us = -1  # when what it waits for came, if it has not had the CPU since

    def poll_us(self, begins_us: int) -> int:
        """Return for how long it polls from then on, as far as that is known; 0: there is something to do."""
        if self.requests or self.granted:
            return 0
        if self.expects >= 0:
            inbox = self.inbox[self.expects]
            if not inbox:
                return self.spin_us
            known_us = inbox[0] - begins_us
        elif self.expects == AN_ACKNOWLEDGEMENT:
            known_us = self.acknowledged_us - begins_us
        else:
            return self.spin_us
        return min(max(0, known_us), self.spin_us)

    def shift(self, by_us: int) -> None:
        """Time has stood still for so long: what came or will come does so later."""
        for arrivals in self.inbox.values():
            for number, arrival_us in enumerate(arrivals):
                arrivals[number] = arrival_us + by_us
        self.acknowledged_us += by_us
        if self.arrived_us >= 0:
            self.arrived_us += by_us

    def unread(self, now_us: int) -> int:
        """Return how many messages and requests have arrived that the process has not received or answered."""
        found = len(self.requests)
        for inbox in self.inbox.values():
            if inbox:
                for arrival_us in inbox:
                    if arrival_us > now_us:
                        break
                    found += 1
        return found
