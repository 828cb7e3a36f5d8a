"""The picture of the RUA reproduction: FF, LC, LCT=1 and RUA relative to FF, published beside measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.papers.pictures import MARK, Axes, pyplot
from scripts.papers.rua.published import PUBLISHED
from scripts.papers.rua.report import Results, mean_of
from scripts.papers.rua.runs import MIXES, TRACES, Task

SHOWN: Final = ("FF", "LC", "LCT=1", "RUA")
COLOURS: Final = ("#0b4f6c", "#3e92cc", "#a9d6e5")  # of the mixes
# By figure: title, and the published table that is shown beside it.
FIGURES: Final = {
    "killed": ("killed jobs", "killed"),
    "penalised_mean": ("penalised run time, mean", "penalised_p95"),
    "bsld_p95": ("bounded slowdown, p95", "bsld_p95"),
}


def draw(results: Results, folder: Path) -> list[Path]:
    """Write the picture and return its file. Needs matplotlib."""
    plt = pyplot()
    figure, axes = plt.subplots(len(TRACES), len(FIGURES), figsize=(10, 5.2), layout="constrained", sharey="col")
    for row, trace in enumerate(TRACES):
        for column, key in enumerate(FIGURES):
            _panel(axes[row][column], results, key, trace)
        axes[row][0].set_ylabel("relative to FF")
    axes[0][0].legend(fontsize=7, frameon=False)
    file = folder / "rua.png"
    figure.savefig(file, dpi=110)
    plt.close(figure)
    return [file]


def _panel(axis: Axes, results: Results, key: str, trace: str) -> None:
    """Draw one figure of one log: a group of bars for each policy, a bar for each mix."""
    title, table = FIGURES[key]
    for offset, (mix, colour) in enumerate(zip(MIXES, COLOURS, strict=True)):
        means = [mean_of(results, key, Task(trace, mix, policy, 1)) for policy in SHOWN]
        base = means[SHOWN.index("FF")]
        places = [place + (offset - 1) * 0.27 for place in range(len(SHOWN))]
        axis.bar(places, [(mean or 0) / base if base else 0 for mean in means], 0.25, label=mix.upper(), color=colour)
        label = "published" if not offset else None
        _marks(axis, places, PUBLISHED.get(table, {}).get((trace, mix), ()), label)
    axis.axhline(1, color="#888888", linewidth=0.6)
    axis.set_xticks(range(len(SHOWN)), SHOWN)
    axis.set_title(f"{trace}: {title}", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)


def _marks(axis: Axes, places: Sequence[float], published: Sequence[float | None], label: str | None) -> None:
    """Mark published values relative to the first one, which is that of FF; nothing where that one is not known."""
    if published and published[0]:
        # RUA comes last and has no published value.
        marks = [(place, value / published[0]) for place, value in zip(places, published[:3], strict=False) if value]
        axis.plot(*zip(*marks, strict=True), "D", color=MARK, markersize=4, label=label)
