"""The clock of a live manager: emulated time that runs with real time, at a constant speed."""

from __future__ import annotations

import time
from collections.abc import Callable

from cosched_hwmodel.units import SECOND_US


class LiveClock:
    """Emulated time from ``start_us`` on, ``speed`` emulated seconds a second; it never runs backwards.

    ``seconds`` is where the time comes from. Should that jump back, emulated time stands where it was and goes on from there;
    `jumped_us` says by how much it would have gone back in all. A jump forward is believed: the machine may have been asleep.
    """

    def __init__(self, start_us: int, speed: float, seconds: Callable[[], float] = time.monotonic) -> None:
        self.speed = speed
        self.jumped_us = 0
        self._seconds = seconds
        self._zero_s = seconds()
        self._zero_us = start_us
        self._last_us = start_us
        self._fault_us = 0  # by how much a fault plan has put the clock forward

    def now_us(self) -> int:
        """Return the emulated time."""
        now_us = self._zero_us + self._fault_us + round((self._seconds() - self._zero_s) * self.speed * SECOND_US)
        if now_us < self._last_us:
            self.jumped_us += self._last_us - now_us
            self._zero_us += self._last_us - now_us
            now_us = self._last_us
        self._last_us = now_us
        return now_us

    def wait_s(self, at_us: int) -> float:
        """Return how many real seconds are left until ``at_us``; 0 when it has come."""
        return max(0.0, (at_us - self.now_us()) / self.speed / SECOND_US)

    def jump(self, by_us: int) -> None:
        """Have the time's source jump, as a fault plan wants it."""
        self._fault_us += by_us
