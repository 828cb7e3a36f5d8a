"""The claims of the RUA paper: what it prints, what was measured, and whether that holds. `readings` has those on readings."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import isnan, log
from typing import Final

from scripts.papers.claims import (
    ALMOST,
    Band,
    Claim,
    Of,
    agreeing,
    combined,
    in_print,
    judged,
    near,
    near_level,
    near_ratio,
    quarter,
    within,
)
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.rua.experiment import HARD, LCT, LOGS, MIXES, WORKLOADS
from scripts.papers.rua.published import (
    KILLED,
    PENALISED,
    PENALISED_P95,
    SLOWDOWN,
    SLOWDOWN_P95,
    WAIT,
    WAIT_P95,
    published,
    published_ratio,
)
from scripts.papers.rua.windows import by_window, change_of_windows, ratios
from scripts.tables import NOTHING, number

from cosched_emulator.statistics.intervals import Interval, Verdict, interval_of

ALL_SLOWDOWN_P95: Final = "all_bounded_slowdown_10s_p95"
NAMES: Final = {
    KILLED: "killed",
    PENALISED: "penalised mean",
    PENALISED_P95: "penalised p95",
    SLOWDOWN_P95: "bounded slowdown p95",
    SLOWDOWN: "bounded slowdown mean",
    ALL_SLOWDOWN_P95: "bounded slowdown p95 of all jobs that ran",
    WAIT_P95: "wait p95",
    WAIT: "wait mean",
}
TABLES: Final = {
    SLOWDOWN_P95: ("C5", "Table 1"),
    SLOWDOWN: ("C6", "Table 2"),
    WAIT_P95: ("C7", "Table 3"),
    WAIT: ("C8", "Table 4"),
    PENALISED_P95: ("C12", "Table 5"),
    PENALISED: ("C12", "Table 6"),
    KILLED: ("C21", "Table 7"),
}
FACTORS: Final = {"CTC HIGH": (3.0, 4.0), "BLUE HIGH": (5.0, 6.0)}  # "reduction of 300 %": FF / RUA in two conventions
TEXT_FACTOR: Final = 4.0  # times fewer kills of LC, by its text
CLOSE: Final = 5.0  # percent between the slowdowns of RUA and FF, at most
FEWER: Final = 400  # jobs that finish under FF, less than under RUA
DIFFERENT: Final = 0.001  # ratios and percentages that are nearer differ by rounding
THRESHOLDS: Final = ("LCT=1", "LCT=1.15", "LCT=1.25", "LCT=1.5")


def claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured, in the order of the list."""
    return [
        *_against_ff(figures),
        *_thresholds(figures),
        *_tables(figures),
        *_penalties(figures),
        *_kills(figures),
        *_trade_offs(figures),
        *_rua(figures),
        *_rua_kills(figures),
    ]


# ---------------------------------------------------------------- comparisons


def ratio(figures: Figures, key: str, where: Where, base: Where) -> Interval | None:
    """Return a figure over that of ``base``: the geometric mean, or the plain one where a figure is 0."""
    found = figures.ratio(key, where, base)
    if found is None:
        found = interval_of(by_window(figures.ratios(key, where, base)))
    return found


def like(figures: Figures, key: str, workload: str, policy: str) -> Verdict | None:
    """Tell whether a figure over FF's is within a quarter of the published one; None where one of the two does not exist."""
    theirs = published_ratio(key, workload, policy)
    found = ratio(figures, key, Where(workload, policy), Where(workload, "FF"))
    if theirs is None or found is None:
        return None
    return quarter(theirs, Of.RATIO).verdict(found)


def less(figures: Figures, text: str, key: str, one: Where, other: Where, theirs: str = "less") -> Claim:
    """Return the claim that one cell has less than another."""
    found = ratio(figures, key, one, other)
    name = f"{text}: {_name(one)} / {_name(other)} below 1, {NAMES[key]}"
    return judged(name, one.workload, theirs, found, Band.below(1 - DIFFERENT), interval_text)


def _name(where: Where) -> str:
    return where.policy if where.variant is None else f"{where.policy} ({where.variant})"


def _order(figures: Figures, text: str, key: str, workload: str, names: Sequence[str]) -> Claim:
    """Return the claim that a figure falls from each policy to the next."""
    steps = [figures.difference(key, Where(workload, one), Where(workload, other)) for one, other in pairwise(names)]
    theirs = ", ".join(number(published(key, workload, name)) for name in names)
    measured = ", ".join(_mean_text(figures, key, workload, name) for name in names)
    text = f"{text}: {' > '.join(names)}, {NAMES[key]}"
    return combined(text, workload, theirs, measured, [(step, Band.above(DIFFERENT)) for step in steps])


