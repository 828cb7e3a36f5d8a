"""The claims on execution and running times, busy time and queues of the NAS workloads, and the conditions that are measured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from scripts.papers.claims import Band, Claim, by_construction, judged, near, within
from scripts.papers.coscheduling.claims.common import (
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
)
from scripts.papers.coscheduling.claims.responses import LOADS, QUEUES
from scripts.papers.coscheduling.names import (
    ALL_SKIP,
    BATCH,
    BUSY,
    CC,
    DRIVEN,
    EASY,
    EXECUTION,
    GANG,
    HIGH,
    HYBRID,
    LIGHT,
    MEMORY_MOST,
    MIXED,
    NLS,
    PLACEMENTS,
    POLICIES,
    READINGS,
    RESIDENTS_MOST,
    RESPONSE,
    RUN,
    SB,
    SKIP,
    STRICT,
    USELESS,
    UTILISATION,
    WAIT_RATIO,
    WIDE,
    of_class,
)
from scripts.papers.coscheduling.names import (
    cell as name_of,
)
from scripts.papers.coscheduling.published import BACKFILLING, row_3
from scripts.papers.coscheduling.published import WAIT_RATIO as PUBLISHED_WAIT_RATIO
from scripts.papers.figures import Figures, Where, interval_text

from cosched_emulator.scenario.sections import TimeSharingSection
from cosched_emulator.statistics.intervals import Verdict
from cosched_emulator.workload.nas import NODE_MB

MOST_RESIDENTS: Final = 3
_SHARE: Final = partial(interval_text, factor=100.0)


def time_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_execution, _alike, _gang, _backfilling, _batch, _busy, _wide, _conditions)
    return [claim for part in parts for claim in part(figures)]


def _execution(figures: Figures) -> Iterator[Claim]:
    for workload in (*LOADS, of_class("B")):
        everyone = others(MIXED, BATCH) if workload in LOADS else [CC, SB, HYBRID, GANG]
        groups = [cells(workload, MIXED, [BATCH]), cells(workload, MIXED, everyone)]
        text = "C9: mean execution, batch the shortest"
        yield ascending(figures, text, place(workload, MIXED), EXECUTION, groups, "shortest")
    for workload in LOADS:
        groups = [
            cells(workload, MIXED, [BATCH]),
            cells(workload, MIXED, [HYBRID]),
            cells(workload, MIXED, others(MIXED, BATCH, HYBRID)),
        ]
        text = "C10: mean execution, then HYBRID"
        yield ascending(figures, text, place(workload, MIXED), EXECUTION, groups)
        for name in (CC, SB):
            found = figures.change(EXECUTION, cell(workload, GANG), cell(workload, name))
            yield near(f"C11: mean execution, gang against {name}, %", f"{workload}; {SKIP}", 0.0, found)


def _alike(figures: Figures) -> Iterator[Claim]:
    for workload in LOADS:
        for placement in PLACEMENTS:
            for key, name in ((RUN, "running time"), (RESPONSE, "mean response"), (EXECUTION, "mean execution")):
                found = figures.change(key, cell(workload, CC, MIXED, placement), cell(workload, SB, MIXED, placement))
                yield near(f"C14: {name}, CC against SB, {placement}, %", f"{workload}; {SKIP}", 0.0, found)


def _gang(figures: Figures) -> Iterator[Claim]:
    for queue, reading in QUEUES:
        found = figures.ratio(BUSY, cell(HIGH, HYBRID, reading), cell(HIGH, GANG, reading))
        yield below("C17: busy node time, HYBRID / gang, below 1", f"{HIGH}; {queue}", "0.88", found)
    if figures.seeds(cell(HIGH, GANG)):
        share = f"{100 * TimeSharingSection().turn_overhead:g}: a setting, not measured"
        text = "C17, C56: share of quanta that switches cost, gang, %"
        yield by_construction(Claim(text, f"{HIGH}; {SKIP}", "pays for it", share, 0, Verdict.YES))


def _backfilling(figures: Figures) -> Iterator[Claim]:
    batch, easy = (name_of(BATCH, queue) for queue in (STRICT, EASY))
    for workload, known in ((HIGH, "exact estimates"), (USELESS, "estimates of a day")):
        for key, name in ((RESPONSE, "mean response"), (RUN, "running time")):
            found = figures.change(key, Where(workload, easy), Where(workload, batch))
            text = f"C21: {name}, batch, EASY against strict, {known}, %, within {BACKFILLING:g} points of 0"
            yield within(text, HIGH, "below 2 %", found, (-BACKFILLING, BACKFILLING))
    found = figures.difference(UTILISATION, Where(HIGH, easy), Where(HIGH, batch))
    text = "C44: node time that EASY fills and a strict queue leaves, % of all, below 2"
    yield below(text, HIGH, "little", found, BACKFILLING / 100)._replace(measured=_SHARE(found))


def _batch(figures: Figures) -> Iterator[Claim]:
    for reading in (MIXED, ALL_SKIP):
        found = figures.mean(WAIT_RATIO, cell(HIGH, BATCH, reading))
        text = f"C43: mean wait / mean execution, {reading.of(BATCH)}, up to {PUBLISHED_WAIT_RATIO:g}"
        yield below(text, HIGH, "up to 6 at LLNL", found, PUBLISHED_WAIT_RATIO)
    for reading in READINGS:
        names = others(reading, BATCH)
        groups = [cells(HIGH, reading, [BATCH]), cells(HIGH, reading, names)]
        text = "C56: utilisation, batch the lowest"
        yield ascending(figures, text, place(HIGH, reading), UTILISATION, groups, "low")


def _busy(figures: Figures) -> Iterator[Claim]:
    batch = row_3(BATCH, "").busy_node_s
    for queue, reading in QUEUES:
        for name in chosen(reading, (GANG, HYBRID, CC, SB, NLS)):
            published = 100 * (row_3(name, "P").busy_node_s / batch - 1)
            found = figures.change(BUSY, cell(HIGH, name, reading), cell(HIGH, BATCH, reading))
            yield near(f"C52: busy node time, {name} against batch, %", f"{HIGH}; {queue}", published, found)
    for queue, reading in QUEUES:
        pairs = {name: placements(HIGH, name, reading)[::-1] for name in driven(reading)}
        for name, pair in pairs.items():
            published = 100 * (row_3(name, "NP").busy_node_s / row_3(name, "P").busy_node_s - 1)
            text = f"C53: busy node time, {name}, NP against P, %"
            yield near(text, f"{HIGH}; {queue}", published, figures.change(BUSY, *pair))
        found = mean_change(figures, BUSY, [*pairs.values()])
        yield near("C53: the same, mean of these", f"{HIGH}; {queue}", 15.0, found)


def _wide(figures: Figures) -> Iterator[Claim]:
    for name in (CC, SB, HYBRID, GANG):
        found = figures.ratio(RESPONSE, cell(WIDE, name), cell(WIDE, BATCH))
        yield below(f"C51: mean response, {name} / batch, below 1", place(WIDE, MIXED), "should hold", found)


def _conditions(figures: Figures) -> Iterator[Claim]:
    """Yield what the scheduler checks before each start."""
    for name in POLICIES:
        most = 1 if name == BATCH else MOST_RESIDENTS
        found = figures.mean(RESIDENTS_MOST, cell(HIGH, name))
        text = f"P7: processes on a node, {name}, at most {most}"
        yield by_construction(below(text, HIGH, str(most), found, most + 0.5))
    for workload in (HIGH, LIGHT):
        for name in (*DRIVEN, GANG):
            found = figures.mean(MEMORY_MOST, cell(workload, name))
            text = f"P8: memory that the processes of a node need at one time, {name}, MB, at most {NODE_MB}"
            claim = judged(text, workload, "fits", found, Band.below(NODE_MB + 0.5), interval_text)
            yield by_construction(claim)
