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


def penalised_us(
    model: BandwidthModel,
    capacity: tuple[int, int, int],
    residents: Sequence[Resident],
    own_demand: tuple[int, int, int],
    start_us: int,
    run_us: int,
) -> float:
    """Return the penalised time of processes that would run on one node in [start_us, start_us + run_us).

    The sum over the node's shared windows of length times penalty (equation 3), in microseconds. ``own_demand`` (MB/s,
    summed over the processes in question) adds to the demand of ``residents``, which must not contain those processes;
    residents that are never there (end not after start) count for nothing. For each resource the sum is taken in
    integers, as MB/s·us of excess, and divided once: no order of windows or residents can change the result.
    """
    if run_us <= 0:
        return 0.0
    end_us = start_us + run_us
    penalised = 0.0
    for index in model.indexes:
        if capacity[index] > 0:
            excess = _excess(capacity[index], index, residents, own_demand[index], start_us, end_us)
            if excess:
                penalised += excess / capacity[index]
    return penalised


def _excess(
    capacity: int, index: int, residents: Sequence[Resident], own_demand: int, start_us: int, end_us: int
) -> int:
    # First the cheap bound, which decides most calls: even all of them at once would fit.
    bound = own_demand
    for resident in residents:
        bound += resident[2][index]
    if bound <= capacity:
        return 0
    demand = own_demand
    changes = []
    for resident_start, resident_end, resident_demand in residents:
        if resident_start < end_us and resident_end > start_us:
            if resident_start <= start_us:
                demand += resident_demand[index]
            elif resident_start < resident_end:
                changes.append((resident_start, resident_demand[index]))
            else:
                continue
            if resident_end < end_us:
                changes.append((resident_end, -resident_demand[index]))
    changes.sort()
    excess = 0
    begin = start_us
    for at, change in changes:
        if demand > capacity:
            excess += (demand - capacity) * (at - begin)
        begin = at
        demand += change
    if demand > capacity:
        excess += (demand - capacity) * (end_us - begin)
    return excess


def penalty_factor(run_us: int, penalised_us_per_node: Iterable[float]) -> float:
    """Return (run + penalised)/run, where a job's penalised time is the largest among its nodes.

    The paper's section 4, footnote 3. A job that runs for no time, or on no node, has factor 1.
    """
    if run_us <= 0:
        return 1.0
    return (run_us + max(penalised_us_per_node, default=0.0)) / run_us
