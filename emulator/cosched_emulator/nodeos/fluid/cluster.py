"""The fluid cluster: whole jobs progress at measured rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, count
from math import ceil

from cosched_emulator.errors import ConfigurationError, InvariantError
from cosched_emulator.nodeos.accounting import log_times_us
from cosched_emulator.nodeos.cluster import Reached, Usage
from cosched_emulator.nodeos.devices import FifoServer
from cosched_emulator.nodeos.fluid.patterns import Placed, body_of, groups, neighbourhood, pattern_of, writes_shared
from cosched_emulator.nodeos.fluid.windows import Windows
from cosched_emulator.nodeos.local.catalogue import most_alike
from cosched_emulator.nodeos.memory import NodeMemory, swap_us
from cosched_emulator.nodeos.programs import Program
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.work import Work
from cosched_hwmodel.units import WHOLE_PPM

_MOST_KNOWN = 10_000
_PAIR = 2
_STEP_PPM = 10_000  # of the memory that is missing, in patterns


class _Job:
    """A job whose processes progress together."""

    __slots__ = (
        "allowed",
        "allowed_us",
        "begins_us",
        "collected_us",
        "counted_us",
        "cpu_us",
        "done",
        "entry",
        "index",
        "io_us",
        "memory_mb",
        "number",
        "placed",
        "places",
        "processes",
        "rate",
        "ready_us",
        "since_us",
        "works",
    )

    def __init__(self, number: int, placed: list[Placed], works: list[tuple[int, Work]], memory_mb: int) -> None:
        self.number = number
        self.placed = placed  # by loop
        self.works = works  # by loop: iterations, and what each needs
        self.begins_us = list(accumulate((times * work.length_us for times, work in works), initial=0))  # alone
        self.memory_mb = memory_mb
        self.places = placed[0].places
        self.processes = {node: self.places.count(node) for node in self.places}
        self.index = 0  # of the loop
        self.done = 0.0  # iterations of the loop
        self.rate = 0.0  # iterations in a microsecond
        self.entry = 0  # see `Pattern.entries`
        self.ready_us = 0  # when its memory has been read
        self.cpu_us = 0.0  # used by each process
        self.io_us = 0.0  # of that, for I/O
        self.collected_us = (0, 0)  # cpu_us and io_us at the last `collect`
        self.allowed: set[int] = set()  # nodes
        self.allowed_us = dict.fromkeys(self.processes, 0)  # since the last `collect`
        self.since_us = 0  # from when on progress has not been counted
        self.counted_us = 0  # from when on permission has not been counted

    def settle(self, now_us: int) -> None:
        """Count progress up to now: where the rate changes, and nowhere else, so that no other call changes numbers."""
        if self.rate:
            self._progress(self._iterations(now_us))
        self.since_us = now_us

    def count_allowed(self, now_us: int) -> None:
        """Count for how long the job might run."""
        span_us = now_us - self.counted_us
        self.counted_us = now_us
        for node in self.allowed:
            self.allowed_us[node] += span_us

    def used_us(self, now_us: int) -> tuple[int, int]:
        """Return the CPU time that each process has used up to now, and what of it for I/O."""
        iterations = self._iterations(now_us)
        if not iterations:
            return int(self.cpu_us), int(self.io_us)
        work = self.works[self.index][1]
        return int(self.cpu_us + iterations * work.cpu_us), int(self.io_us + iterations * work.io_us)

    def share(self, now_us: int) -> float:
        """Return the share of its program that the job has done up to now."""
        times, work = self.works[self.index]
        done = min(float(times), self.done + self._iterations(now_us))
        return (self.begins_us[self.index] + done * work.length_us) / self.begins_us[-1]

    def due_us(self) -> int | None:
        """Return when the loop ends at the present rate, or the job's memory has been read; None if neither is to come."""
        if self.rate:
            return self.since_us + max(0, ceil((self.works[self.index][0] - self.done) / self.rate))
        return self.ready_us if self.ready_us > self.since_us else None

    def end_loop(self) -> bool:
        """Go on to the next loop; return whether the job has ended."""
        self._progress(self.works[self.index][0] - self.done)
        self.index += 1
        self.done = self.rate = 0.0
        return self.index == len(self.works)

    def _iterations(self, now_us: int) -> float:
        """Return how many have passed since progress was counted."""
        return min(self.rate * (now_us - self.since_us), self.works[self.index][0] - self.done) if self.rate else 0.0

    def _progress(self, iterations: float) -> None:
        work = self.works[self.index][1]
        self.done += iterations
        self.cpu_us += iterations * work.cpu_us
        self.io_us += iterations * work.io_us


