"""The claims of papers: rows of their pages, and the rule by which all of them are judged (by `scripts.papers.rows` alone).

A claim says that a figure lies in a band (`Band`). It holds or fails if it does so at every value of the figure's 95 % interval; else
it is not shown. No interval, no verdict. One on several figures fails if one does at the level that Bonferroni's correction for their
number asks for. *Within a quarter* is `quarter`, on all pages.

A paper prints the outcome of one sample of jobs, or the mean of a few. Where our mean fails a band around what is printed, and such a
sample of ours might still give what is printed, the claim does not fail: it is within sampling.

Besides the verdict a row has

- ``sampling``: where such a sample of ours would lie in 95 % of cases (`prediction`).
- ``p``: twice the probability that chance alone gives a figure as far on its side of the band's nearer bound (Student's t on the scale
  of the interval), or a sample as far from what is printed, if that is more likely; at most 0.05 wherever the verdict is *yes* or *no*.
  `scripts.verdicts` puts Holm's correction on the p of a page.
- ``to decide``: of a row that is not shown the number of seeds at which the half width of the interval is below the distance from the
  mean to the nearer bound, if mean and spread stay as measured.

What no run decides is no claim and is not counted: what holds by construction, what the paper's own print or a model without seeds
decides, and what cannot be checked. Each has a row with its reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import Enum, StrEnum
from functools import partial
from typing import Final, NamedTuple

from scripts.tables import NOTHING, number, table_head, table_row

from cosched_emulator.statistics.intervals import Interval, Verdict, verdict_above, verdict_below, verdict_within

NOT_RUN: Final = "not run"
WITHIN: Final = "within sampling"
PREDICTED, NOT_PREDICTED = "predicted", "**not predicted**"
CLAIMS_HEAD: Final = ("id", "claim", "", "published", "measured", "sampling", "seeds", "p", "to decide", "verdict")
MOST_SEEDS: Final = 1_000  # beyond, the mean lies at the bound
VERDICTS: Final = (
    "*Measured* is the mean over seeds (the geometric mean of changes and of ratios), with its 95 % confidence interval in"
    " parentheses. The *verdict* is *yes* if the claim holds at every value of the interval, *no* if it fails at every value (of one"
    " of several figures, after Bonferroni's correction), and else *not shown*, as with one seed. A claim that a figure is as"
    " published holds within a band around the published figure. The band of a change or a ratio reaches a quarter of the effect"
    " (the change, or ratio - 1) to either side, and at least two points; the band of a plain level reaches a quarter of the level"
    " to either side. *Sampling* is where a single sample of our jobs would lie in 95 % of cases, as a paper prints a single sample."
    " If the published figure lies there, a claim that would fail is *within sampling*. *p* is the probability of such a verdict by"
    " chance alone. *(Holm)* marks verdicts that stand after Holm's correction for all rows of the page. *To decide* is the number"
    " of seeds that would decide the row, with the same mean and spread."
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
    is published: a quarter of nothing would be nothing. Where two points or more are published, it ends half way to no effect.
    """
    if of is Of.LEVEL:
        half = QUARTER * abs(published)
        return Band(published - half, published + half)
    point = 1.0 if of is Of.CHANGE else 0.01
    effect = published - of.value
    half = max(LEAST * point, QUARTER * abs(effect)) if effect else ALMOST * point
    nearer = min(half, abs(effect) / 2) if abs(effect) >= LEAST * point else half
    return Band(published - (nearer if effect > 0 else half), published + (nearer if effect < 0 else half))


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
    sampling: str = NOTHING  # where a sample of ours would lie
    sampled: bool = False  # the verdict is *no*, and what is published lies there: within sampling

    @property
    def ids(self) -> str:
        """Return its ids as they stand before the text; empty for a claim that no list has."""
        match = CLAIM_IDS.match(self.text)
        return match[1] if match else ""

    @property
    def row(self) -> str:
        """Return the row of the table."""
        text = self.text[len(self.ids) + 2 :] if self.ids else self.text
        counts = (str(self.seeds or NOTHING), _p_text(self.p), self._to_decide())
        cells = (self.published, self.measured, self.sampling, *counts, self.word)
        return table_row((self.ids or NOTHING, text, self.where), cells)

    def _to_decide(self) -> str:
        if self.kind is not Kind.CLAIM or self.verdict is not Verdict.NOT_SHOWN:
            return NOTHING
        if self.to_decide is None:
            return "2 or more" if self.seeds == 1 else NOTHING
        return number(self.to_decide) if self.to_decide <= MOST_SEEDS else "none: the mean lies at the bound"

    @property
    def word(self) -> str:
        """Return the verdict for people."""
        if self.kind is Kind.UNCHECKABLE:
            return str(self.kind)
        if self.verdict is None:
            return NOT_RUN
        if self.sampled:
            return WITHIN
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


# ---------------------------------------------------------------- rows that no run decides


def by_construction(claim: Claim) -> Claim:
    """Return a row that checks a configuration, or what is true by construction."""
    return claim._replace(kind=Kind.CONSTRUCTION, p=None, to_decide=None, sampling=NOTHING, sampled=False)


def built(
    text: str, where: str = "", published: str = "", measured: str = NOTHING, *, holds: bool | None = True
) -> Claim:
    """Return a row on what is true by construction, or is not, which would be a defect; None: nothing has run."""
    verdict = None if holds is None else Verdict.YES if holds else Verdict.NO
    return Claim(text, where, published, measured, 0, verdict, kind=Kind.CONSTRUCTION)


def _decided(kind: Kind, text: str, where: str, published: str, measured: str, *, holds: bool) -> Claim:
    return Claim(text, where, published, measured, 0, Verdict.YES if holds else Verdict.NO, kind=kind)


# Rows on what the paper's own print says of a claim, as derived from its numbers; and on what a model predicts, such as the order of
# slowdowns that a paper has measured.
in_print, predicted = partial(_decided, Kind.PRINT), partial(_decided, Kind.MODEL)


def not_checkable(text: str, published: str, reason: str, where: str = "") -> Claim:
    """Return a row of what cannot be checked, or is a definition: the reason stands where others have a figure."""
    return Claim(text, where, published, reason, 0, None, kind=Kind.UNCHECKABLE)
