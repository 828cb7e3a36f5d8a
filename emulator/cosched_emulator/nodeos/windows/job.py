"""A job whose processes are simulated at times, and else progress at a rate: what it has done and used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
        spun_us += process.polled_us()
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
        "_useful_us",
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
        "shape",
        "skipped_us",
        "target_us",
    )

    def __init__(
        self,
        record: ParallelJob,
        extent: Extent,
        useful_us: Callable[[int], int],
        places: Sequence[int],
        memory_mb: int,
        now_us: int,
    ) -> None:
        self.number = record.number
        self.record = record
        self.extent = extent
        self._useful_us = useful_us
        self.places = tuple(places)
        self.nodes = tuple(sorted(set(places)))
        self.shape = tuple([self.nodes.index(node) for node in places])
        self.memory_mb = memory_mb
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
        """Return the work that its processes have done."""
        work_us = self._useful_us(self.number)
        for process in self.record.processes:
            work_us += process.io_us
            for loop in self.extent.idle:
                if loop <= process.loop:
                    left = process.iterations_left if loop == process.loop else 0
                    work_us += self.extent.stages[loop].times - self.record.left_out.get(loop, 0) - left
        return work_us

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
        """Let the processes leave out as many whole iterations as the lag allows, all the same number."""
        first = max(0, *[process.loop for process in self.record.processes])
        for stage in self.extent.stages[first:]:
            times = self.record.leave_out(stage.loop, self.lag_us // stage.work_us)
            self.skipped_us += times * stage.work_us
            self.lag_us -= times * stage.work_us
            if self.lag_us >= stage.work_us:
                continue  # nothing is left of this loop
            break

    def phase(self) -> int:
        """Return the phase of the process that is behind."""
        loop = min([process.loop for process in self.record.processes])
        return self.extent.stages[max(0, loop)].phase

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
