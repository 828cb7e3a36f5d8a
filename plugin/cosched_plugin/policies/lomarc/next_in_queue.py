"""Matchings that consider only the next job in the queue: AC and AM, the baselines of the LOMARC paper."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import ClassVar

import numpy as np

from cosched_plugin.api import (
    COMPANY,
    EVERYTHING,
    PAIR_BELIEF,
    PAIRING,
    WHOLE_NODES,
    Action,
    Context,
    Gate,
    JobSpec,
    Matching,
    Needs,
    Offer,
    Pair,
    PairMonitor,
    Seat,
    View,
    any_layer,
    pair_up,
    prices,
    snapshot_now,
)
from cosched_plugin.policies.lomarc.constraints import HYPERTHREADED, STANDARD, Filtered, Rules, apply_constraints
from cosched_plugin.policies.lomarc.queue_table import Jobs

# The slowdown that a blind scheduler assumes for a pair without a belief: time-sharing.
BLIND_SLOWDOWN = 2.0


class _WithTheNext(Matching):
    """The base of the matchings that consider only the next job in the queue."""

    needs: ClassVar[Needs] = frozenset({WHOLE_NODES, COMPANY})
    protocol_features: ClassVar[Needs] = PAIRING
    ignores: ClassVar[Needs] = EVERYTHING

    def __init__(self, max_slowdown: float = inf) -> None:
        self._monitor = PairMonitor(max_slowdown)

    def prepare(self, context: Context) -> Iterator[Action]:
        """Yield the new expected ends of jobs whose partner has ended."""
        return self._monitor.keep_up(context.view)


class Always(_WithTheNext):
    """AC: a job and the next one in the queue, whatever they are; the smaller joins the nodes of the larger."""

    def seat(self, offer: Offer, context: Context, gate: Gate) -> Seat | None:
        """Return the offer with the next job, where both fit; else alone."""
        following = _next(offer.job, context)
        if following is not None:
            pair = self._pair(offer, following, context, gate)
            if pair is not None:
                return pair
        return offer if gate.admit(offer) else None

    def _pair(self, offer: Offer, following: JobSpec, context: Context, gate: Gate) -> Seat | None:
        guest = following
        # The larger job is the host: the smaller one must find a node for each of its processes there.
        if following.processes > offer.job.processes:
            host = context.offer(following, snapshot_now(context.view))
            if host is None:
                return None
            offer, guest = host, offer.job
        return pair_up(offer, guest, blind_slowdown(offer.job, guest, context.view), context, gate)


class Adjacent(_WithTheNext):
    """AM: a job and the next one in the queue, if they are a match."""

    needs: ClassVar[Needs] = frozenset({WHOLE_NODES, COMPANY, PAIR_BELIEF})

    def __init__(self, *, max_slowdown: float = 1.6, cpu: str = HYPERTHREADED, weak_load: float = 0.2) -> None:
        super().__init__(max_slowdown)
        self._rules = Rules(max_slowdown, cpu == STANDARD)
        self._weak_load = weak_load

    def seat(self, offer: Offer, context: Context, gate: Gate) -> Seat | None:
        """Return the offer with the next job, where they are a match; else alone."""
        view = context.view
        following = _next(offer.job, context)
        if following is not None and view.pairs is not None and not is_weak(context, self._weak_load):
            jobs = Jobs.of([following], view.pairs)
            filtered = apply_constraints(offer.job, jobs, self._rules, view.pairs, as_host=True)
            slowdown, most = float(filtered.slowdowns[0]), self._rules.max_slowdown
            pair = pair_up(offer, following, slowdown, context, gate, most) if filtered.fine[0] else None
            view.explain(offer.job.id, lambda: {"partners": _facts(filtered, jobs, pair)})
            if pair is not None:
                return pair
        return offer if gate.admit(offer) else None


def is_weak(context: Context, margin: float) -> bool:
    """Tell whether the queue asks for no more than the free nodes, less a margin: then no job needs a partner (section 5.1).

    It counts processes and cores; under a placement with footprints, which may leave cores idle, nodes.
    """
    view, jobs = context.view, context.pending.jobs
    if context.footprints is not context.placement:
        return sum([job.processes for job in jobs]) <= (1.0 - margin) * view.free_threads
    footprints = [context.footprints.footprint(job, view) for job in jobs]
    wanted = sum([footprint.nodes for footprint in footprints if footprint is not None])
    return wanted <= (1.0 - margin) * any_layer(view.free).bit_count()


def blind_slowdown(one: JobSpec, other: JobSpec, view: View) -> float:
    """Return the believed slowdown of a pair that was matched without a look at it; `BLIND_SLOWDOWN` if there is no belief."""
    model = view.pairs
    known = model is not None and model.knows(one) and model.knows(other)
    slowdown = model.both(one, other) if model is not None and known else inf
    return BLIND_SLOWDOWN if slowdown == inf else slowdown


def _facts(filtered: Filtered, jobs: Jobs, pair: Pair | None) -> dict[str, object]:
    """Return the facts for a decision trace about the next job, which may have become a partner."""
    chosen = {} if pair is None else {"partner": pair.guest.job.id, "selected": 1, "slowdown": pair.slowdown}
    return filtered.facts(jobs, np.flatnonzero(filtered.fine), None) | chosen


def _next(job: JobSpec, context: Context) -> JobSpec | None:
    """Return the job behind one in the queue; None where there is none, or no work is left to examine it."""
    jobs = context.pending.jobs
    if not context.view.work.pay(prices.NEXT_JOB, len(jobs)):
        return None
    after = next((index + 1 for index, other in enumerate(jobs) if other.id == job.id), len(jobs))
    return jobs[after] if after < len(jobs) else None
