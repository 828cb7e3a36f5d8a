"""Rates of jobs that run together, measured by running their pattern in an exact cluster for a while."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.fluid.patterns import Meeting, Pattern
from cosched_emulator.nodeos.fluid.store import RateStore
from cosched_emulator.nodeos.fluid.window import Window
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.work import Work
from cosched_hwmodel.units import SECOND_US

NUMBERS: Final = 2  # raised whenever a window gives other numbers than before: stored rates are void then
FELT: Final = 0.05  # of a quantum: an iteration that is shorter does not notice where quanta begin


class Windows:
    """Measured rates by pattern, for one kind of node. Clusters of the same settings may share one.

    Jobs that are resumed are measured as they run under gang scheduling: for ``quantum_us``, and then not for a quantum.
    With a ``folder`` the rates are kept there, and other runs and processes with the same settings find them: a rate
    does not depend on the run that measures it. Raises `InputError` if the folder cannot be used.
    """

    def __init__(self, settings: NodeSettings, quantum_us: int = SECOND_US, folder: Path | None = None) -> None:
        if quantum_us < 1:
            raise ConfigurationError("quantum_us", "at least 1", str(quantum_us))
        self.settings = settings
        self.quantum_us = quantum_us
        self.events = 0  # of all exact simulations
        self.measured = 0  # number of windows simulated here
        self._node = measured_settings(settings)
        self._rates: dict[Pattern, tuple[float, ...]] = {}
        self._store: RateStore | None = None
        if folder is not None:
            made_for = {"numbers": NUMBERS, "quantum_us": quantum_us, "node": asdict(self._node)}
            self._store = RateStore(folder, json.dumps(made_for, sort_keys=True))

    def __len__(self) -> int:
        return len(self._rates)

    @property
    def damaged(self) -> int:
        """Return the number of lines of the stored rates that were passed over, as they are damaged."""
        return 0 if self._store is None else self._store.damaged

    def rates(self, pattern: Pattern) -> tuple[float, ...]:
        """Return the iterations of each job of a pattern in a microsecond."""
        known = self._rates.get(pattern)
        if known is None:
            plain = pattern._replace(entries=(0,) * len(pattern.entries))
            as_plain = plain != pattern and not self._feels_quanta(pattern)
            known = self._rates[pattern] = self.rates(plain) if as_plain else self._find(pattern)
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
        return any(feels_quanta(Work(body, nodes, self._node), self.quantum_us) for body in pattern.bodies)

    def _find(self, pattern: Pattern) -> tuple[float, ...]:
        if self._store is None:
            return self._measure(pattern)
        key = json.dumps(pattern, separators=(",", ":"))
        known = self._store.find(key, len(pattern.bodies))
        if known is None:
            known = self._measure(pattern)
            self._store.add(key, known)
        return known

    def _measure(self, pattern: Pattern) -> tuple[float, ...]:
        window = Window(pattern, self._node, self.quantum_us)
        rates = window.measure()
        self.measured += 1
        self.events += window.cluster.events_done
        return rates


def measured_settings(settings: NodeSettings) -> NodeSettings:
    """Return the settings of the nodes of windows: without what patterns hold themselves, and what changes no rate.

    I/O takes some CPU time, as that is how its progress is seen.
    """
    io_cpu_us = max(1, settings.io_cpu_us)
    return replace(settings, tick_us=0, memory_mb=0, io_logged_ppm=0, barrier_process_us=0, io_cpu_us=io_cpu_us)


def feels_quanta(work: Work, quantum_us: int) -> bool:
    """Return whether the begin of a quantum counts for a job whose iterations take this alone."""
    return work.length_us >= quantum_us * FELT
