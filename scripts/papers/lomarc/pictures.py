"""The pictures of the LOMARC reproduction: the paper's figures 6 to 9, and one for the front page."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.papers.figures import Figures, Where
from scripts.papers.lomarc import experiment as ex
from scripts.papers.lomarc.published import AGAINST_PSS, EFFICIENCY, RBR, RESPONSE
from scripts.papers.pictures import POLICIES, Point, bars, legend, point_of, pyplot, whisker


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Write all pictures of which there are runs; return their files. Needs matplotlib."""
    pictures: Mapping[str, Sequence[Panel]] = {
        "lomarc-response": [_workloads(figures, RESPONSE, "mean response [hours]", 1 / 3600)],
        "lomarc-rbr": [_workloads(figures, RBR, "mean relative bounded response (RBR)", 1.0)],
        "lomarc-efficiency": [
            _workloads(figures, "node_utilisation", "utilisation [%]", 100.0),
            _workloads(figures, EFFICIENCY, "utilisation efficiency [%]", 100.0),
        ],
        "lomarc-mixes": [
            _mix(figures, mix, *figure)
            for mix in ("M2", "M3")
            for figure in ((RESPONSE, "mean response [hours]", 1 / 3600), (RBR, "mean RBR", 1.0))
        ],
    }
    files = [_front(folder / "lomarc.png", figures)]
    files += [_panels(folder / f"{name}.png", panels) for name, panels in pictures.items()]
    return [file for file in files if file is not None]


class Panel(NamedTuple):
    """Groups of bars, one colour for each scheduler. A bar that is None has not run."""

    title: str
    groups: Sequence[str]
    bars: Mapping[str, Sequence[Point | None]]  # by scheduler, in the order of the groups


def absolute(figures: Figures, key: str, where: Where, factor: float) -> Point | None:
    """Return a figure as it is; the published one is PSS's of ours, changed by the published percentage."""
    values = list(figures.values(key, where).values())
    if not values:
        return None
    scaled = [value * factor for value in values]
    change = AGAINST_PSS.get(key, {}).get(where.workload, {}).get(where.policy)
    base = list(figures.values(key, Where(where.workload, "PSS")).values())
    if change is None or not base:
        return point_of(scaled)
    return point_of(scaled, statistics.fmean(base) * factor * (1 + change / 100))


# The front page's names of PSS and L-R.
FRONT: Final = {"PSS": "each job has its nodes alone", "L-R": "two jobs may share a node"}


def _front(file: Path, figures: Figures) -> Path | None:
    """Draw what sharing does to the mean response at three loads, without a name that a newcomer does not know."""
    rows = {
        text: [absolute(figures, RESPONSE, Where(workload, name), 1 / 3600) for workload in ex.M1]
        for name, text in FRONT.items()
    }
    if not all(point for row in rows.values() for point in row):
        return None
    loads = [figures.mean("offered_load", Where(workload, "PSS")) for workload in ex.M1]
    changes = [figures.change(RESPONSE, Where(workload, "L-R"), Where(workload, "PSS")) for workload in ex.M1]
    figure, axis = pyplot().subplots(figsize=(8.5, 3.2), layout="constrained")
    plain = {text: [point and point._replace(published=None) for point in row] for text, row in rows.items()}
    bars(axis, plain, {text: POLICIES[name] for name, text in FRONT.items()}, published=False)
    for group, (point, change) in enumerate(zip(plain[FRONT["L-R"]], changes, strict=True)):
        if point is not None and change is not None:
            top = point.mean + whisker(point)
            axis.annotate(f"{change.mean:.0f} %", (group + 0.21, top), (0, 3), textcoords="offset points", ha="center")
    axis.set_xticks(range(len(loads)), [f"load {load.mean:.2f}" for load in loads if load is not None])
    axis.set_ylabel("from submission to end, mean [hours]", fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    legend(figure, axis)
    figure.savefig(file, dpi=110)
    pyplot().close(figure)
    return file


def _workloads(figures: Figures, key: str, title: str, factor: float) -> Panel:
    return _panel(title, tuple(ex.SCHEDULERS), ex.M1, lambda w, s: absolute(figures, key, Where(w, s), factor))


def _mix(figures: Figures, mix: str, key: str, title: str, factor: float) -> Panel:
    return _panel(
        f"{mix}: {title}",
        tuple(ex.SCHEDULERS),
        (f"W1 {mix}",),
        lambda w, s: absolute(figures, key, Where(w, s), factor),
    )


def _panel(
    title: str,
    schedulers: Sequence[str],
    groups: Sequence[str],
    bar: Callable[[str, str], Point | None],
) -> Panel:
    return Panel(title, groups, {name: [bar(group, name) for group in groups] for name in schedulers})


def _panels(file: Path, panels: Sequence[Panel]) -> Path | None:
    """Draw panels, two in a row; None where no bar has run."""
    if not any(bar for panel in panels for bars in panel.bars.values() for bar in bars):
        return None
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = pyplot().subplots(
        rows, columns, figsize=(10.2 if columns > 1 else 8.5, 3.4 * rows), layout="constrained", squeeze=False
    )
    for axis, panel in zip(axes.flat, panels, strict=True):
        bars(axis, panel.bars, POLICIES)
        axis.set_xticks(range(len(panel.groups)), panel.groups)
        axis.set_ylabel(panel.title, fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    legend(figure, axes[0][0])
    figure.savefig(file, dpi=110)
    pyplot().close(figure)
    return file
