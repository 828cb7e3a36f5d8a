"""Pictures of power: the watts of machines over time."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from cosched_emulator.errors import EmulatorError
from cosched_emulator.results.energy.bins import PowerTrace
from cosched_emulator.results.figures.comparison import time_unit
from cosched_emulator.results.figures.plot import GRID, RUN_COLOURS, RUN_DASHES, caption, drawing
from cosched_hwmodel.units import SECOND_US


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
    size, unit = time_unit(end_s - begin_s)
    with drawing(file, 9.6, 4.2) as picture:
        axes = picture.subplots()
        for index, (name, trace) in enumerate(zip(names, traces, strict=True)):
            if not trace.watts.size:
                continue
            edges_s = np.append(trace.start_us, trace.end_us[-1]) / SECOND_US
            axes.stairs(
                trace.watts / 1000,
                edges_s / size,
                baseline=None,
                color=RUN_COLOURS[index % len(RUN_COLOURS)],
                linestyle=RUN_DASHES[index % len(RUN_DASHES)],
                linewidth=1.4,
                label=name,
            )
        axes.set_xlim(begin_s / size, end_s / size)
        axes.set_xlabel(f"time [{unit}]")
        axes.set_ylabel("power of the machine [kW]")
        axes.grid(color=GRID, linewidth=0.8)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, frameon=False, fontsize=9, handlelength=2.8,
                    borderaxespad=0.2)  # fmt: skip
        caption(picture, title, "Mean watts in short intervals. The axis does not begin at 0.")
