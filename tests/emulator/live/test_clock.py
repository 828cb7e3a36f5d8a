"""The clock of a live manager: it runs at its speed, and never backwards."""

from __future__ import annotations

import pytest

from cosched_emulator.live.clock import LiveClock


class Source:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("speed", [0.5, 1.0, 100.0])
def test_the_clock_runs_at_its_speed_from_its_start(speed: float) -> None:
    source = Source()
    clock = LiveClock(7_000_000, speed, source)
    assert clock.now_us() == 7_000_000
    source.now_s += 3.0
    assert clock.now_us() == 7_000_000 + round(3_000_000 * speed)
    assert clock.wait_s(clock.now_us() + 1_000_000) == pytest.approx(1 / speed)
    assert clock.wait_s(0) == 0.0


def test_the_clock_stops_when_its_source_jumps_back() -> None:
    source = Source()
    clock = LiveClock(0, 10.0, source)
    source.now_s += 5.0
    assert clock.now_us() == 50_000_000
    source.now_s -= 3.0
    assert clock.now_us() == 50_000_000
    assert clock.jumped_us == 30_000_000
    source.now_s += 1.0
    assert clock.now_us() == 60_000_000


def test_jumps_forward_are_made_and_backward_are_not() -> None:
    source = Source()
    clock = LiveClock(0, 1.0, source)
    clock.jump(120_000_000)
    assert clock.now_us() == 120_000_000
    clock.jump(-60_000_000)
    assert clock.now_us() == 120_000_000
    source.now_s += 2.0
    assert clock.now_us() == 122_000_000
