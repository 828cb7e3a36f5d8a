"""What an interval says of a claim: yes, no, or not shown.

A claim holds if it holds at every value of the interval, and fails if it fails at every one; otherwise it is not shown. So a verdict
of *yes* never stands on an interval that includes the opposite. At a level of 95 % a one-sided claim is wrongly confirmed with
probability 2.5 %, a band with at most 2.5 % (two one-sided tests, Schuirmann 1987, J. Pharmacokinet. Biopharm. 15:657).
"""

from __future__ import annotations

from enum import StrEnum

from cosched_emulator.statistics.intervals import Interval


class Verdict(StrEnum):
    """What the data say of a claim."""

    YES = "yes"
    NO = "no"
    NOT_SHOWN = "not shown"


def verdict_above(interval: Interval, bound: float = 0.0) -> Verdict:
    """Judge the claim that the true value is above ``bound``: with 0 and a difference x - y, that x > y."""
    return _verdict(holds=interval.low > bound, fails=interval.high <= bound)


def verdict_below(interval: Interval, bound: float = 0.0) -> Verdict:
    """Judge the claim that the true value is below ``bound``."""
    return _verdict(holds=interval.high < bound, fails=interval.low >= bound)


def verdict_within(interval: Interval, low: float, high: float) -> Verdict:
    """Judge the claim that the true value lies in a band, bounds included: that a change is at most so large, either way.

    Raises ValueError for a band that ends below its begin.
    """
    if not low <= high:
        raise ValueError(f"a band goes from its lower to its higher bound, not from {low} to {high}")
    return _verdict(
        holds=low <= interval.low and interval.high <= high, fails=interval.low > high or interval.high < low
    )


def _verdict(*, holds: bool, fails: bool) -> Verdict:
    """Return the verdict; no comparison holds with the bounds of an interval that does not exist."""
    if holds:
        return Verdict.YES
    return Verdict.NO if fails else Verdict.NOT_SHOWN
