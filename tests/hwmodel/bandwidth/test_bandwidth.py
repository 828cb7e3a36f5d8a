"""The bandwidth model against the example of the paper and against the plain sum over windows."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from tests.properties import drawn
from tests.reference.penalised import penalised_us

from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel, Resident, penalty_factor
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


def test_penalty_factor_takes_the_worst_node() -> None:
    assert penalty_factor(100, [0.0, 15.0, 5.0]) == 1.15
    assert penalty_factor(100, iter([5.0, 15.0])) == 1.15
    assert penalty_factor(100, [0.0]) == 1.0
    assert penalty_factor(100, []) == 1.0
    assert penalty_factor(0, [0.0]) == 1.0
