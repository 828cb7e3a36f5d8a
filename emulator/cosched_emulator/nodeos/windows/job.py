"""A job whose processes are simulated at times, and else progress at a rate: what it has done and used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cosched_emulator.nodeos.process import ParallelJob, Process
from cosched_emulator.nodeos.windows.extent import Extent


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
        spun_us += process.spun_us
    return Use(consumed_us, io_us, spun_us)


class Pace(NamedTuple):
    """A job does ``work_us``, and uses so much on each of its nodes, in ``span_us``; from an instant on."""

    since_us: int
    span_us: int
    work_us: int
    uses: tuple[Use, ...]


class WindowJob:
    """A job, with what its exact processes did (``record``) and what it did at a pace.

    What it has done is the work of its processes, that of iterations left out, and its *lag*: what it did at a pace and its
    processes still have to leave out.
    """

    __slots__ = (
        "_at_pace",
        "_counted_us",
        "allowed",
        "allowed_us",
        "collected",
        "extent",
        "lag_us",
        "memory_mb",
        "nodes",
        "number",
        "pace",
        "paced",
        "places",
        "processes",
        "record",
        "routes",
        "shape",
        "skipped_us",
        "target_us",
    )

    def __init__(self, record: ParallelJob, extent: Extent, places: Sequence[int], memory_mb: int, now_us: int) -> None:
        self.number = record.number
        self.record = record
        self.extent = extent
        self.places = tuple(places)
        self.nodes = tuple(sorted(set(places)))
        self.shape = tuple([self.nodes.index(node) for node in places])
        self.memory_mb = memory_mb
        self.routes = extent.routes()
        for process, route in zip(record.processes, self.routes, strict=True):
            process.operations = route.operations()
        self.processes = [[process for process in record.processes if process.node == node] for node in self.nodes]
        self.skipped_us = 0
        self.lag_us = 0
        self.pace: Pace | None = None
        self.paced = False  # it has had a pace
        self.target_us = extent.work_us  # done by then, its pace is no more valid
        self._at_pace = [_NOTHING] * len(self.nodes)  # used at earlier paces
        self.collected = [_NOTHING] * len(self.nodes)  # used up to the last `collect`
        self.allowed: tuple[int, ...] = ()  # nodes where it may run
        self.allowed_us = dict.fromkeys(self.nodes, 0)  # for how long it could since the last `collect`
        self._counted_us = now_us  # from when on that has not been counted

    def exact_us(self) -> int:
        """Return the work that its processes have done, as far as their CPUs have counted it."""
        return sum(process.consumed_us for process in self.record.processes) + sum(
            route.points for route in self.routes
        )

    def done_us(self, now_us: int) -> int:
        """Return the work that it has done."""
        gained_us = 0
        pace = self.pace
        if pace is not None and now_us > pace.since_us:
            gained_us = pace.work_us * (now_us - pace.since_us) // pace.span_us
        return self.exact_us() + self.skipped_us + self.lag_us + gained_us

    def use(self, index: int, now_us: int) -> Use:
        """Return what it has used on its node of that index."""
        return used_by(self.processes[index]).plus(self._at_pace[index]).plus(self._use_at_pace(index, now_us))

    def uses(self, now_us: int) -> list[Use]:
        """Return what it has used on each of its nodes."""
        return [self.use(index, now_us) for index in range(len(self.nodes))]

    def go(self, pace: Pace, target_us: int) -> None:
        """Progress at a pace until so much is done, or until `settle`."""
        self.pace = pace
        self.paced = True
        self.target_us = target_us

    def settle(self, now_us: int) -> None:
        """Count what was done at the pace, which ends."""
        if self.pace is not None:
            self._at_pace = [use.plus(self._use_at_pace(index, now_us)) for index, use in enumerate(self._at_pace)]
            self.lag_us = self.done_us(now_us) - self.exact_us() - self.skipped_us
            self.pace = None

    def due_us(self) -> int:
        """Return when the target of the pace is reached."""
        pace = self.pace
        assert pace is not None
        left_us = self.target_us - self.done_us(pace.since_us)
        return pace.since_us + max(0, -(-left_us * pace.span_us // pace.work_us))

    def catch_up(self) -> None:
        """Let the processes leave out as many whole iterations as the lag allows, all the same ones."""
        first = max(route.next for route in self.routes)
        times, work_us = self.extent.span(first, self.lag_us)
        if times:
            for route in self.routes:
                route.skip(first, first + times)
            self.skipped_us += work_us
            self.lag_us -= work_us

    def phase(self) -> int:
        """Return the phase of the process that is behind."""
        return self.extent.phase_at(min(route.iteration for route in self.routes))

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
