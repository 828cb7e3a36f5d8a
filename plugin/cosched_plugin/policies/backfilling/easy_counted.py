"""EASY by counting threads, for jobs in order of arrival that take any threads, each alone on its own: the case of long traces.

The rule is that of `reservation.CountedReservation`; here it is computed with sums alone, and refused jobs are
not re-examined until something that could help them changes. `easy` has the pass for all other cases, with the same decisions in
this one.
"""

from __future__ import annotations

from collections.abc import Generator

from cosched_plugin.api import Action, JobSpec, Order, Placement, Queue, View, short_or_narrow


class _Look:
    """The state after a pass: every job that it examined is blocked until a running job ends.

    A job that was refused has ever less time before the shadow time. As long as no running job comes, goes or is late, the shadow
    time and the number of extra threads stay the same. So refused jobs stay refused, and only jobs that came since matter.
    """

    __slots__ = ("changes", "extra", "last_id", "shadow_us", "version")

    def __init__(self, version: int, changes: int, last_id: int, shadow_us: int, extra: int) -> None:
        self.version = version
        self.changes = changes  # of the queue
        self.last_id = last_id  # the last job in the queue
        self.shadow_us = shadow_us  # when the first job will start
        self.extra = extra  # extra threads then


class Counting:
    """Backfilling with one reservation, where the number of free threads decides which jobs fit."""

    __slots__ = ("_candidates", "_last")

    def __init__(self, candidates: Order | None) -> None:
        """``candidates`` orders the jobs that may overtake the first; None: in order of arrival."""
        self._candidates = candidates
        self._last: _Look | None = None  # a cache

    def starts(self, queue: Queue, view: View, placement: Placement) -> Generator[Action, None, bool] | None:
        """Return a pass over a queue that is not empty; None if no job can start.

        The pass yields the starts and tells whether it has met a job for which the nodes in service do not suffice: then counting
        does not decide which jobs may overtake.
        """
        last, self._last = self._last, None
        free = view.free_threads
        if last is not None and last.version == view.version and last.changes == queue.changes:
            shadow_us, extra = last.shadow_us, last.extra
            # A running job that has outlived its estimate moves the shadow time with the present.
            if view.releases[0][0] > view.now_us:
                new = queue.behind(last.last_id)
                found = short_or_narrow(new, free, shadow_us - view.now_us, extra)
                if found:
                    return self._overtake(found, shadow_us, extra, queue, view, placement)
                if new:
                    last.last_id = new[-1].id
                self._last = last
                return None
        head = queue.first()
        if head.processes <= free:
            return self._in_order(queue, view, placement)
        shadow = view.shadow(head.processes)
        if shadow is None:
            return self._in_order(queue, view, placement)
        found = queue.fitting(free, shadow[0] - view.now_us, shadow[1]) if free else []
        if found:
            return self._overtake(found, *shadow, queue, view, placement)
        self._last = _Look(view.version, queue.changes, queue.last().id, *shadow)
        return None

    def _in_order(self, queue: Queue, view: View, placement: Placement) -> Generator[Action, None, bool]:
        """Yield the starts of the first jobs, then those of the jobs that may overtake."""
        while queue:
            head = queue.first()
            free = view.free_threads
            if head.processes > free:
                shadow = view.shadow(head.processes)
                if shadow is None:
                    return True
                found = queue.fitting(free, shadow[0] - view.now_us, shadow[1]) if free else []
                return (yield from self._overtake(found, *shadow, queue, view, placement))
            yield placement.start(head, view)
        return False

    def _overtake(
        self, found: list[JobSpec], shadow_us: int, extra: int, queue: Queue, view: View, placement: Placement
    ) -> Generator[Action, None, bool]:
        """Yield the starts of the jobs in ``found`` that leave the first job its start and its threads."""
        if self._candidates is not None and len(found) > 1:
            found = self._candidates.arrange(found, view)
        free = view.free_threads
        longest_us = shadow_us - view.now_us
        for job in found:
            processes = job.processes
            if processes > free:
                continue
            if job.estimate_us > longest_us:
                if processes > extra:
                    continue
                extra -= processes
            free -= processes
            yield placement.start(job, view)
            if not free:
                break
        self._last = _Look(view.version, queue.changes, queue.last().id, shadow_us, extra)
        return False
