"""The page of symbiosis: what is wanted beside what was measured, on models and logs, and what each of its parts is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product, starmap
from typing import Any, Final

from scripts.papers import pages
from scripts.papers.claims import VERDICTS, Claim
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.guests.report import P99, RESPONSE, SLOWDOWN, at_most
from scripts.papers.harm import harm
from scripts.papers.pages import Columns, Section, claims_of, means_table, page, presets, table
from scripts.papers.pictures import POLICIES, bars, grid, legend, point_at
from scripts.papers.rows import Found, Measured, Row, Table, cell, change, every, judging, mean, ratio
from scripts.papers.rua.windows import WindowFigures
from scripts.papers.saturation import saturation
from scripts.papers.study import BASE, Size
from scripts.papers.symbiosis import experiment as ex
from scripts.tables import NOTHING, number

from cosched_emulator.statistics.intervals import difference_of
from cosched_emulator.statistics.weighted import CLASS_NAMES

NAMES: Final = {RESPONSE: "mean response", SLOWDOWN: "mean bounded slowdown", P99: "response p99", BASE: "no price"}
ON_LOGS: Final[Mapping[str, float]] = {"SDSC-SP2": 0.92, "BLUE": 0.92, "CTC": 1.0}


def best_paper(figures: Figures, workload: str, figure: str) -> Where:
    """Return the paper's policy whose mean is the lowest; the first where none has run."""
    means = [(found.mean, name) for name in ex.PAPERS if (found := figures.mean(figure, Where(workload, name)))]
    return Where(workload, min(means)[1] if means else ex.PAPERS[0])


def _against_best(ids: str, key: str, most: float, work: str = "W2") -> Any:
    """Return a claim against the best paper's policy, which is named and shown where the claim is; each of them is judged."""

    def claims(figures: Figures) -> list[Claim]:
        best = best_paper(figures, work, key)
        text = f"{ids}: {NAMES[key]} over that of the best paper's policy{', fresh seeds' * (work == ex.ANEW)}"
        shown = interval_text(figures.ratio(key, Where(work, ex.SYMBIOSIS), best))
        papers = every(ratio(key, ex.SYMBIOSIS, "{paper}"), run="{paper}", tell=lambda _: shown, paper=ex.PAPERS)
        return Table(figures).claims([at_most(text, papers, most, at=f"{work}, {best.policy}", work=work)])

    return claims


def above_floor(figures: Figures, work: str, policy: str = ex.SYMBIOSIS) -> Found:
    """Return Hshk less its floor."""
    later, floor = (figures.values(name, Where(work, policy)) for name in ("harm_hshk", "harm_hshk_floor"))
    return difference_of(later, floor) if later else None


def highest(found: Sequence[Found]) -> str:
    """Return the highest of some figures; as it was chosen by what it measured, each of them is judged."""
    return interval_text(max([each for each in found if each is not None], key=lambda each: each.mean, default=None))


def _later(policy: str, variant: str | None, of_all: tuple[str, float], of_class: tuple[str, float]) -> list[Row]:
    """Return the share of the jobs that are later than under EASY, and that of the class which fares worst."""
    at, place = ", ".join(filter(None, ("W2", variant))), {"work": "W2", "policy": policy, "variant": [variant]}
    classes = [name.replace(" ", "_") for name in CLASS_NAMES]
    figures = (mean("harm_h1", policy), every(mean("harm_{of}_h1", policy), tell=highest, of=classes))
    return [
        at_most(text, figure, most, at=at, **place)
        for figure, (text, most) in zip(figures, (of_all, of_class), strict=True)
    ]


def _to_shortest(ids: str, key: str, most: float, **each: Any) -> Row:
    return at_most(
        f"{ids}: {NAMES[key]} over that of {ex.U1_SHORTEST}", ratio(key, ex.SYMBIOSIS, ex.U1_SHORTEST), most, **each
    )


