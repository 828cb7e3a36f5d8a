"""What a site believes of spread jobs: run times over those of the same jobs alone on all cores of their nodes (compact)."""

from __future__ import annotations

from math import inf

from cosched_plugin.api import JobSpec, PairModel


def ratio_alone(job: JobSpec, model: PairModel | None) -> float:
    """Return the run time of a spread job without neighbours over its compact one; 1 if nothing is known of it."""
    spread = None if model is None or not model.knows(job) else model.spread(job)
    return 1.0 if spread is None else spread


def ratio_beside(job: JobSpec, other: JobSpec, model: PairModel | None) -> float:
    """Return the run time of a spread job beside another one over its compact one; inf if nothing is known of the two."""
    if model is None or not (model.knows(job) and model.knows(other)):
        return inf
    spread = model.spread(job)
    slowdown = model.slowdown(job, other)
    return slowdown if spread is None else spread * slowdown
