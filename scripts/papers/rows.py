"""The claims of a paper as data, and the one engine that makes the rows of its page from them.

A row names what is measured, of which cells and against which, the band in which the claim says that it is, and what is published.
Texts, columns and cells may have names in braces, as `str.format` takes them: those of the row's sweep, whose values are taken in turn,
the last one fastest. The values ``work``, ``variant`` and ``belief`` place all cells of a row that do not say otherwise. In texts,
values are called as the table's `labels` say. What needs arithmetic of its own names a function: of the seeds' values (`by_seed`), or
of figures and the row's values. The rule is that of `scripts.papers.claims`; verdicts are made here alone (`combined`, `agreeing`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from statistics import fmean
from typing import Any, Final, NamedTuple

from scripts.papers.claims import MOST_SEEDS, Band, Claim, Of, by_construction, quarter
from scripts.papers.figures import Figures, Where, as_ratio, interval_text, percent_text
from scripts.tables import NOTHING, number, percent

from cosched_emulator.statistics.intervals import (
    Interval,
    Verdict,
    at_level,
    change_of,
    mean_interval,
    prediction,
    seeds_needed,
    tail_of,
)

Found = Interval | None
Values = Mapping[str, Any]
Shown = Callable[[Found], str]
IN_PERCENT: Final = partial(interval_text, factor=100.0)


def mean_text(found: Found, text: Callable[[float | None], str] = number, factor: float = 1.0) -> str:
    """Return a mean without its interval."""
    return text(None if found is None else found.mean * factor)


MEAN_PERCENT: Final = partial(mean_text, text=percent)


class Cell(NamedTuple):
    """A policy, and where it runs if not where the rest of its row does."""

    policy: str
    place: Mapping[str, Any]


Spec = Any  # a policy, where the row is; one with values of its own (`cell`); cells (`Where`); a function of values that gives one


def cell(policy: str, **place: Any) -> Cell:
    """Return a policy with values of its own."""
    return Cell(policy, place)


def usual_place(policy: str, values: Values) -> Where | None:
    """Return the cells of a policy."""
    return Where(values["work"], policy, values.get("variant"), values.get("belief"))


class Table:
    """What the rows of a paper are made of: its figures, what values are called, and where a policy runs, None: nowhere.

    ``samples``: of jobs, of which the paper prints the mean.
    """

    def __init__(
        self,
        figures: Figures,
        labels: Mapping[str, str] | None = None,
        place: Callable[[str, Values], Where | None] = usual_place,
        samples: int = 1,
    ) -> None:
        self.figures, self._labels, self._place, self.samples = figures, labels or {}, place, samples

    def where(self, spec: Spec, values: Values) -> Where | None:
        """Return the cells that a row names."""
        if isinstance(spec, Where):
            return spec
        if callable(spec):
            return self.where(spec(**values), values)
        policy, place = spec if isinstance(spec, Cell) else (spec, {})
        filled = {name: _filled(value, values) for name, value in place.items()}
        return self._place(_filled(policy, values), {**values, **filled})

    def text(self, template: str, values: Values) -> str:
        """Return a text for people."""
        called = {
            name: self._labels.get(value, value) if isinstance(value, str) else value for name, value in values.items()
        }
        return template.format(**called)

    def found(self, figure: Any, values: Values) -> Any:
        """Return what a row measures: an interval, or values by seed."""
        return figure.of(self, values) if hasattr(figure, "of") else figure(self.figures, **values)

    def claims(self, rows: Iterable[Any], outer: Values | None = None) -> list[Claim]:
        """Return the claims of some rows; among them may be blocks, claims, and functions of figures and values that return claims."""
        found: list[Claim] = []
        for each in rows:
            if isinstance(each, Claim):
                found.append(each)
            else:
                values = outer or {}
                found += each.claims(self, values) if isinstance(each, Row | Block) else each(self.figures, **values)
        return found


def judging(rows: Iterable[Any], labels: Mapping[str, str] | None = None) -> Callable[[Figures], list[Claim]]:
    """Return what gives the claims of some rows, each with what was measured."""
    return lambda figures: Table(figures, labels).claims(rows)


def _filled(value: Any, values: Values) -> Any:
    return value.format(**values) if isinstance(value, str) else value


def swept(each: Mapping[str, Any], outer: Values) -> Iterator[Values]:
    """Yield the values of a sweep. One text is one value; a function of the values so far returns them."""
    if not each:
        yield outer
        return
    (name, side), *rest = each.items()
    side = side(**outer) if callable(side) else side
    for value in [side] if isinstance(side, str) else side:
        yield from swept(dict(rest), {**outer, name: value})


# ---------------------------------------------------------------- what is measured


class Measured(NamedTuple):
    """A figure of some cells, against others if there are two: by one of the methods of `Figures`."""

    how: str
    column: str
    cells: tuple[Spec, ...]
    show: Shown = interval_text

    def of(self, table: Table, values: Values) -> Any:
        """Return it; None, or nothing, where it does not exist."""
        where = tuple(table.where(spec, values) for spec in self.cells)
        return self._replace(column=_filled(self.column, values), cells=where).found(table.figures)

    def found(self, figures: Figures) -> Any:
        """Return it of cells that are places (`Where`)."""
        return getattr(figures, self.how)(self.column, *self.cells)


def measured(how: str, column: str, *cells: Spec) -> Measured:
    """Return a figure of some cells."""
    return Measured(how, column, cells, percent_text if how == "change" else interval_text)


def mean(column: str, of: Spec, factor: float = 1.0) -> Measured:
    """Return the mean of a column; it is shown times a factor."""
    return Measured("mean", column, (of,), partial(interval_text, factor=factor))


# Against other cells: change in percent, ratio, difference. By seed: a column, and its ratio to that of others.
change, ratio, difference = partial(measured, "change"), partial(measured, "ratio"), partial(measured, "difference")
values_of, ratios_of = partial(measured, "values"), partial(measured, "ratios")


class BySeed(NamedTuple):
    """A value of several sources for each seed that all have, and the mean over these."""

    value: Callable[..., float]
    sources: Sequence[Measured]

    def of(self, table: Table, values: Values) -> Found:
        """Return it; None without seeds."""
        return over_seeds([table.found(source, values) for source in self.sources], self.value)


def by_seed(value: Callable[..., float], *sources: Measured) -> BySeed:
    """Return the mean over seeds of a function of some sources."""
    return BySeed(value, sources)


def over_seeds(columns: Sequence[Mapping[int, float]], value: Callable[..., float]) -> Found:
    """Return the mean over the seeds that all columns have of a value of theirs."""
    seeds = sorted(set.intersection(*(set(column) for column in columns)))
    return mean_interval([value(*(column[seed] for column in columns)) for seed in seeds]) if seeds else None


# ---------------------------------------------------------------- where it is claimed to be


class Near(NamedTuple):
    """Within a quarter of what is published: a number, or a function of the row's values."""

    published: Any
    of: Of = Of.CHANGE
    told: str | None = None  # how the text goes on; None: with the band

    def at(self, values: Values) -> float | None:
        """Return what is published."""
        found = self.published(**values) if callable(self.published) else self.published
        return None if found is None else float(found)

    def text(self, published: float) -> str:
        """Return what the row's text says of the band."""
        band = quarter(published, self.of)
        if self.told is not None:
            return self.told
        if self.of is Of.CHANGE and math.isclose(band.high - published, published - band.low):
            return f", within {band.high - published:.2g} points"
        return f", within {number(band.low)} to {number(band.high)}"


