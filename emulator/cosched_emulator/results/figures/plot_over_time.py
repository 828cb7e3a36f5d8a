"""Pictures over time: who is on which node, which turns run, and lines of load, queue and power."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from cosched_emulator.errors import EmulatorError
from cosched_emulator.results.figures.comparison import time_unit
from cosched_emulator.results.figures.occupancy import Steps, time_average
from cosched_emulator.results.figures.plot import (
    GRID,
    RUN_COLOURS,
    RUN_DASHES,
    SHARING_COLOURS,
    SHARING_NAMES,
    caption,
    corners,
    drawing,
    label_boxes,
    node_rows,
    patch_legend,
    window_us,
)
from cosched_emulator.results.figures.run_energy import PowerTrace
from cosched_emulator.results.figures.sharing import (
    Box,
    SharedPixels,
    job_outlines,
    outlines_within,
    shared_boxes,
    shared_pixels,
    turn_boxes,
)
from cosched_emulator.results.quanta import QuantaColumns
from cosched_emulator.results.record_columns import RecordColumns, StayColumns
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import NodeClass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture


# Which jobs were on each hardware thread over time, as a picture.

MOST_OUTLINES = 20_000  # of jobs, for a picture of boxes; more are drawn as pixels
PIXELS = (1_400, 1_000)  # of such a picture: columns, and rows at most


def plot_gantt(
    file: str | os.PathLike[str],
    machine: Sequence[NodeClass],
    jobs: RecordColumns,
    stays: StayColumns,
    window_s: tuple[float | None, float | None] = (None, None),
    title: str = "",
) -> None:
    """Draw the jobs on each hardware thread over time: a row per node, coloured by the number of jobs on the node.

    ``window_s`` cuts the time axis (seconds, None: no cut). Raises `EmulatorError` for more boxes than a picture can show.
    """
    begin_us, end_us = window_us(jobs, stays, window_s)
    if outlines_within(machine, stays, begin_us, end_us) > MOST_OUTLINES:
        with node_rows(file, machine, (begin_us, end_us), 0, 0.2) as (picture, axes, _):
            deepest = _draw_pixels(axes, shared_pixels(machine, stays, begin_us, end_us, *PIXELS))
            _end_gantt(picture, axes, deepest, title)
        return
    boxes = shared_boxes(machine, stays, begin_us, end_us)
    with node_rows(file, machine, (begin_us, end_us), len(boxes), 0.2) as (picture, axes, scale):
        _draw_boxes(axes, jobs, boxes, scale)
        outlines = job_outlines(machine, stays, begin_us, end_us)
        if len(outlines) <= 5000:  # with more of them, only lines would be visible
            _draw_outlines(picture, axes, jobs, outlines, scale)
        _end_gantt(picture, axes, max((box.jobs_on_node for box in boxes), default=1), title)


def _end_gantt(picture: Picture, axes: Axes, deepest: int, title: str) -> None:
    patch_legend(axes, [colours[0] for colours in SHARING_COLOURS[:deepest]], SHARING_NAMES[:deepest])
    caption(picture, title, "")


def _draw_pixels(axes: Axes, pixels: SharedPixels) -> int:
    """Fill the axes with pixels; return the most jobs on a node."""
    colours = np.array(
        [[int(each[place : place + 2], 16) for place in (1, 3, 5)] for hue in SHARING_COLOURS for each in hue]
    )
    shades = len(SHARING_COLOURS[0])
    depth = np.clip(pixels.jobs_on_node, 1, len(SHARING_COLOURS))
    image = colours[shades * (depth - 1) + pixels.mix % shades].astype(np.uint8)
    image[(pixels.mix == 0) & ~pixels.narrow] = 255
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    axes.imshow(image, extent=(left, right, low, high), origin="lower", aspect="auto", interpolation="nearest")
    return int(pixels.jobs_on_node.max(initial=1))


def _draw_boxes(axes: Axes, jobs: RecordColumns, boxes: Sequence[Box], scale: float) -> None:
    from matplotlib.collections import PolyCollection  # noqa: PLC0415 - optional, and slow to load

    colours = [
        SHARING_COLOURS[min(box.jobs_on_node, len(SHARING_COLOURS)) - 1][int(jobs.id[box.job]) % 3] for box in boxes
    ]
    axes.add_collection(PolyCollection(corners(boxes, scale), facecolors=colours, edgecolors="none"), autolim=False)


def _draw_outlines(picture: Picture, axes: Axes, jobs: RecordColumns, boxes: Sequence[Box], scale: float) -> None:
    from matplotlib.collections import PolyCollection  # noqa: PLC0415 - optional, and slow to load

    edges = PolyCollection(
        corners(boxes, scale), facecolors="none", edgecolors="white", linewidths=0.7 if len(boxes) <= 1000 else 0.25
    )
    axes.add_collection(edges, autolim=False)
    box_of_job: dict[int, Box] = {}
    for box in boxes:
        if box.job not in box_of_job or box.area > box_of_job[box.job].area:
            box_of_job[box.job] = box
    label_boxes(picture, axes, [(int(jobs.id[job]), box) for job, box in box_of_job.items()], scale, 7.5)


# Pictures of time sharing: which jobs ran in each quantum.

MOST_LABELS = 600  # of jobs in boxes


def plot_turns(
    file: str | os.PathLike[str],
    machine: Sequence[NodeClass],
    jobs: RecordColumns,
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


# Pictures of one quantity over time, a line per run: the watts of machines, the jobs in the system.

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
