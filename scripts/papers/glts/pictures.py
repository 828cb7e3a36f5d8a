"""The pictures of the G-LOMARC-TS reproduction: the paper's figures 6, 8 and 9, delays, and what the load does."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable
from typing import Any, Final

from scripts.papers.figures import Figures, Where
from scripts.papers.glts import experiment as ex
from scripts.papers.glts import published as printed
from scripts.papers.glts.claims import COSCHEDULED, RESPONSES, where_of_block, where_of_slack
from scripts.papers.glts.measures import TENTHS
from scripts.papers.pictures import MARK, Point, bars, error_line, grid, legend, point_of, say
from scripts.papers.study import BASE

from cosched_emulator.statistics.intervals import Interval

COLOURS: Final = ("#8d99ae", "#bfd7ea", "#5fa8d3", "#0b3954", "#e0a458", "#7fb069", "#a288a6")
LINES: Final = ("#009e73", "#8c564b", "#666666")  # of classes: medium, long, all


def point(figures: Figures, name: str, workload: str, scheduler: str) -> Point | None:
    """Return RR of a class; published are those of SSP at W2, and ours of SSP at W1, changed by the printed percentages."""
    published = None
    if (workload, scheduler) == ("W2", ex.SSP):
        published = printed.SSP_W2[name]
    elif workload == "W1" and scheduler != ex.SSP:
        published = _from_percentages(figures, name, scheduler)
    return point_of(figures.mean(RESPONSES[name], Where(workload, scheduler)), published)


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
    figure, axes = grid(1, 2)
    for axis, work in zip(axes, ex.AARR, strict=True):
        rows = {scheduler: [point(figures, name, work, scheduler) for name in RESPONSES] for scheduler in names}
        bars(axis, rows, dict(zip(names, COLOURS, strict=True)))
        axis.set_xlim(-0.6, len(RESPONSES) - 0.4)
        axis.set_xticks(range(len(RESPONSES)), ["all, 600 s" if name == "all" else name for name in RESPONSES])
        say(axis, y=f"{work}: mean relative response (RR)")
    legend(figure, axes[0])
    return figure


def _changes(figures: Figures, key: str, pairs: Iterable[tuple[float, Where, Where]]) -> list[tuple[float, Interval]]:
    """Return the points of a line: changes of a column between two runs at some places; none if there is one alone."""
    found = [(place, figures.change(key, where, base)) for place, where, base in pairs]
    known = [(place, change) for place, change in found if change is not None]
    return known if len(known) > 1 else []


def _blocks(figures: Figures) -> Any:
    """Draw figure 8: relative responses by size of blocks, W2, against the same search with the usual size."""
    figure, axes = grid(1, 2)
    for axis, name in zip(axes, COSCHEDULED, strict=True):
        for rank, scheduler in enumerate(ex.IN_BLOCKS):
            usual = where_of_block(ex.BLOCK, scheduler)
            pairs = [(size + 0.4 * (rank - 1), where_of_block(size, scheduler), usual) for size in ex.BLOCKS]
            error_line(axis, _changes(figures, RESPONSES[name], pairs), scheduler, COLOURS[rank + 3])
        axis.set_xticks(ex.BLOCKS)
        say(axis, x="size of blocks", y=f"W2: RR of {name} jobs against blocks of {ex.BLOCK} [%]")
    legend(figure, axes[0])
    return figure


def _slack(figures: Figures) -> Any:
    """Draw figure 9: relative responses by slack factor, W1, against the usual factor."""
    figure, (axis,) = grid(1, 1)
    for place, (colour, (name, key)) in enumerate(zip(LINES, RESPONSES.items(), strict=True)):
        usual = where_of_slack(ex.SLACK)
        pairs = [(rank + 0.07 * (place - 1), where_of_slack(each), usual) for rank, each in enumerate(ex.SLACKS)]
        error_line(axis, _changes(figures, key, pairs), name, colour)
    axis.set_xticks(range(len(ex.SLACKS)), ex.SLACKS)
    say(axis, x="slack factor", y=f"W1: RR of GLTS against slack factor {ex.SLACK} [%]")
    legend(figure, axis)
    return figure


def _delay(figures: Figures) -> Any:
    """Draw how response / expected response is distributed over the jobs of all seeds."""
    figure, axes = grid(1, 2)
    for axis, work in zip(axes, ex.AARR, strict=True):
        for colour, name in zip(LINES, COSCHEDULED, strict=False):
            line = share_within(figures, Where(work, ex.GLTS), name)
            if line:  # the last bin has no upper end
                axis.plot([tenth / 10 for tenth in range(TENTHS)], [0.0, *line[:-1]], color=colour, label=name)
        if work == "W1":
            places = [printed.DELAY["p75"], printed.DELAY["p95"]]
            axis.plot(places, [0.75, 0.95], "D", color=MARK, markersize=4, label="published")
        axis.set_xlim(0, 2.5)
        say(axis, x="response / expected", y=f"{work}, GLTS: share of jobs within it")
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
    figure, axes = grid(1, 2)
    variants = {gap: BASE if gap == ex.GAP else f"gap-{gap}" for gap in ex.GAPS}
    for axis, rival in zip(axes, (ex.SSP, "CST"), strict=True):
        for colour, (name, key) in zip(LINES, RESPONSES.items(), strict=False):
            pairs = [(1 / float(gap), Where("W1", ex.GLTS, at), Where("W1", rival, at)) for gap, at in variants.items()]
            error_line(axis, _changes(figures, key, pairs), name, colour)
        say(axis, x="arrivals, relative to W1", y=f"W1: RR of GLTS against {rival} [%]", level=0)
    legend(figure, axes[0])
    return figure


PICTURES: Final = {"": _responses, "-blocks": _blocks, "-slack": _slack, "-delay": _delay, "-load": _load}
