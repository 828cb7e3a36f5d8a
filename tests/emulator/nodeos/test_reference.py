"""The exact cluster against the literal simulator: the same ends and the same CPU time, to the microsecond."""

from __future__ import annotations

import random
from functools import partial

import pytest
from tests.emulator.nodeos.reference import STEP_US
from tests.emulator.nodeos.side_by_side import SideBySide

from cosched_emulator.nodeos import programs
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.offered import LOCAL_SCHEDULERS

QUANTUM_US = 30_000


def some_operations(chance: random.Random) -> tuple[programs.Operation, ...]:
    def one() -> programs.Operation:
        match chance.randrange(5):
            case 0 | 1:
                return programs.Compute(chance.randrange(1, 80) * STEP_US)
            case 2:
                return programs.WriteFiles(chance.randrange(1, 4), chance.random() < 0.6)
            case 3:
                return programs.Wait(chance.randrange(1, 30) * STEP_US)
        return programs.Barrier()

    return (programs.Compute(chance.randrange(1, 20) * STEP_US), *(one() for _ in range(chance.randrange(1, 4))))


def some_program(chance: random.Random, processes: int) -> programs.Program:
    body = some_operations(chance)
    if chance.random() < 0.3:  # each process sends to the next, and waits for the one before it

        def exchange(rank: int) -> tuple[programs.Operation, ...]:
            size_bytes = (1 + rank % 2) * 20_000
            return (*body, programs.Send((rank + 1) % processes, size_bytes), programs.Receive((rank - 1) % processes))

        return programs.Program((programs.Loop(chance.randrange(1, 8), programs.ByRank(exchange)),))
    return programs.Program(
        (programs.Loop(chance.randrange(1, 8), body), programs.Loop(chance.randrange(1, 8), some_operations(chance)))
    )


def some_settings(chance: random.Random, local: str) -> NodeSettings:
    return NodeSettings(
        local=local,
        slice_us=chance.choice((1_000, 10_000)),
        tick_us=0,
        io_cpu_us=chance.choice((0, 100, 300)),
        io_service_us=chance.choice((300, 700)),
        barrier_us=chance.choice((100, 900)),
        switch_us=chance.choice((0, 0, 200)),
        message_cpu_us=chance.choice((100, 200)),
        receive_cpu_us=0,
        latency_us=chance.choice((100, 300)),
        network_mb_s=100,
        rendezvous_bytes=0,
        interrupt_us=0,
        epoch_ticks=chance.choice((1, 6, 6, 20)),
    )


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("local", LOCAL_SCHEDULERS)
def test_the_exact_cluster_does_what_the_literal_one_does(local: str, seed: int) -> None:
    chance = random.Random(f"{local} {seed}")
    settings = some_settings(chance, local)
    both = SideBySide(settings, chance.randrange(1, 4), seed)
    for _ in range(chance.randrange(1, 5)):
        places = [chance.randrange(both.nodes) for _ in range(chance.randrange(1, 4))]
        both.start(partial(some_program, chance), places)
    consumed: dict[tuple[int, int], int] = {}
    for _ in both.quanta(chance, 0.8, QUANTUM_US, 40):
        for usage in both.exact.collect():
            key = (usage.job, usage.node)
            consumed[key] = consumed.get(key, 0) + usage.consumed_us
        expected: dict[tuple[int, int], int] = {}
        for task in both.literal.tasks:
            expected[task.job, task.node] = expected.get((task.job, task.node), 0) + task.consumed
        assert {key: us for key, us in consumed.items() if us} == {key: us for key, us in expected.items() if us}
    assert both.ends
