"""The claims of the G-LOMARC-TS paper as data: what it prints, what is measured, and where that is to be.

The ids are those of the claims list (`scripts.papers.lists`); P and A are parameters and rules of the algorithm.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from scripts.papers import rows as r
from scripts.papers.claims import Band, Claim, Of, built, in_print, not_checkable, quarter
from scripts.papers.figures import Figures, Where, interval_text, mapped, percent_text
from scripts.papers.glts import experiment as ex
from scripts.papers.glts import published as printed
from scripts.papers.saturation import GROWS
from scripts.papers.study import BASE
from scripts.tables import number, percent

from cosched_emulator.statistics.intervals import difference_of

# By class as the paper names them: the relative responses that stand for them. The paper's cut-off is taken as 600 s.
RESPONSES: Final = {"medium": "rr_60_medium", "long": "rr_60_long", "all": "rr_600_all"}
COSCHEDULED: Final = ("medium", "long")
OF_TWO: Final = [RESPONSES[name] for name in COSCHEDULED]
COMPARED: Final = ("CSTWS", "CST", ex.GLTS)  # with SSP, in section 5.2
VARIANTS: Final = ("GLTS-FBO", "GLTS-NS", "GLTS-NH")
HIGH_LOAD: Final = "high_load_medium_or_long"
DAY_S: Final = 86_400
W1, W2 = ex.AARR
NAMES: Final = {
    **{key: name for name, key in RESPONSES.items()},
    "response_all_s": "mean response",
    "rr_60_all": "RR of all jobs, 60 s",
    "mean_queue_length": "mean queue",
    "groups_candidates": "mean number of candidates",
    "groups_number": "their number",
    "groups_jobs": "jobs in them",
}
SAME: Final = quarter(0.0, Of.CHANGE)
QUARTER: Final = ": within a quarter"
LOWER, HIGHER = Band.below(), Band.above()
_near = partial(r.Near, told=QUARTER)
_level = partial(r.Near, of=Of.LEVEL, told=QUARTER)
_at_w1 = partial(r.row, work=W1)
_at_w2 = partial(r.row, work=W2)


def where_of_block(size: int, scheduler: str = ex.GLTS) -> Where:
    """Return the runs with blocks of so many jobs."""
    return Where(W2, scheduler, BASE if size == ex.BLOCK else f"block-{size}")


def where_of_slack(factor: str) -> Where:
    """Return the runs with this slack factor; ``none``: no group is refused for fairness."""
    return Where(W1, ex.GLTS, BASE if factor == ex.SLACK else f"slack-{factor}")


def _around(value: float, half: float) -> Band:
    return Band(value - half, value + half)


# ---------------------------------------------------------------- arithmetic of some claims


def _switches(figures: Figures, **_: Any) -> r.Found:
    """Return the time that switches of slices take, in percent."""
    return mapped(figures.mean("slices_an_hour", Where(W1, ex.SSP)), lambda slices: slices * (ex.RESUME_S / 36))


def _more_for_long(figures: Figures, **_: Any) -> r.Found:
    """Return how much further the RR of long jobs is below SSP's than that of medium ones, in points, paired by seed."""
    long, medium = (
        figures.ratios(RESPONSES[name], Where(W1, ex.GLTS), Where(W1, ex.SSP)) for name in ("long", "medium")
    )
    return mapped(difference_of(long, medium), lambda share: share * 100.0)


