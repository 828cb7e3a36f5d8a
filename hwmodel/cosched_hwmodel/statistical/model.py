"""The contention model of the G-LOMARC-TS paper: slowdowns of jobs and of pairs of jobs, drawn from measured distributions.

Source: Zeng and Sodan, "Job Scheduling with Lookahead Group Matchmaking for Time/Space Sharing on Multi-core Parallel
Machines", sections 3 and 4.9, Table 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from cosched_hwmodel.contention import INT64, Load, ParameterError, from_parameters, parameters_of
from cosched_hwmodel.draws import uniform, uniforms
from cosched_hwmodel.statistical.ranges import PERCENT, draw_ppm, draw_ppms
from cosched_hwmodel.statistical.self_slowdown import SelfSlowdown, self_factor, spread
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Floats: TypeAlias = NDArray[np.float64]

_PURPOSE = "coscheduling"


class StatisticalParameterError(ParameterError):
    """A parameter of the statistical model with an invalid value."""


@dataclass(frozen=True, slots=True)
class StatisticalModel:
    """The slowdown of pairs of jobs on one node; raises StatisticalParameterError."""

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

    @property
    def name(self) -> str:
        """Return ``statistical``."""
        return "statistical"

    def parameters(self) -> tuple[tuple[str, int | tuple[int, ...]], ...]:
        """Return (name, value) of every field, in their order: the form in a belief."""
        return parameters_of(self)

    @classmethod
    def from_parameters(cls, parameters: Iterable[tuple[str, object]]) -> StatisticalModel:
        """Return the model of these parameters, with defaults for missing ones; shares may be a list as well.

        Raises UnknownNameError for an unknown parameter name, StatisticalParameterError for an invalid value.
        """
        plain = ((name, tuple(value) if isinstance(value, list) else value) for name, value in parameters)
        return from_parameters(cls, "statistical", plain)

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
