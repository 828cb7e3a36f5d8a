"""The exact cluster: conservation, what the paper's jobs do under each local scheduler, what is logged, what is refused."""

from __future__ import annotations

import pytest
from tests.emulator.nodeos.drivers import QUANTUM_US, best_fit, consume, static_jobs

from cosched_emulator.errors import ConfigurationError, InvariantError
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.programs import Barrier, ByRank, Collective, Compute, Loop, Operation, Program, Send, Wait
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.skeletons.paired_gang import fine_program, io_program

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


def test_a_barrier_waits_for_the_last_process() -> None:
    settings = NodeSettings(barrier_us=100, network_mb_s=100)

    def uneven(rank: int) -> tuple[Operation, ...]:
        return Compute(1_000 * (rank + 1)), Barrier(), Compute(500)

    assert end_of(Program((Loop(1, ByRank(uneven)),)), nodes=3, settings=settings) == 3_000 + 100 + 500
    assert end_of(once(Collective(1_000), Compute(1)), nodes=5, settings=settings) == 100 + 3 * 10 + 1


def test_switches_and_cache_refills_cost_time() -> None:
    cluster = cluster_with(
        *[once(Compute(10**9))] * 2, settings=NodeSettings(local="rr", slice_us=1_000, switch_us=20, refill_us=80)
    )
    cluster.advance(1_100_000)
    assert cluster.cpus[0].overhead_us == 100_000
    assert cluster.cpus[0].busy_us + 100_000 == 1_100_000
    assert not any(usage.consumed_us > 500_000 for usage in cluster.collect())


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
    assert cluster.jobs[0].barriers == pytest.approx(6 * 600, rel=0.02)


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
