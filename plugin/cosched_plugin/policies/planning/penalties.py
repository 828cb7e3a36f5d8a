"""Expected slowdown of a job on given nodes, and its effect on the run time (penalty factor, RUA paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence

from cosched_plugin.api import (
    JobSpec,
    Offer,
    Run,
    Snapshot,
    penalty_factor,
    round_up_us,
)
from cosched_plugin.policies.planning.losses import losses_in


def factor(job: JobSpec, lost_us: float) -> float:
    """Return the penalty factor of a job that loses ``lost_us`` on its worst node."""
    return penalty_factor(job.estimate_us, (lost_us,))


def factor_of(job: JobSpec, snapshot: Snapshot, runs: Sequence[Run]) -> float:
    """Return the penalty factor of ``job`` on ``runs``: its worst node counts."""
    return factor(job, losses_in(snapshot.view).worst_us(job, snapshot, runs))


def penalised_offer(job: JobSpec, snapshot: Snapshot, runs: tuple[Run, ...], by: float, *, extend_limit: bool) -> Offer:
    """Return the offer with run time and, where requested, limit multiplied by the penalty factor ``by``, rounded up.

    The limit is fixed here, at allocation, and not extended again for later neighbours.
    """
    run_us = stretch(job.estimate_us, by)
    limit_us = job.limit_us
    if limit_us is not None:
        if extend_limit:
            limit_us = stretch(limit_us, by)
        run_us = min(run_us, limit_us)
    return Offer(job, snapshot.at_us, runs, by, run_us, limit_us)


def stretch(span_us: int, by: float) -> int:
    """Return ``span_us`` times ``by``, rounded up."""
    return span_us if by == 1.0 else round_up_us(span_us * by)
