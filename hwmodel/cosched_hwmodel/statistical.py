"""The contention model of the G-LOMARC-TS paper: slowdowns of jobs and of pairs of jobs, drawn from measured distributions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from cosched_hwmodel.contention import INT64, Load, ParameterError, Parametric
from cosched_hwmodel.draws import choice, uniform, uniforms
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM, ThreadMask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Slowdowns drawn by ranges a tenth wide, uniform inside each: a column of the G-LOMARC-TS paper's Table 4.
#
# A column is its shares in whole percent, from the range that begins at ``lowest_ppm`` on; they add up to 100.

RANGE_PPM = 100_000
PERCENT = 100


def draw_ppm(draw: float, shares: Sequence[int], lowest_ppm: int) -> int:
    """Return the slowdown, in whole millionths, that ``draw`` in [0, 1) picks.

    The draw times 100 lies at some part of the way through the share of one range; the slowdown lies at the same part
    of the way through that range, rounded down. So one draw says both the range and the place in it.
    """
    index = choice(draw, shares)
    part = (draw * PERCENT - sum(shares[:index])) / shares[index]  # below 1: the difference is exact
    return lowest_ppm + index * RANGE_PPM + int(part * RANGE_PPM)


def draw_ppms(draws: NDArray[np.float64], shares: Sequence[int], lowest_ppm: int) -> NDArray[np.int64]:
    """Return `draw_ppm` of every draw: the same operations on the same doubles."""
    import numpy as np  # noqa: PLC0415  (a command's start-up must not pay for it)

    edges = np.array([0, *accumulate(shares)], dtype=np.float64)
    positions = draws * PERCENT
    index = np.searchsorted(edges[1:], positions, side="right")  # never a range without a share
    part = (positions - edges[index]) / np.array(shares, dtype=np.float64)[index]
    return lowest_ppm + index * RANGE_PPM + (part * RANGE_PPM).astype(np.int64)


# A job's own slowdown, by its processes that share nodes and CPUs.
#
# Source: Zeng and Sodan, "Job Scheduling with Lookahead Group Matchmaking for Time/Space Sharing on Multi-core Parallel
# Machines" (the G-LOMARC-TS paper), section 4.9.

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


# The contention model of the G-LOMARC-TS paper: slowdowns of jobs and of pairs of jobs, drawn from measured distributions.
#
# Source: Zeng and Sodan, "Job Scheduling with Lookahead Group Matchmaking for Time/Space Sharing on Multi-core Parallel
# Machines", sections 3 and 4.9, Table 4.

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Floats: TypeAlias = NDArray[np.float64]

_PURPOSE = "coscheduling"


class StatisticalParameterError(ParameterError):
    """A parameter of the statistical model with an invalid value."""


@dataclass(frozen=True, slots=True)
class StatisticalModel(Parametric):
    """The slowdown of pairs of jobs on one node; raises StatisticalParameterError."""

    name: ClassVar = "statistical"

    pair_seed: int = 1
    # Table 4, SL_cos: percent of the ordered pairs whose slowdown lies in [1.0, 1.1), [1.1, 1.2), ...
    shares: tuple[int, ...] = (68, 17, 7, 3, 2, 1, 1, 1)

    def __post_init__(self) -> None:
        if type(self.pair_seed) is not int or not INT64[0] <= self.pair_seed <= INT64[1]:  # a bool is no int here
            raise StatisticalParameterError("pair_seed", f"an integer {INT64[0]} to {INT64[1]}", self.pair_seed)
        shares = self.shares
        if (
            type(shares) is not tuple
            or any(type(share) is not int or share < 0 for share in shares)
            or sum(shares) != PERCENT
        ):
            raise StatisticalParameterError("shares", f"a tuple of whole percentages that add up to {PERCENT}", shares)

    @classmethod
    def from_parameters(cls, parameters: Iterable[tuple[str, object]]) -> StatisticalModel:
        """Return the model of these parameters, with defaults for missing ones; shares may be a list as well.

        Raises UnknownNameError for an unknown parameter name, StatisticalParameterError for an invalid value.
        """
        plain = ((name, tuple(value) if isinstance(value, list) else value) for name, value in parameters)
        return super(StatisticalModel, cls).from_parameters(plain)  # slots make another class: no plain `super()`

    def coscheduling(self, job: int, other: int) -> float:
        """Return the slowdown of ``job`` while ``other`` is on its nodes (SL_cos), at least 1 (section 4.9).

        A property of the ordered pair, drawn by the two ids: ``other`` is slowed by another number. A whole number of
        millionths, divided once.
        """
        return draw_ppm(uniform(self.pair_seed, _PURPOSE, job, other), self.shares, WHOLE_PPM) / WHOLE_PPM

    def coscheduling_each(self, jobs: Ints, others: Ints) -> Floats:
        """Return `coscheduling` of each of many jobs and the other at its place: the same numbers."""
        return draw_ppms(uniforms(self.pair_seed, _PURPOSE, jobs, others), self.shares, WHOLE_PPM) / WHOLE_PPM


class StatisticalContention:
    """The model as the contention of a node's jobs, given each job's own slowdown."""

    __slots__ = ("_model", "_selves")

    def __init__(self, model: StatisticalModel, selves: Mapping[int, SelfSlowdown]) -> None:
        """``selves`` is by job id and may grow; a job that it lacks is slowed by others alone."""
        self._model = model
        self._selves = selves

    @property
    def name(self) -> str:
        """Return ``statistical``."""
        return self._model.name

    def penalties(self, node: NodeShape, loads: Sequence[Load]) -> list[float]:
        """Return what each load loses to one process a node alone there: own slowdown times that by others, less 1.

        Of two jobs the slowdown by others is SL_cos; of more, 1 and the sum of what each of the others costs. Below 0
        where a job gains by having its processes together. Raises IndexError for threads that the node does not have.
        """
        result = []
        for load in loads:
            job = load.job_id
            # The differences are exact, and their exact sum is rounded once: the order of the loads cannot change it.
            costs = [self._model.coscheduling(job, other.job_id) - 1.0 for other in loads if other.job_id != job]
            own = self_factor(self._selves.get(job), *spread(node, load.thread_mask))
            result.append(own * (1.0 + math.fsum(costs)) - 1.0)
        return result
