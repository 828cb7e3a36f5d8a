"""The picture of the study on measured co-runs: makespans relative to EASY, and jobs that run slower than compact."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from scripts.papers.figures import Figures, Where
from scripts.papers.hardware import experiment as ex
from scripts.papers.hardware.claims import MAKESPAN
from scripts.papers.hardware.published import ARIS_256, ARIS_MIXED, TABLE_2
from scripts.papers.hardware.report import at
from scripts.papers.pictures import Point, bars, grid, legend, point_of, pyplot

COLOURS: Final = {ex.ELISE: "#5fa8d3", ex.CO_EXECUTION: "#0b3954"}
PUBLISHED: Final = {
    **{f"Marconi {mean}": value for mean, value in TABLE_2.items()},
    "ARIS 256": ARIS_256,
    ex.MIXED: ARIS_MIXED,
}


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Write the picture; return its file. Needs matplotlib."""
    groups = [name for name in (*ex.MARCONI, *ex.ARIS) if figures.seeds(Where(name, ex.EASY))]
    figure, axes = grid(2, 1)
    bars(axes[0], {name: [_makespan(figures, group, name) for group in groups] for name in COLOURS}, COLOURS)
    axes[0].axhline(1.0, color="#888888", linewidth=0.8)
    axes[0].set_title("makespan, relative to EASY", fontsize=9)
    bars(
        axes[1],
        {name: [_slower(figures, group, name) for group in groups] for name in COLOURS},
        COLOURS,
        published=False,
    )
    axes[1].set_title("jobs slower than compact by more than 5 % [%]", fontsize=9)
    for axis in axes:
        axis.set_xticks(range(len(groups)), [name.replace(" ", "\n", 1) for name in groups], fontsize=8)
    legend(figure, axes[0])
    file = folder / "hardware.png"
    figure.savefig(file, dpi=110)
    pyplot().close(figure)
    return [file]


def _makespan(figures: Figures, workload: str, policy: str) -> Point | None:
    found = figures.ratio(MAKESPAN, at(workload, policy), Where(workload, ex.EASY))
    if found is None:
        return None
    told = PUBLISHED.get(workload) if policy == ex.ELISE else None
    half = max(found.high - found.mean, found.mean - found.low) if found.exists else math.nan
    return Point(found.mean, half, None if told is None else 1 + told / 100)


def _slower(figures: Figures, workload: str, policy: str) -> Point | None:
    values = [100 * value for value in figures.values("slower_by_5", at(workload, policy)).values()]
    return point_of(values) if values else None
