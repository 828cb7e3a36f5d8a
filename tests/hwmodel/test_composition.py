"""Compositions: progress conserves work, ends are right, and `paper` is never later than `bulk-synchronous`."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from tests.reference.penalised import penalised_us

from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel, Resident, penalty_factor
from cosched_hwmodel.composition import (
    COMPOSITIONS,
    Composition,
    composition_named,
    end_us,
    progress,
    time_left_us,
    work_done_us,
)
from cosched_hwmodel.errors import UnknownNameError
from cosched_hwmodel.units import round_up_us

SECOND = 1_000_000
BULK, PAPER = composition_named("bulk-synchronous"), composition_named("paper")

# Penalties of each node from an instant on: the last entry lasts for ever.
Trajectory = list[tuple[int, list[float]]]


def finish(composition: Composition, run_us: int, trajectory: Trajectory) -> int:
    """Run one job through penalties that are given from outside, settling at each change as an emulator does."""
    remaining = composition.works(run_us, len(trajectory[0][1]))
    for (start, penalties), (until, _) in pairwise(trajectory):
        slowdowns = composition.slowdowns(penalties)
        if end_us(start, remaining, slowdowns) <= until:
            return end_us(start, remaining, slowdowns)
        remaining = progress(remaining, slowdowns, until - start)
    start, penalties = trajectory[-1]
    return end_us(start, remaining, composition.slowdowns(penalties))


def random_trajectory(rng: random.Random, nodes: int) -> Trajectory:
    starts = sorted(rng.sample(range(1, 2000), rng.randrange(6)))
    return [(at * SECOND, [rng.choice((0.0, 1 / 6, 1 / 3, rng.random())) for _ in range(nodes)]) for at in (0, *starts)]


def test_compositions_are_found_by_name() -> None:
    assert sorted(COMPOSITIONS) == ["bulk-synchronous", "paper"]
    assert all(COMPOSITIONS[name].name == name for name in COMPOSITIONS)
    with pytest.raises(UnknownNameError, match='unknown composition "papr"; did you mean "paper"'):
        composition_named("papr")


@pytest.mark.parametrize("composition", [BULK, PAPER])
def test_work_w_at_penalty_p_lasts_w_times_one_plus_p(composition: Composition) -> None:
    works, slowdowns = composition.works(300 * SECOND, 2), composition.slowdowns([1 / 3, 1 / 3])
    assert time_left_us(works, slowdowns) == pytest.approx(400 * SECOND, rel=1e-15)
    assert end_us(7, works, slowdowns) == 7 + 400 * SECOND
    halfway = progress(works, slowdowns, 200 * SECOND)
    assert halfway == pytest.approx([150 * SECOND] * len(works), rel=1e-15)
    assert work_done_us(300 * SECOND, halfway) == 150 * SECOND
    assert end_us(200 * SECOND, halfway, composition.slowdowns([0.0, 0.0])) == 350 * SECOND


def test_alternating_worst_node_tells_the_compositions_apart() -> None:
    # Each node is slowed by 1 for the first or the second 100 s. Bulk-synchronous: always slowed. Paper: node 0 has
    # 50 s done at 100 s and then goes at full speed; node 1 has 100 s done, then 50 more by 200 s, and needs 50 more.
    trajectory: Trajectory = [(0, [1.0, 0.0]), (100 * SECOND, [0.0, 1.0]), (200 * SECOND, [0.0, 0.0])]
    assert finish(BULK, 200 * SECOND, trajectory) == 300 * SECOND
    assert finish(PAPER, 200 * SECOND, trajectory) == 250 * SECOND


@pytest.mark.parametrize("composition", [BULK, PAPER])
def test_progress_conserves_work(composition: Composition) -> None:
    rng = random.Random(11)
    for _ in range(200):
        nodes, run = rng.randrange(1, 5), rng.randrange(10**6, 10**12)
        slowdowns = composition.slowdowns([rng.random() for _ in range(nodes)])
        works = composition.works(run, nodes)
        left = time_left_us(works, slowdowns)
        # The work and the end do not depend on how the time until the end is divided.
        cuts = sorted(rng.randrange(int(left)) for _ in range(rng.randrange(8)))
        now, remaining = 0, works
        for cut in cuts:
            after = progress(remaining, slowdowns, cut - now)
            for before, rest, slowdown in zip(remaining, after, slowdowns, strict=True):
                assert before - rest == pytest.approx(min(before, (cut - now) / slowdown), abs=1e-2)
            now, remaining = cut, after
        assert end_us(now, remaining, slowdowns) == pytest.approx(round_up_us(left), abs=1)
        assert max(progress(remaining, slowdowns, round_up_us(left) - now)) < 1.0
        assert 0 <= work_done_us(run, remaining) <= run


def test_finished_parts_stay_finished() -> None:
    assert progress([10.0, 100.0], [1.0, 2.0], 50) == [0.0, 75.0]
    assert time_left_us([0.0, 75.0], [1.0, 2.0]) == 150.0
    assert work_done_us(100, [0.0, 0.0]) == 100
    assert work_done_us(100, [0.5]) == 99


def test_paper_never_takes_longer_than_bulk_synchronous() -> None:
    # For the same penalties over time: at no instant is a node slowed more than the worst node.
    rng = random.Random(3)
    shorter = 0
    for _ in range(500):
        trajectory = random_trajectory(rng, nodes=rng.randrange(1, 5))
        run = rng.randrange(1, 2000) * SECOND
        paper, bulk = finish(PAPER, run, trajectory), finish(BULK, run, trajectory)
        assert run <= paper <= bulk
        shorter += paper < bulk
        if len(trajectory[0][1]) == 1:
            assert paper == bulk
    assert shorter > 100


def test_more_penalty_never_ends_earlier() -> None:
    rng = random.Random(4)
    for _ in range(300):
        trajectory = random_trajectory(rng, nodes=3)
        worse = [(at, [p + rng.random() for p in penalties]) for at, penalties in trajectory]
        run = rng.randrange(1, 2000) * SECOND
        for composition in (BULK, PAPER):
            assert finish(composition, run, trajectory) <= finish(composition, run, worse)


def test_plan_bounds_progress_when_neighbours_only_leave() -> None:
    # MODEL.md, "Plan and progress": penalised time counts a window at full length, progress only the work it holds.
    rng = random.Random(8)
    model, capacity = BandwidthModel(), (6000, 0, 0)
    exact = 0
    for _ in range(300):
        run = rng.randrange(1, 500) * SECOND
        nodes = [
            [Resident(0, rng.randrange(1, 700) * SECOND, (rng.choice((500, 1000, 2000)), 0, 0)) for _ in range(3)]
            for _ in range(2)
        ]
        own = (2000, 0, 0)
        changes = sorted({0, *(resident.end_us for node in nodes for resident in node)})
        trajectory = [
            (
                at,
                [
                    model.penalty((own[0] + sum(r.demand[0] for r in node if r.end_us > at), 0, 0), capacity)
                    for node in nodes
                ],
            )
            for at in changes
        ]
        penalised = [penalised_us(model, capacity, node, own, 0, run) for node in nodes]
        planned = round_up_us(run * penalty_factor(run, penalised))
        ended = finish(PAPER, run, trajectory)
        assert ended <= planned
        exact += ended == planned
    assert 50 < exact < 300


@pytest.mark.parametrize(
    ("span", "rounded"),
    [(0.0, 0), (400_000_000.0000001, 400_000_000), (3.01, 3), (3.02, 4), (3.999, 4), (4.0, 4), (0.5, 1)],
)
def test_rounding_up_forgives_only_noise(span: float, rounded: int) -> None:
    assert round_up_us(span) == rounded
