"""Brute force for LessConsume: penalties unit by unit of time, placements by enumeration, exact fractions.

A machine is a sequence of nodes. A bucket is (node, processor); bucket order is node by node, lowest processor first.
Times are integers of any one unit; everything is planned over [start, start + run), with the run time as it is
without any penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import NamedTuple, TypeAlias

Amounts: TypeAlias = tuple[int, ...]  # one per resource
Bucket: TypeAlias = tuple[int, int]  # (node, processor on it)
ONE = Fraction(1)


class Process(NamedTuple):
    """One process of some job on one processor of a node during [start, end): running (start <= now) or reserved."""

    processor: int
    start: int
    end: int
    demand: Amounts


class Node(NamedTuple):
    """A node's size, capacity per resource, and its running and reserved processes."""

    processors: int
    capacity: Amounts
    residents: tuple[Process, ...] = ()


class Request(NamedTuple):
    """A job's request: processes, demand of each, and its run time."""

    processes: int
    demand: Amounts
    run: int


class Placement(NamedTuple):
    """Buckets in order, and the penalty factor of the job on them."""

    start: int
    buckets: tuple[Bucket, ...]
    factor: Fraction


Machine: TypeAlias = Sequence[Node]


def penalty(demand: Amounts, capacity: Amounts) -> Fraction:
    """Return the sum over the resources of max(demand, capacity)/capacity - 1."""
    return sum((Fraction(max(d, c), c) - 1 for d, c in zip(demand, capacity, strict=True)), Fraction(0))


def penalised_time(node: Node, own: int, demand: Amounts, start: int, run: int) -> Fraction:
    """Return the penalised time on ``node`` of a job that has ``own`` processes there during [start, start + run)."""
    total = Fraction(0)
    for time in range(start, start + run):
        present = [process.demand for process in node.residents if process.start <= time < process.end]
        present += [demand] * own
        total += penalty(tuple(map(sum, zip(*present, strict=True))), node.capacity) if present else 0
    return total


def free_buckets(machine: Machine, start: int, run: int) -> list[Bucket]:
    """Return, in bucket order, the processors that no job has at any time of [start, start + run)."""
    return [
        (number, processor)
        for number, node in enumerate(machine)
        for processor in range(node.processors)
        if not any(p.processor == processor and p.start < start + run and start < p.end for p in node.residents)
    ]


def _node_times(machine: Machine, request: Request, start: int, buckets: Sequence[Bucket]) -> dict[int, Fraction]:
    """Return the job's penalised time on each node that ``buckets`` use."""
    own = {number: sum(1 for bucket in buckets if bucket[0] == number) for number, _ in buckets}
    return {number: penalised_time(machine[number], own[number], request.demand, start, request.run) for number in own}


def penalty_factor(machine: Machine, request: Request, start: int, buckets: Sequence[Bucket]) -> Fraction:
    """Return (run + penalised)/run of a job on ``buckets``, penalised being the largest over its nodes."""
    return (request.run + max(_node_times(machine, request, start, buckets).values())) / request.run


def best_factor(machine: Machine, request: Request, start: int) -> Fraction | None:
    """Return the smallest factor over all distributions of the processes over free processors; None: they do not fit.

    Free processors of one node are alike, so a distribution is a number of processes for every node.
    """
    free = [
        sum(1 for bucket in free_buckets(machine, start, request.run) if bucket[0] == n) for n in range(len(machine))
    ]
    times = [
        [penalised_time(node, own, request.demand, start, request.run) for own in range(free[number] + 1)]
        for number, node in enumerate(machine)
    ]
    worst = [
        max(times[number][own] for number, own in enumerate(counts) if own)
        for counts in product(*(range(count + 1) for count in free))
        if sum(counts) == request.processes
    ]
    return (request.run + min(worst)) / request.run if worst else None


def less_consume(machine: Machine, request: Request, start: int, threshold: Fraction = ONE) -> Placement | None:
    """Place a job by LessConsume at ``start``, bucket by bucket; None if it does not fit then.

    Begin with first fit. Look at every other free bucket once, in order: it replaces the worst chosen bucket (largest
    penalised time of its node; among equals the last in order) if its own node's penalised time after the swap would
    be strictly smaller than the worst one's before. Stop when the factor is at most ``threshold``. A bucket once
    dropped does not come back.
    """
    free = free_buckets(machine, start, request.run)
    if len(free) < request.processes:
        return None
    chosen, unevaluated = free[: request.processes], free[request.processes :]
    for bucket in unevaluated:
        if penalty_factor(machine, request, start, chosen) <= threshold:
            break
        before = _node_times(machine, request, start, chosen)
        worst = max(chosen, key=lambda one: (before[one[0]], one))
        swapped = sorted([one for one in chosen if one != worst] + [bucket])
        after = _node_times(machine, request, start, swapped)
        if after[bucket[0]] < before[worst[0]]:
            chosen = swapped
    return Placement(start, tuple(chosen), penalty_factor(machine, request, start, chosen))


def empty_machine(machine: Machine) -> tuple[Node, ...]:
    """Return the same machine without any process."""
    return tuple(node._replace(residents=()) for node in machine)


def earliest_with_threshold(machine: Machine, request: Request, now: int, threshold: Fraction) -> Placement | None:
    """Return LessConsume Threshold's placement: at now or the first running job's end with factor <= threshold.

    If even the empty machine cannot do it, the smallest factor that the empty machine allows is the threshold. None
    if the job fits at none of these instants (it is too large, or reservations are in its way).
    """
    on_empty = best_factor(empty_machine(machine), request, now)
    if on_empty is None:
        return None
    threshold = max(threshold, on_empty)
    ends = {process.end for node in machine for process in node.residents if process.start <= now < process.end}
    for start in sorted({now} | ends):
        placement = less_consume(machine, request, start, threshold)
        if placement is not None and placement.factor <= threshold:
            return placement
    return None
