"""A window: the exact simulation of one pattern, for as long as its rates take to be certain."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final, NamedTuple

from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.fluid.patterns import BRIEF, PAIR, WHOLE, Pattern
from cosched_emulator.nodeos.local.catalogue import period_us
from cosched_emulator.nodeos.programs import Loop, Program
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.work import Work

_SEED: Final = 1  # rates belong to a pattern, whatever run asks for them first
_ENDLESS: Final = 1 << 60
_BATCHES: Final = 8
_STUDENT: Final = 2.365  # 97.5 % quantile of Student's t for 8 batches
_FEWEST_BATCHES: Final = 2


class _Effort(NamedTuple):
    iterations: int  # of the slowest job in each of the first batches: what is rare must have happened
    tolerance: float  # half width of the interval of each rate, relative
    most_events: int


_EFFORTS: Final = {
    WHOLE: _Effort(4, 0.006, 300_000),
    PAIR: _Effort(2, 0.01, 20_000),
    BRIEF: _Effort(2, 0.025, 6_000),
}


class Window:
    """The exact simulation of one pattern.

    Of each job that is resumed there are two, which take turns: so one is stopped while the other one runs.
    """

    def __init__(self, pattern: Pattern, settings: NodeSettings, quantum_us: int) -> None:
        self._effort = _EFFORTS[pattern.effort]
        self._jobs = len(pattern.bodies)
        self._places: list[list[int]] = [[] for _ in pattern.bodies]
        self._missing_ppm: list[int] = []
        for meeting in pattern.meetings:
            for _ in range(meeting.nodes):
                for job in meeting.jobs:
                    self._places[job].append(len(self._missing_ppm))
                self._missing_ppm.append(meeting.missing_ppm)
        self.cluster = ExactCluster(settings, len(self._missing_ppm), _SEED)
        self._works = [
            Work(body, len(places), settings) for body, places in zip(pattern.bodies, self._places, strict=True)
        ]
        self._shifts: list[dict[int, list[int]]] = [{}, {}]  # what may run, in turns
        for job in sorted(range(self._jobs), key=lambda job: pattern.entries[job]):
            copies = (job, job + self._jobs) if pattern.entries[job] else (job, job)
            for copy, runnable in zip(copies, self._shifts, strict=True):
                for node in sorted(set(self._places[job])):
                    runnable.setdefault(node, []).append(copy)
            for copy in set(copies):
                self.cluster.start(copy, Program((Loop(_ENDLESS, pattern.bodies[job]),)), self._places[job])
        self._span_us = self._effort.iterations * max(work.length_us for work in self._works)
        if self._jobs > 1:
            self._span_us = max(self._span_us, period_us(settings.local, settings.epoch_ticks))
        if any(pattern.entries):
            self._span_us = quantum_us
        self._turns = 0
        centre = pattern.centre
        self._asked = range(self._jobs) if centre < 0 else (centre,)

    def measure(self) -> tuple[float, ...]:
        """Return the rates, each as certain as wanted, unless that would take too many events."""
        spans = 1  # in a batch
        self._run(2)  # the jobs began together: that is no part of the window
        batches: list[list[int]] = []
        while True:
            while len(batches) < _BATCHES and not (self._is_dear() and len(batches) >= _FEWEST_BATCHES):
                batches.append(self._run(spans))
            if self._is_dear() or self._are_certain(batches):
                break
            batches = [
                [a + b for a, b in zip(*pair, strict=True)] for pair in zip(batches[::2], batches[1::2], strict=True)
            ]
            spans *= 2
        whole_us = self._span_us * spans * len(batches)
        totals = [sum(batch[job] for batch in batches) for job in range(self._jobs)]
        return tuple(
            total / (len(places) * work.cpu_us * whole_us) if work.cpu_us else 1 / work.length_us
            for total, places, work in zip(totals, self._places, self._works, strict=True)
        )

    def _run(self, spans: int) -> list[int]:
        """Let some spans pass, and return the CPU time that each job used."""
        sums = [0] * self._jobs
        for _ in range(spans):
            self.cluster.allow(self.cluster.now_us, self._shifts[self._turns % 2])
            for cpu, missing_ppm in zip(self.cluster.cpus, self._missing_ppm, strict=True):
                cpu.missing_ppm = missing_ppm
            self._turns += 1
            self.cluster.advance(self.cluster.now_us + self._span_us)
            for usage in self.cluster.collect():
                sums[usage.job % self._jobs] += usage.consumed_us
        return sums

    def _is_dear(self) -> bool:
        return self.cluster.events_done > self._effort.most_events

    def _are_certain(self, batches: Sequence[Sequence[int]]) -> bool:
        return all(half_width([batch[job] for batch in batches]) <= self._effort.tolerance for job in self._asked)


def half_width(values: Sequence[int]) -> float:
    """Return half the width of the 95 % interval of a mean, relative to it."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return _STUDENT * sqrt(variance / len(values)) / mean if mean else 0.0
