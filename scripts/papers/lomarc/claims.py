"""The claims of the LOMARC paper as data, by the numbers of the claims list: what it prints, what is measured, and where that is to be.

Where a sentence has no number, the bound that stands for it is in the row's text. `SETTLED` has the claims, parameters and rules that
no run decides: by construction, in print, or not checkable.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from scripts.papers import rows as r
from scripts.papers.claims import ALMOST, Band, Claim, Of, built, in_print, not_checkable, quarter
from scripts.papers.figures import Figures, Where, interval_text, mapped, percent_text
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

from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
from cosched_hwmodel.units import WHOLE_PPM
from cosched_hwmodel.usage import Usage

# Table 2: shares of communication of the two applications, and the largest slowdown that the paper estimates for them, with and
# without competition for the CPU; the largest measured slowdown, over the ten cells with these shares.
TABLE_2: Final[Sequence[tuple[float, float, float, float, float]]] = (
    (0.4, 0.4, 2.0, 1.4, 1.2),
    (0.4, 0.6, 1.8, 1.4, 1.3),
    (0.6, 0.6, 2.0, 1.6, 1.4),
)
# Ids and what they are about; where the project says so, or why it cannot be checked.
CONFIGURED: Final = (
    "P1, P2, P7, P8, P9, P10, P13: machine, workloads, EASY, largest slowdown 1.6, mixes, fractions, memory",
    "presets `pss`, `lomarc-ht`, `lomarc-standard`; `scripts/papers/lomarc/experiment.py`",
)
RULES: Final = (
    "A1, A2, A3, A4, A5, P16, P17: who is matched with whom, and when",
    "[policies](../policies.md), tests against a second program",
)
OPEN: Final = {
    "P6, P11, P12, P14, P15, P18, A6: aging, types, c of other pairs, paging, weak load, forecast, figure 5": (
        "two readings each; the other one is a variant"
    ),
    "P5: run times up to 45 h": "the paper does not say what becomes of longer ones; one of 24,000 jobs here is, by 3 minutes",
    "P19: of a pair that is too slow one job is preempted": "not in the paper's experiments, whose estimates are exact",
    "P20: seeds and intervals": "the paper has none",
    "S10: a message takes 13.3 us (200 B), 120 us (18,000 B)": "an input of the paper's programs, not of the model",
    "S16: a single process is as fast in MT as in ST mode": "needs the paper's Xeons",
}
UTILISATION: Final = "node_utilisation"
NAMES: Final = {
    RESPONSE: "mean response",
    RBR: "RBR",
    EFFICIENCY: "efficiency",
    MAKESPAN: "makespan",
    UTILISATION: "utilisation",
}
BOTH: Final = (RESPONSE, RBR)
ALL_LOADS: Final = "W1 to W3"
CLOSE: Final = 20.0  # percent: "pretty close", in a paper whose largest difference among those is 17 %
GOOD: Final = 0.75  # of the gain of the best: "very good results"
OFTEN: Final = 0.1  # of the makespan
WAY: Final = "the sign"  # what is published of an order
SPEEDS: Final = {EFFICIENCY: 1.0, RESPONSE: -1.0, RBR: -1.0}  # the sign of a gain
LIGHT, MIDDLE, HEAVY = ex.M1
OTHERS: Final = tuple(name for name in ex.LOMARC if name != "L-R")
LOWER, HIGHER = Band.below(), Band.above()
_of_loads = partial(r.row, at=ALL_LOADS)
_of_all = partial(r.row, work=ex.M1)


# ---------------------------------------------------------------- figures of several cells, seed by seed


def over_loads(key: str, name: str, base: str) -> Any:
    """Return the change against another scheduler in percent, as a figure: the geometric mean of the three workloads."""

    def found(figures: Figures, **values: Any) -> r.Found:
        column, policy = key.format(**values), name.format(**values)
        ratios = [
            figures.ratios(column, Where(workload, policy), Where(workload, base.format(**values)))
            for workload in ex.M1
        ]
        logs = r.over_seeds(ratios, lambda *each: math.fsum(map(math.log, each)) / len(each))
        return mapped(logs, lambda value: 100 * math.expm1(value))

    return found


def percents_of(column: str, of: str, work: str, base: str = "PSS") -> Any:
    """Return changes against another scheduler by seed, in percent."""

    def found(figures: Figures, **values: Any) -> dict[int, float]:
        at = work.format(**values)
        cells = (Where(at, name.format(**values)) for name in (of, base))
        ratios = figures.ratios(column.format(**values), *cells)
        return {seed: 100 * (value - 1) for seed, value in ratios.items()}

    return found


def of_loads(column: str, of: str, base: str, *works: str) -> list[Any]:
    """Return ratios by seed at some workloads."""
    return [r.ratios_of(column, r.cell(of, work=work), r.cell(base, work=work)) for work in works]


def _more_gain(figures: Figures, key: str, policy: str, heavier: int, **_: Any) -> r.Found:
    """Return by how much a gain is larger at a workload than at the lighter one before."""
    columns = [percents_of(key, policy, ex.M1[at])(figures) for at in (heavier - 1, heavier)]
    return r.over_seeds(columns, lambda light, heavy: SPEEDS[key] * (heavy - light))


def _more_in_rbr(*ratios: float) -> float:
    """Return by how much the range of the heuristics, in percent of L-R, is larger in RBR than in response."""
    groups, size = 2 * len(ex.M1), len(ex.LOMARC)
    ranges = [100 * (max(part) - min(part)) for part in (ratios[size * n : size * (n + 1)] for n in range(groups))]
    return math.fsum(ranges[len(ex.M1) :]) / len(ex.M1) - math.fsum(ranges[: len(ex.M1)]) / len(ex.M1)


def _good(*gains: float) -> float:
    return (GOOD * math.fsum(gains[1::2]) - math.fsum(gains[::2])) / len(ex.M1)


def _span(*shares: float) -> float:
    return 100 * (max(shares) - min(shares))


def _claim_of(key: str, work: str, policy: str) -> str:
    """Return the number of the claim that has a percentage against PSS."""
    if key == MAKESPAN:
        return "C21"
    if key == EFFICIENCY:
        return "C25" if policy in ex.TRACED else "C27"
    if work not in ex.M1:
        return "C29"
    others = {(RESPONSE, "L-R"): "C6", (RBR, "L-R"): "C7", (RESPONSE, "L-N"): "C18", (RBR, "L-N"): "C19"}
    return others.get((key, policy), "C15")


def _quarter_of_best(key: str, **_: Any) -> float:
    return quarter(AGAINST_PSS[key]["W1 M1"]["L-R"], Of.CHANGE).high - AGAINST_PSS[key]["W1 M1"]["L-R"]


def _half(key: str, **_: Any) -> Band:
    half = _quarter_of_best(key)
    return Band(-half, half)


def _log_ratio(light: float, heavy: float) -> float:
    return math.log(heavy / light)


_MEAN_PER_CENT = partial(r.mean_text, factor=100.0)
_gains = partial(r.every, show=r.MEAN_PERCENT, known=True)
_U1 = BETWEEN[RBR, "L-R", "L-U1"]
_FUNNEL = f"{SEARCH}_slowdown"
_FEW = f"C34: few candidates are left at W1, {{what}} {' / '.join(ex.TRACED)}"

_AS_UNDER_M1 = f"C28: gains are as under M1, {{key}} of {' / '.join(ex.TRACED)} against {{base}}"
# fmt: off
CLAIMS: Final = (
    _of_loads("C1: L-R takes off about half, {key}", over_loads("{key}", "L-R", "PSS"), r.near(-50.0), key=BOTH),
    _of_loads("C2: L-N takes off about a quarter, {key}", over_loads("{key}", "L-N", "PSS"), r.near(-25.0), key=BOTH),
    r.row("C3: all of LOMARC are better than all others, {key}", r.Order("{key}", [("L-N", *ex.LOMARC), ("AM", "PSS", "AC")]), key=BOTH,
        work=ex.M1),
    r.row("C4: AC is worse than PSS, {key}", r.Order("{key}", [["PSS"], ["AC"]]), key=BOTH, work=ex.M1),
    _of_loads("C5: the gain grows with the load, {key}, {policy} against PSS at W1 / W2 / W3",
        r.Beside(r.every(_more_gain, heavier=(1, 2)), _gains(r.by_seed(float, percents_of("{key}", "{policy}", "{load}")), load=ex.M1)),
        HIGHER, WAY, key=SPEEDS, policy=("L-U1", "L-U2", "L-R", "L-FM", "L-N")),
    r.row("{id}: against PSS, {policy}, {key}", r.change("{key}", "{policy}", "PSS"),
        r.near(lambda key, work, policy, **_: AGAINST_PSS[key][work][policy]), key=AGAINST_PSS, work=lambda key: AGAINST_PSS[key],
        policy=lambda key, work: AGAINST_PSS[key][work], id=_claim_of),
    _of_all(f"C8: L-FM / L-U1 / L-U2 are close to L-R, mean response, each within {CLOSE:g} %",
        _gains(r.change(RESPONSE, "{policy}", "L-R"), policy=OTHERS), Band(-CLOSE, CLOSE), "pretty close"),
    _of_loads("C9: L-U1 is better than L-U2, mean response", over_loads(RESPONSE, "L-U1", "L-U2"), LOWER, WAY, shown=percent_text),
    _of_all("C10: L-U1 against L-R, mean response", r.change(RESPONSE, "L-U1", "L-R"), r.near(0)),
    _of_loads("C11: heuristics differ more in RBR, L-U1 is better than L-U2", over_loads(RBR, "L-U1", "L-U2"), LOWER, WAY,
        shown=percent_text),
    _of_loads("C11: heuristics differ more in RBR, points by which their range in percent of L-R is larger than in response",
        r.by_seed(_more_in_rbr, *(each for key in BOTH for load in ex.M1 for name in ex.LOMARC for each in of_loads(key, name, "L-R",
            load))),
        HIGHER, WAY, shown=percent_text),
    r.block(
        r.row("C12: L-R is better than L-U1 in RBR, percent of L-U1", r.change(RBR, "L-R", "L-U1"), r.near(lambda work: _U1[work])),
        r.row("C12: L-R is better than L-U1 in RBR, points of PSS",
            r.by_seed(float.__sub__, percents_of(RBR, "L-R", "{work}"), percents_of(RBR, "L-U1", "{work}")),
            r.near(lambda work: _U1[work])),
        r.row("C12: L-R is better than L-U1 in RBR, percent of L-R", r.change(RBR, "L-U1", "L-R"), r.near(lambda work: -_U1[work])),
        work=_U1),
    r.row("C12: L-R is better than L-U1 in RBR, at all", r.change(RBR, "L-R", "L-U1"), LOWER, WAY, work=_U1),
    _of_loads("C36: that advantage is largest at W1, L-R / L-U1 in RBR at W1 / W2 / W3",
        r.Beside(r.every(r.by_seed(float.__sub__, *of_loads(RBR, "L-R", "L-U1", LIGHT, "{other}")), other=(MIDDLE, HEAVY)),
            r.every(r.ratio(RBR,
            "L-R", "L-U1"), known=True, work=ex.M1)),
        LOWER, WAY),
    _of_loads("C37: L-R is better than L-FM / L-U1 / L-U2, {key}",
        _gains(over_loads("{key}", "L-R", "{policy}"), policy=OTHERS), LOWER, WAY, key=BOTH),
    _of_loads("C13: L-FM falls behind L-R with the load, {key}, logarithm of L-FM / L-R at W3 less that at W1",
        r.by_seed(_log_ratio, *of_loads("{key}", "L-FM", "L-R", LIGHT, HEAVY)), HIGHER, WAY, key=BOTH),
    r.row("C14: L-FM against L-R, {key}", r.change("{key}", "L-FM", "L-R"), r.near(lambda key, work: BETWEEN[key, "L-FM", "L-R"][work]),
        key=BOTH, work=lambda key: BETWEEN[key, "L-FM", "L-R"]),
    _of_loads(f"C38: L-FM is cheap and good, points of {{key}} above {100 * GOOD:.0f} % of L-R's gain",
        r.by_seed(_good, *(percents_of("{key}", name, load) for load in ex.M1 for name in ("L-FM", "L-R"))), HIGHER,
        "very good results",
        shown=percent_text, key=BOTH),
    _of_loads("C38: L-FM is cheap and good, candidates that it looks at for a match / those that L-R does, W1 / W2 / W3",
        r.every(r.by_seed(float.__truediv__, r.values_of(SELECTED, "L-FM"), r.values_of(_FUNNEL, "L-R")), show=interval_text,
            work=ex.M1),
        Band.below(1.0), "lower"),
    r.row("C16: AM is better than PSS, {key}", r.Order("{key}", [["AM"], ["PSS"]]), key=BOTH, work=ex.M1),
    r.block(
        _of_all("C17: AM is worse than L-R and L-FM, {key}", r.Order("{key}", [["L-R", "L-FM"], ["AM"]])),
        _of_loads("C17: AM is worse than L-R and L-FM, more so with the load, {key}, logarithm of AM / L-R at W3 less that at W1",
            r.by_seed(_log_ratio, *of_loads("{key}", "AM", "L-R", LIGHT, HEAVY)), HIGHER, WAY),
        key=BOTH),
    # the machine, and the other mixes
    r.row("C20, P4: makespan under PSS in weeks", r.by_seed(lambda found: found / 604_800, r.values_of(MAKESPAN, "PSS")),
        r.near_level(WEEKS),
        work=LIGHT),
    r.row(f"C22: too few jobs for the machine, share of time with free nodes and no pending job, {{policy}}, {OFTEN:g} or more",
        r.mean("queue_empty_nodes_free", "{policy}"), Band.above(OFTEN), "often", work=LIGHT, policy=("PSS", "L-R")),
    _of_all(f"C26: efficiency is the same, points between the lowest and the highest of {', '.join(ex.TRACED)}, at most {ALMOST:g}",
        r.by_seed(_span, *(r.values_of(EFFICIENCY, name) for name in ex.TRACED)), Band.below(ALMOST), "almost the same"),
    _of_all(f"C23: utilisation is the same, points between the lowest and the highest of all, at most {ALMOST:g}",
        r.by_seed(_span, *(r.values_of(UTILISATION, name) for name in ex.SCHEDULERS)), Band.below(ALMOST), "almost the same"),
    _of_loads("C24: utilisation grows with the load, {policy} at W1 / W2 / W3 in percent",
        r.steps("difference", UTILISATION, [r.cell("{policy}", work=work) for work in ex.M1], show=_MEAN_PER_CENT, known=True), HIGHER,
        WAY, policy=ex.SCHEDULERS),
    r.row("P3: offered load relative to W1's",
        r.by_seed(float.__truediv__, r.values_of("offered_load", "PSS"), r.values_of("offered_load", r.cell("PSS", work=LIGHT))),
        r.near_ratio(lambda work: (13 if work == MIDDLE else 21) / 10.6), work=(MIDDLE, HEAVY)),
    r.row(f"{_AS_UNDER_M1}, points of difference, at most {{half}} (a quarter of L-R's gain in print)",
        _gains(r.by_seed(float.__sub__, *(percents_of("{key}", "{policy}", f"W1 {mix}", "{base}") for mix in ("{mix}", "M1"))),
            policy=ex.TRACED),
        _half, "similar", at="W1 {mix}", mix=("M2", "M3"), key=BOTH, base=("PSS", "AC"),
        half=lambda key, **_: number(_quarter_of_best(key))),
    r.row("{mixes[0]}: L-N gains more under {mixes[1]} than under {mixes[2]}, {key}, points against PSS",
        r.by_seed(float.__sub__, *(percents_of("{key}", "L-N", f"W1 {{mixes[{place}]}}") for place in (1, 2))), LOWER, WAY, at="W1",
        shown=percent_text, key=BOTH, mixes=(("C29", "M2", "M1"), ("C30", "M1", "M3"))),
    # table 5: each of its 63 numbers, and the sentences on it
    r.row("{id}: table 5, {stage[1]}, {policy}",
        lambda figures, stage, policy, work, **_: figures.mean(STAGE_FIGURES[stage[0]], Where(work, policy)),
        r.near_level(lambda stage, policy, work, **_: TABLE_5[policy][work][stage[0]]), stage=[*enumerate(STAGES)], policy=ex.TRACED,
        work=lambda policy, **_: TABLE_5[policy],
        id=lambda stage, **_: "C31" if stage[0] == 0 else "C33" if stage[0] == len(STAGES) - 1 else "C32"),
    r.row(f"{_FEW}, 4.5 to 7.5", r.every(r.mean(_FUNNEL, "{policy}"), show=interval_text, policy=ex.TRACED), Band(4.5, 7.5), "5 to 7",
        work=LIGHT, what="to"),
    r.row(f"{_FEW} select, 2.5 to 3.5", r.every(r.mean(SELECTED, "{policy}"), show=interval_text, policy=ex.TRACED), Band(2.5, 3.5),
        "the third", work=LIGHT, what="of which"),
    r.row("C35: L-R selects an earlier candidate than L-U1", r.change(SELECTED, "L-R", "L-U1"), LOWER, "4 and 6", work=HEAVY),
)
# fmt: on


def claims(figures: Figures) -> list[Claim]:
    """Return the claims that runs decide, each with what was measured, in the order of the list."""
    found = r.Table(figures, NAMES).claims(CLAIMS)
    return sorted(found, key=lambda claim: (claim.ids[0], int(claim.ids.partition(",")[0][1:])))


# ---------------------------------------------------------------- what no run decides


def settled() -> list[Claim]:
    """Return the rows that no run decides."""
    return [*_model(), *_print(), *SETTLED]


def _usage(network: float) -> Usage:
    """Return an application of table 2: so much of its time in communication, the rest on the CPU."""
    ppm = round(network * WHOLE_PPM)
    return Usage("cpu" if network <= 0.5 else "network", WHOLE_PPM - ppm, ppm, 0, 0)


def estimates(*, remainder: bool) -> list[tuple[float, float]]:
    """Return the largest slowdown of each row of `TABLE_2`, with and without competition for the CPU, by the model's formula."""
    usual = LomarcModel(remainder=remainder, good_share_ppm=WHOLE_PPM, bad_c_ppm=2 * WHOLE_PPM)
    models = [replace(usual, good_c_ppm=factor * WHOLE_PPM) for factor in (2, 1)]
    rows = []
    for one, other, *_ in TABLE_2:
        found = [model.slowdown(1, _usage(one), 2, _usage(other)) for model in models]
        rows.append((round(found[0], 6), round(found[1], 6)))
    return rows