def _mean_text(figures: Figures, key: str, workload: str, policy: str) -> str:
    found = figures.mean(key, Where(workload, policy))
    return NOTHING if found is None else number(found.mean)


def _run(figures: Figures, workload: str, policies: Sequence[str]) -> list[str]:
    """Return the policies that have run, or all if none has."""
    return [name for name in policies if figures.seeds(Where(workload, name))] or [*policies]


def _published_ratios(figures: Figures, text: str, keys: Sequence[str], workload: str, base: str) -> Claim:
    """Return the claim that figures of LC and LCT over those of ``base`` are as published, of all policies that have run."""
    parts, theirs, measured = [], [], []
    for key in keys:
        for policy in _run(figures, workload, ("LC", *LCT)):
            target = published_ratio(key, workload, policy, base)
            if target is None or policy == base:
                continue
            found = ratio(figures, key, Where(workload, policy), Where(workload, base))
            parts.append((found, quarter(target, Of.RATIO)))
            theirs.append(f"{policy} {number(target)}")
            measured.append(f"{policy} {number(None if found is None else found.mean)}")
    return combined(f"{text} within a quarter", workload, ", ".join(theirs), ", ".join(measured), parts)


# ---------------------------------------------------------------- LC and LCT against FF and each other


def _against_ff(figures: Figures) -> Iterator[Claim]:
    for workload in WORKLOADS:
        found = ratio(figures, KILLED, Where(workload, "LCT=1"), Where(workload, "FF"))
        text = "C1: LCT=1 / FF 1/4 or less, killed"
        yield judged(text, workload, "4 or 6 times fewer", found, Band.below(1 / TEXT_FACTOR), interval_text)
    for key in (SLOWDOWN_P95, SLOWDOWN):
        for workload in WORKLOADS:
            yield less(figures, "C2", key, Where(workload, "LC"), Where(workload, "LCT=1"), "better")


def _thresholds(figures: Figures) -> Iterator[Claim]:
    for workload in WORKLOADS:
        yield _order(figures, "C3", SLOWDOWN_P95, workload, THRESHOLDS)
    steps = [published_ratio(SLOWDOWN_P95, workload, "LCT=1", "LCT=1.5") or 0.0 for workload in WORKLOADS]
    yield in_print(
        "C4: bounded slowdown p95: LCT=1 about 20 % above LCT=1.5 in all centres and workloads",
        "Table 1",
        "about 20 %",
        ", ".join(f"{100 * (step - 1):.0f}" for step in steps) + " %",
        holds=all(quarter(20.0, Of.CHANGE).low <= 100 * (step - 1) <= quarter(20.0, Of.CHANGE).high for step in steps),
    )


def _tables(figures: Figures) -> Iterator[Claim]:
    for key in (SLOWDOWN_P95, SLOWDOWN, WAIT_P95, WAIT):
        number_of, title = TABLES[key]
        for workload in WORKLOADS:
            yield _published_ratios(figures, f"{number_of}: {title}: ratios to FF", [key], workload, "FF")
    yield in_print(
        "C8: wait: the mean of a table of waits is below its 95th percentile",
        "CTC",
        "mean 20,082, p95 10,286",
        "the mean is twice the percentile: more than 5 % of the jobs would have to wait far longer",
        holds=False,
    )
    for key, text in ((SLOWDOWN_P95, "C9"), (WAIT_P95, "C11")):
        for workload in WORKLOADS:
            theirs = published_ratio(key, workload, "LC")
            assert theirs is not None
            found = figures.change(key, Where(workload, "LC"), Where(workload, "FF"))
            yield near(f"{text}: LC against FF, {NAMES[key]}", workload, 100 * (theirs - 1), found)
    for key in (WAIT_P95, WAIT):
        for workload in WORKLOADS:
            yield less(figures, "C10", key, Where(workload, "LC"), Where(workload, "LCT=1"), "better")


