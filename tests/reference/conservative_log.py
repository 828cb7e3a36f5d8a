"""Conservative backfilling of a whole log, slow and plain: every job in every sweep, with a search from the present each time.

It shares no code with the scheduler, nor with `space_sharing`, whose searches are too slow for thousands of jobs. At one instant all
ends happen first, then all submissions, then one pass: reservations that are due start, then sweeps over the queue until none changes
anything, then reservations for new jobs. It needs run <= estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple


class LogJob(NamedTuple):
    """A rigid job of a log, in any unit of time."""

    submit: int
    processors: int
    run: int
    estimate: int


class Plan:
    """Free processors from each of ``times`` on, up to the next one; the last goes on for ever."""

    def __init__(self, processors: int) -> None:
        self.times = [0]
        self.free = [processors]

    def _begin(self, time: int) -> int:
        """Return the number of the step that begins at ``time``, made if there is none."""
        step = len(self.times)
        while self.times[step - 1] > time:
            step -= 1
        if self.times[step - 1] == time:
            return step - 1
        self.times.insert(step, time)
        self.free.insert(step, self.free[step - 1])
        return step

    def take(self, start: int, end: int, processors: int) -> None:
        """Take processors during [start, end), or give them back if negative."""
        first, last = self._begin(start), self._begin(end)
        for step in range(first, last):
            self.free[step] -= processors
            assert self.free[step] >= 0

    def earliest(self, processors: int, length: int) -> int:
        """Return the first instant from which so many processors are free for ``length``."""
        start = None
        for time, free in zip(self.times, self.free, strict=True):
            if start is not None and time >= start + length:
                return start
            if free < processors:
                start = None
            elif start is None:
                start = time
        assert start is not None
        return start

    def forget(self, now: int) -> None:
        """Forget all before ``now``, and steps that begin nothing."""
        steps = list(zip(self.times, self.free, strict=True))
        present = max(time for time in self.times if time <= now)
        self.times, self.free = [], []
        for time, free in steps:
            if time >= present and (not self.free or self.free[-1] != free):
                self.times.append(max(time, now))
                self.free.append(free)


def conservative_starts(
    jobs: Sequence[LogJob], processors: int, *, starts_only: bool = False
) -> tuple[list[int], list[int]]:
    """Return the start of each job, and its first reservation; ``jobs`` in order of submission, which is that of the queue.

    ``starts_only``: a sweep moves a job that can start now, and no other. Then there is a pass at each reserved start, too.
    """
    plan = Plan(processors)
    first: dict[int, int] = {}
    queue: list[int] = []
    reserved: dict[int, int] = {}
    starts: dict[int, int] = {}
    ends: list[tuple[int, int]] = []
    coming = 0
    while coming < len(jobs) or queue or ends:
        now = min(
            [job.submit for job in jobs[coming : coming + 1]]
            + [time for time, _ in ends[:1]]
            + [reserved[number] for number in queue if starts_only]
        )
        plan.forget(now)
        while ends and ends[0][0] == now:
            _, number = heappop(ends)
            if now < starts[number] + jobs[number].estimate:
                plan.take(now, starts[number] + jobs[number].estimate, -jobs[number].processors)
        new = []
        while coming < len(jobs) and jobs[coming].submit == now:
            new.append(coming)
            coming += 1

        def start_due(now: int = now) -> None:
            for number in [number for number in queue if reserved[number] == now]:
                queue.remove(number)
                starts[number] = now
                heappush(ends, (now + jobs[number].run, number))

        start_due()
        changed = True
        while changed:
            changed = False
            for number in queue:
                job, old = jobs[number], reserved[number]
                plan.take(old, old + job.estimate, -job.processors)
                found = plan.earliest(job.processors, job.estimate)
                reserved[number] = old if starts_only and found > now else found
                plan.take(reserved[number], reserved[number] + job.estimate, job.processors)
                changed = changed or reserved[number] != old
                assert reserved[number] <= old
        for number in new:
            first[number] = reserved[number] = plan.earliest(jobs[number].processors, jobs[number].estimate)
            plan.take(reserved[number], reserved[number] + jobs[number].estimate, jobs[number].processors)
            queue.append(number)
        start_due()
    return [starts[number] for number in range(len(jobs))], [first[number] for number in range(len(jobs))]
