"""The static experiments of the paired gang paper (section 4.1) on exact nodes, with the turns that its schedulers choose."""

from __future__ import annotations

from functools import cache

import pytest
from tests.emulator.nodeos.drivers import Rates, best_fit, measure, predesigned, static_jobs, strict

from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.programs import Loop, Program
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.skeletons.paired_gang import QCRD, qcrd_program

QUANTA = 24
LOCALS = ("wake-first", "linux-epochs")


@cache
def rates(local: str, nodes: int, io_jobs: int, turns: str, null_statements: int = 2_500_000) -> Rates:
    chosen = {"strict": lambda _: strict(), "best-fit": best_fit, "predesigned": predesigned}[turns](io_jobs)
    cluster = ExactCluster(NodeSettings(local=local, tick_us=0), nodes, 1)
    return measure(cluster, static_jobs(io_jobs, nodes, null_statements), chosen, QUANTA)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def by_kind(values: list[float], io_jobs: int) -> tuple[float, float]:
    """Return the means over compute jobs and over I/O jobs, of which there are some of each."""
    return mean(values[: 4 - io_jobs]), mean(values[4 - io_jobs :])


@pytest.mark.parametrize(("io_jobs", "compute", "io"), [(1, 1.30, 3.9), (2, 1.95, 1.95), (3, 3.90, 1.31)])
@pytest.mark.parametrize("local", LOCALS)
@pytest.mark.slow
def test_pairs_advance_faster_than_strict_turns(local: str, io_jobs: int, compute: float, io: float) -> None:
    alone = by_kind(rates(local, 8, io_jobs, "strict").barriers, io_jobs)
    paired = by_kind(rates(local, 8, io_jobs, "best-fit").barriers, io_jobs)
    assert paired[0] / alone[0] == pytest.approx(compute, rel=0.02)
    # Under wake-first with slices of 200 ms an I/O job waits at times for a slice of the other one to end.
    assert io * (0.9 if local == "wake-first" else 0.96) <= paired[1] / alone[1] <= io * 1.02


@pytest.mark.parametrize("io_jobs", [0, 4])
@pytest.mark.slow
def test_jobs_of_one_kind_gain_nothing(io_jobs: int) -> None:
    alone, paired = (sum(rates("wake-first", 8, io_jobs, turns).barriers) for turns in ("strict", "best-fit"))
    assert paired / alone == pytest.approx(1, abs=0.03)  # the server that all I/O jobs share is saturated by one


@pytest.mark.slow
def test_partners_for_a_round_do_as_much_but_for_one_mix() -> None:
    totals = {
        io_jobs: [sum(rates("wake-first", 8, io_jobs, turns).barriers) for turns in ("best-fit", "predesigned")]
        for io_jobs in (1, 2, 3)
    }
    assert totals[1][1] / totals[1][0] == pytest.approx(1, abs=0.02)
    assert totals[2][1] / totals[2][0] == pytest.approx(1, abs=0.02)
    assert totals[3][1] / totals[3][0] == pytest.approx(
        0.77, abs=0.03
    )  # two I/O jobs are partners, and share the server


@pytest.mark.parametrize("local", LOCALS)
@pytest.mark.slow
def test_what_is_logged(local: str) -> None:
    alone, paired = (by_kind(rates(local, 8, 2, turns).logged, 2) for turns in ("strict", "best-fit"))
    assert alone[0] == pytest.approx(0.976, abs=0.005)
    assert paired[0] == pytest.approx(0.952, abs=0.005)
    assert alone[1] == paired[1] == 0


@pytest.mark.slow
def test_the_size_of_the_cluster() -> None:
    sizes = (2, 4, 8, 12)
    for nodes in sizes:
        assert mean(rates("wake-first", nodes, 0, "strict").barriers) == pytest.approx(3.25, rel=0.01)
    paired = [by_kind(rates("linux-epochs", nodes, 2, "best-fit").barriers, 2) for nodes in sizes]
    # I/O takes the less CPU on each node, the more nodes there are.
    assert [compute for compute, _ in paired] == pytest.approx([5.94, 6.20, 6.33, 6.38], rel=0.01)
    for nodes, (_, io) in zip(sizes, paired, strict=True):  # one server does the same number of files for all
        assert nodes * io == pytest.approx(51, rel=0.08)


@pytest.mark.parametrize("null_statements", [1_000_000, 1_500_000, 2_000_000])
@pytest.mark.slow
def test_the_granularity_of_compute_jobs(null_statements: int) -> None:
    for io_jobs, ratio in ((1, 1.30), (2, 1.95)):
        alone, paired = (
            rates("linux-epochs", 8, io_jobs, turns, null_statements).barriers for turns in ("strict", "best-fit")
        )
        assert by_kind(paired, io_jobs)[0] / by_kind(alone, io_jobs)[0] == pytest.approx(ratio, rel=0.02)
        assert by_kind(alone, io_jobs)[0] * null_statements == pytest.approx(3.25 * 2_500_000, rel=0.03)
        assert by_kind(paired, io_jobs)[1] == pytest.approx({1: 12.6, 2: 6.4}[io_jobs], rel=0.03)


@pytest.mark.parametrize(
    ("local", "refill_us", "lost"),
    [("wake-first", 0, 0.04), ("linux-epochs", 0, 0.05), ("rr", 0, 0), ("rr", 800, 0.05)],
)
def test_two_phases_of_qcrd_that_compute_log_less_than_half_each(local: str, refill_us: int, lost: float) -> None:
    """They wait for each other at barriers, or refill caches, so their shares leave room for both (figure 13a)."""
    body = qcrd_program(100, QCRD["published"]).loops[1].body
    jobs = [(Program((Loop(10**6, body),)), range(4))] * 2
    cluster = ExactCluster(NodeSettings(local=local, refill_us=refill_us, tick_us=0), 4, 1)
    together = measure(cluster, jobs, iter([(0, 1)] * 10), 10).logged
    assert 1 - sum(together) == pytest.approx(lost, abs=0.015)
