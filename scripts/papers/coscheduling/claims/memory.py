"""The claims on allocation that knows the jobs' memory (X6): C36 to C42."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from scripts.papers.claims import Band, Claim, judged, near
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling import published as printed
from scripts.papers.coscheduling.claims.common import ascending, cell, cells, in_order, mean_change, place
from scripts.papers.figures import Figures, Where

SIX: Final = (*ex.DRIVEN, ex.GANG)
READINGS: Final = (ex.MIXED, ex.ALL_STRICT)


def memory_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_unaware, _gain, _aware, _speed_up, _why)
    return [claim for part in parts for claim in part(figures)]


def batch(reading: ex.Reading = ex.MIXED) -> Where:
    """Return the runs of batch: it has one job on a node, so memory makes no difference."""
    return Where(ex.AWARE, reading.of(ex.BATCH))


def _unaware(figures: Figures) -> Iterator[Claim]:
    for reading in READINGS:
        groups = [[batch(reading)], cells(ex.UNAWARE, reading, SIX)]
        text = "C36: mean response, batch the shortest"
        yield ascending(figures, text, place(ex.UNAWARE, reading), ex.RESPONSE, groups, "shortest")


def _gain(figures: Figures) -> Iterator[Claim]:
    pairs = {name: (cell(ex.AWARE, name), cell(ex.UNAWARE, name)) for name in SIX}
    changes = {name: figures.change(ex.RESPONSE, *pair) for name, pair in pairs.items()}
    changes["mean of these"] = mean_change(figures, ex.RESPONSE, [*pairs.values()])
    for name, found in changes.items():
        text = f"C37: mean response, aware against not, {name}, %, below {printed.MEMORY_AWARE:g}"
        where = place("X6", ex.MIXED)
        yield judged(text, where, "over 35 % less", found, Band.below(printed.MEMORY_AWARE))


def _aware(figures: Figures) -> Iterator[Claim]:
    for reading in READINGS:
        rest = [name for name in SIX if name != ex.HYBRID]
        groups = [cells(ex.AWARE, reading, [ex.HYBRID]), [*cells(ex.AWARE, reading, rest), batch(reading)]]
        text = "C38: mean response, HYBRID the shortest"
        yield ascending(figures, text, place(ex.AWARE, reading), ex.RESPONSE, groups, "shortest")
        found = figures.change(ex.RESPONSE, cell(ex.AWARE, ex.HYBRID, reading), batch(reading))
        yield near("C38: mean response, HYBRID against batch, %", place(ex.AWARE, reading), printed.MEMORY_BATCH, found)
        groups = [cells(ex.AWARE, reading, ex.BLOCKING), [batch(reading)]]
        text = "C42: mean response, blocking policies below batch"
        yield ascending(figures, text, place(ex.AWARE, reading), ex.RESPONSE, groups)
    few = figures.ratios(ex.RESPONSE, cell(ex.AWARE, ex.HYBRID), batch())
    many = figures.ratios(ex.RESPONSE, cell(ex.AWARE_100, ex.HYBRID), cell(ex.AWARE_100, ex.BATCH))
    text = "C39: mean response, HYBRID / batch, lower with 100 jobs than with 20"
    groups_of = [{"100 jobs": many}, {"20 jobs": few}]
    yield in_order(text, place("X6 aware", ex.MIXED), "would grow", groups_of)


def speed_up(figures: Figures, figure: str, policy: str) -> Mapping[int, float]:
    """Return by seed a figure without awareness over that with it."""
    return figures.ratios(figure, cell(ex.UNAWARE, policy), cell(ex.AWARE, policy))


def _speed_up(figures: Figures) -> Iterator[Claim]:
    for key, name in ((ex.EXECUTION, "execution"), (ex.WAIT, "wait")):
        lower = {policy: speed_up(figures, key, policy) for policy in (ex.NLS, ex.PB, ex.DCS, ex.GANG)}
        higher = {policy: speed_up(figures, key, policy) for policy in (ex.CC, ex.SB, ex.HYBRID)}
        text = f"C40: mean {name}, not aware / aware, blocking policies the highest"
        yield in_order(text, place("X6", ex.MIXED), "highest", [lower, higher])


def _why(figures: Figures) -> Iterator[Claim]:
    for key, name in ((ex.SWITCHES, "switches"), (ex.SWAPPED, "MB swapped")):
        groups = [cells(ex.UNAWARE, ex.MIXED, ex.SPINNING), cells(ex.UNAWARE, ex.MIXED, ex.BLOCKING)]
        text = f"C41: {name} a second of CPU time, spinning below blocking"
        yield ascending(figures, text, place(ex.UNAWARE, ex.MIXED), key, groups, "more often")