class FluidCluster:
    """Nodes of one CPU on which whole jobs progress at rates; a `Cluster`.

    Rates are measured by `Windows`, which clusters of the same settings may share. All processes of a job do the same:
    the job progresses only while all may run. A job uses the CPU time of its program in the mean. Without ``rounded`` each
    situation is measured as it is; with it, those that are nearly the same are measured once (`pattern_of`,
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
        self.jobs: dict[int, _Job] = {}
        self._nodes = nodes
        self._most_alike = most_alike(settings.local) if rounded else 0
        self._seed = seed
        self._serials = count()
        self._memories = [NodeMemory(settings.memory_mb) for _ in range(nodes)]
        self._swaps = [FifoServer() for _ in range(nodes)]
        self._runnable: list[tuple[int, ...]] = [()] * nodes
        self._running: list[_Job] = []  # the rates of all others are 0
        self._used: dict[int, _Job] = {}
        self._known: dict[
            tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]], list[float]
        ] = {}  # rates of jobs in their loops

    def start(self, job: int, program: Program, places: Sequence[int], memory_mb: int = 0) -> None:
        """Put the processes of a job on nodes, stopped (see `Cluster.start`)."""
        if job in self.jobs:
            raise InvariantError(f"job {job} is on its nodes already")
        if not places or not all(0 <= node < self._nodes for node in places):
            raise ConfigurationError("places", f"nodes from 0 to {self._nodes - 1}", repr(list(places)))
        if self.settings.memory_mb and memory_mb > self.settings.memory_mb:
            raise ConfigurationError("memory_mb", f"at most the node's {self.settings.memory_mb} MB", str(memory_mb))
        program.check(len(places))
        placed = [Placed(body_of(loop), tuple(places)) for loop in program.loops]
        works = [
            (loop.times, Work(one.body, len(places), self.settings))
            for loop, one in zip(program.loops, placed, strict=True)
        ]
        self.jobs[job] = _Job(job, placed, works, memory_mb)
        self.jobs[job].since_us = self.jobs[job].counted_us = self.now_us

    def allow(self, now_us: int, runnable: Mapping[int, Sequence[int]]) -> None:
        """Let the jobs listed for each node run there and stop all others (see `Cluster.allow`)."""
        if now_us < self.now_us:
            raise InvariantError(f"time {now_us} us is before {self.now_us} us, up to which the cluster has advanced")
        self.now_us = now_us
        chosen = [tuple(runnable.get(node, ())) for node in range(self._nodes)]
        if chosen == self._runnable:
            if any(job.entry for job in self._running):
                self._enter({})
                self._set_rates()
            return
        changed = {job for new, old in zip(chosen, self._runnable, strict=True) if new != old for job in (*new, *old)}
        for number in changed & self.jobs.keys():
            self.jobs[number].count_allowed(now_us)
        for node, (new, old) in enumerate(zip(chosen, self._runnable, strict=True)):
            if new == old:
                continue
            for number in old:
                if number in self.jobs:
                    self.jobs[number].allowed.discard(node)
            for number in new:
                job = self.jobs.get(number)
                if job is None or node not in job.processes:
                    raise InvariantError(f"job {number} has no process on node {node}")
                job.allowed.add(node)
                self._used[number] = job
            self._admit(node, new)
        self._runnable = chosen
        before = set(self._running)
        self._running = self._able()
        self._enter(
            {
                job: 1 + max(chosen[node].index(job.number) for node in job.processes)
                for job in self._running
                if job not in before
            }
        )
        self._set_rates()

    def remove(self, job: int) -> None:
        """Take away a job that has not ended (see `Cluster.remove`)."""
        record = self.jobs.pop(job)
        record.settle(self.now_us)
        record.rate = 0.0
        self._remove(record)
        self._known.clear()  # the number may come back on other nodes
        if record in self._running:
            self._running = self._able()
            self._enter({})
            self._set_rates()

    def advance(self, until_us: int) -> Reached:
        """Go on to ``until_us`` or to the first instant at which a job ends (see `Cluster.advance`)."""
        while True:
            dues = [(due_us, job) for job in self._running if (due_us := job.due_us()) is not None]
            self.now_us = max(self.now_us, min([until_us, *(due_us for due_us, _ in dues)]))
            due = [job for due_us, job in dues if due_us <= self.now_us]
            if not due:
                return Reached(self.now_us, ())
            for job in self._running:
                job.settle(self.now_us)
            ended = tuple(sorted(job.number for job in due if job.rate and job.end_loop()))
            for number in ended:
                self._remove(self.jobs.pop(number))
            self._running = self._able()
            self._enter({})
            self._set_rates()
            if ended:
                return Reached(self.now_us, ended)

    def consumed_us(self, job: int) -> int:
        """Return the CPU time of a job's processes (see `Cluster.consumed_us`)."""
        record = self.jobs.get(job) or self._used[job]
        return record.used_us(self.now_us)[0] * len(record.places)

    def progress(self, job: int) -> float:
        """Return the share of its program that a job has done (see `Cluster.progress`)."""
        if job not in self.jobs:
            raise InvariantError(f"job {job} is not on its nodes")
        return self.jobs[job].share(self.now_us)

    def collect(self) -> list[Usage]:
        """Return what was used since the last call (see `Cluster.collect`)."""
        rows: list[tuple[int, int, int, int, int, int]] = []  # job, node, processes, consumed, loggable, allowed
        hidden_ppm = WHOLE_PPM - self.settings.io_logged_ppm
        for number in sorted(self._used):
            job = self._used[number]
            job.count_allowed(self.now_us)
            cpu_us, io_us = job.used_us(self.now_us)
            used_us = cpu_us - job.collected_us[0]
            loggable_us = used_us - (io_us - job.collected_us[1]) * hidden_ppm // WHOLE_PPM
            job.collected_us = (cpu_us, io_us)
            for node in sorted(node for node, allowed_us in job.allowed_us.items() if allowed_us):
                rows.append((number, node, job.processes[node], used_us, loggable_us, job.allowed_us[node]))
                job.allowed_us[node] = 0
        logged = log_times_us(
            self._seed,
            next(self._serials),
            [(row[0], row[1]) for row in rows],
            [row[2] * row[4] for row in rows],
            self.settings.tick_us,
        )
        self._used = {number: self.jobs[number] for numbers in self._runnable for number in numbers}
        return [
            Usage(job, node, processes * used_us, logged_us, processes * allowed_us)
            for (job, node, processes, used_us, _, allowed_us), logged_us in zip(rows, logged, strict=True)
        ]

    def _admit(self, node: int, numbers: Sequence[int]) -> None:
        memory = self._memories[node]
        moved = memory.admit(
            {(number, node): self.jobs[number].memory_mb * self.jobs[number].processes[node] for number in numbers}
        )
        for (number, _), moved_mb in moved.items():
            done_us = self._swaps[node].serve(self.now_us, swap_us(moved_mb, self.settings))
            self.jobs[number].ready_us = max(self.jobs[number].ready_us, done_us)

    def _remove(self, job: _Job) -> None:
        job.count_allowed(self.now_us)
        job.allowed.clear()
        for node in job.processes:
            self._memories[node].leave((job.number, node))
            self._runnable[node] = tuple(number for number in self._runnable[node] if number != job.number)
            self._admit(node, self._runnable[node])

    def _set_rates(self) -> None:
        """Give each job that runs its rate, unless its memory is still being read."""
        active = [job for job in self._running if job.ready_us <= self.now_us]
        missing = tuple(memory.missing_ppm // _STEP_PPM * _STEP_PPM for memory in self._memories)
        key = (tuple((job.number, job.index, job.entry) for job in active), missing)
        rates = self._known.get(key)
        if rates is None:
            if len(self._known) >= _MOST_KNOWN:  # most of them are of jobs that have ended
                self._known.clear()
            rates = self._known[key] = self._find_rates(active, missing)
        for job, rate in zip(active, rates, strict=True):
            job.rate = rate

    def _able(self) -> list[_Job]:
        """Return the jobs that may run on all of their nodes; the others do not progress."""
        for job in self._running:
            job.settle(self.now_us)
            job.rate = 0.0
        numbers = sorted({number for numbers in self._runnable for number in numbers})
        able = [job for job in map(self.jobs.__getitem__, numbers) if len(job.allowed) == len(job.processes)]
        for job in able:
            job.settle(self.now_us)
        return able

    def _enter(self, entries: Mapping[_Job, int]) -> None:
        """Note which jobs have been stopped until now; the others that run go on."""
        for job in self._running:
            job.settle(self.now_us)
            job.rate = 0.0
            job.entry = entries.get(job, 0)

    def _find_rates(self, jobs: Sequence[_Job], missing: Sequence[int]) -> list[float]:
        placed = [job.placed[job.index]._replace(entry=job.entry) for job in jobs]
        rates = [0.0] * len(jobs)
        for group in groups(placed):
            if len(group) == 1:
                rates[group[0]] = self._alone(placed[group[0]], missing)
                continue
            for index in group:
                rates[index] = self._alone(placed[index]._replace(entry=0), missing)
            together = [placed[index] for index in group]
            if not self._most_alike or any(writes_shared(job.body) for job in together):
                slowed = self._slowed(together, missing)
            elif self._most_used(jobs, group, rates) > 1:  # such rates vary in exact runs, too: a short window will do
                slowed = self._slowed(together, missing, brief=True)
            else:
                slowed = self._slowed_by_neighbours(together, missing)
            for index, ratio in zip(group, slowed, strict=True):
                rates[index] *= ratio
            most = self._most_used(jobs, group, rates)
            if most > 1:  # the errors of measured rates add up to more than a CPU's time
                for index in group:
                    rates[index] /= most
        return rates

    def _slowed(self, jobs: Sequence[Placed], missing: Sequence[int], brief: bool = False) -> list[float]:
        """Return the rate of each job of a group that runs together, relative to its rate alone."""
        pattern, names = pattern_of(jobs, missing, self._most_alike, brief=brief)
        together = self.windows.rates(pattern)
        return [together[name] / self.windows.alone(pattern, name) for name in names]

    def _slowed_by_neighbours(self, jobs: Sequence[Placed], missing: Sequence[int]) -> list[float]:
        """Return the same if each job is put together only with those that it meets, on its own nodes.

        What its neighbours meet elsewhere hardly matters as long as no CPU is asked for more than its time.
        """
        slowed = []
        for index in range(len(jobs)):
            around = neighbourhood(jobs, index, self._most_alike)
            many = len(around) > _PAIR  # there are many such situations, whose errors cancel out
            centre = 0 if many else -1  # of a pair, the other one will be asked for too
            pattern, names = pattern_of(around, missing, self._most_alike, centre, many)
            slowed.append(self.windows.rates(pattern)[names[0]] / self.windows.alone(pattern, names[0]))
        return slowed

    def _alone(self, placed: Placed, missing_ppm: Sequence[int]) -> float:
        return self.windows.rates(pattern_of([placed], missing_ppm)[0])[0]

    def _most_used(self, jobs: Sequence[_Job], group: Sequence[int], rates: Sequence[float]) -> float:
        """Return the greatest share of its time that a CPU is used at these rates."""
        used: dict[int, float] = {}
        for index in group:
            job = jobs[index]
            for node, processes in job.processes.items():
                used[node] = used.get(node, 0.0) + rates[index] * job.works[job.index][1].cpu_us * processes
        return max(used.values())
