"""Predicted shares: by hand, and as the reference has them (paired gang paper, section 2.3)."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from tests.reference.gang import PPM, predicted

from cosched_plugin.api import predict
from cosched_plugin.policies.gang.matrix import counted, is_sharp

POINT = 10_000  # ppm


@pytest.mark.parametrize(
    ("shares", "renormalised", "padded"),
    [
        ((), 100, 100),  # a new job needs the whole CPU
        ((50,), 50, 80),  # one quantum: its share, or .4 of it and .6 of the whole
        ((60, 30), (4 * 60 + 3 * 30) / 7, 24 + 9 + 30),
        ((60, 30, 0), (4 * 60 + 3 * 30) / 9, 24 + 9 + 10),
        ((40, 30, 20, 10), 30, 30),  # .4, .3, .2, .1: the newest first
        ((10, 20, 30, 40), 20, 20),
        ((140, 100, 100, 100), 100, 100),  # ticks may log more than there is
    ],
)
def test_shares_by_hand(shares: tuple[int, ...], renormalised: float, padded: float) -> None:
    ppm = [share * POINT for share in shares]
    assert predict(ppm) == int(renormalised * POINT)
    assert predict(ppm, pad=True) == int(padded * POINT)


def test_shares_are_predicted_as_by_the_reference() -> None:
    random = Random(1)
    for _ in range(500):
        history = [random.randint(0, 1_100_000) for _ in range(random.randint(0, 6))]
        for pad in (False, True):
            expected = predicted([Fraction(share, PPM) for share in history], pad=pad)
            assert predict(history[::-1][:4], pad=pad) == expected * PPM


def test_a_history_that_was_given_up_does_not_count() -> None:
    assert counted((7, 6, 5, 4), 9, 0) == (7, 6, 5, 4)
    assert counted((7, 6, 5, 4), 9, 7) == (7, 6)
    assert counted((7, 6, 5, 4), 9, 9) == ()
    assert counted((7, 6, 5, 4), 30, 7) == (7, 6, 5, 4)


@pytest.mark.parametrize(
    ("shares", "rise", "any_change"),
    [
        ((80, 49), True, True),  # up by 31 points
        ((49, 80), False, True),  # down
        ((50, 30), False, False),  # 20 points are not more than 20
        ((30, 50), False, False),
        ((65, 50, 35), False, False),  # two steps of 15
        ((90,), False, False),  # after a quantum alone nothing is compared
        ((), False, False),
    ],
)
def test_sharp_changes(shares: tuple[int, ...], rise: bool, any_change: bool) -> None:
    ppm = [share * POINT for share in shares]
    assert is_sharp(ppm, "rise") == rise
    assert is_sharp(ppm, "any") == any_change
    assert not is_sharp(ppm, "off")
