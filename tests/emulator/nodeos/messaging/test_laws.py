"""What holds under every policy: where the time of a node goes, when messages are received, and what names do not change."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from cosched_emulator.nodeos import programs
from cosched_emulator.nodeos.coscheduling.policies import POLICIES
from cosched_emulator.nodeos.exact import NUMBER as DAEMON
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_hwmodel import draws

NODES = 5
UNTIL_US = 600_000
LATENCY_US = 6


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


def cluster_under(policy: str, names: Sequence[int] = range(NODES), interrupt_us: int = 10) -> ExactCluster:
    """Return a cluster with jobs on nodes; node n has the name ``names[n]``."""
    settings = NodeSettings(
        local="linux-epochs",
        tick_us=0,
        coscheduling=policy,
        latency_us=LATENCY_US,
        message_cpu_us=2,
        receive_cpu_us=2,
        rendezvous_bytes=16_000,
        interrupt_us=interrupt_us,
        refill_us=40,
        daemon_us=2_000,
        daemon_period_us=50_000,
    )
    cluster = ExactCluster(settings, NODES, seed=1)
    runnable: dict[int, list[int]] = {}
    for job, (program, places) in enumerate(jobs()):
        cluster.start(job, program, [names[node] for node in places])
        for node in places:
            runnable.setdefault(names[node], []).append(job)
    cluster.allow(0, runnable)
    return cluster


def instants(cluster: ExactCluster) -> Iterator[int]:
    """Go from event to event, and yield the time of each instant at which all has happened."""
    while cluster._events[0][0] <= UNTIL_US:
        cluster.advance(cluster._events[0][0])
        yield cluster.now_us


@pytest.mark.parametrize("policy", POLICIES)
def test_a_node_is_busy_or_switches_or_is_idle(policy: str) -> None:
    # An interrupt of an idle node is counted, and takes no time.
    cluster = cluster_under(policy, interrupt_us=0)
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


@pytest.mark.parametrize("policy", POLICIES)
def test_no_message_is_received_before_it_was_sent_and_came(policy: str) -> None:
    cluster = cluster_under(policy)
    received = [0] * len(jobs())

    class Box(deque[int]):
        """Messages of one process to another one, and when each was sent."""

        def __init__(self, job: int) -> None:
            super().__init__()
            self.job = job
            self.sent_us: deque[int] = deque()

        def append(self, arrival_us: int) -> None:
            assert arrival_us >= cluster.now_us + LATENCY_US
            self.sent_us.append(cluster.now_us)
            super().append(arrival_us)

        def popleft(self) -> int:
            arrival_us = super().popleft()
            assert self.sent_us.popleft() + LATENCY_US <= arrival_us <= cluster.now_us
            received[self.job] += 1
            return arrival_us

    for number, job in cluster.jobs.items():
        for process in job.processes:
            process.port.inbox = defaultdict(partial(Box, number))
    for _ in instants(cluster):
        for number, job in cluster.jobs.items():
            assert received[number] <= job.messages
    assert min(received) > 50


@pytest.mark.parametrize("policy", POLICIES)
def test_names_of_nodes_change_nothing_but_the_names(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = list(range(NODES))
    random.Random(policy).shuffle(names)

    def history(cluster: ExactCluster, names: Sequence[int]) -> list[object]:
        ends: dict[int, int] = {}
        while cluster.now_us < UNTIL_US:
            reached = cluster.advance(UNTIL_US)
            ends |= dict.fromkeys(reached.ended, reached.now_us)
        used = [(cluster.consumed_us(job), cluster.useful_us(job), cluster.spun_us(job)) for job in cluster.jobs]
        cpus = [cluster.cpus[name] for name in names]
        return [ends, used, [(cpu.busy_us, cpu.overhead_us, cpu.switches, cpu.interrupts) for cpu in cpus]]

    plain = history(cluster_under(policy), range(NODES))
    uniform = draws.uniform

    def of_the_node(seed: int, name: str, *ids: int) -> float:
        """Draw for a node what was drawn for it under its other name."""
        if name in ("tick-phase", "policy-tick", "daemon"):
            return uniform(seed, name, names.index(*ids))
        if name == "counter" and ids[0] == DAEMON:
            return uniform(seed, name, DAEMON, names.index(ids[1]))
        return uniform(seed, name, *ids)

    monkeypatch.setattr(draws, "uniform", of_the_node)
    assert history(cluster_under(policy, names), names) == plain
