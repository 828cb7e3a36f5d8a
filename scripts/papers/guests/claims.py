"""What prototypes gave of guests beside a site's own scheduler, and what is wanted of them, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from scripts.papers.claims import Band, Claim, judged, near_ratio
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.guests import experiment as ex
from scripts.papers.lomarc.experiment import EXACT
from scripts.tables import number

from cosched_emulator.statistics.intervals import Interval

RESPONSE, SLOWDOWN, P99 = "response_s_mean", "bounded_slowdown_10s_mean", "response_s_p99"
WORKS: Final = (ex.W2, *ex.LOGS, ex.NAS)
# Mean response over EASY's in prototypes, before this study: W2 with seeds 1 to 3, one draw of each log, two of the pairs.
PROTOTYPES: Final[Mapping[tuple[str, str], tuple[float, ...]]] = {  # by policy and belief, in the order of `WORKS`
    (ex.GUESTS, EXACT): (0.43, 0.58, 0.43, 0.74, 0.62),
    (ex.OUTLASTING, EXACT): (0.39, 0.53, 0.37, 0.71, 0.57),
    (ex.LOMARC, EXACT): (0.40, 0.52, 0.36, 0.74, 0.60),
    (ex.GUESTS, ex.OPTED["half"]): (0.66, 0.79, 0.59, 0.86, 0.84),
    (ex.GUESTS, ex.OPTED["quarter"]): (0.84, 0.94, 0.75, 0.96),
}
KEPT: Final = 1.10  # mean response over that of a scheduler that shares nodes with all jobs, at most
LONGER: Final = 1.10  # time on nodes over that without sharing, a mean over the jobs that opted in
OF_LEARNED: Final = 1.10  # over exact beliefs
NOTHING_CHANGES: Final = 0.001


def claims(figures: Figures) -> list[Claim]:
    """Return what was found before and what is wanted, each with what was measured."""
    return [*_as_before(figures), *_wanted(figures), *_wrong(figures), *_learned(figures)]


def _as_before(figures: Figures) -> Iterator[Claim]:
    names = ("", " where guests may outlast hosts", " of L-R", ", half opted in", ", a quarter opted in")
    for place, (((policy, belief), ratios), name) in enumerate(zip(PROTOTYPES.items(), names, strict=True), 1):
        for work, ratio in zip(WORKS, ratios, strict=False):
            found = figures.ratio(RESPONSE, Where(work, policy, belief=belief), Where(work, ex.EASY))
            yield near_ratio(f"A{place}: mean response{name} over EASY's", work, ratio, found)


def _wanted(figures: Figures) -> Iterator[Claim]:
    for work in WORKS:
        own, base = Where(work, ex.GUESTS), Where(work, ex.EASY)
        yield _at_most(
            "A6: mean response over that of L-R", work, figures.ratio(RESPONSE, own, Where(work, ex.LOMARC)), KEPT
        )
        yield _at_most("A7: mean bounded slowdown over EASY's", work, figures.ratio(SLOWDOWN, own, base), 1.0)
        yield _at_most("A8: response p99 over EASY's", work, figures.ratio(P99, own, base), 1.0)
    for work in WORKS:
        for name, belief in ex.OPTED.items():
            own, base, column = (
                Where(work, ex.GUESTS, belief=belief),
                Where(work, ex.EASY),
                f"{name}_others_response_s",
            )
            text = "A9: mean response of those who did not opt in, over EASY's"
            yield _at_most(text, f"{work}, {belief}", figures.ratio(column, own, base), 1.0)
        half = Where(work, ex.GUESTS, belief=ex.OPTED["half"])
        text = "A10: time on nodes of those who opted in over that under EASY, half opted in"
        yield _at_most(text, work, figures.ratio("half_in_longer", half, Where(work, ex.EASY)), LONGER)
    for name in (ex.GUESTS, ex.OUTLASTING):
        found = figures.difference("harm_h1", Where(ex.W2, name), Where(ex.W2, ex.PSS))
        yield _at_most("A11: H1 less that of PSS, which shares nothing", f"{ex.W2}, {name}", found, 0.0)


def _wrong(figures: Figures) -> Iterator[Claim]:
    base = Where(ex.W2, ex.EASY)
    for belief in ex.WRONG:
        for policy in (ex.GUESTS, ex.SMALL_BUDGET, ex.ANY_PRICE, ex.LOMARC):
            found = figures.ratio(RESPONSE, Where(ex.W2, policy, belief=belief), base)
            text = "A12: mean response over EASY's, where what is believed is wrong"
            yield judged(text, f"{ex.W2}, {belief}, {policy}", "above 1", found, Band.above(1.0), interval_text)


def _learned(figures: Figures) -> Iterator[Claim]:
    own = Where(ex.NAS, ex.LEARNED, belief=ex.UNKNOWN)
    yield _at_most(
        "A13: learned beliefs, mean response over that of exact ones",
        ex.NAS,
        figures.ratio(RESPONSE, own, Where(ex.NAS, ex.GUESTS)),
        OF_LEARNED,
    )
    found = figures.ratio(RESPONSE, Where(ex.NAS, ex.GUESTS, belief=ex.UNKNOWN), Where(ex.NAS, ex.EASY))
    band = (1 - NOTHING_CHANGES, 1 + NOTHING_CHANGES)
    yield judged(
        "A14: nothing known, mean response over EASY's", ex.NAS, "1: no guest", found, Band(*band), interval_text
    )


def _at_most(text: str, where: str, found: Interval | None, most: float) -> Claim:
    return judged(text, where, f"at most {number(most)}", found, Band.below(most), interval_text)
