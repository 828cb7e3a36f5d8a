"""Scenario files: every section, refusals and their messages, overrides."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cosched_emulator import prepare
from cosched_emulator.cli.scenario_options import PLACES, overrides
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.run.build import build_manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.scenario.machine import build_machine
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.scenario.schema import (
    ClockSection,
    MonitoringSection,
    PreemptionSection,
    ResultsSection,
    Scenario,
    ScriptEntry,
)
from cosched_emulator.scenario.sections import BeliefSection, ClusterSection, TruthSection, WorkloadSection
from cosched_emulator.scenario.time_sharing import TimeSharingSection
from cosched_plugin.config import choose
from cosched_plugin.protocol.messages import Belief, JobSpec, NodeClass

WHOLE = """
seed = 7
requeue = true

[cluster]
nodes = 12
preset = "rua-4way"
cores = 3
memory_bandwidth_mbs = 5000
network_mbs = 100
disk_mbs = 50
memory_mb = 2048
swap_mb = 4096

[truth]
contention = "bandwidth"
composition = "paper"
resources = ["memory_bandwidth", "network"]
remainder = false
c_scope = "cpu_cpu"
cpu = "standard"
pair_seed = 4
good_share = 0.5
paging = 2

[belief]
contention = "none"
composition = "bulk-synchronous"
resources = []
demand = "unknown"
usage = "unknown"
usage_noise = 0.25
usage_bias = -0.5
usage_missing = 0.125
remainder = true
c_scope = "all"
pairs = "unknown"

[workload]
lublin = 9
aarr = 9
gap_factor = 0.5
run_factor = 0.25
limits = "estimate"
estimates = "f-model"
estimate_factor = 2
mix = "10:20:70"
demand_high = [3000, 10, 0]
demand_medium = [1500, 5, 0]
demand_low = [100, 0, 1]
characteristics = "M2"
annotations = "usage.csv"
exclusive = true
memory_mb = 10

[clock]
mode = "virtual"
deadline_s = 5
wait_s = 6.5

[monitoring]
after_s = 60
above = 1.5

[preemption]
resume_s = 7.5
switch_s = 0.5
disk_mbs = 200

[policy]
backfill = "sjbf"
placement = { name = "lessconsume-threshold", threshold = 1.25 }

[results]
warmup = 1
cooldown = 2

[[script]]
at_s = 10
do = "hold"
job = 3

