"""Messages and coscheduling policies: the exact cluster against the literal simulator, to the microsecond."""

from __future__ import annotations

import random
from functools import partial

import pytest
from tests.emulator.nodeos.reference import STEP_US
from tests.emulator.nodeos.side_by_side import SideBySide

from cosched_emulator.nodeos import programs
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.offered import LOCAL_SCHEDULERS

QUANTUM_US = 50_000
TICK_US = 10_000  # of policies
POLICIES = (
    ("none", ()),
    ("nls", ()),
    ("sb", (("spin_us", 0),)),
    ("sb", (("spin_us", 700),)),
    ("cc", (("spin_us", 600), ("send_spin_us", 300), ("interval_us", TICK_US))),
    ("cc", (("spin_us", 600), ("send_spin_us", 1_000), ("interval_us", TICK_US))),
    ("dcs", ()),
    ("pb", (("interval_us", TICK_US),)),
    ("hybrid", ()),
    ("hybrid", (("boost", "all"),)),
)


def some_program(chance: random.Random, processes: int) -> programs.Program:
    """Return rounds of computing and messages in which each message that is sent is received, and nothing waits for ever."""
    bodies: list[list[programs.Operation]] = [
        [programs.Compute(chance.randrange(1, 30) * STEP_US)] for _ in range(processes)
    ]
    for _ in range(chance.randrange(1, 4)):
        kind = chance.randrange(4)
        size_bytes = chance.choice((0, 20_000, 100_000))
        for rank, body in enumerate(bodies):
            after, before = (rank + 1) % processes, (rank - 1) % processes
            if kind == 0:
                exchange: list[programs.Operation] = [
                    programs.Send(after, size_bytes),
                    programs.Receive(before),
                    programs.Send(before, size_bytes),
                    programs.Receive(after),
                ]
                body += [programs.CollectiveBegins(), *exchange, programs.CollectiveEnds()]
            elif kind == 1:
                body += [
                    programs.Send(after, size_bytes),
                    programs.Compute(chance.randrange(1, 60) * STEP_US),
                    programs.Receive(before),
                ]
            elif kind == 2:  # the first one sends to all others
                body.extend(
                    [programs.Send(other, size_bytes) for other in range(1, processes)]
                    if rank == 0
                    else [programs.Receive(0)]
                )
                body += [programs.Compute(chance.randrange(40) * STEP_US)]
            else:
                body.extend(
                    [programs.Receive(other) for other in range(1, processes)]
                    if rank == 0
                    else [programs.Send(0, size_bytes)]
                )
                body.extend([programs.Barrier()] if size_bytes == 0 else [])
    return programs.Program(
        (programs.Loop(chance.randrange(5, 30), programs.ByRank(lambda rank: tuple(bodies[rank]))),)
    )


def some_settings(
    chance: random.Random, local: str, policy: str, parameters: tuple[tuple[str, object], ...]
) -> NodeSettings:
    return NodeSettings(
        local=local,
        slice_us=chance.choice((2_000, 10_000)),
        tick_us=0,
        barrier_us=300,
        switch_us=chance.choice((0, 200)),
        message_cpu_us=chance.choice((100, 200)),
        receive_cpu_us=chance.choice((100, 200)),
        latency_us=chance.choice((100, 300)),
        network_mb_s=100,
        rendezvous_bytes=chance.choice((0, 50_000)),
        interrupt_us=chance.choice((0, 0, 100)),
        coscheduling=policy,
        coscheduling_parameters=parameters,
    )


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
@pytest.mark.parametrize(("policy", "parameters"), POLICIES)
@pytest.mark.parametrize(
    "local", [pytest.param(name, marks=[] if name == "linux-epochs" else pytest.mark.slow) for name in LOCAL_SCHEDULERS]
)
def test_messages_go_as_in_the_literal_simulator(
    local: str, policy: str, parameters: tuple[tuple[str, object], ...], seed: int
) -> None:
    chance = random.Random(f"{local} {policy} {seed}")
    settings = some_settings(chance, local, policy, parameters)
    both = SideBySide(settings, chance.randrange(2, 4), seed, TICK_US)
    for _ in range(chance.randrange(2, 5)):
        places = [chance.randrange(both.nodes) for _ in range(chance.randrange(2, 4))]
        both.start(partial(some_program, chance), places)
    exact = both.exact
    for now_us in both.quanta(chance, 0.9, QUANTUM_US, 60):
        for job, tasks in both.literal.jobs.items():
            if job in exact.jobs:
                expected = sum(t.consumed for t in tasks), sum(t.useful for t in tasks), sum(t.spun for t in tasks)
                assert (exact.consumed_us(job), exact.useful_us(job), exact.spun_us(job)) == expected, (job, now_us)
    assert both.ends or policy in ("nls", "dcs", "pb")
