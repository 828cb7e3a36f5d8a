"""What the pictures of the reproductions have in common: means with their intervals as bars, published ones beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from scripts.papers.figures import Figures, Where

from cosched_emulator.results.figures.comparison import error_lengths
from cosched_emulator.statistics.intervals import Interval

Axes: TypeAlias = Any  # matplotlib's, which the type check must do without

MARK: Final = "#d1495b"  # of what is published, and of nothing else
# Of policies, on all pages that show them; what is a form of another one has a shade of it.
POLICIES: Final = {
    "PSS": "#9aa3ad", "AC": "#7a5195", "AM": "#c9a227", "L-N": "#8c564b", "L-FM": "#56b4e9", "L-U1": "#009e73", "L-U2": "#a3c585",
    "L-R": "#0072b2", "EASY": "#cfd4da", "EASY, shortest first": "#5d6d7e", "L-U1, shortest first": "#74c7ab",
    "symbiosis": "#e69f00", "guests": "#0b3954",
}  # fmt: skip


class Point(NamedTuple):
    """A mean over seeds with its 95 % interval, and the published value."""

    mean: float
    down: float  # how far the interval goes below the mean; 0 for a single seed
    up: float
    published: float | None = None


def point_of(found: Interval | None, published: float | None = None, factor: float = 1.0) -> Point | None:
    """Return the point of a figure times ``factor``, as tables have it; None where it does not exist."""
    if found is None:
        return None
    ((down,), (up,)) = error_lengths([found], 1 / factor)
    return Point(factor * found.mean, down, up, published)


def point_at(
    figures: Figures, key: str, where: Where, published: float | None = None, factor: float = 1.0
) -> Point | None:
    """Return the mean of a figure over seeds, times ``factor``, with its interval; None where it does not exist."""
    return point_of(figures.mean(key, where), published, factor)


def draw_all(
    figures: Figures, folder: Path, paper: str, pictures: Mapping[str, Callable[[Figures], Any]]
) -> list[Path]:
    """Write all pictures that show a run, by the ends of their files' names; return the files. Needs matplotlib."""
    files = []
    for name, picture in pictures.items():
        figure = picture(figures)
        if shows_runs(figure):
            files.append(folder / f"{paper}{name}.png")
            figure.savefig(files[-1], dpi=110)
        pyplot().close(figure)
    return files


def shows_runs(figure: Any) -> bool:
    """Tell whether there is a bar, a line or a dot that is neither published nor a level across the whole picture."""
    return any(
        axis.patches
        or any(
            line.get_color() != MARK and len(line.get_xdata()) and line.get_transform() == axis.transData
            for line in axis.lines
        )
        for axis in figure.axes
    )


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``, which draws into files alone."""
    import matplotlib as mpl  # noqa: PLC0415 - tables alone should not need it

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415 - likewise

    return plt


def grid(
    rows: int, columns: int, size: tuple[float, float] | None = None, sharey: str = "none"
) -> tuple[Any, Sequence[Axes]]:
    """Return a figure and its axes, row by row."""
    size = size or (10.2, 3.6 * rows)
    figure, axes = pyplot().subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, sharey=sharey)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, [*axes.flat]


def say(axis: Axes, *, x: str = "", y: str = "", title: str = "", level: float | None = None) -> None:
    """Write what an axis shows, and draw a level across it."""
    for text, write, size in ((x, axis.set_xlabel, 9), (y, axis.set_ylabel, 8), (title, axis.set_title, 9)):
        if text:
            write(text, fontsize=size)
    if level is not None:
        axis.axhline(level, color="#888888", linewidth=0.6)


def error_line(axis: Axes, points: Sequence[tuple[float, Interval]], label: str, colour: str, style: str = "-") -> None:
    """Draw means over x as a line, with their intervals as bars."""
    axis.errorbar(
        [x for x, _ in points],
        [item.mean for _, item in points],
        yerr=error_lengths([item for _, item in points]) if points else None,
        color=colour,
        label=label,
        marker="o",
        markersize=3,
        linewidth=1.2,
        linestyle=style,
        elinewidth=0.7,
        capsize=2,
    )


def bars(
    axis: Axes, rows: Mapping[str, Sequence[Point | None]], colours: Mapping[str, str], *, published: bool = True
) -> None:
    """Draw groups of bars: a row for each name, with a bar in each group; one that is None has not run.

    ``published``: some of the figures are, at least in another picture with the same legend.
    """
    width = 0.84 / len(rows)
    marks: list[tuple[float, float]] = []
    for rank, (name, row) in enumerate(rows.items()):
        there = [(group, point) for group, point in enumerate(row) if point is not None]
        places = [group + (rank - (len(rows) - 1) / 2) * width for group, _ in there]
        lengths = [(point.down, point.up) for _, point in there]
        axis.bar(
            places,
            [point.mean for _, point in there],
            width * 0.92,
            yerr=[*zip(*lengths, strict=True)] if any(map(any, lengths)) else None,
            error_kw={"linewidth": 0.8, "ecolor": "#444444"},
            label=name,
            color=colours[name],
        )
        marks += [
            (place, point.published)
            for place, (_, point) in zip(places, there, strict=True)
            if point.published is not None
        ]
    if published:  # drawn even where there is none, for the legend
        axis.plot([x for x, _ in marks], [y for _, y in marks], "D", color=MARK, markersize=4, label="published")
    axis.set_ylim(bottom=0)


def legend(figure: Any, axis: Axes, columns: int = 0) -> None:
    """Put the legend of ``axis`` below the whole figure, in so many columns; 0: in one row."""
    handles, labels = axis.get_legend_handles_labels()
    where = {"loc": "outside lower center", "ncols": columns or max(1, len(labels))}
    figure.legend(handles, labels, fontsize=8, frameon=False, **where)
