"""The contention model of the LOMARC paper: the mutual slowdown of two jobs that share a node.

Source: Sodan and Lan, "LOMARC - Lookahead Matchmaking for Multi-Resource Coscheduling", sections 4 and 6.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import ClassVar

from cosched_hwmodel.contention import INT64, Load, ParameterError, Parametric
from cosched_hwmodel.draws import uniform
from cosched_hwmodel.errors import UnknownNameError
from cosched_hwmodel.lomarc import C_SCOPES, CPUS
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM
from cosched_hwmodel.usage import UsageTuple

# A slowdown is a whole number of these parts: a millionth of a millionth, as it is a sum of c times a fraction.
ONE = WHOLE_PPM * WHOLE_PPM
SERIAL_PPM = 2 * WHOLE_PPM  # two jobs that use a network or a disk take turns
_HIGHEST_PAGING_PPM = 1000 * WHOLE_PPM  # beyond it a numerator would not fit into a double


class LomarcParameterError(ParameterError):
    """A parameter of the LOMARC model with an invalid value."""


@dataclass(frozen=True, slots=True)
class LomarcModel(Parametric):
    """The slowdown of pairs of jobs on one node; ``_ppm`` are millionths.

    Raises LomarcParameterError and UnknownNameError, both HardwareModelError.
    """

    name: ClassVar = "lomarc"

    # True: the time in which neither competes counts as 1; False: the printed formula, cut at 1
    remainder: bool = False
    c_scope: str = "all"  # whose c is drawn: of every pair, or (cpu_cpu) of two cpu-bound jobs; all others have good_c
    cpu: str = "hyperthreaded"  # standard: the CPU is time-shared, so every pair has bad_c
    pair_seed: int = 1
    good_share_ppm: int = 330_000  # share of the pairs that combine well
    good_c_ppm: int = 1_400_000
    bad_c_ppm: int = 2_000_000
    paging_ppm: int = 2_500_000  # slowdown of two jobs that do not fit into memory, unless the rest is worse

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if type(value) is not type(item.default):  # a bool is no int here
                raise LomarcParameterError(item.name, type(item.default).__name__, value)
        for name, known in (("c_scope", C_SCOPES), ("cpu", CPUS)):
            if getattr(self, name) not in known:
                raise UnknownNameError(name, getattr(self, name), known)
        for name, low, high in (
            ("pair_seed", *INT64),
            ("good_share_ppm", 0, WHOLE_PPM),
            ("bad_c_ppm", WHOLE_PPM, SERIAL_PPM),
            ("good_c_ppm", WHOLE_PPM, self.bad_c_ppm),
            ("paging_ppm", WHOLE_PPM, _HIGHEST_PAGING_PPM),
        ):
            if not low <= getattr(self, name) <= high:
                raise LomarcParameterError(name, f"{low} to {high}", getattr(self, name))

    def c_ppm(self, job_a: int, bound_a: str, job_b: int, bound_b: str) -> int:
        """Return how much longer the CPU parts of two jobs take while both compute: c = 2·competing + different.

        A property of the pair, drawn by the two ids (section 6.1): the same in either order and at any time.
        """
        if self.cpu == "standard":
            return self.bad_c_ppm
        if self.c_scope == "cpu_cpu" and not bound_a == bound_b == "cpu":
            return self.good_c_ppm
        draw = _draw(self.pair_seed, min(job_a, job_b), max(job_a, job_b))
        return self.good_c_ppm if draw < self.good_share_ppm / WHOLE_PPM else self.bad_c_ppm

    def slowdown(self, job_a: int, usage_a: UsageTuple, job_b: int, usage_b: UsageTuple) -> float:
        """Return the slowdown of two jobs while they share nodes: one number for both, at least 1 (section 4.1).

        The numerator is an exact integer and divided once.
        """
        bound_a, cpu_a, network_a, disk_a, memory_a = usage_a
        bound_b, cpu_b, network_b, disk_b, memory_b = usage_b
        cpu = min(cpu_a, cpu_b)
        serial = min(network_a, network_b) + min(disk_a, disk_b)
        parts = self.c_ppm(job_a, bound_a, job_b, bound_b) * cpu + SERIAL_PPM * serial
        if self.remainder:
            parts += WHOLE_PPM * (WHOLE_PPM - cpu - serial)
        else:
            parts = max(parts, ONE)
        if memory_a + memory_b > WHOLE_PPM:
            parts = max(parts, self.paging_ppm * WHOLE_PPM)
        return parts / ONE


# The search for partners asks again for pairs that it has seen at the last event: a fifth of the time of guests on a log.
@lru_cache(maxsize=65_536)
def _draw(pair_seed: int, first: int, second: int) -> float:
    return uniform(pair_seed, "pair", first, second)


class LomarcContention:
    """The model as the contention of a node's jobs, given how each uses its nodes."""

    __slots__ = ("_model", "_usages")

    def __init__(self, model: LomarcModel, usages: Mapping[int, UsageTuple]) -> None:
        """``usages`` is by job id and may grow; a job that it lacks neither slows nor is slowed."""
        self._model = model
        self._usages = usages

    @property
    def name(self) -> str:
        """Return ``lomarc``."""
        return self._model.name

    def penalties(self, node: NodeShape, loads: Sequence[Load]) -> list[float]:  # noqa: ARG002 - fractions suffice
        """Return for each load the sum of its penalties by each other job on the node; for two jobs, slowdown - 1."""
        jobs = [(load.job_id, self._usages.get(load.job_id)) for load in loads]
        costs: list[list[float]] = [[] for _ in jobs]
        for index, (job_a, usage_a) in enumerate(jobs):
            for other in range(index):
                job_b, usage_b = jobs[other]
                if usage_a is not None and usage_b is not None:
                    cost = self._model.slowdown(job_a, usage_a, job_b, usage_b) - 1.0  # loses no bit
                    costs[index].append(cost)
                    costs[other].append(cost)
        # The exact sum, rounded once: no order of the loads can change it.
        return [math.fsum(cost) for cost in costs]
