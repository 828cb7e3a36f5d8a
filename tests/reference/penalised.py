"""Penalised time on one node under the bandwidth model, window by window (RUA paper, section 3.3, equation 3)."""

from __future__ import annotations

from collections.abc import Sequence

from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel, Resident


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
