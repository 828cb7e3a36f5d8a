"""The rates of jobs that run together: which jobs influence each other, and which windows tell how much."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from cosched_emulator.nodeos.fluid import patterns
from cosched_emulator.nodeos.fluid.situations import Windows, feels_quanta
from cosched_emulator.nodeos.local import depends_on_fractions
from cosched_emulator.nodeos.work_alone import IterationNeed

# A job of the fluid cluster: its processes progress together, at one rate.


class FluidStage(NamedTuple):
    """A loop of a job."""

    times: int
    body: patterns.Body
    kind: patterns.Kind
    work: IterationNeed  # of one iteration


class FluidJob:
    """A job, what it has done and used, and where it may run."""

    def __init__(
        self, number: int, stages: Sequence[FluidStage], places: tuple[int, ...], memory_mb: int, now_us: int
    ) -> None:
        self.number = number
        self.stages = stages
        self.begins_us = list(accumulate((one.times * one.work.length_us for one in stages), initial=0))  # if alone
        self.memory_mb = memory_mb
        self.places = places
        self.nodes = tuple(sorted(set(places)))
        self.processes = {node: places.count(node) for node in self.nodes}
        counts = set(self.processes.values())
        self.alike = counts.pop() if len(counts) == 1 else 0  # processes on each node; 0: not the same on all
        self.index = 0  # of the loop
        self.stage = stages[0]
        self.done = 0.0  # iterations of the loop
        self.rate = 0.0  # iterations in a microsecond
        self.ready_us = 0  # when its memory has been read
        self.cpu_us = 0.0  # used by each process
        self.io_us = 0.0  # of that, for I/O
        self.collected_us = (0, 0)  # what `used_us` said at the last `collect`
        self.allowed: tuple[int, ...] = ()  # nodes where it may run
        self.whole_us = 0  # for how long it could run on all of its nodes since the last `collect`
        self.part_us: dict[int, int] = {}  # and on some of them only, by node
        self.since_us = now_us  # from when on progress has not been counted
        self.counted_us = now_us  # from when on permission has not been counted

    def settle(self, now_us: int) -> None:
        """Count progress up to now: where the rate changes, and nowhere else, so that no other call changes numbers."""
        if self.rate:
            self._progress(self._iterations(now_us))
        self.since_us = now_us

    def stop(self, now_us: int) -> None:
        """Count progress up to now, and make none from now on."""
        self.settle(now_us)
        self.rate = 0.0

    def permit(self, nodes: tuple[int, ...], now_us: int) -> None:
        """Count for how long the job might run, and let it run on these nodes from now on."""
        span_us = now_us - self.counted_us
        if span_us:
            if len(self.allowed) == len(self.nodes):
                self.whole_us += span_us
            else:
                for node in self.allowed:
                    self.part_us[node] = self.part_us.get(node, 0) + span_us
        self.counted_us = now_us
        self.allowed = nodes

    def permissions(self) -> list[tuple[Sequence[int], int, int]]:
        """Return nodes, the processes on each, and for how long these could run since the last call."""
        whole_us, part_us = self.whole_us, self.part_us
        self.whole_us = 0
        if not part_us and self.alike:
            return [(self.nodes, self.alike, whole_us)] if whole_us else []
        self.part_us = {}
        found = [((node,), processes, whole_us + part_us.get(node, 0)) for node, processes in self.processes.items()]
        return [each for each in found if each[2]]

    def used_us(self, now_us: int) -> tuple[int, int]:
        """Return the CPU time that each process has used up to now, and what of it for I/O."""
        if not self.rate:
            return int(self.cpu_us), int(self.io_us)
        iterations = self._iterations(now_us)
        work = self.stage.work
        return int(self.cpu_us + iterations * work.cpu_us), int(self.io_us + iterations * work.io_us)

    def share(self, now_us: int) -> float:
        """Return the share of its program that the job has done up to now."""
        done = self.done + self._iterations(now_us)
        return (self.begins_us[self.index] + done * self.stage.work.length_us) / self.begins_us[-1]

    def due_us(self) -> int:
        """Return when the loop ends at the present rate, which is not 0."""
        return self.since_us + ceil((self.stage.times - self.done) / self.rate)

    def end_loop(self) -> bool:
        """Go on to the next loop; return whether the job has ended."""
        self._progress(self.stage.times - self.done)
        self.index += 1
        self.done = self.rate = 0.0
        if self.index == len(self.stages):
            return True
        self.stage = self.stages[self.index]
        return False

    def _iterations(self, now_us: int) -> float:
        """Return how many have passed since progress was counted."""
        return min(self.rate * (now_us - self.since_us), self.stage.times - self.done)

    def _progress(self, iterations: float) -> None:
        work = self.stage.work
        self.done += iterations
        self.cpu_us += iterations * work.cpu_us
        self.io_us += iterations * work.io_us


_MOST_EXACT = 16  # nodes of a job alone; of larger numbers the next power of 2 is measured
_MOST_TOGETHER = 2  # jobs on a node of which neighbourhoods know


class Rates:
    """Finds the rates of jobs in windows. Without ``round_off`` each situation is measured as it is."""

    def __init__(self, windows: Windows, *, round_off: bool) -> None:
        self.windows = windows
        self._settings = windows.settings
        self._round_off = round_off
        self._round_bodies = round_off and not depends_on_fractions(windows.settings.local)
        self._kinds: list[patterns.Kind] = []
        self._kind_of: dict[object, patterns.Kind] = {}
        self._first_far: dict[object, int] = {}
        self._slowed: dict[patterns.Neighbourhood, float] = {}
        self._alone: dict[tuple[int, int], float] = {}  # by kind and nodes: iterations in the time of one, nominally

    def work_of(self, body: patterns.Body, processes: int) -> IterationNeed:
        """Return what an iteration of a body needs in a job with this number of processes."""
        return IterationNeed(body, processes, self._settings)

    def kind_of(self, body: patterns.Body, places: Sequence[int]) -> patterns.Kind:
        """Return the kind of a job that repeats a body on these nodes."""
        processes = max(places.count(node) for node in set(places))
        shared = len(places) if patterns.writes_shared(body) else 0  # the length of its iterations depends on it
        key = (body, patterns.types_of(body), processes, shared)
        kind = self._kind_of.get(key)
        if kind is None:
            kind = self._kind_of[key] = self._new_kind(body, processes, shared or 1)
            self._kinds.append(kind)
        return kind

    def find(self, jobs: Sequence[FluidJob], entries: Sequence[int], missing_ppm: Sequence[int]) -> list[float]:
        """Return the iterations in a microsecond of jobs that run together.

        ``entries`` is by job (see `Pattern.entries`), ``missing_ppm`` by node: of its memory, what does not fit.
        """
        on_node: dict[int, list[int]] = {}
        for index, job in enumerate(jobs):
            for node in job.nodes:
                on_node.setdefault(node, []).append(index)
        meets: list[dict[int, int]] = [{} for _ in jobs]
        for there in on_node.values():
            for index in there:
                for other in there:
                    if other != index:
                        meets[index][other] = meets[index].get(other, 0) + 1
        crowded = {index for there in on_node.values() if len(there) > _MOST_TOGETHER for index in there}
        crowded.update(index for node, there in on_node.items() if missing_ppm[node] for index in there)
        rates = [0.0] * len(jobs)
        for group in _groups(jobs, meets):
            if len(group) == 1 and group[0] not in crowded:
                rates[group[0]] = self._rate_alone(jobs[group[0]])
                continue
            of_group = [jobs[index] for index in group]
            felt = any(job.stage.kind.feels_quanta for job in of_group)
            entered = [entries[index] if felt else 0 for index in group]
            if crowded.isdisjoint(group) and self._has_neighbourhoods({job.stage.kind for job in of_group}):
                names = {index: place for place, index in enumerate(group)}
                members = [
                    patterns.Member(
                        job.stage.kind,
                        entry,
                        len(job.nodes),
                        {names[other]: nodes for other, nodes in meets[index].items()},
                    )
                    for index, job, entry in zip(group, of_group, entered, strict=True)
                ]
                slowed = self._slowed_by_neighbours(members)
            else:
                slowed = self._slowed_as_group(of_group, entered, missing_ppm)
            for index, ratio in zip(group, slowed, strict=True):
                rates[index] = self._rate_alone(jobs[index]) * ratio
            _keep_within_cpus(jobs, group, rates)
        return rates

    def _new_kind(self, body: patterns.Body, processes: int, writers: int) -> patterns.Kind:
        work = self.work_of(body, writers)
        fine = far = body
        if self._round_bodies and not patterns.writes_shared(body):
            fine = patterns.rounded(body, work.length_us, work.cpu_us, patterns.SHARES)
            far = patterns.rounded(body, work.length_us, work.cpu_us, patterns.FAR_SHARES)
        number = len(self._kinds)
        felt = feels_quanta(work, self.windows.quantum_us)
        return patterns.Kind(
            number,
            fine,
            far,
            self._first_far.setdefault((far, patterns.types_of(far), processes), number),
            self._weight(fine, processes, writers),
            self._weight(far, processes, writers),
            processes,
            felt,
            patterns.writes_shared(body),
        )

    def _weight(self, body: patterns.Body, processes: int, writers: int) -> tuple[float, str]:
        work = self.work_of(body, writers)
        return processes * work.cpu_us / work.length_us, repr(body)

    def _rate_alone(self, job: FluidJob) -> float:
        """Return the rate of a job alone: that of its kind, for iterations as long as its own."""
        kind = job.stage.kind
        nodes = len(job.nodes)
        key = (kind.number, nodes)
        relative = self._alone.get(key)
        if relative is None:
            measured = nodes
            if not kind.writes_shared and nodes > _MOST_EXACT:
                measured = 1 << (nodes - 1).bit_length()
            length_us = self.work_of(kind.body, measured * kind.processes).length_us
            pattern = patterns.alone(kind.body, measured, kind.processes)
            relative = self._alone[key] = self.windows.rates(pattern)[0] * length_us
        return relative / job.stage.work.length_us

    def _has_neighbourhoods(self, kinds: Collection[patterns.Kind]) -> bool:
        """Return whether what is not near a job of these kinds may be left out."""
        if not self._round_off or any(kind.writes_shared for kind in kinds):
            return False
        return self._round_bodies or len(kinds) == 1

    def _slowed_as_group(
        self, jobs: Sequence[FluidJob], entries: Sequence[int], missing_ppm: Sequence[int]
    ) -> list[float]:
        """Return the rates of jobs together relative to those alone, from a window of all of them on all of their nodes."""
        placed = [patterns.Placed(job.stage.body, job.places, entry) for job, entry in zip(jobs, entries, strict=True)]
        pattern, names = patterns.pattern_of(placed, missing_ppm)
        together = self.windows.rates(pattern)
        return [together[name] / self.windows.alone(pattern, name) for name in names]

    def _slowed_by_neighbours(self, group: Sequence[patterns.Member]) -> list[float]:
        """Return the same, from a window for each job and its neighbourhood."""
        slowed = []
        for centre in range(len(group)):
            around = patterns.neighbourhood(group, centre, with_free=not self._round_bodies)
            ratio = self._slowed.get(around)
            if ratio is None:
                pattern, name = patterns.pattern_around(around, self._kinds)
                ratio = self.windows.rates(pattern)[name] / self.windows.alone(pattern, name)
                self._slowed[around] = ratio
            slowed.append(ratio)
        return slowed


def _groups(jobs: Sequence[FluidJob], meets: Sequence[dict[int, int]]) -> list[list[int]]:
    """Return the indices of jobs that influence each other, group by group: on nodes, or at the server for files."""
    writers = [index for index, job in enumerate(jobs) if job.stage.kind.writes_shared]
    found: list[list[int]] = []
    seen: set[int] = set()
    for index in range(len(jobs)):
        if index in seen:
            continue
        group = [index]
        seen.add(index)
        for member in group:
            linked = [*meets[member], *writers] if member in writers else meets[member]
            for other in linked:
                if other not in seen:
                    seen.add(other)
                    group.append(other)
        found.append(sorted(group))
    return found


def _keep_within_cpus(jobs: Sequence[FluidJob], group: Sequence[int], rates: list[float]) -> None:
    """Slow jobs down on nodes where the errors of measured rates add up to more than a CPU's time."""
    used: dict[int, float] = {}
    for index in group:
        job = jobs[index]
        each = rates[index] * job.stage.work.cpu_us
        for node, processes in job.processes.items():
            used[node] = used.get(node, 0.0) + each * processes
    if max(used.values()) > 1:
        for index in group:
            rates[index] /= max(1.0, *(used[node] for node in jobs[index].nodes))
