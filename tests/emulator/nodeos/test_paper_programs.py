"""The paper's programs have the lengths and CPU shares that it gives, when they run alone."""

from __future__ import annotations

import pytest

from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.programs import Barrier, Compute, Program, WriteFiles
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.skeletons.paired_gang import (
    QCRD,
    compute_program,
    fine_program,
    io_program,
    loop_program,
    qcrd_program,
    uniform_share_ppm,
)


def run_alone(program: Program, nodes: int) -> tuple[int, float]:
    """Return when a job ends, and the share of CPU time that is logged."""
    cluster = ExactCluster(NodeSettings(tick_us=0), nodes, 1)
    cluster.start(0, program, range(nodes))
    cluster.allow(0, {node: [0] for node in range(nodes)})
    end_us = cluster.advance(10**10).now_us
    logged = sum(usage.logged_us for usage in cluster.collect())
    return end_us, logged / (nodes * end_us)


def test_the_loop_of_figure_6() -> None:
    (loop,) = loop_program(7, 2_500_000, 20, jitter_ppm=0).loops
    assert loop.times == 7
    assert loop.body == (Compute(75_001), WriteFiles(20), Barrier())


def test_static_jobs_take_similar_times_on_eight_nodes() -> None:
    compute_us, compute_share = run_alone(compute_program(40), 8)
    io_us, io_share = run_alone(io_program(40), 8)
    assert compute_us / 40 == pytest.approx(76_900, rel=0.01)
    assert io_us / 40 == pytest.approx(75_000, rel=0.01)
    assert 0.97 < compute_share < 0.98
    assert io_share == 0


def test_the_fine_program_makes_600_iterations_a_second() -> None:
    assert fine_program(10).loops[0].times == pytest.approx(6_000, rel=0.005)
    end_us, share = run_alone(fine_program(1, jitter_ppm=0), 4)
    assert end_us == pytest.approx(1_000_000, rel=0.005)
    assert share == pytest.approx(0.45, abs=0.005)


@pytest.mark.parametrize("share_ppm", [0, 100_000, 700_000, 990_000, 1_000_000])
def test_heterogeneous_jobs_have_the_share_that_is_drawn(share_ppm: int) -> None:
    end_us, share = run_alone(fine_program(2, share_ppm, jitter_ppm=0), 1)
    assert end_us == pytest.approx(2_000_000, rel=0.06)
    assert share == pytest.approx(min(share_ppm, 995_000) / 1e6, abs=0.005)


def test_shares_are_uniform() -> None:
    shares = sorted(uniform_share_ppm(3, job) for job in range(1_000))
    assert all(abs(share - 1_000 * place) < 50_000 for place, share in enumerate(shares))


@pytest.mark.parametrize(("name", "cpu_share"), [("published", 0.7), ("even", 0.4)])
def test_qcrd_phases(name: str, cpu_share: float) -> None:
    shape = QCRD[name]
    program = qcrd_program(60, shape, jitter_ppm=0)
    assert len(program.loops) == 2 * 12 + 1
    end_us, share = run_alone(program, 2)
    whole = 12 * (shape.io_length_ppm + shape.cpu_length_ppm) + shape.last_length_ppm
    assert whole == pytest.approx(1_000_000, rel=0.01)
    assert end_us == pytest.approx(60_000_000, rel=0.02)
    expected = 12 * (shape.io_length_ppm * 0.03 + shape.cpu_length_ppm * 0.86) + shape.last_length_ppm * 0.08
    assert share == pytest.approx(expected / 1e6, abs=0.01)
    assert abs(share - cpu_share) < 0.05
