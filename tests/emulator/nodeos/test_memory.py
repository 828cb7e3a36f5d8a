"""Memory of nodes: what is resident, what is moved, and what that costs jobs on both clusters."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.fluid.fluid_cluster import FluidCluster
from cosched_emulator.nodeos.kernel.devices import NodeMemory, paging_us
from cosched_emulator.nodeos.programs import Compute, Loop, Program
from cosched_emulator.nodeos.settings import NodeSettings

A, B, C = (0, 0), (1, 0), (2, 0)
HUNGRY = Program((Loop(1_000, (Compute(10_000),)),))
SMALL = NodeSettings(local="rr", slice_us=10_000, memory_mb=100, swap_mb_s=100, tick_us=0)


def test_the_first_time_nothing_is_read() -> None:
    assert NodeMemory(100).admit({A: 60}) == {}


def test_the_longest_stopped_process_makes_room() -> None:
    memory = NodeMemory(100)
    memory.admit({A: 40})
    memory.admit({B: 40})
    assert memory.admit({C: 50}) == {C: 30}  # 30 of A's are written
    assert memory.admit({B: 40}) == {}
    assert memory.admit({A: 40}) == {A: 30 + 30}  # C is the longest stopped by now
    memory.leave(B)
    assert memory.admit({C: 50}) == {C: 30}  # there is room


def test_processes_that_do_not_fit_together_share() -> None:
    memory = NodeMemory(100)
    assert memory.admit({A: 150, B: 50}) == {}
    assert memory.missing_ppm == 500_000
    memory.admit({A: 50})
    assert memory.missing_ppm == 0


def test_no_more_is_resident_than_there_is_room() -> None:
    chance = random.Random(1)
    memory = NodeMemory(100)
    sizes = {(job, 0): chance.randrange(1, 101) for job in range(6)}
    for _ in range(300):
        chosen = {key: sizes[key] for key in chance.sample(sorted(sizes), chance.randrange(4))}
        moved = memory.admit(chosen)
        assert memory.resident_mb() <= 100
        assert set(moved) <= set(chosen)
        assert all(mb <= 2 * sizes[key] for key, mb in moved.items())
        if sum(chosen.values()) <= 100:
            assert memory.admit(chosen) == {}


def test_a_capacity_of_0_holds_everything() -> None:
    assert NodeMemory(0).admit({A: 10**6}) == {}


@pytest.mark.parametrize("kind", [ExactCluster, FluidCluster])
def test_a_job_waits_for_its_memory(kind: type[ExactCluster] | type[FluidCluster]) -> None:
    cluster = kind(SMALL, 1, 1)
    cluster.start(0, HUNGRY, [0], memory_mb=80)
    cluster.start(1, HUNGRY, [0], memory_mb=60)
    used: list[tuple[int, int]] = []
    for quantum in range(4):
        cluster.allow(quantum * 1_000_000, {0: [quantum % 2]})
        cluster.advance((quantum + 1) * 1_000_000)
        used += [(usage.job, usage.consumed_us) for usage in cluster.collect()]
    # 100 MB/s; job 1 writes 40 at first, then each reads 40 of its own and writes 40 of the other's
    expected = [(0, 1_000_000), (1, 600_000), (0, 200_000), (1, 200_000)]
    assert [job for job, _ in used] == [job for job, _ in expected]
    assert [us for _, us in used] == pytest.approx([us for _, us in expected], abs=2)


def test_a_switch_costs_more_where_memory_is_short() -> None:
    assert paging_us(500_000, 100_000, SMALL) == round((1 + 4) * 0.5 * 2 / 100 * 1_000_000)
    cluster = ExactCluster(SMALL, 1, 1)
    cluster.start(0, HUNGRY, [0], memory_mb=80)
    cluster.start(1, HUNGRY, [0], memory_mb=80)
    cluster.allow(0, {0: [0, 1]})
    cluster.advance(1_000_000)
    stint_us = SMALL.slice_us
    switch_us = paging_us(375_000, stint_us, SMALL)
    assert cluster.cpus[0].busy_us == pytest.approx(1_000_000 * stint_us / (stint_us + switch_us), rel=0.02)


@pytest.mark.parametrize("setting", ["paged_first_mb", "paged_mb_s"])
def test_processes_that_touch_more_memory_get_less_done(setting: str) -> None:
    done = []
    for settings in (SMALL, replace(SMALL, **{setting: 4 * getattr(SMALL, setting)})):
        cluster = ExactCluster(settings, 1, 1)
        cluster.start(0, HUNGRY, [0], memory_mb=80)
        cluster.start(1, HUNGRY, [0], memory_mb=80)
        cluster.allow(0, {0: [0, 1]})
        cluster.advance(1_000_000)
        done.append(cluster.cpus[0].busy_us)
    assert done[1] < 0.9 * done[0]


def test_exact_and_fluid_agree_where_memory_is_short() -> None:
    used = []
    for cluster in (ExactCluster(SMALL, 1, 1), FluidCluster(SMALL, 1, 1)):
        cluster.start(0, HUNGRY, [0], memory_mb=80)
        cluster.start(1, HUNGRY, [0], memory_mb=80)
        cluster.allow(0, {0: [0, 1]})
        cluster.advance(5_000_000)
        used.append([usage.consumed_us for usage in cluster.collect()])
    assert used[1] == pytest.approx(used[0], rel=0.03)


@pytest.mark.parametrize("kind", [ExactCluster, FluidCluster])
def test_a_process_larger_than_a_node_is_refused(kind: type[ExactCluster] | type[FluidCluster]) -> None:
    with pytest.raises(ConfigurationError, match="memory_mb: expected at most the node's 100 MB, got 101"):
        kind(SMALL, 1, 1).start(0, HUNGRY, [0], memory_mb=101)
