"""The Gantt chart of a run as a picture: who is on which node, how much of what is counted each node gives, and its partitions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from cosched_emulator.results.ended_jobs import IntArray
from cosched_emulator.results.figures.plot import INK, QUIET, SHARING_COLOURS, SHARING_NAMES, caption, window_us
from cosched_emulator.results.figures.plot_over_time import (
    Box,
    Rectangles,
    SharedPixels,
    corners,
    job_outlines,
    label_boxes,
    node_rows,
    outlines_within,
    patch_legend,
    shared_boxes,
    shared_pixels,
)
from cosched_emulator.results.record_columns import RecordColumns, StayColumns
from cosched_plugin.protocol.messages import NodeClass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

MOST_OUTLINES = 20_000  # of jobs, for a picture of boxes; more are drawn as pixels
PIXELS = (1_400, 1_000)  # of such a picture: columns, and rows at most


def plot_gantt(
    file: str | os.PathLike[str],
    machine: Sequence[NodeClass],
    jobs: RecordColumns,
    stays: StayColumns,
    window_s: tuple[float | None, float | None] = (None, None),
    title: str = "",
    partitions: Sequence[tuple[int, int, str]] = (),
    counted: Sequence[Counted] = (),
) -> None:
    """Draw the jobs on each hardware thread over time: a row per node, coloured by the number of jobs on the node.

    ``window_s`` cuts the time axis (seconds, None: no cut). ``partitions`` are runs of nodes, as `StoredRun` has them; each of
    ``counted`` has axes below. Raises `EmulatorError` for more boxes than a picture can show.
    """
    window = window_us(jobs, stays, window_s)
    as_pixels = outlines_within(machine, stays, *window) > MOST_OUTLINES
    boxes = [] if as_pixels else shared_boxes(machine, stays, *window)
    below = [each.nodes.size for each in counted]
    with node_rows(file, machine, window, len(boxes), 0.2, below) as (picture, axes, scale):
        if as_pixels:
            deepest = _draw_pixels(axes, shared_pixels(machine, stays, *window, *PIXELS))
        else:
            deepest = max((box.jobs_on_node for box in boxes), default=1)
            _draw_boxes(axes, jobs, boxes, scale)
        if partitions:
            _mark_partitions(axes, partitions)
        for panel, each in zip(picture.axes[1:], counted, strict=True):
            _draw_counted(panel, stays, each, window)
        patch_legend(axes, [colours[0] for colours in SHARING_COLOURS[:deepest]], SHARING_NAMES[:deepest])
        caption(picture, title, "")
        outlines = [] if as_pixels else job_outlines(machine, stays, *window)
        if len(outlines) <= 5000:  # with more of them, only lines would be visible
            _draw_outlines(picture, axes, jobs, outlines, scale)  # last: it needs the layout


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


# What each node gives of a countable resource, over time, in axes of its own; and the partitions beside the nodes.

_LEVELS: Final = ("#ffffff", "#c4e6dc", "#88cdb9", "#4db596", "#009e73")
_MOST_LABELS: Final = 24  # of partitions beside a picture


class Counted(NamedTuple):
    """A countable resource: how much each node has, and how much each job has on each of its nodes."""

    name: str
    of_node: IntArray
    of_job: IntArray  # by row of `RecordColumns`

    @property
    def nodes(self) -> IntArray:
        """Return the nodes that have it, as many as a picture can show."""
        nodes = np.flatnonzero(self.of_node)
        most = PIXELS[1]
        return nodes if nodes.size <= most else nodes[np.arange(most) * nodes.size // most]


def counted_pixels(stays: StayColumns, counted: Counted, begin_us: int, end_us: int, width: int) -> IntArray:
    """Return how much is taken at the middle of each pixel: [row of `Counted.nodes`, column in order of time]."""
    nodes, amount = counted.nodes, counted.of_job[stays.job]
    its = np.flatnonzero(amount)
    left, right = (
        np.clip(np.ceil((times[its] - begin_us) * (width / (end_us - begin_us)) - 0.5), 0, width).astype(np.int64)
        for times in (stays.start_us, stays.end_us)
    )
    last = stays.first_node[its] + stays.node_count[its]
    bottom, top = (np.searchsorted(nodes, node) for node in (stays.first_node[its], last))
    taken = Rectangles(nodes.size, width)
    taken.add(bottom, top, left, right, amount[its])
    return taken.total()


def _draw_counted(axes: Axes, stays: StayColumns, counted: Counted, window_us: tuple[int, int]) -> None:
    """Fill the axes with the share that is taken of each node's, in as many steps as a node has, at most four."""
    nodes = counted.nodes
    most = np.unique(counted.of_node[nodes])
    steps = min(int(most.max()), len(_LEVELS) - 1)
    taken = counted_pixels(stays, counted, *window_us, PIXELS[0])
    level = -(-steps * taken // counted.of_node[nodes][:, None])
    colours = [_LEVELS[step * (len(_LEVELS) - 1) // steps] for step in range(steps + 1)]
    table = np.array([[int(each[place : place + 2], 16) for place in (1, 3, 5)] for each in colours], dtype=np.uint8)
    axes.set_ylim(0, nodes.size)
    extent = (*axes.get_xlim(), 0.0, float(nodes.size))
    image = table[np.clip(level, 0, steps)]
    axes.imshow(image, extent=extent, origin="lower", aspect="auto", interpolation="nearest")
    axes.set_ylabel(counted.name)
    marked = range(0, nodes.size, -(-nodes.size // 8))
    axes.set_yticks([row + 0.5 for row in marked], [str(nodes[row]) for row in marked])
    axes.tick_params(axis="y", length=0)
    whole = most.size == 1 and int(most[0]) == steps
    names = [f"{step} {counted.name}" if whole else f"{100 * step // steps} %" for step in range(1, steps + 1)]
    patch_legend(axes, colours[1:], [f"{names[0]} of a node taken", *names[1:]], steps)


def _mark_partitions(axes: Axes, partitions: Sequence[tuple[int, int, str]]) -> None:
    """Write the names of partitions beside their nodes, with lines between them."""
    nodes = axes.get_ylim()[1]
    for first, _, _ in partitions[1:] if len(partitions) <= _MOST_LABELS else ():
        axes.axhline(first, color=INK, linewidth=0.8)
    shown = [(first + count / 2, name) for first, count, name in partitions if _MOST_LABELS * count >= nodes]
    beside = axes.secondary_yaxis("right")
    beside.set_yticks([middle for middle, _ in shown], [name for _, name in shown], color=QUIET)
    beside.tick_params(axis="y", length=0)
