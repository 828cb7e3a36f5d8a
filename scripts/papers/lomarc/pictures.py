"""The pictures of the LOMARC reproduction: the paper's figures 6 to 9, and one for the front page."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from scripts.papers.figures import Figures, Where
from scripts.papers.lomarc import experiment as ex
from scripts.papers.lomarc.published import AGAINST_PSS, EFFICIENCY, RBR, RESPONSE
from scripts.papers.pictures import POLICIES, Point, bars, legend, point_of, pyplot


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Write all pictures of which there are runs; return their files. Needs matplotlib."""
    pictures: Mapping[str, Sequence[Panel]] = {
        "lomarc": [
            _headline(figures, RESPONSE, "mean response, relative to PSS"),
            _headline(figures, RBR, "mean relative bounded response (RBR), relative to PSS"),
        ],
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
    files = [_panels(folder / f"{name}.png", panels) for name, panels in pictures.items()]
    return [file for file in files if file is not None]


class Panel(NamedTuple):
    """Groups of bars, one colour for each scheduler. A bar that is None has not run."""

    title: str
    groups: Sequence[str]
    bars: Mapping[str, Sequence[Point | None]]  # by scheduler, in the order of the groups
    line: float | None = None


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


def relative(figures: Figures, key: str, where: Where) -> Point | None:
    """Return a figure relative to PSS under the same jobs, with the larger half of its interval, which is not symmetric."""
    found = figures.ratio(key, where, Where(where.workload, "PSS"))
    if found is None:
        return None
    change = AGAINST_PSS.get(key, {}).get(where.workload, {}).get(where.policy)
    half = max(found.high - found.mean, found.mean - found.low) if found.exists else math.nan
    return Point(found.mean, half, None if change is None else 1 + change / 100)


def _headline(figures: Figures, key: str, title: str) -> Panel:
    shown = ("L-FM", "L-U1", "L-R")
    return _panel(title, shown, ex.M1, lambda w, s: relative(figures, key, Where(w, s)), 1.0)


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
    line: float | None = None,
) -> Panel:
    return Panel(title, groups, {name: [bar(group, name) for group in groups] for name in schedulers}, line)


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
        if panel.line is not None:
            axis.axhline(panel.line, color="#888888", linewidth=0.6)
        axis.set_xticks(range(len(panel.groups)), panel.groups)
        axis.set_ylabel(panel.title, fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    legend(figure, axes[0][0])
    figure.savefig(file, dpi=110)
    pyplot().close(figure)
    return file