near = Near
near_ratio = partial(Near, of=Of.RATIO)
near_level = partial(Near, of=Of.LEVEL)


# ---------------------------------------------------------------- several figures in one row


class Every(NamedTuple):
    """Each of some figures, over a sweep of its own."""

    figure: Any
    label: str = ""  # before each figure
    show: Shown = mean_text
    join: str = " / "
    known: bool = False  # those that do not exist are not shown
    run: Spec | None = None  # only those that have run; all if none has
    tell: Callable[[Sequence[Found]], str] | None = None  # what is measured, in place of each figure
    each: Mapping[str, Any] = {}

    def parts(self, table: Table, values: Values, band: Any) -> tuple[list[Part], str, str]:
        """Return the figures with their bands, what is measured, and what is published if the bands say that."""
        sweep = [*swept(self.each, values)]
        if self.run is not None:
            ran = [at for at in sweep if (where := table.where(self.run, at)) and table.figures.seeds(where)]
            sweep = ran or sweep
        parts: list[Part] = []
        told, published = [], []
        for at in sweep:
            theirs = band.at(at) if isinstance(band, Near) else None
            if isinstance(band, Near) and theirs is None:
                continue
            found, label = table.found(self.figure, at), table.text(self.label, at)
            parts.append(Part(found, band_at(band, at), theirs))
            if found is not None or not self.known:
                told.append(label + self.show(found))
            published.append(label + number(theirs))
        measured = self.join.join(told) if self.tell is None else self.tell([part.found for part in parts])
        return parts, measured, self.join.join(published)


