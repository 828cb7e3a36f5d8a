"""Small drivers of clusters for tests: a rotation over pairs of jobs, and random rows of jobs that may run together."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from cosched_emulator.nodeos.process_cluster import ProcessCluster, ProcessUse
from cosched_emulator.nodeos.programs import Program
from cosched_emulator.nodeos.skeletons.paired_gang import compute_program, fine_program, io_program

QUANTUM_US = 1_000_000
ENDLESS = 10**6

Turn = tuple[int, ...]  # the jobs that run in a quantum
Job = tuple[Program, Sequence[int]]  # and the nodes of its processes


def strict() -> Iterator[Turn]:
    """Yield the turns of gang scheduling with a row for each of four jobs."""
    while True:
        yield from ((0,), (1,), (2,), (3,))


def best_fit(io_jobs: int) -> Iterator[Turn]:
    """Yield the turns of four jobs of which the last ones do I/O, as best fit pairs them (paper section 4.1.2)."""
    for turn in range(1 << 30):
        yield from (
            ((0,), (1,), (2,), (3,)),
            ((0, 3), (1, 3), (2, 3), (3, turn % 3)),
            ((0, 3), (1, 3), (2, turn % 2), (3, turn % 2)),
            ((0, 3), (1, 0), (2, 0), (3, 0)),
            ((0, 3), (1, 3), (2, 3), (3, 2)),
        )[io_jobs]


def consume(cluster: ProcessCluster, jobs: Sequence[Job], turns: Iterator[Turn], quanta: int) -> list[int]:
    """Run jobs in turns, on all of their nodes each, and return the CPU time that each has used."""
    used = [0] * len(jobs)
    for usage in run_turns(cluster, jobs, turns, quanta):
        used[usage.job] += usage.consumed_us
    return used


def run_turns(cluster: ProcessCluster, jobs: Sequence[Job], turns: Iterator[Turn], quanta: int) -> Iterator[ProcessUse]:
    """Run jobs in turns, and yield what is used."""
    for number, (program, places) in enumerate(jobs):
        cluster.start(number, program, places)
    for quantum in range(quanta):
        runnable: dict[int, list[int]] = {}
        for number in next(turns):
            for node in jobs[number][1]:
                runnable.setdefault(node, []).append(number)
        cluster.allow(quantum * QUANTUM_US, runnable)
        assert cluster.advance((quantum + 1) * QUANTUM_US).ended == ()
        yield from cluster.collect()


def static_jobs(io_jobs: int, nodes: int) -> list[Job]:
    """Return the four jobs of a static mix, each on all nodes."""
    programs = [compute_program(ENDLESS, 2_500_000)] * (4 - io_jobs) + [io_program(ENDLESS)] * io_jobs
    return [(program, range(nodes)) for program in programs]


def random_rows(seed: int, nodes: int) -> list[Job]:
    """Return jobs of two rows that may run together: on no node do their CPU shares add up to more than 98 %."""
    chance = random.Random(seed)
    limit = chance.uniform(0.05, 0.9)
    limits = [0.98, 0.0] if chance.random() < 0.4 else [limit, 0.98 - limit]
    jobs: list[Job] = []
    for most in limits:
        first = 0
        while first < nodes:
            size = chance.randrange(1, nodes + 1 - first)
            kind = chance.random()
            if most == 0 or kind < 0.1:
                program = io_program(ENDLESS, chance.randrange(2, 20))
            elif most == 0.98 and kind < 0.6:
                program = compute_program(ENDLESS, chance.randrange(1_000_000, 2_500_000))
            else:
                program = fine_program(ENDLESS, int(chance.uniform(0.01, max(0.02, most)) * 1e6))
            if chance.random() < 0.85:
                jobs.append((program, range(first, first + size)))
            first += size
    return jobs
