"""The matching of co-execution: what a start on open halves does to the jobs beside it, and expected ends that follow neighbours.

A spread job runs as its worst neighbour lets it. Its present ratio (run time over the compact one) is a note; when neighbours
come or go, the work that is left takes as long as the new ratio says.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import ClassVar, NamedTuple, cast

from cosched_plugin import api
from cosched_plugin.policies.coexecution import halves


class Slowed(NamedTuple):
    """A running job whose new neighbour slows it down."""

    running: api.Running
    ratio: float
    end_us: int


class SpreadSeat(NamedTuple):
    """A spread job that starts, and what this does to the jobs beside it."""

    offer: api.Offer
    beside: tuple[api.Running, ...]
    slowed: tuple[Slowed, ...]
    view: api.View

    @property
    def sole(self) -> api.Offer | None:
        """Return the offer where no job is beside it; otherwise None."""
        return None if self.beside else self.offer

    @property
    def job_ids(self) -> tuple[int, ...]:
        """Return the one job that starts."""
        return self.offer.job_ids

    @property
    def end_us(self) -> int:
        """Return the latest expected end of the job and of those that it slows down."""
        return max([self.offer.end_us, *[each.end_us for each in self.slowed]])

    @property
    def decisions(self) -> tuple[api.Action, ...]:
        """Return the start, the ratios, and the new expected ends of the jobs beside it."""
        job_id = self.offer.job.id
        actions: list[api.Action] = [self.offer.start(), api.SetNote(job_id, halves.NOTE, self.offer.factor)]
        for each in self.slowed:
            actions += revised(each, self.view)
        return tuple(actions)

    @property
    def occupancies(self) -> tuple[api.Occupancy, ...]:
        """Return the job and those that it slows down on their nodes."""
        slowed = [
            api.Occupancy(each.end_us, each.running.job.id, api.nodes_of(each.running.runs)) for each in self.slowed
        ]
        return (*slowed, *self.offer.occupancies)

    def threads_held(self, at_us: int, view: api.View) -> api.Layers:
        """Return the threads that are held at ``at_us`` because of this start."""
        held = self.offer.threads_held(at_us, view)
        for each in self.slowed:
            if view.expected_end(each.running) <= at_us < each.end_us:
                held = api.union(held, each.running.layers) if held else each.running.layers
        return held

    def count_held(self, at_us: int, view: api.View) -> int:
        """Return how many threads these are."""
        return api.size(self.threads_held(at_us, view))


class Neighbours(api.Matching):
    """Jobs on the halves that a placement has chosen, with expected ends that follow who is beside whom."""

    needs: ClassVar[api.Needs] = frozenset({api.HALVES, api.COMPANY, api.PAIR_BELIEF})
    protocol_features: ClassVar[api.Needs] = frozenset({"notes", "revise"})

    def __init__(self) -> None:
        self._settled_at = -1  # a cache: the version of the view at which all expected ends were right

    def prepare(self, context: api.Context) -> Iterator[api.Action]:
        """Yield the new expected ends of jobs whose neighbours have changed."""
        view = context.view
        yield from api.delete_stale_notes(view, halves.NOTE)
        if self._settled_at == view.version:
            return
        nodes_of = view.nodes_by_job
        tenants = [(running, nodes_of[running.job.id]) for running in halves.running_tenants(view)]
        settled = True
        for running, nodes in tenants:
            others = [other for other, theirs in tenants if theirs & nodes and other is not running]
            change = _change(running, ratio_among(running.job, others, view.pairs), view)
            if change is not None:
                settled = False
                yield from revised(change, view)
        self._settled_at = view.version if settled else -1

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return the offer with its effect on the jobs beside it, if the gate admits that."""
        view = context.view
        placement = cast(halves.Halves, context.placement)  # it provides HALVES: the composition requires that
        if not placement.is_spread(offer.runs, view):
            return offer if gate.admit(offer) else None
        nodes, nodes_of = api.nodes_of(offer.runs), view.nodes_by_job
        beside = tuple([running for running in halves.running_tenants(view) if nodes_of[running.job.id] & nodes])
        slowed = []
        for running in beside:
            ratio = max(halves.ratio_of(running, view), halves.ratio_beside(running.job, offer.job, view.pairs))
            if ratio == inf:
                return None  # the manager has started that job here, and it shares nodes with none
            change = _change(running, ratio, view)
            if change is not None:
                slowed.append(change)
        seat = SpreadSeat(offer, beside, tuple(slowed), view)
        if not gate.admit(seat):
            return None
        view.explain(offer.job.id, lambda: _facts(offer, beside, view))
        return seat


def ratio_among(job: api.JobSpec, others: list[api.Running], model: api.PairModel | None) -> float:
    """Return a spread job's run time among its neighbours over the compact one: the worst of them decides."""
    return max([halves.ratio_alone(job, model), *[halves.ratio_beside(job, other.job, model) for other in others]])


def revised(change: Slowed, view: api.View) -> list[api.Action]:
    """Return the decisions that give a running job its new expected end and its new ratio."""
    job_id = change.running.job.id
    return [*api.expect_end(job_id, change.end_us, view), api.SetNote(job_id, halves.NOTE, change.ratio)]


def _change(running: api.Running, ratio: float, view: api.View) -> Slowed | None:
    """Return what a new ratio means for a running job; None if the ratio is the present one, or the manager's doing and unknown."""
    before = halves.ratio_of(running, view)
    if ratio in (before, inf):
        return None
    now_us = view.now_us
    left_us = view.expected_end(running) - now_us
    return Slowed(running, ratio, now_us + max(1, api.round_up_us(left_us / before * ratio)))


def _facts(offer: api.Offer, beside: tuple[api.Running, ...], view: api.View) -> dict[str, object]:
    """Return the facts for a decision trace: who is beside the job, and how long both take over their compact run times."""
    model = view.pairs
    neighbours = [
        {
            "job": running.job.id,
            "ratio": halves.ratio_beside(offer.job, running.job, model),
            "its_ratio": halves.ratio_beside(running.job, offer.job, model),
        }
        for running in beside
    ]
    return {"halves": {"ratio": offer.factor, "beside": neighbours}}
