"""The earliest start of a job, in the notation of sbatch's ``--begin``."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import Final

from cosched_hwmodel.units import SECOND_US

EXPECTED: Final = "HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]], now+COUNT[UNIT], today, tomorrow, midnight, noon or teatime"
_TIMES_OF_DAY: Final = {"midnight": time(0), "noon": time(12), "teatime": time(16)}
_UNITS_S: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_MOST_S: Final = 10**10  # some 300 years


def read_begin(text: str, now: datetime | None = None) -> int:
    """Return the microseconds from ``now`` (default: the present) to the begin time; 0 if it has passed.

    A time of day is the next one, in local time. ValueError says what was expected.
    """
    now = now or datetime.now()
    words = text.strip().lower()
    if words == "now":
        return 0
    if words.startswith("now+"):
        return _delay_s(words.removeprefix("now+")) * SECOND_US
    begin = _begin(words, now)
    # Time stamps, because a day may have 23 or 25 hours.
    return max(0, round((begin.timestamp() - now.timestamp()) * SECOND_US))


def _delay_s(text: str) -> int:
    matched = re.fullmatch(r"(\d{1,9}) ?([a-z]*)", text, re.ASCII)
    unit = "second" if matched and not matched[2] else matched and matched[2].removesuffix("s")
    if matched is None or unit not in _UNITS_S:
        raise ValueError("now+COUNT[UNIT] with the unit seconds, minutes, hours, days or weeks")
    delay_s = int(matched[1]) * _UNITS_S[unit]
    if delay_s > _MOST_S:
        raise ValueError(f"at most {_MOST_S} seconds from now")
    return delay_s


def _begin(words: str, now: datetime) -> datetime:
    if words in ("today", "tomorrow"):
        return datetime.combine(now.date() + timedelta(days=words == "tomorrow"), time(0))
    if words in _TIMES_OF_DAY:
        return _next(_TIMES_OF_DAY[words], now)
    day, separator, clock = words.partition("t")
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", day, re.ASCII):
            return datetime.combine(date.fromisoformat(day), _time_of_day(clock) if separator else time(0))
        return _next(_time_of_day(words), now)
    except ValueError:
        raise ValueError(EXPECTED) from None


def _time_of_day(text: str) -> time:
    if not re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text, re.ASCII):
        raise ValueError(text)
    return datetime.strptime(text, "%H:%M:%S" if text.count(":") == 2 else "%H:%M").time()


def _next(moment: time, now: datetime) -> datetime:
    begin = datetime.combine(now.date(), moment)
    return begin if begin >= now else begin + timedelta(days=1)
