"""The pictures of the RUA reproduction: policies relative to FF, RUA against LC by reading, and the thresholds' trade-off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from scripts.papers.figures import Figures, Where
from scripts.papers.pictures import MARK, Axes, grid, legend, say
from scripts.papers.rua.claims import THRESHOLDS
from scripts.papers.rua.experiment import HARD, LOGS, MIXES, WORKLOADS
from scripts.papers.rua.published import KILLED, PENALISED, SLOWDOWN_P95, published
from scripts.papers.rua.windows import WindowFigures

SHOWN: Final = ("FF", "LC", "LCT=1", "RUA")
COLOURS: Final = ("#0b4f6c", "#3e92cc", "#a9d6e5")  # of the mixes
FIGURES: Final = {KILLED: "killed jobs", PENALISED: "penalised run time, mean", SLOWDOWN_P95: "bounded slowdown, p95"}
# Variant of RUA and of LC; colour.
READINGS: Final = {
    "both by the factor found": (None, None, "#009e73"),
    "RUA by its threshold, LC by the factor": ("threshold", None, "#e69f00"),
    "both by the threshold (control)": ("threshold", "control", "#7a5195"),
    "only RUA, by the factor": (None, "none", "#9a9a9a"),
}


def _policies(found: Figures) -> Any:
    figure, axes = grid(len(LOGS), len(FIGURES), (10, 5.2), "col")
    for row, log in enumerate(LOGS):
        for column, key in enumerate(FIGURES):
            _panel(axes[row * len(FIGURES) + column], found, key, log)
    legend(figure, axes[0])
    return figure


def _panel(axis: Axes, found: Figures, key: str, log: str) -> None:
    """Draw one figure of one log: a group of bars for each policy, a bar for each mix."""
    for offset, (mix, colour) in enumerate(zip(MIXES, COLOURS, strict=True)):
        workload = f"{log} {mix}"
        intervals = [found.mean(key, Where(workload, policy)) for policy in SHOWN]
        means = [None if each is None else each.mean for each in intervals]
        base = means[SHOWN.index("FF")]
        places = [place + (offset - 1) * 0.27 for place in range(len(SHOWN))]
        axis.bar(places, [(mean or 0) / base if base else 0 for mean in means], 0.25, label=mix, color=colour)
        _marks(axis, places, [published(key, workload, name) for name in SHOWN], "published" if not offset else None)
    axis.set_xticks(range(len(SHOWN)), SHOWN)
    say(axis, y=f"{FIGURES[key]}, relative to FF", title=log, level=1)


def _marks(axis: Axes, places: Sequence[float], values: Sequence[float | None], label: str | None) -> None:
    """Mark published values relative to the first one, which is that of FF; nothing where that one is not known."""
    if values[0]:
        marks = [(place, value / values[0]) for place, value in zip(places, values, strict=True) if value]
        axis.plot(*zip(*marks, strict=True), "D", color=MARK, markersize=4, label=label)


def _readings(found: Figures) -> Any:
    """Draw RUA / LC under the readings, with intervals: kills and penalised time, a group of points for each workload."""
    figure, axes = grid(1, 2, (10, 3.6))
    for axis, key in zip(axes, (KILLED, PENALISED), strict=True):
        for offset, (text, (rua, lc, colour)) in enumerate(READINGS.items()):
            for place, workload in enumerate(WORKLOADS):
                each = found.ratio(key, Where(workload, "RUA", rua), Where(workload, "LC", lc))
                if each is not None:
                    at = place + (offset - 1.5) * 0.18
                    low, high = (each.low, each.high) if each.exists else (each.mean, each.mean)
                    axis.plot([at, at], [max(low, 0.02), high], color=colour, linewidth=1.4)
                    label = None if text in axis.get_legend_handles_labels()[1] else text
                    axis.plot(at, each.mean, "o", color=colour, markersize=5, label=label)
        axis.set_yscale("log")
        axis.set_xticks(range(len(WORKLOADS)), [name.replace(" ", "\n") for name in WORKLOADS], fontsize=8)
        say(axis, y=f"{FIGURES[key]}: RUA / LC", level=1)
    legend(figure, axes[0], 2)
    return figure


def _thresholds(found: Figures) -> Any:
    """Draw the paper's figures 4 to 7: slowdown against kills and penalised time, a line over the thresholds for each workload."""
    figure, axes = grid(1, 2, (10, 3.6))
    for axis, key in zip(axes, (KILLED, PENALISED), strict=True):
        for workload in HARD:
            both = [
                [found.ratio(column, Where(workload, name), Where(workload, "FF")) for column in (key, SLOWDOWN_P95)]
                for name in THRESHOLDS
            ]
            points = [(cost.mean, slow.mean) for cost, slow in both if cost is not None and slow is not None]
            if not points:
                continue
            log, mix = workload.split()
            colour, line = COLOURS[MIXES.index(mix)], "-" if log == next(iter(LOGS)) else "--"
            axis.plot(*zip(*points, strict=True), f"o{line}", color=colour, markersize=4, linewidth=1, label=workload)
            for name, point in zip(THRESHOLDS, points, strict=False):
                text = name.removeprefix("LCT=")
                axis.annotate(text, point, fontsize=7, xytext=(3, 3), textcoords="offset points")
        axis.set_xlabel(f"{FIGURES[key]} / FF's", fontsize=8)
        say(axis, y="bounded slowdown, p95 / FF's")
    legend(figure, axes[0])
    return figure


PICTURES: Final = {"": _policies, "-readings": _readings, "-thresholds": _thresholds}
OVER: Final = WindowFigures
