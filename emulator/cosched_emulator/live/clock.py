"""The clock of a live manager: emulated time that follows real time at a constant speed."""

from __future__ import annotations

import time
from collections.abc import Callable

from cosched_hwmodel.units import SECOND_US


class LiveClock:
    """Emulated time from ``start_us`` on, ``speed`` emulated seconds a second; it never runs backwards.

    ``seconds`` is the source of time. If it jumps back, emulated time stays where it is and continues from there; `jumped_us` is the
    sum of all backward jumps. A jump forward is accepted: the machine may have been asleep.
    """

    def __init__(self, start_us: int, speed: float, seconds: Callable[[], float] = time.monotonic) -> None:
        self.speed = speed
        self.jumped_us = 0
        self._seconds = seconds
        self._zero_s = seconds()
        self._zero_us = start_us
        self._last_us = start_us
        self._fault_us = 0  # total jump forward by a fault plan

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
        """Return the real seconds until ``at_us``; 0 if it has passed."""
        return max(0.0, (at_us - self.now_us()) / self.speed / SECOND_US)

    def jump(self, by_us: int) -> None:
        """Make the source of time jump, for a fault plan."""
        self._fault_us += by_us
