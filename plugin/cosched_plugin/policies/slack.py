"""Fairness: no job ends much later than expected at its submission (G-LOMARC-TS paper, sections 4.1 and 4.5).

A job's expected response time is computed at its submission, as if all jobs were started first come, first served with
conservative backfilling and alone on their nodes. A co-located start is refused if a job would then end after its expected response
time times a slack factor, unless it would do so anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import ClassVar, Final

from cosched_plugin import api
from cosched_plugin.policies.planning.placed_profile import NODE_PROFILES
from cosched_plugin.policies.planning.profile import start_of

NOTE: Final = "response"


def expected_response_us(job_id: int, view: api.View) -> int | None:
    """Return the response time that was expected at submission; None if there is none."""
    value = view.note(job_id, NOTE)
    return value if isinstance(value, int) else None


def delay_of(running: api.Running, view: api.View) -> float:
    """Return a running job's present expected response time, divided by the one expected at submission, or by its estimate."""
    expected_us = expected_response_us(running.job.id, view) or running.job.estimate_us
    return (view.wall_us(view.expected_end(running)) - running.job.submit_us) / expected_us


class Slack(api.Fairness):
    """A limit on delays: no job may respond later than expected at submission times ``factor``.

    The expected response time is the simulated one times ``adjust``: the paper's .75 accounts for two effects that the simulation
    leaves out, jobs that run in other slices and later co-location that makes all jobs faster (section 5.1). Step 6 of the paper holds
    all *other* jobs to the limit; with ``members`` those of the group are held to it, too.
    """

    needs: ClassVar[api.Needs] = frozenset({api.WHOLE_NODES, api.COMPANY})
    protocol_features: ClassVar[api.Needs] = frozenset({"notes"})

    def __init__(self, *, factor: float = 1.5, adjust: float = 0.75, members: bool = False) -> None:
        self.factor = factor
        self.adjust = adjust
        self.members = members

    def limit(self, matching: api.Matching) -> api.Matching:
        """Return the matching, restricted by this limit."""
        return _FairMatching(matching, self)


class _FairMatching(api.Matching):
    """A matching whose seats delay no job beyond its limit."""

    def __init__(self, matching: api.Matching, slack: Slack) -> None:
        self._matching = matching
        self._slack = slack
        self._settled = matching.settled

    @property
    def settled(self) -> bool:
        """Return what the restricted matching returns."""
        return self._settled

    def prepare(self, context: api.Context) -> Iterator[api.Action]:
        """Yield the matching's own updates, and the expected response times of new jobs as notes."""
        yield from self._matching.prepare(context)
        view = context.view
        noted, queue, work = view.with_note(NOTE), view.queue, view.work
        if work.limited:
            most = work.affordable(len(queue), api.prices.SIMULATION.units(1), api.prices.EXPECTATION_SHARE)
            queue = queue[:most]  # the others once they are near enough to the head
        new = [job for job in queue if job.id not in noted]
        if new:
            work.pay(api.prices.SIMULATION, len(queue))
            ends_us = dict(expected_ends(queue, view, context.footprints))
            for job in new:
                if job.id in ends_us:
                    response_us = view.wall_us(ends_us[job.id]) - job.submit_us
                    expected_us = max(1, round(response_us * self._slack.adjust))
                    view.tell("expect", job=job.id, response_us=expected_us)
                    yield api.SetNote(job.id, NOTE, expected_us)

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return a seat for ``offer``, co-located where that is fair, else alone."""
        return self._matching.seat(offer, context, _FairGate(gate, context, self._slack))

    def may_host(self, job: api.JobSpec) -> bool:
        """Tell whether other jobs may join ``job`` once it runs alone on its nodes."""
        return self._matching.may_host(job)

    def has_hosts(self, view: api.View) -> bool:
        """Tell whether there are running jobs that a pending job might join."""
        return self._matching.has_hosts(view)

    def join_candidates(self, context: api.Context, gate: api.Gatekeeper = api.UNRESERVED) -> Collection[int]:
        """Return the pending jobs that might join a running one."""
        return self._matching.join_candidates(context, gate)

    def join(self, job: api.JobSpec, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return a fair seat for ``job`` on a running job's nodes."""
        return self._matching.join(job, context, _FairGate(gate, context, self._slack))


