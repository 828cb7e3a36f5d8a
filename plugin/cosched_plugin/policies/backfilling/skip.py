"""Starting every pending job that has a place, in queue order, without a reservation for those that have none."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from cosched_plugin.api import COMPANY, Action, Backfill, Context, prices
from cosched_plugin.policies.planning.starting import rejection, seat_now, take_seat


class Skip(Backfill):
    """Jobs start in queue order; one that has no place is passed over, however often: a large job may wait for long."""

    provides = frozenset({COMPANY})

    def decide(self, context: Context) -> Iterator[Action]:
        """Yield the starts of the pending jobs that have a place."""
        while context.view.queued and (yield from self._pass(context)):
            pass

    def _pass(self, context: Context) -> Generator[Action, None, bool]:
        """Yield the starts of one scan of the queue; tell whether there were any: another job may have a place now."""
        view, matching = context.view, context.matching
        pending = context.arranged()
        present = context.over(pending)
        gone: set[int] = set()
        reason = "order"
        by_count = matching.alone and view.any_threads  # on whole nodes, a job for which there are too few is rejected
        for job in pending.jobs:
            if job.id in gone:
                continue
            if by_count and job.processes > view.free_threads:
                reason = "skip"
                continue
            if not view.work.pay(prices.CANDIDATE):
                break
            seat = seat_now(job, present)
            if seat is not None:
                yield from take_seat(seat, reason, view)
                gone.update(seat.job_ids)
            elif context.placement.never(job, view):
                yield rejection(job, view)
                gone.add(job.id)
            else:
                reason = "skip"
                continue
            present = context.over(pending.without(gone))
        return bool(gone)
