"""The references of node sharing, against cases worked by hand, enumeration and each other."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from tests.reference.rates import Outcome, PlacedJob, progress
from tests.reference.sharing import (
    Node,
    Placement,
    Process,
    Request,
    best_factor,
    earliest_with_threshold,
    free_buckets,
    less_consume,
    penalised_time,
    penalty,
    penalty_factor,
)

F = Fraction

# ---------------------------------------------------------------- node sharing, by hand

HIGH, MEDIUM, LOW = (2000,), (1000,), (500,)
CAPACITY = (6000,)


def node(*residents: Process, processors: int = 4) -> Node:
    return Node(processors, CAPACITY, residents)


def resident(processor: int, end: int, demand: tuple[int, ...] = HIGH, start: int = 0) -> Process:
    return Process(processor, start, end, demand)


def placed(start: int, buckets: str, factor: Fraction | int) -> Placement:
    """Read "00 01 10" as buckets (0, 0), (0, 1), (1, 0)."""
    return Placement(start, tuple((int(one[0]), int(one[1])) for one in buckets.split()), F(factor))


def test_penalties_of_the_specification() -> None:
    assert penalty((8000,), CAPACITY) == F(1, 3)
    assert penalty((6000,), CAPACITY) == 0
    assert penalty((9000, 384), (6000, 256)) == F(1, 2) + F(1, 2)
    assert penalised_time(node(), 4, HIGH, 0, 30) == 10
    assert penalty_factor([node()], Request(4, HIGH, 30), 0, [(0, p) for p in range(4)]) == F(4, 3)


def test_shared_windows() -> None:
    # Demand 4000 of the job, 2000 until 6, 1000 more during [2, 5) and 2000 more during [4, 10): over 6000 by 0 in
    # [0, 2), by 1000 in [2, 4), 3000 in [4, 5), 2000 in [5, 6), 0 in [6, 10) -> 7000/6000 units of time.
    busy = node(resident(0, 6), resident(1, 5, MEDIUM, start=2), resident(2, 10, start=4), processors=8)
    assert penalised_time(busy, 2, HIGH, 0, 10) == F(7, 6)
    assert penalised_time(busy, 2, HIGH, 6, 10) == 0


def test_less_consume_moves_one_process_away() -> None:
    # First fit puts 4 high processes on node 0 (factor 4/3); moving the last one is enough.
    machine = [node(), node()]
    placement = less_consume(machine, Request(4, HIGH, 30), 0)
    assert placement == placed(0, "00 01 02 10", 1)
    assert less_consume(machine, Request(4, HIGH, 30), 0, F(3, 2)) == placed(0, "00 01 02 03", F(4, 3))


def test_threshold_waits_for_ends() -> None:
    machine = [node(), node(*(resident(p, 15 - p) for p in range(3)))]
    request = Request(4, HIGH, 30)
    # At 0, the fourth process is with three others until 13: 13/3 penalised. At 13, node 1 has two processors busy.
    assert earliest_with_threshold(machine, request, 0, F(3, 2)) == placed(0, "00 01 02 03", F(4, 3))
    found = earliest_with_threshold(machine, request, 0, F(115, 100))
    assert found == placed(0, "00 01 02 13", 1 + F(13, 90))
    found = earliest_with_threshold(machine, request, 0, F(1))
    assert found == placed(13, "00 01 02 12", 1)


# ---------------------------------------------------------------- node sharing, at random


def random_case(random: Random, reservations: bool) -> tuple[list[Node], Request]:
    """Draw 2 to 4 nodes of 2 to 4 processors with residents, and a request that may or may not fit."""
    resources = random.choice((1, 1, 1, 2))
    run = random.randint(1, 6)
    machine = []
    for _ in range(random.randint(2, 4)):
        processors = random.randint(2, 4)
        residents = []
        for processor in range(processors):
            demand = tuple(random.choice((500, 1000, 2000)) for _ in range(resources))
            if random.random() < 0.45:
                residents.append(Process(processor, 0, random.randint(1, 8), demand))
            elif reservations and random.random() < 0.3:
                start = random.randint(1, 6)
                residents.append(Process(processor, start, start + random.randint(1, 6), demand))
        capacity = tuple(random.choice((1000, 2000, 3000, 4000, 6000)) for _ in range(resources))
        machine.append(Node(processors, capacity, tuple(residents)))
    free = max(1, len(free_buckets(machine, 0, run)))
    demand = tuple(random.choice((500, 1000, 2000)) for _ in range(resources))
    return machine, Request(random.randint(1, free), demand, run)


@pytest.mark.parametrize("reservations", [False, True])
@pytest.mark.parametrize("cases", [150, pytest.param(500, marks=pytest.mark.slow)])
def test_greedy_reaches_the_best_factor(cases: int, reservations: bool) -> None:
    random = Random(f"greedy {reservations}")
    improved = 0
    for _ in range(cases):
        machine, request = random_case(random, reservations)
        placement = less_consume(machine, request, 0)
        best = best_factor(machine, request, 0)
        assert (placement.factor if placement else None) == best, (machine, request)
        if placement:
            improved += placement.factor < penalty_factor(
                machine, request, 0, free_buckets(machine, 0, request.run)[: request.processes]
            )
    assert improved > cases / 10  # first fit was not already the answer


# ---------------------------------------------------------------- progress, by hand


def completed(end: Fraction | int, work: int) -> Outcome:
    return Outcome(F(end), False, F(work))


def test_two_jobs_in_turn() -> None:
    # Two jobs of 2 high processes on a node for 6000: p = 1/3, rate 3/4. Job 1 alone until 6 has done 6 of 12, the
    # other 6 take 8 -> 14. Job 2 has then done 6 of 9; the last 3 alone -> 17.
    jobs = [PlacedJob(1, 0, 12, {0: 2}, HIGH), PlacedJob(2, 6, 9, {0: 2}, HIGH)]
    assert progress(jobs, [CAPACITY]) == {1: completed(14, 12), 2: completed(17, 9)}
    assert progress(jobs, [CAPACITY], "paper") == progress(jobs, [CAPACITY])


# ---------------------------------------------------------------- progress, at random


def test_random_progress() -> None:
    """Check that ends lie between the run time alone and the run time beside all possible neighbours, and the work of kills."""
    random = Random("progress")
    for _ in range(60):
        nodes = random.randint(1, 3)
        capacities = [(random.choice((2000, 3000, 6000)),) for _ in range(nodes)]
        jobs = [
            PlacedJob(
                number,
                random.randint(0, 12),
                random.randint(1, 12),
                {n: random.randint(1, 2) for n in random.sample(range(nodes), random.randint(1, nodes))},
                random.choice((LOW, MEDIUM, HIGH)),
                random.choice((None, 4, 12, 30)),
            )
            for number in range(random.randint(1, 5))
        ]
        for composition in ("bulk-synchronous", "paper"):
            for whole in (False, True):
                outcomes = progress(jobs, capacities, composition, whole_ends=whole)
                assert sorted(outcomes) == [job.id for job in jobs]
                for job in jobs:
                    end, was_killed, work = outcomes[job.id]
                    assert was_killed == (work < job.work)
                    assert end - job.start >= work
                    assert job.limit is None or end <= job.start + job.limit
                    assert not was_killed or (job.limit is not None and end == job.start + job.limit)
                    assert not whole or end.denominator == 1
                    everybody = [other for other in jobs if set(other.processes) & set(job.processes)]
                    worst = max(
                        penalty((sum(o.processes.get(n, 0) * o.demand[0] for o in everybody),), capacities[n])
                        for n in job.processes
                    )
                    assert end - job.start <= work * (1 + worst) + whole
