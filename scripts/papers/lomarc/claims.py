"""The claims of the LOMARC paper that runs decide, by the numbers of the claims list: what it prints, what was measured, the verdict.

Where a sentence has no number, the bound that stands for it is in the row's text. `settled.py` has what no run decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from scripts.papers.claims import ALMOST, Band, Claim, Of, ascending, combined, judged, near, near_level, quarter
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.lomarc import experiment as ex
from scripts.papers.lomarc.funnel import SEARCH, SELECTED, STAGE_FIGURES
from scripts.papers.lomarc.published import (
    AGAINST_PSS,
    BETWEEN,
    EFFICIENCY,
    MAKESPAN,
    RBR,
    RESPONSE,
    STAGES,
    TABLE_5,
    WEEKS,
)
from scripts.tables import number, percent

from cosched_emulator.statistics.intervals import Interval, mean_interval

NAMES: Final = {
    RESPONSE: "mean response",
    RBR: "RBR",
    EFFICIENCY: "efficiency",
    MAKESPAN: "makespan",
    "node_utilisation": "utilisation",
}
BOTH: Final = (RESPONSE, RBR)
ALL_LOADS: Final = "W1 to W3"
CLOSE: Final = 20.0  # percent: "pretty close", in a paper whose largest difference among those is 17 %
GOOD: Final = 0.75  # of the gain of the best: "very good results"
OFTEN: Final = 0.1  # of the makespan
WAY: Final = "the sign"  # what is published of an order
SPEEDS: Final = {EFFICIENCY: 1.0, RESPONSE: -1.0, RBR: -1.0}  # the sign of a gain
Seeds = Mapping[int, float]


def claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts: Sequence[Callable[[Figures], Iterator[Claim]]] = (
        _headlines, _orders, _growth, _sizes, _heuristics, _first_match, _adjacent, _machine, _mixes, _table_5, _searches,
    )  # fmt: skip
    found = [claim for part in parts for claim in part(figures)]
    return sorted(found, key=lambda claim: (claim.ids[0], int(claim.ids.partition(",")[0][1:])))


# ---------------------------------------------------------------- figures of several cells, seed by seed


def _percents(figures: Figures, key: str, workload: str, name: str, base: str = "PSS") -> Seeds:
    """Return the changes against another scheduler by seed, in percent."""
    found = figures.ratios(key, Where(workload, name), Where(workload, base))
    return {seed: 100 * (ratio - 1) for seed, ratio in found.items()}


def _over_seeds(columns: Sequence[Seeds], value: Callable[..., float]) -> Interval | None:
    """Return the mean over the seeds that all columns have of a value of theirs."""
    seeds = sorted(set.intersection(*(set(column) for column in columns)))
    return mean_interval([value(*(column[seed] for column in columns)) for seed in seeds]) if seeds else None


def _over_loads(figures: Figures, key: str, name: str, base: str) -> Interval | None:
    """Return the change against another scheduler in percent: the geometric mean of the three workloads."""
    found = [figures.ratios(key, Where(workload, name), Where(workload, base)) for workload in ex.M1]
    logs = _over_seeds(found, lambda *ratios: math.fsum(map(math.log, ratios)) / len(ratios))
    if logs is None:
        return None
    mean, low, high = (100 * math.expm1(value) for value in logs[:3])
    return logs._replace(mean=mean, low=low, high=high)


# ---------------------------------------------------------------- response, RBR, efficiency


def _headlines(figures: Figures) -> Iterator[Claim]:
    for claim, name, part, published in (("C1", "L-R", "half", -50.0), ("C2", "L-N", "a quarter", -25.0)):
        for key in BOTH:
            change = _over_loads(figures, key, name, "PSS")
            yield near(f"{claim}: {name} takes off about {part}, {NAMES[key]}", ALL_LOADS, published, change)


def _ordered(figures: Figures, text: str, key: str, workload: str, *groups: Sequence[str]) -> Claim:
    """Return the claim that a figure grows from one group of schedulers to the next, in the paper's words."""
    cells = [[Where(workload, name) for name in group] for group in groups]
    return ascending(figures, f"{text}, {NAMES[key]}", workload, key, cells)