def every(figure: Any, label: str = "", show: Shown = mean_text, **settings: Any) -> Every:
    """Return each of some figures; what is no setting of `Every` is swept."""
    own = {name: settings.pop(name) for name in ("join", "known", "run", "tell") if name in settings}
    return Every(figure, label, show, **own, each=settings)


class Beside(NamedTuple):
    """Figures that are judged, and others that are shown in their place."""

    judged: Every
    shown: Every
    whole: bool = False  # not shown where one of the former does not exist

    def parts(self, table: Table, values: Values, band: Any) -> tuple[list[Part], str, str]:
        """Return the former with their bands, and the latter."""
        parts = self.judged.parts(table, values, band)[0]
        hidden = self.whole and any(part.found is None for part in parts)
        return parts, NOTHING if hidden else self.shown.parts(table, values, Band())[1], ""


def steps(how: str, column: str, cells: Sequence[Spec], *, back: bool = False, **shown: Any) -> Beside:
    """Return a column from each of some cells to the next, shown as the means of all.

    The later is measured against the earlier, or the earlier against the later (``back``).
    """
    pairs = [pair if back else pair[::-1] for pair in pairwise(cells)]
    judged = every(measured(how, column, lambda pair, **_: pair[0], lambda pair, **_: pair[1]), pair=pairs)
    return Beside(judged, every(mean(column, lambda cell, **_: cell), cell=cells, **shown))


class Order(NamedTuple):
    """A column of all cells of a group is below that of all cells of the next group, paired by seed.

    Two cells are compared by their ratio; by their difference where that is 0 somewhere.
    """

    column: str
    groups: Any  # sequences of cells, or a function of the row's values that returns them
    named: Callable[[Where], str] = lambda where: where.policy
    told: bool = True  # the names stand in the text

    def claim(self, table: Table, values: Values, text: str, where: str, told: str) -> Claim:
        """Return the claim."""
        groups = self.groups(**values) if callable(self.groups) else self.groups
        placed = [[table.where(spec, values) for spec in group] for group in groups]
        cells = [[where for where in group if where is not None] for group in placed]
        column = _filled(self.column, values)
        parts = [_below(table.figures, column, one, other) for one, other in between(cells)]
        names = " / ".join(", ".join(map(self.named, group)) for group in cells)
        means = [[mean_text(table.figures.mean(column, each)) for each in group] for group in cells]
        measured = " / ".join(", ".join(group) for group in means)
        claim = combined(f"{text}: {names}" if self.told else text, where, told or "this order", measured, parts)
        return claim if claim.verdict else claim._replace(measured=NOTHING)


def _below(figures: Figures, column: str, lower: Where, upper: Where) -> Part:
    """Return what compares the one's figure with the other's, and where it lies if the one is below."""
    found = figures.ratio(column, lower, upper)
    if found is not None:
        return Part(found, Band.below(1.0))
    return Part(figures.difference(column, lower, upper), Band.below(0.0))


class SeedOrder(NamedTuple):
    """The same of values by seed, which are called by name."""

    groups: Any  # by name the source of its values, or a function of figures and the row's values

    def claim(self, table: Table, values: Values, text: str, where: str, told: str) -> Claim:
        """Return the claim."""
        found = [{name: table.found(source, values) for name, source in group.items()} for group in self.groups]
        pairs = between([[*group.values()] for group in found])
        parts = [Part(as_ratio(change_of(lower, upper)), Band.below(1.0)) for lower, upper in pairs]
        names = " / ".join(", ".join(table.text(name, values) for name in group) for group in found)
        means = [[number(fmean(each.values()) if each else None) for each in group.values()] for group in found]
        measured = " / ".join(", ".join(group) for group in means)
        return combined(f"{text}: {names}", where, told, measured, parts)


