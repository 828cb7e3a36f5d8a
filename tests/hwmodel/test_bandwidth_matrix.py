"""The arrays say what `bandwidth.penalised_us` says, bit for bit: the same decisions whichever of the two is asked."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from cosched_hwmodel.bandwidth import BandwidthModel, Resident, penalised_us
from cosched_hwmodel.bandwidth_matrix import NodeTable, Planned

THREADS = 4


def demand_of(random: Random) -> tuple[int, int, int]:
    return (random.choice((0, 500, 1000, 2000)), 5, random.choice((0, 40)))


@pytest.mark.parametrize("resources", [("memory_bandwidth",), ("memory_bandwidth", "disk"), ()])
@pytest.mark.parametrize("scale_us", [1, 7_919_000_003])
def test_equal_to_the_plain_sum(resources: tuple[str, ...], scale_us: int) -> None:
    """Residents already there, others planned; jobs that start now or later, alone or several at once on a node."""
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
            table.put(node, [Resident(0, 1, (9, 9, 9))])  # what was there before does not matter
            table.put(node, residents)
        planned: list[Planned] = []
        for _ in range(random.randint(0, 2)):
            start_us = random.randint(100, 140) * scale_us
            end_us = start_us + random.randint(1, 40) * scale_us
            demands = [(node, demand_of(random)) for node in range(nodes) if random.random() < 0.5]
            planned.append(table.planned(start_us, end_us, demands))
            for node, demand in demands:
                there[node].append(Resident(start_us, end_us, demand))
        jobs = random.randint(1, 3)
        own = [demand_of(random) for _ in range(jobs)]
        starts_us = np.array([random.randint(100, 130) * scale_us for _ in range(jobs)], dtype=np.int64)
        runs_us = np.array([random.randint(1, 50) * scale_us for _ in range(jobs)], dtype=np.int64)
        asked = np.array(sorted(random.sample(range(nodes), random.randint(1, nodes))), dtype=np.int64)
        matrix = table.penalised_us(asked, own, THREADS, starts_us, runs_us, planned)
        assert matrix.shape == (jobs, len(asked), THREADS)
        for job in range(jobs):
            for row, node in enumerate(asked.tolist()):
                for processes in range(1, THREADS + 1):
                    demand = (own[job][0] * processes, own[job][1] * processes, own[job][2] * processes)
                    expected = penalised_us(
                        model, capacities[node], there[node], demand, int(starts_us[job]), int(runs_us[job])
                    )
                    assert matrix[job, row, processes - 1] == expected
                    penalised += expected > 0
    assert (penalised > 500) == bool(resources)


def test_by_hand() -> None:
    """Four processes of 2000 MB/s on 6000: a third lost. Next to one resident until half-time: three lose on that half alone."""
    table = NodeTable(BandwidthModel(), [(6000, 0, 0), (6000, 0, 0)], THREADS)
    table.put(1, [Resident(0, 115, (2000, 0, 0))])
    span = np.array([30], dtype=np.int64)
    now = np.array([100], dtype=np.int64)
    matrix = table.penalised_us(np.array([0, 1], dtype=np.int64), [(2000, 0, 0)], THREADS, now, span)
    assert matrix.tolist() == [[[0.0, 0.0, 0.0, 10.0], [0.0, 0.0, 5.0, 15.0]]]


def test_same_as() -> None:
    model = BandwidthModel()
    residents = [Resident(0, 10, (1, 2, 3)), Resident(5, 20, (4, 5, 6))]

    def table(*there: Resident) -> NodeTable:
        made = NodeTable(model, [(6000, 0, 0)] * 2, 3)
        made.put(1, there)
        return made

    assert table(*residents).same_as(table(*residents[::-1]))
    assert not table(*residents).same_as(table(residents[0]))
    assert not table(residents[0]).same_as(table(residents[0]._replace(end_us=11)))
    assert not table(residents[0]).same_as(table(residents[0]._replace(demand=(7, 2, 3))))
    assert table().same_as(NodeTable(model, [(6000, 0, 0)] * 2, 3))
