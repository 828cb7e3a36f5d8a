"""The pictures of the G-LOMARC-TS reproduction: the paper's figures 6, 8 and 9, delays, and what the load does."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from typing import Any, Final

from scripts.papers.figures import Figures, Where
from scripts.papers.glts import experiment as ex
from scripts.papers.glts import published as printed
from scripts.papers.glts.claims import COSCHEDULED, RESPONSES, where_of_block, where_of_slack
from scripts.papers.glts.measures import TENTHS
from scripts.papers.pictures import MARK, Point, bars, draw_all, error_line, grid, legend, point_of

COLOURS: Final = ("#8d99ae", "#bfd7ea", "#5fa8d3", "#0b3954", "#e0a458", "#7fb069", "#a288a6")
LINES: Final = ("#009e73", "#8c564b", "#666666")  # of classes: medium, long, all


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Write all pictures of which there are runs; return their files. Needs matplotlib."""
    pictures = {"": _responses, "-blocks": _blocks, "-slack": _slack, "-delay": _delay, "-load": _load}
    return draw_all(figures, folder, "g-lomarc-ts", pictures)


def point(figures: Figures, name: str, workload: str, scheduler: str) -> Point | None:
    """Return RR of a class; published are those of SSP at W2, and ours of SSP at W1, changed by the printed percentages."""
    found = [*figures.values(RESPONSES[name], Where(workload, scheduler)).values()]
    if not found:
        return None
    published = None
    if (workload, scheduler) == ("W2", ex.SSP):
        published = printed.SSP_W2[name]
    elif workload == "W1" and scheduler != ex.SSP:
        published = _from_percentages(figures, name, scheduler)
    return point_of(found, published)


def _from_percentages(figures: Figures, name: str, scheduler: str) -> float | None:
    """Return the level that the published percentages give a scheduler, with SSP's as we have it."""
    base = [*figures.values(RESPONSES[name], Where("W1", ex.SSP)).values()]
    if not base or (scheduler != ex.GLTS and scheduler not in printed.RELATIVE_RESPONSE):
        return None
    level = statistics.fmean(base) * (1 + printed.RELATIVE_RESPONSE[ex.SSP][name] / 100)
    return level if scheduler == ex.GLTS else level / (1 + printed.RELATIVE_RESPONSE[scheduler][name] / 100)


def _responses(figures: Figures) -> Any:
    """Draw figure 6: relative responses by class and scheduler, and the same at W2."""
    names = (ex.SSP, *ex.SCHEDULERS)
    panels = {
        workload: {scheduler: [point(figures, name, workload, scheduler) for name in RESPONSES] for scheduler in names}
        for workload in ex.AARR
    }
    if not any(bar for rows in panels.values() for row in rows.values() for bar in row):
        return None
    figure, axes = grid(1, 2)
    for axis, (workload, rows) in zip(axes, panels.items(), strict=True):
        bars(axis, rows, dict(zip(names, COLOURS, strict=True)))
        axis.set_xlim(-0.6, len(RESPONSES) - 0.4)
        axis.set_xticks(range(len(RESPONSES)), ["all, 600 s" if name == "all" else name for name in RESPONSES])
        axis.set_ylabel(f"{workload}: mean relative response (RR)", fontsize=8)
    legend(figure, axes[0])
    return figure


def _blocks(figures: Figures) -> Any:
    """Draw figure 8: relative responses by size of blocks, W2, against the same search with the usual size."""
    found = {
        name: {
            scheduler: [
                (size, change)
                for size in ex.BLOCKS
                if (change := figures.change(RESPONSES[name], *_of_block(size, scheduler))) is not None
            ]
            for scheduler in ex.IN_BLOCKS
        }
        for name in COSCHEDULED
    }
    if not any(len(line) > 1 for lines in found.values() for line in lines.values()):
        return None
    figure, axes = grid(1, 2)
    for axis, (name, lines) in zip(axes, found.items(), strict=True):
        for rank, (scheduler, line) in enumerate(lines.items()):
            moved = [(size + 0.4 * (rank - 1), item) for size, item in line]
            error_line(axis, moved, scheduler, COLOURS[rank + 3])
        axis.set_xticks(ex.BLOCKS)
        axis.set_xlabel("size of blocks", fontsize=9)
        axis.set_ylabel(f"W2: RR of {name} jobs against blocks of {ex.BLOCK} [%]", fontsize=8)
    legend(figure, axes[0])
    return figure


