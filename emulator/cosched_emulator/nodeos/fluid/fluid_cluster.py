"""The fluid cluster: whole jobs progress at measured rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cosched_emulator.errors import ConfigurationError, InvariantError
from cosched_emulator.nodeos.fluid.patterns import body_of
from cosched_emulator.nodeos.fluid.rates import FluidJob, FluidStage, Rates
from cosched_emulator.nodeos.fluid.situations import Windows
from cosched_emulator.nodeos.kernel.cpu import TickLog
from cosched_emulator.nodeos.kernel.devices import FifoServer, NodeMemory, swap_us
from cosched_emulator.nodeos.process_cluster import ProcessUse, Reached, check_start
from cosched_emulator.nodeos.programs import Program
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_hwmodel.units import WHOLE_PPM

_MOST_SITUATIONS: Final = 1_000
_STEP_PPM: Final = 10_000  # of the memory that is missing, in patterns
_NEVER_US: Final = 1 << 62

_Runnable = tuple[tuple[int, ...], ...]  # jobs that may run, by node


class _Situation:
    """What may run where, and the rates that are known of it."""

    __slots__ = ("able", "entries", "places", "rates")

    def __init__(self, runnable: _Runnable, jobs: Mapping[int, FluidJob]) -> None:
        nodes: dict[int, list[int]] = {}
        entries: dict[int, int] = {}
        for node, numbers in enumerate(runnable):
            for place, number in enumerate(numbers, 1):
                nodes.setdefault(number, []).append(node)
                entries[number] = max(place, entries.get(number, 0))
        for number, there in nodes.items():
            if number not in jobs or not set(there) <= jobs[number].processes.keys():
                node = next(node for node in there if number not in jobs or node not in jobs[number].processes)
                raise InvariantError(f"job {number} has no process on node {node}")
        self.places = {jobs[number]: tuple(there) for number, there in sorted(nodes.items())}
        # The others do not progress
        self.able = [job for job, there in self.places.items() if len(there) == len(job.nodes)]
        self.entries = {job: entries[job.number] for job in self.able}
        self.rates: dict[tuple[object, ...], list[float]] = {}


class FluidCluster:
    """Nodes of one CPU on which whole jobs progress at rates; a `ProcessCluster`.

    Rates are measured by `Windows`, which clusters of the same settings may share. All processes of a job do the same:
    the job progresses only while all may run. A job uses the CPU time of its program in the mean. Without ``rounded`` each
    situation is measured as it is; with it, those that are nearly the same are measured once (`rounded`,
    `neighbourhood`).
    """

    def __init__(
        self, settings: NodeSettings, nodes: int, seed: int, windows: Windows | None = None, rounded: bool = True
    ) -> None:
        self.settings = settings
        self.windows = Windows(settings) if windows is None else windows
        if self.windows.settings != settings:
            raise ConfigurationError("windows", f"measured with {settings}", str(self.windows.settings))
        self.now_us = 0
        self.jobs: dict[int, FluidJob] = {}
        self._nodes = nodes
        self._rates = Rates(self.windows, round_off=rounded)
        self._ticks = TickLog(seed, settings.tick_us)
        self._memories = [NodeMemory(settings.memory_mb) for _ in range(nodes)]
        self._swaps = [FifoServer() for _ in range(nodes)]
        self._nothing_missing = (0,) * nodes
        self._runnable: _Runnable = ((),) * nodes
        self._situations: dict[_Runnable, _Situation] = {}
        self._situation = _Situation(self._runnable, self.jobs)
        self._entered: frozenset[FluidJob] = frozenset()  # jobs that were stopped until the last `allow`
        self._due_us = _NEVER_US  # the next end of a loop, or when memory has been read
        self._used: dict[int, FluidJob] = {}  # could run since the last `collect`

    def start(self, job: int, program: Program, places: Sequence[int], memory_mb: int = 0) -> None:
        """Put the processes of a job on nodes, stopped (see `ProcessCluster.start`)."""
        check_start(self.settings, self._nodes, self.jobs, job, program, places, memory_mb)
        stages = []
        for loop in program.loops:
            body = body_of(loop, len(places), self.settings)
            kind = self._rates.kind_of(body, places)
            stages.append(FluidStage(loop.times, body, kind, self._rates.work_of(body, len(places))))
        self.jobs[job] = FluidJob(job, stages, tuple(places), memory_mb, self.now_us)

    def allow(self, now_us: int, runnable: Mapping[int, Sequence[int]]) -> None:
        """Let the jobs listed for each node run there and stop all others (see `ProcessCluster.allow`)."""
        if now_us < self.now_us:
            raise InvariantError(f"time {now_us} us is before {self.now_us} us, up to which the cluster has advanced")
        self.now_us = now_us
        chosen = tuple([tuple(runnable.get(node, ())) for node in range(self._nodes)])
        if chosen != self._runnable:
            before = self._situation
            self._enter(chosen)
            if self.settings.memory_mb:
                for node, (new, old) in enumerate(zip(chosen, self._runnable, strict=True)):
                    if new != old:
                        self._admit(node, new)
            self._runnable = chosen
            self._entered = frozenset(job for job in self._situation.able if job not in before.entries)
            self._set_rates()
        elif self._entered:
            self._entered = frozenset()
            self._set_rates()

    def remove(self, job: int) -> None:
        """Take away a job that has not ended (see `ProcessCluster.remove`)."""
        record = self.jobs.pop(job)
        record.stop(self.now_us)
        self._take_away([record])
        self._set_rates()

    def advance(self, until_us: int) -> Reached:
        """Go on to ``until_us`` or to the first instant at which a job ends (see `ProcessCluster.advance`)."""
        while self._due_us <= until_us:
            self.now_us = max(self.now_us, self._due_us)
            due = [job for job in self._situation.able if job.rate and job.due_us() <= self.now_us]
            ended = [job for job in due if job.end_loop()]
            self._entered = frozenset()
            if ended:
                for job in ended:
                    del self.jobs[job.number]
                self._take_away(ended)
            self._set_rates()
            if ended:
                return Reached(self.now_us, tuple([job.number for job in ended]))
        self.now_us = max(self.now_us, until_us)
        return Reached(self.now_us, ())

    def consumed_us(self, job: int) -> int:
        """Return the CPU time of a job's processes (see `ProcessCluster.consumed_us`)."""
        record = self.jobs.get(job) or self._used[job]
        return record.used_us(self.now_us)[0] * len(record.places)

    def progress(self, job: int) -> float:
        """Return the share of its program that a job has done (see `ProcessCluster.progress`)."""
        if job not in self.jobs:
            raise InvariantError(f"job {job} is not on its nodes")
        return self.jobs[job].share(self.now_us)

    @property
    def simulated(self) -> float:
        """Return 0: what is simulated is kept for later (see `ProcessCluster.simulated`)."""
        return 0.0

    def counters(self) -> None:
        """Return None (see `ProcessCluster.counters`)."""

    def collect(self) -> list[ProcessUse]:
        """Return what was used since the last call (see `ProcessCluster.collect`)."""
        jobs: list[int] = []
        nodes: list[int] = []
        consumed: list[int] = []
        loggable: list[int] = []
        allowed: list[int] = []
        hidden_ppm = WHOLE_PPM - self.settings.io_logged_ppm
        for number, job in sorted(self._used.items()):
            job.permit(job.allowed, self.now_us)
            used = job.used_us(self.now_us)
            used_us = used[0] - job.collected_us[0]
            loggable_us = used_us - (used[1] - job.collected_us[1]) * hidden_ppm // WHOLE_PPM
            job.collected_us = used
            for there, processes, allowed_us in job.permissions():
                jobs += [number] * len(there)
                nodes += there
                consumed += [processes * used_us] * len(there)
                loggable += [processes * loggable_us] * len(there)
                allowed += [processes * allowed_us] * len(there)
        logged = self._ticks.log_us(jobs, nodes, loggable)
        self._used = {job.number: job for job in self._situation.places}
        return list(map(ProcessUse._make, zip(jobs, nodes, consumed, logged, allowed, strict=True)))

    def _enter(self, runnable: _Runnable) -> None:
        """Go over to a situation: count what the jobs of the last one did, and let those of the next one run."""
        now_us = self.now_us
        before = self._situation
        after = self._situations.get(runnable)
        if after is None:
            if len(self._situations) >= _MOST_SITUATIONS:
                self._situations.clear()
            after = self._situations[runnable] = _Situation(runnable, self.jobs)
        for job in before.places:
            if job not in after.places:
                job.permit((), now_us)
        for job, nodes in after.places.items():
            job.permit(nodes, now_us)
            self._used[job.number] = job
        for job in before.able:
            if job not in after.entries:
                job.stop(now_us)
        self._situation = after

    def _take_away(self, jobs: Sequence[FluidJob]) -> None:
        """Let the others run on where these jobs were."""
        numbers = {job.number for job in jobs}
        for job in jobs:
            job.permit((), self.now_us)
            for node in job.nodes:
                self._memories[node].leave((job.number, node))
        for runnable in [each for each, one in self._situations.items() if not one.places.keys().isdisjoint(jobs)]:
            del self._situations[runnable]  # a number may come back on other nodes
        before = self._runnable
        self._runnable = tuple([tuple([number for number in there if number not in numbers]) for there in before])
        self._enter(self._runnable)
        if self.settings.memory_mb:
            for node in sorted({node for job in jobs for node in job.nodes}):
                self._admit(node, self._runnable[node])

    def _admit(self, node: int, numbers: Sequence[int]) -> None:
        memory = self._memories[node]
        moved = memory.admit(
            {(number, node): self.jobs[number].memory_mb * self.jobs[number].processes[node] for number in numbers}
        )
        for (number, _), moved_mb in moved.items():
            done_us = self._swaps[node].serve(self.now_us, swap_us(moved_mb, self.settings))
            self.jobs[number].ready_us = max(self.jobs[number].ready_us, done_us)

    # Must be called after anything that may have changed which jobs run, which loop one is in, or what memory is missing: between
    # two calls every job goes on at its rate, and `advance` looks only at the due time that is set here. A job is settled at its
    # old rate just before it gets a new one.
    def _set_rates(self) -> None:
        """Give each job that runs its rate, unless its memory is still being read."""
        situation = self._situation
        now_us = self.now_us
        missing = self._nothing_missing
        active = situation.able
        names: tuple[int, ...] = ()
        if self.settings.memory_mb:
            missing = tuple([memory.missing_ppm // _STEP_PPM * _STEP_PPM for memory in self._memories])
            active = [job for job in active if job.ready_us <= now_us]
            names = tuple([job.number for job in active])
        entries: tuple[int, ...] = ()
        if self._entered and any(job.stage.kind.feels_quanta for job in active):
            entries = tuple([situation.entries[job] if job in self._entered else 0 for job in active])
        key = (tuple([job.index for job in active]), entries, names, missing)
        rates = situation.rates.get(key)
        if rates is None:
            rates = self._rates.find(active, entries or (0,) * len(active), missing)
            situation.rates[key] = rates
        due_us = min([job.ready_us for job in situation.able if job.ready_us > now_us], default=_NEVER_US)
        for job, rate in zip(active, rates, strict=True):
            if rate != job.rate:
                job.settle(now_us)
                job.rate = rate
            if rate:
                due_us = min(due_us, job.due_us())
        self._due_us = due_us
