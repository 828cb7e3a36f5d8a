"""Measurements in a budget of time: windows in which kernels run alone, in pairs, or on all CPUs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from statistics import median
from typing import Final, NamedTuple

from cosched_hwmodel.cli.measuring.host import HostSeat
from cosched_hwmodel.cli.measuring.kernels import (
    Did,
    Kernel,
    KernelError,
    Toolchain,
    Worker,
    command_of,
    prepare,
    run_together,
    workers,
)
from cosched_hwmodel.cli.measuring.measurement import MB, AloneRate, MeasuredFigure, PairRatio, figure_of

REPEATS: Final = 5
LEAST_WINDOW_S: Final = 0.01
MOST_WINDOW_S: Final = 0.5
GOOD_WINDOW_S: Final = 0.05  # rather fewer repeats than shorter windows
WARM_PART: Final = 5  # one part in so many of a window warms up and does not count
CAPACITY_PART: Final = 10  # one part in so many of the budget is for what all CPUs do together
LATE: Final = 1.25  # times the budget after which no further repeat begins
DEADLINE_S: Final = 600.0  # of a kernel's process, in case this one is killed


class _Window(NamedTuple):
    """A time in which kernels run: the kernel on the seat's first CPU, and that on its second one; None: nothing."""

    row: Kernel | None
    column: Kernel | None


