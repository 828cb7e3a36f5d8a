"""The arrays agree bit for bit with `bandwidth.penalised_us`, so decisions do not depend on which of the two is used."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from tests.reference.penalised import penalised_us

from cosched_hwmodel.bandwidth import bandwidth_matrix
from cosched_hwmodel.bandwidth.bandwidth_matrix import Ints, NodeTable, Planned
from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel, Resident

THREADS = 4


def demand_of(random: Random) -> tuple[int, int, int]:
    return (random.choice((0, 500, 1000, 2000)), 5, random.choice((0, 40)))


def column(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)[:, None, None]


@pytest.mark.parametrize("resources", [("memory_bandwidth",), ("memory_bandwidth", "disk"), ()])
@pytest.mark.parametrize("scale_us", [1, 7_919_000_003])
@pytest.mark.parametrize("shared", [False, True])
def test_the_arrays_equal_the_plain_sum(
    resources: tuple[str, ...], scale_us: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Residents are running or planned, with one demand or several, on all nodes of a small machine or some of a large one."""
    monkeypatch.setattr(bandwidth_matrix, "_MOST_SHARED", 50_000 if shared else -1)
    random = Random(f"{resources} {scale_us}")
    model = BandwidthModel(resources)
    penalised = 0
    for _ in range(250):
        nodes = random.randint(1, 4)
        capacities = [(random.choice((0, 3000, 6000)), 0, random.choice((0, 100))) for _ in range(nodes)]
        table = NodeTable(model, capacities, THREADS)
        there: list[list[Resident]] = []
        for node in range(nodes):
            residents = [
                Resident(random.randint(0, 100) * scale_us, random.randint(90, 160) * scale_us, demand_of(random))
                for _ in range(random.randint(0, THREADS))
            ]
            there.append(residents)
            table.put({node: [Resident(0, 1, (9, 9, 9))]})  # earlier residents do not matter
        table.put(dict(enumerate(there)))
        planned: list[Planned] = []
        for _ in range(random.randint(0, 2)):
            start_us = random.randint(100, 140) * scale_us
            end_us = start_us + random.randint(1, 40) * scale_us
            demands = [(node, demand_of(random)) for node in range(nodes) if random.random() < 0.5]
            planned.append(
                Planned(start_us, end_us, tuple((node, 1, demand) for node, demand in demands), len(planned))
            )
            for node, demand in demands:
                there[node].append(Resident(start_us, end_us, demand))
        own = demand_of(random)
        start_us = random.randint(100, 130) * scale_us
        runs_us = [random.randint(1, 50) * scale_us for _ in range(random.randint(1, 3))]
        asked = np.array(sorted(random.sample(range(nodes), random.randint(1, nodes))), dtype=np.int64)
        ground = table.ground(asked)
        matrix = ground.penalised_us(own, THREADS, start_us, column(runs_us), tuple(planned))
        assert matrix.shape == (len(runs_us), THREADS, len(ground.nodes))
        for lost, run_us in zip(matrix, runs_us, strict=True):
            alone = ground.penalised_us(own, THREADS, start_us, run_us, tuple(planned), ground.stays_us(start_us))
            assert np.array_equal(alone, lost)
            for row, node in enumerate(ground.nodes.tolist()):
                for processes in range(1, THREADS + 1):
                    demand = (own[0] * processes, own[1] * processes, own[2] * processes)
                    expected = penalised_us(model, capacities[node], there[node], demand, start_us, run_us)
                    assert lost[processes - 1, row] == expected
                    penalised += expected > 0
    assert (penalised > 500) == bool(resources)


