"""A job whose processes are simulated at times, and else progress at a rate: what it has done and used."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from cosched_emulator.nodeos.programs import Barrier, Collective, Operation, Program, Receive, Send, WriteFiles
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.simulated_process import ParallelJob, Process
from cosched_emulator.nodeos.work_alone import IterationNeed

# How much work a job has: useful CPU time of all its processes, by iteration and by phase.

_TOGETHER: Final = (Send, Receive, Barrier, Collective)
# A loop that takes less alone belongs to the phase of the loops before it, unless their rate of work would make the phase longer or
# shorter by this part: a loop of I/O, with little CPU time, would be over at once at the rate of one that computes.
_BRIEF_US: Final = 1_000_000
_OTHER_RATE: Final = 0.02


class WindowStage(NamedTuple):
    """A loop of a job."""

    loop: int  # its number
    times: int
    begin_us: int  # work of all loops before it
    work_us: int  # of one iteration: CPU time of all processes, or points
    length_us: int  # of one iteration alone, about
    phase: int
    bodies: tuple[tuple[Operation, ...], ...]  # by rank
    rank_us: tuple[int, ...]  # work of one iteration by rank
    apart: bool  # no process waits for another one in it
    points: int  # of one iteration of a process: 1 where the loop uses no CPU, so that its progress counts

    @property
    def end_us(self) -> int:
        """Return the work of all loops up to its end."""
        return self.begin_us + self.times * self.work_us


class Extent:
    """The work of a job by loop, in microseconds of CPU time of all its processes.

    It is what computing and I/O need in the mean, without messages and spinning. A loop that needs none counts a microsecond for
    each iteration of a process. A *phase* is a part of the program in which the job progresses at one rate.
    """

    def __init__(self, program: Program, processes: int, settings: NodeSettings) -> None:
        self.processes = processes
        self.stages: list[WindowStage] = []
        self.phase_ends_us: list[int] = []
        begin_us = 0
        phase_us = phase_work_us = 0  # of the last phase: how long it takes alone, about, and its work
        for number, loop in enumerate(program.loops):
            bodies = tuple([loop.body_of(rank) for rank in range(processes)])
            works = {id(body): IterationNeed(body, processes, settings) for body in bodies}
            work_us = sum(works[id(body)].cpu_us for body in bodies)
            points = 0 if work_us else 1
            rank_us = tuple([points or works[id(body)].cpu_us for body in bodies])
            apart = not any(isinstance(item, _TOGETHER) for body in bodies for item in body)
            length_us = max(work.length_us for work in works.values())
            alone_us, loop_work_us = loop.times * length_us, loop.times * sum(rank_us)
            at_rate_us = loop_work_us * phase_us / phase_work_us if phase_work_us else 0
            other_rate = abs(at_rate_us - alone_us) > _OTHER_RATE * (phase_us + alone_us)
            if not self.phase_ends_us or alone_us >= _BRIEF_US or other_rate:
                self.phase_ends_us.append(0)
                phase_us = phase_work_us = 0
            phase_us, phase_work_us = phase_us + alone_us, phase_work_us + loop_work_us
            phase = len(self.phase_ends_us) - 1
            stage = WindowStage(
                number, loop.times, begin_us, sum(rank_us), length_us, phase, bodies, rank_us, apart, points
            )
            self.stages.append(stage)
            begin_us = stage.end_us
            self.phase_ends_us[-1] = begin_us
        self.work_us = begin_us
        self.idle = [stage.loop for stage in self.stages if stage.points]
        self.writes_shared = any(
            isinstance(operation, WriteFiles) and operation.shared and operation.files
            for stage in self.stages
            for body in stage.bodies[:1]
            for operation in body
        )
        self._keys: dict[int, str] = {}

    def key(self, stage: WindowStage) -> str:
        """Return a text that loops with the same bodies have in common, and no others."""
        if stage.loop not in self._keys:
            alike = all(body is stage.bodies[0] for body in stage.bodies)
            text = repr((self.processes, stage.bodies[:1] if alike else stage.bodies))
            self._keys[stage.loop] = sha256(text.encode()).hexdigest()
        return self._keys[stage.loop]

    def phase_after(self, work_us: int) -> int:
        """Return the phase of a job that has done so much."""
        return min(bisect_right(self.phase_ends_us, work_us), len(self.phase_ends_us) - 1)

    def longest(self, phase: int) -> WindowStage:
        """Return the loop that has most of the work of a phase."""
        return max((stage for stage in self.stages if stage.phase == phase), key=lambda one: one.end_us - one.begin_us)


_NEVER_US: Final = 1 << 62


class Use(NamedTuple):
    """CPU time of the processes of a job on one node, in microseconds."""

    consumed_us: int
    io_us: int  # of that, for I/O
    spun_us: int  # and polling for messages

    def plus(self, other: Use) -> Use:
        """Return the sum of both."""
        return Use(*[a + b for a, b in zip(self, other, strict=True)])

    def minus(self, other: Use) -> Use:
        """Return what is used more than ``other``."""
        return Use(*[a - b for a, b in zip(self, other, strict=True)])


_NOTHING = Use(0, 0, 0)


def used_by(processes: Iterable[Process]) -> Use:
    """Return what processes have used, as far as their CPUs have counted it."""
    consumed_us = io_us = spun_us = 0
    for process in processes:
        consumed_us += process.consumed_us
        io_us += process.io_us
        spun_us += process.polled_us()
    return Use(consumed_us, io_us, spun_us)


class MeasuredPace(NamedTuple):
    """The processes of a job do ``works``, and use so much on each of its nodes, in ``span_us``; from an instant on."""

    since_us: int
    span_us: int
    works: tuple[int, ...]  # by rank
    uses: tuple[Use, ...]


class WindowJob:
    """A job, with what its exact processes did (``record``) and what it did at a pace.

    What it has done is the work of its processes, that of iterations left out, and its *lag*: what it did at a pace and its
    processes still have to leave out.
    """

    def __init__(
        self,
        record: ParallelJob,
        extent: Extent,
        useful_by_rank: Callable[[int], list[int]],
        places: Sequence[int],
        memory_mb: int,
        now_us: int,
    ) -> None:
        self.number = record.number
        self.record = record
        self.extent = extent
        self._useful_by_rank = useful_by_rank
        self.places = tuple(places)
        self.nodes = tuple(sorted(set(places)))
        self.shape = tuple([self.nodes.index(node) for node in places])
        self.memory_mb = memory_mb
        self.processes = [[process for process in record.processes if process.node == node] for node in self.nodes]
        self.skipped_us = 0
        self.lags = [0] * len(places)  # by rank
        self.pace: MeasuredPace | None = None
        self.paced = False  # it has had a pace
        self.target_us = extent.work_us  # done by then, its pace is no more valid
        self._at_pace = [_NOTHING] * len(self.nodes)  # used at earlier paces
        self.collected = [_NOTHING] * len(self.nodes)  # used up to the last `collect`
        self.allowed: tuple[int, ...] = ()  # nodes where it may run
        self.allowed_us = dict.fromkeys(self.nodes, 0)  # for how long each process could since the last `collect`
        self._counted_us = now_us  # from when on that has not been counted

    def exact_works(self) -> list[int]:
        """Return the work that each process has done."""
        works = self._useful_by_rank(self.number)
        for rank, process in enumerate(self.record.processes):
            works[rank] += process.io_us
            for loop in self.extent.idle:
                if loop <= process.loop:
                    left = process.iterations_left if loop == process.loop else 0
                    works[rank] += self.extent.stages[loop].times - self.record.left_out.get(loop, 0) - left
        return works

    def exact_us(self) -> int:
        """Return the work that all processes have done."""
        return sum(self.exact_works())

    def done_us(self, now_us: int) -> int:
        """Return the work that the job has done."""
        gained_us = 0
        pace = self.pace
        if pace is not None and now_us > pace.since_us:
            gained_us = sum(pace.works) * (now_us - pace.since_us) // pace.span_us
        return self.exact_us() + self.skipped_us + sum(self.lags) + gained_us

    def use(self, index: int, now_us: int) -> Use:
        """Return what it has used on its node of that index."""
        return used_by(self.processes[index]).plus(self._at_pace[index]).plus(self._use_at_pace(index, now_us))

    def uses(self, now_us: int) -> list[Use]:
        """Return what it has used on each of its nodes."""
        return [self.use(index, now_us) for index in range(len(self.nodes))]

    def go(self, pace: MeasuredPace, target_us: int) -> None:
        """Progress at a pace until so much is done, or until `settle`."""
        self.pace = pace
        self.paced = True
        self.target_us = target_us

    def settle(self, now_us: int) -> None:
        """Count what was done at the pace, which ends."""
        pace = self.pace
        if pace is None:
            return
        self._at_pace = [use.plus(self._use_at_pace(index, now_us)) for index, use in enumerate(self._at_pace)]
        if now_us > pace.since_us:
            span_us = now_us - pace.since_us
            gains = [work_us * span_us // pace.span_us for work_us in pace.works]
            gains[0] += sum(pace.works) * span_us // pace.span_us - sum(gains)
            self.lags = [lag_us + gain_us for lag_us, gain_us in zip(self.lags, gains, strict=True)]
        self.pace = None

    def due_us(self, *, alone: bool = False) -> int:
        """Return when the target of the pace is reached, or a process has no iteration more to leave out that others have.

        The latter matters where the exact processes go on from there: not for a job that is ``alone``.
        """
        pace = self.pace
        assert pace is not None
        left_us = self.target_us - self.done_us(pace.since_us)
        gain_us = sum(pace.works)
        if not gain_us:
            return _NEVER_US
        after_us = max(0, -(-left_us * pace.span_us // gain_us))
        stage = None if alone else self._apart()
        if stage is not None:
            for process, lag_us, work_us in zip(self.record.processes, self.lags, pace.works, strict=True):
                if process.loop == stage.loop and work_us:
                    own_us = max(0, process.iterations_left * stage.rank_us[process.rank] - lag_us)
                    after_us = min(after_us, -(-own_us * pace.span_us // work_us))
        return pace.since_us + after_us

    def catch_up(self) -> None:
        """Let the processes leave out as many whole iterations as the lag allows: all the same number, unless they are apart."""
        stage = self._apart()
        if stage is not None:
            for rank, process in enumerate(self.record.processes):
                work_us = stage.rank_us[rank]
                if process.loop == stage.loop and work_us:
                    times = min(process.iterations_left, self.lags[rank] // work_us)
                    process.leave_out(times)
                    self.lags[rank] -= times * work_us
                    self.skipped_us += times * work_us
            return
        lag_us = sum(self.lags)
        first = max(0, *[process.loop for process in self.record.processes])
        for stage in self.extent.stages[first:]:
            times = self.record.leave_out(stage.loop, lag_us // stage.work_us)
            self.skipped_us += times * stage.work_us
            lag_us -= times * stage.work_us
            if lag_us < stage.work_us:
                break
        each_us, more_us = divmod(lag_us, len(self.lags))
        self.lags = [each_us + (rank < more_us) for rank in range(len(self.lags))]

    def _apart(self) -> WindowStage | None:
        """Return the loop in which a process is that is behind, if the processes there do not wait for each other."""
        loop = min([process.loop for process in self.record.processes])
        stage = self.extent.stages[max(0, loop)]
        return stage if loop >= 0 and stage.apart and not stage.points else None

    def phase(self) -> int:
        """Return the phase of the process that is behind."""
        loop = min([process.loop for process in self.record.processes])
        return self.extent.stages[max(0, loop)].phase

    def situation(self) -> tuple[int, int]:
        """Return what changes when the rates of its processes do: the phase, and how many have left a loop in which they are apart."""
        stage = self._apart()
        left = 0 if stage is None else sum(process.loop > stage.loop for process in self.record.processes)
        return self.phase(), left

    def permit(self, nodes: tuple[int, ...], now_us: int) -> None:
        """Count for how long the job might run, and let it run on these nodes from now on."""
        for node in self.allowed:
            self.allowed_us[node] += now_us - self._counted_us
        self.allowed = nodes
        self._counted_us = now_us

    def _use_at_pace(self, index: int, now_us: int) -> Use:
        pace = self.pace
        if pace is None or now_us <= pace.since_us:
            return _NOTHING
        span_us = now_us - pace.since_us
        return Use(*[us * span_us // pace.span_us for us in pace.uses[index]])
