"""The claims on execution and running times, busy time and queues of the NAS workloads, and the conditions that are measured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from scripts.papers.claims import Band, Claim, by_construction, judged, near, within
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling import published as printed
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
    for workload in (*LOADS, ex.of_class("B")):
        everyone = others(ex.MIXED, ex.BATCH) if workload in LOADS else [ex.CC, ex.SB, ex.HYBRID, ex.GANG]
        groups = [cells(workload, ex.MIXED, [ex.BATCH]), cells(workload, ex.MIXED, everyone)]
        text = "C9: mean execution, batch the shortest"
        yield ascending(figures, text, place(workload, ex.MIXED), ex.EXECUTION, groups, "shortest")
    for workload in LOADS:
        groups = [
            cells(workload, ex.MIXED, [ex.BATCH]),
            cells(workload, ex.MIXED, [ex.HYBRID]),
            cells(workload, ex.MIXED, others(ex.MIXED, ex.BATCH, ex.HYBRID)),
        ]
        text = "C10: mean execution, then HYBRID"
        yield ascending(figures, text, place(workload, ex.MIXED), ex.EXECUTION, groups)
        for name in (ex.CC, ex.SB):
            found = figures.change(ex.EXECUTION, cell(workload, ex.GANG), cell(workload, name))
            yield near(f"C11: mean execution, gang against {name}, %", f"{workload}; {ex.SKIP}", 0.0, found)


def _alike(figures: Figures) -> Iterator[Claim]:
    for workload in LOADS:
        for placement in ex.PLACEMENTS:
            for key, name in (
                (ex.RUN, "running time"),
                (ex.RESPONSE, "mean response"),
                (ex.EXECUTION, "mean execution"),
            ):
                found = figures.change(
                    key, cell(workload, ex.CC, ex.MIXED, placement), cell(workload, ex.SB, ex.MIXED, placement)
                )
                yield near(f"C14: {name}, CC against SB, {placement}, %", f"{workload}; {ex.SKIP}", 0.0, found)


def _gang(figures: Figures) -> Iterator[Claim]:
    for queue, reading in QUEUES:
        found = figures.ratio(ex.BUSY, cell(ex.HIGH, ex.HYBRID, reading), cell(ex.HIGH, ex.GANG, reading))
        yield below("C17: busy node time, HYBRID / gang, below 1", f"{ex.HIGH}; {queue}", "0.88", found)
    if figures.seeds(cell(ex.HIGH, ex.GANG)):
        share = f"{100 * TimeSharingSection().turn_overhead:g}: a setting, not measured"
        text = "C17, C56: share of quanta that switches cost, gang, %"
        yield by_construction(Claim(text, f"{ex.HIGH}; {ex.SKIP}", "pays for it", share, 0, Verdict.YES))


def _backfilling(figures: Figures) -> Iterator[Claim]:
    batch, easy = (ex.cell(ex.BATCH, queue) for queue in (ex.STRICT, ex.EASY))
    for workload, known in ((ex.HIGH, "exact estimates"), (ex.USELESS, "estimates of a day")):
        for key, name in ((ex.RESPONSE, "mean response"), (ex.RUN, "running time")):
            found = figures.change(key, Where(workload, easy), Where(workload, batch))
            text = f"C21: {name}, batch, EASY against strict, {known}, %, within {printed.BACKFILLING:g} points of 0"
            yield within(text, ex.HIGH, "below 2 %", found, (-printed.BACKFILLING, printed.BACKFILLING))
    found = figures.difference(ex.UTILISATION, Where(ex.HIGH, easy), Where(ex.HIGH, batch))
    text = "C44: node time that EASY fills and a strict queue leaves, % of all, below 2"
    yield below(text, ex.HIGH, "little", found, printed.BACKFILLING / 100)._replace(measured=_SHARE(found))


def _batch(figures: Figures) -> Iterator[Claim]:
    for reading in (ex.MIXED, ex.ALL_SKIP):
        found = figures.mean(ex.WAIT_RATIO, cell(ex.HIGH, ex.BATCH, reading))
        text = f"C43: mean wait / mean execution, {reading.of(ex.BATCH)}, up to {printed.WAIT_RATIO:g}"
        yield below(text, ex.HIGH, "up to 6 at LLNL", found, printed.WAIT_RATIO)
    for reading in ex.READINGS:
        names = others(reading, ex.BATCH)
        groups = [cells(ex.HIGH, reading, [ex.BATCH]), cells(ex.HIGH, reading, names)]
        text = "C56: utilisation, batch the lowest"
        yield ascending(figures, text, place(ex.HIGH, reading), ex.UTILISATION, groups, "low")


def _busy(figures: Figures) -> Iterator[Claim]:
    batch = printed.row_3(ex.BATCH, "").busy_node_s
    for queue, reading in QUEUES:
        for name in chosen(reading, (ex.GANG, ex.HYBRID, ex.CC, ex.SB, ex.NLS)):
            published = 100 * (printed.row_3(name, "P").busy_node_s / batch - 1)
            found = figures.change(ex.BUSY, cell(ex.HIGH, name, reading), cell(ex.HIGH, ex.BATCH, reading))
            yield near(f"C52: busy node time, {name} against batch, %", f"{ex.HIGH}; {queue}", published, found)
    for queue, reading in QUEUES:
        pairs = {name: placements(ex.HIGH, name, reading)[::-1] for name in driven(reading)}
        for name, pair in pairs.items():
            published = 100 * (printed.row_3(name, "NP").busy_node_s / printed.row_3(name, "P").busy_node_s - 1)
            text = f"C53: busy node time, {name}, NP against P, %"
            yield near(text, f"{ex.HIGH}; {queue}", published, figures.change(ex.BUSY, *pair))
        found = mean_change(figures, ex.BUSY, [*pairs.values()])
        yield near("C53: the same, mean of these", f"{ex.HIGH}; {queue}", 15.0, found)


def _wide(figures: Figures) -> Iterator[Claim]:
    for name in (ex.CC, ex.SB, ex.HYBRID, ex.GANG):
        found = figures.ratio(ex.RESPONSE, cell(ex.WIDE, name), cell(ex.WIDE, ex.BATCH))
        yield below(f"C51: mean response, {name} / batch, below 1", place(ex.WIDE, ex.MIXED), "should hold", found)


def _conditions(figures: Figures) -> Iterator[Claim]:
    """Yield what the scheduler checks before each start."""
    for name in ex.POLICIES:
        most = 1 if name == ex.BATCH else MOST_RESIDENTS
        found = figures.mean(ex.RESIDENTS_MOST, cell(ex.HIGH, name))
        text = f"P7: processes on a node, {name}, at most {most}"
        yield by_construction(below(text, ex.HIGH, str(most), found, most + 0.5))
    for workload in (ex.HIGH, ex.LIGHT):
        for name in (*ex.DRIVEN, ex.GANG):
            found = figures.mean(ex.MEMORY_MOST, cell(workload, name))
            text = f"P8: memory that the processes of a node need at one time, {name}, MB, at most {NODE_MB}"
            claim = judged(text, workload, "fits", found, Band.below(NODE_MB + 0.5), interval_text)
            yield by_construction(claim)
