"""Those who get the records of jobs as these end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from cosched_emulator.manager.record import JobRecord

RECORDS_AT_ONCE: Final = 256


class Takers:
    """Those who get the records of jobs, in the order of the ends, some at a time; their time is no part of the simulation's."""

    def __init__(self, *takers: Callable[[JobRecord], None]) -> None:
        self._takers = takers
        self._waiting: list[JobRecord] = []
        self.spent_s = 0.0

    def take(self, record: JobRecord) -> None:
        """Take the record of the next job."""
        self._waiting.append(record)
        if len(self._waiting) >= RECORDS_AT_ONCE:
            self.hand_over()

    def hand_over(self) -> None:
        """Give them all that wait."""
        started = time.perf_counter()
        for record in self._waiting:
            for taker in self._takers:
                taker(record)
        self._waiting.clear()
        self.spent_s += time.perf_counter() - started
