"""Levers: each changes its sections of the site and nothing else, and is offered only where the site has the facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.whatif.made import asked, distance, made_up, result_of, write_log

from cosched_emulator.scenario.machine import build_machine
from cosched_emulator.whatif.answer import GAIN, RESPONSE, answer
from cosched_emulator.whatif.candidates import Scale
from cosched_emulator.whatif.levers import LEVERS
from cosched_emulator.whatif.question import PRESENT, Prepared, Question, prepare_question, study_of
from cosched_emulator.workload.side_files.annotations import read_annotations

_JOBS = """job,priority,partition,array,at_once
1,100,small,1,2
2,200,large,1,2
3,0,small,2,0
"""
_NODES = """[[nodes]]
count = 20
preset = "1x2x1"
memory_mb = 1000

[[nodes]]
count = 10
preset = "1x2x1"
memory_mb = 2000
resources = "gpu:2"
"""
_ALL = ("estimates halfway", "nodes + 10 %")  # for which every site has the facts


def _site(tmp_path: Path, **more: Any) -> Prepared:
    """Return a site with all facts that levers change."""
    log = write_log(tmp_path / "log.swf", 400)
    (tmp_path / "jobs.csv").write_text(_JOBS)
    (tmp_path / "machine.toml").write_text(_NODES)
    site = {
        "cluster": {"file": str(tmp_path / "machine.toml")},
        "workload": {"swf": str(log), "annotations": str(tmp_path / "jobs.csv")},
        "partitions": [
            {"name": "small", "nodes": "0-9", "max_time_s": 3600.0},
            {"name": "large", "nodes": "0-19"},
            {"name": "gpu", "nodes": "20-29"},
            {"name": "any", "default": True},
        ],
        "limits": [{"each": "user", "jobs": 3, "cpus": 8}, {"user": "1", "nodes": 5}, {"account": "a", "jobs": 7}],
        "script": [
            {"at_s": 0.0, "do": "reserve", "nodes": "0", "until_s": 1e5},
            {"at_s": 9.0, "do": "fail-node", "node": 3},
        ],
        **more,
    }
    return prepare_question(Question(site, "slurm", scale=Scale(windows=2)), tmp_path / "out")


def _scenario(prepared: Prepared, lever: str) -> Mapping[str, Any]:
    """Return the scenario of the lever's run on the first window."""
    cells = study_of(prepared).cells
    found = [cell for cell in cells if cell.names["variants"] == lever and cell.policy == PRESENT]
    assert {cell.names["workloads"] for cell in found} == {*prepared.windows}
    return found[0].scenario.as_dict()


@pytest.mark.parametrize(
    ("lever", "sections"),
    [
        ("estimates halfway", {"workload"}),
        ("nodes + 10 %", {"cluster", "partitions"}),
        ("nodes of small + 10 %", {"cluster", "partitions"}),
        ("nodes of large + 10 %", {"cluster", "partitions"}),
        ("partitions shared", {"partitions"}),
        ("throttles x 2", {"workload"}),
        ("user limits x 2", {"limits"}),
        ("no outages", {"script"}),
        ("QOS weights x 2", {"workload"}),
        ("no QOS weights", {"workload"}),
    ],
)
def test_a_lever_changes_its_sections_in_every_window_and_no_other(
    tmp_path: Path, lever: str, sections: set[str]
) -> None:
    prepared = _site(tmp_path)
    present, changed = _scenario(prepared, "logged"), _scenario(prepared, lever)
    assert {key for key in present if present[key] != changed[key]} == sections
    assert {key for key in present["workload"] if present["workload"][key] != changed["workload"][key]} <= {
        "annotations",
        "estimates",
    }


def test_every_lever_is_offered_where_the_site_has_its_facts_and_else_says_what_is_missing(tmp_path: Path) -> None:
    full = _site(tmp_path)
    assert not [reason for one, reason in full.left_out if one.lever]
    assert len(full.levers) == len(LEVERS) + 1  # two partitions get more nodes
    plain = asked(tmp_path)
    assert {*plain.levers} == {*_ALL}
    left = {one.policy: reason for one, reason in plain.left_out if one.lever}
    assert len(left) == len(LEVERS) - len(_ALL)
    assert all(left.values())


def _nodes(prepared: Prepared, lever: str) -> tuple[list[int], dict[str, str | None]]:
    """Return the nodes of each kind in order, and those of partitions."""
    cell = next(cell for cell in study_of(prepared).cells if cell.names["variants"] == lever)
    parts = {each.name: each.nodes for each in cell.scenario.partitions}
    return [item.nodes for item in build_machine(cell.scenario.cluster)], parts


