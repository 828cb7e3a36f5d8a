"""Slowdowns from elapsed times alone: of made runs whose truth is known, also where runs are not drawn alike."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

import pytest

from cosched_hwmodel.measured.elapsed_times import Run, Slowdown, alone_of, slowdowns_of

WHOLE, GUESTS, HOSTS = "whole", "guests", "hosts"


def made(draw: random.Random, kind: str, slowdown: float, noise: float) -> Iterator[Run]:
    """Yield runs of one application in three populations; some are beside another one."""
    for population in range(3):
        work_s = [300 * (1 + population) * math.exp(draw.gauss(0, noise)) for _ in range(45)]
        for place, work in enumerate(work_s):
            begin_s = {WHOLE: 0.0, GUESTS: 0.0, HOSTS: draw.uniform(0, 1500)}[kind] if place >= 30 else math.inf
            if begin_s >= work:
                yield Run("a", population, work, "", 0, 0, True)
                continue
            stays_s = math.inf if kind == WHOLE else draw.expovariate(1 / 300)
            beside_s = min(stays_s, (work - begin_s) * slowdown)
            yield Run("a", population, begin_s, "b", beside_s, work - begin_s - beside_s / slowdown, True)


def found_in(runs: Sequence[Run]) -> Slowdown:
    return slowdowns_of(runs)["a", "b"]


@pytest.mark.parametrize("noise", [0.02, 0.2])
@pytest.mark.parametrize("kind", [WHOLE, GUESTS, HOSTS])
def test_the_interval_holds_the_truth(kind: str, noise: float) -> None:
    """HOSTS: long runs are more often beside another, so their times alone would tell a slowdown that is too large."""
    draw, seeds = random.Random(5), 60
    found = [found_in(list(made(draw, kind, 1.4, noise))) for _ in range(seeds)]
    assert sum(each.low <= 1.4 <= each.high for each in found) >= 0.9 * seeds
    assert sorted(each.ratio for each in found)[seeds // 2] == pytest.approx(1.4, rel=0.05)


def test_a_run_that_went_wrong_does_not_move_the_estimate() -> None:
    runs = list(made(random.Random(3), WHOLE, 1.4, 0.02))
    beside = next(run for run in runs if run.beside)
    assert found_in([*runs, beside._replace(beside_s=50 * beside.beside_s)]).ratio == pytest.approx(1.4, rel=0.05)


def test_runs_that_do_not_complete_were_not_done_by_then() -> None:
    """Of runs that take too long beside another, half are cut off: those that are left would tell too small a slowdown."""
    runs = [
        run._replace(beside_s=430.0, completed=False) if run.beside_s > 430 else run
        for run in made(random.Random(3), WHOLE, 1.4, 0.3)
        if run.population == 0
    ]
    assert sum(not run.completed for run in runs) >= 5
    found = found_in(runs)
    assert found.low <= 1.4 <= found.high


def test_other_inputs_are_other_populations() -> None:
    """All long inputs are beside another application, all short ones alone: of one population they tell nothing of the other."""
    runs = [Run("a", "short", 100 + place, "", 0, 0, True) for place in range(9)]
    runs += [Run("a", "long", 0, "b", 900 + place, 0, True) for place in range(9)]
    assert slowdowns_of(runs) == {}
    assert found_in([run._replace(population="one") for run in runs]).ratio > 8


def test_too_few_runs_have_no_slowdown_and_times_alone_their_spread() -> None:
    runs = list(made(random.Random(3), WHOLE, 1.4, 0.1))
    few = [run for run in runs if not run.beside] + [run for run in runs if run.beside][:2]
    assert slowdowns_of(few) == {}
    assert (alone_of(runs)["a"].number, alone_of(runs)["a"].populations) == (90, 3)
    assert alone_of(runs)["a"].deviation == pytest.approx(0.1, rel=0.3)
