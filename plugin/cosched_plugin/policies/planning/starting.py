"""The two ways in which a pass starts pending jobs: in queue order, and before a job that has a reservation."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from cosched_plugin.api import (
    UNRESERVED,
    Action,
    Context,
    JobSpec,
    PendingJobs,
    RejectJob,
    Seat,
    View,
    nodes_view,
    snapshot_now,
)
from cosched_plugin.policies.planning.reservation import Reservation


def rejection(job: JobSpec, view: View) -> RejectJob:
    """Return the rejection of a job that has no place on the empty machine."""
    where = "have a place" if nodes_view(view) is None else "fit when each node is one job's alone"
    return RejectJob(job.id, f"{job.processes} processes wanted, more than {where}")


def seat_now(job: JobSpec, context: Context) -> Seat | None:
    """Return a seat for ``job`` now, where no other job has a reservation."""
    view, matching = context.view, context.matching
    offer = context.offer(job, snapshot_now(view)) if job.processes <= view.free_threads else None
    return matching.join(job, context, UNRESERVED) if offer is None else matching.seat(offer, context, UNRESERVED)


def start_in_order(context: Context, reason: str = "order") -> Generator[Action, None, PendingJobs]:
    """Yield the starts of the first pending jobs, until one has no place now; return that job and the jobs behind it."""
    view, matching, pending = context.view, context.matching, context.pending
    jobs = pending.jobs
    gone = 0  # started ones of `jobs`, where the matching examines only the job in question: copies of a long queue are slow
    while gone < len(jobs):
        job = jobs[gone]
        seat = seat_now(job, context)
        if seat is not None:
            yield from take_seat(seat, reason, view)
        elif context.placement.never(job, view):
            yield rejection(job, view)
        else:
            break
        if matching.settled:
            gone += 1
            continue
        gone_ids = () if seat is None else seat.job_ids
        pending = pending.without(gone_ids) if len(gone_ids) > 1 else PendingJobs(jobs[1:])
        context = context.over(pending)
        jobs = pending.jobs
    return PendingJobs(jobs[gone:]) if gone else pending


def backfill_seat(job: JobSpec, context: Context, reservation: Reservation, *, may_join: bool) -> Seat | None:
    """Return a seat for ``job`` now that does not delay the reservation; ``may_join``: it might join a running job."""
    view, matching = context.view, context.matching
    now_us = view.now_us
    if job.processes <= view.free_threads and reservation.may_hold(now_us, now_us + job.estimate_us, job.processes):
        snapshot = reservation.with_head(snapshot_now(view))
        offer = context.offer(job, snapshot)
        if offer is not None:
            seat = matching.seat(offer, context, reservation)
            elsewhere = reservation.spare(snapshot) if seat is None else None
            if elsewhere is not None:
                offer = context.offer(job, elsewhere)
                seat = None if offer is None else matching.seat(offer, context, reservation)
            if seat is not None:
                return seat
    return matching.join(job, context, reservation) if may_join else None


def take_seat(seat: Seat, reason: str, view: View, **facts: object) -> Iterator[Action]:
    """Yield the decisions that take a seat, and record why; ``facts`` are further fields for a trace."""
    if view.trace is not None:
        for job_id in seat.job_ids:
            view.trace.explain(job_id, reason=reason, free_threads=view.free_threads, waiting=view.queued, **facts)
    yield from seat.decisions
