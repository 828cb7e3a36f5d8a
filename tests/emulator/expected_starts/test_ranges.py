"""Ranges that hold as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from cosched_emulator.expected_starts.ranges import CLASSES_US, FEWEST, MINUTE_US, Guess, Ranges


def test_before_fifty_jobs_there_is_no_range() -> None:
    ranges = Ranges()
    guess = Guess(MINUTE_US, 0, 2 * MINUTE_US)
    for _ in range(FEWEST - 1):
        ranges.learn(guess, MINUTE_US)
        assert ranges.of(guess) is None
    ranges.learn(guess, MINUTE_US)
    assert ranges.of(guess) is not None


@pytest.mark.parametrize("wrong", [0.2, 1.0, 4.0])
def test_a_range_holds_four_of_five_waits_whatever_the_guesses_are(wrong: float) -> None:
    """In each class of predicted waits, also where short waits err in another way than long ones."""
    random = np.random.default_rng(3)
    ranges = Ranges()
    held: dict[int, list[bool]] = {}
    for _ in range(6000):
        kind = int(random.integers(0, len(CLASSES_US)))
        guessed_us = CLASSES_US[kind] - 1
        spread = (0.2, 0.5, 1.0, 1.5)[kind]
        wait_us = int(wrong * guessed_us * np.exp(spread * random.standard_normal()))
        guess = Guess(guessed_us, guessed_us // 2, 2 * guessed_us)
        told = ranges.of(guess)
        if told is not None:
            held.setdefault(kind, []).append(told[0] <= wait_us <= told[1])
        ranges.learn(guess, wait_us)
    for each in held.values():
        assert 0.76 < np.mean(each[200:]) < 0.84
