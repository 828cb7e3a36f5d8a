"""Emulated nodes against the exact brute force in tests/reference/rates.py."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import NamedTuple, cast

import pytest
from tests.reference.rates import Composition, PlacedJob, progress
from tests.runs import run_on, runs_on

from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel
from cosched_hwmodel.composition import composition_named
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol.messages import DemandTuple, NodeClass, Run

COMPOSITIONS: tuple[Composition, ...] = ("bulk-synchronous", "paper")
RESOURCES = ("memory_bandwidth", "network", "disk")


class End(NamedTuple):
    """When and how a job left the cluster, with its work by the cluster and its work by summing rates."""

    at: int
    killed: bool
    work: int
    integral: Fraction


def runs_of(job: PlacedJob) -> tuple[Run, ...]:
    return tuple(run_on(node, 1, (1 << count) - 1, count) for node, count in sorted(job.processes.items()))


def cluster_of(capacities: Sequence[tuple[int, ...]], composition: str) -> ContendedNodes:
    rates = [(*capacity, 0, 0) for capacity in capacities]
    nodes = [NodeClass(1, 1, 64, 1, 1000, rate[0], rate[1], rate[2]) for rate in rates]
    model = BandwidthModel(RESOURCES[: len(capacities[0])])
    return ContendedNodes(Machine(nodes), model, composition_named(composition))


def emulate(
    jobs: Sequence[PlacedJob], capacities: Sequence[tuple[int, ...]], composition: Composition
) -> dict[int, End]:
    """Drive a cluster as the manager does: first jobs leave, then jobs start, then one settlement; check it at every step."""
    cluster = cluster_of(capacities, composition)
    to_come = sorted(jobs, key=lambda job: (job.start, job.id))
    running: dict[int, PlacedJob] = {}
    ends: dict[int, int] = {}
    done: dict[int, dict[int, Fraction]] = {}  # an independent account: job -> node -> work
    left: dict[int, End] = {}
    now = 0
    while to_come or running:
        due = {job_id: _end(running[job_id], ends[job_id]) for job_id in running}
        instant = min([at for at, _ in due.values()] + [job.start for job in to_come])
        for job_id, rates in _rates(running, capacities, composition).items():
            for node, rate in rates.items():
                done[job_id][node] += rate * (instant - now)
        now = instant
        for job_id, (at, killed) in sorted(due.items()):
            if at == now:
                job = running.pop(job_id)
                work = cluster.leave(job_id, now)
                slowest = min(min(one, Fraction(job.work)) for one in done.pop(job_id).values())
                left[job_id] = End(now, killed, work, slowest)
        while to_come and to_come[0].start == now:
            job = to_come.pop(0)
            demand = cast(DemandTuple, (*job.demand, 0, 0)[:3])
            cluster.seat(job.id, runs_of(job), job.work, demand, now)
            running[job.id] = job
            done[job.id] = dict.fromkeys(job.processes, Fraction(0))
        moved = dict(cluster.settle(now))
        assert all(end >= now for end in moved.values())
        ends.update(moved)
        cluster.check()
        assert cluster.settle(now) == []  # settling is a fixpoint
    return left


def _end(job: PlacedJob, end: int) -> tuple[int, bool]:
    if job.limit is not None and end > job.start + job.limit:
        return job.start + job.limit, True
    return end, False


def _rates(
    running: dict[int, PlacedJob], capacities: Sequence[tuple[int, ...]], composition: Composition
) -> dict[int, dict[int, Fraction]]:
    """Return the rate of every job on every node, computed only from the nodes of jobs."""
    penalties = []
    for node, capacity in enumerate(capacities):
        here = [job for job in running.values() if node in job.processes]
        wanted = [sum(job.processes[node] * job.demand[index] for job in here) for index in range(len(capacity))]
        penalties.append(
            sum((max(Fraction(w, c), Fraction(1)) - 1 for w, c in zip(wanted, capacity, strict=True)), Fraction(0))
        )
    rates = {}
    for job_id, job in running.items():
        worst = max(penalties[node] for node in job.processes)
        rates[job_id] = {
            node: 1 / (1 + (worst if composition == "bulk-synchronous" else penalties[node])) for node in job.processes
        }
    return rates


def random_jobs(random: Random, nodes: int, demands: Sequence[tuple[int, ...]], limits: bool) -> list[PlacedJob]:
    """Draw jobs with many starts at one instant, and many equal lengths, so that ends coincide too."""
    span = random.choice((20, 1_000, 10**9))
    starts = [random.randrange(span) for _ in range(3)]
    works = [random.randrange(1, span) for _ in range(3)]
    jobs = []
    for job_id in range(1, random.randint(2, 9)):
        where = random.sample(range(nodes), random.randint(1, nodes))
        work = random.choice((random.choice(works), random.randrange(1, span)))
        limit = random.choice((None, work, work + random.randrange(span))) if limits else None
        processes = {node: random.randint(1, 2) for node in where}
        start = random.choice((random.choice(starts), random.randrange(span)))
        jobs.append(PlacedJob(job_id, start, work, processes, random.choice(demands), limit))
    return jobs


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_ends_equal_those_of_the_exact_reference(composition: Composition) -> None:
    # With at most four processes of demand 1 on capacity 2, slowdowns are 1, 3/2 and 2: every exact end is a multiple of 1/12 us,
    # which is larger than the tolerance of rounding, 1/64 us. So ends must be equal.
    random = Random(1)
    shared = killed = 0
    for _ in range(150):
        nodes = random.randint(1, 3)
        jobs = random_jobs(random, nodes, [(0,), (1,)], limits=True)
        capacities = [(2,)] * nodes
        while any(_most(jobs, node) > 4 for node in range(nodes)):
            jobs.pop()
        expected = progress(jobs, capacities, composition, whole_ends=True)
        found = emulate(jobs, capacities, composition)
        assert {job_id: (Fraction(end.at), end.killed) for job_id, end in found.items()} == {
            job_id: (outcome.end, outcome.killed) for job_id, outcome in expected.items()
        }, jobs
        shared += sum(found[job.id].at > job.start + job.work for job in jobs)
        killed += sum(end.killed for end in found.values())
    assert shared > 50  # the cases are not idle ones
    assert killed > 20


def _most(jobs: Sequence[PlacedJob], node: int) -> int:
    return sum(job.processes.get(node, 0) for job in jobs if job.demand[0])


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_random_demands_on_unequal_nodes_agree_with_the_reference(composition: Composition) -> None:
    # Here an exact end may lie less than 1/64 us above a whole one: each end may then be 1 us early, and shift those after it.
    random = Random(2)
    for _ in range(80):
        nodes = random.randint(1, 4)
        demands = [(500, 10), (1000, 0), (2000, 100), (0, 0), (1234, 77)]
        jobs = random_jobs(random, nodes, demands, limits=False)
        capacities = [random.choice([(6000, 256), (3000, 100)]) for _ in range(nodes)]
        expected = progress(jobs, capacities, composition, whole_ends=True)
        found = emulate(jobs, capacities, composition)
        for job in jobs:
            assert abs(found[job.id].at - expected[job.id].end) <= len(jobs), (jobs, job)
            assert found[job.id].work == job.work


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_work_wall_time_and_slowdown_agree_over_the_whole_life(composition: Composition) -> None:
    random = Random(3)
    for _ in range(80):
        nodes = random.randint(1, 3)
        jobs = random_jobs(random, nodes, [(500,), (1000,), (2000,)], limits=True)
        found = emulate(jobs, [(2500,)] * nodes, composition)
        for job in jobs:
            end = found[job.id]
            if end.killed:
                assert job.limit is not None
                assert end.at == job.start + job.limit
                assert end.work <= end.integral < end.work + 2  # rounded down, up to the noise of doubles
                assert end.work < job.work
            else:
                assert end.work == job.work
                assert end.integral >= job.work - Fraction(1, 32)
            assert end.at - job.start >= end.work  # nothing runs faster than alone


def test_check_finds_damage() -> None:
    def settled() -> ContendedNodes:
        cluster = cluster_of([(6,)], "paper")
        cluster.seat(1, runs_on((0, 1, 1, 1)), 100, (9, 0, 0), 0)
        cluster.settle(0)
        cluster.check()
        return cluster

    cluster = settled()
    cluster._loads[0] = ()
    with pytest.raises(AssertionError, match="loads on nodes"):
        cluster.check()
    cluster = settled()
    cluster._penalties[0][1] = 0.25
    with pytest.raises(AssertionError, match="not settled"):
        cluster.check()
    cluster = settled()
    cluster._jobs[1].suspended = True  # but it still counts
    with pytest.raises(AssertionError, match="loads on nodes"):
        cluster.check()
