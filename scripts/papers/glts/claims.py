"""The claims of the G-LOMARC-TS paper, each with what was measured, and whether the seeds show it.

The ids are those of the claims list (`scripts.papers.lists`); P and A are parameters and rules of the algorithm.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from scripts.papers.claims import (
    ALMOST,
    Band,
    Claim,
    Kind,
    Of,
    by_construction,
    combined,
    in_print,
    judged,
    not_checkable,
    quarter,
    within,
)
from scripts.papers.figures import Figures, Where, interval_text, percent_text
from scripts.papers.glts import experiment as ex
from scripts.papers.glts import published as printed
from scripts.papers.saturation import GROWS
from scripts.tables import number, percent

from cosched_emulator.statistics.intervals import Interval, Verdict, difference_of, mean_interval

POINTS: Final = 5.0  # of percent: the band around a published share
# By class as the paper names them: the relative responses that stand for them. The paper's cut-off is taken as 600 s.
RESPONSES: Final = {"medium": "rr_60_medium", "long": "rr_60_long", "all": "rr_600_all"}
COSCHEDULED: Final = ("medium", "long")
COMPARED: Final = ("CSTWS", "CST", ex.GLTS)  # with SSP, in section 5.2
VARIANTS: Final = ("GLTS-FBO", "GLTS-NS", "GLTS-NH")
HIGH_LOAD: Final = "high_load_medium_or_long"
DAY_S: Final = 86_400
W1, W2 = ex.AARR
IN_PERCENT: Final = partial(interval_text, factor=100.0)


def claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_workload, _original, _response, _utilisation, _groups, _delay, _variants, _blocks, _load, _slack, _rules)
    return [claim for part in parts for claim in part(figures)]


def where_of_block(size: int, scheduler: str = ex.GLTS) -> Where:
    """Return the runs with blocks of so many jobs."""
    return Where(W2, scheduler, ex.BASE if size == ex.BLOCK else f"block-{size}")


def where_of_slack(factor: str) -> Where:
    """Return the runs with this slack factor; ``none``: no group is refused for fairness."""
    return Where(W1, ex.GLTS, ex.BASE if factor == ex.SLACK else f"slack-{factor}")


# ---------------------------------------------------------------- workload


def _workload(figures: Figures) -> Iterator[Claim]:
    ssp, drawn = Where(W1, ex.SSP), Where(W1, ex.SSP, ex.ORIGINAL)
    yield _shares(figures, "W1: % of the jobs", "jobs", printed.CLASS_JOBS, lambda share: (share - 0.02, share + 0.02))
    yield _shares(figures, "W2: % of the work", "work", printed.CLASS_WORK, lambda share: quarter(share, Of.LEVEL))
    for column, text, published in (
        ("serial", "serial jobs", printed.SERIAL),
        ("power", "jobs of powers of two", printed.POWERS),
    ):
        band = (published - POINTS / 100, published + POINTS / 100)
        for where, when in ((drawn, "as drawn"), (ssp, "grown")):
            found = figures.mean(f"{column}_share", where)
            what = f"W3: sizes, {text}, {when}, %: within {POINTS:g} points"
            yield by_construction(within(what, W1, number(100 * published), found, band, IN_PERCENT))
    for name, (slowdowns, shares) in printed.TABLE_4.items():
        counted = [
            sum(0.9 + tenth / 10 <= value + 1e-9 < 1.0 + tenth / 10 for value in slowdowns) for tenth in range(9)
        ]
        most = max(abs(100 * count / len(slowdowns) - share) for count, share in zip(counted, shares, strict=True))
        derived = f"largest difference {number(most)} points; {100 * counted[3] / len(slowdowns):.0f} % in 1.2 to 1.3"
        text = f"W5: tables 2 and 3 are distributed as table 4 says, {name}: within {POINTS:g} points"
        yield in_print(text, "", f"{shares[3]:g} % in 1.2 to 1.3", derived, holds=most <= POINTS)
    reason = "the paper quotes logs; jobs here have memory enough"
    yield not_checkable("W6: 95 % of the jobs need at most half of a node's memory", "95 %", reason)
    share = _times(figures.mean("slices_an_hour", ssp), ex.RESUME_S / 36)
    yield _near("W7: switches of slices, % of the time", W1, printed.OVERHEAD, share, Of.LEVEL)


def _near(text: str, where: str, published: float, found: Interval | None, of: Of = Of.CHANGE) -> Claim:
    """Return the claim that a change in percent, or a level, is as published, within a quarter."""
    shown, told = (percent_text, percent) if of is Of.CHANGE else (interval_text, number)
    return judged(f"{text}: within a quarter", where, told(published), found, quarter(published, of), shown)


def _shares(
    figures: Figures,
    text: str,
    figure: str,
    published: Mapping[str, float],
    band: Callable[[float], tuple[float, float]],
) -> Claim:
    """Return the row of how classes share the jobs, or their work."""
    found = {name: figures.mean(f"{figure}_{name}", Where(W1, ex.SSP)) for name in published}
    parts = [(found[name], Band(*band(share))) for name, share in published.items()]
    told = " / ".join(number(100 * share) for share in published.values())
    measured = " / ".join(number(None if each is None else 100 * each.mean) for each in found.values())
    return by_construction(combined(f"{text}, short / medium / long", W1, told, measured, parts))


def _times(found: Interval | None, factor: float) -> Interval | None:
    if found is None:
        return None
    return found._replace(mean=found.mean * factor, low=found.low * factor, high=found.high * factor)


def _original(figures: Figures) -> Iterator[Claim]:
    grown, drawn = Where(W1, ex.SSP), Where(W1, ex.SSP, ex.ORIGINAL)
    for column, text in (("response_all_s", "mean response"), (RESPONSES["all"], "RR of all jobs")):
        found = figures.change(column, grown, drawn)
        what = f"W4: SSP, grown jobs against jobs as drawn with one process a node, {text}, %: within {ALMOST:g}"
        yield judged(what, W1, "similar", found, quarter(0.0, Of.CHANGE))
    for column, text in (("response_all_s", "mean response"), ("rr_60_all", "RR of all jobs, 60 s")):
        found = figures.change(column, grown, Where(W1, ex.PRIORITIES))
        yield _near(f"W8: SSP against EASY with priorities of classes, {text}, %", W1, printed.SLICES_HELP, found)


# ---------------------------------------------------------------- results at W1


def _response(figures: Figures) -> Iterator[Claim]:
    ids = {ex.SSP: "C1", "CST": "C3, C6", "CSTWS": "C4"}
    for rival, by_class in printed.RELATIVE_RESPONSE.items():
        for name, published in by_class.items():
            found = figures.change(RESPONSES[name], Where(W1, ex.GLTS), Where(W1, rival))
            text = f"{ids[rival]}: RR, GLTS against {rival}, {name} jobs, %"
            yield judged(f"{text}: lower", W1, percent(published), found, Band.below())
            yield _near(text, W1, published, found)
    of_ssp = printed.RELATIVE_RESPONSE[ex.SSP]
    text = "C2: RR, GLTS against SSP, long jobs less medium ones, points: lower"
    yield judged(text, W1, percent(of_ssp["long"] - of_ssp["medium"]), _more_for_long(figures), Band.below())
    for name, pair in printed.RELATIVE_RESPONSE["CST"].items():
        implied = 100 * ((1 + printed.RELATIVE_RESPONSE["CSTWS"][name] / 100) / (1 + pair / 100) - 1)
        found = figures.change(RESPONSES[name], Where(W1, "CST"), Where(W1, "CSTWS"))
        yield _near(f"C5: RR, CST against CSTWS as C3 and C4 imply, {name} jobs, %", W1, implied, found)


def _more_for_long(figures: Figures) -> Interval | None:
    """Return how much further the RR of long jobs is below SSP's than that of medium ones, in points, paired by seed."""
    long, medium = (
        figures.ratios(RESPONSES[name], Where(W1, ex.GLTS), Where(W1, ex.SSP)) for name in ("long", "medium")
    )
    return _times(difference_of(long, medium), 100.0)


