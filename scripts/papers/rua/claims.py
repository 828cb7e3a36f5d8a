"""The claims of the RUA paper: what it prints, what was measured, and whether that holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from scripts.papers.claims import Band, Claim, Of, combined, judged, near, near_ratio, quarter, within
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.rua.experiment import LOGS, POLICIES, VARIANTS, WORKLOADS
from scripts.papers.rua.published import (
    KILLED,
    PENALISED,
    PENALISED_P95,
    PUBLISHED,
    SLOWDOWN_P95,
    WAIT_P95,
)
from scripts.tables import NOTHING, number

from cosched_emulator.statistics.intervals import Interval, Verdict, mean_interval

ALL_SLOWDOWN_P95: Final = "all_bounded_slowdown_10s_p95"
NAMES: Final = {
    KILLED: "killed",
    PENALISED: "penalised, mean",
    PENALISED_P95: "penalised, p95",
    SLOWDOWN_P95: "bounded slowdown p95",
    ALL_SLOWDOWN_P95: "bounded slowdown p95 of all jobs that ran",
    WAIT_P95: "wait p95",
}
FACTORS: Final = {"CTC HIGH": 3.0, "BLUE HIGH": 5.0}  # times fewer kills of RUA, by the paper's text
TEXT_FACTOR: Final = 4.0  # times fewer kills of LC, by its text
CLOSE: Final = 5.0  # percent between the slowdowns of RUA and FF, at most
DIFFERENT: Final = 0.001  # ratios and percentages that are nearer differ by rounding
HARD: Final = [workload for workload in WORKLOADS if not workload.endswith("LOW")]


def claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    return [*_kills(figures), *_penalties(figures), *_slowdowns(figures), *_waits(figures)]


def claims_of_variants(figures: Figures) -> list[Claim]:
    """Return the claims that RUA has less than LC, in the experiments that have run with both."""
    found = [
        _less(figures, key, workload, "RUA", "LC", NOTHING, name)
        for key in (KILLED, PENALISED)
        for workload in WORKLOADS
        for name, variant in VARIANTS.items()
        if {"RUA", "LC"} <= {*variant.policies}
    ]
    return [claim for claim in found if claim.seeds]


def ratio(figures: Figures, key: str, where: Where, base: Where) -> Interval | None:
    """Return a figure over that of ``base``, paired by seed: the geometric mean, or the plain one where a figure is 0."""
    found = figures.ratio(key, where, base)
    if found is None:
        mine, theirs = figures.values(key, where), figures.values(key, base)
        ratios = [value / theirs[seed] for seed, value in mine.items() if theirs.get(seed)]
        found = mean_interval(ratios) if ratios else None
    return found


def published(key: str, workload: str, policy: str) -> float | None:
    """Return a value of the paper's tables; it shows RUA in figures only."""
    row = PUBLISHED.get(key, {}).get(workload, ())
    return dict(zip(POLICIES, row, strict=False)).get(policy)


def published_ratio(key: str, workload: str, policy: str, base: str = "FF") -> float | None:
    """Return a value of the paper's tables over that of another policy."""
    value, theirs = (published(key, workload, name) for name in (policy, base))
    return None if value is None or not theirs else value / theirs


def like(figures: Figures, key: str, workload: str, policy: str) -> Verdict | None:
    """Tell whether a figure over FF's is within a quarter of the published one; None where one of the two does not exist."""
    theirs = published_ratio(key, workload, policy)
    found = ratio(figures, key, Where(workload, policy), Where(workload, "FF"))
    if theirs is None or found is None:
        return None
    return quarter(theirs, Of.RATIO).verdict(found)


def _about(figures: Figures, key: str, workload: str, policy: str) -> Claim:
    """Return the claim that a figure over FF's is within a quarter of the published one."""
    theirs = published_ratio(key, workload, policy)
    assert theirs is not None
    found = ratio(figures, key, Where(workload, policy), Where(workload, "FF"))
    return near_ratio(f"{NAMES[key]}: {policy} / FF", workload, theirs, found)


def _factor(figures: Figures, text: str, workload: str, policy: str, factor: float) -> Claim:
    """Return the claim that FF kills so many times as many jobs as a policy."""
    found = ratio(figures, KILLED, Where(workload, "FF"), Where(workload, policy))
    return near_ratio(text, workload, factor, found, told=f"{factor:g} x")


def _less(
    figures: Figures, key: str, workload: str, policy: str, other: str, theirs: str = "less", variant: str | None = None
) -> Claim:
    """Return the claim that one policy has less than another."""
    found = ratio(figures, key, Where(workload, policy, variant), Where(workload, other, variant))
    text = f"{NAMES[key]}: {policy} / {other}, below 1"
    place = workload if variant is None else f"{workload}, {variant}"
    return judged(text, place, theirs, found, Band.below(1 - DIFFERENT), interval_text)


