"""The scheduler's knowledge of the self slowdowns of jobs: the truth, an approximation, or nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from cosched_emulator.workload.beliefs.draws import noisy
from cosched_emulator.workload.columns import Column, Computed, Same, columns_of
from cosched_emulator.workload.job import Workload
from cosched_plugin.protocol.messages import SelfSlowdown


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
    jobs = replace(jobs, told_self_slowdown=told)
    note = f"self slowdowns told to the scheduler of {known} of {len(jobs)} jobs"
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
