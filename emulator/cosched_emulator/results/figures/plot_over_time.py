"""Pictures over time: who is on which node, which turns run, and lines of load, queue and power."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cosched_emulator.errors import EmulatorError
from cosched_emulator.results.ended_jobs import BoolArray, IntArray
from cosched_emulator.results.figures.comparison import time_unit
from cosched_emulator.results.figures.occupancy import Steps, counters, time_average
from cosched_emulator.results.figures.plot import (
    GRID,
    INK,
    QUIET,
    RUN_COLOURS,
    caption,
    drawing,
    legend_above,
    line_style,
    window_us,
)
from cosched_emulator.results.figures.run_energy import PowerTrace
from cosched_emulator.results.record_columns import ROLES, QuantaColumns, RecordColumns, StayColumns
from cosched_emulator.results.thread_intervals import mask_intervals
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import NodeClass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

# A schedule as boxes of nodes and time, split where the jobs on a node change (the RUA paper's shared windows), or as pixels.


class Box(NamedTuple):
    """A job on neighbouring hardware threads; node n spans n to n + 1, divided evenly among its threads."""

    begin_us: int
    end_us: int
    low: float
    high: float
    job: int  # row in `RecordColumns`
    jobs_on_node: int

    @property
    def area(self) -> float:
        """Return the size of the box, in microseconds of a whole node."""
        return (self.end_us - self.begin_us) * (self.high - self.low)


def shared_boxes(machine: Sequence[NodeClass], stays: StayColumns, begin_us: int, end_us: int) -> list[Box]:
    """Return the boxes between ``begin_us`` and ``end_us``, by node, split where neighbours come and go."""
    threads_of = _threads_of_nodes(machine)
    events: list[list[tuple[int, int, int]]] = [[] for _ in threads_of]
    for row in _rows_within(stays, begin_us, end_us):
        first, count = int(stays.first_node[row]), int(stays.node_count[row])
        start, end = int(stays.start_us[row]), int(stays.end_us[row])
        for node in range(first, first + count):
            events[node] += [(start, 1, row), (end, -1, row)]
    boxes: list[Box] = []
    for node, changes in enumerate(events):
        present: dict[int, int] = {}  # stay -> time of the last change of its number of neighbours
        for time_us, group in groupby(sorted(changes), key=itemgetter(0)):
            before = len(present)
            arrived = []
            for _, change, row in group:
                if change > 0:
                    arrived.append(row)
                else:
                    _add(boxes, stays, row, node, threads_of[node], present.pop(row), time_us, before)
            if len(present) + len(arrived) != before:
                for row, since_us in present.items():
                    _add(boxes, stays, row, node, threads_of[node], since_us, time_us, before)
                    present[row] = time_us
            present.update(dict.fromkeys(arrived, time_us))
    cut = (box._replace(begin_us=max(box.begin_us, begin_us), end_us=min(box.end_us, end_us)) for box in boxes)
    return [box for box in cut if box.begin_us < box.end_us]


def job_outlines(machine: Sequence[NodeClass], stays: StayColumns, begin_us: int, end_us: int) -> list[Box]:
    """Return the outlines of the jobs between the two times: one box per contiguous piece on the node axis."""
    threads_of = _threads_of_nodes(machine)
    boxes = []
    for row in _rows_within(stays, begin_us, end_us):
        first, count = int(stays.first_node[row]), int(stays.node_count[row])
        pieces: list[list[float]] = []
        for node in range(first, first + count):
            for low, high in _bands(stays.mask[row], node, threads_of[node]):
                if pieces and pieces[-1][1] == low:
                    pieces[-1][1] = high
                else:
                    pieces.append([low, high])
        start, end = max(int(stays.start_us[row]), begin_us), min(int(stays.end_us[row]), end_us)
        boxes += [Box(start, end, low, high, int(stays.job[row]), 0) for low, high in pieces]
    return boxes


def outlines_within(machine: Sequence[NodeClass], stays: StayColumns, begin_us: int, end_us: int) -> int:
    """Return about how many boxes `job_outlines` has, without making them: pieces of neighbouring threads on whole nodes count once."""
    rows = np.array(_rows_within(stays, begin_us, end_us), dtype=np.int64)
    whole = {(1 << threads) - 1 for threads in _threads_of_nodes(machine)}
    pieces = np.array(
        [0 if mask in whole else len(mask_intervals(mask)) for mask in stays.mask.distinct], dtype=np.int64
    )
    its = pieces[stays.mask.places[rows]]
    return int(np.where(its == 0, 1, its * stays.node_count[rows]).sum())


def _add(
    boxes: list[Box], stays: StayColumns, row: int, node: int, threads: int, since_us: int, until_us: int, jobs: int
) -> None:
    if since_us < until_us:
        for low, high in _bands(stays.mask[row], node, threads):
            boxes.append(Box(since_us, until_us, low, high, int(stays.job[row]), jobs))


def _bands(mask: int, node: int, threads: int) -> list[tuple[float, float]]:
    return [(node + low / threads, node + (high + 1) / threads) for low, high in mask_intervals(mask)]


def _threads_of_nodes(machine: Sequence[NodeClass]) -> list[int]:
    return [node_class.threads for node_class in machine for _ in range(node_class.nodes)]


def _rows_within(stays: StayColumns, begin_us: int, end_us: int) -> list[int]:
    inside = (stays.start_us < end_us) & (stays.end_us > begin_us) & (stays.end_us > stays.start_us)
    return np.flatnonzero(inside).tolist()


# The same schedule as pixels, for more boxes than a picture can show: no row is split where neighbours come and go.


class SharedPixels(NamedTuple):
    """What is at the middle of each pixel: [row, column], row 0 with node 0, columns in order of time."""

    jobs_on_node: IntArray
    mix: IntArray  # sum of the rows + 1 of the jobs on these threads, which tells jobs apart; 0: nothing is there
    narrow: BoolArray  # a job is there that misses the middle of every pixel


def shared_pixels(
    machine: Sequence[NodeClass], stays: StayColumns, begin_us: int, end_us: int, width: int, most_rows: int
) -> SharedPixels:
    """Return the pixels of the time between ``begin_us`` and ``end_us``.

    A node has a row for each of its threads, or for some neighbouring ones; where there is no room for that, some nodes have none.
    """
    threads_of = np.array(_threads_of_nodes(machine), dtype=np.int64)
    bands = max(1, min(int(threads_of.max()), most_rows // threads_of.size))
    height = min(threads_of.size * bands, most_rows)
    chosen = np.array(_rows_within(stays, begin_us, end_us), dtype=np.int64)
    columns_per_us = width / (end_us - begin_us)
    place = [(times[chosen] - begin_us) * columns_per_us for times in (stays.start_us, stays.end_us)]
    left, right = (np.clip(np.ceil(each - 0.5), 0, width).astype(np.int64) for each in place)
    low, high = stays.first_node[chosen], stays.first_node[chosen] + stays.node_count[chosen]
    bottom, top = (np.ceil(node * height / threads_of.size - 0.5).astype(np.int64) for node in (low, high))
    narrow = (left >= right) | (bottom >= top)
    number = stays.job[chosen] + 1
    deep, mix, thin = (Rectangles(height, width) for _ in range(3))
    deep.add(bottom[~narrow], top[~narrow], left[~narrow], right[~narrow], np.ones_like(number[~narrow]))
    first = np.clip(place[0], 0, width - 1).astype(np.int64)
    lowest = np.minimum(bottom, height - 1)
    upper, last = np.maximum(lowest + 1, top), np.maximum(first + 1, right)
    thin.add(lowest[narrow], upper[narrow], first[narrow], last[narrow], np.ones_like(number[narrow]))
    wide = np.flatnonzero(~narrow)
    masks = stays.mask.places[chosen]
    for place_of_mask, mask in enumerate(stays.mask.distinct):
        its = wide[masks[wide] == place_of_mask]
        held = {threads: _bands_held(mask, threads, bands) for threads in np.unique(threads_of).tolist()}
        if all(each == [(0, bands)] for each in held.values()):  # all of each node
            mix.add(bottom[its], top[its], left[its], right[its], number[its])
            continue
        counts = high[its] - low[its]
        nodes = np.repeat(low[its], counts) + counters(counts)
        row = np.repeat(its, counts)
        for threads, parts in held.items():
            some = threads_of[nodes] == threads
            for since, until in parts:
                first_row = nodes[some] * bands
                mix.add(first_row + since, first_row + until, left[row[some]], right[row[some]], number[row[some]])
    return SharedPixels(deep.total(), mix.total(), thin.total() > 0)


def _bands_held(mask: int, threads: int, bands: int) -> list[tuple[int, int]]:
    """Return the parts of a node with a thread of ``mask``, of ``bands`` equal ones, as ranges [first, last)."""
    found = 0
    for low, high in mask_intervals(mask):
        first, last = low * bands // threads, -(-(high + 1) * bands // threads)
        found |= (1 << min(last, bands)) - (1 << min(first, bands))
    return [(low, high + 1) for low, high in mask_intervals(found)] if found else []


class Rectangles:
    """Sums of rectangles of numbers, each entered at its four corners."""

    def __init__(self, height: int, width: int) -> None:
        self._changes = np.zeros((height + 1, width + 1), dtype=np.int64)

    def add(self, bottom: IntArray, top: IntArray, left: IntArray, right: IntArray, number: IntArray) -> None:
        """Add numbers to rectangles from row ``bottom`` to ``top`` and from column ``left`` to ``right``, without these."""
        for rows, columns, sign in ((bottom, left, 1), (top, left, -1), (bottom, right, -1), (top, right, 1)):
            np.add.at(self._changes, (rows, columns), sign * number)

    def total(self) -> IntArray:
        """Return the sums: [row, column]."""
        found: IntArray = self._changes.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
        return found


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


# The pictures.

MOST_BOXES = 300_000


def label_boxes(
    picture: Picture, axes: Axes, labels: Iterable[tuple[int, Box | TurnBox]], scale: float, font_pt: float
) -> None:
    """Write the number of its job into each box that has room for it; ``scale`` as in `corners`."""
    picture.draw_without_rendering()  # computes the layout, and so the sizes in pixels
    to_pixels = axes.transData.transform
    points = 72 / picture.dpi
    for number, box in labels:
        text = str(number)
        (left, bottom), (right, top) = to_pixels(((box.begin_us / scale, box.low), (box.end_us / scale, box.high)))
        if (right - left) * points > 5.2 * len(text) + 2 * (font_pt - 5.5) and (top - bottom) * points > font_pt:
            middle = ((box.begin_us + box.end_us) / 2 / scale, (box.low + box.high) / 2)
            axes.annotate(text, middle, ha="center", va="center_baseline", fontsize=font_pt, color=INK)


def corners(boxes: Sequence[Box | TurnBox], scale: float) -> list[npt.NDArray[np.float64]]:
    """Return the corners of boxes; ``scale`` is a unit of the time axis in microseconds."""
    if not boxes:
        return []
    left, right, low, high = np.array([(box.begin_us, box.end_us, box.low, box.high) for box in boxes]).T
    left, right = left / scale, right / scale
    return list(np.stack([left, low, left, high, right, high, right, low], axis=1).reshape(-1, 4, 2))


@contextmanager
def node_rows(
    file: str | os.PathLike[str],
    machine: Sequence[NodeClass],
    window: tuple[int, int],
    boxes: int,
    row_in: float,
    below: Sequence[int] = (),
) -> Iterator[tuple[Picture, Axes, float]]:
    """Yield a picture with a row per node, its axes, and the unit of its time axis in microseconds; save it at the end.

    ``window`` is its begin and end in microseconds, ``row_in`` the height of a row in inches. The picture has further axes for each
    number of rows in ``below``. Raises `EmulatorError` for more ``boxes`` than a picture can show.
    """
    if boxes > MOST_BOXES:
        raise EmulatorError(f"{boxes} boxes are too many for one picture (at most {MOST_BOXES}): choose a shorter time")
    begin_us, end_us = window
    nodes = sum(node_class.nodes for node_class in machine)
    size, unit = time_unit((end_us - begin_us) / SECOND_US)
    scale = size * SECOND_US
    heights = [min(5.4, max(1.6, row_in * nodes)), *(min(1.8, max(0.6, row_in * rows)) for rows in below)]
    with drawing(file, 9.6, 1.6 + sum(heights) + 0.4 * len(below)) as picture:
        axes, *_ = picture.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        axes.set_xlim(begin_us / scale, end_us / scale)
        axes.set_ylim(0, nodes)
        picture.axes[-1].set_xlabel(f"time [{unit}]")
        axes.set_ylabel("node")
        _mark_nodes(axes, nodes)
        yield picture, axes, scale


def _mark_nodes(axes: Axes, nodes: int) -> None:
    """Draw lines between nodes, and number them."""
    if nodes <= 48:
        for node in range(1, nodes):
            axes.axhline(node, color=QUIET, linewidth=0.6)
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 10**9) if nodes / step <= 16)
    axes.set_yticks([node + 0.5 for node in range(0, nodes, step)], [str(node) for node in range(0, nodes, step)])
    axes.tick_params(axis="y", length=0)


def patch_legend(axes: Axes, colours: Sequence[str], names: Sequence[str], columns: int = 3) -> None:
    """Draw a legend of colours above the axes."""
    from matplotlib.patches import Patch  # noqa: PLC0415 - optional, and slow to load

    handles = [Patch(facecolor=colour, label=name) for colour, name in zip(colours, names, strict=True)]
    legend_above(axes, columns, handles=handles)


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
    file: str | os.PathLike[str], names: Sequence[str], lines: Sequence[Steps], window: tuple[int, int], title: str = ""
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
    styles = [{**line_style(index), "linewidth": 1.4, "label": name} for index, name in enumerate(names)]
    with drawing(file, 9.6, 4.2) as picture:
        axes = picture.subplots()
        yield axes, size, styles
        axes.set_xlim(window_s[0] / size, window_s[1] / size)
        axes.set_xlabel(f"time [{unit}]")
        axes.set_ylabel(quantity)
        axes.grid(color=GRID, linewidth=0.8)
        legend_above(axes, 4, handlelength=2.8)
        caption(picture, *texts)
