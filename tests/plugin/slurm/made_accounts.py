"""Rows of Slurm's accounting of a small machine whose pairs slow each other down by known factors.

Jobs come in order; one starts on a free node, or beside a job that is alone on its node. Each is one of several inputs of its
application, which differ in work and limit, and its work varies by chance.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import NamedTuple

HEADER = "JobIDRaw|JobID|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocNodes|NCPUS|NodeList|JobName"
BEGIN_S = 1_790_000_000


class Made(NamedTuple):
    """A machine and its jobs."""

    slowdowns: Mapping[tuple[str, str], float]  # of the first application beside the second
    jobs: int = 200
    noise: float = 0.1  # standard deviation of the logarithm of the work
    nodes: int = 4
    inputs: int = 2
    joins: float = 0.3  # how often a job that finds no free node joins another


class _Job:
    def __init__(self, number: int, application: str, given: int, work_s: float) -> None:
        self.number, self.application, self.given, self.left_s = number, application, given, work_s
        self.start_s = self.node = 0


def account(made: Made, seed: int) -> str:
    """Return what sacct writes."""
    draw = random.Random(seed)
    names = sorted({name for pair in made.slowdowns for name in pair})
    work_s = {(name, each): 300 * math.exp(draw.gauss(0, 0.5)) for name in names for each in range(made.inputs)}
    nodes: list[list[_Job]] = [[] for _ in range(made.nodes)]
    waiting: list[_Job] = []
    rows, now_s, comes_s = [HEADER], 0.0, 0.0
    started = 0

    def pace(job: _Job) -> float:
        partner = next((other for other in nodes[job.node] if other is not job), None)
        return 1.0 if partner is None else 1.0 / made.slowdowns[job.application, partner.application]

    while len(rows) <= made.jobs:
        ends = [(now_s + job.left_s / pace(job), job.number, job) for there in nodes for job in there]
        end_s, _, ending = min(ends, default=(math.inf, 0, None))
        at_s = min(end_s, comes_s)
        for there in nodes:
            for job, speed in [(job, pace(job)) for job in there]:
                job.left_s -= (at_s - now_s) * speed
        now_s = at_s
        if end_s <= comes_s and ending is not None:
            nodes[ending.node].remove(ending)
            rows.append(_row(ending, round(now_s)))
        else:
            started += 1
            name, given = draw.choice(names), draw.randrange(made.inputs)
            waiting.append(_Job(started, name, given, work_s[name, given] * math.exp(draw.gauss(0, made.noise))))
            comes_s = now_s + draw.expovariate(made.nodes / 250.0)
        while waiting:
            free = [place for place, there in enumerate(nodes) if not there]
            lone = [place for place, there in enumerate(nodes) if len(there) == 1]
            if not free and not (lone and draw.random() < made.joins):
                break
            job = waiting.pop(0)
            job.node, job.start_s = free[0] if free else draw.choice(lone), round(now_s)
            nodes[job.node].append(job)
    rows += [_row(job, None, round(now_s)) for there in nodes for job in there]
    return "\n".join(rows) + "\n"


def _row(job: _Job, end_s: int | None, now_s: int = 0) -> str:
    start_s, until_s = BEGIN_S + job.start_s, "Unknown" if end_s is None else str(BEGIN_S + end_s)
    elapsed_s = (now_s if end_s is None else end_s) - job.start_s
    state = "RUNNING" if end_s is None else "COMPLETED"
    return (
        f"{job.number}|{job.number}|ann|{state}|{start_s}|{start_s}|{until_s}|{elapsed_s}|{60 + job.given}|1|4|n{job.node}"
        f"|{job.application}"
    )
