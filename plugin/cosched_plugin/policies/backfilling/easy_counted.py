"""EASY by numbers, for jobs in order of arrival that take any threads, each alone on its own: the case that long traces are made of.

The rule is that of `reservation.CountedReservation`; here it is worked out with sums alone, and nobody is looked at again of whom
it is known that he has to wait. `easy` has the pass for all other cases, and comes to the same decisions in this one.
"""

from __future__ import annotations

from collections.abc import Generator

from cosched_plugin.api import Action, JobSpec, Order, Placement, Queue, View, short_or_narrow


class _Look:
    """What a pass has left behind: everybody whom it saw has to wait until somebody leaves.

    As time goes by a job has less of it before the shadow time, and as long as no running job comes, goes or is late, the first job
    waits for the same, with the same number of threads to spare. So who was refused will be, and only those who came since matter.
    """

    __slots__ = ("changes", "extra", "last_id", "shadow_us", "version")

    def __init__(self, version: int, changes: int, last_id: int, shadow_us: int, extra: int) -> None:
        self.version = version
        self.changes = changes  # of the queue
        self.last_id = last_id  # who was the last in the queue
        self.shadow_us = shadow_us  # when the first job will start
        self.extra = extra  # threads that it leaves over then


class Counting:
    """Backfilling with one reservation, where the number of free threads tells who fits."""

    __slots__ = ("_candidates", "_last")

    def __init__(self, candidates: Order | None) -> None:
        """``candidates`` orders those who may overtake the first; None: as they came."""
        self._candidates = candidates
        self._last: _Look | None = None  # a cache

    def starts(self, queue: Queue, view: View, placement: Placement) -> Generator[Action, None, bool] | None:
        """Return a pass over a queue that is not empty; None if nobody can start.

        The pass yields the starts and tells whether it has met a job for which the nodes in service do not suffice: then it is not
        for numbers alone to say what may overtake.
        """
        last, self._last = self._last, None
        free = view.free_threads
        if last is not None and last.version == view.version and last.changes == queue.changes:
            shadow_us, extra = last.shadow_us, last.extra
            # A running job that is over its time moves the shadow with the present.
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
        """Yield the starts of those among ``found`` that leave the first job its start and its threads."""
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
