"""The picture of the turns of a run: who could run on which node in each quantum."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from cosched_emulator.errors import EmulatorError
from cosched_emulator.results.figures.comparison import time_unit
from cosched_emulator.results.figures.plot import INK, QUIET, RUN_COLOURS, caption, drawing, legend_above, window_us
from cosched_emulator.results.record_columns import ROLES, QuantaColumns, RecordColumns, StayColumns
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import NodeClass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture


# A schedule of quanta as boxes of nodes and time: who could run where, several jobs of a node one above the other.


class TurnBox(NamedTuple):
    """A job that could run in a quantum, on neighbouring nodes; node n spans n to n + 1, divided among its jobs."""

    begin_us: int
    end_us: int
    low: float
    high: float
    job_id: int
    slot: int


def turn_boxes(
    quanta: QuantaColumns, jobs: RecordColumns, stays: StayColumns, begin_us: int, end_us: int
) -> list[TurnBox]:
    """Return the boxes of the quanta between ``begin_us`` and ``end_us``, in order of time.

    The job of the turn's first slot is the lowest on its node; a partner and a guest are above it.
    """
    rows = np.flatnonzero((quanta.end_us > begin_us) & (quanta.start_us < end_us))
    nodes_of = _StayNodes(jobs, stays)
    boxes: list[TurnBox] = []
    start = 0
    while start < rows.size:
        stop = start + 1
        while stop < rows.size and quanta.start_us[rows[stop]] == quanta.start_us[rows[start]]:
            stop += 1
        boxes += _boxes_of_quantum(quanta, rows[start:stop].tolist(), nodes_of, begin_us, end_us)
        start = stop
    return boxes


def _boxes_of_quantum(
    quanta: QuantaColumns, rows: list[int], nodes_of: _StayNodes, begin_us: int, end_us: int
) -> list[TurnBox]:
    rows.sort(key=lambda row: (ROLES.index(quanta.role[row]), quanta.slot[row], quanta.job_id[row]))
    on_node: dict[int, list[int]] = {}
    for row in rows:
        start_us = int(quanta.start_us[row])
        for node in nodes_of.at(int(quanta.job_id[row]), start_us, start_us + int(quanta.allowed_us[row])):
            on_node.setdefault(node, []).append(row)
    boxes: list[TurnBox] = []
    for node, there in sorted(on_node.items()):
        for layer, row in enumerate(there):
            first_us = max(int(quanta.start_us[row]), begin_us)
            last_us = min(int(quanta.start_us[row] + quanta.allowed_us[row]), end_us)
            low, high = node + layer / len(there), node + (layer + 1) / len(there)
            last = boxes[-1] if boxes else None
            box = TurnBox(first_us, last_us, low, high, int(quanta.job_id[row]), int(quanta.slot[row]))
            if last is not None and last.job_id == box.job_id and last.high == low and len(there) == 1:
                boxes[-1] = last._replace(high=high)
            elif first_us < last_us:
                boxes.append(box)
    return boxes


class _StayNodes:
    """The nodes of jobs, by time."""

    def __init__(self, jobs: RecordColumns, stays: StayColumns) -> None:
        self._stays: dict[int, list[tuple[int, int, int, int]]] = {}
        ids = jobs.id[stays.job]
        columns = (ids, stays.start_us, stays.end_us, stays.first_node, stays.node_count)
        for job_id, start_us, end_us, first, count in zip(*(column.tolist() for column in columns), strict=True):
            self._stays.setdefault(job_id, []).append((start_us, end_us, first, count))

    def at(self, job_id: int, begin_us: int, end_us: int) -> list[int]:
        """Return the nodes that a job held then."""
        return [
            node
            for start_us, until_us, first, count in self._stays.get(job_id, ())
            if start_us < end_us and until_us > begin_us
            for node in range(first, first + count)
        ]


# The picture.

MOST_BOXES = 300_000
MOST_LABELS = 600  # of jobs in boxes
_FONT_PT = 6.5


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
    begin_us, end_us = window_us(jobs, stays, window_s)
    boxes = turn_boxes(quanta, jobs, stays, begin_us, end_us)
    if len(boxes) > MOST_BOXES:
        text = f"{len(boxes)} boxes are too many for one picture (at most {MOST_BOXES}): choose a shorter time"
        raise EmulatorError(text)
    nodes = sum(node_class.nodes for node_class in machine)
    size, unit = time_unit((end_us - begin_us) / SECOND_US)
    scale = size * SECOND_US
    with drawing(file, 9.6, 1.6 + min(5.4, max(1.6, 0.28 * nodes))) as picture:
        axes = picture.subplots()
        axes.set_xlim(begin_us / scale, end_us / scale)
        axes.set_ylim(0, nodes)
        axes.set_xlabel(f"time [{unit}]")
        axes.set_ylabel("node")
        _mark_nodes(axes, nodes)
        _draw_boxes(axes, boxes, scale)
        if len(boxes) <= MOST_LABELS:
            _label_boxes(picture, axes, boxes, scale)
        more = "Colours repeat every 8 slots. " if any(box.slot >= len(RUN_COLOURS) for box in boxes) else ""
        caption(picture, title, f"{more}Where a node has several layers, its jobs shared the CPU in that quantum.")


def _draw_boxes(axes: Axes, boxes: Sequence[TurnBox], scale: float) -> None:
    """Draw the boxes in the colours of their slots, and a legend of these; ``scale``: microseconds of a unit of time."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415 - optional, and slow to load
    from matplotlib.patches import Patch  # noqa: PLC0415 - likewise

    colours = [RUN_COLOURS[box.slot % len(RUN_COLOURS)] for box in boxes]
    edge = 0.6 if len(boxes) <= 3000 else 0.0
    patches = PolyCollection(_corners(boxes, scale), facecolors=colours, edgecolors="white", linewidths=edge, alpha=0.8)
    axes.add_collection(patches, autolim=False)
    slots = sorted({box.slot for box in boxes})[: len(RUN_COLOURS)]
    handles = [Patch(facecolor=RUN_COLOURS[slot % len(RUN_COLOURS)], label=f"slot {slot}") for slot in slots]
    legend_above(axes, 3, handles=handles)


