"""The pictures of the RUA reproduction: policies relative to FF, RUA against LC by reading, and the thresholds' trade-off."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.figures import Figures, Where
from scripts.papers.pictures import MARK, Axes, legend, pyplot
from scripts.papers.rua.claims import THRESHOLDS
from scripts.papers.rua.experiment import HARD, LOGS, MIXES, WORKLOADS
from scripts.papers.rua.published import KILLED, PENALISED, PUBLISHED, SLOWDOWN_P95
from scripts.papers.rua.windows import WindowFigures

SHOWN: Final = ("FF", "LC", "LCT=1", "RUA")
COLOURS: Final = ("#0b4f6c", "#3e92cc", "#a9d6e5")  # of the mixes
FIGURES: Final = {
    KILLED: "killed jobs",
    PENALISED: "penalised run time, mean",
    SLOWDOWN_P95: "bounded slowdown, p95",
}
# Variant of RUA and of LC; colour.
READINGS: Final = {
    "both by the factor found": (None, None, "#009e73"),
    "RUA by its threshold, LC by the factor": ("threshold", None, "#e69f00"),
    "both by the threshold (control)": ("threshold", "control", "#7a5195"),
    "only RUA, by the factor": (None, "none", "#9a9a9a"),
}


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Write the pictures and return their files; that of the thresholds if some have run. Needs matplotlib."""
    plt = pyplot()
    found = WindowFigures(figures)
    files = [_policies(plt, found, folder), _readings(plt, found, folder)]
    if any(found.seeds(Where(workload, name)) for workload in HARD for name in THRESHOLDS):
        files.append(_thresholds(plt, found, folder))
    return files


def _policies(plt: Any, found: Figures, folder: Path) -> Path:
    figure, axes = plt.subplots(len(LOGS), len(FIGURES), figsize=(10, 5.2), layout="constrained", sharey="col")
    for row, log in enumerate(LOGS):
        for column, key in enumerate(FIGURES):
            _panel(axes[row][column], found, key, log)
    legend(figure, axes[0][0])
    return _saved(plt, figure, folder / "rua.png")


def _saved(plt: Any, figure: Any, file: Path) -> Path:
    figure.savefig(file, dpi=110)
    plt.close(figure)
    return file


def _panel(axis: Axes, found: Figures, key: str, log: str) -> None:
    """Draw one figure of one log: a group of bars for each policy, a bar for each mix."""
    for offset, (mix, colour) in enumerate(zip(MIXES, COLOURS, strict=True)):
        workload = f"{log} {mix}"
        intervals = [found.mean(key, Where(workload, policy)) for policy in SHOWN]
        means = [None if each is None else each.mean for each in intervals]
        base = means[SHOWN.index("FF")]
        places = [place + (offset - 1) * 0.27 for place in range(len(SHOWN))]
        axis.bar(places, [(mean or 0) / base if base else 0 for mean in means], 0.25, label=mix, color=colour)
        label = "published" if not offset else None
        _marks(axis, places, PUBLISHED[key].get(workload, ()), label)
    axis.axhline(1, color="#888888", linewidth=0.6)
    axis.set_xticks(range(len(SHOWN)), SHOWN)
    axis.set_title(log, fontsize=9)
    axis.set_ylabel(f"{FIGURES[key]}, relative to FF", fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _marks(axis: Axes, places: Sequence[float], published: Sequence[float | None], label: str | None) -> None:
    """Mark published values relative to the first one, which is that of FF; nothing where that one is not known."""
    if published and published[0]:
        # RUA comes last and has no published value.
        marks = [(place, value / published[0]) for place, value in zip(places, published[:3], strict=False) if value]
        axis.plot(*zip(*marks, strict=True), "D", color=MARK, markersize=4, label=label)


def _readings(plt: Any, found: Figures, folder: Path) -> Path:
    """Draw RUA / LC under the readings, with intervals: kills and penalised time, a group of points for each workload."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
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
        axis.axhline(1, color="#888888", linewidth=0.6)
        axis.set_yscale("log")
        axis.set_xticks(range(len(WORKLOADS)), [name.replace(" ", "\n") for name in WORKLOADS], fontsize=8)
        axis.set_ylabel(f"{FIGURES[key]}: RUA / LC", fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    if axes[0].get_legend_handles_labels()[1]:
        legend(figure, axes[0], 2)
    return _saved(plt, figure, folder / "rua-readings.png")


def _thresholds(plt: Any, found: Figures, folder: Path) -> Path:
    """Draw the paper's figures 4 to 7: slowdown against kills and penalised time, a line over the thresholds for each workload."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for axis, key in zip(axes, (KILLED, PENALISED), strict=True):
        for workload in HARD:
            points = [
                (cost.mean, slow.mean)
                for name in THRESHOLDS
                if (cost := found.ratio(key, Where(workload, name), Where(workload, "FF"))) is not None
                and (slow := found.ratio(SLOWDOWN_P95, Where(workload, name), Where(workload, "FF"))) is not None
            ]
            if points:
                log, mix = workload.split()
                colour, line = COLOURS[MIXES.index(mix)], "-" if log == next(iter(LOGS)) else "--"
                axis.plot(
                    *zip(*points, strict=True), f"o{line}", color=colour, markersize=4, linewidth=1, label=workload
                )
                for name, point in zip(THRESHOLDS, points, strict=False):
                    axis.annotate(
                        name.removeprefix("LCT="), point, fontsize=7, xytext=(3, 3), textcoords="offset points"
                    )
        axis.set_xlabel(f"{FIGURES[key]} / FF's", fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_ylabel("bounded slowdown, p95 / FF's", fontsize=8)
    legend(figure, axes[0])
    return _saved(plt, figure, folder / "rua-thresholds.png")
