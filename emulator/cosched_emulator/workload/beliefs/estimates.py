"""Estimates of run times by users, for workloads without them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.columns import Computed, Numbers, columns_of
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.rounding import round_up_all_us
from cosched_hwmodel.draws import uniforms
from cosched_hwmodel.units import SECOND_US

ESTIMATE_MODELS = ("exact", "f-model", "day")
DAY_US = 86_400 * SECOND_US


def with_estimates(workload: Workload, model: str, factor: float = 1.0, seed: int = 1) -> Workload:
    """Return the workload with every estimate replaced; jobs with a limit get the estimate as limit.

    ``exact``: the run time. ``f-model``: run time x (1 + U x ``factor``) with U uniform in [0, 1), drawn for each job by
    its `source_id`. ``day``: a day for each job, as where all users give the longest time allowed; or the run time, if that
    is longer. Raises `ConfigurationError` for an unknown model or a negative factor.
    """
    if model not in ESTIMATE_MODELS:
        raise ConfigurationError.unknown_name("estimates", model, ESTIMATE_MODELS)
    if not (math.isfinite(factor) and 0 <= factor <= 1_000_000):
        raise ConfigurationError("estimates.factor", "a number from 0 to 1000000", str(factor))
    jobs = columns_of(workload.jobs)
    run_us = jobs.run_us.array
    if model == "day":
        estimate_us = Numbers(np.maximum(run_us, DAY_US))
    else:
        # Only the extra part is rounded, so that the estimate is never below the run time.
        used = 0.0 if model == "exact" else factor
        extra_us = round_up_all_us(run_us * uniforms(seed, "estimate", jobs.source_id.array) * used)
        estimate_us = Numbers(run_us + np.maximum(0, extra_us))
    jobs = replace(jobs, estimate_us=estimate_us, limit_us=Computed(_limit_us, jobs.limit_us, estimate_us))
    text = f"run x (1 + U x {factor:g}), seed {seed}" if model == "f-model" else model
    return workload._replace(jobs=jobs, notes=(*workload.notes, f"estimates: {text}"))


def _limit_us(before_us: int | None, estimate_us: int) -> int | None:
    return None if before_us is None else estimate_us
