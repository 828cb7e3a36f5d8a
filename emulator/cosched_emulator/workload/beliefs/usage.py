"""The scheduler's knowledge of the jobs' use of their nodes: the truth, an approximation, or nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from cosched_emulator.workload.beliefs.draws import noisy
from cosched_emulator.workload.columns import Column, Computed, Jobs, Same, columns_of
from cosched_emulator.workload.job import Workload
from cosched_hwmodel.draws import uniform
from cosched_hwmodel.units import WHOLE_PPM
from cosched_hwmodel.usage import BOUNDS
from cosched_plugin.protocol.messages import UsageTuple


class UsageBelief(NamedTuple):
    """The difference of belief and truth. ``exact`` with noise, bias and missing at 0 is the truth."""

    usage: str = "exact"  # or unknown: nothing about any job
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
    jobs = replace(jobs, told_usage=_believed_usages(jobs, belief, seed))
    note = f"usage told to the scheduler of {known} of {len(jobs)} jobs"
    if known and (belief.noise or belief.bias):
        note += f", noise {belief.noise:g}, bias {belief.bias:g}"
    return workload._replace(jobs=jobs, notes=(*workload.notes, note))


def _believed_usages(jobs: Jobs, belief: UsageBelief, seed: int) -> Column[UsageTuple | None]:
    if belief.usage == "unknown":
        return Same(None)
    if belief == UsageBelief():
        return jobs.usage
    return Computed(partial(_believed_usage, belief, seed), jobs.usage, jobs.source_id)


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
