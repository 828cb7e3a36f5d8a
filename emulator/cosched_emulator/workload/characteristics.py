"""Characteristics of jobs: their bound, their use of nodes, their memory (LOMARC paper, section on workloads)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import Column, Computed, Interned, Numbers, Same, as_tuple, columns_of
from cosched_hwmodel.draws import uniforms
from cosched_hwmodel.units import WHOLE_PPM
from cosched_hwmodel.usage import BOUNDS
from cosched_plugin.protocol.messages import DemandTuple, UsageTuple

# Shares of classes of jobs: a name from a paper, or three whole numbers.

Shares = tuple[int, int, int]


def parse_shares(text: str, key: str, named: Mapping[str, Shares], form: str) -> Shares:
    """Return the shares that ``text`` names, in any case of letters, or gives as in ``50:10:40``.

    ``form`` shows the order, for errors. Raises `ConfigurationError` for ``key`` if it is neither.
    """
    for name, shares in named.items():
        if text.strip().lower() == name.lower():
            return shares
    if ":" not in text:
        raise ConfigurationError.unknown_name(key, text, (*named, f"{form} shares"))
    match = re.fullmatch(r"\s*([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9})\s*", text)
    if match is None:
        raise ConfigurationError(key, "three whole shares such as 50:10:40", repr(text))
    if not any(map(int, match.groups())):
        raise ConfigurationError(key, "a share above 0", repr(text))
    return (int(match[1]), int(match[2]), int(match[3]))


def choices(draws: NDArray[np.float64], weights: Sequence[int]) -> NDArray[np.uint8]:
    """Return the `choice` for each draw."""
    edges = np.array([*accumulate(weights)], dtype=np.float64)
    picked: NDArray[np.uint8] = np.searchsorted(edges, draws * edges[-1], side="right").astype(np.uint8)
    return picked  # never one of weight 0


class CharacteristicsMix(NamedTuple):
    """Shares of jobs bound by CPU, network and disk, relative to their sum."""

    cpu: int
    network: int
    disk: int


CHARACTERISTICS = {
    "M1": CharacteristicsMix(40, 30, 30),
    "M2": CharacteristicsMix(40, 10, 50),
    "M3": CharacteristicsMix(30, 50, 20),
}


class _Range(NamedTuple):
    """Whole millionths from ``low`` to below ``high``."""

    low: int
    high: int

    def at(self, draws: NDArray[np.float64]) -> NDArray[np.int64]:
        return self.low + (draws * (self.high - self.low)).astype(np.int64)


class _Fractions(NamedTuple):
    """The draw of a class's fractions: of its own bound and of one more, repeated until their sum is valid; the third is the rest."""

    other: str
    own_ppm: _Range
    other_ppm: _Range
    sum_ppm: _Range


_FRACTIONS = {
    "cpu": _Fractions("disk", _Range(500_000, 900_000), _Range(50_000, 400_000), _Range(600_000, 950_000)),
    "network": _Fractions("disk", _Range(400_000, 650_000), _Range(50_000, 400_000), _Range(500_000, 800_000)),
    "disk": _Fractions("network", _Range(400_000, 650_000), _Range(50_000, 400_000), _Range(500_000, 800_000)),
}
_MEMORY_WEIGHTS = (70, 25, 5)
_MEMORY_PPM = (_Range(50_000, 500_001), _Range(500_001, 800_000), _Range(800_000, WHOLE_PPM + 1))


def parse_characteristics(text: str) -> CharacteristicsMix:
    """Return a mix by the paper's name (M1, M2, M3) or by shares ``cpu:network:disk``, as in ``40:30:30``.

    Raises `ConfigurationError` for anything else.
    """
    return CharacteristicsMix(*parse_shares(text, "characteristics", CHARACTERISTICS, "CPU:NETWORK:DISK"))


LARGEST = "largest"  # behind a mix: a job's class is that of its largest fraction, whatever was drawn


def with_characteristics_of(workload: Workload, text: str, seed: int = 1) -> Workload:
    """Return `with_characteristics` for a mix as text, which may end in ``, largest``; raises `ConfigurationError`."""
    mix, _, word = text.partition(",")
    if "," in text and word.strip().lower() != LARGEST:
        raise ConfigurationError("characteristics", f"{LARGEST!r} behind the comma", repr(text))
    return with_characteristics(workload, parse_characteristics(mix), seed, largest="," in text)


