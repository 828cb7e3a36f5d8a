"""What jobs ask of their nodes: rates, and fractions of their time (LOMARC paper, sections 4.1 and 6.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from cosched_hwmodel.units import WHOLE_PPM

# What a job can be bound by: the dominant resource, or the one that its owner names.
BOUNDS = ("cpu", "network", "disk")

# The shape of a `Usage` on the wire and as a plain tuple.
UsageTuple: TypeAlias = tuple[str, int, int, int, int]

# Stands in columns for an unknown job.
UNKNOWN_USAGE: Final[UsageTuple] = ("cpu", WHOLE_PPM, 0, 0, WHOLE_PPM)


class Usage(NamedTuple):
    """Parts of a job's run time alone, and of a node's memory, in millionths; a plain tuple of this shape serves as well.

    The parts on CPU, network and disk make up the whole: a job is assumed not to overlap them by itself.
    """

    bound: str  # of BOUNDS
    cpu_ppm: int
    network_ppm: int
    disk_ppm: int
    memory_ppm: int  # of the memory of a node, by the job's processes there


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
