"""The picture of the RUA reproduction: FF, LC, LCT=1 and RUA relative to FF, published beside measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.papers.figures import Figures, Where
from scripts.papers.pictures import MARK, Axes, pyplot
from scripts.papers.rua.experiment import LOGS, MIXES
from scripts.papers.rua.published import KILLED, PENALISED, PUBLISHED, SLOWDOWN_P95

SHOWN: Final = ("FF", "LC", "LCT=1", "RUA")
COLOURS: Final = ("#0b4f6c", "#3e92cc", "#a9d6e5")  # of the mixes
FIGURES: Final = {
    KILLED: "killed jobs",
    PENALISED: "penalised run time, mean",
    SLOWDOWN_P95: "bounded slowdown, p95",
}


def draw(found: Figures, folder: Path) -> list[Path]:
    """Write the picture and return its file. Needs matplotlib."""
    plt = pyplot()
    figure, axes = plt.subplots(len(LOGS), len(FIGURES), figsize=(10, 5.2), layout="constrained", sharey="col")
    for row, log in enumerate(LOGS):
        for column, key in enumerate(FIGURES):
            _panel(axes[row][column], found, key, log)
        axes[row][0].set_ylabel("relative to FF")
    axes[0][0].legend(fontsize=7, frameon=False)
    file = folder / "rua.png"
    figure.savefig(file, dpi=110)
    plt.close(figure)
    return [file]


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
    axis.set_title(f"{log}: {FIGURES[key]}", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)


def _marks(axis: Axes, places: Sequence[float], published: Sequence[float | None], label: str | None) -> None:
    """Mark published values relative to the first one, which is that of FF; nothing where that one is not known."""
    if published and published[0]:
        # RUA comes last and has no published value.
        marks = [(place, value / published[0]) for place, value in zip(places, published[:3], strict=False) if value]
        axis.plot(*zip(*marks, strict=True), "D", color=MARK, markersize=4, label=label)
