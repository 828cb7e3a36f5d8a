"""The page of guests beside a site's own scheduler: who gains, who pays, how many must opt in, and what wrong beliefs cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.figures import Figures, Where, interval_text, sections
from scripts.papers.guests import experiment as ex
from scripts.papers.guests.claims import P99, RESPONSE, SLOWDOWN, WORKS, claims
from scripts.papers.harm import harm_tables
from scripts.papers.lomarc.experiment import EXACT
from scripts.papers.means import titled
from scripts.papers.pictures import POLICIES, Point, bars, draw_all, grid, legend, point_of
from scripts.papers.saturation import saturation_table
from scripts.papers.study import Size
from scripts.tables import table_row

SHOWN: Final = {
    RESPONSE: "mean response",
    SLOWDOWN: "bounded slowdown",
    P99: "response p99",
    "response_s_longest": "longest",
}
COLOURS: Final = {**POLICIES, ex.OPTED["half"]: "#3d6b8c", ex.OPTED["quarter"]: "#a9c4d6"}


def report(figures: Figures, size: Size) -> list[str]:
    """Return the lines of the page between its markers."""
    parts = {
        "What was expected, and what is wanted": lambda figures: [VERDICTS, "", *claims_table(claims(figures))],
        "All policies": _policies,
        "Who pays": _who_pays,
        "What is believed": _beliefs,
        "Who is later": _harm,
        "Saturation": lambda figures: saturation_table(
            figures, [Where(work, name) for work in (ex.W2, ex.NAS) for name in (ex.EASY, ex.GUESTS)]
        ),
    }
    rows = [table_row((name, f"`{preset}`", text), ()) for name, (preset, _, text) in ex.POLICIES.items()]
    return [
        f"W2: {size.jobs:,} jobs of the model, seeds {ex.FIRST_SEED} to {ex.FIRST_SEED + size.seeds - 1}. {', '.join(ex.LOGS)}:"
        f" {min(ex.LOG_JOBS, size.jobs):,} jobs of the log from there, with users' estimates; a seed draws what bounds jobs, and"
        f" who opts in. {ex.NAS}: {min(ex.NAS_JOBS, size.jobs):,} jobs of the model at a load of {ex.NAS_LOAD:g}, named as applications"
        " of measured co-runs."
        " Not all seeds have run everywhere: each row says how many.",
        "",
        *titled("", ("policy", "preset", "what it is"), (), rows),
        *sections(figures, parts),
    ]


def _policies(figures: Figures) -> list[str]:
    cells = [Where(work, name) for work in WORKS for name in ex.MAIN]
    cells += [Where(work, ex.GUESTS, belief=belief) for work in WORKS for belief in ex.OPTED.values()]
    cells.sort(key=lambda cell: WORKS.index(cell.workload))
    rows = []
    for where in cells:
        base = Where(where.workload, ex.EASY)
        if figures.seeds(where) and figures.seeds(base):
            plain = where.policy == ex.EASY
            found = [figures.mean(key, where) if plain else figures.ratio(key, where, base) for key in SHOWN]
            shared = interval_text(figures.mean("node_sharing", where), factor=100.0)
            name = where.policy if where.belief in (None, EXACT) else f"{where.policy}, {where.belief}"
            labels = (where.workload, name, str(figures.seeds(where)))
            rows.append(table_row(labels, [*map(interval_text, found), shared]))
    text = f"Each figure over that of {ex.EASY}, paired by seed; of {ex.EASY} itself in seconds."
    return titled(text, ("", "", "seeds"), [*SHOWN.values(), "shared [%]"], rows)


def _who_pays(figures: Figures) -> list[str]:
    """Return responses and times on nodes of those who opted in, and of the others."""
    rows = []
    for work in WORKS:
        for name, belief in ex.OPTED.items():
            own, base = Where(work, ex.GUESTS, belief=belief), Where(work, ex.EASY)
            if figures.seeds(own):
                cells = [figures.ratio(f"{name}_{group}_response_s", own, base) for group in ("in", "others")]
                cells += [figures.ratio(f"{name}_{group}_longer", own, base) for group in ("in", "others")]
                rows.append(table_row((work, belief, str(figures.seeds(own))), [interval_text(cell) for cell in cells]))
    text = (
        f"{ex.GUESTS}: mean response, and mean time on nodes over that alone, over those of the same jobs under {ex.EASY}. Who opts"
        " in is drawn: by user, of jobs of the model by job."
    )
    heads = ["opted in, response", "others, response", "opted in, time on nodes", "others, time on nodes"]
    return titled(text, ("", "", "seeds"), heads, rows)


def _beliefs(figures: Figures) -> list[str]:
    cells = [
        Where(ex.W2, name, belief=belief)
        for belief in ex.WRONG
        for name in (ex.GUESTS, ex.SMALL_BUDGET, ex.ANY_PRICE, ex.LOMARC)
    ]
    cells += [Where(ex.W2, name) for name in (ex.GUESTS, ex.SMALL_BUDGET, ex.OUTLASTING, ex.SHORTEST)]
    cells += [
        Where(ex.NAS, ex.GUESTS),
        *(Where(ex.NAS, name, belief=ex.UNKNOWN) for name in (ex.GUESTS, ex.LEARNED)),
    ]
    rows = [
        table_row(
            (where.workload, where.belief or EXACT, where.policy, str(figures.seeds(where))),
            [interval_text(figures.ratio(key, where, Where(where.workload, ex.EASY))) for key in SHOWN],
        )
        for where in cells
        if figures.seeds(where)
    ]
    text = (
        f"Over {ex.EASY}. Wrong on purpose: *shuffled*: the scheduler believes of each job the usage of another one; *inverted*:"
        " what it"
        f" does not use. *{ex.UNKNOWN}*: no pair is known at first."
    )
    return titled(text, ("", "", "", "seeds"), [*SHOWN.values()], rows)


def _harm(figures: Figures) -> list[str]:
    cells = [Where(ex.W2, name) for name in (ex.PSS, ex.LOMARC, ex.GUESTS, ex.OUTLASTING)]
    return harm_tables(
        figures,
        ex.EASY,
        cells,
        [Where(ex.W2, name) for name in (ex.PSS, ex.LOMARC, ex.GUESTS)],
        "four",
        "three",
    )


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Write the picture; return its file. Needs matplotlib."""
    return draw_all(figures, folder, "guests", {"": _picture})


def _picture(figures: Figures) -> Any:
    works = [work for work in WORKS if figures.seeds(Where(work, ex.GUESTS))]
    if not works:
        return None
    figure, axes = grid(1, 1)
    places: dict[str, Sequence[Where]] = {
        name: [Where(work, name) for work in works] for name in (ex.PSS, ex.LOMARC, ex.SYMBIOSIS, ex.GUESTS)
    }
    for belief in ex.OPTED.values():
        places[belief] = [Where(work, ex.GUESTS, belief=belief) for work in works]
    rows = {name: [_point(figures, where) for where in cells] for name, cells in places.items()}
    bars(axes[0], rows, COLOURS, published=False)
    axes[0].set_xticks(range(len(works)), works)
    axes[0].set_ylabel(f"mean response over that of {ex.EASY}", fontsize=8)
    legend(figure, axes[0])
    return figure


def _point(figures: Figures, where: Where) -> Point | None:
    found = [*figures.ratios(RESPONSE, where, Where(where.workload, ex.EASY)).values()]
    return point_of(found) if found else None
