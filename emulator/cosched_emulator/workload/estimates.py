"""What users believe about run times, where a workload does not say."""

from __future__ import annotations

import math

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import Workload
from cosched_hwmodel.draws import uniform
from cosched_hwmodel.rounding import round_up_us

ESTIMATE_MODELS = ("exact", "f-model")


def with_estimates(workload: Workload, model: str, factor: float = 1.0, seed: int = 1) -> Workload:
    """Return the workload with every estimate replaced; limits, where jobs have one, follow the estimate.

    ``exact``: the run time. ``f-model``: run time x (1 + U x ``factor``) with U uniform in [0, 1), drawn for each job by
    its `source_id`. Raises `ConfigurationError` for an unknown model or a negative factor.
    """
    if model not in ESTIMATE_MODELS:
        raise ConfigurationError.unknown_name("estimates", model, ESTIMATE_MODELS)
    if not (math.isfinite(factor) and 0 <= factor <= 1_000_000):
        raise ConfigurationError("estimates.factor", "a number from 0 to 1000000", str(factor))
    used = 0.0 if model == "exact" else factor
    jobs = []
    for job in workload.jobs:
        # The extra part alone is rounded, so that no rounding can bring an estimate below the run time.
        draw = uniform(seed, "estimate", job.source_id)
        estimate_us = job.run_us + max(0, round_up_us(job.run_us * draw * used))
        limit_us = None if job.spec.limit_us is None else estimate_us
        jobs.append(job._replace(spec=job.spec._replace(estimate_us=estimate_us, limit_us=limit_us)))
    text = "exact" if model == "exact" else f"run x (1 + U x {factor:g}), seed {seed}"
    return workload._replace(jobs=tuple(jobs), notes=(*workload.notes, f"estimates: {text}"))
