"""The calendar of time slices: when each class of jobs has the machine (Scojo-PECT; G-LOMARC-TS paper, sections 4.7 and 5.1).

Time is cut into intervals of equal length. Each has a slice for short jobs if some exist when it begins, and one each for medium
and long jobs, which share the rest. At the start of every slice all jobs are preempted, and no job makes progress for a while.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cosched_plugin.api import SetNote, View
from cosched_plugin.policies.turns.cycle import following

NOTE: Final = "slices"
SHORT: Final = 0
MEDIUM: Final = 1
LONG: Final = 2
CLASSES: Final = ("short", "medium", "long")
_IN_TURN: Final = {True: (SHORT, MEDIUM, LONG), False: (MEDIUM, LONG)}  # in an interval with a short slice, and without


class Lengths(NamedTuple):
    """The lengths of slices, in microseconds."""

    interval_us: int
    short_us: int  # of the short slice
    medium_share: float  # the medium slice's part of the rest
    switch_us: int  # time at the start of a slice in which no job makes progress

    def ends_us(self, *, short: bool) -> tuple[int, int, int]:
        """Return when the three slices end, counted from the start of the interval."""
        short_us = self.short_us if short else 0
        medium_us = short_us + round((self.interval_us - short_us) * self.medium_share)
        return short_us, medium_us, self.interval_us

    def progress_us(self, kind: int, *, short: bool) -> int:
        """Return the time of progress of a class in one interval."""
        ends_us = (0, *self.ends_us(short=short))
        return max(0, ends_us[kind + 1] - ends_us[kind] - self.switch_us)


class Slice(NamedTuple):
    """The present slice, and the classes' clocks at its beginning: each class's time of progress so far."""

    begin_us: int  # of the interval
    short: bool  # whether the interval has a short slice
    kind: int
    clocks_us: tuple[int, int, int]

    def start_us(self, lengths: Lengths) -> int:
        """Return when the slice began."""
        return self.begin_us + (0, *lengths.ends_us(short=self.short))[self.kind]

    def end_us(self, lengths: Lengths) -> int:
        """Return when the slice will end."""
        return self.begin_us + lengths.ends_us(short=self.short)[self.kind]

    def ready_us(self, lengths: Lengths) -> int:
        """Return the instant from which the class makes progress."""
        return min(self.start_us(lengths) + lengths.switch_us, self.end_us(lengths))

    def clock_us(self, kind: int, now_us: int, lengths: Lengths) -> int:
        """Return the time of a class's clock."""
        gone_us = max(0, now_us - self.ready_us(lengths)) if kind == self.kind else 0
        return self.clocks_us[kind] + gone_us

    def successor(self, lengths: Lengths, *, short: bool) -> Slice:
        """Return the next slice; ``short``: whether a new interval, if this is the last of its own, has a short slice."""
        clocks_us = tuple([self.clock_us(kind, self.end_us(lengths), lengths) for kind in (SHORT, MEDIUM, LONG)])
        assert len(clocks_us) == 3
        (kind, *_), begins = following(_IN_TURN[short], self.kind)
        if begins:
            return Slice(self.begin_us + lengths.interval_us, short, kind, clocks_us)
        return Slice(self.begin_us, self.short, kind, clocks_us)

    def wall_us(self, kind: int, at_us: int, now_us: int, lengths: Lengths) -> int:
        """Return when a class's clock will reach ``at_us``, if no further interval has a short slice."""
        missing_us = at_us - self.clock_us(kind, now_us, lengths)
        if missing_us <= 0:
            return now_us
        if kind >= self.kind:  # its slice of this interval is yet to end
            own = self._replace(kind=kind)
            since_us = max(now_us, own.ready_us(lengths))
            if missing_us <= own.end_us(lengths) - since_us:
                return since_us + missing_us
            missing_us -= own.end_us(lengths) - since_us
        each_us = lengths.progress_us(kind, short=kind == SHORT)
        full = (missing_us - 1) // each_us
        next_one = Slice(self.begin_us + (full + 1) * lengths.interval_us, kind == SHORT, kind, self.clocks_us)
        return next_one.ready_us(lengths) + missing_us - full * each_us

    def note(self) -> SetNote:
        """Return the decision that writes the slice as a note."""
        return SetNote(None, NOTE, (self.begin_us, self.short, self.kind, *self.clocks_us))


def present_slice(view: View) -> Slice | None:
    """Return the slice in the note; None if there is none yet."""
    match view.note(None, NOTE):
        case (int(begin_us), bool(short), int(kind), int(a), int(b), int(c)) if SHORT <= kind <= LONG:
            return Slice(begin_us, short, kind, (a, b, c))
        case _:
            return None


def slice_at(now_us: int, clocks_us: tuple[int, int, int], lengths: Lengths) -> Slice:
    """Return the slice of an instant before which there were no jobs."""
    begin_us = now_us - now_us % lengths.interval_us
    medium = Slice(begin_us, False, MEDIUM, clocks_us)
    return medium if now_us < medium.end_us(lengths) else medium._replace(kind=LONG)
