"""Pictures of runs, as PNG, SVG or PDF by the file's ending: comparisons, distributions and load; what all pictures share.

The colours are Okabe and Ito's, which are distinct for people with any kind of colour vision. The same data and the same
matplotlib give the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_emulator.errors import ConfigurationError, EmulatorError, os_errors
from cosched_emulator.results.figures import comparison
from cosched_emulator.results.record_columns import RecordColumns, StayColumns
from cosched_emulator.statistics.intervals import LEVEL, Interval, t_critical
from cosched_hwmodel.units import SECOND_US

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

# What the bars of a comparison show: values, texts, error bars, and which of them are bold.

COMPARED = (  # two a column; the first one is what comparisons in words begin with
    comparison.Figure("response, mean", ("*", "response_s", "mean"), "seconds", change=True),
    comparison.Figure("response, p95", ("*", "response_s", "p95"), "seconds", change=True),
    comparison.Figure("wait, mean", ("*", "wait_s", "mean"), "seconds", change=True),
    comparison.Figure("wait, p95", ("*", "wait_s", "p95"), "seconds", change=True),
    comparison.Figure("jobs killed at their limit", ("killed", "count"), "count"),
    comparison.Figure("energy", ("energy", "total_j"), "joules", change=True),
)


class Bars(NamedTuple):
    """A panel of bars, one for each run or policy; values in the unit."""

    label: str
    unit: str
    values: Sequence[float | None]
    texts: Sequence[str]
    bold: Sequence[bool]
    errors: list[list[float]] | None = None  # lengths of error bars below and above the values


def run_bars(
    figure: comparison.Figure, summaries: Sequence[Mapping[str, Any]], population: str, *, mark_best: bool
) -> Bars:
    """Return the bars of single runs; ``mark_best``: the lowest is bold."""
    values = [comparison.value_of(summary, figure, population) for summary in summaries]
    known = [value for value in values if value is not None]
    unit, texts = comparison.figure_texts(figure, values)
    best = texts[values.index(min(known))] if mark_best and len(set(texts)) > 1 and known else None
    return Bars(figure.label, unit, _scaled(figure, values), texts, [text == best for text in texts])


def seed_bars(row: comparison.SeedRow) -> Bars:
    """Return the bars of means over seeds, with error bars."""
    means = [None if found is None else found.mean for found in row.intervals]
    unit, texts = comparison.cells_of(row.figure, row.intervals)
    errors = comparison.error_lengths(row.intervals, comparison.unit_of(row.figure, means)[0])
    return Bars(row.figure.label, unit, _scaled(row.figure, means), texts, row.best, errors)


def _scaled(figure: comparison.Figure, values: Sequence[float | None]) -> list[float | None]:
    size, _ = comparison.unit_of(figure, values)
    return [None if value is None else value / size for value in values]


# The share of jobs at or below a value (ECDF): of one run, or the mean over seeds with a band.
#
# The band is pointwise: at each value, the mean of the runs' shares with its interval by Student's t, cut to 0 and 1.
# So it covers the true share at one value with the stated probability, and not the whole curve.

FloatArray: TypeAlias = npt.NDArray[np.float64]
MOST_STEPS = 4000  # of the mean of several runs: more cannot be seen


class Distribution(NamedTuple):
    """Steps of an ECDF: the share holds from its value to the next one. The first share is 0."""

    values: FloatArray
    share: FloatArray
    band: tuple[FloatArray, FloatArray] | None = None  # lowest and highest share


def distribution(sample: FloatArray) -> Distribution:
    """Return the ECDF of a sample that is not empty."""
    ordered = np.sort(sample)
    share = np.arange(1, ordered.size + 1) / ordered.size
    return Distribution(np.concatenate([ordered[:1], ordered]), np.concatenate([[0.0], share]))


def mean_distribution(samples: Sequence[FloatArray]) -> Distribution:
    """Return the mean ECDF of samples that are not empty, one a seed; there is no band where all are equal, or there is only one.

    Raises ValueError without samples.
    """
    ordered = [np.sort(sample) for sample in samples]
    values = np.unique(np.concatenate(ordered))
    if values.size > MOST_STEPS:
        values = values[np.linspace(0, values.size - 1, MOST_STEPS).round().astype(np.int64)]
    mean, band = mean_share(ordered, values)
    edges = np.concatenate([values[:1], values])
    return Distribution(edges, _from_0(mean), None if band is None else (_from_0(band[0]), _from_0(band[1])))


def mean_share(
    ordered: Sequence[FloatArray], values: FloatArray
) -> tuple[FloatArray, tuple[FloatArray, FloatArray] | None]:
    """Return the mean share at or below ``values`` of samples in order, and its band, None as in `mean_distribution`."""
    shares = np.array([np.searchsorted(sample, values, side="right") / sample.size for sample in ordered])
    mean: FloatArray = shares.mean(axis=0)
    count = len(ordered)
    if count == 1 or all(np.array_equal(ordered[0], other) for other in ordered[1:]):
        return mean, None
    half = t_critical(LEVEL, count - 1) * shares.std(axis=0, ddof=1) / np.sqrt(count)
    return mean, (np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1))


def _from_0(share: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], share])


# The pictures.

RUN_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6D1F", "#6B6B6B")
RUN_DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 2, 2)))
# One hue per number of jobs on the node (1, 2, 3 and more), shades of it for neighbouring jobs.
INK, QUIET, GRID = "#222222", "#666666", "#E4E4E4"
_LETTERS = 130  # of a line of words below a comparison
_MOST_TIMES = 3.0  # the longest bar: where an interval goes further, its text says how far
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "cosched",
    "path.simplify": True,
}
# Without metadata that would differ between two runs of the same program.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


class Series(NamedTuple):
    """A named sample of a per-job quantity."""

    name: str
    values: npt.NDArray[np.float64]


class SeedSeries(NamedTuple):
    """A named sample of a per-job quantity for each of several seeds."""

    name: str
    samples: tuple[npt.NDArray[np.float64], ...]


def plot_comparison(
    file: str | os.PathLike[str],
    names: Sequence[str],
    summaries: Sequence[Mapping[str, Any]],
    population: str = "finished",
    title: str = "",
    words: str = "",
    *,
    mark_best: bool = True,
) -> None:
    """Draw small multiples of bars, one panel per figure of `COMPARED`, one bar per run; ``mark_best``: the best value bold.

    ``words`` stand below: what is gained, and who pays.
    """
    shown = [run_bars(figure, summaries, population, mark_best=mark_best) for figure in COMPARED]
    _draw_comparison(file, names, shown, population, title, words=words)


def plot_seed_comparison(
    file: str | os.PathLike[str],
    names: Sequence[str],
    rows: Sequence[comparison.SeedRow],
    population: str,
    title: str = "",
    words: str = "",
) -> None:
    """Draw means over seeds with error bars: one panel per row, which are those of `COMPARED`; the best is bold."""
    note = "Error bars: 95 % intervals over seeds."
    _draw_comparison(file, names, [seed_bars(row) for row in rows], population, title, note, words)


def _draw_comparison(
    file: str | os.PathLike[str],
    names: Sequence[str],
    shown: Sequence[Bars],
    population: str,
    title: str,
    note: str = "",
    words: str = "",
) -> None:
    told = [bars for bars in shown if any(bars.values)] or shown[:1]  # the rest is 0 everywhere, or does not exist
    lines = wrap(words, _LETTERS)
    with drawing(file, 9.6, 1.35 + 2 * (0.55 + 0.27 * len(names)) + 0.16 * len(lines)) as picture:
        panels = picture.subplots(2, -(-len(told) // 2), sharey=True, squeeze=False).T.flat
        for panel, bars in zip(panels, told, strict=False):
            _draw_bars(panel, names, bars)
        for panel in [*panels][len(told) :]:
            panel.set_visible(False)
        which = {comparison.COMMON: "jobs that completed in all runs", "all": "all jobs that ran"}.get(
            population, "jobs that completed"
        )
        less = f"Less is better. Response and wait of {which}."
        caption(picture, title, f"{less} {note}".rstrip(), lines)


def plot_distribution(
    file: str | os.PathLike[str],
    series: Sequence[Series | SeedSeries],
    label: str,
    title: str = "",
    floor: float | None = None,
) -> None:
    """Draw the share of jobs at or below a value (ECDF), a line per series, on a logarithmic axis if ``floor`` is given.

    A series of several seeds is drawn as the mean of its runs with a band (`distribution`). Values below ``floor`` are drawn at
    ``floor``, because a logarithmic axis has no zero.
    """
    with drawing(file, 7.2, 4.4) as picture:
        axes = picture.subplots()
        drawn = {index: found for index, each in enumerate(series) if (found := _distribution(each, floor)) is not None}
        for index, found in drawn.items():
            style = line_style(index)
            if found.band is not None:
                axes.fill_between(found.values, *found.band, step="post", color=style["color"], alpha=0.22, linewidth=0)
            axes.step(found.values, found.share, where="post", linewidth=1.9, label=series[index].name, **style)
        if floor is not None:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axes.set_ylim(0, 1.02)
        axes.axhline(0.95, color=QUIET, linewidth=0.8, linestyle=(0, (1, 2)))
        axes.annotate("95 %", (1.0, 0.95), xycoords=("axes fraction", "data"), xytext=(4, 0), va="center",
                      textcoords="offset points", fontsize=9, color=QUIET)  # fmt: skip
        axes.set_xlabel(label)
        axes.set_ylabel("share of jobs at or below")
        axes.grid(color=GRID, linewidth=0.8)
        if drawn:
            legend_above(axes, 4, handlelength=2.8)
        banded = any(found.band is not None for found in drawn.values())
        caption(picture, title, "Bands: 95 % intervals over seeds, at each value." if banded else "")


def plot_changes(
    file: str | os.PathLike[str], changes: Sequence[tuple[str, Interval]], title: str = "", note: str = ""
) -> None:
    """Draw changes in percent, a row each, with their intervals."""
    with drawing(file, 9.6, 1.2 + 0.3 * len(changes)) as picture:
        axes = picture.subplots()
        found = [change for _, change in changes]
        places = np.arange(len(found))
        lengths = comparison.error_lengths(found)
        axes.errorbar([change.mean for change in found], places, xerr=lengths, fmt="o", color=INK, capsize=3)
        axes.axvline(0, color=QUIET, linewidth=0.8)
        axes.set_yticks(places, [name for name, _ in changes])
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlabel("change [%]")
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        caption(picture, title, "\n".join(wrap(note, _LETTERS)))


# ---------------------------------------------------------------- parts of pictures


def _distribution(series: Series | SeedSeries, floor: float | None) -> Distribution | None:
    """Return what is drawn of a series, None where it has no values."""
    samples = series.samples if isinstance(series, SeedSeries) else (series.values,)
    found = [each if floor is None else np.maximum(each, floor) for each in samples if each.size]
    if not found:
        return None
    return distribution(found[0]) if isinstance(series, Series) else mean_distribution(found)


def _draw_bars(axes: Axes, names: Sequence[str], bars: Bars) -> None:
    places = np.arange(len(names))
    lengths = [0.0 if value is None else value for value in bars.values]
    colours = [RUN_COLOURS[index % len(RUN_COLOURS)] for index in range(len(names))]
    axes.barh(places, lengths, height=0.68, color=colours)
    ends = lengths
    if bars.errors is not None:
        most = _MOST_TIMES * max(lengths)
        ends = [min(length + above, most) for length, above in zip(lengths, bars.errors[1], strict=True)]
        for place, length, end, below, above in zip(places, lengths, ends, *bars.errors, strict=True):
            if below or above:
                axes.errorbar(
                    length, place, xerr=[[below], [end - length]], fmt="none", ecolor=INK, elinewidth=1.1, capsize=2.5
                )
            if length + above > end:
                axes.plot([end], [place], marker=5, color=INK, markersize=5)  # it goes on to the right
    low, high = min([0.0, *lengths]), max([0.0, *ends]) or 1.0
    axes.set_xlim(low, high + (0.24 if bars.errors is None else 0.5) * (high - low))
    for place, end, text, bold in zip(places, ends, bars.texts, bars.bold, strict=True):
        axes.annotate(text, (max(end, 0.0), place), xytext=(4, 0), textcoords="offset points", va="center",
                      fontsize=9.5, fontweight="bold" if bold else "normal")  # fmt: skip
    axes.set_title(f"{bars.label} [{bars.unit}]" if bars.unit else bars.label, pad=4)
    axes.set_yticks(places, names)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(left=False, bottom=False, labelbottom=False)
    axes.spines["bottom"].set_visible(False)


def line_style(index: int) -> dict[str, Any]:
    """Return colour and dashes of the line of a run or policy, by its place."""
    return {"color": RUN_COLOURS[index % len(RUN_COLOURS)], "linestyle": RUN_DASHES[index % len(RUN_DASHES)]}


def legend_above(axes: Axes, columns: int, **more: Any) -> None:
    """Draw a legend above the axes."""
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, frameon=False, fontsize=9, borderaxespad=0.2, **more
    )


def caption(picture: Picture, title: str, note: str, words: Sequence[str] = ()) -> None:
    """Write a title above a picture, and lines of words and a note below it, where there are any."""
    if title:
        picture.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    if note:
        picture.supxlabel("\n".join([*words, note]), x=0.01, ha="left", fontsize=9, color=INK if words else QUIET)


def window_us(jobs: RecordColumns, stays: StayColumns, window_s: tuple[float | None, float | None]) -> tuple[int, int]:
    """Return the time to draw: what ``window_s`` says, in seconds, or all of the run."""
    begin_s, end_s = window_s
    first_us = int(jobs.submit_us.min()) if len(jobs) else 0
    last_us = max([int(ends.max()) for ends in (jobs.end_us, stays.end_us) if ends.size], default=first_us)
    begin_us = first_us if begin_s is None else int(begin_s * SECOND_US)
    end_us = last_us if end_s is None else int(end_s * SECOND_US)
    if end_us <= begin_us:
        raise EmulatorError(f"nothing to draw between {begin_us / SECOND_US:g} s and {end_us / SECOND_US:g} s")
    return begin_us, end_us


@contextmanager
def drawing(file: str | os.PathLike[str], width_in: float, height_in: float) -> Iterator[Picture]:
    """Yield an empty picture, and save it to ``file`` if the block raises nothing."""
    path = Path(file)
    if path.suffix not in _METADATA:
        raise ConfigurationError("out", f"a name that ends in {', '.join(_METADATA)}", str(file))
    try:
        import matplotlib  # noqa: PLC0415 - optional, and slow to load
        from matplotlib.figure import Figure as Picture  # noqa: PLC0415 - optional, and slow to load
    except ImportError as error:
        raise EmulatorError("pictures need matplotlib: pip install 'cosched[plot]'") from error
    with matplotlib.rc_context(_STYLE):
        picture = Picture(figsize=(width_in, height_in), layout="constrained")
        yield picture
        with os_errors(file, "a file that can be written"):
            picture.savefig(path, dpi=160, metadata=_METADATA[path.suffix])
