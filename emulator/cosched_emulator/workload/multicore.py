"""Jobs for nodes with several cores: their self slowdowns, and the resulting sizes (G-LOMARC-TS paper, section 4.8)."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import Computed, Numbers, as_tuple, columns_of
from cosched_hwmodel.statistical import draw_self_slowdowns
from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.protocol.messages import SelfSlowdown

CORES_PER_NODE = 4  # of the paper's nodes, on two CPUs
MAX_SLOWDOWN_PPM = 1_250_000  # MAX_SL
CPUS_PPM = 1_120_000  # SELF_SL_2


class Growth(IntEnum):
    """The number of processes of a job on a node: one, one on each CPU, or one on each core (formula 8)."""

    NONE = 1
    TWO = 2
    FOUR = CORES_PER_NODE


def with_self_slowdowns(workload: Workload, seed: int = 1) -> Workload:
    """Return the workload with a true self slowdown for every job, drawn from the paper's Table 4 by its `source_id`."""
    jobs = columns_of(workload.jobs)
    numbers = (Numbers(column.astype(np.int32)) for column in draw_self_slowdowns(seed, jobs.source_id.array))
    note = f"self slowdowns: drawn from Table 4, seed {seed}"
    return workload._replace(
        jobs=jobs.having(self_slowdown=Computed(as_tuple, *numbers)), notes=(*workload.notes, note)
    )


def growth_of(
    size: int, own: SelfSlowdown, max_slowdown_ppm: int = MAX_SLOWDOWN_PPM, cpus_ppm: int = CPUS_PPM
) -> Growth:
    """Return the number of processes on a node for a job of this size and self slowdown.

    Four if its slowdown on all cores of a node is at most ``max_slowdown_ppm``; else two if its slowdown on both CPUs is at most
    ``cpus_ppm``; else one. Always one for a serial job.
    """
    node_ppm, core_ppm = own
    if size == 1:
        return Growth.NONE
    if node_ppm * core_ppm <= max_slowdown_ppm * WHOLE_PPM:
        return Growth.FOUR
    return Growth.TWO if node_ppm <= cpus_ppm else Growth.NONE


def grown_size(size: int, own: SelfSlowdown, growth: Growth) -> int:
    """Return the size that users choose for a job of which a node takes ``growth`` processes.

    A power of two grows exactly twofold or fourfold, because the paper's text keeps the share of powers of two; any other size
    grows by the printed formula, twofold over SL_sno or fourfold over SL_sno x SL_scr, to the nearest whole number.
    """
    if growth is Growth.NONE:
        return size
    if size & (size - 1) == 0:
        return size * growth
    node_ppm, core_ppm = own
    slowdown = node_ppm * (WHOLE_PPM if growth is Growth.TWO else core_ppm)
    return (2 * size * growth * WHOLE_PPM**2 + slowdown) // (2 * slowdown)


def with_grown_sizes(
    workload: Workload, cores: int, max_slowdown_ppm: int = MAX_SLOWDOWN_PPM, cpus_ppm: int = CPUS_PPM
) -> Workload:
    """Return a workload made for one process per node, with the sizes that users would choose on a machine with ``cores`` cores.

    Run times stay unchanged, and so do jobs without a self slowdown. Jobs may become larger than the machine, which then refuses
    them; a note gives their number. Raises `ConfigurationError` if no job has a self slowdown.
    """
    counts = dict.fromkeys(Growth, 0)
    jobs = columns_of(workload.jobs)
    sizes = jobs.processes.array.copy()
    for row, (size, own) in enumerate(zip(jobs.each(jobs.processes), jobs.each(jobs.self_slowdown), strict=True)):
        if own is not None:
            growth = growth_of(size, own, max_slowdown_ppm, cpus_ppm)
            counts[growth] += 1
            sizes[row] = grown_size(size, own, growth)
    unknown = len(jobs) - sum(counts.values())
    if unknown == len(jobs):
        raise ConfigurationError(
            "workload.grow", "self slowdowns of jobs (workload.self_slowdowns, annotations)", "none"
        )
    note = (
        f"sizes grown: {counts[Growth.TWO]} jobs twofold, {counts[Growth.FOUR]} fourfold, {counts[Growth.NONE]} not, "
        f"{unknown} without self slowdown; largest {sizes.max()}, {np.count_nonzero(sizes > cores)} above the {cores} cores"
    )
    jobs = jobs.having(processes=Numbers(sizes))
    return workload._replace(jobs=jobs, processors=cores, notes=(*workload.notes, note))