def _utilisation(figures: Figures) -> Iterator[Claim]:
    for rival, published in printed.CORE_UTILISATION.items():
        found = figures.change(HIGH_LOAD, Where(W1, ex.GLTS), Where(W1, rival))
        text = f"C11: core utilisation in high-load phases, GLTS against {rival}, %"
        yield judged(f"{text}: higher", W1, percent(published), found, Band.above())
        yield _near(text, W1, published, found)
    text = (
        "C12: core utilisation in high-load phases, its correlation with RR of all jobs over these schedulers: below 0"
    )
    yield judged(text, W1, "the source of the gain", _correlation(figures), Band.below(), interval_text)
    changes = [figures.change("core_utilisation", Where(W1, name), Where(W1, ex.SSP)) for name in COMPARED]
    told = " / ".join(percent(None if found is None else found.mean) for found in changes)
    text = f"C35: core utilisation of the whole run against SSP, %: within {ALMOST:g}: {', '.join(COMPARED)}"
    yield combined(text, W1, "the same", told, [(found, quarter(0.0, Of.CHANGE)) for found in changes])


def _correlation(figures: Figures) -> Interval | None:
    """Return the mean over seeds of the correlation, over schedulers, of utilisation in high-load phases and RR of all jobs."""
    names = (ex.SSP, *COMPARED)
    columns = [[figures.values(column, Where(W1, name)) for name in names] for column in (HIGH_LOAD, RESPONSES["all"])]
    seeds = set.intersection(*(set(values) for column in columns for values in column))
    found = [
        statistics.correlation(*([values[seed] for values in column] for column in columns)) for seed in sorted(seeds)
    ]
    return mean_interval(found) if found else None


