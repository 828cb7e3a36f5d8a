"""Run times shaken a little, to see how much of a result hangs on their exact values.

After D. Tsafrir, K. Ouaknine and D. Feitelson, *Reducing performance evaluation sensitivity and variability by input shaking*
(MASCOTS 2007).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.columns import Computed, Numbers, columns_of
from cosched_emulator.workload.job import Workload
from cosched_hwmodel.draws import uniforms


def with_shaken_runs(workload: Workload, shake: float, shake_seed: int = 0, seed: int = 1) -> Workload:
    """Return the workload with every run time multiplied by 1 + U, U uniform in [-shake, shake), and nothing else changed.

    U is drawn by both seeds and the job's source id. An estimate that equals the run time still does, and so does the
    limit; any other job stays on its side of its estimate: one that ends within it is cut at it, one that is longer, and
    killed if it has a limit, stays longer. Raises `ConfigurationError` for a ``shake`` outside of [0, 1).
    """
    if not 0 <= shake < 1:
        raise ConfigurationError("workload.shake", "a number from 0 to below 1", str(shake))
    jobs = columns_of(workload.jobs)
    run_us, estimate_us, source = jobs.run_us.array, jobs.estimate_us.array, jobs.source_id.array
    draws = uniforms(seed, "shake", np.full_like(source, shake_seed), source, _times_before(source))
    shaken_us = np.maximum(1, np.rint(run_us * (1 + shake * (2 * draws - 1))).astype(np.int64))
    shaken_us = np.where(run_us < estimate_us, np.minimum(shaken_us, estimate_us), shaken_us)
    shaken_us = np.where(run_us > estimate_us, np.maximum(shaken_us, estimate_us + 1), shaken_us)
    told = Numbers(np.where(run_us == estimate_us, shaken_us, estimate_us))
    limit_us = Computed(_limit_us, jobs.limit_us, jobs.estimate_us, told)
    jobs = replace(jobs, run_us=Numbers(shaken_us), estimate_us=told, limit_us=limit_us)
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
