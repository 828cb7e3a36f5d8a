"""The claims on response and waiting times of the NAS workloads: C1 to C8, C12 to C16, C18, C19, C45 to C47."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from scripts.papers.claims import Band, Claim, Of, judged, near, near_ratio, quarter, within
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling import published as printed
from scripts.papers.coscheduling.claims.common import (
    above,
    ascending,
    below,
    cell,
    cells,
    chosen,
    driven,
    mean_change,
    others,
    place,
    placements,
    rank_correlation,
    saving_text,
)
from scripts.papers.figures import Figures, Where, interval_text

LOADS: Final = (ex.HIGH, ex.LIGHT)
MUCH: Final = 2.0  # times: what counts as much longer, our bound
SAME_ORDER: Final = 0.5  # rank correlation above which an order counts as the same, our bound
ORDER_OF_MAGNITUDE: Final = 10.0
QUEUES: Final[tuple[tuple[str, ex.Reading], ...]] = (
    (ex.SKIP, ex.MIXED),
    (ex.STRICT, ex.ALL_STRICT),
)  # where batch does not matter
_SHARE: Final = partial(interval_text, factor=100.0)


def response_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_packing, _worst, _waits, _loads, _best, _against_batch, _against_gang, _blocking, _gang_and_batch)
    return [claim for part in parts for claim in part(figures)]


def _packing(figures: Figures) -> Iterator[Claim]:
    for workload, row in ((ex.HIGH, "C1"), (ex.LIGHT, "C2")):
        for queue, reading in QUEUES if workload == ex.HIGH else QUEUES[:1]:
            names = driven(reading) if workload == ex.HIGH else ex.DRIVEN
            pairs = {name: placements(workload, name, reading) for name in names}
            changes = {name: figures.change(ex.RESPONSE, *pair) for name, pair in pairs.items()}
            changes["mean of these"] = mean_change(figures, ex.RESPONSE, [*pairs.values()])
            for name, found in changes.items():
                text, where = f"{row}: mean response, {name}, P against NP, %", f"{workload}; {queue}"
                if workload == ex.HIGH:
                    yield near(text, where, printed.PACKING, found)
                else:
                    yield judged(f"{text}, below 0", where, "helps", found, Band.below())


def _worst(figures: Figures) -> Iterator[Claim]:
    for reading in ex.READINGS:
        rows = [Where(ex.HIGH, reading.of(name, at)) for at in ex.PLACEMENTS for name in driven(reading)]
        rows += cells(ex.HIGH, reading, (ex.GANG, ex.BATCH))
        last = cell(ex.HIGH, ex.NLS, reading, ex.SCATTERED)
        next_to = [cell(ex.HIGH, ex.PB, reading, ex.SCATTERED), cell(ex.HIGH, ex.BATCH, reading)]
        rest = [where for where in rows if where != last]
        text = "C3: mean response, NLS without packing the longest"
        yield ascending(figures, text, place(ex.HIGH, reading), ex.RESPONSE, [rest, [last]])
        first = [where for where in rest if where not in next_to]
        text = "C4: mean response, next to it PB without packing and batch"
        yield ascending(figures, text, place(ex.HIGH, reading), ex.RESPONSE, [first, next_to, [last]])


def _waits(figures: Figures) -> Iterator[Claim]:
    for workload in (ex.HIGH, ex.LIGHT, ex.LONG, *map(ex.of_class, ex.CLASSES)):
        for reading in ex.READINGS if workload == ex.HIGH else ex.READINGS[:1]:
            if workload in (ex.HIGH, ex.LIGHT):
                names = others(reading, ex.BATCH)
            elif workload == ex.LONG:
                names = [ex.HYBRID, ex.CC, ex.SB, ex.GANG]
            else:
                names = [ex.CC, ex.SB, ex.HYBRID, ex.GANG]
            row = "C23" if workload == ex.LONG else "C5"
            groups = [cells(workload, reading, names), cells(workload, reading, [ex.BATCH])]
            yield ascending(
                figures, f"{row}: mean wait, batch the longest", place(workload, reading), ex.WAIT, groups, "longest"
            )


def _loads(figures: Figures) -> Iterator[Claim]:
    for name in ex.POLICIES:
        found = figures.ratio(ex.RESPONSE, cell(ex.HIGH, name), cell(ex.LIGHT, name))
        yield above(
            f"C6: mean response, X1 / X2, {name}, above {MUCH:g} (our bound)", ex.MIXED.name, "much longer", found, MUCH
        )
    for name in ex.POLICIES:
        for workload in LOADS:
            found, where = figures.mean(ex.WAIT_SHARE, cell(workload, name)), place(workload, ex.MIXED)
            if workload == ex.HIGH:
                text = f"C7: wait, % of response, {name}, above 50 (our bound)"
                yield above(text, where, "dominates", found, 0.5)._replace(measured=_SHARE(found))
            else:
                text = f"C7: wait, % of response, {name}, below 50 (our bound)"
                yield below(text, where, "execution shows", found, 0.5)._replace(measured=_SHARE(found))
    rows = [
        (figures.values(ex.RESPONSE, cell(ex.HIGH, *at)), figures.values(ex.RESPONSE, cell(ex.LIGHT, *at)))
        for at in [(name, ex.MIXED, kind) for kind in ex.PLACEMENTS for name in ex.DRIVEN]
        + [(ex.GANG, ex.MIXED), (ex.BATCH, ex.MIXED)]
    ]
    text = f"C8: rank correlation of mean responses at both loads, above {SAME_ORDER:g} (our bound)"
    yield above(text, ex.MIXED.name, "same order", rank_correlation(rows), SAME_ORDER)


def _best(figures: Figures) -> Iterator[Claim]:
    for workload in LOADS:
        for reading in ex.READINGS if workload == ex.HIGH else ex.READINGS[:1]:
            groups = [cells(workload, reading, [ex.HYBRID]), cells(workload, reading, others(reading, ex.HYBRID))]
            text = "C12: mean response, HYBRID the shortest"
            yield ascending(figures, text, place(workload, reading), ex.RESPONSE, groups, "shortest")


def _against_batch(figures: Figures) -> Iterator[Claim]:
    for workload in LOADS:
        for reading in ex.READINGS if workload == ex.HIGH else ex.READINGS[:1]:
            for name in chosen(reading, (ex.GANG, ex.CC, ex.SB)):
                found = figures.ratio(ex.RESPONSE, cell(workload, name, reading), cell(workload, ex.BATCH, reading))
                text = f"C13: mean response, {name} / batch, below 1"
                yield below(text, place(workload, reading), "better", found)
    for reading in ex.READINGS:
        found = figures.ratio(ex.RESPONSE, cell(ex.HIGH, ex.BATCH, reading), cell(ex.HIGH, ex.HYBRID, reading))
        band = quarter(printed.AGAINST_BATCH[0], Of.RATIO).low, quarter(printed.AGAINST_BATCH[1], Of.RATIO).high
        text = f"C15: mean response, batch / HYBRID, {band[0]:g} to {band[1]:g}"
        yield within(text, place(ex.HIGH, reading), '"300 %": 3 or 4 x', found, band, saving_text)
        text = f"C47: mean response, batch / HYBRID, above {ORDER_OF_MAGNITUDE:g}"
        yield above(text, place(ex.HIGH, reading), "orders of magnitude", found, ORDER_OF_MAGNITUDE)


def _against_gang(figures: Figures) -> Iterator[Claim]:
    for queue, reading in QUEUES:
        found = figures.change(ex.RESPONSE, cell(ex.HIGH, ex.HYBRID, reading), cell(ex.HIGH, ex.GANG, reading))
        yield near("C16: mean response, HYBRID against gang, %", f"{ex.HIGH}; {queue}", printed.AGAINST_GANG, found)
    for workload in (ex.HIGH, ex.LIGHT, ex.LONG, *map(ex.of_class, ex.CLASSES), ex.UNAWARE, ex.AWARE):
        found = figures.ratio(ex.RESPONSE, cell(workload, ex.HYBRID), cell(workload, ex.GANG))
        yield below("C45: mean response, HYBRID / gang, below 1", f"{workload}; {ex.SKIP}", "in all experiments", found)


def _blocking(figures: Figures) -> Iterator[Claim]:
    for workload in (ex.HIGH, ex.LIGHT, ex.UNAWARE, ex.AWARE):
        for queue, reading in QUEUES if workload == ex.HIGH else QUEUES[:1]:
            for at in ex.PLACEMENTS if workload in LOADS else (ex.PACKED,):
                groups = [cells(workload, reading, ex.BLOCKING, at), cells(workload, reading, (ex.DCS, ex.PB), at)]
                text = "C18: mean response, blocking below spinning"
                yield ascending(figures, text, f"{workload}; {queue}", ex.RESPONSE, groups, "in all workloads")
    for name in (ex.HYBRID, ex.SB):
        for at in ex.PLACEMENTS:
            pair = [cell(ex.HIGH, policy, ex.MIXED, at) for policy in (name, ex.PB)]
            published = printed.row_3(name, at).run_s / printed.row_3(ex.PB, at).run_s
            text = f"C19: running time, {name} / PB, {at}"
            yield near_ratio(text, f"{ex.HIGH}; {ex.SKIP}", published, figures.ratio(ex.RUN, *pair))
            text = f"C19: mean response, {name} / PB, {at}, below 1"
            yield below(text, f"{ex.HIGH}; {ex.SKIP}", "significantly", figures.ratio(ex.RESPONSE, *pair))


def _gang_and_batch(figures: Figures) -> Iterator[Claim]:
    for workload in (ex.HIGH, ex.LIGHT, ex.LONG, *map(ex.of_class, ex.CLASSES), ex.AWARE):
        for reading in ex.READINGS if workload == ex.HIGH else ex.READINGS[:1]:
            found = figures.ratio(ex.RESPONSE, cell(workload, ex.GANG, reading), cell(workload, ex.BATCH, reading))
            yield below("C46: mean response, gang / batch, below 1", place(workload, reading), "better", found)
