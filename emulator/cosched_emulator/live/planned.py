"""Faults of a plan that are none of jobs and nodes: the clock jumps, the database's disk is full, the scheduler is not heard."""

from __future__ import annotations

from collections.abc import Callable

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.live.clock import LiveClock
from cosched_emulator.manager.changes import FaultHappened
from cosched_emulator.scenario.faults import Faults
from cosched_hwmodel.units import SECOND_US


class PlannedFaults:
    """What a fault plan has in store for the process itself, in order of time."""

    def __init__(self, faults: Faults, clock: LiveClock, accounting: Accounting) -> None:
        """What lies before the clock's present time has struck already, in the life of a manager that was killed."""
        self._accounting = accounting
        due: list[tuple[int, int, Callable[[], object], FaultHappened]] = []
        for jump in faults.clock:
            fault = FaultHappened(jump.at_us, "clock jump", f"{jump.jump_us / SECOND_US:+g} s")
            due.append((jump.at_us, len(due), lambda by_us=jump.jump_us: clock.jump(by_us), fault))  # type: ignore[misc]
        for span in faults.disk:
            due.append((span.at_us, len(due), self._fill, FaultHappened(span.at_us, "disk full", "the database's")))
            due.append((span.until_us, len(due), self._make_room, FaultHappened(span.until_us, "disk has room", "")))
        start_us = clock.now_us()
        self._due = sorted([item for item in due if item[0] > start_us], key=lambda item: item[:2], reverse=True)
        if any(span.at_us <= start_us < span.until_us for span in faults.disk):
            self._fill()

    def next_us(self) -> int | None:
        """Return when the next one strikes."""
        return self._due[-1][0] if self._due else None

    def strike(self, now_us: int) -> list[FaultHappened]:
        """Bring about all that are due."""
        struck = []
        while self._due and self._due[-1][0] <= now_us:
            _, _, act, fault = self._due.pop()
            act()
            struck.append(fault)
        return struck

    def _fill(self) -> None:
        self._accounting.fill(True)

    def _make_room(self) -> None:
        self._accounting.fill(False)
