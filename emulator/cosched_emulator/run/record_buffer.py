"""A buffer that passes the records of jobs to their receivers in groups."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from cosched_emulator.manager.record import JobRecord

RECORDS_AT_ONCE: Final = 256


class RecordBuffer:
    """Passes the records of jobs to receivers, in order of their ends; ``.spent_s`` is the time spent in the receivers."""

    def __init__(self, *receivers: Callable[[JobRecord], None]) -> None:
        self._receivers = receivers
        self._records: list[JobRecord] = []
        self.spent_s = 0.0

    def add(self, record: JobRecord) -> None:
        """Add the record of the next job."""
        self._records.append(record)
        if len(self._records) >= RECORDS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Pass all buffered records to each receiver."""
        started = time.perf_counter()
        for record in self._records:
            for receive in self._receivers:
                receive(record)
        self._records.clear()
        self.spent_s += time.perf_counter() - started
