"""Random workloads of the paper's programs, and its tables."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from cosched_emulator import prepare
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.workload.nas import NAS, NasParameters, generate
from cosched_hwmodel.units import SECOND_US


def test_kinds_and_gaps_are_distributed_as_said() -> None:
    workload = generate(4_000, seed=7)
    names = [job.name for job in workload.jobs]
    programs = Counter(name.split(".")[0] for name in names)
    assert set(programs) == set(NAS)
    assert all(4_000 / 7 * 0.85 < count < 4_000 / 7 * 1.15 for count in programs.values())
    classes = Counter(name.split(".")[1] for name in names if name.startswith("CG."))
    assert all(0.25 < classes[size_class] / programs["CG"] < 0.42 for size_class in "ABC")
    assert {job.processes for job in workload.jobs if job.name.startswith(("SP", "BT"))} == {4, 9, 16}
    assert {job.processes for job in workload.jobs if not job.name.startswith(("SP", "BT"))} == {4, 8, 16}
    assert not {"BT.C.4", "MG.C.4"} & set(names)
    last_s = workload.jobs[-1].spec.submit_us / SECOND_US
    assert last_s / 3_999 == pytest.approx(100, rel=0.05)
    for job in workload.jobs:
        assert job.spec.estimate_us == job.run_us
        assert job.name.endswith(f".{job.processes}")
        assert 0 < job.spec.memory_mb <= 900


def test_what_is_left_out_of_a_name_is_drawn() -> None:
    drawn = generate(200, NasParameters(("SP.C.4", "LU.B", "sPPM"), gap_s=0.0), told_memory=False)
    found = {job.name for job in drawn.jobs}
    assert found == {"SP.C.4", *(f"LU.B.{size}" for size in (4, 8, 16)), *(f"sPPM.{size}" for size in (4, 8, 16))}
    assert {job.spec.submit_us for job in drawn.jobs} == {0}
    assert {job.spec.memory_mb for job in drawn.jobs} == {0}
    limited = generate(200, NasParameters(classes=("A",), sizes=(8, 9)))
    assert {tuple(job.name.split(".")[1:]) for job in limited.jobs} == {("A", "8"), ("A", "9")}


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"nas_programs": ["GC"]}, "workload.nas_programs[0]: expected one of BT, BlockSolve95, CG, EP"),
        ({"nas_programs": ["CG", "CG.D"]}, "workload.nas_programs[1]: expected one of CG.A.16, CG.A.4"),
        ({"nas_programs": ["BT.C.4"]}, "workload.nas_programs[0]: expected a program with a class and a size among"),
        ({"nas_programs": []}, "workload.nas_programs: expected at least one, got none"),
        ({"nas_classes": ["D"]}, "workload.nas_classes[0]: expected one of A, B, C, got 'D'"),
        ({"nas_sizes": [4, 5]}, "workload.nas_sizes[1]: expected one of 4, 8, 9, 16, got 5"),
        ({"gap_s": -1.0}, "workload.gap_s: expected a number of seconds from 0"),
        ({"memory": "told"}, "workload.memory: expected one of aware, unaware, got 'told'"),
        ({"memory_mb": 9}, "workload.memory_mb: remove it: it has no effect without jobs of workload.swf or"),
        ({"aarr": 9.0}, "workload.aarr: remove it: it has no effect without jobs of workload.lublin"),
        ({"load": 0.5, "gap_s": 9.0}, "workload.gap_s: remove it: it has no effect with workload.load"),
        ({"lublin": 3}, "workload: expected one source of jobs: swf, lublin, nas or applications, got lublin and nas"),
    ],
)
def test_wrong_settings_are_refused(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        prepare({"cluster": {"nodes": 16}, "workload": {"nas": 5, **keys}})
    assert str(raised.value).startswith(text)


def test_settings_of_these_programs_go_with_no_other_jobs() -> None:
    with pytest.raises(
        ConfigurationError, match=r"workload.gap_s: remove it: it has no effect without jobs of workload.nas"
    ):
        prepare({"cluster": {"nodes": 16}, "workload": {"lublin": 5, "gap_s": 9.0}})


def test_a_scenario_without_these_programs_says_nothing_of_them() -> None:
    keys = {"nas", "gap_s", "nas_programs", "nas_classes", "nas_sizes", "nas_memory_mb", "memory"}
    assert not keys & read_scenario(None, {"workload": {"lublin": 3}}).as_dict()["workload"].keys()
    assert keys <= read_scenario(None, {"workload": {"nas": 3}}).as_dict()["workload"].keys()


def test_the_truth_knows_the_memory_that_the_scheduler_is_not_told() -> None:
    table = {"cluster": {"nodes": 16}, "workload": {"nas": 9, "memory": "unaware"}, "time_sharing": {"nodes": "exact"}}
    unaware, aware = prepare(table), prepare({**table, "workload": {"nas": 9}})
    for prepared in (unaware, aware):
        programs = prepared.workload.programs
        assert programs is not None
        told = [job.spec.memory_mb for job in prepared.workload.jobs]
        true = [programs.memory_mb(job) for job in prepared.workload.jobs]
        assert all(mb > 0 for mb in true)
        assert told == (true if prepared is aware else [0] * 9)
