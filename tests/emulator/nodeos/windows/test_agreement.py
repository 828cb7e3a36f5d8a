"""Windows against whole exact runs: NAS programs on fixed nodes, three on a node, each coming at its time."""

from __future__ import annotations

from functools import cache
from statistics import mean

import pytest
from tests.emulator.nodeos.windows.fixed_places import Placed, paper_settings, run_times, some_jobs

from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.settings import WindowPlan
from cosched_emulator.nodeos.windows.windowed_cluster import WindowedCluster

LONG = WindowPlan(most_us=120_000_000)
USUAL = WindowPlan()


def many(seed: int) -> list[Placed]:
    return some_jobs(seed, jobs=6, seconds=200, gap_s=50)


@cache  # both plans are compared with the same runs
def exact_times(policy: str, seed: int) -> list[float]:
    return run_times(ExactCluster(paper_settings(policy), 16, 1), many(seed))


@pytest.mark.slow
@pytest.mark.parametrize("plan", [LONG, USUAL])
@pytest.mark.parametrize("policy", ["hybrid", "sb", "cc"])
def test_run_times_of_blocking_policies_are_within_three_per_cent(policy: str, plan: WindowPlan) -> None:
    errors: list[float] = []
    shares: list[float] = []
    for seed in range(5):
        windowed = WindowedCluster(paper_settings(policy), 16, 1, plan)
        times = run_times(windowed, many(seed))
        errors += [abs(a / b - 1) for a, b in zip(times, exact_times(policy, seed), strict=True)]
        shares.append(windowed.simulated)
    errors.sort()
    print(
        f"{policy}: half {errors[len(errors) // 2]:.2%}, 90 % {errors[len(errors) * 9 // 10]:.2%}, {mean(shares):.2f} simulated"
    )
    assert errors[len(errors) * 9 // 10] < 0.03
    assert mean(shares) < (0.9 if plan == LONG else 0.4)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["pb", "dcs", "nls"])
def test_policies_that_poll_lie_within_the_spread_of_exact_runs(policy: str) -> None:
    settings = paper_settings(policy)
    jobs = some_jobs(1, jobs=6, seconds=150, gap_s=50)
    exact = [run_times(ExactCluster(settings, 16, seed), jobs) for seed in range(10)]
    windowed = [run_times(WindowedCluster(settings, 16, seed, LONG), jobs) for seed in range(10)]
    for of_exact, of_windows in zip(zip(*exact, strict=True), zip(*windowed, strict=True), strict=True):
        least, most = min(of_exact), max(of_exact)
        print(f"{policy}: exact {least:.1f} to {most:.1f}, windows {mean(of_windows):.1f}")
        # A mean of ten may lie a little outside where ten exact runs hardly differ: .13 % for one job under nls.
        assert 0.997 * least <= mean(of_windows) <= 1.003 * most