def _penalties(figures: Figures) -> Iterator[Claim]:
    for key in (PENALISED_P95, PENALISED):
        for workload in WORKLOADS:
            yield _order(figures, "C12", key, workload, ("FF", "LC", "LCT=1"))
        for workload in WORKLOADS:
            title = TABLES[key][1]
            yield _published_ratios(figures, f"C12: {title}: ratios to FF", [key], workload, "FF")
        for workload in WORKLOADS:
            yield _order(figures, "C13", key, workload, THRESHOLDS[::-1])
    for workload in WORKLOADS:
        theirs = published_ratio(PENALISED_P95, workload, "LC", "LCT=1.5")
        found = ratio(figures, PENALISED_P95, Where(workload, "LC"), Where(workload, "LCT=1.5"))
        yield near_ratio(f"C14: LC / LCT=1.5, {NAMES[PENALISED_P95]}", workload, theirs or 1.0, found)
    for key in (PENALISED_P95, PENALISED):
        for workload in WORKLOADS:
            yield _all_less(figures, key, workload)
    for workload in WORKLOADS:
        theirs = published_ratio(PENALISED_P95, workload, "LCT=1")
        found = ratio(figures, PENALISED_P95, Where(workload, "LCT=1"), Where(workload, "FF"))
        yield near_ratio(f"C16: LCT=1 / FF, {NAMES[PENALISED_P95]}", workload, theirs or 1.0, found)


def _all_less(figures: Figures, key: str, workload: str) -> Claim:
    names = _run(figures, workload, ("LC", *LCT))
    found = [ratio(figures, key, Where(workload, name), Where(workload, "FF")) for name in names]
    measured = ", ".join(
        f"{name} {number(None if each is None else each.mean)}" for name, each in zip(names, found, strict=True)
    )
    text = f"C15: LC and LCT with every threshold / FF below 1, {NAMES[key]}"
    return combined(text, workload, "all less", measured, [(each, Band.below(1 - DIFFERENT)) for each in found])


# ---------------------------------------------------------------- kills of LC and LCT


def _kills(figures: Figures) -> Iterator[Claim]:
    for workload in WORKLOADS:
        yield _most_improved(figures, workload)
    found = ratio(figures, KILLED, Where("CTC HIGH", "LCT=1"), Where("CTC HIGH", "FF"))
    yield near_ratio("C18: LCT=1 / FF, killed", "CTC HIGH", 70 / 428, found, told="70 of 428")
    for workload in WORKLOADS:
        names = _run(figures, workload, LCT[1:])
        halves = [ratio(figures, KILLED, Where(workload, name), Where(workload, "FF")) for name in names]
        measured = ", ".join(
            f"{name} {number(None if each is None else each.mean)}" for name, each in zip(names, halves, strict=True)
        )
        text = "C19: LCT above 1 / FF half or less, killed"
        yield combined(text, workload, "halved", measured, [(each, Band.below(0.5)) for each in halves])
    for workload in HARD:
        found = ratio(figures, KILLED, Where(workload, "FF"), Where(workload, "LC"))
        yield near_ratio("C20: FF / LC, killed", workload, TEXT_FACTOR, found, told="4 x")
    for log_name in LOGS:
        own = published_ratio(KILLED, f"{log_name} MED", "FF", "LC") or 0.0
        band = quarter(TEXT_FACTOR, Of.RATIO)
        text = "C20: FF / LC, killed, in its own Table 7"
        yield in_print(text, f"{log_name} MED", "4 x", number(own), holds=band.low <= own <= band.high)
    for workload in WORKLOADS:
        if published(KILLED, workload, "FF") is not None:
            yield _published_ratios(figures, "C21: Table 7: ratios to FF", [KILLED], workload, "FF")
        yield _order(figures, "C21", KILLED, workload, THRESHOLDS[::-1])


def _most_improved(figures: Figures, workload: str) -> Claim:
    """Return the claim that kills fall more than penalised times do, against FF."""
    parts, measured = [], []
    base = Where(workload, "FF")
    for policy in _run(figures, workload, ("LC", *LCT)):
        where = Where(workload, policy)
        kills, penalised = (
            ratios(figures.values(key, where), figures.values(key, base)) for key in (KILLED, PENALISED)
        )
        found = change_of_windows(ratios(kills, penalised)) if kills and penalised else None
        if found is not None or not kills:
            parts.append((found, Band.below()))
            measured.append(f"{policy} {number(None if found is None else 1 + found.mean / 100)}")
    text = "C17: killed / FF's over penalised mean / FF's below 1 under LC and every LCT"
    return combined(text, workload, "kills fall most", ", ".join(measured), parts)


# ---------------------------------------------------------------- LC like LCT, and which threshold is best


