"""Situations: jobs that run together on nodes, how fast each then is, and the memory of those measured already, also on disk."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import sqrt
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from cosched_emulator.errors import ConfigurationError, InputError, os_errors
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.fluid.patterns import BRIEF, PAIR, WHOLE, Meeting, Pattern
from cosched_emulator.nodeos.local import period_us
from cosched_emulator.nodeos.programs import Loop, Program
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.work_alone import IterationNeed
from cosched_hwmodel.units import SECOND_US
from cosched_terminal.own_file import open_own

# Measured rates in a file that runs and processes share.

_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.001
_Rates = tuple[float, ...]


class RateStore:
    """Rates by key, in a file of its own for each text ``made_for``, which says under which settings they were measured.

    The first line of the file is that text. Each other line is the check sum of its rest, a key and its rates. Lines are
    appended under a lock and never changed, so processes may use one file at once, and one that is killed leaves no more
    than an incomplete line. A line whose check sum is wrong counts in ``damaged`` and is passed over. Raises `InputError`
    if the file cannot be written, or is not for these settings.
    """

    def __init__(self, folder: Path, made_for: str) -> None:
        self.damaged = 0
        self.path = folder / f"rates-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.txt"
        self._head = _line(made_for)
        self._texts: dict[bytes, bytes] = {}  # by key
        self._read_bytes = 0
        with os_errors(self.path, "a file that can be written"):
            folder.mkdir(parents=True, exist_ok=True)
            self._append(b"")
        self._read()

    def find(self, key: str, rates: int) -> _Rates | None:
        """Return the rates of a key, None if they are not known; another number of rates than expected is damage."""
        wanted = key.encode()
        if wanted not in self._texts:
            self._read()
        text = self._texts.get(wanted)
        if text is None:
            return None
        found = json.loads(text)
        if len(found) != rates:
            raise InputError(str(self.path), f"{rates} rates for {key}", str(len(found)), hint="delete the file")
        return tuple(found)

    def add(self, key: str, rates: _Rates) -> None:
        """Store the rates of a key, for others. A disk that is full is no error: they are measured again."""
        text = json.dumps(rates, separators=(",", ":"))
        self._texts[key.encode()] = text.encode()
        try:
            self._append(_line(f"{key}\t{text}"))
        except OSError:
            return

    def _append(self, line: bytes) -> None:
        """Write a line at the end, after what a process that was killed may have left there."""
        descriptor = open_own(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode=0o666, alone=True, shared=True)
        try:
            _lock(descriptor)
            size = os.fstat(descriptor).st_size
            if size == 0:
                line = self._head + line
            elif os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            if line:
                os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _read(self) -> None:
        """Take over the whole lines that have been added since the last time."""
        if os.stat(self.path).st_size <= self._read_bytes:
            return
        with open(self.path, "rb") as file:
            file.seek(self._read_bytes)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].splitlines(keepends=True)
        if self._read_bytes == 0 and lines and lines.pop(0) != self._head:
            raise InputError(str(self.path), "rates measured with these settings", "another file", hint="delete it")
        self._read_bytes += whole
        for line in lines:
            check, _, rest = line.rstrip(b"\n").partition(b" ")
            key, tab, text = rest.partition(b"\t")
            if tab and check == _check_sum(rest):
                self._texts[key] = text
            else:
                self.damaged += 1


def _lock(descriptor: int) -> None:
    """Wait for the lock on a file, which is held for some microseconds; raise `TimeoutError` if it is not free in time."""
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"locked by another process for {_PATIENCE_S:g} s") from None
            time.sleep(_PAUSE_S)
        else:
            return


def _line(text: str) -> bytes:
    data = text.encode()
    return _check_sum(data) + b" " + data + b"\n"


def _check_sum(data: bytes) -> bytes:
    return b"%08x" % crc32(data)


# A window: the exact simulation of one pattern, for as long as its rates take to be certain.

_SEED: Final = 1  # rates belong to a pattern, whatever run asks for them first
_ENDLESS: Final = 1 << 60
_BATCHES: Final = 8
_STUDENT: Final = 2.365  # 97.5 % quantile of Student's t for 8 batches
_FEWEST_BATCHES: Final = 2


class _Effort(NamedTuple):
    iterations: int  # of the slowest job in each of the first batches: what is rare must have happened
    tolerance: float  # half width of the interval of each rate, relative
    most_events: int


_EFFORTS: Final = {WHOLE: _Effort(4, 0.006, 300_000), PAIR: _Effort(2, 0.01, 20_000), BRIEF: _Effort(2, 0.025, 6_000)}


class PatternWindow:
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
            IterationNeed(body, len(places), settings)
            for body, places in zip(pattern.bodies, self._places, strict=True)
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


# Rates of jobs that run together, measured by running their pattern in an exact cluster for a while.

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
        return any(feels_quanta(IterationNeed(body, nodes, self._node), self.quantum_us) for body in pattern.bodies)

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
        window = PatternWindow(pattern, self._node, self.quantum_us)
        rates = window.measure()
        self.measured += 1
        self.events += window.cluster.events_done
        return rates


def measured_settings(settings: NodeSettings) -> NodeSettings:
    """Return the settings of the nodes of windows: without what patterns hold themselves, and what changes no rate.

    I/O takes some CPU time, as that is how its progress is seen.
    """
    io_cpu_us = max(1, settings.io_cpu_us)
    return replace(settings, tick_us=0, memory_mb=0, io_logged_ppm=0, io_cpu_us=io_cpu_us)


def feels_quanta(work: IterationNeed, quantum_us: int) -> bool:
    """Return whether the begin of a quantum counts for a job whose iterations take this alone."""
    return work.length_us >= quantum_us * FELT
