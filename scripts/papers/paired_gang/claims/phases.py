"""The claims on jobs with phases (section 4.2.3 of the paper): C46 to C50."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from scripts.papers.claims import Band, Claim, judged, near_ratio, within
from scripts.papers.figures import Figures, Where, interval_text, percent_text
from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang.claims.dynamic import gain
from scripts.papers.paired_gang.published import QCRD as PUBLISHED_QCRD
from scripts.papers.paired_gang.published import SHARP_CHANGE

LOAD: Final = "0.8"
SHAPES: Final = (ex.QCRD, ex.QCRD_EVEN)
STUCK: Final = 4.5  # quanta in a row with a pair of hungry jobs: more mean that it is not split
POINTS: Final = 2.0  # by which a percentage may be off
_PERCENT: Final = partial(interval_text, factor=100.0)


def phase_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_phases, _stuck, _sharp_change, _dynamic)
    return [claim for part in parts for claim in part(figures)]


def lost(loss: str, *, sharp: bool) -> str:
    """Return the variant of the four copies in which sharing costs so much CPU time, with or without sharp changes."""
    if loss == "0 %" and not sharp:
        return ex.BASE
    return f"lost {loss}{', sharp change' if sharp else ''}"


def _phases(figures: Figures) -> Iterator[Claim]:
    for run_s in ex.RUNS_S:
        for sharp in (False, True):
            where = Where(ex.copies(run_s), ex.PAIRED, lost("0 %", sharp=sharp))
            place = f"{where.workload}{', sharp change' if sharp else ''}"
            found = figures.mean("phase_pairs_low", where)
            text = "C47: quanta with a pair, % of those whose row's job logs up to 40 % CPU, above 50 (our bound)"
            yield judged(text, place, "paired", found, Band.above(0.5), _PERCENT)
            found = figures.mean("phase_pairs_high", where)
            text = "C47: the same where it logs more, below 50 (our bound)"
            yield judged(text, place, "one at a time", found, Band.below(0.5), _PERCENT)


def _stuck(figures: Figures) -> Iterator[Claim]:
    for run_s in ex.RUNS_S:
        for loss in ex.LOSSES_US:
            for sharp in (False, True):
                where = Where(ex.copies(run_s), ex.PAIRED, lost(loss, sharp=sharp))
                found = figures.mean("phase_stuck", where)
                place = f"{where.workload}, {loss} lost{', sharp change' if sharp else ''}"
                if sharp:
                    text = f"C48: longest row of quanta with a pair of two hungry jobs, below {STUCK:g} (our bound)"
                    yield judged(text, place, "split", found, Band.below(STUCK), interval_text)
                else:
                    text = f"C48: longest row of quanta with a pair of two hungry jobs, above {STUCK:g} (our bound)"
                    yield judged(
                        text,
                        place,
                        "sometimes not split",
                        found,
                        Band.above(STUCK),
                        interval_text,
                    )


def _sharp_change(figures: Figures) -> Iterator[Claim]:
    band = (SHARP_CHANGE - POINTS, SHARP_CHANGE + POINTS)
    text = f"C49: mean response with special treatment of sharp changes, %, within {POINTS:g} points"
    for run_s in ex.RUNS_S:
        for loss in ex.LOSSES_US:
            where, base = (Where(ex.copies(run_s), ex.PAIRED, lost(loss, sharp=sharp)) for sharp in (True, False))
            found = figures.change(ex.RESPONSE, where, base)
            yield within(text, f"{where.workload}, {loss} lost", f"about +{SHARP_CHANGE:g}", found, band, percent_text)
    for program in SHAPES:
        for policy in (ex.PAIRED, ex.NODE):
            for change in ("rise", "any"):
                workload = ex.dynamic(program, LOAD)
                found = figures.change(
                    ex.RESPONSE, Where(workload, policy, f"{change} change, dynamic"), Where(workload, policy)
                )
                yield within(
                    f"{text} ({change})", f"{workload}, {policy}", f"about +{SHARP_CHANGE:g}", found, band, percent_text
                )


def _dynamic(figures: Figures) -> Iterator[Claim]:
    for program in SHAPES:
        workload = ex.dynamic(program, LOAD)
        for strict in (ex.STRICT, ex.BARE):
            for policy in (ex.PAIRED, ex.NODE):
                text, found = f"C50: mean response, {strict} / {policy}", gain(figures, workload, strict, policy)
                yield near_ratio(text, workload, PUBLISHED_QCRD, found, told=f"{PUBLISHED_QCRD:g} x")
