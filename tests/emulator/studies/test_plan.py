"""The plan of a study: what an experiment file may say, which cells follow from it, and which of them are the same run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.studies.experiments import SHARED, SMALL, TWO_POLICIES, toml

from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.studies.axes import AXES
from cosched_emulator.studies.cells import CHANGED, Cell, Plan, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_plugin.common.errors import UsageError


def plan_of(**table: Any) -> Plan:
    return make_plan(read_experiment({"scenario": SMALL, **table}))


def names(cells: tuple[Cell, ...]) -> list[str]:
    return [cell.text for cell in cells]


def test_the_product_is_in_order_of_the_axes_and_not_of_the_keys() -> None:
    plan = plan_of(seeds=[2, 1], policies=["sjbf", "easy"], loads=[0.9, 0.7])
    assert names(plan.cells) == [
        f"load={load} policy={policy} seed={seed}"
        for load in ("0.9", "0.7")
        for policy in ("sjbf", "easy")
        for seed in (2, 1)
    ]
    assert [cell.number for cell in plan.cells] == [*range(1, 9)]
    assert [cell.scenario.workload.load for cell in plan.cells[::4]] == [0.9, 0.7]
    assert {cell.scenario.seed for cell in plan.cells} == {1, 2}
    assert plan.extra == ()  # the first policy is the baseline, and it is declared


def test_every_axis_changes_the_scenario_and_variants_change_the_policy_too() -> None:
    plan = plan_of(
        workloads=[{"name": "busy", "workload": {"aarr": 8.0}}],
        hardware=[{"name": "large", "cluster": {"nodes": 32}}],
        beliefs=[{"name": "vague", "belief": {"pairs": "unknown"}}],
        variants=[{"name": "packed", "set": ["placement=packed"], "requeue": True}],
        policies=[{"name": "mine", "policy": "easy", "set": {"order": "shortest"}}],
    )
    (cell,) = plan.cells
    assert cell.text == "workload=busy hardware=large belief=vague variant=packed policy=mine"
    scenario = cell.scenario
    assert (scenario.workload.aarr, scenario.workload.lublin) == (8.0, 12)  # the common key stays
    assert (scenario.cluster.nodes, scenario.belief.pairs, scenario.requeue) == (32, "unknown", True)
    assert cell.settings["placement"]["name"] == "packed"
    assert cell.settings["order"]["name"] == "shortest"


def test_settings_of_any_axis_that_has_some_reach_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of design.md says that an axis is declared once: its ``set`` was read and then lost."""
    monkeypatch.setitem(AXES, "hardware", AXES["hardware"]._replace(settings=True))
    (cell,) = plan_of(hardware=[{"name": "large", "set": ["placement=packed"]}], policies=["easy"]).cells
    assert cell.settings["placement"]["name"] == "packed"


def test_lists_and_exclusions_select_cells() -> None:
    plan = plan_of(
        policies=["easy", "sjbf", "fcfs"],
        loads=[0.5, 0.7],
        seeds="1-3",
        runs=[{"policies": ["fcfs"], "seeds": [1]}, {"policies": ["easy", "sjbf"], "loads": [0.7]}],
        exclude=[{"policies": ["sjbf"], "seeds": "2-3"}],
    )
    assert names(plan.cells) == [
        "load=0.5 policy=fcfs seed=1",
        "load=0.7 policy=fcfs seed=1",
        *(f"load=0.7 policy=easy seed={seed}" for seed in (1, 2, 3)),
        "load=0.7 policy=sjbf seed=1",
    ]


