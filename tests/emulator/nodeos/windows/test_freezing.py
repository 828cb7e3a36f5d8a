"""Frozen nodes go on as if nothing had been: the same trace, later."""

from __future__ import annotations

import random

import pytest
from tests.emulator.nodeos.test_reference import some_program

from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.programs import ByRank, Compute, Loop, Operation, Program, Receive, Send
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.offered import COSCHEDULING, LOCAL_SCHEDULERS

HALF = (range(2), range(2, 5))  # nodes of jobs that do not influence each other
SPAN_US = 400_000


def exchanges(chance: random.Random, processes: int) -> Program:
    """Return a program whose processes exchange messages, some of them large, all around a ring."""
    bursts = [chance.randrange(200, 9_000) for _ in range(3)]
    sizes = [chance.choice((100, 5_000, 90_000)) for _ in range(3)]

    def body(rank: int) -> tuple[Operation, ...]:
        steps: list[Operation] = []
        for burst_us, size_bytes in zip(bursts, sizes, strict=True):
            steps += [
                Compute(burst_us, 300_000),
                Send((rank + 1) % processes, size_bytes),
                Receive((rank - 1) % processes),
            ]
        return tuple(steps)

    return Program((Loop(400, ByRank(body)),))


def cluster_of(seed: int, local: str, policy: str) -> ExactCluster:
    chance = random.Random(f"{seed} {local} {policy}")
    settings = NodeSettings(
        local,
        slice_us=10_000,
        switch_us=7,
        refill_us=100,
        memory_mb=chance.choice((0, 80)),
        swap_mb_s=2_000,
        coscheduling=policy,
        rendezvous_bytes=chance.choice((0, 16_384)),
        receive_cpu_us=2,
        interrupt_us=10,
        daemon_us=chance.choice((0, 900)),
        daemon_period_us=40_000,
        io_cpu_us=50,
    )
    cluster = ExactCluster(settings, 5, seed)
    job = 0
    for nodes in HALF:
        for _ in range(3):
            places = [chance.choice(nodes) for _ in range(chance.randrange(2, 4))]
            program = exchanges(chance, len(places)) if chance.random() < 0.7 else some_program(chance, len(places))
            if nodes is HALF[1] and any(getattr(item, "shared", False) for item in program.operations(0)):
                program = exchanges(chance, len(places))  # the server is one for all nodes
            cluster.start(job, program, places, memory_mb=30)
            job += 1
    allow(cluster)
    return cluster


def allow(cluster: ExactCluster, nodes: range = range(5)) -> None:
    runnable: dict[int, list[int]] = {}
    for number, job in cluster.jobs.items():
        for node in sorted({process.node for process in job.processes} & set(nodes)):
            runnable.setdefault(node, []).append(number)
    cluster.allow(cluster.now_us, runnable)


def ends(cluster: ExactCluster, until_us: int) -> dict[int, int]:
    found: dict[int, int] = {}
    while cluster.now_us < until_us:
        reached = cluster.advance(until_us)
        found |= dict.fromkeys(reached.ended, reached.now_us)
    return found


def state(cluster: ExactCluster, nodes: range, late_us: int) -> list[object]:
    """Return what the processes of jobs on nodes have done, and the events there, earlier by ``late_us``."""
    for node in nodes:
        cluster.cpus[node].charge(cluster.now_us)
    processes = [
        (
            number,
            process.rank,
            process.consumed_us,
            process.polled_us(),
            process.passed(),
            process.counter,
            process.state,
        )
        for number, job in sorted(cluster.jobs.items())
        for process in job.processes
        if process.node in nodes
    ]
    events = sorted(
        (time_us - late_us, *rest) for time_us, *rest in cluster._events if rest[1] in nodes and rest[0] != 6
    )
    return [processes, events]


@pytest.mark.by_default(7)
@pytest.mark.parametrize("policy", COSCHEDULING)
@pytest.mark.parametrize("local", LOCAL_SCHEDULERS)
def test_frozen_nodes_go_on_with_the_same_trace_later(local: str, policy: str) -> None:
    for seed in range(2):
        chance = random.Random(seed)
        at_us, for_us = chance.randrange(1, SPAN_US), chance.randrange(1, 3 * SPAN_US)
        frozen, plain = cluster_of(seed, local, policy), cluster_of(seed, local, policy)
        first = ends(frozen, at_us)
        frozen.freeze(HALF[0], server=True)
        first |= ends(frozen, at_us + for_us)
        used = [frozen.cpus[node].busy_us for node in HALF[0]]
        frozen.thaw(HALF[0])
        assert used == [frozen.cpus[node].busy_us for node in HALF[0]]
        later = ends(frozen, at_us + for_us + SPAN_US)
        as_plain = ends(plain, at_us + SPAN_US)
        assert state(frozen, HALF[0], for_us) == state(plain, HALF[0], 0)
        assert {job: end - for_us for job, end in later.items() if job < 3} == {
            job: end for job, end in as_plain.items() if job < 3 and end > at_us
        }
        # The other nodes have not noticed anything.
        as_plain |= ends(plain, at_us + for_us + SPAN_US)
        both = {job: end for job, end in (first | later).items() if job > 2}
        assert both == {job: end for job, end in as_plain.items() if job > 2}
        assert state(frozen, HALF[1], 0) == state(plain, HALF[1], 0)


def test_a_job_can_be_removed_while_its_nodes_are_frozen() -> None:
    cluster = cluster_of(3, "linux-epochs", "sb")
    cluster.advance(50_000)
    allow(cluster, HALF[1])
    cluster.freeze(HALF[0], server=True)
    cluster.advance(60_000)
    for job in (0, 1, 2):
        cluster.remove(job)
    cluster.thaw(HALF[0])
    assert ends(cluster, 100_000_000).keys() == {3, 4, 5}
    assert not cluster.jobs