def _orders(figures: Figures) -> Iterator[Claim]:
    for key in BOTH:
        for workload in ex.M1:
            yield _ordered(
                figures,
                "C3: all of LOMARC are better than all others",
                key,
                workload,
                ("L-N", *ex.LOMARC),
                ("AM", "PSS", "AC"),
            )
        for workload in ex.M1:
            yield _ordered(figures, "C4: AC is worse than PSS", key, workload, ("PSS",), ("AC",))


def _growth(figures: Figures) -> Iterator[Claim]:
    """Yield the claims that a gain is larger at W2 than at W1, and at W3 than at W2."""
    for key, sign in SPEEDS.items():
        for name in ("L-U1", "L-U2", "L-R", "L-FM", "L-N"):
            by_load = [_percents(figures, key, workload, name) for workload in ex.M1]
            steps = [
                _over_seeds(by_load[place : place + 2], lambda light, heavy: sign * (heavy - light))  # noqa: B023 - called at once
                for place in (0, 1)
            ]
            means = [_over_seeds([column], lambda value: value) for column in by_load]
            told = " / ".join(percent(found.mean) for found in means if found is not None)
            text = f"C5: the gain grows with the load, {NAMES[key]}, {name} against PSS at W1 / W2 / W3"
            yield combined(text, ALL_LOADS, WAY, told, [(step, Band.above()) for step in steps])


def _sizes(figures: Figures) -> Iterator[Claim]:
    """Yield a claim for each percentage against PSS that the paper prints."""
    for key, table in AGAINST_PSS.items():
        for workload, row in table.items():
            for name, value in row.items():
                change = figures.change(key, Where(workload, name), Where(workload, "PSS"))
                claim = _claim_of(key, workload, name)
                yield near(f"{claim}: against PSS, {name}, {NAMES[key]}", workload, value, change)


def _claim_of(key: str, workload: str, name: str) -> str:
    """Return the number of the claim that has a percentage against PSS."""
    if key == MAKESPAN:
        return "C21"
    if key == EFFICIENCY:
        return "C25" if name in ex.TRACED else "C27"
    if workload not in ex.M1:
        return "C29"
    return {
        (RESPONSE, "L-R"): "C6", (RBR, "L-R"): "C7", (RESPONSE, "L-N"): "C18", (RBR, "L-N"): "C19",
    }.get((key, name), "C15")  # fmt: skip


def _heuristics(figures: Figures) -> Iterator[Claim]:
    """Yield the claims on the heuristics among each other."""
    for workload in ex.M1:
        parts = [
            (figures.change(RESPONSE, Where(workload, name), Where(workload, "L-R")), Band(-CLOSE, CLOSE))
            for name in ex.LOMARC
            if name != "L-R"
        ]
        told = " / ".join(percent(found.mean) for found, _ in parts if found is not None)
        text = f"C8: L-FM / L-U1 / L-U2 are close to L-R, mean response, each within {CLOSE:g} %"
        yield combined(text, workload, "pretty close", told, parts)
    yield judged(
        "C9: L-U1 is better than L-U2, mean response",
        ALL_LOADS,
        WAY,
        _over_loads(figures, RESPONSE, "L-U1", "L-U2"),
        Band.below(),
    )
    for workload in ex.M1:
        change = figures.change(RESPONSE, Where(workload, "L-U1"), Where(workload, "L-R"))
        yield near("C10: L-U1 against L-R, mean response", workload, 0, change)
    yield judged(
        "C11: heuristics differ more in RBR, L-U1 is better than L-U2",
        ALL_LOADS,
        WAY,
        _over_loads(figures, RBR, "L-U1", "L-U2"),
        Band.below(),
    )
    yield _more_pronounced(figures)
    yield from _against_u1(figures)
    for key in BOTH:
        changes = [(_over_loads(figures, key, "L-R", name), Band.below()) for name in ex.LOMARC if name != "L-R"]
        told = " / ".join(percent(found.mean) for found, _ in changes if found is not None)
        yield combined(f"C37: L-R is better than L-FM / L-U1 / L-U2, {NAMES[key]}", ALL_LOADS, WAY, told, changes)


