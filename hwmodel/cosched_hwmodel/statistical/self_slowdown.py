"""A job's own slowdown, by its processes that share nodes and CPUs.

Source: Zeng and Sodan, "Job Scheduling with Lookahead Group Matchmaking for Time/Space Sharing on Multi-core Parallel
Machines" (the G-LOMARC-TS paper), section 4.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from cosched_hwmodel.draws import uniform, uniforms
from cosched_hwmodel.statistical.ranges import draw_ppm, draw_ppms
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM, ThreadMask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A job's own slowdown: (node_ppm, core_ppm): how many times as long it takes, in millionths, with one process on each
# CPU of its nodes rather than one process a node (SL_sno), and, on top, with processes on all cores of a CPU rather
# than on one (SL_scr).
SelfSlowdown: TypeAlias = tuple[int, int]

# Table 4: percent of the jobs by range, from [0.9, 1.0) on for SL_sno and from [1.0, 1.1) on for SL_scr.
NODE_SHARES = (25, 45, 12, 5, 13)
LOWEST_NODE_PPM = 900_000
CORE_SHARES = (25, 17, 17, 13, 17, 8, 3)
LOWEST_CORE_PPM = 1_000_000


def draw_self_slowdown(seed: int, job: int) -> SelfSlowdown:
    """Return a job's own slowdown as Table 4 distributes it: two draws, by seed and job id, that do not depend on each other."""
    return (
        draw_ppm(uniform(seed, "self_node", job), NODE_SHARES, LOWEST_NODE_PPM),
        draw_ppm(uniform(seed, "self_core", job), CORE_SHARES, LOWEST_CORE_PPM),
    )


def draw_self_slowdowns(seed: int, jobs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both parts of the `draw_self_slowdown` of every job: the same numbers."""
    return (
        draw_ppms(uniforms(seed, "self_node", jobs), NODE_SHARES, LOWEST_NODE_PPM),
        draw_ppms(uniforms(seed, "self_core", jobs), CORE_SHARES, LOWEST_CORE_PPM),
    )


def spread(node: NodeShape, thread_mask: ThreadMask) -> tuple[int, int]:
    """Return on how many CPUs (sockets) of the node these hardware threads lie, and how many at most on one of them.

    Two threads of one core count as two. Raises IndexError for threads that the node does not have.
    """
    if thread_mask >> node.threads:
        raise IndexError(f"threads {thread_mask:#x} of a node with {node.threads}")
    one_socket = (1 << node.cores_per_socket) - 1
    counts = [0] * node.sockets
    for first in range(0, node.threads, node.cores_per_socket):  # each socket in turn, layer by layer
        counts[first % node.cores // node.cores_per_socket] += (thread_mask >> first & one_socket).bit_count()
    return sum(count > 0 for count in counts), max(counts)


def self_factor(own: SelfSlowdown | None, cpus: int, cores: int) -> float:
    """Return how many times as long a job takes than with one process a node.

    Its processes on a node lie on ``cpus`` CPUs, at most ``cores`` of them on one: SL_sno counts for more than one CPU,
    SL_scr for more than one core of a CPU, both as a product. Without ``own`` a job is not slowed by itself. The exact
    number of millionths is divided once.
    """
    if own is None:
        return 1.0
    node_ppm, core_ppm = own
    factor = (node_ppm if cpus > 1 else WHOLE_PPM) * (core_ppm if cores > 1 else WHOLE_PPM)
    return factor / (WHOLE_PPM * WHOLE_PPM)