class _FairGate:
    """A gate that asks the backfill's gate, and refuses seats that delay another job beyond its limit."""

    __slots__ = ("_gate", "_jobs", "_placement", "_plan", "_slack", "_view", "_without")

    def __init__(self, gate: api.Gate, context: api.Context, slack: Slack) -> None:
        view, jobs = context.view, context.pending.jobs
        self._gate = gate
        self._jobs: Sequence[api.JobSpec] = jobs
        if view.work.limited:  # jobs without an expected response are not protected, and delay no job before them
            noted = view.with_note(NOTE)
            self._jobs = jobs[: 1 + max((place for place, job in enumerate(jobs) if job.id in noted), default=-1)]
        self._view = view
        self._slack = slack
        self._placement = context.footprints
        # Ends without a group: as far as they were asked for, and those of the jobs behind, which are planned when they are.
        self._without: dict[int, int] = {}
        self._plan: Iterator[tuple[int, int]] | None = None

    @property
    def reserved(self) -> int | None:
        """Return the job that has the backfill's reservation."""
        return self._gate.reserved

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Quick check: tell whether ``threads`` threads, free from ``since_us`` on, might be held until ``until_us``."""
        return self._gate.may_hold(since_us, until_us, threads)

    def admit(self, seat: api.Seat) -> bool:
        """Tell whether ``seat`` may be taken: a job alone on its nodes is always fair."""
        return (seat.sole is not None or self._is_fair(seat)) and self._gate.admit(seat)

    def _is_fair(self, seat: api.Seat) -> bool:
        view = self._view
        simulations = 1 if self._plan is not None else 2
        if not view.work.pay_in_full(api.prices.SIMULATION, simulations * len(self._jobs)):
            return False  # not known now
        occupancies = seat.occupancies
        own = {occupancy.job_id: occupancy.end_us for occupancy in occupancies}
        others = [job for job in self._jobs if job.id not in own]
        # The first job that is late decides, mostly one near the head: those behind it need not be planned.
        ends_us = chain(
            expected_ends(others, view, self._placement, occupancies), own.items() if self._slack.members else ()
        )
        late = next((job_id for job_id, end_us in ends_us if self._is_late(job_id, end_us)), None)
        if late is not None:
            view.explain(seat.job_ids[0], unfair_to=late)
        return late is None

    def _is_late(self, job_id: int, end_us: int) -> bool:
        """Tell whether a job that ends then ends later than without the group, and too late."""
        view = self._view
        without_us = self._end_without(job_id)
        if without_us is None or end_us <= without_us:
            return False
        expected_us = expected_response_us(job_id, view)
        if expected_us is None:
            return False
        job = view.running[job_id].job if job_id in view.running else next(j for j in self._jobs if j.id == job_id)
        return view.wall_us(end_us) - job.submit_us > self._slack.factor * expected_us

    def _end_without(self, job_id: int) -> int | None:
        """Return when a job would end without the group; None for one that the machine does not hold."""
        view = self._view
        if job_id in view.running:
            return view.expected_end(view.running[job_id])
        if self._plan is None:
            self._plan = expected_ends(self._jobs, view, self._placement)
        while job_id not in self._without:
            planned = next(self._plan, None)
            if planned is None:
                return None
            self._without[planned[0]] = planned[1]
        return self._without[job_id]


def expected_ends(
    jobs: Sequence[api.JobSpec], view: api.View, placement: api.NodePlacement, occupancies: Sequence[api.Occupancy] = ()
) -> Iterator[tuple[int, int]]:
    """Yield when pending jobs would end, each started as early as the jobs before it allow and alone on its nodes.

    ``occupancies``: further decisions, treated as carried out. Jobs that the machine does not hold are left out.
    """
    nodes = api.whole_nodes(view)
    profile = NODE_PROFILES[nodes.counts_nodes](nodes, placement, occupancies)
    for job in jobs:
        promise = profile.earliest(job)
        if promise is not None:
            profile.reserve(job, promise)
            footprint = placement.footprint(job, view)
            assert footprint is not None
            yield job.id, start_of(promise) + footprint.run_us
