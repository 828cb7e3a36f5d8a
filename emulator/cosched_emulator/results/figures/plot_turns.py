"""Pictures of time sharing: which jobs ran in each quantum."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cosched_emulator.results.columns import JobColumns, StayColumns
from cosched_emulator.results.figures.plot import (
    RUN_COLOURS,
    caption,
    corners,
    label_boxes,
    node_rows,
    patch_legend,
    window_us,
)
from cosched_emulator.results.figures.turns import turn_boxes
from cosched_emulator.results.quanta import QuantaColumns
from cosched_plugin.protocol.messages import NodeClass

MOST_LABELS = 600  # of jobs in boxes


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
