"""A workload brought to an offered load: by its gaps, or by its users and for the rest by its gaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.columns import Jobs, Numbers, columns_of
from cosched_emulator.workload.job import WARNING, Workload
from cosched_emulator.workload.rounding import round_up_all_us
from cosched_emulator.workload.scaling.users import resample_users

METHODS = ("gaps", "users")
_MUCH_SCALED = 0.05  # of the gaps, by the method that is to leave them alone


def with_load(workload: Workload, load: float, cores: int, method: str = "gaps", seed: int = 1) -> Workload:
    """Return the workload with an offered load of ``load`` on a machine of ``cores``; the jobs stay in order of submission.

    ``gaps``: all times of submission are multiplied by one factor. ``users``: users are left out, or added as copies
    (`resample_users`, drawn by ``seed``), and a small factor for the gaps closes what whole users leave. Times are rounded
    up to microseconds, so the load is exact to 1 us in the span of the submissions.

    Raises `ConfigurationError` for another method, jobs of one instant, and a load that no choice of users has.
    """
    if method not in METHODS:
        raise ConfigurationError.unknown_name("workload.load_method", method, METHODS)
    jobs = columns_of(workload.jobs)
    before = offered_load(jobs, cores)
    by, cut = "", workload.cut
    if method == "users":
        sample = resample_users(jobs, load / before, before, seed)
        by = f"{sample.kept} of {sample.users} users" + (f" and {sample.copies} copies" if sample.copies else "")
        by = f"{by}, seed {seed}: {len(sample.jobs)} jobs instead of {len(jobs)}, "
        jobs, cut = sample.jobs, sample.jobs.cut_runs()
    factor = offered_load(jobs, cores) / load
    text = f"offered load {load:g} instead of {before:.6g}: {by}gaps multiplied by {factor:.6g}"
    if method == "users" and abs(factor - 1) > _MUCH_SCALED:
        text = f"{WARNING}{text}, as the users are too few or too unequal"
    submit_us = jobs.submit_us.array
    jobs = replace(jobs, submit_us=Numbers(round_up_all_us((submit_us - submit_us[0]) * factor)))
    return workload._replace(jobs=jobs, notes=(*workload.notes, text), cut=cut, calendar=None)


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