def test_added_nodes_come_last_and_belong_to_those_who_had_their_like(tmp_path: Path) -> None:
    """Other nodes keep their numbers, which outages and jobs name; half of the nodes of a kind get half of the new ones."""
    prepared = _site(tmp_path)
    added = {"small": "0-9;30", "large": "0-19;30-31", "gpu": "20-29;32", "any": None}
    assert _nodes(prepared, "nodes + 10 %") == ([20, 10, 2, 1], added)
    added = {"small": "0-9;30", "large": "0-19;30", "gpu": "20-29", "any": None}
    assert _nodes(prepared, "nodes of small + 10 %") == ([20, 10, 1], added)
    assert _nodes(prepared, "partitions shared")[1] == dict.fromkeys(added)
    cell = next(cell for cell in study_of(prepared).cells if cell.names["variants"] == "nodes + 10 %")
    assert [(item.memory_mb, item.resources) for item in build_machine(cell.scenario.cluster)][2:] == [
        (1000, ()),
        (2000, (("gpu", 2),)),
    ]


def test_only_what_is_of_users_is_doubled(tmp_path: Path) -> None:
    limits = _site(tmp_path).levers["user limits x 2"]["limits"]
    amounts = [{key: value for key, value in entry.items() if isinstance(value, int)} for entry in limits]
    assert amounts == [{"jobs": 6, "cpus": 16}, {"nodes": 10}, {"jobs": 7}]


@pytest.mark.parametrize(
    ("lever", "name", "values"),
    [
        ("throttles x 2", "at_once", [4, 4, 0]),
        ("QOS weights x 2", "priority", [200, 400, 0]),
        ("no QOS weights", "priority", [0, 0, 0]),
    ],
)
def test_annotations_keep_all_but_what_a_lever_changes(
    tmp_path: Path, lever: str, name: str, values: list[int]
) -> None:
    prepared = _site(tmp_path)
    assert prepared.said is not None
    found = read_annotations(prepared.levers[lever]["workload"]["annotations"]).values
    assert [*found[name].values()] == values
    others = [key for key in found if key != name]
    assert [found[key] for key in others] == [prepared.said.values[key] for key in others]


def test_a_lever_without_effect_under_the_present_policy_is_not_offered(tmp_path: Path) -> None:
    """EASY does not go by priority; a script that also changes jobs cannot be left out as a whole."""
    site = _site(
        tmp_path, script=[{"at_s": 0.0, "do": "reserve", "until_s": 9.0}, {"at_s": 1.0, "do": "hold", "job": 2}]
    )
    assert "no outages" not in site.levers
    easy = prepare_question(replace(site.question, policy=None), tmp_path / "easy")
    assert {*site.levers} - {*easy.levers} == {"QOS weights x 2", "no QOS weights"}


def test_runs_of_a_lever_count_beside_the_present_policy_under_its_name(tmp_path: Path) -> None:
    prepared = asked(tmp_path)
    rows = made_up(prepared, {PRESENT: [100.0] * 4}).rows
    fewer = [
        {**row, RESPONSE: 80.0 + place, "wait_s_mean": 80.0, "variant": "nodes + 10 %"}
        for place, row in enumerate(rows)
    ]
    found = answer(prepared, result_of(prepared, [*rows, *fewer]), distance())
    assert [(one.candidate.policy, one.verdict) for one in found.compared] == [("nodes + 10 %", GAIN)]


def test_a_lever_has_no_run_in_a_window_in_which_it_changes_nothing(tmp_path: Path) -> None:
    """An outage that is over before the second window: the study refused the same run twice, so that a site with one had no answer."""
    script = [{"at_s": 0.0, "do": "reserve", "until_s": 9.0}]
    prepared = _site(tmp_path, script=script)
    cells = [cell for cell in study_of(prepared).cells if cell.names["variants"] == "no outages"]
    assert [cell.names["workloads"] for cell in cells] == ["w1"]
    plain = asked(tmp_path, script=script, cluster={"nodes": 8})
    rows = made_up(plain, {PRESENT: [100.0] * 4}).rows
    shorter = {**rows[0], RESPONSE: 60.0, "wait_s_mean": 60.0, "variant": "no outages"}
    compared = answer(plain, result_of(plain, [*rows, shorter], windows=1), distance()).compared
    (found,) = (one for one in compared if one.candidate.policy == "no outages")
    assert (found.windows, found.wait_ratio) == (4, 0.9)
