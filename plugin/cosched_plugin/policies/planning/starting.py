"""The two ways in which a pass starts pending jobs: in queue order, and before a job that has a reservation."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from cosched_plugin.api import Action, JobSpec, RejectJob, View
from cosched_plugin.policies.planning.offers import snapshot_now
from cosched_plugin.policies.planning.parts import Matching, Placement
from cosched_plugin.policies.planning.pending import PendingJobs
from cosched_plugin.policies.planning.reservation import Reservation
from cosched_plugin.policies.planning.seats import UNRESERVED, Seat

NEVER = "{} processes wanted, more than fit when each node is one job's alone"


def start_in_order(
    view: View, pending: PendingJobs, placement: Placement, matching: Matching, reason: str = "order"
) -> Generator[Action, None, PendingJobs]:
    """Yield the starts of the first jobs that wait, until one has no place now; return that job and those behind it."""
    jobs = pending.jobs
    gone = 0  # of `jobs`, where the matching looks at nobody but the job in question: copies of a long queue cost
    while gone < len(jobs):
        job = jobs[gone]
        offer = placement.offer(job, snapshot_now(view)) if job.processes <= view.free_threads else None
        seat = (
            matching.join(job, pending, view, UNRESERVED)
            if offer is None
            else matching.seat(offer, pending, view, UNRESERVED)
        )
        if seat is not None:
            yield from take_seat(seat, reason, view)
        elif view.never(job):
            yield RejectJob(job.id, NEVER.format(job.processes))
        else:
            break
        if matching.settled:
            gone += 1
        elif seat is None or len(seat.job_ids) == 1:
            pending = PendingJobs(jobs[1:])
            jobs = pending.jobs
        else:
            pending = pending.without(seat.job_ids)
            jobs = pending.jobs
    return PendingJobs(jobs[gone:]) if gone else pending


def backfill_seat(
    view: View,
    job: JobSpec,
    pending: PendingJobs,
    placement: Placement,
    matching: Matching,
    reservation: Reservation,
    *,
    may_join: bool,
) -> Seat | None:
    """Return a seat for ``job`` now that does not delay the reservation; ``may_join``: it might join a running job."""
    now_us = view.now_us
    if job.processes <= view.free_threads and reservation.may_hold(now_us, now_us + job.estimate_us, job.processes):
        snapshot = reservation.with_head(snapshot_now(view))
        offer = placement.offer(job, snapshot)
        if offer is not None:
            seat = matching.seat(offer, pending, view, reservation)
            elsewhere = reservation.spare(snapshot) if seat is None else None
            if elsewhere is not None:
                offer = placement.offer(job, elsewhere)
                seat = None if offer is None else matching.seat(offer, pending, view, reservation)
            if seat is not None:
                return seat
    return matching.join(job, pending, view, reservation) if may_join else None


def take_seat(seat: Seat, reason: str, view: View, **facts: object) -> Iterator[Action]:
    """Yield the decisions that take a seat, and say why; ``facts`` are what a trace should tell besides."""
    if view.trace is not None:
        for job_id in seat.job_ids:
            view.trace.explain(job_id, reason=reason, free_threads=view.free_threads, waiting=view.queued, **facts)
    yield from seat.decisions
