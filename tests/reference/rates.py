"""Brute-force progress of jobs that slow each other down on shared nodes: from event to event, in exact fractions.

A process asks its node for some of each resource. The node's penalty p is the sum over the resources of max(demand,
capacity)/capacity - 1, and work there proceeds at 1/(1 + p). The start times are given; nothing is scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Literal, NamedTuple, TypeAlias

Amounts: TypeAlias = tuple[int, ...]  # one per resource
Composition: TypeAlias = Literal["bulk-synchronous", "paper"]


class PlacedJob(NamedTuple):
    """A job: start, ``work`` (its run time alone), processes on each node, demand of each process, and limit."""

    id: int
    start: int
    work: int
    processes: Mapping[int, int]  # node -> processes there, at least one
    demand: Amounts
    limit: int | None = None  # killed if still running at start + limit


class Outcome(NamedTuple):
    """When and how a job left its nodes; ``work`` is the work of its slowest part by then."""

    end: Fraction
    killed: bool
    work: Fraction


class _Running:
    """A job between its start and its end, with the work left on each of its nodes."""

    def __init__(self, job: PlacedJob) -> None:
        self.job = job
        self.left = dict.fromkeys(sorted(job.processes), Fraction(job.work))
        self.kill_at = None if job.limit is None else Fraction(job.start + job.limit)

    def done(self) -> bool:
        return not any(self.left.values())


def _penalty(node: int, running: Sequence[_Running], capacity: Amounts, finished_parts_demand: bool) -> Fraction:
    """Return the penalty of ``node`` with the jobs on it now."""
    here = [one for one in running if node in one.left and (finished_parts_demand or one.left[node] > 0)]
    total = Fraction(0)
    for resource, available in enumerate(capacity):
        wanted = sum(one.job.processes[node] * one.job.demand[resource] for one in here)
        total += Fraction(max(wanted, available), available) - 1
    return total


def progress(
    jobs: Sequence[PlacedJob],
    capacities: Sequence[Amounts],
    composition: Composition = "bulk-synchronous",
    finished_parts_demand: bool = True,
    whole_ends: bool = False,
) -> dict[int, Outcome]:
    """Return the outcome of every job, by id.

    ``bulk-synchronous``: a job runs everywhere at the rate of its worst node. ``paper``: the part on each node runs
    by itself, and the job ends with the last part; the parts finished before keep their nodes, and keep asking for
    resources unless ``finished_parts_demand`` is false. Completion beats a kill at the same instant. ``whole_ends``: a
    job that is done stays on its nodes, and asks for resources, until the next whole unit of time, as with a clock that
    rounds ends up.
    """
    to_come = sorted(jobs, key=lambda job: (job.start, job.id))
    running: list[_Running] = []
    outcomes: dict[int, Outcome] = {}
    now = Fraction(0)
    while to_come or running:
        penalties = {
            node: _penalty(node, running, capacity, finished_parts_demand) for node, capacity in enumerate(capacities)
        }
        rates: list[dict[int, Fraction]] = []
        for one in running:
            worst = max(penalties[node] for node in one.left)
            rates.append(
                {node: 1 / (1 + (worst if composition == "bulk-synchronous" else penalties[node])) for node in one.left}
            )

        instants = [Fraction(job.start) for job in to_come]
        for one, rate in zip(running, rates, strict=True):
            instants += [now + left / rate[node] for node, left in one.left.items() if left > 0]
            if one.done():
                instants.append(Fraction(ceil(now)))
            if one.kill_at is not None:
                instants.append(one.kill_at)
        instant = min(instants)

        for one, rate in zip(running, rates, strict=True):
            for node, left in one.left.items():
                one.left[node] = left - rate[node] * (instant - now) if left > 0 else left
                assert one.left[node] >= 0
        now = instant

        staying: list[_Running] = []
        for one in running:
            completed = one.done() and (not whole_ends or now == ceil(now))
            killed = not completed and one.kill_at is not None and now >= one.kill_at
            if completed or killed:
                outcomes[one.job.id] = Outcome(now, killed, one.job.work - max(one.left.values()))
            else:
                staying.append(one)
        running = staying + [_Running(job) for job in to_come if job.start <= now]
        to_come = [job for job in to_come if job.start > now]
    return outcomes
