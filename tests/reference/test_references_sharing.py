"""The references of node sharing, against cases worked by hand, enumeration and each other."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
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


def test_a_bucket_is_free_for_the_whole_window() -> None:
    busy = node(resident(0, 5), resident(2, 9, start=7))
    assert free_buckets([busy], 5, 2) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert free_buckets([busy], 4, 3) == [(0, 1), (0, 2), (0, 3)]
    assert free_buckets([busy], 5, 3) == [(0, 0), (0, 1), (0, 3)]


def test_less_consume_moves_one_process_away() -> None:
    # First fit puts 4 high processes on node 0 (factor 4/3); moving the last one is enough.
    machine = [node(), node()]
    placement = less_consume(machine, Request(4, HIGH, 30), 0)
    assert placement == placed(0, "00 01 02 10", 1)
    assert less_consume(machine, Request(4, HIGH, 30), 0, F(3, 2)) == placed(0, "00 01 02 03", F(4, 3))


def test_less_consume_keeps_what_a_swap_would_not_improve() -> None:
    # Node 1 has three high residents to the end: a fourth there is as bad as a fourth on node 0.
    machine = [node(), node(*(resident(p, 30) for p in range(3)))]
    assert less_consume(machine, Request(4, HIGH, 30), 0) == placed(0, "00 01 02 03", F(4, 3))
    # If they leave after half of the time, the penalty is half.
    machine = [node(), node(*(resident(p, 15) for p in range(3)))]
    assert less_consume(machine, Request(4, HIGH, 30), 0) == placed(0, "00 01 02 13", F(7, 6))
    assert less_consume(machine, Request(6, HIGH, 30), 0) is None


def test_threshold_waits_for_ends() -> None:
    machine = [node(), node(*(resident(p, 15 - p) for p in range(3)))]
    request = Request(4, HIGH, 30)
    # At 0, the fourth process is with three others until 13: 13/3 penalised. At 13, node 1 has two processors busy.
    assert earliest_with_threshold(machine, request, 0, F(3, 2)) == placed(0, "00 01 02 03", F(4, 3))
    found = earliest_with_threshold(machine, request, 0, F(115, 100))
    assert found == placed(0, "00 01 02 13", 1 + F(13, 90))
    found = earliest_with_threshold(machine, request, 0, F(1))
    assert found == placed(13, "00 01 02 12", 1)


def test_threshold_that_the_empty_machine_cannot_meet() -> None:
    machine = [node(resident(0, 5)), node()]
    found = earliest_with_threshold(machine, Request(8, HIGH, 30), 0, F(1))
    assert found == placed(5, "00 01 02 03 10 11 12 13", F(4, 3))
    assert earliest_with_threshold(machine, Request(9, HIGH, 30), 0, F(1)) is None


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


def test_best_factor_over_every_set_of_buckets() -> None:
    random = Random("combinations")
    for _ in range(150):
        machine, request = random_case(random, True)
        free = free_buckets(machine, 0, request.run)
        if len(free) <= 9:
            factors = [penalty_factor(machine, request, 0, some) for some in combinations(free, request.processes)]
            assert best_factor(machine, request, 0) == (min(factors) if factors else None)


@pytest.mark.parametrize("cases", [130, pytest.param(400, marks=pytest.mark.slow)])
def test_waiting_for_an_end_never_raises_the_best_factor(cases: int) -> None:
    random = Random("later")
    compared = 0
    for _ in range(cases):
        machine, request = random_case(random, False)
        ends = sorted({0} | {process.end for one in machine for process in one.residents})
        factors = [best_factor(machine, request, start) for start in ends]
        fitting = [factor for factor in factors if factor is not None]
        assert None not in factors[len(factors) - len(fitting) :]  # once it fits, it fits at every later end
        assert fitting == sorted(fitting, reverse=True), (machine, request)
        compared += len(set(fitting)) > 1
    assert compared > cases / 8


def test_a_reservation_can_make_waiting_worse() -> None:
    # With reservations the best factor may rise: the planned neighbour is closer in time.
    machine = [Node(2, (3000,), (Process(0, 0, 2, LOW), Process(0, 4, 9, HIGH)))]
    request = Request(1, HIGH, 4)
    assert best_factor(machine, request, 0) == 1
    assert best_factor(machine, request, 2) == 1 + F(2, 4) * F(1, 3)


@pytest.mark.parametrize("threshold", [F(1), F(115, 100), F(5, 4), F(3, 2)])
@pytest.mark.parametrize("cases", [40, pytest.param(100, marks=pytest.mark.slow)])
def test_the_threshold_placement_is_at_the_first_end_whose_best_factor_meets_it(
    cases: int, threshold: Fraction
) -> None:
    random = Random(f"threshold {threshold}")
    for _ in range(cases):
        machine, request = random_case(random, False)
        found = earliest_with_threshold(machine, request, 0, threshold)
        empty = best_factor([one._replace(residents=()) for one in machine], request, 0)
        assert (found is None) == (empty is None)
        if found is None or empty is None:
            continue
        limit = max(threshold, empty)
        assert found.factor <= limit
        for start in sorted({0} | {process.end for one in machine for process in one.residents}):
            best = best_factor(machine, request, start)
            assert start >= found.start or best is None or best > limit


# ---------------------------------------------------------------- progress, by hand


def completed(end: Fraction | int, work: int) -> Outcome:
    return Outcome(F(end), False, F(work))


def killed(end: int, work: Fraction | int) -> Outcome:
    return Outcome(F(end), True, F(work))


def test_alone() -> None:
    jobs = [PlacedJob(1, 5, 30, {0: 4}, HIGH), PlacedJob(2, 0, 7, {1: 3}, HIGH)]
    assert progress(jobs, [CAPACITY] * 2) == {1: completed(45, 30), 2: completed(7, 7)}


def test_two_jobs_in_turn() -> None:
    # Two jobs of 2 high processes on a node for 6000: p = 1/3, rate 3/4. Job 1 alone until 6 has done 6 of 12, the
    # other 6 take 8 -> 14. Job 2 has then done 6 of 9; the last 3 alone -> 17.
    jobs = [PlacedJob(1, 0, 12, {0: 2}, HIGH), PlacedJob(2, 6, 9, {0: 2}, HIGH)]
    assert progress(jobs, [CAPACITY]) == {1: completed(14, 12), 2: completed(17, 9)}
    assert progress(jobs, [CAPACITY], "paper") == progress(jobs, [CAPACITY])


# Node 0: jobs 1 and 2 (p = 1/3) during [0, 8); node 1: jobs 1 and 3 (p = 1/3) from 8 on.
ALTERNATING = [
    PlacedJob(1, 0, 12, {0: 2, 1: 2}, HIGH),
    PlacedJob(2, 0, 6, {0: 2}, HIGH),
    PlacedJob(3, 8, 100, {1: 2}, HIGH),
]


def test_compositions_differ() -> None:
    # Bulk-synchronous: always one slow node, 12 work at 3/4 -> 16. By itself each: node 0 does 6 until 8, then 6 more
    # -> 14; node 1 does 8 until 8, then 4 at 3/4 -> 8 + 16/3 = 40/3. The job ends with node 0, at 14.
    assert progress(ALTERNATING, [CAPACITY] * 2)[1] == completed(16, 12)
    assert progress(ALTERNATING, [CAPACITY] * 2, "paper")[1] == completed(14, 12)


def test_finished_parts_demand() -> None:
    # Job 3 shares node 1 with job 1 until 14 or, where a finished part asks for nothing, until 40/3; then it is alone.
    kept = progress(ALTERNATING, [CAPACITY] * 2, "paper")[3]
    assert kept == completed(14 + 100 - 6 * F(3, 4), 100)
    dropped = progress(ALTERNATING, [CAPACITY] * 2, "paper", finished_parts_demand=False)
    assert dropped[3] == completed(F(40, 3) + 100 - 4, 100)
    assert dropped[1] == completed(14, 12)


def test_limits() -> None:
    # 30 of work take 40 on four high processes. Completion beats the kill at 40.
    for limit, expected in ((40, completed(45, 30)), (39, killed(44, F(117, 4))), (None, completed(45, 30))):
        assert progress([PlacedJob(1, 5, 30, {0: 4}, HIGH, limit)], [CAPACITY]) == {1: expected}
    # A kill frees the neighbour: together at 3/4 until 8 (6 done), then alone.
    jobs = [PlacedJob(1, 0, 12, {0: 2}, HIGH), PlacedJob(2, 0, 99, {0: 2}, HIGH, 8)]
    assert progress(jobs, [CAPACITY]) == {1: completed(14, 12), 2: killed(8, 6)}


def test_killed_work_is_that_of_the_slowest_part() -> None:
    jobs = [PlacedJob(1, 0, 12, {0: 2, 1: 2}, HIGH, 4), PlacedJob(2, 0, 12, {0: 2}, HIGH)]
    assert progress(jobs, [CAPACITY] * 2, "paper")[1] == killed(4, 3)


def test_whole_ends() -> None:
    # 1 of work at 3/4 -> 4/3, seen at 2; the neighbour is held back until then: 1.5 done at 2, the rest alone.
    jobs = [PlacedJob(1, 0, 1, {0: 2}, HIGH, 2), PlacedJob(2, 0, 5, {0: 2}, HIGH)]
    assert progress(jobs, [CAPACITY]) == {1: completed(F(4, 3), 1), 2: completed(F(16, 3), 5)}
    assert progress(jobs, [CAPACITY], whole_ends=True) == {1: completed(2, 1), 2: completed(6, 5)}


# ---------------------------------------------------------------- progress, at random


def test_with_unchanging_neighbours_progress_takes_the_planned_factor() -> None:
    """Check that plan and progress agree where they must: if no neighbour comes or goes, end = start + run * factor."""
    random = Random("plan and progress")
    for _ in range(60):
        machine = [
            Node(
                4,
                (random.choice((2000, 3000, 6000)),),
                tuple(resident(p, 99, random.choice((LOW, HIGH))) for p in range(2)),
            )
            for _ in range(3)
        ]
        request = Request(random.randint(1, 6), random.choice((LOW, MEDIUM, HIGH)), random.randint(1, 20))
        placement = less_consume(machine, request, 3)
        assert placement is not None
        own = {n: [b[0] for b in placement.buckets].count(n) for n, _ in placement.buckets}
        jobs = [PlacedJob(0, 3, request.run, own, request.demand)]
        for number, one in enumerate(machine):
            jobs += [PlacedJob(10 * number + p.processor + 1, 0, 999, {number: 1}, p.demand) for p in one.residents]
        for composition in ("bulk-synchronous", "paper"):
            outcome = progress(jobs, [one.capacity for one in machine], composition)[0]
            assert outcome.end == 3 + request.run * placement.factor


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