def _groups(figures: Figures) -> Iterator[Claim]:
    of_w1, of_w2 = Where(W1, ex.GLTS), Where(W2, ex.GLTS)
    for where, ids in ((of_w1, "C7"), (of_w2, "C25")):
        size, found = printed.GROUPS[where.workload]["size"], figures.mean("groups_size", where)
        yield within(
            f"{ids}: jobs a group: within 0.25",
            where.workload,
            number(size),
            found,
            (size - 0.25, size + 0.25),
            interval_text,
        )
    yield judged(
        f"C25: jobs a group at W2 against W1, %: within {ALMOST:g}",
        W2,
        "almost unchanged",
        figures.change("groups_size", of_w2, of_w1),
        quarter(0.0, Of.CHANGE),
    )
    for where, ids in ((of_w1, "C8"), (of_w2, "C26")):
        count = printed.GROUPS[where.workload]["number"]
        for column, text in (("number", "their number"), ("jobs", "jobs in them")):
            found = figures.mean(f"groups_{column}", where)
            yield _near(f"{ids}: groups, {text}", where.workload, count, found, Of.LEVEL)
    found = figures.change("groups_number", of_w2, of_w1)
    yield _near("C26: groups, their number against W1, %", W2, printed.MORE_GROUPS, found)
    yield from _groups_in_print()
    yield from _in_groups(figures)


def _in_groups(figures: Figures) -> Iterator[Claim]:
    of_w1, share, few = Where(W1, ex.GLTS), printed.GROUPS[W1]["share"], printed.GROUPS[W1]["few_candidates"]
    band = (share - POINTS / 100, share + POINTS / 100)
    text = f"C9: medium and long jobs in groups, %: within {POINTS:g} points"
    yield within(text, W1, number(100 * share), figures.mean("groups_share", of_w1), band, IN_PERCENT)
    text = "C10: groups of two, % of the groups: between 5 and 95"
    yield within(text, W1, "two, and more", figures.mean("groups_pairs", of_w1), (0.05, 0.95), IN_PERCENT)
    text = "C17: searches with fewer than 4 candidates, %: within 10 points"
    found = figures.mean("groups_few_candidates", of_w1)
    yield within(text, W1, number(100 * few), found, (few - 0.1, few + 0.1), IN_PERCENT)
    text = "C36: matched jobs from the first block, %, at least: above 50"
    yield judged(text, W1, "most", figures.mean("groups_first_block", of_w1), Band.above(0.5), IN_PERCENT)


def _groups_in_print() -> Iterator[Claim]:
    number_of, size, share = (printed.GROUPS[W1][name] for name in ("number", "size", "share"))
    eligible = printed.ELIGIBLE
    derived = (
        f"they have {number_of * size:,.0f} jobs, of {eligible:,} eligible; 41.7 % are {share * eligible:,.0f} jobs"
    )
    yield in_print(
        "C8: groups, about 1,500 of 2.5 jobs: within the eligible jobs",
        W1,
        "1,500 groups",
        derived,
        holds=number_of * size <= printed.ELIGIBLE,
    )
    more = 100 * (printed.GROUPS[W2]["number"] / number_of - 1)
    yield in_print(
        "C26: groups, 2,000 against 1,500, %: within 5 of 25",
        W2,
        percent(printed.MORE_GROUPS),
        f"{percent(more)} than 1,500",
        holds=more < 30,
    )