def _trade_offs(figures: Figures) -> Iterator[Claim]:
    for workload in WORKLOADS:
        for other in ("LCT=1.25", "LCT=1.5"):
            parts, theirs, measured = [], [], []
            for key in (SLOWDOWN_P95, KILLED, PENALISED):
                target = published_ratio(key, workload, "LC", other)
                if target is not None:
                    found = ratio(figures, key, Where(workload, "LC"), Where(workload, other))
                    parts.append((found, quarter(target, Of.RATIO)))
                    theirs.append(f"{NAMES[key]} {number(target)}")
                    measured.append(f"{NAMES[key]} {number(None if found is None else found.mean)}")
            text = f"C22: LC / {other} as published"
            yield combined(text, workload, ", ".join(theirs), ", ".join(measured), parts)
    for workload in WORKLOADS:
        least, most = Where(workload, "LCT=1"), Where(workload, "LCT=1.5")
        bands = ((SLOWDOWN_P95, Band.below(1.0)), (KILLED, Band.above(1.0)), (PENALISED, Band.above(1.0)))
        changes = [(ratio(figures, key, most, least), band) for key, band in bands]
        measured = [
            f"{NAMES[key]} {number(None if found is None else found.mean)}"
            for (key, _), (found, _) in zip(bands, changes, strict=True)
        ]
        text = "C23: LCT=1.5 / LCT=1: slowdown below 1, kills and penalised time above"
        yield combined(text, workload, "better, more, more", ", ".join(measured), changes)
    for log_name in LOGS:
        yield _balance(figures, log_name)


def _balance(figures: Figures, log_name: str) -> Claim:
    """Return the claim that of the thresholds 1.15 is nearest to the best of all three figures."""
    best = [name for workload in _of_log(log_name) for name in _nearest(figures, workload)]
    measured = ", ".join(f"{name} {best.count(name)}" for name in THRESHOLDS if name in best)
    text = "C24: threshold 1.15 has the least distance to the best slowdown p95, kills and penalised time, each from 0 to 1"
    return agreeing(text, log_name, "1.15", [name == "LCT=1.15" for name in best], measured)


def _of_log(log_name: str) -> list[str]:
    return [f"{log_name} {mix}" for mix in MIXES]


def _nearest(figures: Figures, workload: str) -> Iterator[str]:
    """Yield for each run of all thresholds the one whose three figures, scaled from best to worst, are nearest to the best."""
    keys = (SLOWDOWN_P95, KILLED, PENALISED)
    values = {
        key: {name: figures.values(key, Where(workload, name)) for name in THRESHOLDS} for key in keys
    }  # key -> threshold -> pair -> value
    for pair in values[KILLED][THRESHOLDS[0]]:
        if all(pair in found for by_name in values.values() for found in by_name.values()):
            yield min(THRESHOLDS, key=lambda name: _distance(values, name, pair))


def _distance(values: Mapping[str, Mapping[str, Mapping[int, float]]], name: str, pair: int) -> float:
    squares = 0.0
    for by_name in values.values():
        all_of = [found[pair] for found in by_name.values()]
        span = max(all_of) - min(all_of)
        squares += ((by_name[name][pair] - min(all_of)) / span) ** 2 if span else 0.0
    return squares


# ---------------------------------------------------------------- RUA


def _rua(figures: Figures) -> Iterator[Claim]:
    for key in (SLOWDOWN_P95, ALL_SLOWDOWN_P95):
        for workload in WORKLOADS:
            found = figures.change(key, Where(workload, "RUA"), Where(workload, "FF"))
            text = f"C25: RUA against FF within {CLOSE:g} %, {NAMES[key]}"
            yield within(text, workload, "below 5 %", found, (-CLOSE, CLOSE))
    text = "C25: RUA against FF within 5 %, its own example"
    yield in_print(text, "BLUE HIGH", "100 and around 110", "10 %", holds=CLOSE >= 10)
    fewer = figures.difference(KILLED, Where("BLUE HIGH", "FF"), Where("BLUE HIGH", "RUA"))
    text = "C26: jobs that finish under RUA and not under FF"
    yield near_level(text, "BLUE HIGH", FEWER, fewer, told="400")
    for workload in WORKLOADS:
        yield less(figures, "C27", SLOWDOWN_P95, Where(workload, "RUA"), Where(workload, "LC"), "better")
    for other, band, told in (("FF", (0.75, 1.31), "about 4,000 and 5,000"), ("LC", (0.5, 0.75), "about .57 to .71")):
        found = ratio(figures, WAIT_P95, Where("CTC HIGH", "RUA"), Where("CTC HIGH", other))
        text = f"C28: wait p95, RUA / {other} from {band[0]:g} to {band[1]:g}"
        yield within(text, "CTC HIGH", told, found, band, interval_text)
    text = "C28: wait p95, FF and LC of the text are those of its Table 3"
    yield in_print(text, "CTC HIGH", "about 5,000 and 7,000 s", "10,286 and 12,588 s", holds=False)
    for key in (SLOWDOWN_P95, WAIT_P95):
        yield _stable(figures, key)


