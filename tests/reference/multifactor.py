"""Slurm's multifactor priority from its documentation and the classic fair-share formula, step by step in floats.

It shares no code with the scheduler. Times are seconds. Every period the use of all users is first decayed, then what jobs used in
that period is added; priorities are worked out then, and hold until the next period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Spent(NamedTuple):
    """What a job has used: ``cpus`` during [start, end); the end may be in the future."""

    user: str
    cpus: int
    start: float
    end: float


class Waiting(NamedTuple):
    """A pending job; ``extra`` is what its QOS, partition and nice value are worth."""

    id: int
    user: str
    submit: float
    nodes: int
    cpus: int
    extra: int


class Site(NamedTuple):
    """Weights and times as `scontrol show config` tells them, and the machine."""

    age: int
    fair_share: int
    size: int
    max_age: float
    half_life: float
    period: float
    favor_small: bool
    nodes: int
    cpus: int


def usage(spent: Iterable[Spent], now: float, site: Site) -> dict[str, float]:
    """Return the use of each user at the begin of the present period."""
    jobs = list(spent)
    used: dict[str, float] = {}
    for number in range(int(now // site.period)):
        begin, end = number * site.period, (number + 1) * site.period
        decay = 0.5 ** (site.period / site.half_life) if site.half_life else 1.0
        used = {user: amount * decay for user, amount in used.items()}
        for job in jobs:
            overlap = min(job.end, end) - max(job.start, begin)
            if overlap > 0:
                used[job.user] = used.get(job.user, 0.0) + overlap * job.cpus
    return used


def fair_share(user: str, used: Mapping[str, float], accounts: Mapping[str, tuple[str, int]]) -> float:
    """Return 2 ** -(effective use / normalised share); ``accounts``: parent ("": the root) and shares of each account and user."""
    total = sum(used.values())
    if not total:
        return 1.0

    def below(name: str) -> list[str]:
        return [child for child, (parent, _) in accounts.items() if parent == name]

    def use_of(name: str) -> float:
        return used.get(name, 0.0) + sum(use_of(child) for child in below(name))

    def standing(name: str) -> tuple[float, float]:
        parent, shares = accounts[name]
        part = shares / sum(accounts[sibling][1] for sibling in below(parent))
        normal = use_of(name) / total
        if not parent:
            return part, normal
        share, effective = standing(parent)
        return share * part, normal + (effective - normal) * part

    share, effective = standing(user)
    return 2.0 ** -(effective / share) if share else 0.0


def priority(
    job: Waiting, now: float, used: Mapping[str, float], accounts: Mapping[str, tuple[str, int]], site: Site
) -> float:
    """Return a job's priority in the present period."""
    computed = now // site.period * site.period
    age = min(max(computed - job.submit, 0.0) / site.max_age, 1.0)
    size = (job.nodes / site.nodes + job.cpus / site.cpus) / 2
    return (
        site.age * age
        + site.fair_share * fair_share(job.user, used, accounts)
        + site.size * (1 - size if site.favor_small else size)
        + job.extra
    )


def out_of_order(arranged: Sequence[int], priorities: Mapping[int, float], within: float) -> list[tuple[int, int]]:
    """Return pairs of neighbours of which the second has the higher priority, by more than rounding explains."""
    return [(one, two) for one, two in pairwise(arranged) if priorities[two] - priorities[one] > within]
