"""Demand mixes: shares of jobs with high, medium and low demand (RUA paper, section on workloads)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.columns import Interned, Same, columns_of
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.shares import check_shares, choices, parse_shares
from cosched_hwmodel.draws import uniforms
from cosched_plugin.protocol.messages import DemandTuple

BELIEFS = ("exact", "unknown")
_LARGEST_MBS = 1_000_000_000


class DemandMix(NamedTuple):
    """Shares of jobs with high, medium and low demand, relative to their sum."""

    high: int
    medium: int
    low: int


MIXES = {"high": DemandMix(80, 10, 10), "med": DemandMix(50, 10, 40), "low": DemandMix(10, 10, 80)}


class DemandLevels(NamedTuple):
    """The demand of one process of a job of each class: (memory bandwidth, network, disk) in MB/s.

    The paper's value for *high* is lost; 2000 is this project's choice.
    """

    high: DemandTuple = (2000, 0, 0)
    medium: DemandTuple = (1000, 0, 0)
    low: DemandTuple = (500, 0, 0)


_LEVELS = DemandLevels()


def parse_mix(text: str) -> DemandMix:
    """Return a mix by name (high, med, low) or by shares ``high:med:low``, as in ``50:10:40``.

    Raises `ConfigurationError` for anything else.
    """
    return DemandMix(*parse_shares(text, "mix", MIXES, "HIGH:MED:LOW"))


def with_demand(
    workload: Workload, mix: DemandMix, seed: int = 1, levels: DemandLevels = _LEVELS, belief: str = "exact"
) -> Workload:
    """Return the workload with a demand for every job, drawn by its `source_id`, independently of the other jobs.

    Sets the truth, and in the spec the scheduler's knowledge: the same (``exact``) or nothing (``unknown``). Raises
    `ConfigurationError` for another belief, a mix without shares, or a negative demand.
    """
    if belief not in BELIEFS:
        raise ConfigurationError.unknown_name("belief", belief, BELIEFS)
    check_shares(mix, "mix")
    for name, level in zip(levels._fields, levels, strict=True):
        if not all(0 <= rate <= _LARGEST_MBS for rate in level):
            raise ConfigurationError(f"demand.{name}", "three rates of 0 MB/s or more", str(level))
    jobs = columns_of(workload.jobs)
    picked = choices(uniforms(seed, "demand", jobs.source_id.array), mix)
    demand = Interned(picked, levels)
    jobs = replace(jobs, demand=demand, told_demand=demand if belief == "exact" else Same(None))
    counts = np.bincount(picked, minlength=len(mix)).tolist()
    shares = ", ".join(f"{count} {name}" for name, count in zip(mix._fields, counts, strict=True))
    note = f"demand: mix {mix.high}:{mix.medium}:{mix.low}, seed {seed}: {shares} jobs; belief {belief}"
    return workload._replace(jobs=jobs, notes=(*workload.notes, note))