def _model() -> Iterator[Claim]:
    most = max(LomarcModel(remainder=True).slowdown(1, _usage(0.5), other, _usage(0.5)) for other in range(2, 50))
    yield built("S1: largest slowdown of two jobs that fit into memory", "", "2", number(most))
    yield built("S2: the more different two jobs, the lower their slowdown", "", "lower", "a sum of minima")
    printed = [line[2:4] for line in TABLE_2]
    for remainder, name in ((True, "with the time in which neither competes"), (False, "as printed")):
        found = estimates(remainder=remainder)
        told = " / ".join(f"{number(worst)} ({number(best)})" for worst, best in found)
        theirs = " / ".join(f"{number(worst)} ({number(best)})" for worst, best in printed)
        holds = found == printed
        yield in_print(f"S8: the formula {name} gives table 2's estimates", "table 2", theirs, told, holds=holds)
    told = " / ".join(f"{number(line[4])} <= {number(line[2])}" for line in TABLE_2)
    below = all(line[4] <= line[2] for line in TABLE_2)
    yield in_print(
        "S8: measured slowdowns of table 2 are below the estimates", "table 2", "in all cases", told, holds=below
    )


def _print() -> Iterator[Claim]:
    gains = [AGAINST_PSS[RBR][workload]["L-FM"] for workload in ("W1 M1", "W2 M1", "W3 M1")]
    told = " / ".join(map(percent, gains))
    yield in_print(
        "C5: the gain of L-FM in RBR grows with the load", "W1 to W3", "grows", told, holds=gains == sorted(gains)[::-1]
    )
    for key, name in ((RESPONSE, "mean response"), (RBR, "RBR")):
        against, value = AGAINST_PSS[key]["W3 M1"], BETWEEN[key, "L-FM", "L-R"]["W3 M1"]
        derived = 100 * ((1 + against["L-FM"] / 100) / (1 + against["L-R"] / 100) - 1)
        told = f"{percent(derived)}, from {percent(against['L-FM'])} and {percent(against['L-R'])} against PSS"
        holds = abs(derived - value) <= abs(value) / 4
        yield in_print(
            f"C14: {name}: L-FM against L-R agrees with both against PSS", "W3 M1", percent(value), told, holds=holds
        )


SETTLED: Final = (
    *(built(text, "", "as written", where) for text, where in (CONFIGURED, RULES)),
    *(not_checkable(text, "as written", reason) for text, reason in OPEN.items()),
)
