"""The claims of the RUA paper as data: what it prints, what is measured, where that is to be; its readings (X), parameters, rules.

A reading (X1 to X7 of the list) says what a limit is extended by, and for whom. Each is a run of its own of LC, RUA or FF; a comparison
takes one of each.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isnan, log
from typing import Any, Final

from scripts.papers import rows as r
from scripts.papers.claims import ALMOST, Band, Claim, Of, built, in_print, not_checkable, quarter
from scripts.papers.figures import Figures, Where, percent_text
from scripts.papers.rua import experiment as ex
from scripts.papers.rua import published as printed
from scripts.papers.rua.published import KILLED, PENALISED, PENALISED_P95, SLOWDOWN, SLOWDOWN_P95, WAIT, WAIT_P95
from scripts.papers.rua.windows import WINDOW, change_of_windows, ratios
from scripts.tables import NOTHING, number

ALL_SLOWDOWN_P95: Final = "all_bounded_slowdown_10s_p95"
WEEK_P95: Final = "killed_week_p95"
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
FACTORS: Final = {"CTC HIGH": (3.0, 4.0), "BLUE HIGH": (5.0, 6.0)}  # "reduction of 300 %": FF / RUA in two conventions
TEXT_FACTOR: Final = 4.0  # times fewer kills of LC, by its text
CLOSE: Final = 5.0  # percent between the slowdowns of RUA and FF, at most
DIFFERENT: Final = 0.001  # ratios and percentages that are nearer differ by rounding
THRESHOLDS: Final = ("LCT=1", "LCT=1.15", "LCT=1.25", "LCT=1.5")
LCS: Final = ("LC", *ex.LCT)
OF_THREE: Final = (SLOWDOWN_P95, KILLED, PENALISED)
LESS: Final = Band.below(1 - DIFFERENT)
MORE: Final = Band.above(1.0)
FEWER: Final = Band.below(1.0)


def like(figures: Figures, key: str, workload: str, policy: str) -> str:
    """Tell whether a figure over FF's is within a quarter of the published one."""
    theirs = printed.published_ratio(key, workload, policy)
    rows = [r.row("", r.ratio(key, policy, "FF"), r.near_ratio(theirs), work=workload)] if theirs is not None else []
    return "".join(claim.word for claim in claims(figures, rows)) or NOTHING


def _printed(one: str, other: str, key: str, usual: float | None = None) -> Any:
    """Return the published ratio of two policies, or the usual one, as a function of a row's values."""

    def published(work: str, **values: Any) -> float | None:
        return printed.published_ratio(key.format(**values), work, one.format(**values), other) or usual

    return published


def _row(text: str, figure: Any, band: Any = None, told: Any = "", **each: Any) -> r.Row:
    """Return a row for each workload; these are taken last where the sweep does not say."""
    return r.row(text, figure, band, told, **(each if "work" in each else {**each, "work": ex.WORKLOADS}))


def _less(ids: str, one: str, other: str, told: str = "less", **each: Any) -> r.Row:
    """Return the claim that one policy has less of a figure than another; ``LC`` of a variant is ``LC (none)``."""
    parts = [name.rstrip(")").partition(" (") for name in (one, other)]
    cells = [r.cell(policy, variant=variant) if variant else r.cell(policy) for policy, _, variant in parts]
    return _row(f"{ids}: {one} / {other} below 1, {{key}}", r.ratio("{key}", *cells), LESS, told, **each)


def _falls(ids: str, names: Sequence[str], key: str) -> r.Row:
    """Return the claim that a figure falls from each policy to the next."""

    def told(work: str, **_: Any) -> str:
        return ", ".join(number(printed.published(key, work, name)) for name in names)

    steps = r.steps("difference", key, names, back=True, join=", ")
    return _row(f"{ids}: {' > '.join(names)}, {NAMES[key]}", steps, Band.above(DIFFERENT), told)


def _as_printed(ids: str, key: str, **each: Any) -> r.Row:
    """Return the claim that ratios of LC and LCT to FF are those of a table, of all policies that have run."""
    each_of = r.every(r.ratio(key, "{policy}", "FF"), "{policy} ", join=", ", run="{policy}", policy=LCS)
    return _row(f"{ids}: ratios to FF within a quarter", each_of, r.near_ratio(_printed("{policy}", "FF", key)), **each)


# ---------------------------------------------------------------- arithmetic of some claims