def _stable(figures: Figures, key: str) -> Claim:
    """Return the claim that the ratios to FF differ less from workload to workload under RUA than under LC."""
    spreads: dict[str, dict[int, float]] = {}
    for policy in ("RUA", "LC"):
        logs: dict[int, list[float]] = {}
        for workload in HARD:
            for pair, value in figures.ratios(key, Where(workload, policy), Where(workload, "FF")).items():
                logs.setdefault(pair, []).append(log(value))
        spreads[policy] = {pair: statistics.stdev(values) for pair, values in logs.items() if len(values) == len(HARD)}
    between = ratios(spreads["RUA"], spreads["LC"])
    found = change_of_windows(between) if between and not any(map(isnan, between.values())) else None
    text = f"C29: spread of log(RUA / FF) over HIGH and MED below that of LC by %, {NAMES[key]}"
    return judged(text, "both logs", "more stable", found, Band.below())


def _rua_kills(figures: Figures) -> Iterator[Claim]:
    for workload, factors in FACTORS.items():
        found = ratio(figures, KILLED, Where(workload, "FF"), Where(workload, "RUA"))
        for factor in factors:
            percents = f"{100 * factors[0]:.0f} %"
            yield near_ratio(f"C30: FF / RUA, {percents} as {factor:g} x", workload, factor, found, told=percents)
    for workload in WORKLOADS:
        found = ratio(figures, KILLED, Where(workload, "FF"), Where(workload, "RUA"))
        yield judged("C30: FF / RUA, above 1", workload, "fewer", found, Band.above(1.0), interval_text)
    for key in (PENALISED_P95, PENALISED):
        change = figures.change(key, Where("BLUE MED", "RUA"), Where("BLUE MED", "FF"))
        yield near(f"C31: RUA against FF, {NAMES[key]}", "BLUE MED", -50.0, change)
        for workload in WORKLOADS:
            yield less(figures, "C31", key, Where(workload, "RUA"), Where(workload, "FF"), "improved")
    for key in (KILLED, PENALISED, PENALISED_P95):
        for workload in WORKLOADS:
            yield less(figures, "C32", key, Where(workload, "RUA"), Where(workload, "LC"), "substantially less")
    yield from _derived()
    for workload in WORKLOADS:
        yield _summary(figures, workload)


def _derived() -> Iterator[Claim]:
    """Yield what the paper's own numbers say of RUA against LC."""
    text = "C32: RUA / LC below 1, killed, from the text's factors of FF / LC and FF / RUA"
    for workload, (factor, other) in FACTORS.items():
        told = f"4 and {factor:g}: {number(TEXT_FACTOR / factor)}; 4 and {other:g}: {number(TEXT_FACTOR / other)}"
        yield in_print(text, workload, "substantially less", told, holds=TEXT_FACTOR / factor < 1)
    text = "C33: RUA below LC, killed, as LC is like LCT=1.25 and 1.5 (C22)"
    yield in_print(text, "CTC HIGH", "substantially less", "428 / 3 = 143, and 87 to 97", holds=False)


def _summary(figures: Figures, workload: str) -> Claim:
    rua, ff = Where(workload, "RUA"), Where(workload, "FF")
    parts = [
        (ratio(figures, SLOWDOWN_P95, rua, ff), Band(1 - 2 * ALMOST / 100, 1 + 2 * ALMOST / 100)),
        (ratio(figures, KILLED, rua, ff), Band.below(1.0)),
        (ratio(figures, PENALISED, rua, ff), Band.below(1.0)),
    ]
    measured = ", ".join(number(None if found is None else found.mean) for found, _ in parts)
    text = "C34: RUA / FF: slowdown p95 within 10 %, fewer kills and less penalised time"
    return combined(text, workload, "close, less, less", measured, parts)