def _delay(figures: Figures) -> Iterator[Claim]:
    titles = {"mean": ("C13", "mean"), "p75": ("C14", "75th percentile"), "p95": ("C15", "95th percentile")}
    for name in COSCHEDULED:
        for key, (ids, title) in titles.items():
            found = figures.mean(f"delay_{name}_{key}", Where(W1, ex.GLTS))
            text = f"{ids}: response / expected response, {title}, {name} jobs: within 0.1"
            yield within(
                text,
                W1,
                number(printed.DELAY[key]),
                found,
                (printed.DELAY[key] - 0.1, printed.DELAY[key] + 0.1),
                interval_text,
            )


# ---------------------------------------------------------------- heuristics and load


def _variants(figures: Figures) -> Iterator[Claim]:
    for rival in VARIANTS:
        for name, key in RESPONSES.items():
            found = figures.change(key, Where(W1, rival), Where(W1, ex.GLTS))
            text = f"C16: RR against GLTS, {rival}, {name} jobs, %: within {ALMOST:g}"
            yield judged(text, W1, "little impact", found, quarter(0.0, Of.CHANGE))
    for name, key in RESPONSES.items():
        found = figures.change(key, Where(W1, ex.GLTS, ex.BY_DELAY), Where(W1, ex.GLTS))
        text = f"C33: RR, running candidates by delay against by work left, {name} jobs, %: within {ALMOST:g}"
        yield judged(text, W1, "virtually no difference", found, quarter(0.0, Of.CHANGE))
    found = figures.change(RESPONSES["all"], Where(W1, ex.GLTS, ex.ABSOLUTE), Where(W1, ex.GLTS))
    text = "C34: RR of all jobs, groups by absolute gain against relative, %"
    yield judged(f"{text}: higher", W1, "a minor benefit of relative gain", found, Band.above())
    yield judged(f"{text}: within {ALMOST:g}", W1, "no substantial difference", found, quarter(0.0, Of.CHANGE))


def _blocks(figures: Figures) -> Iterator[Claim]:
    best = where_of_block(printed.BEST_BLOCK)
    others = [where_of_block(size) for size in ex.BLOCKS if size != printed.BEST_BLOCK]
    rivals = [*(where_of_block(size, name) for name in VARIANTS[:2] for size in ex.BLOCKS), Where(W2, "GLTS-NH")]

    def against(name: str, where: Where, base: Where) -> Interval | None:
        return figures.change(RESPONSES[name], where, base)

    for name in COSCHEDULED:
        for ids, cells, text in (
            ("C18", [*others, *rivals], "all others of any size"),
            ("C19", others, "other sizes"),
        ):
            parts = [(against(name, best, where), Band.below()) for where in cells]
            known = [found.mean for found, _ in parts if found is not None]
            told = f"{percent(min(known))} to {percent(max(known))}" if known else ""
            what = f"{ids}: RR, GLTS with blocks of {printed.BEST_BLOCK} against {text}, {name} jobs, %: lower than all"
            yield combined(what, W2, "best", told, parts)
    yield by_construction(_stated("C20: GLTS-NH does not depend on the size of blocks", "it has none", "blocks = none"))
    for size in (min(ex.BLOCKS), max(ex.BLOCKS)):
        found = against("medium", Where(W2, "GLTS-NH"), where_of_block(size))
        text = f"C21: RR of medium jobs, GLTS-NH against GLTS, blocks of {size}, %: lower"
        yield judged(text, W2, "better", found, Band.below())
    for name in COSCHEDULED:
        text = f"against GLTS with blocks of {printed.BEST_BLOCK}, {name} jobs, %: higher"
        found = against(name, Where(W2, "GLTS-NH"), best)
        yield judged(f"C22: RR, GLTS-NH {text}", W2, "clearly worse", found, Band.above())
        found = against(name, where_of_block(printed.BEST_BLOCK, "GLTS-NS"), best)
        yield judged(f"C24: RR, GLTS-NS of the same size {text}", W2, "especially worse", found, Band.above())
        yield from _first_block(name, against)


def _first_block(name: str, against: Callable[[str, Where, Where], Interval | None]) -> Iterator[Claim]:
    """Yield what is claimed of the first block alone, with small and with large blocks."""
    for size in (min(ex.BLOCKS), max(ex.BLOCKS)):
        found = against(name, where_of_block(size, "GLTS-FBO"), where_of_block(size))
        text = f"C23: RR, GLTS-FBO against GLTS, blocks of {size}, {name} jobs, %"
        if size == min(ex.BLOCKS):
            yield judged(f"{text}: higher", W2, "much worse", found, Band.above())
        else:
            yield judged(f"{text}: within {ALMOST:g}", W2, "similar", found, quarter(0.0, Of.CHANGE))