_TO_NONE = ratio(RESPONSE, ex.SYMBIOSIS, cell(ex.EASY_SHORTEST, belief=None))
_U1 = cell(ex.U1_SHORTEST, variant=None)
# fmt: off
claims: Final = judging((
    _against_best("G1", RESPONSE, 0.72),
    _against_best("G20", RESPONSE, 0.72, ex.ANEW),
    _against_best("G2", SLOWDOWN, 0.25),
    _against_best("G3", P99, 1.0),
    _to_shortest("G4", RESPONSE, 0.85, work="W2"),
    _to_shortest("G5", SLOWDOWN, 1.0, work="W2"),
    at_most("G6: Hshk less its floor", above_floor, 0.0, work="W2"),
    at_most("G13: Hshk less its floor", above_floor, 0.02, work="W1"),
    *_later(ex.SYMBIOSIS, None, ("G7: H1", 0.08), ("G8: H1 of the worst class", 0.15)),
    *(each for log in ex.LOGS for each in (_to_shortest("G9", RESPONSE, ON_LOGS[log], work=log), _to_shortest("G10", SLOWDOWN, 1.0,
            work=log))),
    _to_shortest("G11", RESPONSE, 1.0, at="W2, {variant}", work="W2", variant=ex.WHOLE),
    _to_shortest("G11", RESPONSE, 1.0, at="W2, {belief}", work="W2", belief=ex.NOISE),
    at_most("G12: mean response over that without sharing", _TO_NONE, 1.02, at="W2, {belief}", work="W2", belief=ex.WRONG),
    at_most("G14: express, {key} over L-U1's", ratio("{key}", ex.EXPRESS, _U1), 0.75, at="W2, {variant}", work="W2", key=RESPONSE,
        variant=(BASE, *ex.PRICES)),
    at_most("G15: express, {key} over L-U1's", ratio("{key}", ex.EXPRESS, _U1), 0.40, at="W2, {variant}", work="W2", key=SLOWDOWN,
        variant=(BASE, *ex.PRICES)),
    *_later(ex.EXPRESS, ex.HARMED_AT, ("G16: express, H1", 0.06), ("G17: express, H1 of the worst class", 0.12)),
    at_most("G18: express, mean response over that of symbiosis",
        ratio(RESPONSE, cell(ex.EXPRESS, variant=ex.HARMED_AT), ex.SYMBIOSIS), 1.0, at=f"W2, {ex.NOISE}, {ex.HARMED_AT}", work="W2",
        belief=ex.NOISE),
    at_most(f"G19: on halves of nodes, mean response over that of {ex.EASY_SHORTEST}", ratio(RESPONSE, ex.HALVES, ex.EASY_SHORTEST),
        0.90, work=ex.NAS),
    at_most(f"G19: on halves of nodes, mean response over that of {ex.EASY_SHORTEST}", ratio(RESPONSE, ex.HALVES, ex.EASY_SHORTEST),
        0.93, work=ex.NAS_LOG),
), NAMES)
# fmt: on

SHOWN: Final[Columns] = {
    RESPONSE: ("response, mean [s]", 1.0),
    SLOWDOWN: ("bounded slowdown, mean", 1.0),
    P99: ("response p99 [s]", 1.0),
    "response_s_longest": ("longest [s]", 1.0),
    "node_sharing": ("shared [%]", 100.0),
}


def _express() -> Section:
    cells = [Where("W2", ex.EXPRESS, variant=price) for price in (BASE, *ex.PRICES)]
    cells += [Where("W2", name) for name in (*[*ex.SUSPENDING][1:], ex.SYMBIOSIS, ex.U1_SHORTEST)]
    costs = "; ".join([f"{name}: {each['switch_s']:g} and {each['resume_s']:g}" for name, each in ex.PRICES.items()])
    text = (
        f"Workload W2. A resumed job makes no progress for some seconds, in place and from disk: {BASE}: none; {costs}."
    )
    return means_table(SHOWN, cells, text, kept=True)


