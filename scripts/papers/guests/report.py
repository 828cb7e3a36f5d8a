"""The page of guests beside a site's own scheduler: what prototypes gave and what is wanted, as data; who gains, and who pays;
how many must opt in, and what wrong beliefs cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product, starmap
from typing import Any, Final

from scripts.papers import pages
from scripts.papers.claims import VERDICTS, Band
from scripts.papers.figures import Figures, Where
from scripts.papers.guests import experiment as ex
from scripts.papers.harm import harm
from scripts.papers.lomarc.experiment import EXACT
from scripts.papers.pages import Section, aside, claims_of, page, presets, table
from scripts.papers.pictures import POLICIES, Point, bars, grid, legend, point_of
from scripts.papers.rows import Row, block, cell, difference, judging, mean, near_ratio, ratio, row
from scripts.papers.saturation import saturation
from scripts.papers.study import Size
from scripts.tables import number

RESPONSE, SLOWDOWN, P99 = "response_s_mean", "bounded_slowdown_10s_mean", "response_s_p99"
WORKS: Final = (ex.W2, *ex.LOGS, ex.NAS)
# Mean response over EASY's in prototypes, before this study: W2 with seeds 1 to 3, one draw of each log, two of the pairs.
PROTOTYPES: Final[Mapping[tuple[str, str, str, str], tuple[float, ...]]] = {  # ratios in the order of `WORKS`
    ("A1", "", ex.GUESTS, EXACT): (0.43, 0.58, 0.43, 0.74, 0.62),
    ("A2", " where guests may outlast hosts", ex.OUTLASTING, EXACT): (0.39, 0.53, 0.37, 0.71, 0.57),
    ("A3", " of L-R", ex.LOMARC, EXACT): (0.40, 0.52, 0.36, 0.74, 0.60),
    ("A4", ", half opted in", ex.GUESTS, ex.OPTED["half"]): (0.66, 0.79, 0.59, 0.86, 0.84),
    ("A5", ", a quarter opted in", ex.GUESTS, ex.OPTED["quarter"]): (0.84, 0.94, 0.75, 0.96),
}


def at_most(text: str, figure: Any, most: float, **each: Any) -> Row:
    """Return what is wanted to be at most so much."""
    return row(text, figure, Band.below(math.nextafter(most, math.inf)), f"at most {number(most)}", **each)


def _before(case: Any, work: str, **_: Any) -> float:
    return PROTOTYPES[case][WORKS.index(work)]


_EASY = cell(ex.EASY, belief=None)
_HALF = cell(ex.GUESTS, belief=ex.OPTED["half"])
# fmt: off
claims: Final = judging((
    row("{case[0]}: mean response{case[1]} over EASY's", ratio(RESPONSE, cell("{case[2]}", belief="{case[3]}"), ex.EASY),
        near_ratio(_before), case=PROTOTYPES, work=lambda case: WORKS[: len(PROTOTYPES[case])]),
    block(
        at_most("A6: mean response over that of L-R", ratio(RESPONSE, ex.GUESTS, ex.LOMARC), 1.10),
        at_most("A7: mean bounded slowdown over EASY's", ratio(SLOWDOWN, ex.GUESTS, ex.EASY), 1.0),
        at_most("A8: response p99 over EASY's", ratio(P99, ex.GUESTS, ex.EASY), 1.0),
        work=WORKS),
    block(
        at_most("A9: mean response of those who did not opt in, over EASY's", ratio("{name}_others_response_s", ex.GUESTS, _EASY), 1.0,
            at="{work}, {belief}", name=ex.OPTED, belief=lambda name, **_: [ex.OPTED[name]]),
        at_most("A10: time on nodes of those who opted in over that under EASY, half opted in",
            ratio("half_in_longer", _HALF, ex.EASY), 1.10),
        work=WORKS),
    at_most("A11: H1 less that of PSS, which shares nothing", difference("harm_h1", "{policy}", ex.PSS), 0.0, at="{work}, {policy}",
        work=ex.W2, policy=(ex.GUESTS, ex.OUTLASTING)),
    row("A12: mean response over EASY's, where what is believed is wrong", ratio(RESPONSE, "{policy}", _EASY), Band.above(1.0),
        "above 1", at="{work}, {belief}, {policy}", work=ex.W2, belief=ex.WRONG,
        policy=(ex.GUESTS, ex.SMALL_BUDGET, ex.ANY_PRICE, ex.LOMARC)),
    at_most("A13: learned beliefs, mean response over that of exact ones",
        ratio(RESPONSE, cell(ex.LEARNED, belief=ex.UNKNOWN), ex.GUESTS), 1.10, work=ex.NAS),
    row("A14: nothing known, mean response over EASY's", ratio(RESPONSE, cell(ex.GUESTS, belief=ex.UNKNOWN), ex.EASY),
        Band(1 - 0.001, 1 + 0.001), "1: no guest", work=ex.NAS),
))
# fmt: on

SHOWN: Final = {
    RESPONSE: "mean response",
    SLOWDOWN: "bounded slowdown",
    P99: "response p99",
    "response_s_longest": "longest",
}
COLOURS: Final = {**POLICIES, ex.OPTED["half"]: "#3d6b8c", ex.OPTED["quarter"]: "#a9c4d6"}


def over(base: str, cells: Iterable[Where]) -> Section:
    """Return a table of figures over those of a policy that uses no beliefs."""

    def row(where: Where) -> pages.Row:
        there = Where(where.workload, base)
        found = [mean(key, where) if where.policy == base else ratio(key, where, there) for key in SHOWN]
        labels = where.workload, ", ".join(filter(None, (where.policy, where.belief)))
        return labels, [*found, aside(mean("node_sharing", where, 100.0))]

    text = f"Each figure is divided by that of {base} with the same seed; the rows of {base} are in seconds."
    return table(("", ""), [*SHOWN.values(), "shared [%]"], map(row, cells), text)


def _cells() -> Iterator[Where]:
    for work in WORKS:
        yield from [Where(work, name) for name in ex.MAIN]
        yield from [Where(work, ex.GUESTS, belief=belief) for belief in ex.OPTED.values()]


def _who_pays() -> Section:
    """Return responses and times on nodes of those who opted in, and of the others."""

    def row(work: str, name: str) -> pages.Row:
        keys = [f"{name}_{group}_{what}" for what in ("response_s", "longer") for group in ("in", "others")]
        where, base = Where(work, ex.GUESTS, belief=ex.OPTED[name]), Where(work, ex.EASY)
        return (work, ex.OPTED[name]), [ratio(key, where, base) for key in keys]

    text = (
        f"Figures of {ex.GUESTS}: the mean response, and the mean of time on nodes / run time alone, each divided by that of the same"
        f" jobs under {ex.EASY}. A draw decides which users opt in; in the model's workloads it decides for each job."
    )
    heads = ["opted in, response", "others, response", "opted in, time on nodes", "others, time on nodes"]
    return table(("", ""), heads, starmap(row, product(WORKS, ex.OPTED)), text)


def _beliefs() -> Section:
    wrong = product(ex.WRONG, (ex.GUESTS, ex.SMALL_BUDGET, ex.ANY_PRICE, ex.LOMARC))
    cells = [Where(ex.W2, name, belief=belief) for belief, name in wrong]
    cells += [Where(ex.W2, name) for name in (ex.GUESTS, ex.SMALL_BUDGET, ex.OUTLASTING, ex.SHORTEST)]
    cells += [Where(ex.NAS, ex.GUESTS), *(Where(ex.NAS, name, belief=ex.UNKNOWN) for name in (ex.GUESTS, ex.LEARNED))]

    def row(where: Where) -> pages.Row:
        labels = where.workload, where.belief or EXACT, where.policy
        return labels, [ratio(key, where, Where(where.workload, ex.EASY)) for key in SHOWN]

    text = (
        f"Each figure is divided by that of {ex.EASY}. Two beliefs are wrong: *shuffled* gives each job the usage of another one,"
        f" *inverted* gives it the usage that it does not have. With *{ex.UNKNOWN}* the scheduler knows no pair at first."
    )
    return table(("", "", ""), SHOWN.values(), map(row, cells), text)


_HARMED: Final = [Where(ex.W2, name) for name in (ex.PSS, ex.LOMARC, ex.GUESTS, ex.OUTLASTING)]
PARTS: Final = {
    "Expectations and goals": claims_of(claims, text=VERDICTS),
    "All policies": over(ex.EASY, _cells()),
    "Who pays": _who_pays(),
    "What is believed": _beliefs(),
    "Who is later": harm(ex.EASY, _HARMED, _HARMED[:3], "four", "three"),
    "Saturation": saturation([Where(work, name) for work in (ex.W2, ex.NAS) for name in (ex.EASY, ex.GUESTS)]),
}


def _head(figures: Figures, size: Size) -> list[str]:
    return [
        f"W2: {size.jobs:,} jobs of the model, seeds {ex.FIRST_SEED} to {ex.FIRST_SEED + size.seeds - 1}. {', '.join(ex.LOGS)}:"
        f" {min(ex.LOG_JOBS, size.jobs):,} jobs of the log from this job on, with users' estimates; a seed draws what bounds jobs, and"
        f" who opts in. {ex.NAS}: {min(ex.NAS_JOBS, size.jobs):,} jobs of the model at a load of {ex.NAS_LOAD:g}; each is one of the"
        " applications of the measured co-runs. Each row says how many seeds have run.",
        "",
        *presets(ex.POLICIES)(figures)[:-1],
    ]


report = page(_head, PARTS)


def bars_over(
    base: str, works: Iterable[str], policies: Iterable[str], beliefs: Iterable[str] = ()
) -> Callable[[Figures], Any]:
    """Return what draws mean responses over those of a policy; the last policy under each of some beliefs, too."""
    every, names = [*works], [*policies]

    def picture(figures: Figures) -> Any:
        works = [work for work in every if any(figures.seeds(Where(work, name)) for name in names)]
        figure, axes = grid(1, 1)
        places = {name: [Where(work, name) for work in works] for name in names}
        for belief in beliefs:
            places[belief] = [Where(work, names[-1], belief=belief) for work in works]
        rows = {name: [_point(figures, where, base) for where in cells] for name, cells in places.items()}
        bars(axes[0], rows, COLOURS, published=False)
        axes[0].set_xticks(range(len(works)), works)
        axes[0].set_ylabel(f"mean response over that of {base}", fontsize=8)
        legend(figure, axes[0])
        return figure

    return picture


def _point(figures: Figures, where: Where, base: str) -> Point | None:
    return point_of(figures.ratio(RESPONSE, where, Where(where.workload, base)))


PICTURES: Final = {"": bars_over(ex.EASY, WORKS, (ex.PSS, ex.LOMARC, ex.SYMBIOSIS, ex.GUESTS), ex.OPTED.values())}
