"""The exact cluster against the literal simulator: the same ends and the same CPU time, to the microsecond."""

from __future__ import annotations

import random

import pytest
from tests.emulator.nodeos.reference import STEP_US, Reference

from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.local.catalogue import LOCAL_SCHEDULERS
from cosched_emulator.nodeos.programs import (
    Barrier,
    ByRank,
    Compute,
    Loop,
    Operation,
    Program,
    Receive,
    Send,
    Wait,
    WriteFiles,
)
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_hwmodel import draws

QUANTUM_US = 30_000


def some_operations(chance: random.Random) -> tuple[Operation, ...]:
    def one() -> Operation:
        match chance.randrange(5):
            case 0 | 1:
                return Compute(chance.randrange(1, 80) * STEP_US)
            case 2:
                return WriteFiles(chance.randrange(1, 4), chance.random() < 0.6)
            case 3:
                return Wait(chance.randrange(1, 30) * STEP_US)
        return Barrier()

    return (Compute(chance.randrange(1, 20) * STEP_US), *(one() for _ in range(chance.randrange(1, 4))))


def some_program(chance: random.Random, processes: int) -> Program:
    body = some_operations(chance)
    if chance.random() < 0.3:  # each process sends to the next, and waits for the one before it

        def exchange(rank: int) -> tuple[Operation, ...]:
            size_bytes = (1 + rank % 2) * 20_000
            return (*body, Send((rank + 1) % processes, size_bytes), Receive((rank - 1) % processes))

        return Program((Loop(chance.randrange(1, 8), ByRank(exchange)),))
    return Program((Loop(chance.randrange(1, 8), body), Loop(chance.randrange(1, 8), some_operations(chance))))


def some_settings(chance: random.Random, local: str) -> NodeSettings:
    return NodeSettings(
        local=local,
        slice_us=chance.choice((1_000, 10_000)),
        tick_us=0,
        io_cpu_us=chance.choice((0, 100, 300)),
        io_service_us=chance.choice((300, 700)),
        barrier_us=chance.choice((100, 900)),
        barrier_process_us=chance.choice((0, 100)),
        switch_us=chance.choice((0, 0, 200)),
        message_cpu_us=chance.choice((100, 200)),
        latency_us=chance.choice((100, 300)),
    )


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("local", LOCAL_SCHEDULERS)
def test_the_exact_cluster_does_what_the_literal_one_does(local: str, seed: int) -> None:
    chance = random.Random(f"{local} {seed}")
    settings = some_settings(chance, local)
    nodes = chance.randrange(1, 4)
    exact = ExactCluster(settings, nodes, seed)
    phases = [int(draws.uniform(seed, "tick-phase", node) * 100) * 100 for node in range(nodes)]
    literal = Reference(settings, nodes, phases)
    placed: dict[int, list[int]] = {}
    for job in range(chance.randrange(1, 5)):
        places = [chance.randrange(nodes) for _ in range(chance.randrange(1, 4))]
        program = some_program(chance, len(places))
        placed[job] = places
        exact.start(job, program, places)
        literal.start(job, program, places)
        for task, process in zip(literal.jobs[job], exact.jobs[job].processes, strict=True):
            task.counter = process.counter
    ends: dict[int, int] = {}
    consumed: dict[tuple[int, int], int] = {}
    for quantum in range(40):
        now_us = quantum * QUANTUM_US
        running = [job for job in placed if job not in ends and chance.random() < 0.8]
        on_nodes = {
            node: [job for job in running if any(p == node for p in places_left(exact, job))] for node in range(nodes)
        }
        exact.allow(now_us, on_nodes)
        literal.allow(on_nodes)
        while (reached := exact.advance(now_us + QUANTUM_US)).ended:
            ends.update(dict.fromkeys(reached.ended, reached.now_us))
            if reached.now_us == now_us + QUANTUM_US:
                break
        literal.advance(now_us + QUANTUM_US)
        for usage in exact.collect():
            key = (usage.job, usage.node)
            consumed[key] = consumed.get(key, 0) + usage.consumed_us
        expected: dict[tuple[int, int], int] = {}
        for task in literal.tasks:
            expected[task.job, task.node] = expected.get((task.job, task.node), 0) + task.consumed
        assert {key: us for key, us in consumed.items() if us} == {key: us for key, us in expected.items() if us}
        assert ends == literal.ends
        if len(ends) == len(placed):
            break
    assert ends


def places_left(cluster: ExactCluster, job: int) -> list[int]:
    """Return the nodes of the processes of a job that have not ended."""
    record = cluster.jobs.get(job)
    return [] if record is None else [process.node for process in record.processes]