def _more_pronounced(figures: Figures) -> Claim:
    """Return the claim that the heuristics differ more in RBR than in response: by the range of their means, in percent of L-R."""
    found = [
        figures.ratios(key, Where(load, name), Where(load, "L-R"))
        for key in BOTH
        for load in ex.M1
        for name in ex.LOMARC
    ]
    groups, size = 2 * len(ex.M1), len(ex.LOMARC)

    def more(*ratios: float) -> float:
        ranges = [100 * (max(part) - min(part)) for part in (ratios[size * n : size * (n + 1)] for n in range(groups))]
        return math.fsum(ranges[len(ex.M1) :]) / len(ex.M1) - math.fsum(ranges[: len(ex.M1)]) / len(ex.M1)

    text = (
        "C11: heuristics differ more in RBR, points by which their range in percent of L-R is larger than in response"
    )
    return judged(text, ALL_LOADS, WAY, _over_seeds(found, more), Band.above())


def _against_u1(figures: Figures) -> Iterator[Claim]:
    """Yield the claims that L-R's RBR is below L-U1's by some percent: three readings of percent, and the sign."""
    row = BETWEEN[RBR, "L-R", "L-U1"]
    for workload, value in row.items():
        mine, its = (_percents(figures, RBR, workload, name) for name in ("L-R", "L-U1"))
        change = figures.change(RBR, Where(workload, "L-R"), Where(workload, "L-U1"))
        yield near("C12: L-R is better than L-U1 in RBR, percent of L-U1", workload, value, change)
        points = _over_seeds([mine, its], lambda r, u1: r - u1)
        yield near("C12: L-R is better than L-U1 in RBR, points of PSS", workload, value, points)
        back = figures.change(RBR, Where(workload, "L-U1"), Where(workload, "L-R"))
        yield near("C12: L-R is better than L-U1 in RBR, percent of L-R", workload, -value, back)
    for workload in row:
        change = figures.change(RBR, Where(workload, "L-R"), Where(workload, "L-U1"))
        yield judged("C12: L-R is better than L-U1 in RBR, at all", workload, WAY, change, Band.below())
    light, *heavy = (figures.ratios(RBR, Where(workload, "L-R"), Where(workload, "L-U1")) for workload in ex.M1)
    parts = [(_over_seeds([light, other], lambda a, b: a - b), Band.below()) for other in heavy]
    means = [figures.ratio(RBR, Where(workload, "L-R"), Where(workload, "L-U1")) for workload in ex.M1]
    told = " / ".join(number(found.mean) for found in means if found is not None)
    yield combined(
        "C36: that advantage is largest at W1, L-R / L-U1 in RBR at W1 / W2 / W3", ALL_LOADS, WAY, told, parts
    )


