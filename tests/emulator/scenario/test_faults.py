"""Fault plans: the draws and their order, their reproducibility, and refusals."""

from __future__ import annotations

import math
import tomllib
from itertools import takewhile
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from cosched_emulator.bounds import check_bounds
from cosched_emulator.couplings.spawned_plugin import MOMENTS, plugin_faults
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.fault_sections import MessageFaultsSection, PluginFaultsSection
from cosched_emulator.scenario.faults import ClockJump, DiskFull, FaultKind, Faults, NodeFault
from cosched_emulator.scenario.planned_events import build_faults
from cosched_emulator.scenario.reader import read_faults, read_scenario
from cosched_emulator.scenario.rules import check_rules
from cosched_emulator.scenario.schema import Scenario
from cosched_plugin.protocol.limits import INT64_MAX

PLAN = """
seed = 3
[nodes]
mean_up_s = 1000
mean_down_s = 100.5
share = 0.5
[slow]
mean_normal_s = 500
mean_slow_s = 50
slowdown = 2.5
[[at]]
at_s = 7.25
do = "slow"
node = 1
slowdown = 4
[[at]]
at_s = 9
do = "normal"
node = 1
[messages]
drop = 0.01
duplicate = 0.02
delay = 0.03
delay_s = 0.5
reorder = 1
[plugin]
kills = 5
stalls = 2
stall_s = 0.25
batches = 40
[[clock]]
at_s = 60
jump_s = -30
[[clock]]
at_s = 50
jump_s = 3600
[[disk]]
at_s = 100
for_s = 20.5
"""
S = 1_000_000


def plan(**tables: Any) -> Faults:
    """Return the plan of such a table, for four nodes."""
    scenario = read_scenario(None, {"seed": 1, "workload": {"lublin": 3}, "faults": tables})
    check_bounds(scenario)
    check_rules(scenario)
    return build_faults(scenario, 4)


def story(faults: Faults, until_us: int) -> list[NodeFault]:
    """Return the faults of nodes up to an instant."""
    return list(takewhile(lambda fault: fault.at_us <= until_us, faults.node_faults()))


def test_a_plan_is_read_from_its_own_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    section = read_faults(str(file))
    faults = build_faults(Scenario(seed=8, faults=section), 4)
    assert faults.seed == 3
    assert faults.messages == MessageFaultsSection(0.01, 0.02, 0.03, 0.5, 1.0)
    assert faults.plugin == PluginFaultsSection(5, 2, 0.25, 40)
    assert faults.clock == (ClockJump(50 * S, 3600 * S), ClockJump(60 * S, -30 * S))
    assert faults.disk == (DiskFull(100 * S, 120_500_000),)
    assert faults.at == (NodeFault(7_250_000, "slow", 1, 4.0), NodeFault(9 * S, "normal", 1))
    assert [(a.leave, a.mean_normal_us, a.mean_other_us, a.share, a.slowdown) for a in faults.alternations] == [
        ("fail", 1e9, 100.5e6, 0.5, 1.0),
        ("slow", 5e8, 5e7, 1.0, 2.5),
    ]
    assert faults.slow_nodes
    # The same table in a scenario is the same plan, and is in the record of the run.
    scenario = read_scenario(None, {"seed": 8, "faults": tomllib.loads(PLAN)})
    assert scenario.faults == section
    assert scenario.as_dict()["faults"]["at"][0]["slowdown"] == 4.0


@pytest.mark.parametrize(("leave", "come_back"), [("fail", "return"), ("slow", "normal")])
def test_times_in_each_state_are_exponential(leave: FaultKind, come_back: FaultKind) -> None:
    if leave == "fail":
        faults = plan(nodes={"mean_up_s": 400, "mean_down_s": 100})
    else:
        faults = plan(slow={"mean_normal_s": 400, "mean_slow_s": 100, "slowdown": 3})
    spans: dict[FaultKind, list[float]] = {leave: [], come_back: []}
    since = [0] * 4
    normal = [True] * 4
    for at_us, kind, node, slowdown, _ in story(faults, 1_000_000 * S):
        assert kind == (leave if normal[node] else come_back)  # alternately
        assert slowdown == (3.0 if kind == "slow" else 1.0)
        spans[kind].append((at_us - since[node]) / S)
        since[node] = at_us
        normal[node] = not normal[node]
    for kind, wanted in ((leave, 400), (come_back, 100)):  # about 8,000 of each: 1.1 % of error in a mean
        assert mean(spans[kind]) == pytest.approx(wanted, rel=0.05)
        beyond = sum(span > wanted for span in spans[kind]) / len(spans[kind])
        assert beyond == pytest.approx(math.exp(-1), abs=0.03)


def test_faults_end_at_the_largest_time() -> None:
    longest_s = INT64_MAX // S
    faults = plan(nodes={"mean_up_s": longest_s, "mean_down_s": longest_s})
    found = list(faults.node_faults())
    assert found != []
    assert all(fault.at_us <= INT64_MAX for fault in found)


@pytest.mark.parametrize(
    ("tables", "lacking"),
    [
        ({"messages": {"drop": 0.1}}, "remote"),
        ({"plugin": {"kills": 1}}, "child"),
        ({"clock": [{"at_s": 1, "jump_s": 1}]}, "live"),
        ({"disk": [{"at_s": 1, "for_s": 1}]}, "database"),
    ],
)
def test_faults_that_a_run_cannot_make_are_refused(tables: dict[str, Any], lacking: str) -> None:
    faults = plan(**tables)
    can = {"live": True, "child": True, "remote": True, "database": True}
    faults.check(**can)
    with pytest.raises(ConfigurationError) as caught:
        faults.check(**{**can, lacking: False})
    assert caught.value.path == f"faults.{next(iter(tables))}"


def test_kills_and_stalls_are_at_drawn_batches() -> None:
    faults = PluginFaultsSection(50, 20, 0.1, None)
    drawn = plugin_faults(faults, 1, 2000)
    assert drawn == plugin_faults(faults, 1, 2000)
    assert drawn != plugin_faults(faults, 2, 2000)
    assert all(1 <= batch <= 2000 for batch in drawn)
    kinds = [fault.kind for batch in drawn.values() for fault in batch]
    assert (kinds.count("kill"), kinds.count("stall")) == (50, 20)
    kills = [fault for batch in drawn.values() for fault in batch if fault.kind == "kill"]
    assert {fault.moment for fault in kills} == set(MOMENTS)
    assert min(drawn) < 200
    assert max(drawn) > 1800
    assert len(plugin_faults(faults, 1, 10)) == 10  # at most one kill and one stall for each
    assert set(plugin_faults(PluginFaultsSection(30, batches=30), 1, 5)) == set(range(1, 31))
