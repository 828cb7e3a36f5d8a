"""The power that nodes draw by what their cores do, whose it is, and the energy of a run by one formula (coscheduling paper, 5.4).

A node draws idle watts at any time, with jobs on it or without; each core that is busy adds to them. A core is busy while a process
computes on one of its hardware threads, or polls for a message. `MODEL.md` says which time counts as busy.
"""

from __future__ import annotations

from typing import NamedTuple


class NodePower(NamedTuple):
    """The watts of one kind of node."""

    idle_w: float  # of the node, all its cores idle
    busy_w: float  # more for each busy core
    spin_w: float  # more for each core whose process only polls for a message


def threads_by_core(mask: int, cores: int) -> dict[int, int]:
    """Return the cores of a set of hardware threads, in order, each with how many of its threads are in it.

    Thread t is one of core t modulo ``cores``. The watts of a busy core belong to the jobs on it, by these numbers.
    """
    found: dict[int, int] = {}
    for thread in range(mask.bit_length()):
        if mask >> thread & 1:
            found[thread % cores] = found.get(thread % cores, 0) + 1
    return dict(sorted(found.items()))


def formula_j(power: NodePower, utilisation: float, nodes: int, time_s: float, cores: float = 1.0) -> float:
    """Return the paper's formula E = (B + X·U)·N·T in joules, with idle watts B and watts X of a node whose cores are all busy.

    ``utilisation`` U is the part of the time (0 to 1) in which cores are busy, in the mean over all of them; ``time_s`` T lasts from
    the first submission to the last end. Polling counts as busy, and costs the same.
    """
    return (power.idle_w + power.busy_w * cores * utilisation) * nodes * time_s
