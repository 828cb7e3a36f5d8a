"""The claims of papers: rows of their pages, and the one rule by which all of them are judged.

A claim says that a figure lies in a band (`Band`). It holds or fails if it does so at every value of the figure's 95 % interval; else
it is not shown. No interval, no verdict. *Within a quarter* is `quarter`, on all pages.

Besides the verdict a row has

- ``p``: twice the probability that chance alone gives a figure as far on its side of the band's nearer bound (Student's t on the scale
  of the interval); at most 0.05 wherever the verdict is *yes* or *no*. `scripts.verdicts` puts Holm's correction on the p of a page.
- ``to decide``: of a row that is not shown the number of seeds at which the half width of the interval is below the distance from the
  mean to the nearer bound, if mean and spread stay as measured.

What no run decides is no claim and is not counted: what holds by construction, what the paper's own print or a model without seeds
decides, and what cannot be checked. Each has a row with its reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from scripts.papers.figures import percent_text
from scripts.tables import NOTHING, number, table_head, table_row

from cosched_emulator.statistics.intervals import (
    Interval,
    Verdict,
    seeds_needed,
    tail_of,
    verdict_above,
    verdict_below,
    verdict_within,
)

NOT_RUN: Final = "not run"
PREDICTED, NOT_PREDICTED = "predicted", "**not predicted**"
CLAIMS_HEAD: Final = ("id", "claim", "", "published", "measured", "seeds", "p", "to decide", "verdict")
MOST_SEEDS: Final = 1_000  # beyond, the mean lies at the bound
VERDICTS: Final = (
    "Measured: mean over seeds (of changes and ratios the geometric mean), with the 95 % confidence interval in parentheses."
    " Verdict: *yes* or *no* where the claim holds, or fails, at every value of the interval; else *not shown*, as always with one"
    " seed, which has no interval. The band around a published figure is a quarter of the effect to either side, that is of a change or"
    " of ratio - 1, and two points at least; a quarter of the value where the figure is a plain level. *p*: of the verdict by chance;"
    " *(Holm)*: stands after Holm's correction over the page. *To decide*: seeds that would, with mean and spread as they are."
)


# ---------------------------------------------------------------- the rule


class Of(Enum):
    """What a quarter is taken of."""

    CHANGE = 0.0  # a change in percent, or in points: of the change. Its value is that of no effect
    RATIO = 1.0  # of ratio - 1, never of the ratio: .9 where .8 is published shows half of the effect
    LEVEL = math.nan  # a value that compares nothing, such as a length of a queue or a relative response: of itself


QUARTER: Final = 0.25
LEAST: Final = 2.0  # points of percent, where a quarter of an effect is less
ALMOST: Final = 5.0  # points of percent, where no effect is published: "almost the same", "similar", "close"


class Band(NamedTuple):
    """Where a claim says that a figure is: between two bounds, which belong to it, or beyond one, which does not."""

    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def above(cls, bound: float = 0.0) -> Band:
        """Return the band above a bound."""
        return cls(low=bound)

    @classmethod
    def below(cls, bound: float = 0.0) -> Band:
        """Return the band below a bound."""
        return cls(high=bound)

    def verdict(self, found: Interval) -> Verdict:
        """Judge the claim that the true value lies in the band."""
        if self.low == -math.inf:
            return verdict_below(found, self.high)
        return verdict_above(found, self.low) if self.high == math.inf else verdict_within(found, *self)


def quarter(published: float, of: Of) -> Band:
    """Return the band of what is within a quarter of a published figure.

    Of an effect (`Of.CHANGE`, in percent, and `Of.RATIO`) the band is two points wide to either side at least, and five where no effect
    is published: a quarter of nothing would be nothing.
    """
    if of is Of.LEVEL:
        half = QUARTER * abs(published)
    else:
        point = 1.0 if of is Of.CHANGE else 0.01
        effect = abs(published - of.value)
        half = max(LEAST * point, QUARTER * effect) if effect else ALMOST * point
    return Band(published - half, published + half)


# ---------------------------------------------------------------- rows


class Kind(StrEnum):
    """What decides a row; the runs do if it is a claim, and only then it is counted."""

    CLAIM = "claim"
    CONSTRUCTION = "by construction"  # a configuration, or what the code cannot but do
    PRINT = "in print"  # the paper's own tables
    MODEL = "by the model"  # a prediction, which has no seeds and so no interval
    UNCHECKABLE = "not checkable"  # with the reason; definitions too


CLAIM_IDS: Final = re.compile(r"([A-Z]\d+[a-z]?(?:, [A-Z]\d+[a-z]?)*): ")


class Claim(NamedTuple):
    """A row of a table of claims. Its text begins with the ids of the claims list that it answers: ``C3, C5: mean wait ...``."""

    text: str
    where: str
    published: str
    measured: str
    seeds: int
    verdict: Verdict | None  # None: not run
    p: float | None = None  # of the verdict by chance; None: no interval
    to_decide: float | None = None  # seeds; infinite: the mean lies at the bound; None: decided, or unknown
    kind: Kind = Kind.CLAIM

    @property
    def ids(self) -> str:
        """Return its ids as they stand before the text; empty for a claim that no list has."""
        match = CLAIM_IDS.match(self.text)
        return match[1] if match else ""

    @property
    def row(self) -> str:
        """Return the row of the table."""
        text = self.text[len(self.ids) + 2 :] if self.ids else self.text
        cells = [self.published, self.measured, str(self.seeds or NOTHING), _p_text(self.p), self._to_decide()]
        return table_row((self.ids or NOTHING, text, self.where), [*cells, self._verdict()])

    def _to_decide(self) -> str:
        if self.kind is not Kind.CLAIM or self.verdict is not Verdict.NOT_SHOWN:
            return NOTHING
        if self.to_decide is None:
            return "2 or more" if self.seeds == 1 else NOTHING
        return number(self.to_decide) if self.to_decide <= MOST_SEEDS else "none: the mean lies at the bound"

    def _verdict(self) -> str:
        if self.kind is Kind.UNCHECKABLE:
            return str(self.kind)
        if self.verdict is None:
            return NOT_RUN
        failed = self.verdict == Verdict.NO
        if self.kind is Kind.PRINT:
            return "contradicted by print" if failed else "holds in print"
        if self.kind is Kind.MODEL:
            return NOT_PREDICTED if failed else PREDICTED
        if self.kind is Kind.CONSTRUCTION:
            return f"{self.kind}: **fails**" if failed else str(self.kind)
        return f"**{self.verdict}**" if failed else str(self.verdict)


def _p_text(p: float | None) -> str:
    return NOTHING if p is None else f"{p:.2g}" if p >= _SMALLEST else f"<{_SMALLEST:g}"


_SMALLEST: Final = 1e-6  # no page has rows enough for less to matter


def claims_table(claims: Sequence[Claim]) -> list[str]:
    """Return the table of some claims."""
    return [*table_head(CLAIMS_HEAD), *(claim.row for claim in claims), ""]


# ---------------------------------------------------------------- claims that runs decide


def judged(
    text: str,
    where: str,
    published: str,
    found: Interval | None,
    band: Band,
    shown: Callable[[Interval | None], str] = percent_text,
) -> Claim:
    """Return the claim that a figure lies in a band."""
    return combined(text, where, published, shown(found), [(found, band)])


def combined(
    text: str, where: str, published: str, measured: str, parts: Sequence[tuple[Interval | None, Band]]
) -> Claim:
    """Return a claim that holds if all of some figures lie in their bands, and fails if one does not.

    It has not run if one of them has not. The p of *yes* is the largest of theirs; that of *no* the least, times their number.
    """
    known = [(found, band) for found, band in parts if found is not None]
    if not known or len(known) < len(parts):
        return Claim(text, where, published, measured if known else NOTHING, 0, None)
    verdicts = [band.verdict(found) for found, band in known]
    ps = [(p_of(found, band, Verdict.YES), p_of(found, band, Verdict.NO)) for found, band in known]
    holds, fails = (
        None if any(p is None for p in side) else [p or 0.0 for p in side] for side in zip(*ps, strict=True)
    )
    p = None if holds is None or fails is None else min(max(holds), len(known) * min(fails), 1.0)
    seeds = min(found.n for found, _ in known)
    return Claim(text, where, published, measured, seeds, all_of(verdicts), p, _to_decide(known, verdicts))


def agreeing(text: str, where: str, published: str, holds: Sequence[bool], measured: str = "") -> Claim:
    """Return the claim that something holds in most runs, one a seed: judged by the exact binomial interval of its share.

    The share is above one half or below it; six seeds that agree are the fewest that show it.
    """
    count, told = len(holds), f"in {sum(holds)} of {len(holds)} seeds"
    measured = f"{told}; {measured}" if measured else told
    if not holds:
        return Claim(text, where, published, NOTHING, 0, None)
    p = _binomial(sum(holds), count)
    verdict = Verdict.NOT_SHOWN if p > _CHANCE else Verdict.YES if 2 * sum(holds) > count else Verdict.NO
    share = sum(holds) / count
    enough = (n for n in range(count + 1, MOST_SEEDS + 1) if _binomial(round(share * n), n) <= _CHANCE)
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
            needed = seeds_needed(found, _nearer(found, band), MOST_SEEDS)
            (inside if band.low <= found.mean <= band.high else outside).append(needed)
    return min(outside) if outside else max(inside)


def _nearer(found: Interval, band: Band) -> float:
    """Return the bound that is nearer to the mean."""
    return min(band, key=lambda bound: abs(bound - found.mean))


# ---------------------------------------------------------------- rows that no run decides


def by_construction(claim: Claim) -> Claim:
    """Return a row that checks a configuration, or what is true by construction."""
    return claim._replace(kind=Kind.CONSTRUCTION, p=None, to_decide=None)


def in_print(text: str, where: str, published: str, derived: str, *, holds: bool) -> Claim:
    """Return a row on what the paper's own print says of a claim; ``derived``: from which numbers."""
    return Claim(text, where, published, derived, 0, Verdict.YES if holds else Verdict.NO, kind=Kind.PRINT)


def predicted(text: str, where: str, published: str, measured: str, *, holds: bool) -> Claim:
    """Return a row on what a model predicts, such as the order of slowdowns that a paper has measured."""
    return Claim(text, where, published, measured, 0, Verdict.YES if holds else Verdict.NO, kind=Kind.MODEL)


def not_checkable(text: str, published: str, reason: str, where: str = "") -> Claim:
    """Return a row of what cannot be checked, or is a definition: the reason stands where others have a figure."""
    return Claim(text, where, published, reason, 0, None, kind=Kind.UNCHECKABLE)
