"""Characteristics of jobs: what bounds them, how they use their nodes, how much memory (LOMARC paper, section on workloads)."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.shares import check_shares, parse_shares
from cosched_hwmodel.draws import choice, uniform
from cosched_hwmodel.usage import BOUNDS, WHOLE_PPM
from cosched_plugin.protocol.messages import UsageTuple


class CharacteristicsMix(NamedTuple):
    """Shares of jobs bound by CPU, network and disk, in parts of their sum."""

    cpu: int
    network: int
    disk: int


MIXES = {
    "M1": CharacteristicsMix(40, 30, 30),
    "M2": CharacteristicsMix(40, 10, 50),
    "M3": CharacteristicsMix(30, 50, 20),
}


class _Range(NamedTuple):
    """Whole millionths from ``low`` to below ``high``."""

    low: int
    high: int

    def at(self, draw: float) -> int:
        return self.low + int(draw * (self.high - self.low))


class _Fractions(NamedTuple):
    """How the fractions of a class are drawn: that of its own bound, one more, both until their sum fits; the third is the rest."""

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
    return CharacteristicsMix(*parse_shares(text, "characteristics", MIXES, "CPU:NETWORK:DISK"))


def with_characteristics(workload: Workload, mix: CharacteristicsMix, seed: int = 1) -> Workload:
    """Return the workload with a true usage for every job, drawn by its `source_id` whatever else the workload holds.

    What the scheduler is told of it is another matter (`with_usage_belief`). Raises `ConfigurationError` for a mix
    without shares.
    """
    check_shares(mix, "characteristics")
    jobs = []
    counts = dict.fromkeys(BOUNDS, 0)
    for job in workload.jobs:
        usage = drawn_usage(mix, seed, job.source_id)
        counts[usage[0]] += 1
        jobs.append(job._replace(usage=usage))
    shares = ", ".join(f"{number} {bound}" for bound, number in counts.items())
    note = f"characteristics: mix {mix.cpu}:{mix.network}:{mix.disk}, seed {seed}: {shares} jobs"
    return workload._replace(jobs=tuple(jobs), notes=(*workload.notes, note))


def drawn_usage(mix: CharacteristicsMix, seed: int, source_id: int) -> UsageTuple:
    """Return the usage of one job of a mix: class, three fractions that make up the whole, memory, in millionths.

    The class is what was drawn, even where the rest turns out to be the largest fraction.
    """
    bound = mix._fields[choice(uniform(seed, "class", source_id), mix)]
    ranges = _FRACTIONS[bound]
    fractions = dict.fromkeys(BOUNDS, 0)
    for attempt in count():
        own = ranges.own_ppm.at(uniform(seed, "fractions", source_id, attempt, 0))
        other = ranges.other_ppm.at(uniform(seed, "fractions", source_id, attempt, 1))
        if ranges.sum_ppm.low <= own + other < ranges.sum_ppm.high:
            fractions |= {bound: own, ranges.other: other}
            break
    rest = next(name for name in BOUNDS if name not in (bound, ranges.other))
    fractions[rest] = WHOLE_PPM - own - other
    level = choice(uniform(seed, "memory", source_id, 0), _MEMORY_WEIGHTS)
    memory = _MEMORY_PPM[level].at(uniform(seed, "memory", source_id, 1))
    return (bound, fractions["cpu"], fractions["network"], fractions["disk"], memory)
