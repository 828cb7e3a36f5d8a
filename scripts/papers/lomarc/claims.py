"""The claims of the LOMARC paper: what it prints, what was measured, and whether that holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from scripts.papers.claims import Band, Claim, ascending, judged, near, near_level
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.lomarc.experiment import LOMARC, M1, SCHEDULERS, TRACED, WORKLOADS
from scripts.papers.lomarc.funnel import QUEUE
from scripts.papers.lomarc.published import (
    AGAINST_PSS,
    BETWEEN,
    EFFICIENCY,
    MAKESPAN,
    RBR,
    RESPONSE,
    TABLE_5,
)

from cosched_emulator.statistics.intervals import Interval, mean_interval

NAMES: Final = {
    RESPONSE: "mean response",
    RBR: "RBR",
    EFFICIENCY: "efficiency",
    MAKESPAN: "makespan",
    "node_utilisation": "utilisation",
}
HALF: Final = -40.0  # percent: "reduced to about half"
SAME: Final = 5.0  # points of a share that is "almost the same"
WAY: Final = "the sign"  # what is published of an order


def claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    return [
        *_orders(figures),
        *_sizes(figures),
        *_between(figures),
        *_slopes(figures),
        *_similar(figures),
        *_mixes(figures),
        *_queues(figures),
    ]


def _orders(figures: Figures) -> Iterator[Claim]:
    for key in (RESPONSE, RBR):
        for workload in M1:
            if workload != "W1 M1":
                yield _ordered(figures, key, workload, (("L-R", "L-U1"), ("L-FM",), ("AM",), ("PSS",)))
        for workload in WORKLOADS:
            yield _ordered(figures, key, workload, (("PSS",), ("AC",)))
        for workload in M1:
            yield _ordered(figures, key, workload, (("L-N", *LOMARC), ("AM", "PSS", "AC")))
    for workload in M1:
        yield _ordered(figures, RBR, workload, (("L-R",), ("L-U1",), ("L-U2",)))
    for key in (RESPONSE, RBR):
        for workload in M1:
            change = figures.change(key, Where(workload, "L-R"), Where(workload, "PSS"))
            text = f"{NAMES[key]}: L-R takes off about half, {-HALF:g} % or more"
            yield judged(text, workload, "about half", change, Band.below(HALF))


def _ordered(figures: Figures, key: str, workload: str, groups: Sequence[Sequence[str]]) -> Claim:
    """Return the claim that a figure grows from one group of schedulers to the next."""
    cells = [[Where(workload, name) for name in group] for group in groups]
    return ascending(figures, f"{NAMES[key]} grows in this order", workload, key, cells)


def _sizes(figures: Figures) -> Iterator[Claim]:
    """Yield a claim for each percentage against PSS that the paper prints."""
    for key, table in AGAINST_PSS.items():
        for workload, row in table.items():
            for name, value in row.items():
                change = figures.change(key, Where(workload, name), Where(workload, "PSS"))
                yield near(f"{NAMES[key]}: {name} against PSS", workload, value, change)


def _between(figures: Figures) -> Iterator[Claim]:
    for (key, one, other), row in BETWEEN.items():
        for workload, value in row.items():
            change = figures.change(key, Where(workload, one), Where(workload, other))
            yield near(f"{NAMES[key]}: {one} against {other}", workload, value, change)
            if value < 0:
                yield judged(f"{NAMES[key]}: {one} is below {other}", workload, WAY, change, Band.below())


def _slopes(figures: Figures) -> Iterator[Claim]:
    """Yield the claims on how a gain depends on the load: nearly flat in print."""
    for name in ("L-R", "L-FM", "L-N"):
        row = AGAINST_PSS[RESPONSE]
        published = row["W3 M1"][name] - row["W1 M1"][name]
        light, heavy = (_percents(figures, RESPONSE, workload, name) for workload in ("W1 M1", "W3 M1"))
        steps = [heavy[seed] - light[seed] for seed in heavy if seed in light]
        found = mean_interval(steps) if steps else None
        yield near(f"mean response: points between {name}'s changes at W3 and at W1", "M1", published, found)


def _percents(figures: Figures, key: str, workload: str, name: str) -> dict[int, float]:
    """Return the changes against PSS by seed, in percent."""
    mine, theirs = (figures.values(key, Where(workload, policy)) for policy in (name, "PSS"))
    return {seed: 100 * (value / theirs[seed] - 1) for seed, value in mine.items() if seed in theirs}


def _similar(figures: Figures) -> Iterator[Claim]:
    """Yield the claims that a share of the machine is almost the same under some schedulers."""
    for key, names in ((EFFICIENCY, TRACED), ("node_utilisation", tuple(SCHEDULERS))):
        for workload in M1:
            found = _range(figures, key, workload, names)
            who = "all" if len(names) == len(SCHEDULERS) else ", ".join(names)
            text = f"{NAMES[key]}: points between the lowest and the highest of {who}, at most {SAME:g}"
            yield judged(text, workload, "almost the same", found, Band.below(SAME), interval_text)


def _range(figures: Figures, key: str, workload: str, names: Sequence[str]) -> Interval | None:
    """Return the mean over seeds of the range of a share, in points."""
    by_name = [figures.values(key, Where(workload, name)) for name in names]
    seeds = set.intersection(*(set(values) for values in by_name))
    ranges = [100 * (max(row) - min(row)) for row in ([values[seed] for values in by_name] for seed in sorted(seeds))]
    return mean_interval(ranges) if ranges else None


def _mixes(figures: Figures) -> Iterator[Claim]:
    """Yield the claims on L-N: more to share under M2 than under M1, less under M3."""
    for key in (RESPONSE, RBR):
        cells = [[Where(f"W1 {mix}", "L-N")] for mix in ("M2", "M1", "M3")]
        found = ascending(figures, f"{NAMES[key]} of L-N under M2 / M1 / M3 grows in this order", "W1", key, cells)
        yield found._replace(text=f"{NAMES[key]} of L-N grows from M2 to M1 to M3")


def _queues(figures: Figures) -> Iterator[Claim]:
    """Yield the claims on the length of the queue in table 5."""
    for name in TRACED:
        for workload, row in TABLE_5[name].items():
            values = figures.values(QUEUE, Where(workload, name))
            found = mean_interval([*values.values()]) if values else None
            yield near_level(f"C31: table 5, queue of {name}'s searches", workload, row[0], found)
