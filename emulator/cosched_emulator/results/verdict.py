"""What runs show, in one sentence: the first line of a report, below a comparison's picture, and in the demo.

A mean of several seeds is compared seed by seed, and said to differ only where its interval leaves no change out. Runs of
different workloads, or in which different jobs completed, are told beside each other, not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cosched_emulator.results.figures.comparison import RESPONSE, Figure, TimeUnit, value_of
from cosched_emulator.results.figures.metrics import Summary
from cosched_emulator.results.harm import Harm
from cosched_emulator.statistics.intervals import Interval, change_of

_SAME: Final = 0.05  # percent: a change below it is printed as none
MOST: Final = 3  # policies that a sentence names
_WAIT: Final = Figure("", ("*", "wait_s", "mean"))
_COMPLETED: Final = Figure("", ("states", "COMPLETED"))
_COUNTED: Final = Figure("", ("selection", "counted"))
_BUSY: Final = Figure("", ("machine", "utilisation"))
BySeed = Mapping[int, float]


class Told(NamedTuple):
    """A column of a report: its name, the summaries of its runs by seed, and who is later than in the first column, likewise."""

    name: str
    summaries: Mapping[int, Summary]
    harms: Sequence[Harm] = ()

    def values(self, figure: Figure) -> BySeed:
        """Return a figure of the runs that have it."""
        found = {seed: value_of(summary, figure, "finished") for seed, summary in self.summaries.items()}
        return {seed: value for seed, value in found.items() if value is not None}

    def mean(self, figure: Figure) -> float | None:
        """Return the mean of a figure over the runs that have it."""
        values = self.values(figure).values()
        return sum(values) / len(values) if values else None


def run_verdict(columns: Sequence[Told], unit: TimeUnit, *, alike: bool, same_jobs: bool) -> str:
    """Return the sentence about runs; the first column is the baseline of the others."""
    base, *others = columns
    if not others:
        return _about_one(base, unit)
    if not alike:
        return f"Different workloads: {_each(columns, unit)}."
    if not same_jobs:
        counts = ", ".join([f"{each.name} {_count(each, _COMPLETED)}" for each in columns[: MOST + 1]])
        return f"Not all completed the same jobs ({counts}), so their means cannot be compared: {_each(columns, unit)}."
    changes = [(each, _change(each.values(RESPONSE), base.values(RESPONSE))) for each in others]
    known = [(each, change) for each, change in changes if change is not None]
    if not known:
        return f"Nothing to compare: {_each(columns, unit)}."
    best, change = min(known, key=lambda item: item[1].mean)
    if len(others) == 1 or direction_of(change) == "sooner":
        close = [each.name for each, _ in known if each is not best and not _is_sooner(best, each)]
        return _against(best, base, change, unit, among=len(columns), close=close)
    found = f"{best.name} comes nearest: {_time(best, unit)}, {amount_text(change)}"
    has = "is shown to have" if change.exists else "has"
    return f"None of {len(others)} others {has} shorter responses than {base.name}, {_time(base, unit)} on average; {found}."


def _about_one(told: Told, unit: TimeUnit) -> str:
    wait_s, busy = told.mean(_WAIT), told.mean(_BUSY)
    text = f"{told.name}: {_count(told, _COMPLETED)} of {_count(told, _COUNTED)} jobs completed"
    if wait_s is not None:
        text += f"; on average they waited {_in_unit(wait_s, unit)} and responded after {_time(told, unit)}"
    return text + ("." if busy is None else f"; {100 * busy:.0f} % of the hardware threads were held.")


def _is_sooner(told: Told, other: Told) -> bool:
    change = _change(told.values(RESPONSE), other.values(RESPONSE))
    return change is not None and direction_of(change) == "sooner"


def _against(told: Told, base: Told, change: Interval, unit: TimeUnit, among: int, close: Sequence[str]) -> str:
    """Return how the responses of one column changed, and how many jobs are worse off."""
    direction = direction_of(change)
    if not direction:
        text = f"Responses under {told.name} and {base.name} cannot be told apart"
    elif among > 2:
        apart = f", not to be told from those of {', '.join(close[:MOST])}" if close else ""
        text = f"Of {among} runs or policies {told.name} has the shortest responses{apart}; compared with {base.name}"
    else:
        text = f"Jobs respond {direction} under {told.name} than under {base.name}"
    text += f": {_time(told, unit)} instead of {_time(base, unit)} on average, {amount_text(change)}"
    jobs = sum(harm.figures.jobs for harm in told.harms)
    later = sum(harm.figures.later for harm in told.harms)
    return f"{text}; {later:,} of {jobs:,} jobs ({100 * later / jobs:.1f} %) respond later." if jobs else f"{text}."


def _change(values: BySeed, base: BySeed) -> Interval | None:
    """Return the change in percent: of single runs whatever their seeds, else seed by seed."""
    if len(values) == len(base) == 1:
        values, base = ({0: next(iter(each.values()))} for each in (values, base))
    return change_of(values, base)


def direction_of(change: Interval) -> str:
    """Return ``sooner`` or ``later``; empty where it cannot be told."""
    if abs(change.mean) < _SAME or (change.exists and change.low <= 0 <= change.high):
        return ""
    return "sooner" if change.mean < 0 else "later"


def amount_text(change: Interval) -> str:
    """Return a change in percent, with its interval where it has one."""
    over = f", 95 % interval {change.low:+.1f} to {change.high:+.1f}" if change.exists else ""
    return f"{change.mean:+.1f} %{over}"


def _each(columns: Sequence[Told], unit: TimeUnit) -> str:
    texts = [f"mean response under {each.name} {_time(each, unit)}" for each in columns[: MOST + 1]]
    return ", ".join(texts) + (f", and {len(columns) - len(texts)} more" if len(columns) > len(texts) else "")


def _count(told: Told, figure: Figure) -> str:
    return f"{sum(told.values(figure).values()):,.0f}"


def _time(told: Told, unit: TimeUnit) -> str:
    found = told.mean(RESPONSE)
    return "–" if found is None else _in_unit(found, unit)  # noqa: RUF001 - what does not exist


def _in_unit(seconds: float, unit: TimeUnit) -> str:
    size, name = unit
    return f"{seconds / size:,.2f} {name}"
