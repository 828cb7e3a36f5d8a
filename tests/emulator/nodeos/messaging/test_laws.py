"""What holds under every policy: a node is busy, or switches, or is idle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from cosched_emulator.nodeos import programs
from cosched_emulator.nodeos.coscheduling.policies import POLICIES
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.settings import NodeSettings

NODES = 5
UNTIL_US = 600_000


def a_ring(processes: int, size_bytes: int) -> programs.Program:
    """Return a program in which each process sends to the next one, and a large message to the one before it."""

    def body(rank: int) -> tuple[programs.Operation, ...]:
        after, before = (rank + 1) % processes, (rank - 1) % processes
        near = (programs.Compute(3_000, 300_000), programs.Send(after, size_bytes), programs.Receive(before))
        return (
            *near,
            programs.Compute(500, 200_000),
            programs.CollectiveBegins(),
            programs.Send(before, 40_000),
            programs.Receive(after),
            programs.CollectiveEnds(),
        )

    return programs.Program((programs.Loop(60, programs.ByRank(body)),))


def jobs() -> list[tuple[programs.Program, Sequence[int]]]:
    return [(a_ring(4, 900), (0, 1, 2, 3)), (a_ring(3, 30_000), (1, 3, 4)), (a_ring(3, 10), (4, 0, 2))]


def cluster_under(policy: str) -> ExactCluster:
    settings = NodeSettings(
        local="linux-epochs",
        tick_us=0,
        coscheduling=policy,
        latency_us=6,
        message_cpu_us=2,
        receive_cpu_us=2,
        rendezvous_bytes=16_000,
        interrupt_us=0,  # one of an idle node is counted, and takes no time
        refill_us=40,
        daemon_us=2_000,
        daemon_period_us=50_000,
    )
    cluster = ExactCluster(settings, NODES, seed=1)
    runnable: dict[int, list[int]] = {}
    for job, (program, places) in enumerate(jobs()):
        cluster.start(job, program, places)
        for node in places:
            runnable.setdefault(node, []).append(job)
    cluster.allow(0, runnable)
    return cluster


def instants(cluster: ExactCluster) -> Iterator[int]:
    """Go from event to event, and yield the time of each instant at which all has happened."""
    while cluster._events[0][0] <= UNTIL_US:
        cluster.advance(cluster._events[0][0])
        yield cluster.now_us


@pytest.mark.parametrize("policy", POLICIES)
def test_a_node_is_busy_or_switches_or_is_idle(policy: str) -> None:
    cluster = cluster_under(policy)
    idle_us, is_idle, before_us, compared = [0] * NODES, [False] * NODES, 0, 0
    for now_us in instants(cluster):
        for node, cpu in enumerate(cluster.cpus):
            idle_us[node] += (now_us - before_us) * is_idle[node]
            is_idle[node] = cpu.current is None
            cpu.charge(now_us)
            if not cpu._owed_us:  # in the middle of a switch
                assert cpu.busy_us + cpu.overhead_us + idle_us[node] == now_us
                compared += 1
        before_us = now_us
    assert compared > 5_000
    assert (min(idle_us) > 0) == (policy in ("none", "sb", "cc", "hybrid"))  # else there is always a process that polls
