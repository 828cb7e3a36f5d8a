"""Progress, and that it does not matter in which steps time passes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from cosched_emulator.errors import InvariantError
from cosched_emulator.nodeos import programs
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.fluid import situations as window
from cosched_emulator.nodeos.fluid.fluid_cluster import FluidCluster
from cosched_emulator.nodeos.fluid.situations import Windows
from cosched_emulator.nodeos.process_cluster import ProcessCluster, ProcessUse
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.skeletons.paired_gang import QCRD, fine_program, loop_program, qcrd_program
from cosched_emulator.offered import LOCAL_SCHEDULERS

NODES = 4
QUANTUM_US = 100_000
Quantum = tuple[list[ProcessUse], list[tuple[int, float]], list[tuple[int, int]]]  # usages, progress, ends


def some_job(chance: random.Random) -> tuple[programs.Program, list[int]]:
    places = chance.sample(range(NODES), chance.randrange(1, NODES + 1))
    match chance.randrange(4):
        case 0:
            return loop_program(
                chance.randrange(2, 40), chance.randrange(100_000, 900_000), chance.randrange(3)
            ), places
        case 1:
            return qcrd_program(chance.uniform(0.2, 0.6), QCRD["even"]), places
        case 2:
            return programs.Program(
                (
                    programs.Loop(3, (programs.WriteFiles(2),)),
                    programs.Loop(20, (programs.Compute(2_000, 100_000), programs.Collective(5_000))),
                )
            ), places
    return fine_program(chance.uniform(0.05, 0.5), chance.randrange(1_000_000)), places


def run(cluster: ProcessCluster, seed: int, cut: Callable[[int, int], list[int]]) -> list[Quantum]:
    """Run random jobs in random quanta, which ``cut`` divides, and return all that the cluster says."""
    chance = random.Random(seed)
    jobs = {job: some_job(chance) for job in range(6)}
    for job, (program, places) in jobs.items():
        cluster.start(job, program, places, memory_mb=chance.choice((10, 30)))
    told: list[Quantum] = []
    for quantum in range(30):
        chosen = [job for job in range(6) if chance.random() < 0.5]  # drawn for all, so that it is the same in each run
        running = [job for job in chosen if job in jobs]
        cluster.allow(
            quantum * QUANTUM_US, {node: [job for job in running if node in jobs[job][1]] for node in range(NODES)}
        )
        ends: list[tuple[int, int]] = []
        for until_us in cut(quantum * QUANTUM_US, (quantum + 1) * QUANTUM_US):
            while (reached := cluster.advance(until_us)).ended:
                for job in reached.ended:
                    ends.append((reached.now_us, job))
                    del jobs[job]
        told.append((cluster.collect(), [(job, cluster.progress(job)) for job in jobs], ends))
    return told


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 9))])
@pytest.mark.parametrize("local", LOCAL_SCHEDULERS)
@pytest.mark.parametrize("kind", ["exact", "fluid"])
def test_steps_of_time_do_not_matter(kind: str, local: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "_EFFORTS", dict.fromkeys(window._EFFORTS, window._Effort(1, 0.5, 100)))  # any rates do
    settings = NodeSettings(local=local, slice_us=10_000, memory_mb=90, swap_mb_s=2_000, switch_us=20)
    windows = Windows(settings, QUANTUM_US)
    chance = random.Random(99)

    def told(cut: Callable[[int, int], list[int]]) -> list[Quantum]:
        if kind == "exact":
            return run(ExactCluster(settings, NODES, seed), seed, cut)
        return run(FluidCluster(settings, NODES, seed, windows), seed, cut)

    whole = told(lambda _, end_us: [end_us])
    assert any(ends for _, _, ends in whole)
    assert told(lambda begin_us, end_us: [*sorted(chance.sample(range(begin_us, end_us), 9)), end_us]) == whole
    assert told(lambda begin_us, end_us: [begin_us, begin_us + 1, end_us - 1, end_us]) == whole


@pytest.mark.parametrize("kind", [ExactCluster, FluidCluster])
def test_asking_changes_nothing(kind: type[ExactCluster] | type[FluidCluster]) -> None:
    def ends(ask: bool) -> tuple[list[tuple[int, ...]], int]:
        cluster = kind(NodeSettings(tick_us=0), 2, 1)
        cluster.start(0, fine_program(1, 300_000), [0, 1])
        cluster.start(1, qcrd_program(1), [1])
        cluster.allow(0, {0: [0], 1: [0, 1]})
        found: list[tuple[int, ...]] = []
        consumed_us = 0
        for until_us in range(10_000, 6_000_000, 10_000):
            reached = cluster.advance(until_us)
            if reached.ended:
                found.append((reached.now_us, *reached.ended))
                cluster.advance(until_us)
            if ask:
                usages = cluster.collect()
                for node in (0, 1):  # rounded to whole microseconds for each job
                    assert sum(usage.consumed_us for usage in usages if usage.node == node) <= 10_000 + 2
                consumed_us += sum(usage.consumed_us for usage in usages)
                assert all(0 <= cluster.progress(job) < 1 for job in cluster.jobs)
        return found, consumed_us + sum(usage.consumed_us for usage in cluster.collect())

    asked, silent = ends(True), ends(False)
    assert asked == silent
    assert len(asked[0]) == 2


@pytest.mark.parametrize("kind", [ExactCluster, FluidCluster])
def test_progress_is_the_share_of_time_alone(kind: type[ExactCluster] | type[FluidCluster]) -> None:
    cluster = kind(NodeSettings(), 2, 1)
    program = qcrd_program(10, jitter_ppm=0)
    cluster.start(0, program, [0, 1])
    assert cluster.progress(0) == 0
    cluster.allow(0, {0: [0], 1: [0]})
    whole_us = sum(loop.times * 20_000 for loop in program.loops)
    for until_us in range(500_000, whole_us - 500_000, 500_000):
        assert cluster.advance(until_us).ended == ()
        assert cluster.progress(0) == pytest.approx(until_us / whole_us, abs=0.01)
    cluster.allow(cluster.now_us, {})
    stopped = cluster.progress(0)
    cluster.advance(cluster.now_us + 300_000)
    assert cluster.progress(0) == pytest.approx(stopped, abs=0.003)  # what it waited for is there
    with pytest.raises(InvariantError, match="job 7 is not on its nodes"):
        cluster.progress(7)


def test_the_slowest_process_counts() -> None:
    def uneven(rank: int) -> tuple[programs.Operation, ...]:
        if rank == 2:
            return programs.Receive(0), programs.Receive(1)
        return (*([programs.Compute(1_000)] * (rank + 1)), programs.Send(2, 100))

    cluster = ExactCluster(NodeSettings(), 3, 1)
    cluster.start(
        0,
        programs.Program((programs.Loop(10, programs.ByRank(uneven)), programs.Loop(1, (programs.Barrier(),)))),
        range(3),
    )
    cluster.allow(0, {0: [0], 1: [0], 2: [0]})
    cluster.advance(1_000)
    assert cluster.progress(0) == 0  # process 2 has received nothing
    cluster.advance(10_100)
    assert 0 < cluster.progress(0) < 0.5
