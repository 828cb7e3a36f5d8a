"""The bandwidth model against the paper's example and against brute force."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from tests.properties import drawn
from tests.reference.penalised import penalised_us

from cosched_hwmodel.bandwidth.bandwidth_model import (
    BandwidthModel,
    Resident,
    penalty_factor,
)
from cosched_hwmodel.contention import ContentionModel, Load, Neighbour
from cosched_hwmodel.contention import penalised_us as penalised_by_model
from cosched_hwmodel.errors import UnknownNameError
from cosched_hwmodel.topology import load_preset
from cosched_hwmodel.units import ThreadMask
from cosched_hwmodel.usage import RESOURCES, Demand, demand_of, total_demand

MODEL = BandwidthModel()
ALL = BandwidthModel(RESOURCES)
NODE = load_preset("rua-4way").capacity
LOW, MEDIUM, HIGH = Demand(500), Demand(1000), Demand(2000)
SECOND = 1_000_000

demands = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
capacities = st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
residents = st.lists(st.builds(Resident, st.integers(-5, 25), st.integers(-5, 25), demands), max_size=8)


# The definition with which the sum over windows is compared.


class Window(NamedTuple):
    """A shared window: [start_us, end_us), and the total demand on the node then."""

    start_us: int
    end_us: int
    demand_sum: Demand


def shared_windows(residents: Sequence[Resident], start_us: int, end_us: int) -> list[Window]:
    """Cut [start_us, end_us) into shared windows: maximal intervals in which the set of processes does not change.

    In time order and without gaps; a window in which the node is empty has demand 0. Residents that are never there
    (end not after start) make no cut. The paper's section 3.3.
    """
    if end_us <= start_us:
        return []
    cuts = {start_us, end_us}
    for resident in residents:
        if resident.start_us < resident.end_us:
            cuts.update(at for at in resident[:2] if start_us < at < end_us)
    edges = sorted(cuts)
    return [
        Window(begin, end, total_demand(demand for start, stop, demand in residents if start <= begin and end <= stop))
        for begin, end in pairwise(edges)
    ]


def brute_force(
    *,
    model: BandwidthModel,
    capacity: tuple[int, int, int],
    others: list[Resident],
    own: tuple[int, int, int],
    start: int,
    run: int,
) -> Fraction:
    """Equations 1 to 3 of the paper microsecond by microsecond, in exact fractions."""
    total = Fraction(0)
    for now in range(start, start + run):
        for resource in model.resources:
            i = RESOURCES.index(resource)
            demand = own[i] + sum(other.demand[i] for other in others if other.start_us <= now < other.end_us)
            if capacity[i]:
                total += Fraction(max(demand, capacity[i]), capacity[i]) - 1
    return total


def test_paper_example() -> None:
    four_high = demand_of(HIGH, 4)
    assert four_high == (8000, 0, 0)
    assert MODEL.penalty(four_high, NODE) == 1 / 3
    penalised = penalised_us(MODEL, NODE, [], four_high, 0, 300 * SECOND)
    assert penalised == 100 * SECOND
    assert penalty_factor(300 * SECOND, [penalised]) == 4 / 3


def test_worked_example_with_a_neighbour_that_leaves() -> None:
    neighbour = Resident(-50 * SECOND, 120 * SECOND, demand_of(HIGH, 2))
    penalised = penalised_us(MODEL, NODE, [neighbour], demand_of(HIGH, 2), 0, 300 * SECOND)
    assert penalised == 40 * SECOND
    assert penalty_factor(300 * SECOND, [penalised]) == 340 / 300


def test_slowdowns_of_the_papers_demands_are_at_most_four_thirds_and_any_three_fit() -> None:
    worst = 0.0
    for a in (LOW, MEDIUM, HIGH):
        for b in (LOW, MEDIUM, HIGH):
            for c in (LOW, MEDIUM, HIGH):
                assert MODEL.penalty(total_demand([a, b, c]), NODE) == 0.0
                worst = max(worst, *(MODEL.penalty(total_demand([a, b, c, d]), NODE) for d in (LOW, MEDIUM, HIGH)))
    assert worst == 1 / 3


def test_penalty_at_and_around_capacity() -> None:
    assert MODEL.penalty((6000, 0, 0), NODE) == 0.0
    assert MODEL.penalty((6001, 0, 0), NODE) == 1 / 6000
    assert MODEL.penalty((0, 0, 0), NODE) == 0.0
    assert MODEL.penalty((10**12, 10**12, 10**12), (0, 0, 0)) == 0.0
    assert BandwidthModel(()).penalty((10**12, 10**12, 10**12), (1, 1, 1)) == 0.0


def test_only_chosen_resources_count_and_penalties_add() -> None:
    demand, capacity = (9000, 512, 300), (6000, 256, 100)
    assert MODEL.penalty(demand, capacity) == 0.5
    assert BandwidthModel(("network",)).penalty(demand, capacity) == 1.0
    assert ALL.penalty(demand, capacity) == 3.5
    assert BandwidthModel(("disk", "memory_bandwidth", "network")).penalty(demand, capacity) == 3.5
    assert BandwidthModel(("network", "network")).penalty(demand, capacity) == 1.0


def test_unknown_resource_suggests_the_closest() -> None:
    with pytest.raises(UnknownNameError, match='unknown resource "netwrok"; did you mean "network"') as caught:
        BandwidthModel(("netwrok",))
    assert (caught.value.kind, caught.value.name, caught.value.known) == (
        "resource",
        "netwrok",
        tuple(sorted(RESOURCES)),
    )


def test_penalties_are_equal_for_all_jobs_on_a_node_in_any_order() -> None:
    assert isinstance(MODEL, ContentionModel)
    loads = [
        Load(7, 2, ThreadMask(0b0011), demand_of(HIGH, 2)),
        Load(3, 1, ThreadMask(0b0100), HIGH),
        Load(9, 1, ThreadMask(0b1000), MEDIUM),
    ]
    node = load_preset("rua-4way")
    assert MODEL.penalties(node, loads) == [1000 / 6000] * 3
    assert MODEL.penalties(node, loads[::-1]) == [1000 / 6000] * 3
    assert MODEL.penalties(node, loads[:1]) == [0.0]
    assert MODEL.penalties(node, []) == []


@drawn(demand=demands, more=demands, capacity=capacities, few=70, many=200)
def test_more_demand_never_means_less_penalty(
    demand: tuple[int, int, int], more: tuple[int, int, int], capacity: tuple[int, int, int]
) -> None:
    assert 0.0 <= ALL.penalty(demand, capacity) <= ALL.penalty(total_demand([demand, more]), capacity)


@drawn(
    others=residents,
    own=demands,
    capacity=capacities,
    start=st.integers(-5, 20),
    run=st.integers(0, 15),
    model=st.sampled_from([MODEL, ALL, BandwidthModel(("disk",)), BandwidthModel(())]),
    few=130,
    many=400,
)
def test_penalised_time_equals_brute_force(
    *,
    others: list[Resident],
    own: tuple[int, int, int],
    capacity: tuple[int, int, int],
    start: int,
    run: int,
    model: BandwidthModel,
) -> None:
    expected = brute_force(model=model, capacity=capacity, others=others, own=own, start=start, run=run)
    got = penalised_us(model, capacity, others, own, start, run)
    assert got == pytest.approx(float(expected), rel=1e-14, abs=0)
    if len(model.resources) == 1:
        assert got == float(expected)  # one division of exact integers: correctly rounded
    assert got == penalised_us(model, capacity, others[::-1], own, start, run)


@drawn(
    others=residents,
    own=demands,
    more=demands,
    capacity=capacities,
    start=st.integers(-5, 20),
    run=st.integers(0, 15),
    few=70,
    many=200,
)
def test_penalised_time_equals_sum_over_shared_windows_and_is_monotone(
    *,
    others: list[Resident],
    own: tuple[int, int, int],
    more: tuple[int, int, int],
    capacity: tuple[int, int, int],
    start: int,
    run: int,
) -> None:
    penalised = penalised_us(ALL, capacity, others, own, start, run)
    windows = shared_windows(others, start, start + run)
    assert penalised == pytest.approx(
        sum((w.end_us - w.start_us) * ALL.penalty(total_demand([w.demand_sum, own]), capacity) for w in windows),
        abs=1e-9,
    )
    assert penalised <= penalised_us(ALL, capacity, others, total_demand([own, more]), start, run)
    assert penalised <= penalised_us(ALL, capacity, [*others, Resident(start, start + 3, more)], own, start, run)
    assert penalised <= penalised_us(ALL, capacity, others, own, start, run + 1)


@drawn(
    others=residents,
    own=demands,
    capacity=capacities,
    start=st.integers(-5, 20),
    run=st.integers(0, 15),
    few=70,
    many=200,
)
def test_penalised_time_is_that_of_any_model_with_these_penalties(
    *, others: list[Resident], own: tuple[int, int, int], capacity: tuple[int, int, int], start: int, run: int
) -> None:
    def penalty(loads: tuple[Load, ...]) -> float:
        return ALL.penalty(total_demand([own, *[load.demand for load in loads]]), capacity)

    neighbours = [
        Neighbour(start_us, end_us, Load(place, 1, ThreadMask(1), demand))
        for place, (start_us, end_us, demand) in enumerate(others)
    ]
    penalised = penalised_by_model(penalty, neighbours, start, run)
    assert penalised == pytest.approx(penalised_us(ALL, capacity, others, own, start, run), rel=1e-12, abs=1e-12)


def test_large_times_and_demands_stay_exact() -> None:
    rng = random.Random(5)
    year = 365 * 86_400 * SECOND
    for _ in range(200):
        others = [Resident(rng.randrange(year), rng.randrange(year), (rng.randrange(10**6), 0, 0)) for _ in range(8)]
        start, run, own = rng.randrange(year), rng.randrange(1, year), (rng.randrange(10**6), 0, 0)
        capacity = (rng.randrange(1, 10**6), 0, 0)
        exact = Fraction(0)
        edges = sorted({start, start + run, *(t for o in others for t in o[:2] if start < t < start + run)})
        for begin, end in pairwise(edges):
            demand = own[0] + sum(o.demand[0] for o in others if o.start_us <= begin < o.end_us)
            exact += (end - begin) * max(Fraction(demand, capacity[0]) - 1, Fraction(0))
        assert penalised_us(MODEL, capacity, others, own, start, run) == float(exact)


@drawn(others=residents, start=st.integers(-8, 28), length=st.integers(0, 20), few=100, many=300)
def test_shared_windows_partition_the_interval_and_are_maximal(others: list[Resident], start: int, length: int) -> None:
    end = start + length
    windows = shared_windows(others, start, end)

    def present(now: int) -> list[int]:
        return [i for i, other in enumerate(others) if other.start_us <= now < other.end_us]

    assert [w.start_us for w in windows] + [end] == [start, *(w.end_us for w in windows)] or (
        not windows and not length
    )
    for window in windows:
        assert window.start_us < window.end_us
        for now in range(window.start_us, window.end_us):
            assert present(now) == present(window.start_us)
        assert window.demand_sum == total_demand(others[i].demand for i in present(window.start_us))
    for left, right in pairwise(windows):
        assert present(left.start_us) != present(right.start_us)


def test_shared_windows_by_hand() -> None:
    # A snapshot like the paper's Fig. 3: two jobs hand over at 20, one stays; equal demand does not merge windows.
    others = [Resident(0, 20, (10, 1, 0)), Resident(20, 40, (10, 1, 0)), Resident(5, 30, (1, 0, 2))]
    assert shared_windows(others, 2, 50) == [
        Window(2, 5, Demand(10, 1, 0)),
        Window(5, 20, Demand(11, 1, 2)),
        Window(20, 30, Demand(11, 1, 2)),
        Window(30, 40, Demand(10, 1, 0)),
        Window(40, 50, Demand(0, 0, 0)),
    ]
    assert shared_windows(others, 7, 7) == []
    assert shared_windows([Resident(9, 8, (1, 1, 1)), Resident(6, 6, (1, 1, 1))], 5, 10) == [Window(5, 10, Demand())]


def test_penalty_factor_takes_the_worst_node() -> None:
    assert penalty_factor(100, [0.0, 15.0, 5.0]) == 1.15
    assert penalty_factor(100, iter([5.0, 15.0])) == 1.15
    assert penalty_factor(100, [0.0]) == 1.0
    assert penalty_factor(100, []) == 1.0
    assert penalty_factor(0, [0.0]) == 1.0
