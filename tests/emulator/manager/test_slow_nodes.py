"""Slow nodes: compared with an independent calculation; normal nodes are not affected."""

from __future__ import annotations

from typing import Any

import pytest
from tests.runs import run_on

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.contended_nodes import ContendedNodes, NoContention
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.build import build_agenda, build_manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.run.prepare import prepare
from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.scenario.schema import Scenario
from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel
from cosched_hwmodel.composition import composition_named
from cosched_hwmodel.contention import ContentionModel
from cosched_plugin.common.allocation import Machine
from cosched_plugin.config import choose
from cosched_plugin.protocol.messages import NodeClass


def cluster_of(nodes: int, composition: str, model: ContentionModel | None = None) -> ContendedNodes:
    machine = Machine([NodeClass(nodes, 1, 4, 1, 1000, 1000, 0, 0)])
    return ContendedNodes(machine, NoContention() if model is None else model, composition_named(composition))


def test_a_slow_node_multiplies_the_slowdown_by_contention() -> None:
    cluster = cluster_of(2, "bulk-synchronous", BandwidthModel(("memory_bandwidth",)))
    for job_id in (1, 2):
        cluster.seat(job_id, [run_on(0, 1, job_id, 1)], 1000, (1000, 0, 0), 0)
    cluster.seat(3, [run_on(1, 1, 1, 1)], 1000, (1000, 0, 0), 0)
    cluster.settle(0)
    contention = cluster.slowdown(1)
    assert contention > 1.0
    cluster.set_slowdown(0, 3.0)
    assert cluster.disturbed_jobs() == [1, 2]  # their measurements are void
    moved = dict(cluster.settle(100))
    assert set(moved) == {1, 2}
    assert cluster.slowdown(1) == pytest.approx(3 * contention)
    assert moved[1] == pytest.approx(100 + (1000 - 100 / contention) * 3 * contention, abs=1)
    assert cluster.slowdown(3) == 1.0
    cluster.check()
    cluster.set_slowdown(0, 3.0)
    assert cluster.settle(200) == []  # as before
    cluster.set_slowdown(0, 1.0)
    cluster.settle(200)
    assert cluster.slowdown(1) == contention
    cluster.check()


def test_the_check_finds_a_slowdown_that_was_not_settled() -> None:
    cluster = cluster_of(1, "bulk-synchronous")
    cluster.seat(1, [run_on(0, 1, 1, 1)], 1000, None, 0)
    cluster.settle(0)
    cluster.check()
    cluster.slow[0] = 2.0  # without the cluster's knowledge
    with pytest.raises(AssertionError, match="penalties"):
        cluster.check()


# ------------------------------------------------------------ whole runs


def simulate(scenario: Scenario, policy: str) -> list[JobRecord]:
    prepared = prepare(scenario)
    manager = build_manager(prepared)
    agenda = build_agenda(prepared, manager)
    choice = choose(policy)
    records = Simulation(manager, agenda, DirectLink(choice.scheduler)).run()
    manager.check()
    return records


def lublin(**more: Any) -> Scenario:
    return read_scenario(
        None,
        {
            "seed": 3,
            "requeue": True,
            "cluster": {"nodes": 8, "preset": "rua-4way"},
            "truth": {"contention": "none"},
            "workload": {"lublin": 80, "aarr": 9.0, "limits": "estimate", "run_factor": 0.3},
            **more,
        },
    )


def test_a_plan_without_slow_nodes_changes_nothing() -> None:
    at = [{"at_s": 5000, "do": "fail", "node": 2}, {"at_s": 9000, "do": "return", "node": 2}]
    never_slow = {"mean_normal_s": 20_000, "mean_slow_s": 10_000, "slowdown": 3, "share": 0}
    assert simulate(lublin(faults={"at": at, "slow": never_slow}), "easy") == simulate(
        lublin(faults={"at": at}), "easy"
    )


def test_making_a_normal_node_normal_changes_nothing() -> None:
    normal = {"at": [{"at_s": 0.0, "do": "normal", "node": 0}]}
    assert simulate(lublin(faults=normal), "easy") == simulate(lublin(), "easy")


def test_a_plan_of_slow_nodes_slows_jobs_and_is_reproducible() -> None:
    quick = simulate(lublin(), "easy")
    scenario = lublin(faults={"slow": {"mean_normal_s": 20_000, "mean_slow_s": 10_000, "slowdown": 3}})
    slow = simulate(scenario, "easy")
    assert slow == simulate(scenario, "easy")
    assert all(record.end_us is not None for record in slow)
    states = [[record.state for record in records] for records in (quick, slow)]
    assert states[1].count("TIMEOUT") > states[0].count("TIMEOUT")  # the scheduler and its limits do not know of it
