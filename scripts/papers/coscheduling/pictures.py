"""The pictures of the coscheduling reproduction: figures 3 to 8 of the paper, and what full nodes do under other settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling import published as printed
from scripts.papers.coscheduling.claims import OF_CLASSES, SIX, cell_of, speed_up
from scripts.papers.figures import Figures, Where
from scripts.papers.pictures import Axes, Point, bars, grid, legend, point_at, point_of, say

from cosched_emulator.statistics.intervals import interval_of

COLOURS: Final = {
    ex.NLS: "#c44536",
    ex.PB: "#e0a458",
    ex.DCS: "#f2cc8f",
    ex.CC: "#81b29a",
    ex.SB: "#5fa8d3",
    ex.HYBRID: "#0b3954",
    ex.GANG: "#8d99ae",
    ex.BATCH: "#4a4e69",
}
WAIT_COLOUR: Final = "#d9dde3"
PUBLISHED_TITLE: Final = "total energy [MJ], 100 jobs"


def _stacked(axis: Axes, figures: Figures, cells: Mapping[str, Where], title: str) -> None:
    """Draw mean responses as bars: execution below, waiting above, and the interval of the response."""
    for place, (name, where) in enumerate(cells.items()):
        response, execution = (point_at(figures, key, where) for key in (ex.RESPONSE, ex.EXECUTION))
        if response is not None and execution is not None:
            axis.bar(place, execution.mean, 0.8, color=COLOURS[name.split()[0]])
            axis.bar(
                place,
                response.mean - execution.mean,
                0.8,
                bottom=execution.mean,
                color=WAIT_COLOUR,
                yerr=[[response.down], [response.up]] if response.up else None,
                error_kw={"linewidth": 0.8, "ecolor": "#444444"},
            )
    axis.set_xticks(range(len(cells)), [*cells], fontsize=7, rotation=60)
    say(axis, title=title)


def _responses(figures: Figures) -> Any:
    """Draw figure 3: mean response at both loads."""
    figure, axes = grid(1, 2)
    for axis, (work, gap) in zip(axes, ((ex.HIGH, 100), (ex.LIGHT, 250)), strict=True):
        names = [(name, at) for name in ex.DRIVEN for at in ex.PLACEMENTS[::-1]]
        cells = {f"{name} {at}": cell_of(work, name, ex.MIXED, at) for name, at in names}
        for name in (ex.GANG, ex.BATCH):
            cells |= {f"{name} {queue}": Where(work, ex.cell(name, queue)) for queue in (ex.SKIP, ex.STRICT)}
        _stacked(axis, figures, cells, f"mean response [s], gap {gap} s: execution (dark) and wait")
    return figure


def _few_jobs(figures: Figures) -> Any:
    """Draw figures 4 and 5: mean response of long jobs and by class."""
    works = {ex.LONG: "BlockSolve95, sPPM, LU", **{ex.of_class(name): f"class {name}" for name in ex.CLASSES}}
    figure, axes = grid(2, 2)
    for axis, (work, text) in zip(axes, works.items(), strict=True):
        cells = {name: cell_of(work, name) for name in (ex.BATCH, ex.GANG, ex.CC, ex.SB, ex.HYBRID)}
        _stacked(axis, figures, cells, f"mean response [s], {text}")
    return figure


def _copies(figures: Figures) -> Any:
    """Draw figure 6: three copies of a program over three times the time alone."""
    rows = {
        name: [point_at(figures, ex.STRETCH, cell_of(ex.copies(program), name)) for program in ex.PROGRAMS]
        for name in SIX
    }
    figure, (axis,) = grid(1, 1)
    bars(axis, rows, COLOURS, published=False)
    axis.axhline(1, color="#444444", linewidth=0.6)
    _groups(axis, ex.PROGRAMS, "execution of three copies, class C, over three times that alone")
    legend(figure, axis)
    return figure


def _memory(figures: Figures) -> Any:
    """Draw figure 7: responses with and without knowledge of memory; speed-ups of execution and wait."""
    names = [*SIX, ex.BATCH]
    responses = {
        text: [point_at(figures, ex.RESPONSE, cell_of(work, name)) for name in names]
        for text, work in (("not aware", ex.UNAWARE), ("aware", ex.AWARE))
    }
    speeds = {
        text: [_speed(figures, key, name) for name in SIX]
        for key, text in ((ex.EXECUTION, "execution"), (ex.WAIT, "wait"))
    }
    figure, axes = grid(1, 2)
    shades = {"not aware": WAIT_COLOUR, "aware": "#5fa8d3", "execution": "#0b3954", "wait": WAIT_COLOUR}
    for axis, rows, groups, title in (
        (axes[0], responses, names, "mean response [s], jobs of table 2"),
        (axes[1], speeds, SIX, "not aware / aware"),
    ):
        bars(axis, rows, shades, published=False)
        _groups(axis, groups, title)
        axis.legend(fontsize=7, frameon=False)
    return figure


def _speed(figures: Figures, key: str, name: str) -> Point | None:
    return point_of(interval_of(speed_up(figures, key, name)))


def _energy(figures: Figures) -> Any:
    """Draw figure 8, total energy by class, and table 3's totals."""
    classes = {
        name: [point_at(figures, ex.ENERGY, cell_of(ex.of_class(kind), name), factor=ex.MJ) for kind in ex.CLASSES]
        for name in OF_CLASSES[::-1]
    }

    def total(name: str, at: str) -> Point | None:
        where = cell_of(ex.HIGH, name, ex.MIXED, at)
        return point_at(figures, ex.ENERGY, where, printed.row_3(name, at).total_mj, ex.MJ)

    totals = {
        at: [total(name, at) if at == ex.PACKED or name in ex.DRIVEN else None for name in ex.POLICIES]
        for at in ex.PLACEMENTS
    }
    figure, axes = grid(1, 2)
    bars(axes[0], classes, COLOURS, published=False)
    _groups(axes[0], [f"class {name}" for name in ex.CLASSES], "total energy [MJ], 20 jobs")
    bars(axes[1], totals, {"P": "#0b3954", "NP": "#bfd7ea"})
    _groups(axes[1], ex.POLICIES, PUBLISHED_TITLE)
    for axis in axes:
        axis.legend(fontsize=7, frameon=False)
    return figure


def _sensitivity(figures: Figures) -> Any:
    """Draw the work done on full nodes, with one setting changed at a time."""
    names = [None, *ex.OF_FULL]
    rows = {
        policy: [point_at(figures, ex.THROUGHPUT, Where(ex.FULL, ex.cell(policy, ex.SKIP), name)) for name in names]
        for policy in ex.DRIVEN
    }
    there = [index for index in range(len(names)) if any(row[index] for row in rows.values())]
    figure, (axis,) = grid(1, 1)
    bars(axis, {policy: [row[index] for index in there] for policy, row in rows.items()}, COLOURS, published=False)
    _groups(axis, [names[index] or "as it is" for index in there], "work done on full nodes, alone = 1")
    legend(figure, axis)
    return figure


def _groups(axis: Axes, names: Sequence[str], title: str) -> None:
    axis.set_xlim(-0.6, len(names) - 0.4)
    axis.set_xticks(range(len(names)), names, fontsize=7, rotation=60 if len(names) > len(ex.PROGRAMS) else 0)
    say(axis, title=title)


# By the end of their file's name.
PICTURES: Final[Mapping[str, Callable[[Figures], Any]]] = {
    "": _responses,
    "-few": _few_jobs,
    "-copies": _copies,
    "-memory": _memory,
    "-energy": _energy,
    "-sensitivity": _sensitivity,
}
