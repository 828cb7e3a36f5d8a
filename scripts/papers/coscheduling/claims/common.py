"""What the claims have in common: cells under a reading, means over several policies, and orders of figures by seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from scripts.papers.claims import Band, Claim, Of, combined, judged, quarter
from scripts.papers.claims import ascending as figures_ascending
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.figures import Figures, Where, interval_text
from scripts.tables import NOTHING, number

from cosched_emulator.statistics.intervals import Interval, change_of, interval_of

BySeed = Mapping[int, float]
ABOUT_ONE: Final = quarter(1.0, Of.RATIO)  # a ratio that counts as about the same


def driven(reading: ex.Reading) -> tuple[str, ...]:
    """Return the communication-driven policies that run under a reading."""
    return ex.STRICT_POLICIES if reading is ex.ALL_STRICT else ex.DRIVEN


def chosen(reading: ex.Reading, policies: Iterable[str]) -> list[str]:
    """Return those of some policies that run under a reading."""
    return [name for name in policies if name not in ex.DRIVEN or name in driven(reading)]


def others(reading: ex.Reading, *policies: str) -> list[str]:
    """Return all policies that run under a reading, but some."""
    return [name for name in chosen(reading, ex.POLICIES) if name not in policies]


def cells(workload: str, reading: ex.Reading, policies: Iterable[str], placement: str = ex.PACKED) -> list[Where]:
    """Return the cells of some policies."""
    return [Where(workload, reading.of(policy, placement)) for policy in chosen(reading, policies)]


def cell(workload: str, policy: str, reading: ex.Reading = ex.MIXED, placement: str = ex.PACKED) -> Where:
    """Return the cell of a policy."""
    return Where(workload, reading.of(policy, placement))


def placements(workload: str, policy: str, reading: ex.Reading) -> tuple[Where, Where]:
    """Return the cells of a policy with packing and without it."""
    return cell(workload, policy, reading, ex.PACKED), cell(workload, policy, reading, ex.SCATTERED)


def called(where: Where) -> str:
    """Return the policy of a cell without what its claim says besides: the queue, and that jobs are packed."""
    return " ".join(word for word in where.policy.split() if word not in (*ex.QUEUES, ex.PACKED))


# The claim of an order of cells whose queues stand beside it.
ascending: Final = partial(figures_ascending, named=called)


def place(workload: str, reading: ex.Reading) -> str:
    """Return workload and queues for people."""
    return f"{workload}; {reading.name}"


def mean_ratio(figures: Figures, figure: str, pairs: Sequence[tuple[Where, Where]]) -> Interval | None:
    """Return the geometric mean, over several pairs of cells, of a figure of the first over that of the second.

    Only seeds that all pairs have count; None where there are none.
    """
    found = [figures.ratios(figure, where, base) for where, base in pairs]
    seeds = set.intersection(*(set(ratios) for ratios in found)) if found else set()
    means = {seed: statistics.geometric_mean([ratios[seed] for ratios in found]) for seed in sorted(seeds)}
    return as_ratio(change_of(means, dict.fromkeys(means, 1.0)))


def mean_change(figures: Figures, figure: str, pairs: Sequence[tuple[Where, Where]]) -> Interval | None:
    """Return the same in percent of change."""
    found = mean_ratio(figures, figure, pairs)
    return None if found is None else of_bounds(found, lambda ratio: 100 * (ratio - 1))


def ratio_of(values: BySeed, base: BySeed) -> Interval | None:
    """Return values over others, paired by seed."""
    return as_ratio(change_of(values, base))


def as_ratio(change: Interval | None) -> Interval | None:
    """Return the ratio that a change in percent is."""
    return None if change is None else of_bounds(change, lambda percent: 1 + percent / 100)


def of_bounds(found: Interval, rise: Callable[[float], float]) -> Interval:
    """Return an interval with a rising function applied to its mean and bounds."""
    return found._replace(mean=rise(found.mean), low=rise(found.low), high=rise(found.high))


def above(text: str, where: str, published: str, found: Interval | None, bound: float = 1.0) -> Claim:
    """Return the claim that a ratio or figure is above a bound."""
    return judged(text, where, published, found, Band.above(bound), interval_text)


def below(text: str, where: str, published: str, found: Interval | None, bound: float = 1.0) -> Claim:
    """Return the claim that a ratio or figure is below a bound."""
    return judged(text, where, published, found, Band.below(bound), interval_text)


def saving_text(found: Interval | None) -> str:
    """Return a ratio and the saving that it is."""
    if found is None:
        return NOTHING
    saving = 1 - 1 / found.mean
    return f"{interval_text(found)}; saving {saving:.0%}"


def in_order(text: str, where: str, published: str, groups: Sequence[Mapping[str, BySeed]]) -> Claim:
    """Return the claim that all values of a group are below all of the next, paired by seed; values by name and seed."""
    pairs = [
        ratio_of(lower, upper)
        for first, second in pairwise(groups)
        for lower in first.values()
        for upper in second.values()
    ]
    names = " / ".join(", ".join(group) for group in groups)
    means = " / ".join(", ".join(number(_mean(values)) for values in group.values()) for group in groups)
    return combined(f"{text}: {names}", where, published, means, [(found, Band.below(1.0)) for found in pairs])


def rank_correlation(rows: Sequence[tuple[BySeed, BySeed]]) -> Interval | None:
    """Return the rank correlation of two figures over several cells, its mean over seeds; None where fewer than three have run."""
    known = [pair for pair in rows if pair[0] and pair[1]]
    if len(known) < 3:
        return None
    seeds = set.intersection(*(set(first) & set(second) for first, second in known))
    found = {}
    for seed in sorted(seeds):
        ranks = [_ranks([pair[side][seed] for pair in known]) for side in (0, 1)]
        found[seed] = statistics.correlation(*ranks)
    return interval_of(found)


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(values)
    return [float(order.index(value)) for value in values]


def _mean(values: BySeed) -> float | None:
    return math.fsum(values.values()) / len(values) if values else None
