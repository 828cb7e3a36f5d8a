"""Pictures of one quantity over time, a line per run: the watts of machines, the jobs in the system."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cosched_emulator.errors import EmulatorError
from cosched_emulator.results.energy.bins import PowerTrace
from cosched_emulator.results.figures.comparison import time_unit
from cosched_emulator.results.figures.occupancy import time_average
from cosched_emulator.results.figures.plot import GRID, RUN_COLOURS, RUN_DASHES, caption, drawing
from cosched_emulator.results.figures.sweep import Steps
from cosched_hwmodel.units import SECOND_US

POINTS = 1_200  # of a line


def plot_power(
    file: str | os.PathLike[str],
    names: Sequence[str],
    traces: Sequence[PowerTrace],
    window_s: tuple[float | None, float | None] = (None, None),
    title: str = "",
) -> None:
    """Draw the watts of the machine over time, a line per run.

    ``window_s`` cuts the time axis (seconds, None: no cut). Raises `EmulatorError` if nothing is in it.
    """
    begins_s = [float(trace.start_us[0]) / SECOND_US for trace in traces if trace.start_us.size]
    ends_s = [float(trace.end_us[-1]) / SECOND_US for trace in traces if trace.end_us.size]
    begin_s = min(begins_s, default=0.0) if window_s[0] is None else window_s[0]
    end_s = max(ends_s, default=0.0) if window_s[1] is None else window_s[1]
    if end_s <= begin_s:
        raise EmulatorError(f"nothing to draw between {begin_s:g} s and {end_s:g} s")
    texts = (title, "Mean watts in short intervals. The axis does not begin at 0.")
    with _run_lines(file, names, (begin_s, end_s), "power of the machine [kW]", texts) as (axes, size, styles):
        for trace, style in zip(traces, styles, strict=True):
            if trace.watts.size:
                edges_s = np.append(trace.start_us, trace.end_us[-1]) / SECOND_US
                axes.stairs(trace.watts / 1000, edges_s / size, baseline=None, **style)


def plot_jobs(
    file: str | os.PathLike[str],
    names: Sequence[str],
    lines: Sequence[Steps],
    window: tuple[int, int],
    title: str = "",
) -> None:
    """Draw the number of jobs in the system over time, a line per run; ``window`` is its begin and end in microseconds."""
    begin_us, end_us = window
    edges = np.unique(np.linspace(begin_us, end_us, POINTS + 1).astype(np.int64))
    window_s = (begin_us / SECOND_US, end_us / SECOND_US)
    texts = (title, "Jobs that are submitted and have not ended.")
    with _run_lines(file, names, window_s, "jobs in the system", texts) as (axes, size, styles):
        times = edges[1:] / (size * SECOND_US)
        for steps, style in zip(lines, styles, strict=True):
            axes.step(times, time_average(steps, edges), where="pre", **style)
        axes.set_ylim(bottom=0)


@contextmanager
def _run_lines(
    file: str | os.PathLike[str],
    names: Sequence[str],
    window_s: tuple[float, float],
    quantity: str,
    texts: tuple[str, str],
) -> Iterator[tuple[Any, float, Sequence[Mapping[str, Any]]]]:
    """Write a picture with a line per run.

    Yields the axes, the seconds of a unit of the time axis, and each line's style, to draw them; ``window_s`` is begin
    and end of the time axis in seconds, ``texts`` are title and caption.
    """
    size, unit = time_unit(window_s[1] - window_s[0])
    styles = [
        {
            "color": RUN_COLOURS[index % len(RUN_COLOURS)],
            "linestyle": RUN_DASHES[index % len(RUN_DASHES)],
            "linewidth": 1.4,
            "label": name,
        }
        for index, name in enumerate(names)
    ]
    with drawing(file, 9.6, 4.2) as picture:
        axes = picture.subplots()
        yield axes, size, styles
        axes.set_xlim(window_s[0] / size, window_s[1] / size)
        axes.set_xlabel(f"time [{unit}]")
        axes.set_ylabel(quantity)
        axes.grid(color=GRID, linewidth=0.8)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, frameon=False, fontsize=9, handlelength=2.8,
                    borderaxespad=0.2)  # fmt: skip
        caption(picture, *texts)