def _of_block(size: int, scheduler: str) -> tuple[Where, Where]:
    return where_of_block(size, scheduler), where_of_block(ex.BLOCK, scheduler)


def _slack(figures: Figures) -> Any:
    """Draw figure 9: relative responses by slack factor, W1, against the usual factor."""
    found = {
        name: [
            (rank + 0.07 * (place - 1), change)
            for rank, factor in enumerate(ex.SLACKS)
            if (change := figures.change(key, where_of_slack(factor), where_of_slack(ex.SLACK))) is not None
        ]
        for place, (name, key) in enumerate(RESPONSES.items())
    }
    if not any(len(line) > 1 for line in found.values()):
        return None
    figure, (axis,) = grid(1, 1)
    for colour, (name, line) in zip(LINES, found.items(), strict=False):
        error_line(axis, line, name, colour)
    axis.set_xticks(range(len(ex.SLACKS)), ex.SLACKS)
    axis.set_xlabel("slack factor", fontsize=9)
    axis.set_ylabel(f"W1: RR of GLTS against slack factor {ex.SLACK} [%]", fontsize=8)
    legend(figure, axis)
    return figure


def _delay(figures: Figures) -> Any:
    """Draw how response / expected response is distributed over the jobs of all seeds."""
    panels = {
        workload: {name: share_within(figures, Where(workload, ex.GLTS), name) for name in COSCHEDULED}
        for workload in ex.AARR
    }
    if not any(line for lines in panels.values() for line in lines.values()):
        return None
    figure, axes = grid(1, 2)
    for axis, (workload, lines) in zip(axes, panels.items(), strict=True):
        for colour, (name, line) in zip(LINES, lines.items(), strict=False):
            if line:  # the last bin has no upper end
                axis.plot([tenth / 10 for tenth in range(TENTHS)], [0.0, *line[:-1]], color=colour, label=name)
        if workload == "W1":
            axis.plot(
                [printed.DELAY["p75"], printed.DELAY["p95"]],
                [0.75, 0.95],
                "D",
                color=MARK,
                markersize=4,
                label="published",
            )
        axis.set_xlim(0, 2.5)
        axis.set_xlabel("response / expected", fontsize=9)
        axis.set_ylabel(f"{workload}, GLTS: share of jobs within it", fontsize=8)
    legend(figure, axes[0])
    return figure


def share_within(figures: Figures, where: Where, name: str) -> list[float]:
    """Return the share of a class's jobs up to the end of each tenth, over all seeds; nothing where nothing was expected."""
    series = figures.series(where)
    found = [row[f"delay_{name}_tenths"] for row in (series.rows if series else ()) if row.get(f"delay_{name}_tenths")]
    counts = [*itertools.accumulate([sum(column) for column in zip(*found, strict=True)])]
    return [count / counts[-1] for count in counts]


def _load(figures: Figures) -> Any:
    """Draw how much lower GLTS's relative responses are than others', by load."""
    if not any(figures.seeds(Where("W1", ex.SSP, f"gap-{gap}")) for gap in ex.GAPS):
        return None
    figure, axes = grid(1, 2)
    for axis, rival in zip(axes, (ex.SSP, "CST"), strict=True):
        for colour, (name, key) in zip(LINES, RESPONSES.items(), strict=False):
            line = []
            for gap in ex.GAPS:
                variant = ex.BASE if gap == ex.GAP else f"gap-{gap}"
                change = figures.change(key, Where("W1", ex.GLTS, variant), Where("W1", rival, variant))
                if change is not None:
                    line.append((1 / float(gap), change))
            error_line(axis, line, name, colour)
        axis.axhline(0, color="#888888", linewidth=0.6)
        axis.set_xlabel("arrivals, relative to W1", fontsize=9)
        axis.set_ylabel(f"W1: RR of GLTS against {rival} [%]", fontsize=8)
    legend(figure, axes[0])
    return figure
