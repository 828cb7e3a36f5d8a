"""The claims on allocation that knows the jobs' memory (X6): C36 to C42."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from scripts.papers.claims import Band, Claim, judged, near
from scripts.papers.coscheduling.claims.common import ascending, cell, cells, in_order, mean_change, place
from scripts.papers.coscheduling.names import (
    ALL_STRICT,
    AWARE,
    AWARE_100,
    BATCH,
    BLOCKING,
    CC,
    DCS,
    DRIVEN,
    EXECUTION,
    GANG,
    HYBRID,
    MIXED,
    NLS,
    PB,
    RESPONSE,
    SB,
    SPINNING,
    SWAPPED,
    SWITCHES,
    UNAWARE,
    WAIT,
    Reading,
)
from scripts.papers.coscheduling.published import MEMORY_AWARE, MEMORY_BATCH
from scripts.papers.figures import Figures, Where

SIX: Final = (*DRIVEN, GANG)
READINGS: Final = (MIXED, ALL_STRICT)


def memory_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_unaware, _gain, _aware, _speed_up, _why)
    return [claim for part in parts for claim in part(figures)]


def batch(reading: Reading = MIXED) -> Where:
    """Return the runs of batch: it has one job on a node, so memory makes no difference."""
    return Where(AWARE, reading.of(BATCH))


def _unaware(figures: Figures) -> Iterator[Claim]:
    for reading in READINGS:
        groups = [[batch(reading)], cells(UNAWARE, reading, SIX)]
        text = "C36: mean response, batch the shortest"
        yield ascending(figures, text, place(UNAWARE, reading), RESPONSE, groups, "shortest")


def _gain(figures: Figures) -> Iterator[Claim]:
    pairs = {name: (cell(AWARE, name), cell(UNAWARE, name)) for name in SIX}
    changes = {name: figures.change(RESPONSE, *pair) for name, pair in pairs.items()}
    changes["mean of these"] = mean_change(figures, RESPONSE, [*pairs.values()])
    for name, found in changes.items():
        text = f"C37: mean response, aware against not, {name}, %, below {MEMORY_AWARE:g}"
        where = place("X6", MIXED)
        yield judged(text, where, "over 35 % less", found, Band.below(MEMORY_AWARE))


def _aware(figures: Figures) -> Iterator[Claim]:
    for reading in READINGS:
        rest = [name for name in SIX if name != HYBRID]
        groups = [cells(AWARE, reading, [HYBRID]), [*cells(AWARE, reading, rest), batch(reading)]]
        text = "C38: mean response, HYBRID the shortest"
        yield ascending(figures, text, place(AWARE, reading), RESPONSE, groups, "shortest")
        found = figures.change(RESPONSE, cell(AWARE, HYBRID, reading), batch(reading))
        yield near("C38: mean response, HYBRID against batch, %", place(AWARE, reading), MEMORY_BATCH, found)
        groups = [cells(AWARE, reading, BLOCKING), [batch(reading)]]
        text = "C42: mean response, blocking policies below batch"
        yield ascending(figures, text, place(AWARE, reading), RESPONSE, groups)
    few = figures.ratios(RESPONSE, cell(AWARE, HYBRID), batch())
    many = figures.ratios(RESPONSE, cell(AWARE_100, HYBRID), cell(AWARE_100, BATCH))
    text = "C39: mean response, HYBRID / batch, lower with 100 jobs than with 20"
    groups_of = [{"100 jobs": many}, {"20 jobs": few}]
    yield in_order(text, place("X6 aware", MIXED), "would grow", groups_of)


def speed_up(figures: Figures, figure: str, policy: str) -> Mapping[int, float]:
    """Return by seed a figure without awareness over that with it."""
    return figures.ratios(figure, cell(UNAWARE, policy), cell(AWARE, policy))


def _speed_up(figures: Figures) -> Iterator[Claim]:
    for key, name in ((EXECUTION, "execution"), (WAIT, "wait")):
        lower = {policy: speed_up(figures, key, policy) for policy in (NLS, PB, DCS, GANG)}
        higher = {policy: speed_up(figures, key, policy) for policy in (CC, SB, HYBRID)}
        text = f"C40: mean {name}, not aware / aware, blocking policies the highest"
        yield in_order(text, place("X6", MIXED), "highest", [lower, higher])


def _why(figures: Figures) -> Iterator[Claim]:
    for key, name in ((SWITCHES, "switches"), (SWAPPED, "MB swapped")):
        groups = [cells(UNAWARE, MIXED, SPINNING), cells(UNAWARE, MIXED, BLOCKING)]
        text = f"C41: {name} a second of CPU time, spinning below blocking"
        yield ascending(figures, text, place(UNAWARE, MIXED), key, groups, "more often")
