"""Which jobs were on each hardware thread over time, as a picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cosched_emulator.results.columns import JobColumns, StayColumns
from cosched_emulator.results.figures.plot import (
    SHARING_COLOURS,
    SHARING_NAMES,
    caption,
    corners,
    label_boxes,
    node_rows,
    patch_legend,
    window_us,
)
from cosched_emulator.results.figures.sharing import Box, job_outlines, shared_boxes
from cosched_plugin.protocol.messages import NodeClass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture


def plot_gantt(
    file: str | os.PathLike[str],
    machine: Sequence[NodeClass],
    jobs: JobColumns,
    stays: StayColumns,
    window_s: tuple[float | None, float | None] = (None, None),
    title: str = "",
) -> None:
    """Draw the jobs on each hardware thread over time: a row per node, coloured by the number of jobs on the node.

    ``window_s`` cuts the time axis (seconds, None: no cut). Raises `EmulatorError` for more boxes than a picture can show.
    """
    begin_us, end_us = window_us(jobs, stays, window_s)
    boxes = shared_boxes(machine, stays, begin_us, end_us)
    with node_rows(file, machine, (begin_us, end_us), len(boxes), 0.2) as (picture, axes, scale):
        _draw_boxes(axes, jobs, boxes, scale)
        outlines = job_outlines(machine, stays, begin_us, end_us)
        if len(outlines) <= 5000:  # with more of them, only lines would be visible
            _draw_outlines(picture, axes, jobs, outlines, scale)
        deepest = max((box.jobs_on_node for box in boxes), default=1)
        patch_legend(axes, [colours[0] for colours in SHARING_COLOURS[:deepest]], SHARING_NAMES[:deepest])
        caption(picture, title, "")


def _draw_boxes(axes: Axes, jobs: JobColumns, boxes: Sequence[Box], scale: float) -> None:
    from matplotlib.collections import PolyCollection  # noqa: PLC0415 - optional, and slow to load

    colours = [
        SHARING_COLOURS[min(box.jobs_on_node, len(SHARING_COLOURS)) - 1][int(jobs.id[box.job]) % 3] for box in boxes
    ]
    axes.add_collection(PolyCollection(corners(boxes, scale), facecolors=colours, edgecolors="none"), autolim=False)


def _draw_outlines(picture: Picture, axes: Axes, jobs: JobColumns, boxes: Sequence[Box], scale: float) -> None:
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