def _load(figures: Figures) -> Iterator[Claim]:
    ssp, glts = Where(W2, ex.SSP), Where(W2, ex.GLTS)
    for name, published in printed.SSP_W2.items():
        yield _near(f"C29: RR, SSP, {name} jobs", W2, published, figures.mean(RESPONSES[name], ssp), Of.LEVEL)
    for name in printed.SSP_W2:
        found = figures.change(RESPONSES[name], ssp, glts)
        yield judged(f"C30: RR, SSP against GLTS, {name} jobs, %: higher", W2, "much longer", found, Band.above())
    for column, text in (("mean_queue_length", "mean queue"), ("groups_candidates", "mean number of candidates")):
        found = figures.change(column, glts, Where(W1, ex.GLTS))
        yield judged(f"C27: GLTS, W2 against W1, {text}, %: higher", W2, "longer, and more", found, Band.above())
    growth = "mean queue, second half of the submissions over the first"
    for where, text, told, band in (
        (ssp, f"{growth}, SSP: above {GROWS:g}, saturated", "jobs queue up", Band.above(GROWS)),
        (glts, f"{growth}, GLTS: below {GROWS:g}, not saturated", "not the case", Band.below(GROWS)),
    ):
        yield judged(f"C28: {text}", W2, told, figures.mean("waiting_growth", where), band, interval_text)
    in_days = partial(interval_text, factor=1 / DAY_S)
    rows = (
        (
            "days to the last end from the last submission, SSP less the same at W1: above 0",
            ssp,
            Where(W1, ex.SSP),
            Band.above(),
        ),
        ("days to the last end from the last submission, GLTS less SSP: below 0", glts, ssp, Band.below()),
    )
    for text, where, base, band in rows:
        yield judged(
            f"C28: {text}", W2, "increased under SSP", figures.difference("beyond_s", where, base), band, in_days
        )


def _slack(figures: Figures) -> Iterator[Claim]:
    usual = where_of_slack(printed.ENOUGH_SLACK)
    low = [factor for factor in ex.SLACKS if factor != ex.NONE and float(factor) < float(printed.ENOUGH_SLACK)]
    refused = [figures.change("groups_refused", where_of_slack(factor), usual) for factor in low]
    told = " / ".join(percent(None if found is None else found.mean) for found in refused)
    text = f"C31: GLTS, groups refused with slack {', '.join(low)} against {printed.ENOUGH_SLACK}, %: all higher"
    yield combined(text, W1, "more", told, [(found, Band.above()) for found in refused])
    for factor in ex.SLACKS:
        found = figures.change(RESPONSES["all"], where_of_slack(factor), usual)
        text = f"RR of all jobs, GLTS, slack {factor} against {printed.ENOUGH_SLACK}, %"
        if factor in low:
            yield judged(f"C31, C32: {text}: higher", W1, "higher", found, Band.above())
        elif factor != printed.ENOUGH_SLACK:
            yield judged(f"C32: {text}: within {ALMOST:g}", W1, "equal", found, quarter(0.0, Of.CHANGE))


# ---------------------------------------------------------------- parameters and rules


def _stated(text: str, published: str, measured: str) -> Claim:
    return Claim(text, "", published, measured, 0, Verdict.YES, kind=Kind.CONSTRUCTION)


def _rules(_figures: Figures) -> Iterator[Claim]:
    yield in_print(
        "P3: 5 % fewer arrivals than the original give Load 10.6",
        "",
        "10.6",
        "LOMARC has 10.6 without the 5 %",
        holds=False,
    )
    reason = "not printed; 600 s fit the figures of SSP at W2"
    yield not_checkable("P10: RR has cut-offs for very short jobs", "", reason)
    text = "P1, P2, P5, P6, P7, P8, P9, P11: machine, jobs, slowdowns, slices, classes, table 6, x 0.75, backfilling"
    yield _stated(text, "as printed", "settings of the presets and of the study")
    text = "P4: sizes of grown jobs are formula 7's, but powers of two stay such"
    yield _stated(text, "both", "rounded; the formula alone breaks W3")
    text = "P12, A4: groups are tested in turn until one passes"
    yield _stated(text, "those kept in step 4", "these, then all other windows of the first block")
    text = "A1, A2, A3, A5, A6: cases, groups as wholes, primaries, purifying, fairness"
    yield _stated(text, "sections 4.4 and 4.5", "tests against a second program")
    reason = "its denominator is S_A/PPN_A, a fraction of a node; here whole nodes that the group holds"
    yield not_checkable("A7: formula 6", "", reason)
