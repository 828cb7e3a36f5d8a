"""Rates of jobs that run together, measured by running their pattern in an exact cluster for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Final

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.fluid.patterns import Meeting, Pattern
from cosched_emulator.nodeos.local.catalogue import period_us
from cosched_emulator.nodeos.programs import Loop, Program
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.work import Work
from cosched_hwmodel.units import SECOND_US

_SEED: Final = 1  # rates belong to a pattern, whatever run asks for them first
_ENDLESS: Final = 1 << 60
_BATCHES: Final = 8
_ITERATIONS: Final = 4  # of the slowest job in each of the first batches: what is rare must have happened
_STUDENT: Final = 2.365  # 97.5 % quantile of Student's t for 8 batches
_TOLERANCE: Final = 0.01  # half width of the interval of each rate, relative
_FELT: Final = 0.01  # of a quantum: an iteration that is shorter does not notice where quanta begin
_FEWEST_BATCHES: Final = 2
_MOST_EVENTS: Final = 150_000  # of one window
_MOST_EVENTS_BRIEF: Final = 15_000  # of a brief one


class Windows:
    """Measured rates by pattern, for one kind of node. Clusters of the same settings may share one.

    Jobs that are resumed are measured as they run under gang scheduling: for ``quantum_us``, and then not for a quantum.
    """

    def __init__(self, settings: NodeSettings, quantum_us: int = SECOND_US) -> None:
        if quantum_us < 1:
            raise ConfigurationError("quantum_us", "at least 1", str(quantum_us))
        self.settings = settings
        self.events = 0  # of all exact simulations
        self._measured = replace(settings, tick_us=0, memory_mb=0, io_cpu_us=max(1, settings.io_cpu_us))
        self._quantum_us = quantum_us
        self._rates: dict[Pattern, tuple[float, ...]] = {}

    def __len__(self) -> int:
        return len(self._rates)

    def rates(self, pattern: Pattern) -> tuple[float, ...]:
        """Return the iterations of each job of a pattern in a microsecond."""
        known = self._rates.get(pattern)
        if known is None:
            plain = pattern._replace(entries=(0,) * len(pattern.entries))
            as_plain = plain != pattern and not self._feels_quanta(pattern)
            known = self._rates[pattern] = self.rates(plain) if as_plain else self._measure(pattern)
        return known

    def alone(self, pattern: Pattern, job: int) -> float:
        """Return the iterations in a microsecond of one job of a pattern that goes on, if the others were not there."""
        meetings: Counter[tuple[int, ...]] = Counter()
        for jobs, nodes, _ in pattern.meetings:
            if job in jobs:
                meetings[(0,) * jobs.count(job)] += nodes
        where = tuple(Meeting(jobs, nodes, 0) for jobs, nodes in sorted(meetings.items()))
        return self.rates(Pattern((pattern.bodies[job],), (pattern.kinds[job],), (0,), where))[0]

    def _feels_quanta(self, pattern: Pattern) -> bool:
        """Return whether the begin of a quantum is a part of it that counts."""
        nodes = sum(meeting.nodes for meeting in pattern.meetings)
        longest_us = max(Work(body, nodes, self._measured).length_us for body in pattern.bodies)
        if len(pattern.bodies) > 1:
            longest_us = max(longest_us, period_us(self._measured.local))
        return longest_us >= self._quantum_us * _FELT

    def _measure(self, pattern: Pattern) -> tuple[float, ...]:
        window = Window(pattern, self._measured, self._quantum_us)
        rates = window.measure()
        self.events += window.cluster.events_done
        return rates


class Window:
    """The exact simulation of one pattern.

    Of each job that is resumed there are two, which take turns: so one is stopped while the other one runs.
    """

    def __init__(self, pattern: Pattern, settings: NodeSettings, quantum_us: int) -> None:
        self._pattern = pattern
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
        self._span_us = _ITERATIONS * max(work.length_us for work in self._works)
        if self._jobs > 1:
            self._span_us = max(self._span_us, period_us(settings.local))
        if any(pattern.entries):
            self._span_us = quantum_us
        self._turns = 0
        centre = pattern.centre
        self._asked = range(self._jobs) if centre < 0 else (centre,)
        self._most_events = _MOST_EVENTS_BRIEF if pattern.brief else _MOST_EVENTS

    def measure(self) -> tuple[float, ...]:
        """Return the rates, certain to `_TOLERANCE` each, unless that would take too many events."""
        spans = 1  # in a batch
        self._run(2)  # the jobs began together: that is no part of the window
        batches: list[list[int]] = []
        while True:
            while len(batches) < _BATCHES and not (self._is_dear() and len(batches) >= _FEWEST_BATCHES):
                batches.append(self._run(spans))
            if self._is_dear() or all(_is_certain([batch[job] for batch in batches]) for job in self._asked):
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
        return self.cluster.events_done > self._most_events


def _is_certain(values: Sequence[int]) -> bool:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return _STUDENT * sqrt(variance / len(values)) <= _TOLERANCE * mean
