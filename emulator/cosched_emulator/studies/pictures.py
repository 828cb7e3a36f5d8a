"""Pictures of a study: a figure of all policies along an axis, with intervals over seeds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.figures.comparison import Figure, error_lengths, unit_of
from cosched_emulator.results.figures.plot import caption, drawing, line_style
from cosched_emulator.statistics.intervals import LEVEL, Interval
from cosched_emulator.studies.axes import NUMBERS
from cosched_emulator.studies.study_result import OF_SETTING, SeedRows, StudyResult
from cosched_emulator.studies.text import KNOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_PANELS: Final = 12
_COLUMNS: Final = 3
_MARKERS: Final = "os^Dv<>p"


def plot_study(
    file: str | os.PathLike[str],
    result: StudyResult,
    figure: str,
    axis: str | None = None,
    *,
    change: bool | None = None,
    title: str = "",
    level: float = LEVEL,
) -> None:
    """Draw a column of the table along ``axis``, one line for each policy, one panel for each setting of the other axes.

    ``change``: in percent of the baseline's, seed by seed; None: where several seeds pair the two, as the difference of two intervals
    of levels shows less than the interval of the difference. Raises ConfigurationError for too many panels, and for a change without
    a baseline; EmulatorError without matplotlib.
    """
    if change is None:
        changes = (_interval(result, series, figure, change=True, level=level) for series in result.series)
        change = any(found is not None and found.exists for found in changes)
    if change and result.baseline is None:
        raise ConfigurationError("--change", "a study with a baseline", "none")
    axis = axis or _axis(result.series)
    panels: dict[str, list[SeedRows]] = {}
    for series in result.series:
        if not change or series.policy != result.baseline:
            others = " ".join(
                f"{name}={series.places[name]}" for name in OF_SETTING if name != axis and series.places[name]
            )
            panels.setdefault(others, []).append(series)
    if not panels or len(panels) > MOST_PANELS:
        raise ConfigurationError("--x", f"an axis that leaves 1 to {MOST_PANELS} panels", f"{axis}, with {len(panels)}")
    columns = min(_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    shown = (_interval(result, series, figure, change=change, level=level) for series in result.series)
    if all(found is None for found in shown):
        expected = f"a figure above 0 that the baseline {result.baseline} has, too" if change else "a figure to draw"
        raise ConfigurationError("--change" if change else "--figure", expected, f"{figure}, with nothing to draw")
    with drawing(file, 4.8 if columns == 1 else 3.4 * columns, 1.2 + 2.9 * lines) as picture:
        grid = picture.subplots(lines, columns, squeeze=False, sharey=True)
        for panel, (heading, group) in zip(grid.flat, panels.items(), strict=False):
            _panel(panel, result, group, figure, axis, change=change, level=level)
            panel.set_title(_label(heading))
        for panel in grid.flat[len(panels) :]:
            panel.set_visible(False)
        grid.flat[0].legend(frameon=False, fontsize="small")
        what = f"Change against {result.baseline}, paired by seed" if change else "Means over seeds"
        caption(
            picture, _label(title or result.plan.title), f"{_label(what)}; bars are intervals of {100 * level:g} %."
        )


def _axis(all_series: Sequence[SeedRows]) -> str:
    """Return the first axis with several values, those of numbers before the others."""
    several = [name for name in OF_SETTING if len({series.places[name] for series in all_series}) > 1]
    return min(several, key=lambda name: name not in NUMBERS, default="workload")


def _panel(
    panel: Axes, result: StudyResult, group: Sequence[SeedRows], figure: str, axis: str, *, change: bool, level: float
) -> None:
    names = [*dict.fromkeys(series.places[axis] for series in group)]
    numbers = axis in NUMBERS and all(names)
    places = {name: float(name) if numbers else float(index) for index, name in enumerate(names)}
    known = KNOWN.get(figure, Figure(figure, (figure,)))
    found = [(series, _interval(result, series, figure, change=change, level=level)) for series in group]
    means = [interval.mean for _, interval in found if interval is not None]
    size, unit = (1.0, "%") if change else unit_of(known, means)
    policies = [*dict.fromkeys(series.policy for series in group)]
    step = (max(places.values()) - min(places.values()) or 1.0) / 60  # so that bars do not hide each other
    for number, policy in enumerate(policies):
        aside = step * (number - (len(policies) - 1) / 2)
        points = [(places[s.places[axis]] + aside, i) for s, i in found if s.policy == policy and i is not None]
        panel.errorbar(
            [x for x, _ in points],
            [i.mean / size for _, i in points],
            yerr=error_lengths([i for _, i in points], size),
            label=_label(policy),
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=4,
            capsize=3,
            linewidth=1.4,
            **line_style(number),
        )
    if numbers:
        panel.set_xticks([*places.values()], names)
    else:
        panel.set_xticks([*places.values()], [_label(name) or "all runs" for name in names])
    if change:
        panel.axhline(0, color="#888888", linewidth=0.8)
    panel.set_xlabel("offered load" if numbers else axis if any(names) else "")
    panel.set_ylabel(f"{known.label}{': change' if change else ''}{f' [{unit}]' if unit else ''}")


def _label(name: str) -> str:
    """Return a name as matplotlib draws it: no formulas between dollars, and no line without an entry in the legend."""
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


def _interval(result: StudyResult, series: SeedRows, figure: str, *, change: bool, level: float) -> Interval | None:
    if not change:
        return series.interval(figure, level)
    base = result.base(series)
    return None if base is None else series.change(figure, base, level)