def _kills(figures: Figures) -> Iterator[Claim]:
    for log in LOGS:
        yield _about(figures, KILLED, f"{log} MED", "LC")
    for workload in HARD:
        text = "killed: FF / LC, the text's factor of 4"
        yield _factor(figures, text, workload, "LC", TEXT_FACTOR)
    for workload in WORKLOADS:
        yield _fewest(figures, workload)
        if published_ratio(KILLED, workload, "LCT=1") is not None:
            yield _about(figures, KILLED, workload, "LCT=1")
    for workload in WORKLOADS:
        for policy in ("LCT=1.15", "LCT=1.25"):
            theirs = published_ratio(KILLED, workload, policy, "LC")
            found = ratio(figures, KILLED, Where(workload, policy), Where(workload, "LC"))
            text = f"killed: {policy} / LC, no more than 1.05"
            shown = "fewer or as many" if theirs is None else number(theirs)
            yield judged(text, workload, shown, found, Band.below(1.05), interval_text)
    for workload, factor in FACTORS.items():
        yield _factor(figures, "killed: FF / RUA", workload, "RUA", factor)
    for workload in WORKLOADS:
        found = ratio(figures, KILLED, Where(workload, "FF"), Where(workload, "RUA"))
        text = "killed: FF / RUA, above 1"
        yield judged(text, workload, "fewer", found, Band.above(1.0), interval_text)
    for workload in WORKLOADS:
        yield _less(figures, KILLED, workload, "RUA", "LC", "substantially fewer")


def _fewest(figures: Figures, workload: str) -> Claim:
    """Return the claim that LCT=1 kills fewest jobs."""
    one = Where(workload, "LCT=1")
    others = [Where(workload, name) for name in POLICIES if name != "LCT=1"]
    parts = [(figures.difference(KILLED, one, other), Band.below()) for other in others]
    values = [figures.mean(KILLED, where) for where in (one, *others)]
    measured = number(values[0].mean) if values[0] is not None else NOTHING
    rest = [value.mean for value in values[1:] if value is not None]
    least = f"{measured}; the others {number(min(rest))} or more" if rest and values[0] else measured
    return combined("killed: LCT=1 fewest", workload, "fewest", least, parts)


def _penalties(figures: Figures) -> Iterator[Claim]:
    for key in (PENALISED, PENALISED_P95):
        for workload in WORKLOADS:
            yield _falling(figures, key, workload)
    for workload in WORKLOADS:
        yield _about(figures, PENALISED_P95, workload, "LCT=1")
    for key in (PENALISED_P95, PENALISED):
        found = figures.change(key, Where("BLUE MED", "RUA"), Where("BLUE MED", "FF"))
        yield near(f"{NAMES[key]}: RUA against FF", "BLUE MED", -50.0, found)
    for key in (PENALISED, PENALISED_P95):
        for workload in WORKLOADS:
            yield _less(figures, key, workload, "RUA", "LC", "substantially less")


def _falling(figures: Figures, key: str, workload: str) -> Claim:
    """Return the claim that the penalty falls from FF to LC to LCT=1."""
    names = ("FF", "LC", "LCT=1")
    steps = [figures.difference(key, Where(workload, one), Where(workload, other)) for one, other in _steps(names)]
    means = [figures.mean(key, Where(workload, name)) for name in names]
    measured = ", ".join(NOTHING if mean is None else number(mean.mean) for mean in means)
    theirs = ", ".join(number(published(key, workload, name)) for name in names)
    parts = [(step, Band.above(DIFFERENT)) for step in steps]
    return combined(f"{NAMES[key]}: FF > LC > LCT=1", workload, theirs, measured, parts)


def _steps(names: Sequence[str]) -> list[tuple[str, str]]:
    return list(pairwise(names))


def _slowdowns(figures: Figures) -> Iterator[Claim]:
    for workload in WORKLOADS:
        found = figures.change(SLOWDOWN_P95, Where(workload, "RUA"), Where(workload, "FF"))
        text = f"{NAMES[SLOWDOWN_P95]}: RUA against FF, within {CLOSE:g} %"
        yield within(text, workload, "below 5 %", found, (-CLOSE, CLOSE))
    for workload in WORKLOADS:
        found = figures.change(ALL_SLOWDOWN_P95, Where(workload, "RUA"), Where(workload, "FF"))
        text = f"{NAMES[ALL_SLOWDOWN_P95]}: RUA against FF, within {CLOSE:g} %"
        yield within(text, workload, NOTHING, found, (-CLOSE, CLOSE))
    for workload in WORKLOADS:
        yield _less(figures, SLOWDOWN_P95, workload, "RUA", "LC", "better")
    for workload in WORKLOADS:
        yield _change(figures, SLOWDOWN_P95, workload, "LC")


def _waits(figures: Figures) -> Iterator[Claim]:
    for workload in WORKLOADS:
        yield _change(figures, WAIT_P95, workload, "LC")
    yield _less(figures, WAIT_P95, "CTC HIGH", "RUA", "LC", "about 0.65")


def _change(figures: Figures, key: str, workload: str, policy: str) -> Claim:
    """Return the claim that a figure is above FF's by the published percentage."""
    theirs = published_ratio(key, workload, policy)
    assert theirs is not None
    found = figures.change(key, Where(workload, policy), Where(workload, "FF"))
    return near(f"{NAMES[key]}: {policy} against FF", workload, 100 * (theirs - 1), found)
