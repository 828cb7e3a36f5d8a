"""The picture of the study on measured co-runs: makespans relative to EASY, and jobs that run slower than compact."""

from __future__ import annotations

import math
from typing import Any, Final

from scripts.papers.figures import Figures, Where
from scripts.papers.hardware import experiment as ex
from scripts.papers.hardware.claims import MAKESPAN
from scripts.papers.hardware.published import ARIS_256, ARIS_MIXED, TABLE_2
from scripts.papers.hardware.report import at
from scripts.papers.pictures import Point, bars, grid, legend, point_at, say

COLOURS: Final = {ex.ELISE: "#5fa8d3", ex.CO_EXECUTION: "#0b3954"}
PUBLISHED: Final = {
    **{f"Marconi {mean}": value for mean, value in TABLE_2.items()},
    "ARIS 256": ARIS_256,
    ex.MIXED: ARIS_MIXED,
}


def _picture(figures: Figures) -> Any:
    groups = [name for name in (*ex.MARCONI, *ex.ARIS) if figures.seeds(Where(name, ex.EASY))]
    figure, axes = grid(2, 1)
    slower = {
        name: [point_at(figures, "slower_by_5", at(work, name), None, 100.0) for work in groups] for name in COLOURS
    }
    bars(axes[0], {name: [_makespan(figures, group, name) for group in groups] for name in COLOURS}, COLOURS)
    bars(axes[1], slower, COLOURS, published=False)
    axes[0].axhline(1.0, color="#888888", linewidth=0.8)
    say(axes[0], title="makespan, relative to EASY")
    say(axes[1], title="jobs slower than compact by more than 5 % [%]")
    for axis in axes:
        axis.set_xticks(range(len(groups)), [name.replace(" ", "\n", 1) for name in groups], fontsize=8)
    legend(figure, axes[0])
    return figure


def _makespan(figures: Figures, workload: str, policy: str) -> Point | None:
    told = PUBLISHED.get(workload) if policy == ex.ELISE else None
    found = figures.ratio(MAKESPAN, at(workload, policy), Where(workload, ex.EASY))
    if found is None:
        return None
    half = max(found.high - found.mean, found.mean - found.low) if found.exists else math.nan  # it is not symmetric
    return Point(found.mean, half, None if told is None else 1 + told / 100)


PICTURES: Final = {"": _picture}
