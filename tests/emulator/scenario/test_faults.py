"""Fault plans: the draws and their order, their reproducibility, and refusals."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from cosched_emulator.bounds import check_bounds
from cosched_emulator.couplings.spawned_plugin import MOMENTS, plugin_faults
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.scenario.fault_sections import FaultsSection, MessageFaultsSection, PluginFaultsSection
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


def test_without_a_plan_there_are_no_faults() -> None:
    scenario = read_scenario(None, {"seed": 1})
    faults = build_faults(scenario, 4)
    assert faults == Faults()
    assert "faults" not in scenario.as_dict()
    assert list(faults.node_faults()) == []
    assert not faults.slow_nodes
    faults.check(live=False, child=False, remote=False, database=False)


def test_the_seed_is_the_scenarios_unless_the_plan_has_one() -> None:
    nodes = {"mean_up_s": 100, "mean_down_s": 10}
    stories = [
        story(build_faults(read_scenario(None, {"seed": seed, "faults": {"nodes": nodes, **own}}), 4), 10**10)
        for seed, own in ((1, {}), (2, {}), (1, {"seed": 2}), (5, {"seed": 2}))
    ]  # fmt: skip
    assert stories[0] != stories[1]
    assert stories[1] == stories[2] == stories[3]


def test_equal_plans_give_equal_faults() -> None:
    faults = plan(
        nodes={"mean_up_s": 90, "mean_down_s": 30},
        slow={"mean_normal_s": 50, "mean_slow_s": 20, "slowdown": 2},
        at=[{"at_s": 100, "do": "fail", "node": 2}, {"at_s": 33.25, "do": "slow", "node": 0, "slowdown": 9}],
    )
    until_us = 2000 * S
    told = story(faults, until_us)
    assert len(told) > 200
    assert told == story(faults, until_us)
    assert [fault.at_us for fault in told] == sorted(fault.at_us for fault in told)
    assert NodeFault(33_250_000, "slow", 0, 9.0) in told
    # One more node does not change the faults of the others.
    more = story(replace(faults, nodes=5), until_us)
    assert [fault for fault in more if fault.node < 4] == told


def test_faults_at_one_instant_are_ordered() -> None:
    at = [
        {"at_s": 5, "do": do, "node": node, **({"slowdown": 2} if do == "slow" else {})}
        for do in ("normal", "return", "slow", "fail")
        for node in (3, 0, 2)
    ]
    faults = plan(at=[{"at_s": 6, "do": "fail", "node": 1}, *at])
    told = story(faults, 5 * S)
    assert {fault.at_us for fault in told} == {5 * S}
    assert [(fault.kind, fault.node) for fault in told] == [
        (kind, node) for kind in ("fail", "return", "slow", "normal") for node in (0, 2, 3)
    ]
    assert list(faults.node_faults())[len(told) :] == [NodeFault(6 * S, "fail", 1)]


@pytest.mark.parametrize(("leave", "come_back"), [("fail", "return"), ("slow", "normal")])
def test_times_in_each_state_are_exponential(leave: FaultKind, come_back: FaultKind) -> None:
    if leave == "fail":
        faults = plan(nodes={"mean_up_s": 400, "mean_down_s": 100})
    else:
        faults = plan(slow={"mean_normal_s": 400, "mean_slow_s": 100, "slowdown": 3})
    spans: dict[FaultKind, list[float]] = {leave: [], come_back: []}
    since = [0] * 4
    normal = [True] * 4
    for at_us, kind, node, slowdown in story(faults, 1_000_000 * S):
        assert kind == (leave if normal[node] else come_back)  # alternately
        assert slowdown == (3.0 if kind == "slow" else 1.0)
        spans[kind].append((at_us - since[node]) / S)
        since[node] = at_us
        normal[node] = not normal[node]
    for kind, wanted in ((leave, 400), (come_back, 100)):  # about 8,000 of each: 1.1 % of error in a mean
        assert mean(spans[kind]) == pytest.approx(wanted, rel=0.05)
        beyond = sum(span > wanted for span in spans[kind]) / len(spans[kind])
        assert beyond == pytest.approx(math.exp(-1), abs=0.03)


def test_only_a_share_of_the_nodes_fails() -> None:
    section = {"mean_up_s": 10, "mean_down_s": 1}
    scenario = read_scenario(None, {"faults": {"nodes": {**section, "share": 0.25}}})
    hit = {fault.node for fault in story(build_faults(scenario, 1000), 1000 * S)}
    assert 200 <= len(hit) <= 300
    none = plan(nodes={**section, "share": 0})
    assert list(none.node_faults()) == []


def test_faults_end_at_the_largest_time() -> None:
    longest_s = INT64_MAX // S
    faults = plan(nodes={"mean_up_s": longest_s, "mean_down_s": longest_s})
    found = list(faults.node_faults())
    assert found != []
    assert all(fault.at_us <= INT64_MAX for fault in found)


AT = {"at_s": 1, "do": "fail", "node": 0}
NODES = {"mean_up_s": 1, "mean_down_s": 1}
SLOW = {"mean_normal_s": 1, "mean_slow_s": 1, "slowdown": 2}
NAN = float("nan")


@pytest.mark.parametrize(
    ("tables", "place"),
    [
        ({"nods": {}}, "faults.nods"),
        ({"nodes": 5}, "faults.nodes"),
        ({"seed": 1.5}, "faults.seed"),
        ({"nodes": {"mean_up_s": 1}}, "faults.nodes.mean_down_s"),
        ({"nodes": {**NODES, "mean_up": 1}}, "faults.nodes.mean_up"),
        ({"nodes": {**NODES, "mean_up_s": 0}}, "faults.nodes.mean_up_s"),
        ({"nodes": {**NODES, "mean_down_s": -1}}, "faults.nodes.mean_down_s"),
        ({"nodes": {**NODES, "mean_down_s": NAN}}, "faults.nodes.mean_down_s"),
        ({"nodes": {**NODES, "mean_down_s": float("inf")}}, "faults.nodes.mean_down_s"),
        ({"nodes": {**NODES, "mean_up_s": "1"}}, "faults.nodes.mean_up_s"),
        ({"nodes": {**NODES, "share": 1.01}}, "faults.nodes.share"),
        ({"nodes": {**NODES, "share": NAN}}, "faults.nodes.share"),
        ({"slow": {"mean_normal_s": 1, "mean_slow_s": 1}}, "faults.slow.slowdown"),
        ({"slow": {**SLOW, "mean_normal_s": NAN}}, "faults.slow.mean_normal_s"),
        ({"slow": {**SLOW, "mean_slow_s": 0}}, "faults.slow.mean_slow_s"),
        ({"slow": {**SLOW, "slowdown": 0.9}}, "faults.slow.slowdown"),
        ({"slow": {**SLOW, "slowdown": 1001}}, "faults.slow.slowdown"),
        ({"slow": {**SLOW, "slowdown": NAN}}, "faults.slow.slowdown"),
        ({"slow": {**SLOW, "share": -0.1}}, "faults.slow.share"),
        ({"at": AT}, "faults.at"),
        ({"at": [AT, {**AT, "do": "fial"}]}, "faults.at[1].do"),
        ({"at": [{**AT, "node": 4}]}, "faults.at[0].node"),
        ({"at": [{**AT, "node": -1}]}, "faults.at[0].node"),
        ({"at": [{"at_s": 1, "do": "fail"}]}, "faults.at[0].node"),
        ({"at": [{**AT, "at_s": -1}]}, "faults.at[0].at_s"),
        ({"at": [{**AT, "at_s": NAN}]}, "faults.at[0].at_s"),
        ({"at": [{**AT, "at_s": 1e13}]}, "faults.at[0].at_s"),
        ({"at": [{**AT, "do": "slow"}]}, "faults.at[0].slowdown"),
        ({"at": [{**AT, "do": "slow", "slowdown": 0.5}]}, "faults.at[0].slowdown"),
        ({"at": [{**AT, "slowdown": 2}]}, "faults.at[0].slowdown"),
        ({"at": [{**AT, "job": 2}]}, "faults.at[0].job"),
        ({"messages": {"dropped": 1}}, "faults.messages.dropped"),
        ({"messages": {"drop": 1.1}}, "faults.messages.drop"),
        ({"messages": {"duplicate": -0.1}}, "faults.messages.duplicate"),
        ({"messages": {"delay": NAN}}, "faults.messages.delay"),
        ({"messages": {"delay_s": -1}}, "faults.messages.delay_s"),
        ({"messages": {"delay_s": 61}}, "faults.messages.delay_s"),
        ({"messages": {"reorder": 2}}, "faults.messages.reorder"),
        ({"plugin": {"kills": -1}}, "faults.plugin.kills"),
        ({"plugin": {"kills": 1.0}}, "faults.plugin.kills"),
        ({"plugin": {"stalls": 100_001}}, "faults.plugin.stalls"),
        ({"plugin": {"stall_s": NAN}}, "faults.plugin.stall_s"),
        ({"plugin": {"batches": 0}}, "faults.plugin.batches"),
        ({"clock": [{"at_s": 1}]}, "faults.clock[0].jump_s"),
        ({"clock": [{"at_s": 1, "jump_s": 0}]}, "faults.clock[0].jump_s"),
        ({"clock": [{"at_s": 1, "jump_s": NAN}]}, "faults.clock[0].jump_s"),
        ({"clock": [{"at_s": -1, "jump_s": 1}]}, "faults.clock[0].at_s"),
        ({"disk": [{"at_s": 1, "for_s": 0}]}, "faults.disk[0].for_s"),
        ({"disk": [{"at_s": 1, "for_s": 1}, {"at_s": NAN, "for_s": 1}]}, "faults.disk[1].at_s"),
    ],
)
def test_invalid_plans_are_refused(tables: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        plan(**tables)
    assert caught.value.path == place


def test_errors_in_a_plan_file_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text("[nodes]\nmean_up = 5\n")
    with pytest.raises(ConfigurationError, match=r"plan.toml: faults.nodes.mean_up: .* did you mean 'mean_up_s'\?"):
        read_faults(str(file))
    with pytest.raises(InputError, match="missing"):
        read_faults(str(tmp_path / "missing"))
    file.write_text("")
    assert read_faults(str(file)) == FaultsSection()


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