def test_a_file_s_paths_are_relative_to_its_folder_and_its_scenario_may_be_another_file(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text("; MaxProcs: 4\n1 0 0 10 1 -1 -1 1 10 -1 1 1 -1 -1 -1 -1 -1 -1\n")
    (tmp_path / "base.toml").write_text('[workload]\nswf = "log.swf"\n[policy]\npreset = "sjbf"\n')
    (tmp_path / "study.toml").write_text('scenario = "base.toml"\nseeds = [1]\n')
    (cell,) = make_plan(read_experiment(tmp_path / "study.toml")).cells
    assert cell.scenario.workload.swf == str(tmp_path / "log.swf")
    assert cell.policy == "sjbf"  # without the axis it is the scenario's


def test_the_same_run_has_the_same_key_whatever_it_is_called(tmp_path: Path) -> None:
    rows = "; MaxProcs: 4\n1 0 0 10 1 -1 -1 1 10 -1 1 1 -1 -1 -1 -1 -1 -1\n"
    logs = [tmp_path / name for name in ("a.swf", "b.swf", "c.swf")]
    for log, text in zip(logs, (rows, rows, rows.replace(" 10 ", " 11 ")), strict=True):
        log.write_text(text)
    one, two, other = [
        make_plan(read_experiment({"scenario": {"workload": {"swf": str(log)}}, "policies": [policy]})).cells[0].key
        for log, policy in zip(logs, ("easy", "easy", "easy"), strict=True)
    ]
    assert one == two
    assert one != other
    renamed = plan_of(policies=[{"name": "E", "policy": "easy"}]).cells[0].key
    assert renamed == plan_of(policies=["easy"]).cells[0].key
    assert renamed != plan_of(policies=["sjbf"]).cells[0].key
    assert renamed != plan_of(seeds=[2]).cells[0].key


def test_a_release_repeats_no_run_and_a_changed_policy_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys() -> list[str]:
        return [cell.key for cell in plan_of(policies=["easy", "sjbf"]).cells]

    before = keys()
    monkeypatch.setattr("cosched_emulator.results.files.run_folder.own_version", lambda: "9.9")
    assert keys() == before
    monkeypatch.setitem(CHANGED, "easy", 1)
    assert keys()[0] != before[0]
    assert keys()[1] == before[1]


def test_programs_count_by_content_and_the_place_of_measured_rates_not_at_all(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    for file, program in zip(files, ("io", "io", "compute"), strict=True):
        file.write_text(f"job,program\n1,{program}\n")
    jobs = [{"lublin": 3, "programs": str(file)} for file in files]
    sharing = [{}, {"windows": str(tmp_path)}, {}]
    one, two, other = [
        make_plan(read_experiment({"scenario": {"workload": each, "time_sharing": shared}})).cells[0].key
        for each, shared in zip(jobs, sharing, strict=True)
    ]
    assert one == two
    assert one != other


def test_a_log_that_changes_between_two_studies_of_a_session_is_read_again(tmp_path: Path) -> None:
    log, keys = tmp_path / "a.swf", set()
    for run_s in (10, 11):
        log.write_text(f"; MaxProcs: 4\n1 0 0 {run_s} 1 -1 -1 1 {run_s} -1 1 1 -1 -1 -1 -1 -1 -1\n")
        keys.add(make_plan(read_experiment({"scenario": {"workload": {"swf": str(log)}}})).cells[0].key)
    assert len(keys) == 2


def test_loads_that_differ_in_a_late_digit_have_different_names() -> None:
    loads = [0.7, 0.70000001, 1.0]
    assert names(plan_of(loads=loads, runs=[{"loads": loads}]).cells) == [
        f"load={load} policy=easy" for load in ("0.7", "0.70000001", "1")
    ]


def test_a_baseline_that_was_run_without_measures_is_another_run_once_it_is_a_cell() -> None:
    measures = ["tests.emulator.studies.test_running:count_waiting"]
    alone = plan_of(policies=["easy", "fcfs"], runs=[{"policies": ["fcfs"]}], measures=measures)
    both = plan_of(policies=["easy", "fcfs"], measures=measures)
    assert alone.extra[0].key != both.cells[0].key
    assert alone.cells[0].key == both.cells[1].key


def test_many_cells_are_planned_quickly() -> None:
    began = time.process_time()
    plan = plan_of(seeds="1-20000", runs=[{"seeds": "1-20000"}], exclude=[{"seeds": "5-20000"}])
    assert len(plan.cells) == 4
    assert time.process_time() - began < 5


def test_the_source_of_a_policy_s_module_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for number in (1, 2):
        name = f"site_policy_{number}"
        (tmp_path / f"{name}.py").write_text(f"class P:\n    def decide(self, view):\n        return ()  # {number}\n")
        keys.append(plan_of(policies=[{"name": "P", "policy": f"{name}:P"}]).cells[0].key)
    assert keys[0] != keys[1]


def test_each_cell_has_a_plain_baseline_and_shaken_ones() -> None:
    plan = make_plan(read_experiment(TWO_POLICIES))
    by_key = {cell.key: cell for cell in plan.runs}
    mine = next(cell for cell in plan.cells if cell.text == "load=0.9 policy=lomarc-r seed=2")
    plain, *shaken = (by_key[key] for key in plan.baselines[mine.key])
    assert plain.text == "load=0.9 policy=PSS seed=2"
    assert plain.number > 0
    assert [(cell.scenario.workload.shake, cell.scenario.workload.shake_seed) for cell in shaken] == [
        (0.02, 1),
        (0.02, 2),
    ]
    assert all(cell.policy == "PSS" and cell.number == 0 for cell in shaken)
    assert len(plan.extra) == 2 * 2 * 3  # shakes x loads x seeds: policies share them
    assert plain.key not in plan.baselines


def test_a_baseline_that_is_not_declared_is_made_without_the_variant_s_settings_and_with_the_first_belief() -> None:
    plan = make_plan(
        read_experiment(
            {
                "scenario": SHARED,
                "policies": ["pss", "lomarc-r"],
                "variants": [{"name": "all", "set": ["matching.future=all"], "workload": {"run_factor": 0.5}}],
                "beliefs": [{"name": "exact"}, {"name": "vague", "belief": {"usage_noise": 0.3}}],
                "runs": [{"policies": ["lomarc-r"]}],
            }
        )
    )
    (base,) = plan.extra  # one for both beliefs
    assert base.text == "belief=exact variant=all policy=pss"
    assert base.scenario.workload.run_factor == 0.5
    assert set(plan.baselines.values()) == {(base.key,)}


def test_only_the_chosen_cells_are_compared_with_a_baseline() -> None:
    chosen = {"policy": "PSS", "shakes": 1, "runs": [{"loads": [0.7], "seeds": [2]}]}
    plan = make_plan(read_experiment({**TWO_POLICIES, "baseline": chosen}))
    (mine,) = (cell for cell in plan.cells if cell.key in plan.baselines)
    assert mine.text == "load=0.7 policy=lomarc-r seed=2"
    assert len(plan.extra) == 1


def test_a_run_that_is_only_a_baseline_is_not_that_of_a_cell_with_measures() -> None:
    table = {**TWO_POLICIES, "measures": ["builtins:dict"]}
    alone = make_plan(read_experiment({**table, "runs": [{"policies": ["lomarc-r"]}]}))
    declared = make_plan(read_experiment(table))
    shaken = {cell.key for cell in declared.extra}
    assert shaken < {cell.key for cell in alone.extra}
    assert not {cell.key for cell in alone.extra} & {cell.key for cell in declared.cells}


def test_products_are_made_one_after_the_other() -> None:
    plan = plan_of(policies=["easy", "sjbf"], seeds="1-2", runs=[{"policies": ["sjbf"]}, {"policies": ["easy"]}])
    assert [(cell.policy, cell.stage) for cell in plan.cells] == [("sjbf", 0)] * 2 + [("easy", 1)] * 2


WRONG: tuple[tuple[Mapping[str, Any], str], ...] = (
    ({"policys": ["easy"]}, "policys: expected one of .*; did you mean 'policies'"),
    ({"policies": "easy"}, "policies: expected a list"),
    ({"policies": []}, "policies: expected at least one value"),
    ({"policies": ["easy", "easy"]}, r"policies\[1\]: expected a name of its own, got easy"),
    ({"policies": [{"set": ["order=sjf"]}]}, r"policies\[0\].name: expected a policy"),
    ({"policies": [{"name": "x", "policy": "easy", "workloads": {}}]}, r"policies\[0\].workloads.*did you mean 'workload'"),
    ({"workloads": [{"name": "x", "workload": {"lublim": 3}}]}, r"workloads\[0\].workload.lublim: .*did you mean 'lublin'"),
    ({"workloads": [{"workload": {"lublin": 3}}]}, r"workloads\[0\].name: expected a name"),
    ({"workloads": [{"name": "x", "set": ["a=1"]}]}, r"workloads\[0\].set: remove it"),
    ({"workloads": [{"name": "x", "policy": "easy"}]}, r"workloads\[0\].policy: remove it"),
    ({"hardware": [{"name": "x", "cluster": {"nodes": "many"}}]}, r"hardware\[0\].cluster.nodes: expected a whole number"),
    ({"hardware": [{"name": "x", "cluster": {"nodes": 0}}]}, "cell hardware=x policy=easy: cluster.nodes: expected"),
    ({"scenario": {"clock": {"mode": "real"}}}, "clock.mode: expected virtual"),
    ({"scenario": {"policy": {"preset": "easy"}}, "policies": ["easy"]}, "scenario.policy: remove it"),
    ({"loads": [0.7, 0]}, r"loads\[1\]: expected an offered load above 0, got 0"),
    ({"loads": [0.7, 0.70]}, r"loads\[1\]: expected a name of its own, got 0.7"),
    ({"seeds": "10-1"}, 'seeds: expected a list of whole numbers, or a text such as "1-10", got 10-1'),
    ({"seeds": "1-9999999"}, "seeds: expected at most 100,000 seeds"),
    ({"seeds": [1.5]}, "seeds: expected a list of whole numbers"),
    ({"runs": [{"policies": ["easi"]}]}, r"runs\[0\].policies: .*did you mean 'easy'"),
    ({"runs": [{"policy": ["easy"]}]}, r"runs\[0\].policy: .*did you mean 'policies'"),
    ({"runs": [{}, {}]}, "runs: expected cells that differ, got the same run: policy=easy, twice"),
    ({"exclude": [{"policies": ["easy"]}]}, "runs: expected at least one cell, got none: all are excluded"),
    ({"seeds": [1, 2], "runs": [{"seeds": [1]}], "exclude": [{"seeds": [2]}]}, r"exclude\[0\]: expected cells to leave out"),
    (
        {"policies": ["easy", {"name": "E", "policy": "easy"}]},
        "runs: expected cells that differ, got the same run: policy=easy and policy=E",
    ),
    ({"loads": [float("inf")]}, r"loads\[0\]: expected an offered load above 0, got inf"),
    ({"loads": [10**400]}, r"loads\[0\]: expected an offered load above 0, got 1000"),
    ({"seeds": [2**63]}, "seeds: expected whole numbers of at most 64 bits"),
    ({"title": "a\nb"}, r"title: expected a text of one line, got 'a\\nb'"),
    ({"scenario": 3}, "scenario: expected a table, or the name of a scenario's file, got 3"),
    ({"runs": [{"policies": []}]}, r"runs\[0\].policies: expected at least one name, got none"),
    ({"runs": [{"seeds": [1]}]}, r"runs\[0\].seeds: expected an axis that the experiment declares, got seeds"),
    ({"seeds": "1-100000", "loads": [*range(1, 12)]}, "runs: expected at most 1,000,000 cells, got 1,100,000"),
    ({"baseline": {"policy": "pss"}}, "baseline.policy: expected one of easy, got 'pss'"),
    ({"baseline": {"shakes": -1}}, "baseline.shakes: expected a whole number from 0 to 1,000, got -1"),
    ({"baseline": {"shake": 0}}, "baseline.shake: expected a number above 0"),
    ({"baseline": {"runs": [{"policies": ["pss"]}]}}, r"baseline.runs\[0\].policies: expected one of easy, got 'pss'"),
    ({"measures": "m:f"}, "measures: expected a list of texts"),
    (
        {
            "scenario": {"time_sharing": {"coscheduling": "cc", "coscheduling_parameters": {"spin_us": 9}}},
            "policies": [{"name": "E", "policy": "easy", "time_sharing": {"coscheduling": "sb"}}],
        },
        r"policy=E: time_sharing.coscheduling_parameters: expected none beside another policy, sb, as these belong to cc",
    ),
)  # fmt: skip


@pytest.mark.parametrize(("table", "expected"), WRONG, ids=[expected[:40] for _, expected in WRONG])
def test_what_is_wrong_is_named(table: Mapping[str, Any], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        plan_of(**table)


def test_errors_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    for table, expected in (
        ({"policys": []}, "policys"),
        ({"scenario": {"cluster": {"nodes": 0}}}, "cell policy=easy"),
    ):
        file.write_text(toml(table))
        with pytest.raises(ConfigurationError, match=rf"^{file}: {expected}"):
            make_plan(read_experiment(file))
    file.write_text("seeds = [")
    with pytest.raises(InputError, match=f"^{file}: expected TOML"):
        read_experiment(file)
    file.write_text('policies = ["easi"]\n[scenario.workload]\nlublin = 5')
    with pytest.raises(UsageError, match=rf"^{file}: policies 'easi': no policy 'easi'; did you mean 'easy'"):
        make_plan(read_experiment(file))
    file.write_text('[scenario.workload]\nswf = "gone.swf"')
    with pytest.raises(InputError, match=r"gone.swf: expected a file that can be read, got No such file"):
        make_plan(read_experiment(file))
