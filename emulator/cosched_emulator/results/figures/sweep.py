"""A sweep over time: the number of parts of a machine held by one job or by several, after each change of that number.

A part is a node, or one of the cores of a node. Each run of neighbouring nodes costs two operations on a slice of an array,
whatever its number of nodes. For short runs `occupancy` counts pairs of stay and node instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cosched_emulator.results.columns import IntArray

_EVENTS_AT_ONCE = 65_536


class Steps(NamedTuple):
    """A step function: its value is ``values[i]`` from ``times_us[i]`` on. Times ascend strictly."""

    times_us: IntArray
    values: IntArray


def distinct(values: IntArray) -> IntArray:
    """Return the distinct values, ascending. For this, numpy.unique loads numpy.ma, which takes longer than most sorts."""
    ordered = np.sort(values)
    differs = np.ones(ordered.size, dtype=np.bool_)
    differs[1:] = ordered[1:] != ordered[:-1]
    return ordered[differs]


def changes_only(times_us: IntArray, values: IntArray) -> Steps:
    """Return the steps without those that change nothing; the value before the first is 0."""
    changed = np.diff(values, prepend=0) != 0
    return Steps(times_us[changed], values[changed])


class Held(NamedTuple):
    """The number of held parts over time."""

    used: Steps  # by at least one job
    shared: Steps  # by at least two


class Block(NamedTuple):
    """The parts that rows hold: the same of each of their nodes, as ranges [first, last) of parts of a node."""

    start_us: IntArray
    end_us: IntArray
    first_node: IntArray
    node_count: IntArray
    kind: IntArray  # index of the row's ranges
    ranges: Sequence[Sequence[tuple[int, int]]]  # by kind


def sweep(block: Block, nodes: int, parts: int) -> Held:
    """Return the held parts of ``nodes`` nodes with ``parts`` parts each; rows of zero duration hold nothing."""
    times_us = distinct(np.concatenate([block.start_us, block.end_us]))
    used_at, shared_at = (np.zeros(times_us.size, dtype=np.int64) for _ in range(2))
    depth: npt.NDArray[np.int16] = np.zeros((nodes, parts), dtype=np.int16)
    count = np.count_nonzero
    used = shared = 0
    rows = len(block.start_us)
    last_node = block.first_node + block.node_count
    order = np.argsort(np.concatenate([block.start_us, block.end_us]), kind="stable")
    for first in range(0, order.size, _EVENTS_AT_ONCE):
        event = order[first : first + _EVENTS_AT_ONCE]
        starts = event < rows
        row = np.where(starts, event, event - rows)
        time_us = np.where(starts, block.start_us[row], block.end_us[row])
        columns = (np.searchsorted(times_us, time_us), starts, block.first_node[row], last_node[row], block.kind[row])
        for place, start, low, high, kind in zip(*(column.tolist() for column in columns), strict=True):
            for left, right in block.ranges[kind]:
                held = depth[low:high, left:right]
                if start:
                    held += 1
                    used += int(count(held == 1))
                    shared += int(count(held == 2))
                else:
                    used -= int(count(held == 1))
                    shared -= int(count(held == 2))
                    held -= 1
            used_at[place], shared_at[place] = used, shared
    return Held(changes_only(times_us, used_at), changes_only(times_us, shared_at))