def _correlation(*values: float) -> float:
    """Return the correlation of the first half of some values with the second half."""
    return statistics.correlation(values[: len(values) // 2], values[len(values) // 2 :])


def _implied(key: str, **_: Any) -> float:
    """Return the change of CST against CSTWS that those of GLTS against both imply, in percent."""
    against = printed.RELATIVE_RESPONSE
    return 100 * ((1 + against["CSTWS"][NAMES[key]] / 100) / (1 + against["CST"][NAMES[key]] / 100) - 1)


def _range(found: Sequence[r.Found]) -> str:
    """Return the least and the largest of some changes."""
    known = [each.mean for each in found if each is not None]
    return f"{percent(min(known))} to {percent(max(known))}" if known else ""


def _shares(text: str, column: str, published: Any, half: float | None) -> r.Row:
    """Return the row of how classes share the jobs, or their work."""

    def band(name: str, **_: Any) -> Band:
        return quarter(published[name], Of.LEVEL) if half is None else _around(published[name], half)

    show = partial(r.mean_text, factor=100.0)
    shares = r.every(r.mean(f"{column}_{{name}}", ex.SSP), show=show, name=published)
    told = " / ".join(number(100 * share) for share in published.values())
    return _at_w1(f"{text}, short / medium / long", shares, band, told, built=True)


def _sizes(what: str, column: str, published: float) -> r.Row:
    """Return the rows of a share of sizes, as drawn and grown."""
    text = f"W3: sizes, {what}, {{when}}, %: within 5 points"
    return _at_w1(
        text,
        r.mean(column, ex.SSP),
        _around(published, 0.05),
        number(100 * published),
        shown=r.IN_PERCENT,
        built=True,
        variant=(ex.ORIGINAL, None),
        when=lambda variant, **_: ["grown" if variant is None else "as drawn"],
    )


def _best_block(ids: str, what: str, cells: Sequence[Where]) -> r.Row:
    text = f"{ids}: RR, GLTS with blocks of {printed.BEST_BLOCK} against {what}, {{key}} jobs, %: lower than all"
    rivals = r.every(r.change("{key}", BEST, lambda other, **_: other), tell=_range, other=cells)
    return _at_w2(text, rivals, LOWER, "best")


# ---------------------------------------------------------------- what the paper's own print says


def _table_4(name: str) -> Claim:
    slowdowns, shares = printed.TABLE_4[name]
    counted = [sum(0.9 + tenth / 10 <= value + 1e-9 < 1.0 + tenth / 10 for value in slowdowns) for tenth in range(9)]
    most = max(abs(100 * count / len(slowdowns) - share) for count, share in zip(counted, shares, strict=True))
    derived = f"largest difference {number(most)} points; {100 * counted[3] / len(slowdowns):.0f} % in 1.2 to 1.3"
    text = f"W5: tables 2 and 3 are distributed as table 4 says, {name}: within 5 points"
    return in_print(text, "", f"{shares[3]:g} % in 1.2 to 1.3", derived, holds=most <= 5)


def _groups_in_print() -> list[Claim]:
    count, size, share = (printed.GROUPS[W1][name] for name in ("number", "size", "share"))
    eligible, more = printed.ELIGIBLE, 100 * (printed.GROUPS[W2]["number"] / count - 1)
    derived = f"they have {count * size:,.0f} jobs, of {eligible:,} eligible; 41.7 % are {share * eligible:,.0f} jobs"
    text = "C8: groups, about 1,500 of 2.5 jobs: within the eligible jobs"
    other = "C26: groups, 2,000 against 1,500, %: within 5 of 25"
    return [
        in_print(text, W1, "1,500 groups", derived, holds=count * size <= eligible),
        in_print(other, W2, percent(printed.MORE_GROUPS), f"{percent(more)} than 1,500", holds=more < 30),
    ]


# ---------------------------------------------------------------- the claims

BEST: Final = where_of_block(printed.BEST_BLOCK)
SMALL, LARGE = min(ex.BLOCKS), max(ex.BLOCKS)
_OTHERS = [where_of_block(size) for size in ex.BLOCKS if size != printed.BEST_BLOCK]
_RIVALS = [*(where_of_block(size, name) for name in VARIANTS[:2] for size in ex.BLOCKS), Where(W2, "GLTS-NH")]
_USUAL = where_of_slack(printed.ENOUGH_SLACK)
_LOW = [factor for factor in ex.SLACKS if factor != ex.NONE and float(factor) < float(printed.ENOUGH_SLACK)]
_HIGH = [factor for factor in ex.SLACKS if factor not in _LOW and factor != printed.ENOUGH_SLACK]
_BY_CLASS = [*RESPONSES.values()]
_IDS = {ex.SSP: "C1", "CST": "C3, C6", "CSTWS": "C4"}
_OF_SSP = printed.RELATIVE_RESPONSE[ex.SSP]
_GROWTH = "C28: mean queue, second half of the submissions over the first"
_BEYOND = "C28: days to the last end from the last submission"
_IN_DAYS = partial(interval_text, factor=1 / DAY_S)


def _slack(factor: str, **_: Any) -> Where:
    return where_of_slack(factor)


# fmt: off
CLAIMS: Final = (
    _shares("W1: % of the jobs", "jobs", printed.CLASS_JOBS, 0.02),
    _shares("W2: % of the work", "work", printed.CLASS_WORK, None),
    _sizes("serial jobs", "serial_share", printed.SERIAL),
    _sizes("jobs of powers of two", "power_share", printed.POWERS),
    *map(_table_4, printed.TABLE_4),
    not_checkable("W6: 95 % of the jobs need at most half of a node's memory", "95 %",
        "the paper quotes logs; jobs here have memory enough"),
    r.row("W7: switches of slices, % of the time", _switches, _level(printed.OVERHEAD), at=W1),
    _at_w1("W4: SSP, grown jobs against jobs as drawn with one process a node, {key[1]}, %: within 5",
        r.change("{key[0]}", ex.SSP, r.cell(ex.SSP, variant=ex.ORIGINAL)), SAME, "similar",
        key=(("response_all_s", "mean response"), ("rr_600_all", "RR of all jobs"))),
    _at_w1("W8: SSP against EASY with priorities of classes, {key}, %", r.change("{key}", ex.SSP, ex.PRIORITIES),
        _near(printed.SLICES_HELP), key=("response_all_s", "rr_60_all")),
    # results at W1
    r.block(
        _at_w1("{id}: RR, GLTS against {policy}, {key} jobs, %: lower", r.change("{key}", ex.GLTS, "{policy}"), LOWER,
            lambda policy, key, **_: percent(printed.RELATIVE_RESPONSE[policy][NAMES[key]])),
        _at_w1("{id}: RR, GLTS against {policy}, {key} jobs, %", r.change("{key}", ex.GLTS, "{policy}"),
            _near(lambda policy, key, **_: printed.RELATIVE_RESPONSE[policy][NAMES[key]])),
        policy=printed.RELATIVE_RESPONSE, key=lambda policy: [RESPONSES[name] for name in printed.RELATIVE_RESPONSE[policy]],
            id=lambda policy, **_: _IDS[policy]),
    r.row("C2: RR, GLTS against SSP, long jobs less medium ones, points: lower", _more_for_long, LOWER,
        percent(_OF_SSP["long"] - _OF_SSP["medium"]), at=W1, shown=percent_text),
    _at_w1("C5: RR, CST against CSTWS as C3 and C4 imply, {key} jobs, %", r.change("{key}", "CST", "CSTWS"), _near(_implied),
        key=_BY_CLASS),
    r.block(
        _at_w1("C11: core utilisation in high-load phases, GLTS against {policy}, %: higher", r.change(HIGH_LOAD, ex.GLTS, "{policy}"),
            HIGHER, lambda policy, **_: percent(printed.CORE_UTILISATION[policy])),
        _at_w1("C11: core utilisation in high-load phases, GLTS against {policy}, %", r.change(HIGH_LOAD, ex.GLTS, "{policy}"),
            _near(lambda policy, **_: printed.CORE_UTILISATION[policy])),
        policy=printed.CORE_UTILISATION),
    _at_w1("C12: core utilisation in high-load phases, its correlation with RR of all jobs over these schedulers: below 0",
        r.by_seed(_correlation, *(r.values_of(column, name) for column in (HIGH_LOAD, RESPONSES["all"]) for name in (ex.SSP,
            *COMPARED))),
        LOWER, "the source of the gain"),
    _at_w1(f"C35: core utilisation of the whole run against SSP, %: within 5: {', '.join(COMPARED)}",
        r.every(r.change("core_utilisation", "{policy}", ex.SSP), show=r.MEAN_PERCENT, policy=COMPARED), SAME, "the same"),
    r.row("{id}: jobs a group: within 0.25", r.mean("groups_size", ex.GLTS), lambda work,
        **_: _around(printed.GROUPS[work]["size"], 0.25),
        lambda work, **_: number(printed.GROUPS[work]["size"]), work=(W1, W2), id=lambda work: ["C7" if work == W1 else "C25"]),
    _at_w2("C25: jobs a group at W2 against W1, %: within 5", r.change("groups_size", ex.GLTS, r.cell(ex.GLTS, work=W1)), SAME,
        "almost unchanged", shown=percent_text),
    r.row("{id}: groups, {key}", r.mean("{key}", ex.GLTS), _level(lambda work, **_: printed.GROUPS[work]["number"]), work=(W1, W2),
        id=lambda work: ["C8" if work == W1 else "C26"], key=("groups_number", "groups_jobs")),
    _at_w2("C26: groups, their number against W1, %", r.change("groups_number", ex.GLTS, r.cell(ex.GLTS, work=W1)),
        _near(printed.MORE_GROUPS)),
    *_groups_in_print(),
    _at_w1("C9: medium and long jobs in groups, %: within 5 points", r.mean("groups_share", ex.GLTS),
        _around(printed.GROUPS[W1]["share"], 0.05), number(100 * printed.GROUPS[W1]["share"]), shown=r.IN_PERCENT),
    _at_w1("C10: groups of two, % of the groups: between 5 and 95", r.mean("groups_pairs", ex.GLTS), Band(0.05, 0.95), "two, and more",
        shown=r.IN_PERCENT),
    _at_w1("C17: searches with fewer than 4 candidates, %: within 10 points", r.mean("groups_few_candidates", ex.GLTS),
        _around(printed.GROUPS[W1]["few_candidates"], 0.1), number(100 * printed.GROUPS[W1]["few_candidates"]), shown=r.IN_PERCENT),
    _at_w1("C36: matched jobs from the first block, %, at least: above 50", r.mean("groups_first_block", ex.GLTS), Band.above(0.5),
        "most", shown=r.IN_PERCENT),
    _at_w1("{which[0]}: response / expected response, {which[1]}, {name} jobs: within 0.1", r.mean("delay_{name}_{which[2]}", ex.GLTS),
        lambda which, **_: _around(printed.DELAY[which[2]], 0.1), lambda which, **_: number(printed.DELAY[which[2]]), name=COSCHEDULED,
        which=(("C13", "mean", "mean"), ("C14", "75th percentile", "p75"), ("C15", "95th percentile", "p95"))),
    # heuristics and load
    _at_w1("C16: RR against GLTS, {policy}, {key} jobs, %: within 5", r.change("{key}", "{policy}", ex.GLTS), SAME, "little impact",
        policy=VARIANTS, key=_BY_CLASS),
    _at_w1("C33: RR, running candidates by delay against by work left, {key} jobs, %: within 5",
        r.change("{key}", r.cell(ex.GLTS, variant=ex.BY_DELAY), ex.GLTS), SAME, "virtually no difference", key=_BY_CLASS),
    _at_w1("C34: RR of all jobs, groups by absolute gain against relative, %: higher",
        r.change("rr_600_all", r.cell(ex.GLTS, variant=ex.ABSOLUTE), ex.GLTS), HIGHER, "a minor benefit of relative gain"),
    _at_w1("C34: RR of all jobs, groups by absolute gain against relative, %: within 5",
        r.change("rr_600_all", r.cell(ex.GLTS, variant=ex.ABSOLUTE), ex.GLTS), SAME, "no substantial difference"),
    r.block(
        _best_block("C18", "all others of any size", [*_OTHERS, *_RIVALS]),
        _best_block("C19", "other sizes", _OTHERS),
        key=OF_TWO),
    built("C20: GLTS-NH does not depend on the size of blocks", "", "it has none", "blocks = none"),
    _at_w2("C21: RR of medium jobs, GLTS-NH against GLTS, blocks of {size}, %: lower",
        r.change("rr_60_medium", "GLTS-NH", lambda size, **_: where_of_block(size)), LOWER, "better", size=(SMALL, LARGE)),
    r.block(
        _at_w2(f"C22: RR, GLTS-NH against GLTS with blocks of {printed.BEST_BLOCK}, {{key}} jobs, %: higher",
            r.change("{key}", "GLTS-NH", BEST), HIGHER, "clearly worse"),
        _at_w2(f"C24: RR, GLTS-NS of the same size against GLTS with blocks of {printed.BEST_BLOCK}, {{key}} jobs, %: higher",
            r.change("{key}", where_of_block(printed.BEST_BLOCK, "GLTS-NS"), BEST), HIGHER, "especially worse"),
        _at_w2(f"C23: RR, GLTS-FBO against GLTS, blocks of {SMALL}, {{key}} jobs, %: higher",
            r.change("{key}", where_of_block(SMALL, "GLTS-FBO"), where_of_block(SMALL)), HIGHER, "much worse"),
        _at_w2(f"C23: RR, GLTS-FBO against GLTS, blocks of {LARGE}, {{key}} jobs, %: within 5",
            r.change("{key}", where_of_block(LARGE, "GLTS-FBO"), where_of_block(LARGE)), SAME, "similar"),
        key=OF_TWO),
    _at_w2("C29: RR, SSP, {key} jobs", r.mean("{key}", ex.SSP), _level(lambda key, **_: printed.SSP_W2[NAMES[key]]), key=_BY_CLASS),
    _at_w2("C30: RR, SSP against GLTS, {key} jobs, %: higher", r.change("{key}", ex.SSP, ex.GLTS), HIGHER, "much longer",
        key=_BY_CLASS),
    _at_w2("C27: GLTS, W2 against W1, {key}, %: higher", r.change("{key}", ex.GLTS, r.cell(ex.GLTS, work=W1)), HIGHER,
        "longer, and more",
        key=("mean_queue_length", "groups_candidates")),
    _at_w2(f"{_GROWTH}, SSP: above {GROWS:g}, saturated", r.mean("waiting_growth", ex.SSP), Band.above(GROWS), "jobs queue up"),
    _at_w2(f"{_GROWTH}, GLTS: below {GROWS:g}, not saturated", r.mean("waiting_growth", ex.GLTS), Band.below(GROWS), "not the case"),
    _at_w2(f"{_BEYOND}, SSP less the same at W1: above 0", r.difference("beyond_s", ex.SSP, r.cell(ex.SSP, work=W1)), Band.above(),
        "increased under SSP", shown=_IN_DAYS),
    _at_w2(f"{_BEYOND}, GLTS less SSP: below 0", r.difference("beyond_s", ex.GLTS, ex.SSP), Band.below(), "increased under SSP",
        shown=_IN_DAYS),
    _at_w1(f"C31: GLTS, groups refused with slack {', '.join(_LOW)} against {printed.ENOUGH_SLACK}, %: all higher",
        r.every(r.change("groups_refused", _slack, _USUAL), show=r.MEAN_PERCENT, factor=_LOW), HIGHER, "more"),
    _at_w1(f"C31, C32: RR of all jobs, GLTS, slack {{factor}} against {printed.ENOUGH_SLACK}, %: higher",
        r.change("rr_600_all", _slack, _USUAL), HIGHER, "higher", factor=_LOW),
    _at_w1(f"C32: RR of all jobs, GLTS, slack {{factor}} against {printed.ENOUGH_SLACK}, %: within 5",
        r.change("rr_600_all", _slack, _USUAL), SAME, "equal", factor=_HIGH),
    # parameters and rules
    in_print("P3: 5 % fewer arrivals than the original give Load 10.6", "", "10.6", "LOMARC has 10.6 without the 5 %", holds=False),
    not_checkable("P10: RR has cut-offs for very short jobs", "", "not printed; 600 s fit the figures of SSP at W2"),
    built("P1, P2, P5, P6, P7, P8, P9, P11: machine, jobs, slowdowns, slices, classes, table 6, x 0.75, backfilling", "", "as printed",
        "settings of the presets and of the study"),
    built("P4: sizes of grown jobs are formula 7's, but powers of two stay such", "", "both", "rounded; the formula alone breaks W3"),
    built("P12, A4: groups are tested in turn until one passes", "", "those kept in step 4",
        "these, then all other windows of the first block"),
    built("A1, A2, A3, A5, A6: cases, groups as wholes, primaries, purifying, fairness", "", "sections 4.4 and 4.5",
        "tests against a second program"),
    not_checkable("A7: formula 6", "", "its denominator is S_A/PPN_A, a fraction of a node; here whole nodes that the group holds"),
)
# fmt: on


def claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    return r.Table(figures, NAMES, samples=printed.SAMPLES).claims(CLAIMS)
