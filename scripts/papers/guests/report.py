"""The page of guests beside a site's own scheduler: who gains, who pays, how many must opt in, and what wrong beliefs cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.figures import Figures, Where, interval_text, sections
from scripts.papers.guests.claims import P99, RESPONSE, SLOWDOWN, WORKS, claims
from scripts.papers.guests.experiment import (
    ANY_PRICE,
    EASY,
    FIRST_SEED,
    GUESTS,
    LEARNED,
    LOG_JOBS,
    LOGS,
    LOMARC,
    MAIN,
    NAS,
    NAS_JOBS,
    NAS_LOAD,
    OPTED,
    OUTLASTING,
    POLICIES,
    PSS,
    SHORTEST,
    SMALL_BUDGET,
    SYMBIOSIS,
    UNKNOWN,
    W2,
    WRONG,
)
from scripts.papers.harm import harm_tables
from scripts.papers.lomarc.experiment import EXACT
from scripts.papers.pictures import Point, bars, draw_all, grid, legend, point_of
from scripts.papers.saturation import saturation_table
from scripts.papers.study import Size
from scripts.tables import table_head, table_row

SHOWN: Final = {
    RESPONSE: "mean response",
    SLOWDOWN: "bounded slowdown",
    P99: "response p99",
    "response_s_longest": "longest",
}
COLOURS: Final = {
    PSS: "#bfd7ea",
    LOMARC: "#5fa8d3",
    SYMBIOSIS: "#8d99ae",
    GUESTS: "#0b3954",
    OPTED["half"]: "#3d6b8c",
    OPTED["quarter"]: "#a9c4d6",
}


def report(figures: Figures, size: Size) -> list[str]:
    """Return the lines of the page between its markers."""
    parts = {
        "What was expected, and what is wanted": lambda figures: [VERDICTS, "", *claims_table(claims(figures))],
        "All policies": _policies,
        "Who pays": _who_pays,
        "What is believed": _beliefs,
        "Who is later": _harm,
        "Saturation": lambda figures: saturation_table(
            figures, [Where(work, name) for work in (W2, NAS) for name in (EASY, GUESTS)]
        ),
    }
    rows = [table_row((name, f"`{preset}`", text), ()) for name, (preset, _, text) in POLICIES.items()]
    return [
        f"W2: {size.jobs:,} jobs of the model, seeds {FIRST_SEED} to {FIRST_SEED + size.seeds - 1}. {', '.join(LOGS)}:"
        f" {min(LOG_JOBS, size.jobs):,} jobs of the log from there, with users' estimates; a seed draws what bounds jobs, and"
        f" who opts in. {NAS}: {min(NAS_JOBS, size.jobs):,} jobs of the model at a load of {NAS_LOAD:g}, named as applications"
        " of measured co-runs."
        " Not all seeds have run everywhere: each row says how many.",
        "",
        *table_head(("policy", "preset", "what it is"), ()),
        *rows,
        "",
        *sections(figures, parts),
    ]


def _policies(figures: Figures) -> list[str]:
    cells = [Where(work, name) for work in WORKS for name in MAIN]
    cells += [Where(work, GUESTS, belief=belief) for work in WORKS for belief in OPTED.values()]
    cells.sort(key=lambda cell: WORKS.index(cell.workload))
    text = f"Each figure over that of {EASY}, paired by seed; of {EASY} itself in seconds."
    rows = []
    for where in cells:
        base = Where(where.workload, EASY)
        if figures.seeds(where) and figures.seeds(base):
            plain = where.policy == EASY
            found = [figures.mean(key, where) if plain else figures.ratio(key, where, base) for key in SHOWN]
            shared = interval_text(figures.mean("node_sharing", where), factor=100.0)
            labels = (where.workload, _name(where), str(figures.seeds(where)))
            rows.append(table_row(labels, [*map(interval_text, found), shared]))
    return [text, "", *table_head(("", "", "seeds"), [*SHOWN.values(), "shared [%]"]), *rows, ""] if rows else []


def _name(where: Where) -> str:
    return where.policy if where.belief in (None, EXACT) else f"{where.policy}, {where.belief}"


def _who_pays(figures: Figures) -> list[str]:
    """Return responses and times on nodes of those who opted in, and of the others."""
    rows = []
    for work in WORKS:
        for name, belief in OPTED.items():
            own, base = Where(work, GUESTS, belief=belief), Where(work, EASY)
            if figures.seeds(own):
                cells = [figures.ratio(f"{name}_{group}_response_s", own, base) for group in ("in", "others")]
                cells += [figures.ratio(f"{name}_{group}_longer", own, base) for group in ("in", "others")]
                rows.append(table_row((work, belief, str(figures.seeds(own))), [interval_text(cell) for cell in cells]))
    text = (
        f"{GUESTS}: mean response, and mean time on nodes over that alone, over those of the same jobs under {EASY}. Who opts"
        " in is drawn: by user, of jobs of the model by job."
    )
    heads = ["opted in, response", "others, response", "opted in, time on nodes", "others, time on nodes"]
    return [text, "", *table_head(("", "", "seeds"), heads), *rows, ""] if rows else []


def _beliefs(figures: Figures) -> list[str]:
    cells = [Where(W2, name, belief=belief) for belief in WRONG for name in (GUESTS, SMALL_BUDGET, ANY_PRICE, LOMARC)]
    cells += [Where(W2, name) for name in (GUESTS, SMALL_BUDGET, OUTLASTING, SHORTEST)]
    cells += [Where(NAS, GUESTS), *(Where(NAS, name, belief=UNKNOWN) for name in (GUESTS, LEARNED))]
    rows = [
        table_row(
            (where.workload, where.belief or EXACT, where.policy, str(figures.seeds(where))),
            [interval_text(figures.ratio(key, where, Where(where.workload, EASY))) for key in SHOWN],
        )
        for where in cells
        if figures.seeds(where)
    ]
    text = (
        f"Over {EASY}. Wrong on purpose: *shuffled*: the scheduler believes of each job the usage of another one; *inverted*: what it"
        f" does not use. *{UNKNOWN}*: no pair is known at first."
    )
    return [text, "", *table_head(("", "", "", "seeds"), [*SHOWN.values()]), *rows, ""] if rows else []


def _harm(figures: Figures) -> list[str]:
    cells = [Where(W2, name) for name in (PSS, LOMARC, GUESTS, OUTLASTING)]
    return harm_tables(figures, EASY, cells, [Where(W2, name) for name in (PSS, LOMARC, GUESTS)], "four", "three")


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Write the picture; return its file. Needs matplotlib."""
    return draw_all(figures, folder, "guests", {"": _picture})


def _picture(figures: Figures) -> Any:
    works = [work for work in WORKS if figures.seeds(Where(work, GUESTS))]
    if not works:
        return None
    figure, axes = grid(1, 1)
    places: dict[str, Sequence[Where]] = {
        name: [Where(work, name) for work in works] for name in (PSS, LOMARC, SYMBIOSIS, GUESTS)
    }
    for belief in OPTED.values():
        places[belief] = [Where(work, GUESTS, belief=belief) for work in works]
    rows = {name: [_point(figures, where) for where in cells] for name, cells in places.items()}
    bars(axes[0], rows, COLOURS, published=False)
    axes[0].set_xticks(range(len(works)), works)
    axes[0].set_ylabel(f"mean response over that of {EASY}", fontsize=8)
    legend(figure, axes[0])
    return figure


def _point(figures: Figures, where: Where) -> Point | None:
    found = [*figures.ratios(RESPONSE, where, Where(where.workload, EASY)).values()]
    return point_of(found) if found else None