class MeasuringSession:
    """What has been measured so far. ``told`` gets the number of windows done, and of all windows as planned now."""

    def __init__(
        self, tools: Toolchain, seconds: float, seats: int, notes: list[str], told: Callable[[int, int], None] | None
    ) -> None:
        """``seconds`` is the budget from now on, for so many seats and the capacities."""
        assert seconds > 0, "kernels take a negative time for no end"
        self._tools = tools
        self._began = time.monotonic()
        self._seconds = seconds
        self._seats_left = seats
        self._notes = notes
        self._told = told
        self._windows_done = 0
        self._alone: dict[tuple[str, str, int], list[float]] = defaultdict(list)  # (seat, kernel, side) -> rates
        self._beside: dict[tuple[str, str, str, int], list[float]] = defaultdict(list)  # (seat, row, column, side)
        self._failed: set[str] = set()

    def measure_seat(self, seat: HostSeat, kernels: Sequence[Kernel]) -> None:
        """Measure kernels alone on both CPUs of a seat, and in pairs; alone only where the two are one CPU."""
        with workers() as started:
            sides = [self._start(kernels, cpu, started) for cpu in dict.fromkeys((seat.row, seat.column))]
            repeats, window_s = self._plan(len(list(self._windows(kernels, sides, 0))))
            planned = None
            for repeat in range(repeats):
                if repeat and time.monotonic() - self._began > LATE * self._seconds:
                    self._notes.append(f"{seat.name}: {repeat} repeats instead of {repeats}, as the time is over")
                    break
                for window in self._windows(kernels, sides, repeat):
                    self._measure(seat.name, window, sides, window_s)
                    self._windows_done += 1
                    if self._told is not None:
                        left_s = self._seat_end() - time.monotonic()
                        more = (self._seats_left - 1) * repeats * len(list(self._windows(kernels, sides, 0)))
                        planned = self._windows_done + round(max(0.0, left_s) / window_s) + more
                        self._told(self._windows_done, planned)
        self._seats_left -= 1

    def best_rate(self, kernel: Kernel, cpu: int) -> float | None:
        """Return the largest rate of a kernel alone on a CPU, of a few short windows; None where it fails.

        It is that of the window in which other programs took the least of its caches.
        """
        span_us = round(min(GOOD_WINDOW_S, self._seconds / 100) * 1e6)
        try:
            with workers() as started:
                started.append(Worker(command_of(self._tools, kernel, DEADLINE_S), cpu))
                prepare(started[0])
                return max(run_together(started, span_us, span_us)[0].rate for _ in range(REPEATS))
        except KernelError:
            return None  # the measurement itself tells why

    def measure_capacity(self, kernel: Kernel, cpus: Sequence[int]) -> MeasuredFigure | None:
        """Return the MB/s of a kernel that runs on all of some CPUs at once; None, and a note, where it fails."""
        span_us = round(self._seconds / CAPACITY_PART / 2 / REPEATS * 1e6)
        span_us = min(max(span_us, round(LEAST_WINDOW_S * 1e6)), round(MOST_WINDOW_S * 1e6))
        try:
            with workers() as started:
                for cpu in cpus:
                    started.append(Worker(command_of(self._tools, kernel, DEADLINE_S), cpu))
                for worker in started:
                    prepare(worker)
                sums = [
                    sum(did.rate for did in run_together(started, span_us // WARM_PART, span_us)) / MB
                    for _ in range(REPEATS)
                ]
        except KernelError as error:
            self._notes.append(f"{kernel.name} on all CPUs: {error}")
            return None
        return figure_of(sums)

    def alone(self) -> tuple[AloneRate, ...]:
        """Return the rates alone, both CPUs of a seat together."""
        rates: dict[tuple[str, str], list[float]] = defaultdict(list)
        for (seat, kernel, _), values in self._alone.items():
            rates[seat, kernel] += values
        return tuple(AloneRate(seat, kernel, figure_of(values)) for (seat, kernel), values in rates.items())

    def pairs(self) -> tuple[PairRatio, ...]:
        """Return the ratios of pairs: the median rate alone on the same CPU over the rate beside the other kernel."""
        ratios: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for (seat, row, column, side), rates in self._beside.items():
            alone = median(self._alone[seat, row, side])
            ratios[seat, row, column] += [alone / rate for rate in rates if rate]
        return tuple(PairRatio(*key, figure_of(values)) for key, values in ratios.items() if values)

    # ---------------------------------------------------------------- windows

    def _windows(self, kernels: Sequence[Kernel], sides: list[dict[str, Worker]], repeat: int) -> Iterator[_Window]:
        """Yield the windows of a repeat; the kernels of a pair change their CPUs from one repeat to the next."""
        working = [kernel for kernel in kernels if kernel.name not in self._failed]
        for kernel in working:
            yield _Window(kernel, None)
            if len(sides) > 1:
                yield _Window(None, kernel)
        if len(sides) > 1:
            for one, other in combinations_with_replacement(working, 2):
                yield _Window(other, one) if repeat % 2 else _Window(one, other)

    def _measure(self, seat: str, window: _Window, sides: list[dict[str, Worker]], window_s: float) -> None:
        running = [(side, kernel) for side, kernel in enumerate(window) if kernel is not None]
        if any(kernel.name in self._failed for _, kernel in running):
            return  # since this repeat began
        warm_us = round(window_s / WARM_PART * 1e6)
        try:
            did = run_together(
                [sides[side][kernel.name] for side, kernel in running], warm_us, round(window_s * 1e6) - warm_us
            )
        except KernelError as error:
            names = " beside ".join(kernel.name for _, kernel in running)
            self._failed |= {kernel.name for _, kernel in running}
            self._notes.append(f"{names}: {error}; not measured any further")
            return
        self._keep(seat, running, did)

    def _keep(self, seat: str, running: list[tuple[int, Kernel]], did: list[Did]) -> None:
        if len(running) == 1:
            ((side, kernel),) = running
            self._alone[seat, kernel.name, side].append(did[0].rate)
            return
        (_, one), (_, other) = running
        self._beside[seat, one.name, other.name, 0].append(did[0].rate)
        self._beside[seat, other.name, one.name, 1].append(did[1].rate)

    # ---------------------------------------------------------------- processes and time

    def _start(self, kernels: Sequence[Kernel], cpu: int, started: list[Worker]) -> dict[str, Worker]:
        """Return a prepared worker of each kernel on a CPU; a kernel that cannot be prepared is a note."""
        found = {}
        for kernel in kernels:
            if kernel.name in self._failed:
                continue
            try:
                worker = Worker(command_of(self._tools, kernel, DEADLINE_S), cpu)
                started.append(worker)
                prepare(worker)
            except KernelError as error:
                self._failed.add(kernel.name)
                self._notes.append(f"{kernel.name}: {error}; not measured")
            else:
                found[kernel.name] = worker
        return found

    def _seat_end(self) -> float:
        """Return the time at which the present seat should be done: seats share what is left of the budget."""
        now = time.monotonic()
        end = self._began + self._seconds * (1 - 1 / CAPACITY_PART)
        return now + max(0.0, end - now) / self._seats_left

    def _plan(self, windows: int) -> tuple[int, float]:
        """Return how often the windows of a seat are repeated, and the length of one in seconds."""
        seat_s = self._seat_end() - time.monotonic()
        repeats = next((n for n in range(REPEATS, 1, -1) if seat_s / (n * windows) >= GOOD_WINDOW_S), 1)
        return repeats, min(max(seat_s / (repeats * windows), LEAST_WINDOW_S), MOST_WINDOW_S)
