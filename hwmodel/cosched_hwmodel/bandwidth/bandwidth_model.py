"""The contention model of the RUA paper: shared windows, and a penalty for each resource with a demand beyond its capacity.

Source: Guim, Rodero and Corbalan, "The Resource Usage Aware Backfilling", section 3.3, equations 1 to 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cosched_hwmodel.contention import Load
from cosched_hwmodel.errors import UnknownNameError
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.usage import RESOURCES, total_demand


class Resident(NamedTuple):
    """The processes of one job on one node, there in [start_us, end_us)."""

    start_us: int
    end_us: int
    demand: tuple[int, int, int]  # MB/s, summed over its processes on this node


@dataclass(frozen=True, slots=True)
class BandwidthModel:
    """Everything on a node is slowed by the part of its demand that the node cannot serve.

    ``resources`` are the names (of `RESOURCES`) that count; the paper's experiments count memory bandwidth alone, and
    its authors warn that the form does not fit networks. No resources at all: no contention. Raises UnknownNameError.
    """

    resources: tuple[str, ...] = ("memory_bandwidth",)
    indexes: tuple[int, ...] = field(init=False, repr=False, compare=False)  # positions of the resources in a Demand

    def __post_init__(self) -> None:
        for resource in self.resources:
            if resource not in RESOURCES:
                raise UnknownNameError("resource", resource, RESOURCES)
        # In the order of RESOURCES whatever the caller's order, and once each: one model has one fold order.
        indexes = tuple(index for index, resource in enumerate(RESOURCES) if resource in self.resources)
        object.__setattr__(self, "indexes", indexes)

    @property
    def name(self) -> str:
        """Return ``bandwidth``."""
        return "bandwidth"

    def penalty(self, demand_sum: tuple[int, int, int], capacity: tuple[int, int, int]) -> float:
        """Return the penalty of a node: the sum over resources of max(demand, capacity)/capacity - 1 (equation 2).

        Integer MB/s in; a capacity of 0 is unlimited. Evaluated as (demand - capacity)/capacity, which is exact up to
        one rounding for each resource: 8000 of 6000 gives 1/3, not 0.33333333333333326.
        """
        penalty = 0.0
        for index in self.indexes:
            excess = demand_sum[index] - capacity[index]
            if excess > 0 and capacity[index] > 0:
                penalty += excess / capacity[index]
        return penalty

    def penalties(self, node: NodeShape, loads: Sequence[Load]) -> list[float]:
        """Return the node's penalty once for each load: this model slows all sharers equally."""
        penalty = self.penalty(total_demand(load.demand for load in loads), node.capacity)
        return [penalty] * len(loads)


def penalty_factor(run_us: int, penalised_us_per_node: Iterable[float]) -> float:
    """Return (run + penalised)/run, where a job's penalised time is the largest among its nodes.

    The paper's section 4, footnote 3. A job that runs for no time, or on no node, has factor 1.
    """
    if run_us <= 0:
        return 1.0
    return (run_us + max(penalised_us_per_node, default=0.0)) / run_us
