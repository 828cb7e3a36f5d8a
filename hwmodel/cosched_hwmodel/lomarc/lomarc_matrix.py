"""Slowdowns of one job with many others at once: `lomarc.LomarcModel` in arrays, with bit-identical numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.draws import uniforms
from cosched_hwmodel.lomarc.lomarc_model import ONE, SERIAL_PPM, LomarcModel
from cosched_hwmodel.units import WHOLE_PPM
from cosched_hwmodel.usage import BOUNDS, UsageTuple

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
_CPU = BOUNDS.index("cpu")


class UsageColumns:
    """Many jobs, a column for each field; shares are millionths."""

    __slots__ = ("bound", "cpu", "disk", "id", "memory", "network")

    id: Ints
    bound: Ints  # index in BOUNDS
    cpu: Ints
    network: Ints
    disk: Ints
    memory: Ints

    def __init__(self, ids: Sequence[int], usages: Sequence[UsageTuple]) -> None:
        """Raise ValueError for a bound that is not in BOUNDS, and for lists of different lengths."""
        if len(ids) != len(usages):
            raise ValueError(f"{len(ids)} ids for {len(usages)} usages")
        self.id = np.array(ids, dtype=np.int64)
        self.bound = np.array([BOUNDS.index(usage[0]) for usage in usages], dtype=np.int64)
        shares = np.array([usage[1:] for usage in usages], dtype=np.int64).reshape(len(ids), 4)
        self.cpu, self.network, self.disk, self.memory = shares.T.copy()

    @classmethod
    def of(cls, ids: Ints, bound: Ints, cpu: Ints, network: Ints, disk: Ints, memory: Ints) -> UsageColumns:
        """Return jobs from existing columns."""
        columns = object.__new__(cls)
        columns.id, columns.bound, columns.memory = ids, bound, memory
        columns.cpu, columns.network, columns.disk = cpu, network, disk
        return columns

    def __len__(self) -> int:
        return len(self.id)

    def take(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> UsageColumns:
        """Return the jobs of these positions, in their order, or the jobs that the mask selects."""
        return UsageColumns.of(
            *(column[which] for column in (self.id, self.bound, self.cpu, self.network, self.disk, self.memory))
        )


def c_ppm(model: LomarcModel, job: int, bound_index: int, columns: UsageColumns) -> Ints:
    """Return `LomarcModel.c_ppm` of the job and each of the others; ``bound_index`` is its bound in BOUNDS."""
    if model.cpu == "standard":
        return np.full(len(columns), model.bad_c_ppm, dtype=np.int64)
    draws = uniforms(model.pair_seed, "pair", np.minimum(columns.id, job), np.maximum(columns.id, job))
    good = draws < model.good_share_ppm / WHOLE_PPM
    if model.c_scope == "cpu_cpu":
        good |= (columns.bound != _CPU) | (bound_index != _CPU)
    return np.where(good, np.int64(model.good_c_ppm), np.int64(model.bad_c_ppm))


def slowdowns(model: LomarcModel, job: int, usage: UsageTuple, columns: UsageColumns, c: Ints | None = None) -> Floats:
    """Return `LomarcModel.slowdown` of the job and each of the others; ``c`` is the result of `c_ppm`, where it is known already."""
    bound, cpu_ppm, network_ppm, disk_ppm, memory_ppm = usage
    cpu = np.minimum(columns.cpu, cpu_ppm)
    serial = np.minimum(columns.network, network_ppm) + np.minimum(columns.disk, disk_ppm)
    parts = (c_ppm(model, job, BOUNDS.index(bound), columns) if c is None else c) * cpu + SERIAL_PPM * serial
    if model.remainder:
        parts += WHOLE_PPM * (WHOLE_PPM - cpu - serial)
    else:
        np.maximum(parts, ONE, out=parts)
    paging = columns.memory + memory_ppm > WHOLE_PPM
    np.maximum(parts, model.paging_ppm * WHOLE_PPM, out=parts, where=paging)
    result: Floats = parts / ONE
    return result