def between(groups: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield all pairs of a member of a group and one of the next."""
    for lower, upper in pairwise(groups):
        yield from product(lower, upper)


def band_at(band: Any, values: Values) -> Band:
    """Return a row's band: itself, around what is published, or what a function of the row's values returns."""
    if isinstance(band, Near):
        return quarter(band.at(values) or 0.0, band.of)
    return band if isinstance(band, Band) else band(**values)


# ---------------------------------------------------------------- verdicts


def judged(text: str, where: str, published: str, found: Found, band: Band, shown: Shown = percent_text) -> Claim:
    """Return the claim that a figure lies in a band."""
    return combined(text, where, published, shown(found), [(found, band)])


class Part(NamedTuple):
    """A figure, the band in which it is claimed to be, and what is published of it, if that is why."""

    found: Found
    band: Band
    published: float | None = None


def combined(
    text: str, where: str, published: str, measured: str, parts: Sequence[Part | tuple[Found, Band]], samples: int = 1
) -> Claim:
    """Return a claim that holds if all of some figures lie in their bands, and fails if one does not.

    It has not run if one of them has not. The p of *yes* is the largest of theirs; that of *no* the least, times their number: the
    more figures, the likelier chance alone has one fail. ``samples``: of which what is published is the mean.
    """
    whole = [Part(*each) for each in parts]
    known = [(each.found, each.band) for each in whole if each.found is not None]
    if not known or len(known) < len(parts):
        return Claim(text, where, published, measured if known else NOTHING, 0, None)
    verdicts = [band.verdict(found) for found, band in known]
    draws = [prediction(found, samples) for found, _ in known]
    chances = [_p_of_draw(draw, each.published) for draw, each in zip(draws, whole, strict=True)]
    holds, fails = ([p_of(found, band, side) for found, band in known] for side in (Verdict.YES, Verdict.NO))
    # One that would not fail among so many counts as not shown
    verdicts = [
        Verdict.NOT_SHOWN if verdict is Verdict.NO and (one or 0.0) * len(known) > _CHANCE else verdict
        for verdict, one in zip(verdicts, fails, strict=True)
    ]
    p = None
    if None not in (*holds, *fails):
        least = min(max(one or 0.0, chance) for one, chance in zip(fails, chances, strict=True))
        p = min(max(one or 0.0 for one in holds), len(known) * least, 1.0)
    failed = [chance for verdict, chance in zip(verdicts, chances, strict=True) if verdict is Verdict.NO]
    drawn = [" to ".join(dict.fromkeys(map(number, draw[1:3]))) for draw in draws if draw.exists]
    return Claim(
        text,
        where,
        published,
        measured,
        min(found.n for found, _ in known),
        all_of(verdicts),
        p,
        _to_decide(known, verdicts),
        sampling=" / ".join(drawn) if drawn and all(each.published is not None for each in whole) else NOTHING,
        sampled=bool(failed) and len(known) * min(failed) > _CHANCE,
    )


def _p_of_draw(draw: Interval, published: float | None) -> float:
    """Return twice the probability that a sample lies as far from the mean as what is published; 0 where nothing is."""
    tail = None if published is None else tail_of(draw, published, above=draw.mean > published)
    return 0.0 if tail is None else min(1.0, 2 * tail)


def agreeing(
    text: str, where: str, published: str, holds: Sequence[bool], measured: str = "", untold: int = 0
) -> Claim:
    """Return the claim that something holds in most runs, one a seed: judged by the exact binomial interval of its share.

    The share is above one half or below it; six seeds that agree are the fewest that show it. ``untold``: further runs, which do not
    tell.
    """
    if untold and not holds:
        return Claim(text, where, published, measured, untold, Verdict.NOT_SHOWN, 1.0, math.inf)
    count, told = len(holds), f"in {sum(holds)} of {len(holds)} seeds"
    measured = f"{told}; {measured}" if measured else told
    if not holds:
        return Claim(text, where, published, NOTHING, 0, None)
    p = _binomial(sum(holds), count)
    verdict = Verdict.NOT_SHOWN if p > _CHANCE else Verdict.YES if 2 * sum(holds) > count else Verdict.NO
    share = sum(holds) / count
    more = range(count + 1, MOST_SEEDS + 1) if share != 0.5 else ()  # an even share never decides
    enough = (n for n in more if _binomial(round(share * n), n) <= _CHANCE)
    return Claim(text, where, published, measured, count, verdict, p, next(enough, math.inf))


_CHANCE: Final = 0.05


def _binomial(successes: int, count: int) -> float:
    """Return twice the probability of so many equal outcomes, or more, of fair coins."""
    most = max(successes, count - successes)
    tail = math.fsum(math.comb(count, k) / 2**count for k in range(most, count + 1))
    return min(1.0, 2 * tail)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on several claims at once: no if one fails, yes if all hold."""
    if Verdict.NO in verdicts:
        return Verdict.NO
    return Verdict.YES if set(verdicts) == {Verdict.YES} else Verdict.NOT_SHOWN


def p_of(found: Interval, band: Band, verdict: Verdict) -> float | None:
    """Return twice the probability that chance gives a figure as far inside the band (*yes*), or outside (*no*); None: no interval."""
    if found.low == found.high:  # all seeds are the same, perhaps at the bound itself
        return 0.0 if band.verdict(found) is verdict else 1.0
    bounds = [(bound, side) for bound, side in zip(band, (1, -1), strict=True) if math.isfinite(bound)]
    tails = [tail_of(found, bound, above=(side > 0) is (verdict is Verdict.YES)) for bound, side in bounds]
    known = [tail for tail in tails if tail is not None]
    if len(known) < len(bounds) or not bounds:
        return None
    return min(1.0, 2 * (max(known) if verdict is Verdict.YES else min(known)))


def _to_decide(known: Sequence[tuple[Interval, Band]], verdicts: Sequence[Verdict]) -> float | None:
    """Return the seeds that would decide a claim that is not shown: one figure outside its band is enough, or all inside."""
    if all_of(verdicts) is not Verdict.NOT_SHOWN or not all(found.exists for found, _ in known):
        return None
    inside, outside = [0.0], list[float]()
    for (found, band), verdict in zip(known, verdicts, strict=True):
        if verdict is Verdict.NOT_SHOWN:
            nearer = min((abs(bound - found.mean), bound) for bound in band)[1]
            if band.low <= found.mean <= band.high:
                inside.append(seeds_needed(found, nearer, MOST_SEEDS))
            else:
                outside.append(seeds_needed(at_level(found, 1 - _CHANCE / len(known)), nearer, MOST_SEEDS))
    return min(outside) if outside else max(inside)


# ---------------------------------------------------------------- rows


class Row(NamedTuple):
    """A row of a paper's table, or one for each value of its sweep."""

    text: str
    figure: Any
    band: Any
    told: Any  # what is published, as a text or a function of the row's values; empty: as the band says
    at: Any  # where, as a text or a function of the row's values
    shown: Shown | None
    built: bool  # by construction
    each: Mapping[str, Any]

    def claims(self, table: Table, outer: Values) -> Iterator[Claim]:
        """Yield the claims."""
        for values in swept(self.each, outer):
            claim = self._claim(table, values)
            yield by_construction(claim) if self.built else claim

    def _claim(self, table: Table, values: Values) -> Claim:
        text = table.text(self.text, values)
        where, told = (side(**values) if callable(side) else table.text(side, values) for side in (self.at, self.told))
        if isinstance(self.figure, Order | SeedOrder):
            return self.figure.claim(table, values, text, where, told)
        if isinstance(self.figure, Every | Beside):
            parts, measured, published = self.figure.parts(table, values, self.band)
            return combined(text, where, told or published, measured, parts, table.samples)
        shown = self.figure.show if isinstance(self.figure, Measured) else interval_text
        if isinstance(self.band, Near):
            published_at = self.band.at(values) or 0.0
            text += self.band.text(published_at)
            told = told or (percent if self.band.of is Of.CHANGE else number)(published_at)
            shown = percent_text if self.band.of is Of.CHANGE else interval_text
        found = table.found(self.figure, values)
        theirs = self.band.at(values) if isinstance(self.band, Near) else None
        part = Part(found, band_at(self.band, values), theirs)
        return combined(text, where, told, (self.shown or shown)(found), [part], table.samples)


def row(
    text: str,
    figure: Any,
    band: Any = None,
    told: Any = "",
    *,
    at: Any = "{work}",
    shown: Shown | None = None,
    built: bool = False,
    **each: Any,
) -> Row:
    """Return a row: what is claimed, what is measured, where that is to be, and what is published; the rest is swept."""
    return Row(text, figure, band, told, at, shown, built, each)


class Block(NamedTuple):
    """Some rows after each other for each value of a sweep."""

    rows: Sequence[Any]
    each: Mapping[str, Any]

    def claims(self, table: Table, outer: Values) -> Iterator[Claim]:
        """Yield the claims."""
        for values in swept(self.each, outer):
            yield from table.claims(self.rows, values)


def block(*rows: Any, **each: Any) -> Block:
    """Return some rows for each value of a sweep."""
    return Block(rows, each)
