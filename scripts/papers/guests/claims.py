"""What prototypes gave of guests beside a site's own scheduler, and what is wanted of them, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scripts.papers.claims import Band
from scripts.papers.guests import experiment as ex
from scripts.papers.lomarc.experiment import EXACT
from scripts.papers.rows import Row, block, cell, difference, judging, near_ratio, ratio, row
from scripts.tables import number

RESPONSE, SLOWDOWN, P99 = "response_s_mean", "bounded_slowdown_10s_mean", "response_s_p99"
WORKS: Final = (ex.W2, *ex.LOGS, ex.NAS)
# Mean response over EASY's in prototypes, before this study: W2 with seeds 1 to 3, one draw of each log, two of the pairs.
PROTOTYPES: Final[Mapping[tuple[str, str, str, str], tuple[float, ...]]] = {  # ratios in the order of `WORKS`
    ("A1", "", ex.GUESTS, EXACT): (0.43, 0.58, 0.43, 0.74, 0.62),
    ("A2", " where guests may outlast hosts", ex.OUTLASTING, EXACT): (0.39, 0.53, 0.37, 0.71, 0.57),
    ("A3", " of L-R", ex.LOMARC, EXACT): (0.40, 0.52, 0.36, 0.74, 0.60),
    ("A4", ", half opted in", ex.GUESTS, ex.OPTED["half"]): (0.66, 0.79, 0.59, 0.86, 0.84),
    ("A5", ", a quarter opted in", ex.GUESTS, ex.OPTED["quarter"]): (0.84, 0.94, 0.75, 0.96),
}


def at_most(text: str, figure: Any, most: float, **each: Any) -> Row:
    """Return what is wanted to be at most so much."""
    return row(text, figure, Band.below(most), f"at most {number(most)}", **each)


def _before(case: Any, work: str, **_: Any) -> float:
    return PROTOTYPES[case][WORKS.index(work)]


_EASY = cell(ex.EASY, belief=None)
_HALF = cell(ex.GUESTS, belief=ex.OPTED["half"])
# fmt: off
claims: Final = judging((
    row("{case[0]}: mean response{case[1]} over EASY's", ratio(RESPONSE, cell("{case[2]}", belief="{case[3]}"), ex.EASY),
        near_ratio(_before), case=PROTOTYPES, work=lambda case: WORKS[: len(PROTOTYPES[case])]),
    block(
        at_most("A6: mean response over that of L-R", ratio(RESPONSE, ex.GUESTS, ex.LOMARC), 1.10),
        at_most("A7: mean bounded slowdown over EASY's", ratio(SLOWDOWN, ex.GUESTS, ex.EASY), 1.0),
        at_most("A8: response p99 over EASY's", ratio(P99, ex.GUESTS, ex.EASY), 1.0),
        work=WORKS),
    block(
        at_most("A9: mean response of those who did not opt in, over EASY's", ratio("{name}_others_response_s", ex.GUESTS, _EASY), 1.0,
            at="{work}, {belief}", name=ex.OPTED, belief=lambda name, **_: [ex.OPTED[name]]),
        at_most("A10: time on nodes of those who opted in over that under EASY, half opted in",
            ratio("half_in_longer", _HALF, ex.EASY), 1.10),
        work=WORKS),
    at_most("A11: H1 less that of PSS, which shares nothing", difference("harm_h1", "{policy}", ex.PSS), 0.0, at="{work}, {policy}",
        work=ex.W2, policy=(ex.GUESTS, ex.OUTLASTING)),
    row("A12: mean response over EASY's, where what is believed is wrong", ratio(RESPONSE, "{policy}", _EASY), Band.above(1.0),
        "above 1", at="{work}, {belief}, {policy}", work=ex.W2, belief=ex.WRONG,
        policy=(ex.GUESTS, ex.SMALL_BUDGET, ex.ANY_PRICE, ex.LOMARC)),
    at_most("A13: learned beliefs, mean response over that of exact ones",
        ratio(RESPONSE, cell(ex.LEARNED, belief=ex.UNKNOWN), ex.GUESTS), 1.10, work=ex.NAS),
    row("A14: nothing known, mean response over EASY's", ratio(RESPONSE, cell(ex.GUESTS, belief=ex.UNKNOWN), ex.EASY),
        Band(1 - 0.001, 1 + 0.001), "1: no guest", work=ex.NAS),
))
# fmt: on