@pytest.mark.parametrize("shared", [False, True])
def test_the_largest_times_and_demands_do_not_overflow(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten years beside 10**9 MB/s a process, or 3,000 years beside 2000: the sum wrapped around, and the penalty was negative."""
    monkeypatch.setattr(bandwidth_matrix, "_MOST_SHARED", 50_000 if shared else -1)
    for run_us, rate in ((316_224_000_000_000, 10**9), (10**17, 2_000)):
        residents = [Resident(0, run_us // 2, (rate, 0, 0)), Resident(0, 2 * run_us, (rate, 0, 0))]
        later = Planned(run_us // 4, run_us, ((0, 1, (rate, 0, 0)),), 7)
        table = NodeTable(BandwidthModel(), [(6000, 0, 0)], THREADS)
        table.put({0: residents})
        one = np.array([0], dtype=np.int64)
        lost = table.ground(one).penalised_us((rate, 0, 0), THREADS, 100, run_us, (later,))[:, 0].tolist()
        there = [*residents, Resident(later.start_us, later.end_us, (rate, 0, 0))]
        for processes, lost_us in enumerate(lost, 1):
            expected = penalised_us(BandwidthModel(), (6000, 0, 0), there, (rate * processes, 0, 0), 100, run_us)
            assert lost_us == pytest.approx(expected, rel=1e-12)


def test_by_hand() -> None:
    """Four processes of 2000 MB/s on 6000: a third lost. Next to one resident until half-time: three lose during that half only."""
    table = NodeTable(BandwidthModel(), [(6000, 0, 0), (6000, 0, 0)], THREADS)
    table.put({1: [Resident(0, 115, (2000, 0, 0))]})
    ground = table.ground(np.array([0, 1], dtype=np.int64))
    lost = ground.penalised_us((2000, 0, 0), THREADS, 100, 30)
    assert lost.T.tolist() == [[0.0, 0.0, 0.0, 10.0], [0.0, 0.0, 5.0, 15.0]]


def test_changes_of_the_table_change_penalised_times() -> None:
    table = NodeTable(BandwidthModel(), [(6000, 0, 0)], THREADS)
    one = np.array([0], dtype=np.int64)
    assert not table.ground(one).penalised_us((2000, 0, 0), 3, 100, 30).any()
    table.put({0: [Resident(0, 115, (2000, 0, 0))]})
    assert table.ground(one).penalised_us((2000, 0, 0), 3, 100, 30).T.tolist() == [[0.0, 0.0, 5.0]]


def test_same_as_compares_residents() -> None:
    model = BandwidthModel()
    residents = [Resident(0, 10, (1, 2, 3)), Resident(5, 20, (4, 5, 6))]

    def table(*there: Resident) -> NodeTable:
        made = NodeTable(model, [(6000, 0, 0)] * 2, 3)
        made.put({1: there})
        return made

    assert table(*residents).same_as(table(*residents[::-1]))
    assert not table(*residents).same_as(table(residents[0]))
    assert not table(residents[0]).same_as(table(residents[0]._replace(end_us=11)))
    assert not table(residents[0]).same_as(table(residents[0]._replace(demand=(7, 2, 3))))
    assert table().same_as(NodeTable(model, [(6000, 0, 0)] * 2, 3))


def test_jobs_that_left_before_an_instant_do_not_change_its_penalties() -> None:
    random = Random("settled")
    for _ in range(200):
        table = NodeTable(BandwidthModel(("memory_bandwidth",)), [(6000, 0, 0)], THREADS)
        there = [Resident(0, random.randint(1, 50), (2500, 0, 0)) for _ in range(random.randint(1, THREADS))]
        table.put({0: there})
        since = table.changes
        assert table.settled_us(since) == 0
        at_us = random.randint(0, 50)
        before = table.ground(np.array([0])).penalised_us((2500, 0, 0), 2, at_us, 30).tolist()
        ends = [random.randint(1, 50) for _ in range(random.randint(1, 3))]
        for end_us in ends:
            table.note(end_us)
        assert [table.settled_us(since + late) for late in range(len(ends))] == [
            max(ends[late:]) for late in range(len(ends))
        ]
        come = [Resident(0, end_us, (2500, 0, 0)) for end_us in ends]
        table.put({0: there + come if len(there) + len(come) <= THREADS else there})
        if at_us >= table.settled_us(since):
            assert table.ground(np.array([0])).penalised_us((2500, 0, 0), 2, at_us, 30).tolist() == before
