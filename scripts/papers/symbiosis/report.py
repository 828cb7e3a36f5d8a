"""The page of symbiosis: what is wanted beside what was measured, on models and logs, and what each of its parts is worth."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any, Final

from scripts.papers.claims import VERDICTS
from scripts.papers.figures import Figures, Where
from scripts.papers.guests.claims import P99, RESPONSE, SLOWDOWN
from scripts.papers.harm import harm
from scripts.papers.pages import Columns, Section, change, claims_of, means_table, page, presets, ratio, table
from scripts.papers.pictures import POLICIES, bars, grid, legend, point_at
from scripts.papers.rua.windows import WindowFigures
from scripts.papers.saturation import saturation
from scripts.papers.study import BASE, Size
from scripts.papers.symbiosis import experiment as ex
from scripts.papers.symbiosis.claims import best_paper, claims
from scripts.tables import NOTHING, number

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
        (
            (name, ex.POLICIES[name][2]),
            [change(key, Where("W2", name), Where("W2", ex.SYMBIOSIS)) for key in keys],
        )
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
    rows = [
        (
            (next(iter(place.values())), name),
            [
                change(key, Where("W2", name, **place), Where("W2", base, **there))
                for base, there in ((ex.U1_SHORTEST, place), (ex.EASY_SHORTEST, {}))
                for key in (RESPONSE, SLOWDOWN)
            ],
        )
        for place in places
        for name in (ex.U1_SHORTEST, ex.SYMBIOSIS)
    ]
    heads = [
        f"{SHOWN[key][0]} against {base}, %"
        for base in (ex.U1_SHORTEST, ex.EASY_SHORTEST)
        for key in (RESPONSE, SLOWDOWN)
    ]
    text = (
        f"Workload W2. With *{ex.WHOLE}* the time in which neither of two jobs competes counts in the slowdown, so sharing costs more."
        f" With *{ex.NOISE}* the scheduler knows the usage with that error, with *unknown* it does not know it. Two beliefs are wrong:"
        " *shuffled* gives each job the usage of another one, *inverted* gives it the usage that it does not have."
    )
    return table(("", ""), heads, rows, text, counted=False)


def corrected(places: Iterable[tuple[str, str]], variant: str, text: str) -> Section:
    """Return what a corrected belief changes against the same policy without sharing, by workload and belief."""
    rows = [
        (
            (work, belief),
            [
                change(RESPONSE, Where(work, f"{name}, {ex.CORRECTED}", variant, belief), Where(work, alone, variant))
                for name, alone in ex.UNSHARED.items()
            ],
        )
        for work, belief in places
    ]
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
        [
            *(Where(work, name) for work in (ex.NAS, ex.NAS_LOG) for name in ex.ON_HALVES),
            *(Where(ex.GLTS_W1, name) for name in ex.ON_GLTS),
        ],
    ),
    "What each part is worth": _ablation(),
    "Where sharing costs more, or is not known": _costly(),
    "A belief that is corrected": corrected(product(ex.CORRECTED_AT, ex.CORRECTED_BELIEFS), ex.MEASURED, _FIRST_LOOK),
    "Who is worse off": harm(
        ex.EASY,
        [*(Where(work, name) for work in ex.MODELS for name in _HARMED), Where("W2", ex.LEDGER), _EXPRESS],
        [*(Where("W2", name) for name in _HARMED), _EXPRESS],
    ),
    "Saturation": saturation(
        [Where(work, name) for work in ex.MODELS for name in (ex.EASY_SHORTEST, ex.U1_SHORTEST, ex.SYMBIOSIS)]
    ),
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