def _ablation() -> Section:
    keys = (RESPONSE, SLOWDOWN, P99)
    rows = [
        ((name, ex.POLICIES[name][2]), [change(key, Where("W2", name), Where("W2", ex.SYMBIOSIS)) for key in keys])
        for name in (*ex.ABLATED, ex.U1_SHORTEST, ex.EASY_SHORTEST)
    ]
    text = f"Changes against {ex.SYMBIOSIS} with the same seed, on W2."
    heads = [f"{SHOWN[key][0].partition(' [')[0]}, %" for key in keys]
    return table(("", "without"), heads, rows, text, counted=False)


def _own(figures: Figures) -> list[str]:
    """Return how much of what symbiosis gains on fresh seeds is its own, and how much the papers' policy in its order has."""
    own, shortest = (Where(ex.ANEW, name) for name in (ex.SYMBIOSIS, ex.U1_SHORTEST))
    best = best_paper(figures, ex.ANEW, RESPONSE)
    by_seed = [number(value) for value in sorted(figures.ratios(RESPONSE, own, best).values())]
    without = Where(ex.ANEW, ex.EASY_SHORTEST)

    def share(base: Where) -> str:
        before, theirs, mine = (figures.values(RESPONSE, where) for where in (base, shortest, own))
        seeds = before.keys() & theirs.keys() & mine.keys()
        gains = [sum(before[seed] - by[seed] for seed in seeds) for by in (theirs, mine)]
        return f"{100 * gains[0] / gains[1]:.0f}" if seeds else NOTHING

    text = (
        f"Workload W2 with {len(ex.FRESH)} seeds that no study or tuning used, {ex.FRESH[0]} to {ex.FRESH[-1]}. The mean response of"
        f" {own.policy} over that of {best.policy} is, by seed, {', '.join(by_seed)}. {shortest.policy} has {share(best)} % of the gain"
        f" of {own.policy} over {best.policy}, and {share(without)} % of its gain over {without.policy}."
    )
    cells = [
        ((place.policy, base.policy), [ratio(key, place, base) for key in (RESPONSE, SLOWDOWN, P99)])
        for place, base in ((own, best), (shortest, best), (own, shortest), (own, without))
    ]
    return table(("", "over"), [SHOWN[key][0] for key in (RESPONSE, SLOWDOWN, P99)], cells, text)(figures)


def _costly() -> Section:
    places: list[dict[str, str]] = [{"variant": ex.WHOLE}, *({"belief": belief} for belief in ex.WRONG)]
    compared = [*product((ex.U1_SHORTEST, ex.EASY_SHORTEST), (RESPONSE, SLOWDOWN))]

    def row(place: dict[str, str], name: str) -> pages.Row:
        bases = {ex.U1_SHORTEST: Where("W2", ex.U1_SHORTEST, **place), ex.EASY_SHORTEST: Where("W2", ex.EASY_SHORTEST)}
        cells = [change(key, Where("W2", name, **place), bases[base]) for base, key in compared]
        return (next(iter(place.values())), name), cells

    heads = [f"{SHOWN[key][0]} against {base}, %" for base, key in compared]
    rows = starmap(row, product(places, (ex.U1_SHORTEST, ex.SYMBIOSIS)))
    text = (
        f"Workload W2. With *{ex.WHOLE}* the time in which neither of two jobs competes counts in the slowdown, so sharing costs more."
        f" With *{ex.NOISE}* the scheduler knows the usage with that error, with *unknown* it does not know it. Two beliefs are wrong:"
        " *shuffled* gives each job the usage of another one, *inverted* gives it the usage that it does not have."
    )
    return table(("", ""), heads, rows, text, counted=False)