def with_characteristics(
    workload: Workload, mix: CharacteristicsMix, seed: int = 1, *, largest: bool = False
) -> Workload:
    """Return the workload with a true usage for every job, drawn by its `source_id`, independently of the other jobs.

    ``largest``: a job's class is that of its largest fraction (of equal ones, the drawn one first). `with_usage_belief`
    sets the scheduler's knowledge of it. Raises `ConfigurationError` for a mix without shares.
    """
    jobs = columns_of(workload.jobs)
    bounds, usage = _draw(mix, seed, jobs.source_id.array, largest=largest)
    counts = np.bincount(bounds, minlength=len(BOUNDS)).tolist()
    shares = ", ".join(f"{number} {bound}" for bound, number in zip(BOUNDS, counts, strict=True))
    note = f"characteristics: mix {mix.cpu}:{mix.network}:{mix.disk}, seed {seed}: {shares} jobs"
    return workload._replace(jobs=jobs.having(usage=usage), notes=(*workload.notes, note))


def _draw(
    mix: CharacteristicsMix, seed: int, source_ids: NDArray[np.int64], *, largest: bool = False
) -> tuple[NDArray[np.uint8], Column[UsageTuple]]:
    """Return the class of every job, as its place in ``BOUNDS``, and its usage, in millionths: class, three fractions, memory.

    The fractions have a sum of 1. The class is the drawn one, even if the rest is the largest fraction.
    """
    bounds = choices(uniforms(seed, "class", source_ids), mix)
    parts = {name: np.zeros(len(source_ids), dtype=np.int32) for name in BOUNDS}
    for place, bound in enumerate(BOUNDS):
        ranges = _FRACTIONS[bound]
        left = np.flatnonzero(bounds == place)
        for attempt in count():
            if not left.size:
                break
            own, other = (
                drawn.at(
                    uniforms(
                        seed, "fractions", source_ids[left], *(np.full_like(left, key) for key in (attempt, which))
                    )
                )
                for which, drawn in enumerate((ranges.own_ppm, ranges.other_ppm))
            )
            fits = (ranges.sum_ppm.low <= own + other) & (own + other < ranges.sum_ppm.high)
            parts[bound][left[fits]] = own[fits]
            parts[ranges.other][left[fits]] = other[fits]
            left = left[~fits]
        rest = next(name for name in BOUNDS if name not in (bound, ranges.other))
        drawn = bounds == place
        parts[rest][drawn] = WHOLE_PPM - parts[bound][drawn] - parts[ranges.other][drawn]
    if largest:
        fractions = np.stack([*parts.values()])
        bounds = np.where(np.choose(bounds, fractions) < fractions.max(axis=0), fractions.argmax(axis=0), bounds)
        bounds = bounds.astype(np.uint8)
    level = choices(uniforms(seed, "memory", source_ids, np.zeros_like(source_ids)), _MEMORY_WEIGHTS)
    place_in_level = uniforms(seed, "memory", source_ids, np.ones_like(source_ids))
    memory = np.choose(level, [drawn.at(place_in_level) for drawn in _MEMORY_PPM]).astype(np.int32)
    numbers = (Numbers(column) for column in (*parts.values(), memory))
    return bounds, Computed(as_tuple, Interned(bounds, BOUNDS), *numbers)


# Demand mixes: shares of jobs with high, medium and low demand (RUA paper, section on workloads).


class DemandMix(NamedTuple):
    """Shares of jobs with high, medium and low demand, relative to their sum."""

    high: int
    medium: int
    low: int


DEMAND_MIXES = {"high": DemandMix(80, 10, 10), "med": DemandMix(50, 10, 40), "low": DemandMix(10, 10, 80)}


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
    return DemandMix(*parse_shares(text, "mix", DEMAND_MIXES, "HIGH:MED:LOW"))


def with_demand(
    workload: Workload, mix: DemandMix, seed: int = 1, levels: DemandLevels = _LEVELS, belief: str = "exact"
) -> Workload:
    """Return the workload with a demand for every job, drawn by its `source_id`, independently of the other jobs.

    Sets the truth, and in the spec the scheduler's knowledge: the same (``exact``) or nothing (``unknown``).
    """
    jobs = columns_of(workload.jobs)
    picked = choices(uniforms(seed, "demand", jobs.source_id.array), mix)
    demand = Interned(picked, levels)
    jobs = jobs.having(demand=demand, told_demand=demand if belief == "exact" else Same(None))
    counts = np.bincount(picked, minlength=len(mix)).tolist()
    shares = ", ".join(f"{count} {name}" for name, count in zip(mix._fields, counts, strict=True))
    note = f"demand: mix {mix.high}:{mix.medium}:{mix.low}, seed {seed}: {shares} jobs; belief {belief}"
    return workload._replace(jobs=jobs, notes=(*workload.notes, note))
