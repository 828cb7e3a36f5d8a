"""How much work a job has: useful CPU time of all its processes, by iteration and by phase."""

from __future__ import annotations

from bisect import bisect_right
from hashlib import sha256
from typing import Final, NamedTuple

from cosched_emulator.nodeos.programs import Barrier, Collective, Operation, Program, Receive, Send, WriteFiles
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.work import Work

_TOGETHER: Final = (Send, Receive, Barrier, Collective)
_BRIEF_US: Final = 1_000_000  # a loop that takes less alone belongs to the phase of the loop before it


class Stage(NamedTuple):
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
        self.stages: list[Stage] = []
        self.phase_ends_us: list[int] = []
        begin_us = 0
        for number, loop in enumerate(program.loops):
            bodies = tuple([loop.body_of(rank) for rank in range(processes)])
            works = {id(body): Work(body, processes, settings) for body in bodies}
            work_us = sum(works[id(body)].cpu_us for body in bodies)
            points = 0 if work_us else 1
            rank_us = tuple([points or works[id(body)].cpu_us for body in bodies])
            apart = not any(isinstance(item, _TOGETHER) for body in bodies for item in body)
            length_us = max(work.length_us for work in works.values())
            if not self.phase_ends_us or loop.times * length_us >= _BRIEF_US:
                self.phase_ends_us.append(0)
            phase = len(self.phase_ends_us) - 1
            stage = Stage(number, loop.times, begin_us, sum(rank_us), length_us, phase, bodies, rank_us, apart, points)
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

    def key(self, stage: Stage) -> str:
        """Return a text that loops with the same bodies have in common, and no others."""
        if stage.loop not in self._keys:
            alike = all(body is stage.bodies[0] for body in stage.bodies)
            text = repr((self.processes, stage.bodies[:1] if alike else stage.bodies))
            self._keys[stage.loop] = sha256(text.encode()).hexdigest()
        return self._keys[stage.loop]

    def phase_after(self, work_us: int) -> int:
        """Return the phase of a job that has done so much."""
        return min(bisect_right(self.phase_ends_us, work_us), len(self.phase_ends_us) - 1)

    def longest(self, phase: int) -> Stage:
        """Return the loop that has most of the work of a phase."""
        return max((stage for stage in self.stages if stage.phase == phase), key=lambda one: one.end_us - one.begin_us)