def _first_match(figures: Figures) -> Iterator[Claim]:
    """Yield the claims on L-FM: how far behind L-R it is, where, and what it costs."""
    for key in BOTH:
        light, _, heavy = (figures.ratios(key, Where(workload, "L-FM"), Where(workload, "L-R")) for workload in ex.M1)
        steps = _over_seeds([light, heavy], lambda a, b: math.log(b / a))
        text = f"C13: L-FM falls behind L-R with the load, {NAMES[key]}, logarithm of L-FM / L-R at W3 less that at W1"
        yield judged(text, ALL_LOADS, WAY, steps, Band.above(), interval_text)
    for key in BOTH:
        for workload, value in BETWEEN[key, "L-FM", "L-R"].items():
            change = figures.change(key, Where(workload, "L-FM"), Where(workload, "L-R"))
            yield near(f"C14: L-FM against L-R, {NAMES[key]}", workload, value, change)
    for key in BOTH:
        columns = [_percents(figures, key, workload, name) for workload in ex.M1 for name in ("L-FM", "L-R")]
        more = _over_seeds(columns, lambda *gains: (GOOD * math.fsum(gains[1::2]) - math.fsum(gains[::2])) / len(ex.M1))
        text = f"C38: L-FM is cheap and good, points of {NAMES[key]} above {100 * GOOD:.0f} % of L-R's gain"
        yield judged(text, ALL_LOADS, "very good results", more, Band.above())
    ratios = []
    for workload in ex.M1:
        compared = figures.values(f"{SEARCH}_slowdown", Where(workload, "L-R"))
        first = figures.values(SELECTED, Where(workload, "L-FM"))
        ratios.append(_over_seeds([first, compared], lambda a, b: a / b))
    told = " / ".join(interval_text(found) for found in ratios)
    text = "C38: L-FM is cheap and good, candidates that it looks at for a match / those that L-R does, W1 / W2 / W3"
    yield combined(text, ALL_LOADS, "lower", told, [(found, Band.below(1.0)) for found in ratios])


def _adjacent(figures: Figures) -> Iterator[Claim]:
    """Yield the claims on AM."""
    for key in BOTH:
        for workload in ex.M1:
            yield _ordered(figures, "C16: AM is better than PSS", key, workload, ("AM",), ("PSS",))
        for workload in ex.M1:
            yield _ordered(figures, "C17: AM is worse than L-R and L-FM", key, workload, ("L-R", "L-FM"), ("AM",))
        light, _, heavy = (figures.ratios(key, Where(workload, "AM"), Where(workload, "L-R")) for workload in ex.M1)
        steps = _over_seeds([light, heavy], lambda a, b: math.log(b / a))
        text = f"C17: AM is worse than L-R and L-FM, more so with the load, {NAMES[key]}, logarithm of AM / L-R at W3 less that at W1"
        yield judged(text, ALL_LOADS, WAY, steps, Band.above(), interval_text)


# ---------------------------------------------------------------- the machine, and the other mixes


def _machine(figures: Figures) -> Iterator[Claim]:
    weeks = _over_seeds([figures.values(MAKESPAN, Where("W1 M1", "PSS"))], lambda found: found / 604_800)
    yield near_level("C20, P4: makespan under PSS in weeks", "W1 M1", WEEKS, weeks)
    for name in ("PSS", "L-R"):
        idle = figures.mean("queue_empty_nodes_free", Where("W1 M1", name))
        text = f"C22: too few jobs for the machine, share of time with free nodes and no pending job, {name}, {OFTEN:g} or more"
        yield judged(text, "W1 M1", "often", idle, Band.above(OFTEN), interval_text)
    for claim, key, names in (
        ("C26", EFFICIENCY, ex.TRACED),
        ("C23", "node_utilisation", tuple(ex.SCHEDULERS)),
    ):
        for workload in ex.M1:
            columns = [figures.values(key, Where(workload, name)) for name in names]
            found = _over_seeds(columns, lambda *shares: 100 * (max(shares) - min(shares)))
            who = "all" if len(names) == len(ex.SCHEDULERS) else ", ".join(names)
            text = f"{claim}: {NAMES[key]} is the same, points between the lowest and the highest of {who}, at most {ALMOST:g}"
            yield judged(text, workload, "almost the same", found, Band.below(ALMOST), interval_text)
    for name in ex.SCHEDULERS:
        shares = [figures.values("node_utilisation", Where(workload, name)) for workload in ex.M1]
        parts = [(_over_seeds(shares[at : at + 2], lambda a, b: b - a), Band.above()) for at in (0, 1)]
        means = [figures.mean("node_utilisation", Where(workload, name)) for workload in ex.M1]
        told = " / ".join(number(100 * found.mean) for found in means if found is not None)
        yield combined(
            f"C24: utilisation grows with the load, {name} at W1 / W2 / W3 in percent", ALL_LOADS, WAY, told, parts
        )
    for other, ratio in (("W2 M1", 13 / 10.6), ("W3 M1", 21 / 10.6)):
        loads = [figures.values("offered_load", Where(workload, "PSS")) for workload in (other, "W1 M1")]
        found = _over_seeds(loads, lambda heavy, light: heavy / light)
        band = quarter(ratio, Of.RATIO)
        text = f"P3: offered load relative to W1's, within {number(band.low)} to {number(band.high)}"
        yield judged(text, other, number(ratio), found, band, interval_text)