def _most_improved(figures: Figures) -> Iterator[Claim]:
    """Yield the claim that kills fall more than penalised times do, against FF."""
    for work in ex.WORKLOADS:
        parts, measured = [], []
        base = Where(work, "FF")
        for policy in [name for name in LCS if figures.seeds(Where(work, name))] or LCS:
            where = Where(work, policy)
            kills, penalised = (
                ratios(figures.values(key, where), figures.values(key, base)) for key in (KILLED, PENALISED)
            )
            found = change_of_windows(ratios(kills, penalised)) if kills and penalised else None
            if found is not None or not kills:
                parts.append((found, Band.below()))
                measured.append(f"{policy} {number(None if found is None else 1 + found.mean / 100)}")
        text = "C17: killed / FF's over penalised mean / FF's below 1 under LC and every LCT"
        yield r.combined(text, work, "kills fall most", ", ".join(measured), parts)


def _balance(figures: Figures) -> Iterator[Claim]:
    """Yield the claim that of the thresholds 1.15 is nearest to the best of all three figures, in most runs of a window: its runs are
    no independent samples.
    """
    text = "C24: threshold 1.15 has the least distance to the best slowdown p95, kills and penalised time, each from 0 to 1"
    for log_name in ex.LOGS:
        windows: dict[int, list[str]] = {}
        for mix in ex.MIXES:
            for pair, name in _nearest(figures, f"{log_name} {mix}"):
                windows.setdefault(pair // WINDOW or pair, []).append(name)
        best = [name for names in windows.values() for name in names]
        measured = ", ".join(f"{name} {best.count(name)}" for name in THRESHOLDS if name in best)
        holds = [2 * names.count("LCT=1.15") > len(names) for names in windows.values()]
        yield r.agreeing(text, log_name, "1.15", holds, measured and f"runs: {measured}")


def _nearest(figures: Figures, workload: str) -> Iterator[tuple[int, str]]:
    """Yield for each run of all thresholds its pair, and the one whose three figures, from best to worst, are nearest to the best."""
    values = {key: {name: figures.values(key, Where(workload, name)) for name in THRESHOLDS} for key in OF_THREE}
    for pair in values[KILLED][THRESHOLDS[0]]:
        if all(pair in found for by_name in values.values() for found in by_name.values()):
            yield pair, min(THRESHOLDS, key=lambda name: _distance(values, name, pair))


def _distance(values: Mapping[str, Mapping[str, Mapping[int, float]]], name: str, pair: int) -> float:
    squares = 0.0
    for by_name in values.values():
        all_of = [found[pair] for found in by_name.values()]
        span = max(all_of) - min(all_of)
        squares += ((by_name[name][pair] - min(all_of)) / span) ** 2 if span else 0.0
    return squares


def _spread(figures: Figures, key: str, **_: Any) -> r.Found:
    """Return by how many percent ratios to FF differ more from workload to workload under RUA than under LC."""
    spreads: dict[str, dict[int, float]] = {}
    for policy in ("RUA", "LC"):
        logs: dict[int, list[float]] = {}
        for workload in ex.HARD:
            for pair, value in figures.ratios(key, Where(workload, policy), Where(workload, "FF")).items():
                logs.setdefault(pair, []).append(log(value))
        spreads[policy] = {
            pair: statistics.stdev(all_of) for pair, all_of in logs.items() if len(all_of) == len(ex.HARD)
        }
    between = ratios(spreads["RUA"], spreads["LC"])
    return change_of_windows(between) if between and not any(map(isnan, between.values())) else None


# ---------------------------------------------------------------- what the paper's own print says


def _steps_in_print() -> Claim:
    steps = [
        100 * ((printed.published_ratio(SLOWDOWN_P95, work, "LCT=1", "LCT=1.5") or 0.0) - 1) for work in ex.WORKLOADS
    ]
    band = quarter(20.0, Of.CHANGE)
    text = "C4: bounded slowdown p95: LCT=1 about 20 % above LCT=1.5 in all centres and workloads"
    told = ", ".join(f"{step:.0f}" for step in steps) + " %"
    return in_print(text, "Table 1", "about 20 %", told, holds=all(band.low <= step <= band.high for step in steps))


def _factor_in_print(log_name: str) -> Claim:
    own, band = printed.published_ratio(KILLED, f"{log_name} MED", "FF", "LC") or 0.0, quarter(TEXT_FACTOR, Of.RATIO)
    text = "C20: FF / LC, killed, in its own Table 7"
    return in_print(text, f"{log_name} MED", "4 x", number(own), holds=band.low <= own <= band.high)


def _text_in_print(workload: str) -> Claim:
    factor, other = FACTORS[workload]
    text = "C32: RUA / LC below 1, killed, from the text's factors of FF / LC and FF / RUA"
    told = f"4 and {factor:g}: {number(TEXT_FACTOR / factor)}; 4 and {other:g}: {number(TEXT_FACTOR / other)}"
    return in_print(text, workload, "substantially less", told, holds=TEXT_FACTOR / factor < 1)


# ---------------------------------------------------------------- the claims, in the order of the list

# fmt: off
CLAIMS: Final = (
    _row("C1: LCT=1 / FF 1/4 or less, killed", r.ratio(KILLED, "LCT=1", "FF"), Band.below(1 / TEXT_FACTOR), "4 or 6 times fewer"),
    _less("C2", "LC", "LCT=1", "better", key=(SLOWDOWN_P95, SLOWDOWN)),
    _falls("C3", THRESHOLDS, SLOWDOWN_P95),
    _steps_in_print(),
    _as_printed("C5: Table 1", SLOWDOWN_P95),
    _as_printed("C6: Table 2", SLOWDOWN),
    _as_printed("C7: Table 3", WAIT_P95),
    _as_printed("C8: Table 4", WAIT),
    in_print("C8: wait: the mean of a table of waits is below its 95th percentile", "CTC", "mean 20,082, p95 10,286",
        "the mean is twice the percentile: more than 5 % of the jobs would have to wait far longer", holds=False),
    _row("{id}: LC against FF, {key}", r.change("{key}", "LC", "FF"),
        r.near(lambda work, key, **_: 100 * ((printed.published_ratio(key, work, "LC") or 1.0) - 1)), key=(SLOWDOWN_P95, WAIT_P95),
        id=lambda key, **_: "C9" if key == SLOWDOWN_P95 else "C11"),
    _less("C10", "LC", "LCT=1", "better", key=(WAIT_P95, WAIT)),
    _falls("C12", ("FF", "LC", "LCT=1"), PENALISED_P95),
    _as_printed("C12: Table 5", PENALISED_P95),
    _falls("C13", THRESHOLDS[::-1], PENALISED_P95),
    _falls("C12", ("FF", "LC", "LCT=1"), PENALISED),
    _as_printed("C12: Table 6", PENALISED),
    _falls("C13", THRESHOLDS[::-1], PENALISED),
    _row("C14: LC / LCT=1.5, penalised p95", r.ratio(PENALISED_P95, "LC", "LCT=1.5"),
        r.near_ratio(_printed("LC", "LCT=1.5", PENALISED_P95, 1.0))),
    _row("C15: LC and LCT with every threshold / FF below 1, {key}",
        r.every(r.ratio("{key}", "{policy}", "FF"), "{policy} ", join=", ", run="{policy}", policy=LCS), LESS, "all less",
        key=(PENALISED_P95, PENALISED), work=ex.WORKLOADS),
    _row("C16: LCT=1 / FF, penalised p95", r.ratio(PENALISED_P95, "LCT=1", "FF"),
        r.near_ratio(_printed("LCT=1", "FF", PENALISED_P95, 1.0))),
    _most_improved,
    _row("C18: LCT=1 / FF, killed", r.ratio(KILLED, "LCT=1", "FF"), r.near_ratio(70 / 428), "70 of 428", work="CTC HIGH"),
    _row("C19: LCT above 1 / FF half or less, killed",
        r.every(r.ratio(KILLED, "{policy}", "FF"), "{policy} ", join=", ", run="{policy}", policy=ex.LCT[1:]), Band.below(0.5),
        "halved"),
    _row("C20: FF / LC, killed", r.ratio(KILLED, "FF", "LC"), r.near_ratio(TEXT_FACTOR), "4 x", work=ex.HARD),
    *map(_factor_in_print, ex.LOGS),
    r.block(
        _as_printed("C21: Table 7", KILLED,
            work=lambda workload: [workload] if printed.published(KILLED, workload, "FF") is not None else []),
        _falls("C21", THRESHOLDS[::-1], KILLED)._replace(each={"work": lambda workload: [workload]}),
        workload=ex.WORKLOADS),
    _row("C22: LC / {other} as published", r.every(r.ratio("{key}", "LC", "{other}"), "{key} ", join=", ", key=OF_THREE),
        r.near_ratio(lambda work, key, other: printed.published_ratio(key, work, "LC", other)), work=ex.WORKLOADS,
        other=("LCT=1.25", "LCT=1.5")),
    _row("C23: LCT=1.5 / LCT=1: slowdown below 1, kills and penalised time above",
        r.every(r.ratio("{key}", "LCT=1.5", "LCT=1"), "{key} ", join=", ", key=OF_THREE),
        lambda key, **_: FEWER if key == SLOWDOWN_P95 else MORE, "better, more, more"),
    _balance,
    _row("C25: RUA against FF within 5 %, {key}", r.change("{key}", "RUA", "FF"), Band(-CLOSE, CLOSE), "below 5 %",
        key=(SLOWDOWN_P95, ALL_SLOWDOWN_P95), work=ex.WORKLOADS),
    in_print("C25: RUA against FF within 5 %, its own example", "BLUE HIGH", "100 and around 110", "10 %", holds=CLOSE >= 10),
    _row("C26: jobs that finish under RUA and not under FF", r.difference(KILLED, "FF", "RUA"), r.near_level(400), "400",
        work="BLUE HIGH"),
    _less("C27", "RUA", "LC", "better", key=SLOWDOWN_P95),
    _row("C28: wait p95, RUA / FF from 0.75 to 1.31", r.ratio(WAIT_P95, "RUA", "FF"), Band(0.75, 1.31), "about 4,000 and 5,000",
        work="CTC HIGH"),
    _row("C28: wait p95, RUA / LC from 0.5 to 0.75", r.ratio(WAIT_P95, "RUA", "LC"), Band(0.5, 0.75), "about .57 to .71",
        work="CTC HIGH"),
    in_print("C28: wait p95, FF and LC of the text are those of its Table 3", "CTC HIGH", "about 5,000 and 7,000 s",
        "10,286 and 12,588 s", holds=False),
    _row("C29: spread of log(RUA / FF) over HIGH and MED below that of LC by %, {key}", _spread, Band.below(), "more stable",
        at="both logs", shown=percent_text, work="both", key=(SLOWDOWN_P95, WAIT_P95)),
    _row("C30: FF / RUA, {percents} as {factor:g} x", r.ratio(KILLED, "FF", "RUA"), r.near_ratio(lambda factor, **_: factor),
        "{percents}",
        work=FACTORS, factor=lambda work: FACTORS[work], percents=lambda work, **_: f"{100 * FACTORS[work][0]:.0f} %"),
    _row("C30: FF / RUA, above 1", r.ratio(KILLED, "FF", "RUA"), MORE, "fewer"),
    r.block(
        _row("C31: RUA against FF, {key}", r.change("{key}", "RUA", "FF"), r.near(-50.0), work="BLUE MED"),
        _less("C31", "RUA", "FF", "improved"),
        key=(PENALISED_P95, PENALISED)),
    _less("C32", "RUA", "LC", "substantially less", key=(KILLED, PENALISED, PENALISED_P95)),
    *map(_text_in_print, FACTORS),
    in_print("C33: RUA below LC, killed, as LC is like LCT=1.25 and 1.5 (C22)", "CTC HIGH", "substantially less",
        "428 / 3 = 143, and 87 to 97", holds=False),
    _row("C34: RUA / FF: slowdown p95 within 10 %, fewer kills and less penalised time",
        r.every(r.ratio("{key}", "RUA", "FF"), join=", ", key=OF_THREE),
        lambda key, **_: Band(1 - 2 * ALMOST / 100, 1 + 2 * ALMOST / 100) if key == SLOWDOWN_P95 else FEWER, "close, less, less"),
)
# fmt: on

# ---------------------------------------------------------------- readings

BOTH: Final = (KILLED, PENALISED)
_pairs = partial(_less, told="substantially less", key=BOTH)
_to_lc = _printed("FF", "LC", KILLED, TEXT_FACTOR)


def _built(text: str, how: str = NOTHING, where: str = "", told: str = "in the text") -> Claim:
    return built(text, where, told, how)


# fmt: off
READINGS: Final = (
    _pairs("X1", "RUA", "LC (none)"),
    _row("X1: FF / LC (none), killed", r.ratio(KILLED, "FF", r.cell("LC", variant="none")), r.near_ratio(_to_lc), work=ex.HARD),
    _pairs("X2", "RUA (threshold)", "LC"),
    _pairs("X2, X1", "RUA (threshold)", "LC (none)"),
    _pairs("X3", "RUA (from 1.0)", "LC"),
    _pairs("X3, X2", "RUA (from 1.0 by threshold)", "LC"),
    _pairs("X4", "RUA", "LC (may wait)"),
    _built("X5: a limit that is extended again for later neighbours kills no job within its estimate",
        "a job that needs its estimate ends at its limit; `limit_factors = [1.34]` comes to the same, as no factor is above 4/3",
        "both logs", NOTHING),
    _row("X6: RUA / LC below 1, killed a week p95", r.ratio(WEEK_P95, "RUA", "LC"), LESS, "less"),
    _row("X6: FF / LC, killed a week p95", r.ratio(WEEK_P95, "FF", "LC"), r.near_ratio(_to_lc), work=ex.HARD),
    _pairs("X7", "RUA (threshold)", "LC (control)"),
    r.block(
        _less("X7", "LC (control)", "LC", "longer limits", key=KILLED)._replace(each={"key": [KILLED]}),
        _less("X7", "LC (at least 1.15)", "LC", "longer limits", key=KILLED)._replace(each={"key": [KILLED]}),
        work=ex.WORKLOADS),
    _less("X7", "FF extends (control)", "RUA (threshold)", key=KILLED),
)
# fmt: on
# fmt: off
RULES: Final = (
    not_checkable("P1: logs, CTC and BLUE, cleaned", "edition not named", "CTC on 338 processors; 430 is an experiment"),
    not_checkable("P2: which 10,000 jobs", "not said", "three windows of each log"),
    _built("P3: mixes by share of jobs, HIGH 80/10/10, MED 50/10/40, LOW 10/10/80"),
    _built("P4: 4 processors and 6,000 MB/s a node; network and memory do not count"),
    not_checkable("P5: demand of a greedy process", "the sentence is missing",
        "2,000 MB/s; 1,677 would give the 11.8 % of Table 5, BLUE HIGH"),
    _built("P6: penalty of a window, sum over windows, maximum over nodes"),
    _built("P7: SJBF, one reservation, head first come, first served"),
    _built("P8: thresholds 1, 1.15, 1.25, 1.5 (LCT) and 1.15, 1.20, 1.25, 1.5 (RUA)"),
    not_checkable("P9: what a limit is extended by", '"according this penalty"', "the readings X1 to X7"),
    _built("P10: a job that exceeds its limit is killed"),
    not_checkable("P11: caption of Table 7", '"Killed Jobs 95th Percentile"', "totals; X6 has kills a week"),
    not_checkable("P12: seeds and intervals", "none", "up to five draws of demand in each of three windows"),
    _built("R1: LC exchanges the worst buckets of first fit's allocation",
        "reaches the least factor of all allocations at that instant (tests enumerate them); the paper says a subset"),
    not_checkable("R2: LC's start is often later than first fit's", "contradicts R1", "the reading X4, `may_wait`"),
    _built("R3: LCT stops within the threshold, and looks later in time"),
    _built("R4: RUA's head takes the allocation with the least slowdown",
        "tests compare each decision with a slow program of section 5"),
    _built("R5: RUA backfills by penalty factor, then length", "tests compare each decision with a slow program of section 5"),
    _built("R6: no search between choice and start", "tests compare each decision with a slow program of section 5"),
)
# fmt: on

# The control: first fit with limits that are extended as LC's are. Where no factor is above RUA's lowest threshold, RUA is that.
CONTROL: Final = (
    _less("C32", "RUA", ex.FF_EXTENDS, "RUA's own part", key=BOTH),
    _less("C32", ex.FF_EXTENDS, "FF", "longer limits alone", key=BOTH),
)
BY_DEMAND: Final = ("C25: ", "C30: ", "C32: ")


def of_demand(figures: Figures, demand: str | None) -> list[Claim]:
    """Return the claims that hang on what a high process demands, with the control: of the cells that have run; None: of the base."""
    told = "2,000" if demand is None else f"{int(demand):,}"
    found = []
    rows = [each for each in CLAIMS if isinstance(each, r.Row) and each.text.startswith(BY_DEMAND)] if demand else []
    for each in (*rows, *CONTROL):
        works = [work for work in each.each["work"] if figures.seeds(Where(work, "RUA", demand))]
        sweep = {**each.each, "work": works, "variant": [demand]}
        found += claims(figures, [each._replace(at=f"{{work}}, {told} MB/s", each=sweep)])
    return [claim for claim in found if claim.verdict is not None]


def claims(figures: Figures, rows: Sequence[Any] = CLAIMS) -> list[Claim]:
    """Return the claims, each with what was measured."""
    return r.Table(figures, NAMES).claims(rows)