def _label_boxes(picture: Picture, axes: Axes, boxes: Sequence[TurnBox], scale: float) -> None:
    """Write the number of its job into each box that has room for it; ``scale`` as in `_corners`."""
    picture.draw_without_rendering()  # computes the layout, and so the sizes in pixels
    to_pixels = axes.transData.transform
    points = 72 / picture.dpi
    for box in boxes:
        text = str(box.job_id)
        (left, bottom), (right, top) = to_pixels(((box.begin_us / scale, box.low), (box.end_us / scale, box.high)))
        if (right - left) * points > 5.2 * len(text) + 2 * (_FONT_PT - 5.5) and (top - bottom) * points > _FONT_PT:
            middle = ((box.begin_us + box.end_us) / 2 / scale, (box.low + box.high) / 2)
            axes.annotate(text, middle, ha="center", va="center_baseline", fontsize=_FONT_PT, color=INK)


def _corners(boxes: Sequence[TurnBox], scale: float) -> list[npt.NDArray[np.float64]]:
    """Return the corners of boxes; ``scale`` is a unit of the time axis in microseconds."""
    if not boxes:
        return []
    left, right, low, high = np.array([(box.begin_us, box.end_us, box.low, box.high) for box in boxes]).T
    left, right = left / scale, right / scale
    return list(np.stack([left, low, left, high, right, high, right, low], axis=1).reshape(-1, 4, 2))


def _mark_nodes(axes: Axes, nodes: int) -> None:
    """Draw lines between nodes, and number them."""
    if nodes <= 48:
        for node in range(1, nodes):
            axes.axhline(node, color=QUIET, linewidth=0.6)
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 10**9) if nodes / step <= 16)
    axes.set_yticks([node + 0.5 for node in range(0, nodes, step)], [str(node) for node in range(0, nodes, step)])
    axes.tick_params(axis="y", length=0)
