"""Times, numbers and jobs as words in the sentences of `explain`."""

from __future__ import annotations

from collections.abc import Sequence

from cosched_emulator.workload.seconds import seconds_text
from cosched_hwmodel.units import SECOND_US


def instant_text(at_us: int) -> str:
    """Return an instant: ``50738 s (14:05:38)``."""
    seconds = f"{seconds_text(at_us)} s"
    return seconds if abs(at_us) < 60 * SECOND_US else f"{seconds} ({span_text(at_us)})"


def span_text(span_us: int) -> str:
    """Return a span: ``2:06:12`` rounded to seconds, ``12.5 s`` below a minute."""
    if abs(span_us) < 60 * SECOND_US:
        return f"{seconds_text(round(span_us, -3))} s"
    whole = round(abs(span_us) / SECOND_US)
    sign = "-" if span_us < 0 else ""
    return f"{sign}{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def count_text(number: int, one: str, many: str = "") -> str:
    """Return a number of things: ``1 job``, ``2 jobs``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def jobs_text(jobs: Sequence[int]) -> str:
    """Return jobs by number: ``jobs 1, 2 and 3``."""
    if len(jobs) == 1:
        return f"job {jobs[0]}"
    return f"jobs {', '.join(map(str, jobs[:-1]))} and {jobs[-1]}"


def times_text(number: int) -> str:
    """Return how many times: ``once``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def ordinal_text(number: int) -> str:
    """Return a place: ``2nd``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
