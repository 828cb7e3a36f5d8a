"""Figures of a study for the page of a paper: by workload and policy, over seeds, and against another run of the same seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from scripts.tables import NOTHING, number, percent, table_head, table_row

from cosched_emulator.statistics.intervals import Interval, Verdict, verdict_below, verdict_within
from cosched_emulator.studies.study_table import OF_SERIES, SeedRows

NOT_RUN: Final = "not run"
CLAIMS_HEAD: Final = ("claim", "", "published", "measured", "seeds", "verdict")
QUARTER: Final = 0.25  # of a published figure: nearer ones count as the same
LEAST: Final = 2.0  # points of percent, where a quarter is less
ALMOST: Final = 5.0  # points of percent, where "almost the same" is published
VERDICTS: Final = (
    "Measured: mean over seeds (of changes and ratios the geometric mean), with the 95 % confidence interval in parentheses."
    " Verdict: *yes* or *no* where the claim holds, or fails, at every value of the interval; else *not shown*, as always with one"
    " seed, which has no interval."
)


def sections(figures: Figures, parts: Mapping[str, Callable[[Figures], list[str]]]) -> list[str]:
    """Return the lines of a page's sections, ``parts`` by their titles; one without runs is left out."""
    return [line for title, part in parts.items() if (found := part(figures)) for line in (f"## {title}", "", *found)]


class Where(NamedTuple):
    """The cells of a study that differ in the seed alone; None: the usual value."""

    workload: str
    policy: str
    variant: str | None = None
    belief: str | None = None


class Figures:
    """The figures of a study by what its cells are called."""

    def __init__(self, all_series: Sequence[SeedRows], usual: Mapping[str, str]) -> None:
        """``usual``: column of an axis -> value where `Where` has None, or no such field."""
        self._usual = usual
        self._series = {tuple(found.places[name] for name in OF_SERIES): found for found in all_series}

    def series(self, where: Where) -> SeedRows | None:
        """Return the rows of some cells; None where none has run."""
        named = {name: value for name, value in where._asdict().items() if value is not None}
        places = {**self._usual, **named}
        return self._series.get(tuple(places.get(name, "") for name in OF_SERIES))

    def seeds(self, where: Where) -> int:
        """Return the number of seeds that have run."""
        found = self.series(where)
        return 0 if found is None else len(found.rows)

    def values(self, figure: str, where: Where) -> dict[int, float]:
        """Return a figure by seed."""
        found = self.series(where)
        return {} if found is None else found.by_seed(figure)

    def mean(self, figure: str, where: Where) -> Interval | None:
        """Return the mean of a figure with its interval."""
        found = self.series(where)
        return None if found is None else found.interval(figure)

    def change(self, figure: str, where: Where, base: Where) -> Interval | None:
        """Return by how many percent a figure is above that of ``base``, paired by seed; None where it does not exist."""
        mine, theirs = self.series(where), self.series(base)
        return None if mine is None or theirs is None else mine.change(figure, theirs)

    def ratio(self, figure: str, where: Where, base: Where) -> Interval | None:
        """Return a figure over that of ``base``, paired by seed; None where it does not exist."""
        found = self.change(figure, where, base)
        if found is None:
            return None
        mean, low, high = (1 + value / 100 for value in found[:3])
        return found._replace(mean=mean, low=low, high=high)

    def ratios(self, figure: str, where: Where, base: Where) -> dict[int, float]:
        """Return a figure over that of ``base`` by seed, over the seeds that both have."""
        mine, theirs = self.values(figure, where), self.values(figure, base)
        return {seed: value / theirs[seed] for seed, value in mine.items() if theirs.get(seed)}

    def difference(self, figure: str, where: Where, base: Where) -> Interval | None:
        """Return by how much a figure is above that of ``base``, paired by seed; None where it does not exist."""
        mine, theirs = self.series(where), self.series(base)
        return None if mine is None or theirs is None else mine.difference(figure, theirs)


# ---------------------------------------------------------------- text


def interval_text(found: Interval | None, text: Callable[[float | None], str] = number, factor: float = 1.0) -> str:
    """Return mean and interval for a cell of a table: ``-36.1 (-50.2 to -18.0)``."""
    if found is None:
        return NOTHING
    mean = text(found.mean * factor)
    return f"{mean} ({text(found.low * factor)} to {text(found.high * factor)})" if found.exists else mean


