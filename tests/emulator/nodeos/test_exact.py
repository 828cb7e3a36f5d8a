"""The exact cluster: conservation, what the paper's jobs do under each local scheduler, what is logged, what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.emulator.nodeos.drivers import QUANTUM_US, best_fit, consume, static_jobs, strict

from cosched_emulator.errors import ConfigurationError, InvariantError
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.programs import (
    Barrier,
    ByRank,
    Collective,
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
from cosched_emulator.nodeos.skeletons.paired_gang import compute_program, fine_program, io_program
from cosched_emulator.offered import LOCAL_SCHEDULERS

EXACT_LOG = NodeSettings(tick_us=0)


def once(*body: Operation) -> Program:
    return Program((Loop(1, body),))


def cluster_with(*programs: Program, nodes: int = 1, settings: NodeSettings = EXACT_LOG) -> ExactCluster:
    """Return a cluster in which each job has a process on every node, and all may run."""
    cluster = ExactCluster(settings, nodes, seed=1)
    for job, program in enumerate(programs):
        cluster.start(job, program, range(nodes))
    cluster.allow(0, {node: list(range(len(programs))) for node in range(nodes)})
    return cluster


def end_of(program: Program, nodes: int = 1, settings: NodeSettings = EXACT_LOG) -> int:
    reached = cluster_with(program, nodes=nodes, settings=settings).advance(10**9)
    assert reached.ended == (0,)
    return reached.now_us


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("local", LOCAL_SCHEDULERS)
def test_cpu_time_is_conserved(local: str, seed: int) -> None:
    chance = random.Random(seed)
    nodes = 3
    cluster = ExactCluster(NodeSettings(local=local, slice_us=10_000, tick_us=0, switch_us=50), nodes, seed)
    work: dict[int, int] = {}
    for job in range(4):
        size = chance.randrange(1, nodes + 1)
        times, us, files = chance.randrange(1, 40), chance.randrange(1, 20_000), chance.randrange(3)
        cluster.start(job, Program((Loop(times, (Compute(us), WriteFiles(files), Barrier())),)), range(size))
        work[job] = size * times * (us + files * cluster.settings.io_cpu_us)
    used = dict.fromkeys(work, 0)
    running = set(work)
    while running:
        now_us = cluster.now_us
        chosen = [job for job in sorted(running) if chance.random() < 0.6]
        runnable = {
            node: [job for job in chosen if any(p.node == node for p in cluster.jobs[job].processes)]
            for node in range(nodes)
        }
        before = {job: cluster.jobs[job].barriers for job in running}
        cluster.allow(now_us, runnable)
        reached = cluster.advance(now_us + 100_000)
        on_node = [0] * nodes
        for usage in cluster.collect():
            assert usage.job in chosen
            assert usage.logged_us <= usage.consumed_us <= usage.allowed_us <= reached.now_us - now_us
            used[usage.job] += usage.consumed_us
            on_node[usage.node] += usage.consumed_us
        assert max(on_node) <= reached.now_us - now_us
        for job in running - set(chosen):  # a barrier that had been reached still opens, no other one
            assert cluster.jobs[job].barriers <= before[job] + 1
        running -= set(reached.ended)
        for job in reached.ended:
            assert used[job] == work[job]
        assert reached.now_us < 10**9
    assert sum(cpu.busy_us for cpu in cluster.cpus) == sum(work.values())
    assert all(cpu.busy_us + cpu.overhead_us <= cluster.now_us for cpu in cluster.cpus)


def test_a_barrier_waits_for_the_last_process() -> None:
    settings = NodeSettings(barrier_us=100, network_mb_s=100)

    def uneven(rank: int) -> tuple[Operation, ...]:
        return Compute(1_000 * (rank + 1)), Barrier(), Compute(500)

    assert end_of(Program((Loop(1, ByRank(uneven)),)), nodes=3, settings=settings) == 3_000 + 100 + 500
    assert end_of(once(Collective(1_000), Compute(1)), nodes=5, settings=settings) == 100 + 3 * 10 + 1


def test_messages_queue_at_the_way_out() -> None:
    settings = NodeSettings(message_cpu_us=5, receive_cpu_us=0, latency_us=50, network_mb_s=100, interrupt_us=0)

    def ping_pong(rank: int) -> tuple[Operation, ...]:
        other = 1 - rank
        return (Send(other, 1_000), Receive(other)) if rank == 0 else (Receive(other), Send(other, 1_000))

    assert end_of(Program((Loop(10, ByRank(ping_pong)),)), nodes=2, settings=settings) == 10 * 2 * (5 + 10 + 50)

    def two_sends(rank: int) -> tuple[Operation, ...]:
        return (Send(1, 10_000), Send(1, 10_000)) if rank == 0 else (Receive(0), Receive(0))

    assert end_of(Program((Loop(1, ByRank(two_sends)),)), nodes=2, settings=settings) == 5 + 100 + 100 + 50


def test_the_shared_server_serves_all_nodes_one_by_one() -> None:
    settings = NodeSettings(io_cpu_us=0, io_service_us=300)
    assert end_of(once(WriteFiles(4, shared=False)), nodes=3, settings=settings) == 4 * 300
    assert end_of(once(WriteFiles(4)), nodes=3, settings=settings) == 3 * 4 * 300


def test_io_of_a_stopped_process_completes() -> None:
    cluster = cluster_with(once(Wait(1_000), Compute(100)))
    cluster.advance(500)
    cluster.allow(500, {})
    cluster.advance(5_000)
    assert cluster.collect()[0].consumed_us == 0
    cluster.allow(5_000, {0: [0]})
    assert cluster.advance(10_000) == (5_100, (0,))


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("local", LOCAL_SCHEDULERS)
def test_hungry_processes_get_equal_shares(local: str, number: int) -> None:
    settings = NodeSettings(local=local, slice_us=20_000, tick_us=0)
    cluster = cluster_with(*[once(Compute(10**9))] * number, settings=settings)
    cluster.advance(6_000_000)
    for usage in cluster.collect():
        assert usage.consumed_us == pytest.approx(6_000_000 / number, abs=60_000)


def test_switches_and_cache_refills_cost_time() -> None:
    cluster = cluster_with(
        *[once(Compute(10**9))] * 2, settings=NodeSettings(local="rr", slice_us=1_000, switch_us=20, refill_us=80)
    )
    cluster.advance(1_100_000)
    assert cluster.cpus[0].overhead_us == 100_000
    assert cluster.cpus[0].busy_us + 100_000 == 1_100_000
    assert not any(usage.consumed_us > 500_000 for usage in cluster.collect())


# Progress of each of two jobs of 45 %, relative to one alone. Under linux-epochs it moves between these bounds in a run.
@pytest.mark.parametrize(
    ("local", "least", "most"), [("wake-first", 0.80, 0.83), ("rr", 0.99, 1.0), ("linux-epochs", 0.7, 1.0)]
)
def test_two_fine_jobs_on_sixteen_nodes(local: str, least: float, most: float) -> None:
    rates = []
    for jobs in (1, 2):
        settings = NodeSettings(local=local)
        cluster = cluster_with(*[fine_program(100)] * jobs, nodes=16, settings=settings)
        cluster.advance(1_000_000)
        rates.append(cluster.jobs[0].barriers)
    assert least <= rates[1] / rates[0] <= most + 0.005


@pytest.mark.parametrize(
    ("local", "slice_us", "compute", "io"),
    [
        ("linux-epochs", 1, 0.97, 1.0),
        ("wake-first", 200_000, 0.975, 0.91),
        ("wake-first", 10_000, 0.97, 1.0),
        ("rr", 200_000, 1.0, 0.07),
        ("rr", 10_000, 0.99, 0.41),
        ("rr", 2_000, 0.97, 0.99),
    ],
)
def test_a_compute_job_beside_an_io_job(local: str, slice_us: int, compute: float, io: float) -> None:
    programs = compute_program(10**6), io_program(10**6)
    settings = NodeSettings(local=local, slice_us=slice_us)

    def barriers(*chosen: Program) -> list[int]:
        cluster = cluster_with(*chosen, nodes=8, settings=settings)
        cluster.advance(6_000_000)
        return [cluster.jobs[job].barriers for job in range(len(chosen))]

    together = barriers(*programs)
    assert together[0] / barriers(programs[0])[0] == pytest.approx(compute, abs=0.02)
    assert together[1] / barriers(programs[1])[0] == pytest.approx(io, abs=0.04)


# Closed forms: quanta with a partner over quanta without; a compute job loses what the I/O job's files take of the CPU.
CLOSED_FORMS: list[tuple[int, Callable[[float], list[float]]]] = [
    (0, lambda _: [1, 1, 1, 1]),
    (1, lambda cpu: [4 / 3 * cpu] * 3 + [4]),
    (2, lambda cpu: [2 * cpu, 2 * cpu, 1, 3]),
    (3, lambda cpu: [4 * cpu, 1, 1, 2]),
    (4, lambda _: [0.5, 0.5, 1, 2]),
]


@pytest.mark.parametrize(
    "io_jobs",
    [1, pytest.param(0, marks=pytest.mark.slow), *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4))],
)
def test_static_mixes_follow_the_closed_forms(io_jobs: int) -> None:
    settings = NodeSettings(local="rr", slice_us=2_000, tick_us=0)
    jobs = static_jobs(io_jobs, nodes=8)
    quanta = 24
    alone = consume(ExactCluster(settings, 8, 1), jobs, strict(), quanta)
    paired = consume(ExactCluster(settings, 8, 1), jobs, best_fit(io_jobs), quanta)
    ratios = [b / a for a, b in zip(alone, paired, strict=True)]
    expected = CLOSED_FORMS[io_jobs][1](0.973)
    if io_jobs == 4:  # all share one server that one of them saturates
        expected = [2 * share for share in (0.25, 0.25, 0.625, 0.875)]
        assert sum(ratios) == pytest.approx(sum(expected), rel=0.03)
        return
    assert ratios == pytest.approx(expected, rel=0.03)
    if io_jobs == 1:
        assert 3.9 <= ratios[3] <= 4.1


def test_what_is_logged_is_in_ticks_and_right_in_the_mean() -> None:
    cluster = cluster_with(fine_program(100), settings=NodeSettings())
    consumed = logged = 0
    for quantum in range(1, 61):
        cluster.advance(quantum * 100_000)
        (usage,) = cluster.collect()
        assert usage.logged_us % 10_000 == 0
        assert abs(usage.logged_us - usage.consumed_us) < 10_000
        assert usage.allowed_us == 100_000
        consumed += usage.consumed_us
        logged += usage.logged_us
    assert logged == pytest.approx(consumed, rel=0.02)


@pytest.mark.parametrize(("io_logged_ppm", "expected"), [(0, 0), (1_000_000, 1)])
def test_the_cpu_time_of_io_is_logged_as_the_settings_say(io_logged_ppm: int, expected: int) -> None:
    cluster = cluster_with(io_program(10**6), settings=NodeSettings(tick_us=0, io_logged_ppm=io_logged_ppm))
    cluster.advance(QUANTUM_US)
    (usage,) = cluster.collect()
    assert usage.consumed_us > 100_000
    assert usage.logged_us == expected * usage.consumed_us


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> list[int]:
        return consume(ExactCluster(NodeSettings(), 2, seed), static_jobs(1, nodes=2), best_fit(1), 8)

    assert run(1) == run(1) != run(2)


def test_mistakes_are_refused() -> None:
    cluster = cluster_with(once(Compute(1_000)))
    with pytest.raises(InvariantError, match="job 0 is on its nodes already"):
        cluster.start(0, once(Compute(1)), [0])
    with pytest.raises(InvariantError, match="job 7 has no process on node 0"):
        cluster.allow(0, {0: [7]})
    with pytest.raises(InvariantError, match="is not 0 us"):
        cluster.allow(2_000, {})
    with pytest.raises(ConfigurationError, match="places: expected nodes from 0 to 0"):
        cluster.start(1, once(Compute(1)), [1])
    with pytest.raises(ConfigurationError, match="takes time"):
        cluster.start(1, once(Wait(0)), [0])
    with pytest.raises(ConfigurationError, match="ranks below 1"):
        cluster.start(1, once(Compute(1), Send(1, 1)), [0])
    with pytest.raises(ConfigurationError, match="did you mean 'linux-epochs'"):
        NodeSettings(local="linux-epoch")
    with pytest.raises(ConfigurationError, match="slice_us: expected 1 or more, got 0"):
        NodeSettings(slice_us=0)
