"""When the jobs of a workload arrive: by day of the week and by hour of the day."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.workload.columns import Jobs
from cosched_emulator.workload.job import Calendar
from cosched_hwmodel.cli.terminal.text_table import align
from cosched_hwmodel.units import SECOND_US

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY_S, _HOUR_S = 86_400, 3_600
_EPOCH_DAY = 3  # 1 January 1970 was a Thursday
_REASONS: Final = {
    "first submission": "UnixStartTime and TimeZone are not known",
    "first midnight": "days have no names",
}
_WIDTH = 30  # of the longest bar


class Rhythm(NamedTuple):
    """Shares of the jobs, and of the work that they bring, by the time of their submission."""

    counted_from: (
        str  # what the first day and the first hour begin with: "Monday", "first midnight", "first submission"
    )
    day_jobs: tuple[float, ...]
    day_work: tuple[float, ...]
    hour_jobs: tuple[float, ...]
    hour_work: tuple[float, ...]


def rhythm_of(jobs: Jobs, calendar: Calendar | None) -> Rhythm:
    """Return the weekly and the daily rhythm; days and hours count from the first submission where there is no calendar."""
    submit_s = jobs.submit_us.array / SECOND_US
    if calendar is None:
        local_s, counted_from = submit_s - submit_s[0], "first submission"
    else:
        local_s = calendar.start_s + submit_s
        counted_from = DAYS[0] if calendar.named_days else "first midnight"
    day = np.floor(local_s / _DAY_S).astype(np.int64)
    hour = np.floor((local_s - day * _DAY_S) / _HOUR_S).astype(np.int64)
    if calendar is None or not calendar.named_days:
        day -= day[0]
    else:
        day += _EPOCH_DAY
    work = jobs.run_us.array.astype(np.float64) * jobs.processes.array
    by_day, by_hour = (day % 7, 7), (np.minimum(hour, 23), 24)
    return Rhythm(
        counted_from, *(_shares(*by, some) for by in (by_day, by_hour) for some in (np.ones_like(work), work))
    )


def _shares(part: NDArray[np.int64], parts: int, amount: NDArray[np.float64]) -> tuple[float, ...]:
    shares = np.bincount(part, weights=amount, minlength=parts) / max(1.0, float(amount.sum()))
    return tuple(shares.tolist())


def rhythm_lines(rhythm: Rhythm) -> list[str]:
    """Return the rhythm as text: hours and days side by side, each with a bar for its share of the jobs."""
    named = rhythm.counted_from == DAYS[0]
    days = DAYS if named else [f"day {number}" for number in range(1, 8)]
    hours = [str(hour) for hour in range(24)]
    left = list(_rows("hour", hours, rhythm.hour_jobs, rhythm.hour_work))
    right = list(_rows("day", days, rhythm.day_jobs, rhythm.day_work))
    rows = [[*one, *other] for one, other in zip_longest(left, right, fillvalue=("",) * 4)]
    head = (
        [] if named else [f"hours and days are counted from the {rhythm.counted_from}: {_REASONS[rhythm.counted_from]}"]
    )
    return [*head, *align(rows, (0, 1, 2, 5, 6))]


def _rows(
    name: str, labels: list[str] | tuple[str, ...], jobs: tuple[float, ...], work: tuple[float, ...]
) -> Iterator[tuple[str, ...]]:
    yield name, "jobs", "work", ""
    longest = max(jobs)
    for label, share, amount in zip(labels, jobs, work, strict=True):
        yield label, f"{share:.1%}", f"{amount:.1%}", "#" * round(_WIDTH * share / longest)
