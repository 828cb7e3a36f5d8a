"""The claims on response and waiting times of the NAS workloads: C1 to C8, C12 to C16, C18, C19, C45 to C47."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from scripts.papers.claims import Band, Claim, Of, judged, near, near_ratio, quarter, within
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
from scripts.papers.coscheduling.names import (
    ALL_STRICT,
    AWARE,
    BATCH,
    BLOCKING,
    CC,
    CLASSES,
    DCS,
    DRIVEN,
    GANG,
    HIGH,
    HYBRID,
    LIGHT,
    LONG,
    MIXED,
    NLS,
    PACKED,
    PB,
    PLACEMENTS,
    POLICIES,
    READINGS,
    RESPONSE,
    RUN,
    SB,
    SCATTERED,
    SKIP,
    STRICT,
    UNAWARE,
    WAIT,
    WAIT_SHARE,
    Reading,
    of_class,
)
from scripts.papers.coscheduling.published import AGAINST_BATCH, AGAINST_GANG, PACKING, row_3
from scripts.papers.figures import Figures, Where, interval_text

LOADS: Final = (HIGH, LIGHT)
MUCH: Final = 2.0  # times: what counts as much longer, our bound
SAME_ORDER: Final = 0.5  # rank correlation above which an order counts as the same, our bound
ORDER_OF_MAGNITUDE: Final = 10.0
QUEUES: Final[tuple[tuple[str, Reading], ...]] = ((SKIP, MIXED), (STRICT, ALL_STRICT))  # where batch does not matter
_SHARE: Final = partial(interval_text, factor=100.0)


def response_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_packing, _worst, _waits, _loads, _best, _against_batch, _against_gang, _blocking, _gang_and_batch)
    return [claim for part in parts for claim in part(figures)]


def _packing(figures: Figures) -> Iterator[Claim]:
    for workload, row in ((HIGH, "C1"), (LIGHT, "C2")):
        for queue, reading in QUEUES if workload == HIGH else QUEUES[:1]:
            names = driven(reading) if workload == HIGH else DRIVEN
            pairs = {name: placements(workload, name, reading) for name in names}
            changes = {name: figures.change(RESPONSE, *pair) for name, pair in pairs.items()}
            changes["mean of these"] = mean_change(figures, RESPONSE, [*pairs.values()])
            for name, found in changes.items():
                text, where = f"{row}: mean response, {name}, P against NP, %", f"{workload}; {queue}"
                if workload == HIGH:
                    yield near(text, where, PACKING, found)
                else:
                    yield judged(f"{text}, below 0", where, "helps", found, Band.below())


def _worst(figures: Figures) -> Iterator[Claim]:
    for reading in READINGS:
        rows = [Where(HIGH, reading.of(name, at)) for at in PLACEMENTS for name in driven(reading)]
        rows += cells(HIGH, reading, (GANG, BATCH))
        last = cell(HIGH, NLS, reading, SCATTERED)
        next_to = [cell(HIGH, PB, reading, SCATTERED), cell(HIGH, BATCH, reading)]
        rest = [where for where in rows if where != last]
        text = "C3: mean response, NLS without packing the longest"
        yield ascending(figures, text, place(HIGH, reading), RESPONSE, [rest, [last]])
        first = [where for where in rest if where not in next_to]
        text = "C4: mean response, next to it PB without packing and batch"
        yield ascending(figures, text, place(HIGH, reading), RESPONSE, [first, next_to, [last]])


def _waits(figures: Figures) -> Iterator[Claim]:
    for workload in (HIGH, LIGHT, LONG, *map(of_class, CLASSES)):
        for reading in READINGS if workload == HIGH else READINGS[:1]:
            if workload in (HIGH, LIGHT):
                names = others(reading, BATCH)
            elif workload == LONG:
                names = [HYBRID, CC, SB, GANG]
            else:
                names = [CC, SB, HYBRID, GANG]
            row = "C23" if workload == LONG else "C5"
            groups = [cells(workload, reading, names), cells(workload, reading, [BATCH])]
            yield ascending(
                figures, f"{row}: mean wait, batch the longest", place(workload, reading), WAIT, groups, "longest"
            )


def _loads(figures: Figures) -> Iterator[Claim]:
    for name in POLICIES:
        found = figures.ratio(RESPONSE, cell(HIGH, name), cell(LIGHT, name))
        yield above(
            f"C6: mean response, X1 / X2, {name}, above {MUCH:g} (our bound)", MIXED.name, "much longer", found, MUCH
        )
    for name in POLICIES:
        for workload in LOADS:
            found, where = figures.mean(WAIT_SHARE, cell(workload, name)), place(workload, MIXED)
            if workload == HIGH:
                text = f"C7: wait, % of response, {name}, above 50 (our bound)"
                yield above(text, where, "dominates", found, 0.5)._replace(measured=_SHARE(found))
            else:
                text = f"C7: wait, % of response, {name}, below 50 (our bound)"
                yield below(text, where, "execution shows", found, 0.5)._replace(measured=_SHARE(found))
    rows = [
        (figures.values(RESPONSE, cell(HIGH, *at)), figures.values(RESPONSE, cell(LIGHT, *at)))
        for at in [(name, MIXED, kind) for kind in PLACEMENTS for name in DRIVEN] + [(GANG, MIXED), (BATCH, MIXED)]
    ]
    text = f"C8: rank correlation of mean responses at both loads, above {SAME_ORDER:g} (our bound)"
    yield above(text, MIXED.name, "same order", rank_correlation(rows), SAME_ORDER)


def _best(figures: Figures) -> Iterator[Claim]:
    for workload in LOADS:
        for reading in READINGS if workload == HIGH else READINGS[:1]:
            groups = [cells(workload, reading, [HYBRID]), cells(workload, reading, others(reading, HYBRID))]
            text = "C12: mean response, HYBRID the shortest"
            yield ascending(figures, text, place(workload, reading), RESPONSE, groups, "shortest")


def _against_batch(figures: Figures) -> Iterator[Claim]:
    for workload in LOADS:
        for reading in READINGS if workload == HIGH else READINGS[:1]:
            for name in chosen(reading, (GANG, CC, SB)):
                found = figures.ratio(RESPONSE, cell(workload, name, reading), cell(workload, BATCH, reading))
                text = f"C13: mean response, {name} / batch, below 1"
                yield below(text, place(workload, reading), "better", found)
    for reading in READINGS:
        found = figures.ratio(RESPONSE, cell(HIGH, BATCH, reading), cell(HIGH, HYBRID, reading))
        band = quarter(AGAINST_BATCH[0], Of.RATIO).low, quarter(AGAINST_BATCH[1], Of.RATIO).high
        text = f"C15: mean response, batch / HYBRID, {band[0]:g} to {band[1]:g}"
        yield within(text, place(HIGH, reading), '"300 %": 3 or 4 x', found, band, saving_text)
        text = f"C47: mean response, batch / HYBRID, above {ORDER_OF_MAGNITUDE:g}"
        yield above(text, place(HIGH, reading), "orders of magnitude", found, ORDER_OF_MAGNITUDE)


def _against_gang(figures: Figures) -> Iterator[Claim]:
    for queue, reading in QUEUES:
        found = figures.change(RESPONSE, cell(HIGH, HYBRID, reading), cell(HIGH, GANG, reading))
        yield near("C16: mean response, HYBRID against gang, %", f"{HIGH}; {queue}", AGAINST_GANG, found)
    for workload in (HIGH, LIGHT, LONG, *map(of_class, CLASSES), UNAWARE, AWARE):
        found = figures.ratio(RESPONSE, cell(workload, HYBRID), cell(workload, GANG))
        yield below("C45: mean response, HYBRID / gang, below 1", f"{workload}; {SKIP}", "in all experiments", found)


def _blocking(figures: Figures) -> Iterator[Claim]:
    for workload in (HIGH, LIGHT, UNAWARE, AWARE):
        for queue, reading in QUEUES if workload == HIGH else QUEUES[:1]:
            for at in PLACEMENTS if workload in LOADS else (PACKED,):
                groups = [cells(workload, reading, BLOCKING, at), cells(workload, reading, (DCS, PB), at)]
                text = "C18: mean response, blocking below spinning"
                yield ascending(figures, text, f"{workload}; {queue}", RESPONSE, groups, "in all workloads")
    for name in (HYBRID, SB):
        for at in PLACEMENTS:
            pair = [cell(HIGH, policy, MIXED, at) for policy in (name, PB)]
            published = row_3(name, at).run_s / row_3(PB, at).run_s
            text = f"C19: running time, {name} / PB, {at}"
            yield near_ratio(text, f"{HIGH}; {SKIP}", published, figures.ratio(RUN, *pair))
            text = f"C19: mean response, {name} / PB, {at}, below 1"
            yield below(text, f"{HIGH}; {SKIP}", "significantly", figures.ratio(RESPONSE, *pair))


def _gang_and_batch(figures: Figures) -> Iterator[Claim]:
    for workload in (HIGH, LIGHT, LONG, *map(of_class, CLASSES), AWARE):
        for reading in READINGS if workload == HIGH else READINGS[:1]:
            found = figures.ratio(RESPONSE, cell(workload, GANG, reading), cell(workload, BATCH, reading))
            yield below("C46: mean response, gang / batch, below 1", place(workload, reading), "better", found)
