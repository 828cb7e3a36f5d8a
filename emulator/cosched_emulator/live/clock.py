"""The clock of a live manager: emulated time that follows real time at a constant speed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import partial

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.manager.record import FaultHappened
from cosched_emulator.scenario.faults import Faults
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


# Planned faults of a live manager's process: jumps of its clock, a full disk under its database.
#
# They are not steps of the live manager: a restarted manager does not repeat them when it replays its journal.


class ProcessFaults:
    """The faults of the process in order of time, then in the order of the plan."""

    def __init__(self, faults: Faults, clock: LiveClock, accounting: Accounting) -> None:
        """Skip the faults before the clock's present time: they struck before the manager was killed."""
        due: list[tuple[FaultHappened, Callable[[], None]]] = []
        for jump in faults.clock:
            fault = FaultHappened(jump.at_us, "clock jump", f"{jump.jump_us / SECOND_US:+g} s")
            due.append((fault, partial(clock.jump, jump.jump_us)))
        for span in faults.disk:
            due.append((FaultHappened(span.at_us, "disk full", "the database's"), partial(accounting.fill, True)))
            due.append((FaultHappened(span.until_us, "disk has room", ""), partial(accounting.fill, False)))
        start_us = clock.now_us()
        later = [item for item in due if item[0].at_us > start_us]
        self._due = deque(sorted(later, key=lambda item: item[0].at_us))
        if any(span.at_us <= start_us < span.until_us for span in faults.disk):
            accounting.fill(True)

    def next_us(self) -> int | None:
        """Return the time of the next fault."""
        return self._due[0][0].at_us if self._due else None

    def strike(self, now_us: int) -> list[FaultHappened]:
        """Cause all faults that are due, and return them."""
        struck = []
        while self._due and self._due[0][0].at_us <= now_us:
            fault, act = self._due.popleft()
            act()
            struck.append(fault)
        return struck
