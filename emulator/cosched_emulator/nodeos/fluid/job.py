"""A job of the fluid cluster: its processes progress together, at one rate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from cosched_emulator.nodeos.fluid.bodies import Body
from cosched_emulator.nodeos.fluid.neighbourhoods import Kind
from cosched_emulator.nodeos.work import Work


class Stage(NamedTuple):
    """A loop of a job."""

    times: int
    body: Body
    kind: Kind
    work: Work  # of one iteration


class FluidJob:
    """A job, what it has done and used, and where it may run."""

    __slots__ = (
        "alike",
        "allowed",
        "begins_us",
        "collected_us",
        "counted_us",
        "cpu_us",
        "done",
        "index",
        "io_us",
        "memory_mb",
        "nodes",
        "number",
        "part_us",
        "places",
        "processes",
        "rate",
        "ready_us",
        "since_us",
        "stage",
        "stages",
        "whole_us",
    )

    def __init__(
        self, number: int, stages: Sequence[Stage], places: tuple[int, ...], memory_mb: int, now_us: int
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
