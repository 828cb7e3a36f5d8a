"""The demand of processes on their node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

# Names of the fields of `Demand` without their unit, in order.
RESOURCES = ("memory_bandwidth", "network", "disk")


class Demand(NamedTuple):
    """Rates in whole MB/s, of one process or summed over several; a plain 3-tuple of ints serves as well.

    Also the capacity of a node, where 0 means unlimited.
    """

    memory_bandwidth_mbs: int = 0
    network_mbs: int = 0
    disk_mbs: int = 0


def demand_of(demand: tuple[int, int, int], processes: int) -> Demand:
    """Return the demand of ``processes`` equal processes."""
    return Demand(demand[0] * processes, demand[1] * processes, demand[2] * processes)


def total_demand(demands: Iterable[tuple[int, int, int]]) -> Demand:
    """Return the sum of the demands; integers, so their order does not matter."""
    memory_bandwidth = network = disk = 0
    for demand in demands:
        memory_bandwidth += demand[0]
        network += demand[1]
        disk += demand[2]
    return Demand(memory_bandwidth, network, disk)
