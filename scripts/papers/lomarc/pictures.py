"""The pictures of the LOMARC reproduction: the paper's figures 6 to 9, and one for the front page."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from scripts.papers.figures import Figures, Where
from scripts.papers.lomarc import experiment as ex
from scripts.papers.lomarc.published import AGAINST_PSS, EFFICIENCY, RBR, RESPONSE
from scripts.papers.pictures import POLICIES, Point, bars, grid, legend, point_at, say


def absolute(figures: Figures, key: str, where: Where, factor: float) -> Point | None:
    """Return a figure as it is; the published one is PSS's of ours, changed by the published percentage."""
    change = AGAINST_PSS.get(key, {}).get(where.workload, {}).get(where.policy)
    base = [*figures.values(key, Where(where.workload, "PSS")).values()]
    known = change is not None and base
    published = statistics.fmean(base) * factor * (1 + (change or 0.0) / 100) if known else None
    return point_at(figures, key, where, published, factor)


# The front page's names of PSS and L-R.
FRONT: Final = {"PSS": "each job has its nodes alone", "L-R": "two jobs may share a node"}


def _front(figures: Figures) -> Any:
    """Draw what sharing does to the mean response at three loads, without a name that a newcomer does not know."""
    rows = {
        text: [point_at(figures, RESPONSE, Where(work, name), None, 1 / 3600) for work in ex.M1]
        for name, text in FRONT.items()
    }
    loads = [figures.mean("offered_load", Where(work, "PSS")) for work in ex.M1]
    changes = [figures.change(RESPONSE, Where(work, "L-R"), Where(work, "PSS")) for work in ex.M1]
    figure, (axis,) = grid(1, 1, (8.5, 3.2))
    bars(axis, rows, {text: POLICIES[name] for name, text in FRONT.items()}, published=False)
    for group, (point, change) in enumerate(zip(rows[FRONT["L-R"]], changes, strict=True)):
        if point is not None and change is not None:
            top = point.mean + point.up
            axis.annotate(f"{change.mean:.0f} %", (group + 0.21, top), (0, 3), textcoords="offset points", ha="center")
    axis.set_xticks(range(len(loads)), [f"load {load.mean:.2f}" if load else "" for load in loads])
    say(axis, y="from submission to end, mean [hours]")
    legend(figure, axis)
    return figure


Panel = tuple[str, str, Sequence[str], float]  # title, column, workloads, and what a value is multiplied by


def _absolute(figures: Figures, panels: Sequence[Panel]) -> Any:
    columns = min(2, len(panels))
    rows = len(panels) // columns
    figure, axes = grid(rows, columns, (10.2 if columns > 1 else 8.5, 3.4 * rows))
    for axis, (title, key, works, factor) in zip(axes, panels, strict=True):
        cells = {name: [absolute(figures, key, Where(work, name), factor) for work in works] for name in ex.SCHEDULERS}
        bars(axis, cells, POLICIES)
        axis.set_xticks(range(len(works)), works)
        say(axis, y=title)
    legend(figure, axes[0])
    return figure


_MIXES: Final[Sequence[Panel]] = [
    (f"{mix}: {title}", key, (f"W1 {mix}",), factor)
    for mix in ("M2", "M3")
    for title, key, factor in (("mean response [hours]", RESPONSE, 1 / 3600), ("mean RBR", RBR, 1.0))
]
PICTURES: Final[Mapping[str, Callable[[Figures], Any]]] = {
    "": _front,
    "-response": partial(_absolute, panels=[("mean response [hours]", RESPONSE, ex.M1, 1 / 3600)]),
    "-rbr": partial(_absolute, panels=[("mean relative bounded response (RBR)", RBR, ex.M1, 1.0)]),
    "-efficiency": partial(
        _absolute,
        panels=[
            ("utilisation [%]", "node_utilisation", ex.M1, 100.0),
            ("utilisation efficiency [%]", EFFICIENCY, ex.M1, 100.0),
        ],
    ),
    "-mixes": partial(_absolute, panels=_MIXES),
}
