"""Pictures of time sharing: who ran in which quantum, and how many jobs there were."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from cosched_emulator.results.columns import JobColumns, StayColumns
from cosched_emulator.results.figures.comparison import time_unit
from cosched_emulator.results.figures.occupancy import time_average
from cosched_emulator.results.figures.plot import (
    GRID,
    RUN_COLOURS,
    RUN_DASHES,
    caption,
    corners,
    drawing,
    label_boxes,
    node_rows,
    patch_legend,
    window_us,
)
from cosched_emulator.results.figures.sweep import Steps
from cosched_emulator.results.figures.turns import turn_boxes
from cosched_emulator.results.quanta import QuantaColumns
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import NodeClass

MOST_LABELS = 600  # of jobs in boxes
POINTS = 1_200  # of a line


def plot_turns(
    file: str | os.PathLike[str],
    machine: Sequence[NodeClass],
    jobs: JobColumns,
    stays: StayColumns,
    quanta: QuantaColumns,
    window_s: tuple[float | None, float | None] = (None, None),
    title: str = "",
) -> None:
    """Draw which jobs could run on each node in each quantum: a row per node, in layers where jobs are paired.

    The colour is that of the job's slot. Raises `EmulatorError` for more boxes than a picture can show.
    """
    from matplotlib.collections import PolyCollection  # noqa: PLC0415 - optional, and slow to load

    begin_us, end_us = window_us(jobs, stays, window_s)
    boxes = turn_boxes(quanta, jobs, stays, begin_us, end_us)
    with node_rows(file, machine, (begin_us, end_us), len(boxes), 0.28) as (picture, axes, scale):
        colours = [RUN_COLOURS[box.slot % len(RUN_COLOURS)] for box in boxes]
        edge = 0.6 if len(boxes) <= 3000 else 0.0
        patches = PolyCollection(
            corners(boxes, scale), facecolors=colours, edgecolors="white", linewidths=edge, alpha=0.8
        )
        axes.add_collection(patches, autolim=False)
        if len(boxes) <= MOST_LABELS:
            label_boxes(picture, axes, [(box.job_id, box) for box in boxes], scale, 6.5)
        slots = sorted({box.slot for box in boxes})[: len(RUN_COLOURS)]
        patch_legend(axes, [RUN_COLOURS[slot % len(RUN_COLOURS)] for slot in slots], [f"slot {slot}" for slot in slots])
        more = "Colours repeat every 8 slots. " if any(box.slot >= len(RUN_COLOURS) for box in boxes) else ""
        caption(picture, title, f"{more}Where a node has several layers, its jobs shared the CPU in that quantum.")


def plot_jobs(
    file: str | os.PathLike[str],
    names: Sequence[str],
    lines: Sequence[Steps],
    window: tuple[int, int],
    title: str = "",
) -> None:
    """Draw the number of jobs in the system over time, a line per run; ``window`` is its begin and end in microseconds."""
    begin_us, end_us = window
    size, unit = time_unit((end_us - begin_us) / SECOND_US)
    edges = np.unique(np.linspace(begin_us, end_us, POINTS + 1).astype(np.int64))
    times = edges / (size * SECOND_US)
    with drawing(file, 9.6, 4.2) as picture:
        axes = picture.subplots()
        for index, (name, steps) in enumerate(zip(names, lines, strict=True)):
            axes.step(
                times[1:],
                time_average(steps, edges),
                where="pre",
                color=RUN_COLOURS[index % len(RUN_COLOURS)],
                linestyle=RUN_DASHES[index % len(RUN_DASHES)],
                linewidth=1.4,
                label=name,
            )
        axes.set_xlim(times[0], times[-1])
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"time [{unit}]")
        axes.set_ylabel("jobs in the system")
        axes.grid(color=GRID, linewidth=0.8)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, frameon=False, fontsize=9, handlelength=2.8,
                    borderaxespad=0.2)  # fmt: skip
        caption(picture, title, "Jobs that are submitted and have not ended.")
