"""The calendar of time slices, stepped through slice by slice, in exact fractions.

Every interval has a slice of each class: short first, and only in intervals that have one, then medium, then long. No job makes
progress while the machine switches, at the start of each slice. Times are in seconds, or in any one unit if the lengths
of the calendar are given in it; interval 0 begins at instant 0. G-LOMARC-TS paper, sections 4.7 and 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import count
from typing import Literal, NamedTuple, TypeAlias

Class: TypeAlias = Literal["short", "medium", "long"]
Time: TypeAlias = int | Fraction
Pattern: TypeAlias = Callable[[int], bool]  # whether the interval of this number has a slice for short jobs

_PATIENCE = 10_000  # after so many intervals without time for a class, it gets none


class Calendar(NamedTuple):
    """Lengths of an interval, of the short slice where there is one, and of a switch; medium's part of the rest."""

    interval: Time = 3600
    short: Time = 600
    medium_percent: int = 30
    switch: Time = 60


PAPERS = Calendar()


class Slice(NamedTuple):
    """The time [start, end) of one class; its jobs make progress from ``usable`` on."""

    start: Fraction
    usable: Fraction
    end: Fraction
    of: Class


def slices_of(number: int, has_short: bool, calendar: Calendar = PAPERS) -> list[Slice]:
    """Return the slices of the interval of this number, in their order."""
    start = number * Fraction(calendar.interval)
    end = start + calendar.interval
    rest = start + calendar.short if has_short else start
    middle = rest + (end - rest) * calendar.medium_percent / 100
    edges: list[tuple[Fraction, Fraction, Class]] = [(rest, middle, "medium"), (middle, end, "long")]
    if has_short:
        edges.insert(0, (start, rest, "short"))
    return [Slice(since, since + calendar.switch, until, of) for since, until, of in edges]


def _usable_spans(
    of: Class, wall: Fraction, pattern: Pattern, calendar: Calendar
) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the spans [since, until) after ``wall`` in which jobs of this class make progress, for ever."""
    idle = 0
    for number in count(int(wall // calendar.interval)):
        idle += 1
        assert idle <= _PATIENCE, f"no time for {of} jobs in {_PATIENCE} intervals"
        for one in slices_of(number, pattern(number), calendar):
            since = max(one.usable, wall)
            if one.of == of and since < one.end:
                idle = 0
                yield since, one.end


def wall_of(of: Class, needed: Time, wall: Time, pattern: Pattern, calendar: Calendar = PAPERS) -> Fraction:
    """Return the instant at which jobs of a class will have had ``needed`` time of progress, counted from ``wall`` on.

    It is the first such instant: the end of a slice if the need ends with the slice, and ``wall`` itself without a need.
    """
    left = Fraction(needed)
    if left == 0:
        return Fraction(wall)
    for since, until in _usable_spans(of, Fraction(wall), pattern, calendar):
        if left <= until - since:
            return since + left
        left -= until - since
    raise AssertionError("the spans never end")


def progress_between(of: Class, since: Time, until: Time, pattern: Pattern, calendar: Calendar = PAPERS) -> Fraction:
    """Return the time of progress that jobs of a class have in [since, until)."""
    total = Fraction(0)
    for number in range(int(since // calendar.interval), int(until // calendar.interval) + 1):
        for one in slices_of(number, pattern(number), calendar):
            if one.of == of:
                total += max(Fraction(0), min(one.end, Fraction(until)) - max(one.usable, Fraction(since)))
    return total