def percent_text(found: Interval | None) -> str:
    """Return a change in percent with its interval."""
    return interval_text(found, percent)


class Claim(NamedTuple):
    """A row of a table of claims."""

    text: str
    where: str
    published: str
    measured: str
    seeds: int
    verdict: Verdict | None  # None: not run

    @property
    def row(self) -> str:
        """Return the row of the table."""
        verdict = (
            NOT_RUN if self.verdict is None else f"**{self.verdict}**" if self.verdict == Verdict.NO else self.verdict
        )
        cells = [self.published, self.measured, str(self.seeds or NOTHING), str(verdict)]
        return table_row((self.text, self.where), cells)


def claims_table(claims: Sequence[Claim]) -> list[str]:
    """Return the table of some claims."""
    return [*table_head(CLAIMS_HEAD), *(claim.row for claim in claims), ""]


def judged(
    text: str,
    where: str,
    published: str,
    found: Interval | None,
    judge: Callable[[Interval], Verdict],
    shown: Callable[[Interval | None], str] = percent_text,
) -> Claim:
    """Return a claim on one interval."""
    return Claim(text, where, published, shown(found), found.n if found else 0, judge(found) if found else None)


def within(
    text: str,
    where: str,
    published: str,
    found: Interval | None,
    band: tuple[float, float],
    shown: Callable[[Interval | None], str] = percent_text,
) -> Claim:
    """Return the claim that a figure lies in a band."""
    return judged(text, where, published, found, lambda interval: verdict_within(interval, *band), shown)


def near(text: str, where: str, published: float, found: Interval | None) -> Claim:
    """Return the claim that a change in percent is as published, within a quarter of that, or two points if that is more.

    Where almost nothing is published (0), the band is five points.
    """
    points = max(LEAST, abs(published) * QUARTER) if published else ALMOST
    band = (published - points, published + points)
    return within(f"{text}, within {points:.2g} points", where, percent(published), found, band)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on several claims at once: no if one fails, yes if all hold."""
    if Verdict.NO in verdicts:
        return Verdict.NO
    return Verdict.YES if set(verdicts) == {Verdict.YES} else Verdict.NOT_SHOWN


def ascending(
    figures: Figures,
    text: str,
    where: str,
    figure: str,
    groups: Sequence[Sequence[Where]],
    published: str = "this order",
    named: Callable[[Where], str] = lambda cell: cell.policy,
) -> Claim:
    """Return the claim that a figure of all cells of a group is below that of all cells of the next group, paired by seed.

    Two cells are compared by their ratio; by their difference where that is 0 somewhere. ``named``: how a cell is called in the
    claim's text.
    """
    found = [_below(figures, figure, lower, upper) for lower, upper in _pairs(groups)]
    known = [item for item in found if item is not None]
    names = " / ".join(", ".join(map(named, group)) for group in groups)
    if len(known) < len(found) or not known:
        return Claim(f"{text}: {names}", where, published, NOTHING, 0, None)
    means = " / ".join(", ".join(number(_mean(figures, figure, cell)) for cell in group) for group in groups)
    verdict = all_of([verdict for _, verdict in known])
    return Claim(f"{text}: {names}", where, published, means, min(seeds for seeds, _ in known), verdict)


def _below(figures: Figures, figure: str, lower: Where, upper: Where) -> tuple[int, Verdict] | None:
    """Return the number of seeds, and whether a figure of the one is below that of the other; None where one has not run."""
    ratio = figures.ratio(figure, lower, upper)
    if ratio is not None:
        return ratio.n, verdict_below(ratio, 1.0)
    difference = figures.difference(figure, lower, upper)
    return None if difference is None else (difference.n, verdict_below(difference, 0.0))


def _pairs(groups: Sequence[Sequence[Where]]) -> Iterator[tuple[Where, Where]]:
    for index in range(1, len(groups)):
        for lower in groups[index - 1]:
            for upper in groups[index]:
                yield lower, upper


def _mean(figures: Figures, figure: str, where: Where) -> float | None:
    found = figures.mean(figure, where)
    return None if found is None else found.mean
