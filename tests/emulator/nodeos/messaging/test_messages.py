"""Messages: how long they take, rendezvous, polling, what the CPU time is spent on, daemons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.programs import ByRank, Compute, Loop, Operation, Program, Receive, Send
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.offered import COSCHEDULING

LATENCY_US, SEND_US, RECEIVE_US = 6, 2, 3


def node(policy: str = "nls", rendezvous_bytes: int = 16_000, interrupt_us: int = 0) -> NodeSettings:
    return NodeSettings(
        local="linux-epochs",
        tick_us=0,
        coscheduling=policy,
        message_cpu_us=SEND_US,
        receive_cpu_us=RECEIVE_US,
        latency_us=LATENCY_US,
        network_mb_s=100,
        rendezvous_bytes=rendezvous_bytes,
        interrupt_us=interrupt_us,
    )


def of_ranks(times: int, *bodies: tuple[Operation, ...]) -> Program:
    return Program((Loop(times, ByRank(lambda rank: bodies[rank])),))


def run(
    settings: NodeSettings, *programs: Program, nodes: int = 2, until_us: int = 10**9
) -> tuple[ExactCluster, dict[int, int]]:
    """Run jobs of one process on each node; return the cluster and when each job ended."""
    cluster = ExactCluster(settings, nodes, seed=1)
    for job, program in enumerate(programs):
        cluster.start(job, program, range(nodes))
    cluster.allow(0, {number: list(range(len(programs))) for number in range(nodes)})
    ends: dict[int, int] = {}
    while cluster.jobs and cluster.now_us < until_us:
        reached = cluster.advance(until_us)
        ends.update(dict.fromkeys(reached.ended, reached.now_us))
    return cluster, ends


@pytest.mark.parametrize("policy", COSCHEDULING)
def test_cpu_time_is_useful_or_polled_or_for_messages(policy: str) -> None:
    body_us, times = 700, 300
    ring = of_ranks(
        times, *((Send(1 - rank, size), Compute(body_us), Receive(1 - rank)) for rank, size in ((0, 100), (1, 30_000)))
    )
    settings = replace(node(policy, interrupt_us=4), switch_us=5, refill_us=20, daemon_us=50, daemon_period_us=10_000)
    cluster, ends = run(settings, ring, ring, ring)
    last_us = max(ends.values())
    for job in range(3):
        assert cluster.useful_us(job) == 2 * times * body_us
        messages_us = 2 * times * (SEND_US + RECEIVE_US)
        assert cluster.consumed_us(job) == cluster.useful_us(job) + cluster.spun_us(job) + messages_us
    consumed_us = sum(cluster.consumed_us(job) for job in range(3))
    for cpu in cluster.cpus:
        assert cpu.busy_us + cpu.overhead_us <= last_us
    daemons_us = sum(cpu.busy_us for cpu in cluster.cpus) - consumed_us
    assert 0.4 < daemons_us / (2 * 50 * last_us / 10_000) < 1.05
    assert (cluster.spun_us(0) > 0) == (policy not in ("none", "hybrid"))


def test_useful_time_counts_the_part_of_a_burst() -> None:
    cluster, _ = run(node(), of_ranks(1, (Compute(10_000), Send(1, 0)), (Receive(0),)), until_us=4_000)
    assert cluster.useful_us(0) == 4_000
    assert cluster.spun_us(0) == 4_000
    cluster.advance(10_001)
    assert cluster.useful_us(0) == 10_000


def test_delays_say_how_long_a_message_waits_for_its_process() -> None:
    waits = of_ranks(50, (Compute(3_000), Send(1, 0)), (Receive(0),))
    computes = of_ranks(1, (Compute(1),), (Compute(10**7),))
    cluster, _ = run(node("nls"), waits, computes, until_us=2_000_000)
    job = cluster.jobs.get(0)
    assert job is None or job.delays_us / job.delayed > 1_000
    alone, _ = run(node("nls"), waits, until_us=100_000)
    assert alone.jobs[0].delays_us == 0
    assert alone.jobs[0].messages == alone.jobs[0].delayed