def _mixes(figures: Figures) -> Iterator[Claim]:
    """Yield the claims on M2 and M3: similar gains, but of L-N, which shares more under M2 and less under M3."""
    for mix in ("M2", "M3"):
        for key in BOTH:
            half = quarter(AGAINST_PSS[key]["W1 M1"]["L-R"], Of.CHANGE).high - AGAINST_PSS[key]["W1 M1"]["L-R"]
            for base in ("PSS", "AC"):
                steps = [
                    _over_seeds(
                        [_percents(figures, key, f"W1 {each}", name, base) for each in (mix, "M1")],
                        lambda other, usual: other - usual,
                    )
                    for name in ex.TRACED
                ]
                told = " / ".join(percent(step.mean) for step in steps if step is not None)
                text = (
                    f"C28: gains are as under M1, {NAMES[key]} of {' / '.join(ex.TRACED)} against {base},"
                    f" points of difference, at most {number(half)} (a quarter of L-R's gain in print)"
                )
                yield combined(text, f"W1 {mix}", "similar", told, [(step, Band(-half, half)) for step in steps])
    for key in BOTH:
        for claim, lower, upper in (("C29", "M2", "M1"), ("C30", "M1", "M3")):
            columns = [_percents(figures, key, f"W1 {mix}", "L-N") for mix in (lower, upper)]
            found = _over_seeds(columns, lambda a, b: a - b)
            text = f"{claim}: L-N gains more under {lower} than under {upper}, {NAMES[key]}, points against PSS"
            yield judged(text, "W1", WAY, found, Band.below())


# ---------------------------------------------------------------- table 5


def _table_5(figures: Figures) -> Iterator[Claim]:
    """Yield a claim for each of the 63 numbers of table 5."""
    for place, stage in enumerate(STAGES):
        claim = "C31" if place == 0 else "C33" if place == len(STAGES) - 1 else "C32"
        for name in ex.TRACED:
            for workload, row in TABLE_5[name].items():
                found = figures.mean(STAGE_FIGURES[place], Where(workload, name))
                yield near_level(f"{claim}: table 5, {stage}, {name}", workload, row[place], found)


def _searches(figures: Figures) -> Iterator[Claim]:
    """Yield the sentences on table 5."""
    left = [figures.mean(f"{SEARCH}_slowdown", Where("W1 M1", name)) for name in ex.TRACED]
    told = " / ".join(interval_text(found) for found in left)
    text = f"C34: few candidates are left at W1, to {' / '.join(ex.TRACED)}, 4.5 to 7.5"
    yield combined(text, "W1 M1", "5 to 7", told, [(found, Band(4.5, 7.5)) for found in left])
    taken = [figures.mean(SELECTED, Where("W1 M1", name)) for name in ex.TRACED]
    told = " / ".join(interval_text(found) for found in taken)
    text = f"C34: few candidates are left at W1, of which {' / '.join(ex.TRACED)} select, 2.5 to 3.5"
    yield combined(text, "W1 M1", "the third", told, [(found, Band(2.5, 3.5)) for found in taken])
    change = figures.change(SELECTED, Where("W3 M1", "L-R"), Where("W3 M1", "L-U1"))
    yield judged("C35: L-R selects an earlier candidate than L-U1", "W3 M1", "4 and 6", change, Band.below())
