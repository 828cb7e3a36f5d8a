"""The pictures of the paired gang reproduction: figures 3, 7, 8, 9, 10, 11, 12, 13 and 14 of the paper, and ratios over load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from scripts.papers.figures import Figures, Where
from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang.curves import jobs_by_load, jobs_of_others, loads, phases, scatter
from scripts.papers.paired_gang.published import BEST_FIT_COUNTS
from scripts.papers.pictures import Axes, bars, draw_all, grid, point_at

COLOURS: Final = {ex.STRICT: "#8d99ae", ex.BEST: "#5fa8d3", ex.PAIRED: "#0b3954"}
SHADES: Final = ("#bfd7ea", "#5fa8d3", "#0b3954", "#e0a458")  # of sizes, grains and slots
TITLES: Final = {ex.COMPUTE: "compute jobs", ex.IO: "I/O jobs"}
MATCHINGS: Final = {ex.BEST: "best fit", ex.PAIRED: "pre-designed"}


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Write all pictures of which there are runs; return their files. Needs matplotlib."""
    return draw_all(figures, folder, "paired-gang", PICTURES)


def _static(figures: Figures) -> Any:
    """Draw figure 7: barriers a second by mix, and how often each slot is chosen as partner; left best fit, right pre-designed."""
    if not any(figures.seeds(Where(ex.mix(io_jobs), policy)) for io_jobs in ex.MIXES for policy in MATCHINGS):
        return None
    figure, axes = grid(3, 2)
    for column, (policy, title) in enumerate(MATCHINGS.items()):
        for row, kind in enumerate(ex.KINDS):
            axis = axes[2 * row + column]
            rows = {
                name: [point_at(figures, ex.rate(kind), Where(ex.mix(n), name)) for n in ex.MIXES]
                for name in (ex.STRICT, policy)
            }
            bars(axis, rows, COLOURS, published=False)
            axis.legend(fontsize=7, frameon=False)
            _mixes(axis, f"{title}: barriers/s of {TITLES[kind]}")
        axis = axes[4 + column]
        theirs = BEST_FIT_COUNTS if policy == ex.BEST else {}
        counts = {
            f"slot {slot}": [
                point_at(
                    figures, f"chosen_{slot}", Where(ex.mix(n), policy), theirs[n][slot] if theirs else None, 100.0
                )
                for n in ex.MIXES
            ]
            for slot in ex.SLOTS
        }
        bars(axis, counts, dict(zip(counts, SHADES, strict=True)), published=bool(theirs))
        axis.legend(fontsize=7, frameon=False)
        _mixes(axis, f"{title}: slot chosen as partner [% of quanta]")
    return figure


def _sensitivity(figures: Figures) -> Any:
    """Draw figures 8 and 9: barriers a second of paired gang scheduling by mix, for sizes of the cluster and grains."""
    cells = {
        "nodes": {str(size): [ex.mix(n, size) for n in ex.MIXES] for size in ex.SIZES},
        "million null statements": {f"{grain:g}": [ex.mix(n, grain=grain) for n in ex.MIXES] for grain in ex.GRAINS},
    }
    there = [
        figures.seeds(Where(name, ex.PAIRED)) for rows in cells.values() for names in rows.values() for name in names
    ]
    if not any(there):
        return None
    figure, axes = grid(2, 2)
    for row, (what, names) in enumerate(cells.items()):
        for column, kind in enumerate(ex.KINDS):
            axis = axes[2 * row + column]
            lines = {
                f"{label} {what}": [point_at(figures, ex.rate(kind), Where(name, ex.PAIRED)) for name in line]
                for label, line in names.items()
            }
            bars(axis, lines, dict(zip(lines, SHADES, strict=True)), published=False)
            axis.legend(fontsize=7, frameon=False)
            _mixes(axis, f"barriers/s of {TITLES[kind]}, {ex.PAIRED}")
    return figure


def _mixes(axis: Axes, title: str) -> None:
    axis.set_xlim(-0.6, len(ex.MIXES) - 0.4)
    axis.set_xticks(range(len(ex.MIXES)), [f"{io_jobs} I/O" for io_jobs in ex.MIXES])
    axis.set_title(title, fontsize=9)


# By the end of their file's name; each returns None where nothing has run.
PICTURES: Final[Mapping[str, Callable[[Figures], Any]]] = {
    "": loads,
    "-static": _static,
    "-sensitivity": _sensitivity,
    "-jobs": jobs_by_load,
    "-others": jobs_of_others,
    "-phases": phases,
    "-prediction": scatter,
}
