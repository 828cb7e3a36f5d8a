"""What the scheduler is told of jobs: estimates of run times, use of nodes, self slowdowns, and who lets them share."""

from __future__ import annotations

import heapq
import zlib
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator import offered
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import Column, Computed, Jobs, Numbers, Same, columns_of, round_up_all_us
from cosched_hwmodel.draws import uniform, uniforms
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_hwmodel.usage import BOUNDS
from cosched_plugin.protocol.messages import SelfSlowdown, UsageTuple

# The random noise on values about jobs that the scheduler is told.


def noisy(value: int, noise: float, seed: int, noise_key: str, source_id: int, index: int) -> float:
    """Return the value multiplied by 1 + noise x u, u uniform in [-1, 1) and drawn for each ``index`` of each job."""
    return value * (1 + noise * (2 * uniform(seed, noise_key, source_id, index) - 1))


# Estimates of run times by users, for workloads without them.

DAY_US = 86_400 * SECOND_US


def with_estimates(workload: Workload, model: str, factor: float = 1.0, seed: int = 1) -> Workload:
    """Return the workload with every estimate replaced; jobs with a limit get the estimate as limit.

    ``exact``: the run time. ``f-model``: run time x (1 + U x ``factor``) with U uniform in [0, 1), drawn for each job by
    its `source_id`. ``day``: a day for each job, as where all users give the longest time allowed; or the run time, if that
    is longer. ``halfway``: the mean of the run time and the source's estimate. ``predicted``: the mean of the user's last two run
    times that are known by then, as `predicted_us` says; limits stay.
    """
    jobs = columns_of(workload.jobs)
    run_us = jobs.run_us.array
    if model == offered.PREDICTED:
        jobs = jobs.having(estimate_us=Numbers(predicted_us(jobs)))
        return workload._replace(jobs=jobs, notes=(*workload.notes, "estimates: predicted, limits as they were"))
    if model == "day":
        estimate_us = Numbers(np.maximum(run_us, DAY_US))
    elif model == "halfway":
        estimate_us = Numbers(run_us + (jobs.estimate_us.array - run_us) // 2)
    else:
        # Only the extra part is rounded, so that the estimate is never below the run time.
        used = 0.0 if model == "exact" else factor
        extra_us = round_up_all_us(run_us * uniforms(seed, "estimate", jobs.source_id.array) * used)
        estimate_us = Numbers(run_us + np.maximum(0, extra_us))
    jobs = jobs.having(estimate_us=estimate_us, limit_us=Computed(_limit_us, jobs.limit_us, estimate_us))
    text = f"run x (1 + U x {factor:g}), seed {seed}" if model == "f-model" else model
    return workload._replace(jobs=jobs, notes=(*workload.notes, f"estimates: {text}"))


def predicted_us(jobs: Jobs) -> NDArray[np.int64]:
    """Return for each job the mean run time of its user's last two jobs, at most its estimate (Tsafrir et al. 2007).

    Known are the jobs that would have ended by the submission had none waited, so no schedule is needed; without two of them the
    estimate stays. A prediction is a second at least. Jobs are in order of submission.
    """
    running: dict[str, list[tuple[int, int]]] = {}  # earliest end and run time of jobs that are not known to have ended
    last: dict[str, tuple[int, ...]] = {}
    found = jobs.estimate_us.array.copy()
    columns = (jobs.submit_us, jobs.run_us, jobs.estimate_us, jobs.user)
    for row, (submit_us, run_us, estimate_us, user) in enumerate(zip(*map(jobs.each, columns), strict=True)):
        ends = running.setdefault(user, [])
        while ends and ends[0][0] <= submit_us:
            last[user] = (*last.get(user, ()), heapq.heappop(ends)[1])[-2:]
        known = last.get(user, ())
        if user and len(known) == 2:
            found[row] = min(estimate_us, max(SECOND_US, sum(known) // 2))
        heapq.heappush(ends, (submit_us + run_us, run_us))
    return found


def _limit_us(before_us: int | None, estimate_us: int) -> int | None:
    return None if before_us is None else estimate_us


# The scheduler's knowledge of the jobs' use of their nodes: the truth, an approximation, or nothing.


class UsageBelief(NamedTuple):
    """The difference of belief and truth. ``exact`` with noise, bias and missing at 0 is the truth."""

    usage: str = "exact"  # or unknown: nothing about any job; shuffled, inverted: `wrong_usages`
    noise: float = 0.0  # relative, from 0 to below 1
    bias: float = 0.0  # relative, above -1
    missing: float = 0.0  # share of jobs with unknown usage


def with_usage_belief(workload: Workload, belief: UsageBelief, seed: int = 1) -> Workload:
    """Return the workload with the believed usage in the jobs' specs; the truth stays."""
    jobs = columns_of(workload.jobs)
    if not jobs.knows(jobs.usage):
        return workload
    exact = belief._replace(noise=0.0, bias=0.0)
    # The number of jobs with a known usage does not depend on its values, which take longer to compute.
    known = jobs.known(_believed_usages(jobs, exact, seed))
    jobs = jobs.having(told_usage=_believed_usages(jobs, belief, seed))
    note = f"usage known to the scheduler of {known} of {len(jobs)} jobs"
    if known and (belief.noise or belief.bias):
        note += f", noise {belief.noise:g}, bias {belief.bias:g}"
    return workload._replace(jobs=jobs, notes=(*workload.notes, note))


def _believed_usages(jobs: Jobs, belief: UsageBelief, seed: int) -> Column[UsageTuple | None]:
    if belief.usage == "unknown":
        return Same(None)
    told = jobs.usage if belief.usage == "exact" else wrong_usages(jobs, belief.usage, seed)
    if belief._replace(usage="exact") == UsageBelief():
        return told
    return Computed(partial(_believed_usage, belief, seed), told, jobs.source_id)


def wrong_usages(jobs: Jobs, how: str, seed: int) -> Column[UsageTuple | None]:
    """Return usages that are wrong on purpose, as a test of policies.

    ``shuffled``: each job has that of another one, drawn. ``inverted``: of each fraction and of memory what it is not (the fractions
    scaled to a sum of 1), and the job is said to be bound by what it uses least.
    """
    if how == "shuffled":
        return jobs.usage.select(np.argsort(uniforms(seed, "usage_shuffled", jobs.source_id.array), kind="stable"))
    return Computed(_inverted, jobs.usage)


def _inverted(usage: UsageTuple | None) -> UsageTuple | None:
    if usage is None:
        return None
    _, *fractions, memory = usage
    least = min(range(3), key=fractions.__getitem__)
    told = [(WHOLE_PPM - each) // 2 for each in fractions]
    told[least] += WHOLE_PPM - sum(told)
    return (BOUNDS[least], told[0], told[1], told[2], WHOLE_PPM - memory)


def _believed_usage(belief: UsageBelief, seed: int, usage: UsageTuple | None, source_id: int) -> UsageTuple | None:
    return None if usage is None else believed_usage(usage, belief, seed, source_id)


def believed_usage(usage: UsageTuple, belief: UsageBelief, seed: int, source_id: int) -> UsageTuple | None:
    """Return the believed usage of a job with this true usage; None if it is unknown.

    Each fraction and the memory are multiplied by 1 + noise x u, with u uniform in [-1, 1) and drawn for each. The memory and the
    fraction of the job's bound are also multiplied by 1 + bias. Then the fractions are scaled to a sum of 1, and the memory is cut
    at 1. The believed bound is the true one, even if noise makes another fraction the largest.
    """
    if belief.usage == "unknown" or uniform(seed, "usage_missing", source_id) < belief.missing:
        return None
    if not (belief.noise or belief.bias):
        return usage
    bound = usage[0]
    own = BOUNDS.index(bound)
    parts = [noisy(value, belief.noise, seed, "usage_noise", source_id, index) for index, value in enumerate(usage[1:])]
    parts[own] *= 1 + belief.bias
    memory = min(WHOLE_PPM, round(parts[3] * (1 + belief.bias)))
    total = parts[0] + parts[1] + parts[2]
    told = [int(value * WHOLE_PPM / total) for value in parts[:3]]
    told[own] = WHOLE_PPM - sum(told[:own]) - sum(told[own + 1 :])  # the remainder from rounding down goes to the bound
    return (bound, told[0], told[1], told[2], memory)


# The scheduler's knowledge of the self slowdowns of jobs: the truth, an approximation, or nothing.


class SelfBelief(NamedTuple):
    """The difference of belief and truth. ``exact`` without noise is the truth."""

    self_slowdowns: str = "exact"  # or unknown: nothing about any job
    noise: float = 0.0  # relative, from 0 to below 1


def with_self_belief(workload: Workload, belief: SelfBelief, seed: int = 1) -> Workload:
    """Return the workload with the believed self slowdowns in the jobs' specs; the truth stays."""
    jobs = columns_of(workload.jobs)
    if not jobs.knows(jobs.self_slowdown):
        return workload
    told: Column[SelfSlowdown | None]
    if belief.self_slowdowns == "unknown":
        told = Same(None)
    elif belief.noise:
        told = Computed(partial(_believed_slowdown, belief, seed), jobs.self_slowdown, jobs.source_id)
    else:
        told = jobs.self_slowdown
    known = jobs.known(told if belief.self_slowdowns == "unknown" else jobs.self_slowdown)
    jobs = jobs.having(told_self_slowdown=told)
    note = f"self slowdowns known to the scheduler of {known} of {len(jobs)} jobs"
    if known and belief.noise:
        note += f", noise {belief.noise:g}"
    return workload._replace(jobs=jobs, notes=(*workload.notes, note))


def _believed_slowdown(belief: SelfBelief, seed: int, own: SelfSlowdown | None, source_id: int) -> SelfSlowdown | None:
    return None if own is None else believed_slowdown(own, belief, seed, source_id)


def believed_slowdown(own: SelfSlowdown, belief: SelfBelief, seed: int, source_id: int) -> SelfSlowdown | None:
    """Return the believed self slowdown of a job with the true one ``own``; None if it is unknown.

    Each of its two factors is multiplied by 1 + noise x u, with u uniform in [-1, 1) and drawn for each, and rounded to millionths.
    """
    if belief.self_slowdowns == "unknown":
        return None
    if not belief.noise:
        return own
    node_ppm, core_ppm = (
        max(1, round(noisy(value, belief.noise, seed, "self_noise", source_id, index)))
        for index, value in enumerate(own)
    )
    return (node_ppm, core_ppm)


# Who lets jobs share.


def with_opted_in(workload: Workload, share: float, seed: int = 1) -> Workload:
    """Return the workload with the jobs of all users `unpaired` but those of a ``share`` of the users, which are as they were.

    A user who opts in at one share does at every larger one. A job without a user is drawn for itself.
    """
    jobs = columns_of(workload.jobs)
    users = {user: zlib.crc32(user.encode()) for user in set(jobs.each(jobs.user)) if user}
    out = frozenset(user for user, number in users.items() if uniform(seed, "opted_in", number) >= share)
    told = Computed(partial(_unpaired, out, share, seed), jobs.unpaired, jobs.user, jobs.source_id)
    count = sum(jobs.each(told))
    note = f"{len(users) - len(out)} of {len(users)} users opted in, {len(jobs) - count} of {len(jobs)} jobs may share cores"
    return workload._replace(jobs=jobs.having(unpaired=told), notes=(*workload.notes, note))


def _unpaired(out: frozenset[str], share: float, seed: int, before: bool, user: str, source_id: int) -> bool:
    return before or (user in out if user else uniform(seed, "opted_in_job", source_id) >= share)
