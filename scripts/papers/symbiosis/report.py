"""The page of symbiosis: what is wanted beside what was measured, on models and logs, and what each of its parts is worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.figures import Figures, Where, percent_text, sections
from scripts.papers.guests.claims import P99, RESPONSE, SLOWDOWN
from scripts.papers.harm import harm_tables
from scripts.papers.means import BASE, means_table, titled
from scripts.papers.pictures import POLICIES, bars, draw_all, grid, legend, point_at
from scripts.papers.rua.windows import WindowFigures
from scripts.papers.saturation import saturation_table
from scripts.papers.study import Size
from scripts.papers.symbiosis import experiment as ex
from scripts.papers.symbiosis.claims import claims
from scripts.tables import table_row

SHOWN: Final = {
    RESPONSE: ("response, mean [s]", 1.0),
    SLOWDOWN: ("bounded slowdown, mean", 1.0),
    P99: ("response p99 [s]", 1.0),
    "response_s_longest": ("longest [s]", 1.0),
    "node_sharing": ("shared [%]", 100.0),
}


def report(found: Figures, size: Size) -> list[str]:
    """Return the lines of the page between its markers."""
    figures = WindowFigures(found)
    parts = {
        "What is wanted": lambda figures: [f"{VERDICTS}", "", *claims_table(claims(figures))],
        "All policies": lambda figures: _means(
            figures, [Where(work, name) for work in (*ex.MODELS, *ex.LOGS) for name in ex.MAIN]
        ),
        "Short jobs stop others, at three prices": _express,
        "On halves of nodes": lambda figures: _means(
            figures,
            [Where(work, name) for work in (ex.NAS, ex.NAS_LOG) for name in ex.ON_HALVES]
            + [Where(ex.GLTS_W1, name) for name in ex.ON_GLTS],
        ),
        "What each part is worth": _ablation,
        "Where sharing is dear, or not understood": _dear,
        "Who is worse off": _harm,
        "Saturation": lambda figures: saturation_table(
            figures,
            [Where(work, name) for work in ex.MODELS for name in (ex.EASY_SHORTEST, ex.U1_SHORTEST, ex.SYMBIOSIS)],
        ),
    }
    rows = [table_row((name, f"`{preset}`", text), ()) for name, (preset, _, text) in ex.POLICIES.items()]
    return [
        f"{size.jobs:,} jobs of the model a run, seeds {ex.TUNED + 1} to {ex.TUNED + size.seeds}; {min(ex.LOG_JOBS, size.jobs):,}"
        " jobs of"
        f" each of {ex.WINDOWS} windows of a log, a node of one core with two contexts for each processor, with users' estimates."
        f" Settings were chosen with seeds 1 to {ex.TUNED} of W2, by {ex.VARIANTS_TRIED} compositions and settings.",
        "",
        *titled("", ("policy", "preset", "what it is"), (), rows),
        *sections(figures, parts),
    ]


def _means(figures: Figures, cells: Sequence[Where]) -> list[str]:
    return means_table(figures, SHOWN, cells)


def _express(figures: Figures) -> list[str]:
    cells = [Where("W2", ex.EXPRESS, variant=price) for price in (BASE, *ex.PRICES)]
    cells += [Where("W2", name) for name in (*[*ex.SUSPENDING][1:], ex.SYMBIOSIS, ex.U1_SHORTEST)]
    costs = "; ".join([f"{name}: {each['switch_s']:g} and {each['resume_s']:g}" for name, each in ex.PRICES.items()])
    text = (
        f"W2. Seconds without progress each time that a job comes back, in place and from disk: {BASE}: none; {costs}."
    )
    return [text, "", *_means(figures, cells)]


def _ablation(figures: Figures) -> list[str]:
    base = Where("W2", ex.SYMBIOSIS)
    rows = [
        table_row(
            (name, ex.POLICIES[name][2]),
            [percent_text(figures.change(key, where, base)) for key in (RESPONSE, SLOWDOWN, P99)],
        )
        for name in (*ex.ABLATED, ex.U1_SHORTEST, ex.EASY_SHORTEST)
        if figures.seeds(where := Where("W2", name))
    ]
    heads = [f"{SHOWN[key][0].partition(' [')[0]}, %" for key in (RESPONSE, SLOWDOWN, P99)]
    text = f"On W2, changes against {ex.SYMBIOSIS}, paired by seed."
    return titled(text, ("", "without"), heads, rows)


def _dear(figures: Figures) -> list[str]:
    places: list[dict[str, str]] = [{"variant": ex.WHOLE}, *({"belief": belief} for belief in ex.WRONG)]
    rows = [
        table_row(
            (next(iter(place.values())), name),
            [
                percent_text(figures.change(key, Where("W2", name, **place), Where("W2", base, **there)))
                for base, there in ((ex.U1_SHORTEST, place), (ex.EASY_SHORTEST, {}))
                for key in (RESPONSE, SLOWDOWN)
            ],
        )
        for place in places
        for name in (ex.U1_SHORTEST, ex.SYMBIOSIS)
        if figures.seeds(Where("W2", name, **place))
    ]
    heads = [
        f"{SHOWN[key][0]} against {base}, %"
        for base in (ex.U1_SHORTEST, ex.EASY_SHORTEST)
        for key in (RESPONSE, SLOWDOWN)
    ]
    text = (
        f"W2. *{ex.WHOLE}*: time in which neither of two jobs competes counts in the slowdown, which makes sharing dear."
        f" *{ex.NOISE}*: the"
        " scheduler knows usage with that error; *unknown*: not at all. Wrong on purpose: *shuffled*: it believes of"
        " each job the usage of another one; *inverted*: the parts of its nodes that it does not use."
    )
    return titled(text, ("", ""), heads, rows)


def _harm(figures: Figures) -> list[str]:
    names = (ex.EASY_SHORTEST, "L-R", ex.U1_SHORTEST, ex.SYMBIOSIS)
    express = Where("W2", ex.EXPRESS, variant=ex.HARMED_AT)
    cells = [Where(work, name) for work in ex.MODELS for name in names]
    cells += [Where("W2", ex.LEDGER), express]
    return harm_tables(figures, ex.EASY, cells, [*[Where("W2", name) for name in names], express])


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Write the picture; return its file. Needs matplotlib."""
    return draw_all(WindowFigures(figures), folder, "symbiosis", {"": _picture})


def _picture(figures: Figures) -> Any:
    works = [work for work in (*ex.MODELS, *ex.LOGS) if figures.seeds(Where(work, ex.SYMBIOSIS))]
    if not works:
        return None
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
