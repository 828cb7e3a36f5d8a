"""What the comments of a log say: the size of the machine, and when its time 0 was.

Keys are known in any case. A value is the whole number that it begins with; words may follow, as in ``338 (batch partition; 512
total)``, and a second number only within brackets, as nobody knows what it counts. What cannot be read is told with its line, and not
replaced by a guess.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from cosched_emulator.workload.job import WARNING, Epoch
from cosched_emulator.workload.swf.swf_table import LARGEST, HeaderValue, printable

_NUMBER = re.compile(
    r"""([+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,12}))(?:\.0*)?  # 1,152 or 1152
        [,.:]?(?:\s+[^\W\d][^\d(\[;]*)?(?:\s*[(\[;].*)?""",  # words, then a remark
    re.VERBOSE | re.DOTALL,
)
_ZONE = re.compile(r"[A-Za-z0-9_+/-]{1,64}")
_DAY_S = 86_400


class HeaderReader:
    """The values of a header; ``notes`` tells what could not be read, and what was taken for another value."""

    def __init__(self, values: Sequence[HeaderValue]) -> None:
        self._values = values
        self.notes: list[str] = []

    def as_dict(self) -> dict[str, str]:
        """Return the values by key; a repeated key has one line each."""
        found: dict[str, str] = {}
        for key, value, _ in self._values:
            found[key] = f"{found[key]}\n{value}" if key in found else value
        return found

    def machine_size(self, largest_job: int) -> int | None:
        """Return the processors of the machine; None if they are unknown.

        Nodes may have several processors, so MaxNodes is taken only where no MaxProcs stands, and no job is larger.
        """
        processors, stands = self._size("MaxProcs")
        if stands:
            return processors
        nodes, _ = self._size("MaxNodes")
        if nodes is None:
            return None
        if largest_job > nodes:
            text = f"no MaxProcs, and jobs of up to {largest_job} processors for MaxNodes, {nodes}"
            self.notes.append(f"{WARNING}{text}: the machine's size is not known")
            return None
        self.notes.append(f"no MaxProcs: MaxNodes, {nodes}, taken for the machine's processors")
        return nodes

    def epoch(self) -> Epoch:
        """Return when time 0 was, as far as the header says."""
        starts_s, _ = self._numbers("UnixStartTime", 1, LARGEST)
        offsets_s, _ = self._numbers("TimeZone", -_DAY_S, _DAY_S)
        zones = [value.value for value in self._of("TimeZoneString") if _ZONE.fullmatch(value.value)]
        start_s, zone = next(iter(starts_s), None), next(iter(zones), "")
        offset_s = next(iter(offsets_s), None)
        if offset_s is None and start_s is not None and zone:
            offset_s = self._offset_of(zone, start_s)
        return Epoch(start_s, offset_s, zone)

    def _offset_of(self, zone: str, start_s: int) -> int | None:
        """Return the seconds by which a named zone was ahead of UTC; None, and a note, where this machine has no table of it."""
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - few logs need it

        try:
            ahead = datetime.fromtimestamp(start_s, ZoneInfo(zone)).utcoffset()
        except (ZoneInfoNotFoundError, ValueError, OSError, OverflowError):
            self.notes.append(
                f"TimeZoneString: this machine does not know the time zone {zone}: hours count from the first job"
            )
            return None
        return None if ahead is None else int(ahead.total_seconds())

    def _size(self, key: str) -> tuple[int | None, bool]:
        """Return the largest value of a key, None if it is unknown, and whether one stands there that says something."""
        found, unread = self._numbers(key, 1, LARGEST, WARNING)
        return max(found, default=None), bool(found) or unread

    def _numbers(self, key: str, least: int, most: int, mark: str = "") -> tuple[list[int], bool]:
        """Return the known values of a key, and whether one cannot be read; -1, and 0 below ``least``, are unknown."""
        found: list[int] = []
        unread = False
        for _, value, line in self._of(key):
            match = _NUMBER.fullmatch(value)
            number = None if match is None else int(match[1].replace(",", ""))
            if number is not None and least <= number <= most and number != -1:
                found.append(number)
            elif number is None or number not in (-1, 0):
                unread = True
                self.notes.append(f"{mark}line {line}: {key} cannot be read: {printable(value)}")
        if len(set(found)) > 1:
            taken = "the largest" if mark else "the first"
            self.notes.append(f"{mark}{key} has several values, {', '.join(map(str, found[:5]))}: {taken} taken")
        return found, unread

    def _of(self, key: str) -> list[HeaderValue]:
        return [value for value in self._values if value.key.lower() == key.lower()]