def corrected(places: Iterable[tuple[str, str]], variant: str, text: str) -> Section:
    """Return what a corrected belief changes against the same policy without sharing, by workload and belief."""

    def cell_of(work: str, belief: str, name: str) -> Measured:
        where, alone = Where(work, f"{name}, {ex.CORRECTED}", variant, belief), Where(work, ex.UNSHARED[name], variant)
        return change(RESPONSE, where, alone)

    rows = [(place, [cell_of(*place, name) for name in ex.UNSHARED]) for place in places]
    told = f"Change of the mean response with `--set belief=corrected` against the same policy without sharing. {text}"
    return table(("", "belief"), [f"{name}, %" for name in ex.UNSHARED], rows, told, counted=False)


_FIRST_LOOK: Final = (
    f"Each run has {ex.CORRECTED_JOBS} jobs, and there are two seeds: a preview. With the exact belief a correction changes no"
    " schedule."
)
_HARMED: Final = (ex.EASY_SHORTEST, "L-R", ex.U1_SHORTEST, ex.SYMBIOSIS)
_EXPRESS: Final = Where("W2", ex.EXPRESS, variant=ex.HARMED_AT)
PARTS: Final = {
    "Goals": claims_of(claims, text=VERDICTS),
    "How much of the gain is its own": _own,
    "All policies": means_table(SHOWN, [Where(work, name) for work in (*ex.MODELS, *ex.LOGS) for name in ex.MAIN]),
    "Short jobs stop others, at three prices": _express(),
    "On halves of nodes": means_table(
        SHOWN,
        starmap(Where, [*product((ex.NAS, ex.NAS_LOG), ex.ON_HALVES), *product([ex.GLTS_W1], ex.ON_GLTS)]),
    ),
    "What each part is worth": _ablation(),
    "Where sharing costs more, or is not known": _costly(),
    "A belief that is corrected": corrected(product(ex.CORRECTED_AT, ex.CORRECTED_BELIEFS), ex.MEASURED, _FIRST_LOOK),
    "Who is worse off": harm(
        ex.EASY,
        [*(Where(work, name) for work in ex.MODELS for name in _HARMED), Where("W2", ex.LEDGER), _EXPRESS],
        [*(Where("W2", name) for name in _HARMED), _EXPRESS],
    ),
    "Saturation": saturation(starmap(Where, product(ex.MODELS, (ex.EASY_SHORTEST, ex.U1_SHORTEST, ex.SYMBIOSIS)))),
}


def _head(figures: Figures, size: Size) -> list[str]:
    return [
        f"A run has {size.jobs:,} jobs of the model, with seeds {ex.TUNED + 1} to {ex.TUNED + size.seeds}, or"
        f" {min(ex.LOG_JOBS, size.jobs):,} jobs of one of {ex.WINDOWS} windows of a log, with users' estimates; each processor of the"
        " log is a node of one core with two hardware threads. Settings were chosen with seeds 1 to"
        f" {ex.TUNED} of W2, among {ex.VARIANTS_TRIED} compositions and settings.",
        "",
        *presets(ex.POLICIES)(figures)[:-1],
    ]


report = page(_head, PARTS, WindowFigures)


def _picture(figures: Figures) -> Any:
    works = [work for work in (*ex.MODELS, *ex.LOGS) if figures.seeds(Where(work, ex.SYMBIOSIS))]
    figure, axes = grid(2, 1)
    for axis, key, factor in ((axes[0], RESPONSE, 1 / 3600), (axes[1], SLOWDOWN, 1.0)):
        rows = {
            name: [point_at(figures, key, Where(work, name), None, factor) for work in works] for name in ex.MAIN[1:]
        }
        bars(axis, rows, POLICIES, published=False)
        axis.set_xticks(range(len(works)), works)
        axis.set_ylabel("mean response [hours]" if key == RESPONSE else "mean bounded slowdown", fontsize=8)
    legend(figure, axes[0])
    return figure


PICTURES: Final = {"": _picture}
OVER: Final = WindowFigures
