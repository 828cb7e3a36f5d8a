"""A workload changed: brought to an offered load, or its run times shaken."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import NO_EPOCH, Workload
from cosched_emulator.workload.jobs_in_columns import Computed, Jobs, Numbers, columns_of, round_up_all_us
from cosched_hwmodel.draws import uniforms

# Run times shaken a little, to see how much of a result hangs on their exact values.
#
# After D. Tsafrir, K. Ouaknine and D. Feitelson, *Reducing performance evaluation sensitivity and variability by input shaking*
# (MASCOTS 2007).


def with_shaken_runs(workload: Workload, shake: float, shake_seed: int = 0, seed: int = 1) -> Workload:
    """Return the workload with every run time multiplied by 1 + U, U uniform in [-shake, shake), and nothing else changed.

    U is drawn by both seeds and the job's source id. An estimate that equals the run time still does, and so does the
    limit; any other job stays on its side of its estimate: one that ends within it is cut at it, one that is longer, and
    killed if it has a limit, stays longer.
    """
    jobs = columns_of(workload.jobs)
    run_us, estimate_us, source = jobs.run_us.array, jobs.estimate_us.array, jobs.source_id.array
    draws = uniforms(seed, "shake", np.full_like(source, shake_seed), source, _times_before(source))
    shaken_us = np.maximum(1, np.rint(run_us * (1 + shake * (2 * draws - 1))).astype(np.int64))
    shaken_us = np.where(run_us < estimate_us, np.minimum(shaken_us, estimate_us), shaken_us)
    shaken_us = np.where(run_us > estimate_us, np.maximum(shaken_us, estimate_us + 1), shaken_us)
    told = Numbers(np.where(run_us == estimate_us, shaken_us, estimate_us))
    limit_us = Computed(_limit_us, jobs.limit_us, jobs.estimate_us, told)
    jobs = jobs.having(run_us=Numbers(shaken_us), estimate_us=told, limit_us=limit_us)
    note = f"run times shaken by up to {100 * shake:g} %, seeds {seed} and {shake_seed}"
    return workload._replace(jobs=jobs, notes=(*workload.notes, note))


def _limit_us(before_us: int | None, estimate_us: int, told_us: int) -> int | None:
    return told_us if before_us == estimate_us else before_us


def _times_before(source: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for every job how many jobs before it have its source id: copies of a job are shaken each by itself."""
    order = np.argsort(source, kind="stable")
    ordered = source[order]
    place = np.arange(len(source))
    first = np.maximum.accumulate(np.where(np.diff(ordered, prepend=-1) != 0, place, 0))
    times = np.empty_like(place)
    times[order] = place - first
    return times


# A workload brought to an offered load by its gaps.


def with_load(workload: Workload, load: float, cores: int) -> Workload:
    """Return the workload with an offered load of ``load`` on a machine of ``cores``: times of submission multiplied by one factor.

    Times are rounded up to microseconds, so the load is exact to 1 us in the span of the submissions.

    Raises `ConfigurationError` for jobs of one instant, and a load that no factor gives.
    """
    jobs = columns_of(workload.jobs)
    before = offered_load(jobs, cores)
    factor = before / load
    if not math.isfinite(factor):
        raise ConfigurationError("workload.load", "a load that a factor of the gaps can give", f"{load:g}")
    text = f"offered load {load:g} instead of {before:.6g}: gaps multiplied by {factor:.6g}"
    submit_us = jobs.submit_us.array
    jobs = jobs.having(submit_us=Numbers(round_up_all_us((submit_us - submit_us[0]) * factor)))
    notes, day_s = (*workload.notes, text), workload.day_s * factor
    return workload._replace(jobs=jobs, notes=notes, calendar=None, epoch=NO_EPOCH, day_s=day_s)


def offered_load(jobs: Jobs, cores: int) -> float:
    """Return run time x processes of all jobs over cores x time between the first and the last submission.

    That of `summary.json`. Raises `ConfigurationError` where no time is between them.
    """
    submit_us = jobs.submit_us.array
    span_us = int(np.ptp(submit_us)) if len(jobs) else 0
    if not span_us:
        found = f"{len(jobs)} at one instant" if len(jobs) else "none"
        raise ConfigurationError("workload.load", "jobs that are submitted one after the other", found)
    return jobs.work_us() / (cores * span_us)
