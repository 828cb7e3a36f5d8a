"""The claims on dynamic workloads (section 4.2 of the paper): C29 to C45, C51 to C53, and R10 on predictions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Final

from scripts.papers.claims import (
    Band,
    Claim,
    Of,
    agreeing,
    by_construction,
    combined,
    judged,
    near_ratio,
    quarter,
    within,
)
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang.published import (
    DRAIN_H,
    HOURS,
    LEFT,
    STRICT_EMPTIES_UP_TO,
)
from scripts.papers.paired_gang.published import (
    RESPONSE as PUBLISHED_RESPONSE,
)
from scripts.tables import NOTHING, number

from cosched_emulator.statistics.intervals import Interval, Verdict, mean_interval

SIMILAR: Final = quarter(1.0, Of.RATIO)  # a ratio that counts as about the same
HEAVY: Final = tuple(load for load in ex.LOADS if float(load) > STRICT_EMPTIES_UP_TO)
SATURATED: Final = ("0.9", "0.95")  # loads
STRICTS: Final = (ex.STRICT, ex.BARE)
# Strict policies and variants that paired gang scheduling is compared with; both sides have the variant. None: as it is.
GAINS: Final = ((ex.STRICT, None), (ex.BARE, None), (ex.STRICT, ex.RR_DYNAMIC))
_PERCENT: Final = partial(interval_text, factor=100.0)


def dynamic_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_gain, _pairs, _jobs, _idle, _left, _saturated, _heterogeneous, _conditions)
    return [claim for part in parts for claim in part(figures)]


def gain(figures: Figures, workload: str, strict: str, policy: str, variant: str | None = None) -> Interval | None:
    """Return the mean response under strict gang scheduling over that under another policy."""
    return figures.ratio(ex.RESPONSE, Where(workload, strict, variant), Where(workload, policy, variant))


def _homogeneous(load: str, policy: str) -> Where:
    return Where(ex.dynamic(ex.HOMOGENEOUS, load), policy)


def _gain(figures: Figures) -> Iterator[Claim]:
    rows = {"0.5": "C30", "0.95": "C31"}
    for load, published in PUBLISHED_RESPONSE.items():
        workload = ex.dynamic(ex.HOMOGENEOUS, load)
        for strict, variant in GAINS:
            text = f"{rows[load]}: mean response, {strict} / {ex.PAIRED}"
            shown = f"{'about' if load == '0.5' else 'nearly'} {published:g} x"
            found = gain(figures, workload, strict, ex.PAIRED, variant)
            yield near_ratio(text, _place(workload, variant), published, found, told=shown)
    for strict, variant in GAINS:
        yield _rises(figures, strict, variant)
    for load in ex.ABOVE:
        workload = ex.dynamic(ex.HOMOGENEOUS, load)
        for strict, variant in GAINS:
            text = f"C32: mean response, {strict} / {ex.PAIRED}, above a load of 1: more than at {ex.LOADS[-1]}"
            yield _above(figures, text, workload, strict, variant)
    for policy in (ex.PAIRED, ex.STRICT):
        found = figures.ratio(ex.RESPONSE, _homogeneous(ex.LOADS[-1], policy), _homogeneous(ex.LOADS[0], policy))
        text = f"C33: mean response at load {ex.LOADS[-1]} / at {ex.LOADS[0]}, {policy}, below 2 (our bound)"
        shown = "reasonable" if policy == ex.PAIRED else NOTHING
        yield judged(text, ex.HOMOGENEOUS, shown, found, Band.below(2.0), interval_text)


def _place(workload: str, variant: str | None) -> str:
    return workload if variant is None else f"{workload}, {variant}"


def _by_seed(figures: Figures, load: str, strict: str, variant: str | None) -> dict[int, float]:
    strict_at, paired_at = (Where(ex.dynamic(ex.HOMOGENEOUS, load), policy, variant) for policy in (strict, ex.PAIRED))
    return figures.ratios(ex.RESPONSE, strict_at, paired_at)


def _step(lower: Mapping[int, float], upper: Mapping[int, float]) -> Interval | None:
    """Return by how much a ratio differs between two loads, over the seeds that both have."""
    differences = [upper[seed] - value for seed, value in lower.items() if seed in upper]
    return mean_interval(differences) if differences else None


def _above(figures: Figures, text: str, workload: str, strict: str, variant: str | None) -> Claim:
    """Return the claim that the ratio is larger above a load of 1 than at the largest load of the paper (C32)."""
    load = workload.rsplit(maxsplit=1)[-1]
    step = _step(*(_by_seed(figures, each, strict, variant) for each in (ex.LOADS[-1], load)))
    ratio = gain(figures, workload, strict, ex.PAIRED, variant)
    measured = NOTHING if ratio is None else interval_text(ratio)
    return combined(text, _place(workload, variant), "larger", measured, [(step, Band.above())] if step else [])


def _rises(figures: Figures, strict: str, variant: str | None) -> Claim:
    """Return the claim that the ratio rises from each load to the next (C32)."""
    ratios = [_by_seed(figures, load, strict, variant) for load in ex.LOADS]
    steps = [step for lower, upper in pairwise(ratios) if (step := _step(lower, upper)) is not None]
    found = [gain(figures, ex.dynamic(ex.HOMOGENEOUS, load), strict, ex.PAIRED, variant) for load in ex.LOADS]
    measured = ", ".join(NOTHING if each is None else number(each.mean) for each in found)
    text = f"C32: {strict} / {ex.PAIRED} rises with each step of the load ({ex.LOADS[0]} to {ex.LOADS[-1]})"
    parts = [(step, Band.above()) for step in steps] if len(steps) == len(ex.LOADS) - 1 else []
    return combined(text, _place(ex.HOMOGENEOUS, variant), "larger", measured, parts)


def _pairs(figures: Figures) -> Iterator[Claim]:
    for load in (ex.LOADS[0], ex.LOADS[-1]):
        where, base = _homogeneous(load, ex.PAIRED), _homogeneous(load, ex.STRICT)
        text = "C34: quanta with a pair, % of those with two slots in use, above 99"
        found = figures.mean("pairs_of_possible", where)
        yield judged(text, where.workload, "always", found, Band.above(0.99), _PERCENT)
        text = f"C34: progress of a job while it may run, {ex.PAIRED} / {ex.STRICT}, above 0.5: two do more than one"
        found = figures.ratio("speed", where, base)
        yield judged(text, where.workload, "benefits outweigh", found, Band.above(0.5), interval_text)


def _jobs(figures: Figures) -> Iterator[Claim]:
    where, base = _homogeneous(ex.LOADS[0], ex.PAIRED), _homogeneous(ex.LOADS[0], ex.STRICT)
    text = f"C36: mean number of jobs in the system, {ex.PAIRED} / {ex.STRICT}, within 5 points of 1"
    yield within(
        text, where.workload, "almost the same", figures.ratio("jobs_mean", where, base), SIMILAR, interval_text
    )
    for load in SATURATED:
        where, base = _homogeneous(load, ex.PAIRED), _homogeneous(load, ex.STRICT)
        for key, name in (("jobs_mean", "mean"), ("jobs_max", "largest")):
            text = f"C45: {name} number of jobs in the system, {ex.PAIRED} / {ex.STRICT}, below 1"
            found = figures.ratio(key, where, base)
            yield judged(text, where.workload, "fewer", found, Band.below(1.0), interval_text)


def _idle(figures: Figures) -> Iterator[Claim]:
    """Yield how often no job is left in the last two thirds of the submissions; the first third begins with an empty system."""
    for load in ex.LOADS:
        text = f"C37: an instant in the last two thirds at which no job is left, {ex.PAIRED}"
        yield _clears(figures, text, _homogeneous(load, ex.PAIRED), "now and then", clears=True)
    for strict in STRICTS:
        for load in ex.LOADS:
            clears = load not in HEAVY
            text = f"C38: {'the same' if clears else 'no such instant'}, {strict}"
            published = "not said to fail" if clears else "fails to"
            yield _clears(figures, text, _homogeneous(load, strict), published, clears=clears)


def _clears(figures: Figures, text: str, where: Where, published: str, *, clears: bool) -> Claim:
    """Return the claim that the system is cleared in the last two thirds, or is not, in the runs of all seeds."""
    found = [*figures.values("idle_later", where).values()]
    holds = [(count > 0) == clears for count in found]
    return agreeing(text, where.workload, published, holds, f"instants {', '.join(map(number, found))}")


def _left(figures: Figures) -> Iterator[Claim]:
    for strict in STRICTS:
        for load in HEAVY:
            where = _homogeneous(load, strict)
            text = f"C39: jobs left when all are submitted, {strict}, {LEFT[0]:g} to {LEFT[1]:g}"
            yield within(text, where.workload, "some dozens", figures.mean("jobs_at_last", where), LEFT, interval_text)
    for strict in STRICTS:
        where = _homogeneous(ex.LOADS[-1], strict)
        text = f"C40: hours from the last submission to the last end, {strict}, above {DRAIN_H:g}"
        found = figures.mean("drain_h", where)
        yield judged(text, where.workload, "over three", found, Band.above(DRAIN_H), interval_text)


def _saturated(figures: Figures) -> Iterator[Claim]:
    for load in SATURATED:
        for strict in STRICTS:
            yield _drifts(figures, _homogeneous(load, strict), expected=Verdict.YES)
    for load in SATURATED:
        yield _drifts(figures, _homogeneous(load, ex.PAIRED), expected=Verdict.NO)


def _drifts(figures: Figures, where: Where, *, expected: Verdict) -> Claim:
    """Return the claim that a run is saturated, or is not, by the test for saturation of each seed (C41)."""
    series = figures.series(where)
    found = [str(row["drifts"]) for row in series.rows if row.get("drifts")] if series else []
    counts = Counter(found)
    thirds = [figures.mean(f"jobs_third_{part}", where) for part in (1, 2, 3)]
    numbers = " / ".join(NOTHING if each is None else number(each.mean) for each in thirds)
    tests = ", ".join(f"{name} {counts[name]}" for name in counts)
    decided = [value == expected.value for value in found if value != Verdict.NOT_SHOWN.value]
    what = "saturated" if expected is Verdict.YES else "not saturated"
    text = f"C41: {where.policy} is {what}: test by seed, of those that it decides"
    measured = f"tests {tests}; jobs by thirds {numbers}"
    if found and not decided:  # runs are there, and none of them tells
        return Claim(text, where.workload, what, measured, len(found), Verdict.NOT_SHOWN, 1.0, math.inf)
    return agreeing(text, where.workload, what, decided, measured)


def _heterogeneous(figures: Figures) -> Iterator[Claim]:
    for policy in (ex.PAIRED, ex.NODE):
        for load in ex.LOADS:
            where, base = Where(ex.dynamic(ex.HETEROGENEOUS, load), policy), _homogeneous(load, ex.PAIRED)
            text = f"C42: mean response, heterogeneous {policy} / homogeneous {ex.PAIRED}, within 5 points of 1"
            yield within(
                text, f"load {load}", "similar", figures.ratio(ex.RESPONSE, where, base), SIMILAR, interval_text
            )
        for load in ex.LOADS:
            workload = ex.dynamic(ex.HETEROGENEOUS, load)
            text = f"C42: mean response of heterogeneous jobs, {ex.STRICT} / {policy}, above 1"
            found = gain(figures, workload, ex.STRICT, policy)
            yield judged(text, workload, "enough matching", found, Band.above(1.0), interval_text)
        for key, name in (("jobs_mean", "mean"), ("jobs_max", "largest")):
            where, base = Where(ex.dynamic(ex.HETEROGENEOUS, "0.95"), policy), _homogeneous("0.95", ex.PAIRED)
            text = f"C43: {name} number of jobs, heterogeneous {policy} / homogeneous {ex.PAIRED}, within 5 points of 1"
            yield within(
                text, "load 0.95", "slight difference", figures.ratio(key, where, base), SIMILAR, interval_text
            )
    for load in ex.ABOVE:
        workload = ex.dynamic(ex.HETEROGENEOUS, load)
        text = f"C42: mean response of heterogeneous jobs, {ex.STRICT} / {ex.PAIRED}, above 1"
        found = gain(figures, workload, ex.STRICT, ex.PAIRED)
        yield judged(text, workload, "enough matching", found, Band.above(1.0), interval_text)
    where = Where(ex.dynamic(ex.HETEROGENEOUS, "0.8"), ex.PAIRED)
    text = "R10: correlation of predicted and real share, jobs measured before, above 0.8 (our bound)"
    found = figures.mean("prediction_correlation", where)
    yield judged(text, where.workload, "correlated", found, Band.above(0.8), interval_text)


def _conditions(figures: Figures) -> Iterator[Claim]:
    for load in ex.LOADS:
        where = _homogeneous(load, ex.STRICT)
        text = f"P23: hours of a run, {ex.STRICT}, {HOURS[0]:g} to {HOURS[1]:g}"
        yield within(text, where.workload, "8 to 11", figures.mean("run_h", where), HOURS, interval_text)
    where = _homogeneous(ex.LOADS[-1], ex.STRICT)
    text = f"C52: CPU time used, % of that of all nodes in quanta, {ex.STRICT}, below 60 (our bound)"
    found = figures.mean(ex.CPU_USED, where)
    yield judged(text, where.workload, "wasted in waiting", found, Band.below(0.6), _PERCENT)
    for program in (ex.HOMOGENEOUS, ex.HETEROGENEOUS):
        yield _same_jobs(figures, ex.dynamic(program, ex.LOADS[-1]))


def _same_jobs(figures: Figures, workload: str) -> Claim:
    """Return the claim that strict and paired gang scheduling get the same jobs, by digest and seed (C53)."""
    both = [figures.series(Where(workload, policy)) for policy in (ex.STRICT, ex.PAIRED)]
    digests = [{row["seed"]: row.get("workload_digest") for row in series.rows} if series else {} for series in both]
    seeds = [seed for seed in digests[0] if seed in digests[1]]
    same = sum(digests[0][seed] == digests[1][seed] for seed in seeds)
    verdict = (Verdict.YES if same == len(seeds) else Verdict.NO) if seeds else None
    text = f"C53: same jobs under {ex.STRICT} and {ex.PAIRED}: digests of submissions, sizes, run times and programs"
    return by_construction(
        Claim(text, workload, "exactly the same", f"{same} of {len(seeds)} seeds", len(seeds), verdict)
    )
