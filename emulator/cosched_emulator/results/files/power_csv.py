"""``power.csv``: the mean watts of the machine in one interval after another. Only a run on nodes with watts has it.

Intervals are of equal length, a power of two in seconds, but for the last; together they make the run, from the first submission to
the last end.
"""

from __future__ import annotations

from collections.abc import Iterator

from cosched_emulator.results.energy.bins import PowerTrace
from cosched_emulator.workload.seconds import seconds_text

COLUMNS = ("start_s", "end_s", "watts")


def power_lines(trace: PowerTrace) -> Iterator[str]:
    """Yield the lines of the file."""
    yield ",".join(COLUMNS) + "\n"
    for start_us, end_us, watts in zip(*(column.tolist() for column in trace), strict=True):
        yield f"{seconds_text(start_us)},{seconds_text(end_us)},{watts:.3f}\n"
