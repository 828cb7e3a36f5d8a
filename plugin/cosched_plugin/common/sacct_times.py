"""The times of a row of Slurm's accounting: instants of texts, also of those that name no time zone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from itertools import product
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.sacct_rows import instant_of, is_never, whole

# Instants of times that name no time zone: which of the two they are in the hour that the clocks repeat.
#
# A time of that hour alone could be either. Times of one job tell each other: a job that ran for 1,500 s and ended at 04:00, which is
# no such time, started in the second of the two. Of what nothing decides, the run is taken as the first one, and what came before it as
# the last one that is possible: a wait is rather short than an hour long.

AMBIGUOUS: Final = "times of the hour that the clocks repeat, without a run time to decide: first run, last submission"
LEFT_OUT: Final = (
    "times that did not exist, as the clocks were put forward: taken as if they had not been (is the time zone right?)"
)
_EXACT_S: Final = 2  # Slurm's times are whole seconds


class Moments(NamedTuple):
    """The times of a row. Seconds since 1970; None is what has not happened."""

    submit_s: int
    eligible_s: int | None
    start_s: int | None
    end_s: int | None


class Time(NamedTuple):
    """A time as it is written."""

    instants: tuple[int, ...]  # what it can be: none, one, or two
    exists: bool = True


class Clock:
    """Reads times of a time zone."""

    def __init__(self, time_zone: str | None) -> None:
        """``time_zone`` is that of times that name none; without one, they are taken as UTC. Raises UsageError."""
        self._zone = _zone(time_zone)
        self.has_zone = False  # whether a time said itself where it is

    def read(self, text: str) -> Time:
        """Return what a time can be; raises ValueError."""
        if is_never(text):
            return Time(())
        if text.isdecimal():  # SLURM_TIME_FORMAT=%s
            self.has_zone = True
            instant = instant_of(whole(text))
            return Time(() if instant is None else (instant,))
        when = datetime.fromisoformat(text)
        if when.tzinfo is not None:
            self.has_zone = True
            return Time((_seconds(when),))
        first, second = (_seconds(when.replace(tzinfo=self._zone, fold=fold)) for fold in (0, 1))
        if first < second:
            return Time((first, second))
        return Time((first,), exists=first == second)


def moments(times: Sequence[Time], held_s: float | None) -> tuple[Moments, list[str]]:
    """Return the times of a row that `Clock.read` gave, and what is said of each that is a guess.

    ``times`` are those of `Moments`, the first is not empty. ``held_s``: how long the job was on nodes, with the time suspended; None:
    unknown.
    """
    said = [LEFT_OUT for time in times if not time.exists]
    if max([len(time.instants) for time in times]) < 2:
        return Moments(*[time.instants[0] if time.instants else None for time in times]), said  # type: ignore[arg-type]
    submitted, *others = times
    after = list(product(*(time.instants or (None,) for time in others)))
    possible = [Moments(submit_s, *rest) for submit_s in submitted.instants for rest in after]
    possible = [row for row in possible if _took(row, held_s)] or possible
    possible = [row for row in possible if _in_order(row)] or possible
    best = min(possible, key=_nearest)
    return best, said + [AMBIGUOUS for column in zip(*possible, strict=True) if len(set(column)) > 1]


def _nearest(row: Moments) -> tuple[int, ...]:
    """Return a key by which the first run comes first, and what is said to be before it next to it."""
    start_s = row.start_s or 0
    return start_s, row.end_s or 0, abs(start_s - (row.eligible_s or start_s)), abs(start_s - row.submit_s)


def _took(row: Moments, held_s: float | None) -> bool:
    if held_s is None or row.start_s is None or row.end_s is None:
        return False
    return abs(row.end_s - row.start_s - held_s) <= _EXACT_S


def _in_order(row: Moments) -> bool:
    known = [time for time in row if time is not None]
    return known == sorted(known)


def _seconds(when: datetime) -> int:
    try:
        found = instant_of(int(when.timestamp()))
    except OverflowError as error:  # in the first or the last year
        raise ValueError(str(when)) from error
    if found is None:
        raise ValueError(str(when))
    return found


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        expected = "a time zone that this machine knows, such as Europe/Athens"
        raise UsageError(f"--time-zone: expected {expected}, got {name!r}") from error