[[script]]
at_s = 20.5
do = "fail-node"
node = 11
"""


def scenario_of(text: str, folder: Path, changes: Mapping[str, Any] | None = None) -> Scenario:
    file = folder / "scenario.toml"
    file.write_text(text)
    return read_scenario(str(file), changes or {})


def test_every_section_is_read(tmp_path: Path) -> None:
    (tmp_path / "usage.csv").write_text("job,cpu,network,memory\n3,0.25,0.5,1\n")
    scenario = scenario_of(WHOLE, tmp_path)
    assert scenario == Scenario(
        seed=7,
        requeue=True,
        cluster=ClusterSection(12, None, "rua-4way", 3, 5000, 100, 50, 2048, 4096),
        truth=TruthSection(
            "bandwidth", "paper", ("memory_bandwidth", "network"), False, "cpu_cpu", "standard", 4, 0.5, 2.0
        ),
        belief=BeliefSection(
            "none", "bulk-synchronous", (), "unknown", "unknown", 0.25, -0.5, 0.125, True, "all", "unknown"
        ),
        workload=WorkloadSection(
            lublin=9,
            aarr=9.0,
            gap_factor=0.5,
            run_factor=0.25,
            limits="estimate",
            estimates="f-model",
            estimate_factor=2.0,
            mix="10:20:70",
            demand_high=(3000, 10, 0),
            demand_medium=(1500, 5, 0),
            demand_low=(100, 0, 1),
            characteristics="M2",
            annotations=str(tmp_path / "usage.csv"),
            exclusive=True,
            memory_mb=10,
        ),
        clock=ClockSection("virtual", None, 5.0, 6.5),
        monitoring=MonitoringSection(60.0, 1.5),
        preemption=PreemptionSection(7.5, 0.5, 200),
        results=ResultsSection(1, 2),
        policy={"backfill": "sjbf", "placement": {"name": "lessconsume-threshold", "threshold": 1.25}},
        script=(ScriptEntry(10.0, "hold", job=3), ScriptEntry(20.5, "fail-node", node=11)),
    )
    prepared = prepare(scenario)
    (node,) = prepared.nodes
    assert node == NodeClass(12, 1, 3, 1, 2048, 5000, 100, 50, 4096)
    assert prepared.script == (Scripted(10_000_000, "hold", 3), Scripted(20_500_000, "fail-node", 11))
    assert len(prepared.workload.jobs) == 9
    for job in prepared.workload.jobs:
        assert (job.spec.exclusive, job.spec.memory_mb, job.spec.demand) == (True, 10, None)
        assert job.spec.usage is None
        assert job.usage is not None
        assert job.demand in ((3000, 10, 0), (1500, 5, 0), (100, 0, 1))
        assert job.spec.limit_us == job.spec.estimate_us >= job.run_us
    assert prepared.workload.jobs[2].usage == ("network", 250_000, 500_000, 250_000, 1_000_000)
    inventory = build_manager(prepared).inventory()
    assert inventory.belief == Belief("none", "bulk-synchronous", ())
    assert (inventory.resume_us, inventory.switch_us, inventory.image_mbs) == (7_500_000, 500_000, 200)


def test_pairs_can_be_drawn_with_any_seed() -> None:
    table = {"workload": {"lublin": 2}, "truth": {"contention": "lomarc"}, "seed": 2**64 - 1}
    prepared = prepare(table)
    belief = build_manager(prepared).inventory().belief
    assert dict(belief.parameters)["pair_seed"] == -1  # the same draws


def test_every_node_has_swap_space(tmp_path: Path) -> None:
    table = {"cluster": {"processors": 9, "preset": "rua-4way", "swap_mb": 64}}
    assert [(item.nodes, item.swap_mb) for item in build_machine(read_scenario(None, table).cluster)] == [
        (2, 64),
        (1, 64),
    ]
    assert build_machine(ClusterSection())[0].swap_mb == 0
    file = tmp_path / "machine.toml"
    file.write_text('[[nodes]]\npreset = "single"\nswap_mb = 9\n[[nodes]]\npreset = "single"\n')
    machine = build_machine(ClusterSection(file=str(file)))
    assert [item.swap_mb for item in machine] == [9, 0]
    with pytest.raises(ConfigurationError, match="either a file or other keys"):
        prepare({"cluster": {"file": str(file), "swap_mb": 1}, "workload": {"lublin": 3}})


def ends(scenario: Scenario) -> tuple[int, ...]:
    """Return when two jobs of 100 s end that start together on one node."""
    prepared = prepare(scenario)
    first, second = (
        job._replace(run_us=100_000_000, spec=JobSpec(number, 0, 1, 10**12))
        for number, job in enumerate(prepared.workload.jobs[:2], 1)
    )
    manager = build_manager(prepared)
    records = Simulation(manager, Agenda(manager, (first, second)), DirectLink(choose("easy").scheduler)).run()
    return tuple(record.end_us or 0 for record in sorted(records, key=lambda record: record.job.spec.id))


def test_the_truth_may_be_lomarcs_model(tmp_path: Path) -> None:
    (tmp_path / "usage.csv").write_text("job,cpu,network,disk,memory\n1,1,0,0,0.5\n2,1,0,0,0.6\n")
    text = "[workload]\nannotations = 'usage.csv'\n[cluster]\nnodes = 1\npreset = 'rua-4way'\n"
    text += "[truth]\ncontention = 'lomarc'\npaging = {}"
    for paging in (2.5, 3):
        scenario = scenario_of(text.format(paging), tmp_path, {"workload": {"lublin": 2}})
        assert ends(scenario) == (round(paging * 100_000_000),) * 2
    unknown = scenario_of(text.format(2.5), tmp_path, {"workload": {"lublin": 2}, "belief": {"usage": "unknown"}})
    assert ends(unknown) == (250_000_000, 250_000_000)  # the belief does not change the truth
    none = scenario_of(text.format(2.5), tmp_path, {"workload": {"lublin": 2}, "truth": {"contention": "none"}})
    assert ends(none) == (100_000_000, 100_000_000)


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("seed = '1'", "seed", "a whole number"),
        ("seed = 1.0", "seed", "a whole number"),
        ("seed = true", "seed", "a whole number"),
        ("requeue = 1", "requeue", "true or false"),
        ("cluster = 4", "cluster", "a table"),
        ("policy = 'easy'", "policy", "a table"),
        ("script = { at_s = 1 }", "script", "a list"),
        ("script = [3]", "script[0]", "a table"),
        ("[cluster]\nnodes = '4'", "cluster.nodes", "a whole number"),
        ("[cluster]\npreset = 4", "cluster.preset", "a text"),
        ("[truth]\nresources = 'network'", "truth.resources", "a list"),
        ("[truth]\nresources = ['network', 1]", "truth.resources[1]", "a text"),
        ("[workload]\naarr = '9'", "workload.aarr", "a number"),
        ("[workload]\naarr = true", "workload.aarr", "a number"),
        ("[workload]\ndemand_high = [1, 2.5, 3]", "workload.demand_high[1]", "a whole number"),
        ("[workload]\nswf = 1", "workload.swf", "a text"),
        ("[clock]\nwait_s = [1]", "clock.wait_s", "a number"),
        ("[[script]]\ndo = 'hold'", "script[0].at_s", "a value"),
    ],
)  # fmt: skip
def test_wrong_types_are_refused(text: str, path: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        scenario_of(text, tmp_path)
    assert (caught.value.path, caught.value.expected) == (path, expected)


@pytest.mark.parametrize(
    ("table", "path"),
    [
        ({}, "workload"),
        ({"lublin": 3, "swf": "x.swf"}, "workload"),
        ({"lublin": 3, "first": 1}, "workload.first"),
        ({"lublin": 3, "jobs": 1}, "workload.jobs"),
        ({"lublin": 3, "memory_mb": -1}, "workload.memory_mb"),
        ({"lublin": 3, "characteristics": "M4"}, "characteristics"),
        ({"lublin": 3, "mix": "high", "demand_low": [1, 2]}, "workload.demand_low"),
        ({"lublin": 1_000_000_000}, "workload.lublin"),  # it would fill the memory
    ],
)
def test_impossible_workloads_are_refused(table: dict[str, object], path: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        prepare({"workload": table})
    assert caught.value.path == path


def test_other_files_are_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: expected a readable scenario file, got No such file"):
        read_scenario(str(tmp_path / "none.toml"), {})
    with pytest.raises(InputError, match="expected a regular file"):
        read_scenario(str(tmp_path), {})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(
        InputError, match=r"^my\.swf\.gz: expected a scenario in TOML, got what its name says is a log: use --swf FILE$"
    ):
        read_scenario("my.swf.gz", {})
    with pytest.raises(InputError, match=r"binary\.toml: expected TOML"):
        read_scenario(str(tmp_path / "binary.toml"), {})
    with pytest.raises(InputError, match=r"expected TOML, got .*line 2"):
        scenario_of("seed = 1\nseed = 2\n", tmp_path)
    with pytest.raises(InputError, match=r"expected TOML, got nested too deeply$"):
        scenario_of(f"x = {'[' * 5000}{']' * 5000}\n", tmp_path)
    for digits in (f"0x{'f' * 5000}", "9" * 400):
        with pytest.raises(InputError, match=r"expected TOML, got cluster.idle_w: an integer of more than 1000 bits$"):
            scenario_of(f"[cluster]\nidle_w = {digits}\n", tmp_path)


def test_overrides_change_single_keys(tmp_path: Path) -> None:
    changes = {"seed": 9, "workload": {"lublin": 4, "mix": "low"}, "results": {"cooldown": 0}}
    scenario = scenario_of(WHOLE, tmp_path, changes)
    plain = scenario_of(WHOLE, tmp_path)
    assert scenario == dataclasses.replace(
        plain, seed=9, workload=dataclasses.replace(plain.workload, lublin=4, mix="low"), results=ResultsSection(1, 0)
    )
    with pytest.raises(ConfigurationError, match="workload: expected a table, got 3"):
        scenario_of("workload = 3", tmp_path, changes)


def test_parameters_of_another_coscheduling_policy_are_refused(tmp_path: Path) -> None:
    text = '[time_sharing]\nnodes = "exact"\ncoscheduling = "cc"\ncoscheduling_parameters = { interval_us = 9000 }\n'
    for changes in ({"coscheduling": "cc"}, {"quantum_s": 2.0}, {"coscheduling": "pb", "coscheduling_parameters": {}}):
        scenario_of(text, tmp_path, {"time_sharing": changes})
    with pytest.raises(ConfigurationError) as raised:
        scenario_of(text, tmp_path, overrides({"coscheduling": "pb"}))
    assert str(raised.value).endswith(
        "scenario.toml: time_sharing.coscheduling_parameters: expected none beside another policy, pb, as these belong to cc, "
        "got {'interval_us': 9000}"
    )


def test_every_option_has_a_key_in_the_scenario() -> None:
    for option, (section, key) in PLACES.items():
        top = {field.name: field for field in dataclasses.fields(Scenario)}
        kind = top[section].default_factory if section else Scenario
        if section == "time_sharing":  # there is none without such an option
            kind = TimeSharingSection
        assert callable(kind)
        assert key in {field.name for field in dataclasses.fields(kind())}, option
    assert overrides({"swf": "x", "nodes": None, "cores": 2, "seed": 0}) == {
        "workload": {"swf": "x"},
        "cluster": {"cores": 2},
        "seed": 0,
    }


@pytest.mark.parametrize("more", [{}, {"time_sharing": {}}, {"workload": {"applications": "table.csv"}}])
def test_the_record_of_a_scenario_is_that_scenario(more: Mapping[str, Any]) -> None:
    """It also names settings that are gone; with another value than the recorded one they are unknown."""
    scenario = read_scenario(None, more)
    record = scenario.as_dict()
    assert read_scenario(None, record) == scenario
    record["clock"]["resend_s"] = 2.0
    with pytest.raises(ConfigurationError, match=r"^clock\.resend_s: expected one of .*, got 'resend_s'$"):
        read_scenario(None, record)
