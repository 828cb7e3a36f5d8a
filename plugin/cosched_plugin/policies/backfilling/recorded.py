"""Jobs start when a record says, and where: the schedule that a site had, with no decision of a policy.

With a matching that puts jobs beside running ones, pending jobs may begin sooner as guests: what sharing would have done to that
schedule, in which no other job moves up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Final, TypeAlias

from cosched_plugin import api
from cosched_plugin.policies.planning.reservation import take_seat

# By job: when it started, and on which nodes (None: the record does not say); None: it never started.
Schedule: TypeAlias = Mapping[int, tuple[int, api.NodeSet | None] | None]
_NO_RECORD: Final[Schedule] = MappingProxyType({})


class Recorded(api.Backfill):
    """Start each job at its recorded instant, on its recorded nodes where these are free, else on the first that are.

    A job for which there is no room then starts as soon as there is: the record and the machine contradict each other, or a guest
    holds its nodes. A job that the record does not know is rejected; one that never started waits until it is cancelled. Only who has a
    record can make this part (`PolicyChoice.with_record`).
    """

    provides = frozenset({api.COMPANY})

    def __init__(self, schedule: Schedule = _NO_RECORD, /) -> None:
        self._schedule = schedule

    def check(self, view: api.View) -> None:
        """Raise MachineError where there is no record."""
        if not self._schedule:
            raise api.MachineError(
                "backfill recorded starts jobs as a log records; only a simulation of a log has such a record"
            )

    def decide(self, context: api.Context) -> Iterator[api.Action]:
        """Yield the starts that are due, then those of guests, and ask to be woken for the next one."""
        view, schedule, now_us = context.view, self._schedule, context.view.now_us
        due: list[tuple[int, int, api.NodeSet | None, api.JobSpec]] = []
        later: list[tuple[int, api.JobSpec]] = []
        for job in view.queue:
            if job.id not in schedule:
                yield api.RejectJob(job.id, "the record does not say when it started")
            elif (start := schedule[job.id]) is not None:
                at_us, nodes = start
                if at_us > now_us:
                    later.append((at_us, job))
                else:
                    due.append((at_us, job.id, nodes, job))
        for _, _, nodes, job in sorted(due, key=itemgetter(0, 1)):
            offer = self._place(job, nodes, context)
            if offer is not None:
                yield from take_seat(offer, "recorded", view)
        if not context.matching.alone:
            yield from _guests([job for _, job in later], context)
        next_us = min([at_us for at_us, job in later if view.pending(job.id) is not None], default=None)
        if next_us is not None and next_us not in view.wakes():
            yield api.WakeAt(next_us)

    def _place(self, job: api.JobSpec, nodes: api.NodeSet | None, context: api.Context) -> api.Offer | None:
        now = api.snapshot_now(context.view)
        if nodes is not None:
            there = now._replace(free=api.on_nodes(now.free, nodes))
            offer = context.offer(job, there)
            if offer is not None:
                return offer
        return context.offer(job, now)


def _guests(pending: list[api.JobSpec], context: api.Context) -> Iterator[api.Action]:
    """Yield the starts of jobs that join running ones, in order of arrival."""
    context = context.over(api.PendingJobs(pending))
    candidates = context.matching.join_candidates(context, api.UNRESERVED)
    for job in pending:
        if job.id in candidates:
            seat = context.matching.join(job, context, api.UNRESERVED)
            if seat is not None:
                yield from take_seat(seat, "backfill", context.view)
