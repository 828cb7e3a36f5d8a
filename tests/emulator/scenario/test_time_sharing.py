"""The section [time_sharing] and the programs of jobs: what is accepted, what is refused, and what it makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cosched_emulator import prepare, simulate
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.programs import Compute, Program, WriteFiles
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.scenario.process_nodes import node_settings, program_maker
from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.workload.nas import kinds


def table(workload: dict[str, Any] | None = None, sharing: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    jobs = {"lublin": 12, "run_factor": 0.01, **(workload or {})}
    return {"cluster": {"nodes": 8}, "workload": jobs, "time_sharing": sharing or {}, **more}


def programs_of(prepared: Prepared) -> list[Program]:
    assert prepared.workload.programs is not None
    section = prepared.scenario.time_sharing
    assert section is not None
    make = program_maker(prepared.workload.programs, node_settings(section), prepared.scenario.seed)
    return [make(job) for job in prepared.workload.jobs]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cluster": {"nodes": 4, "preset": "2x4x1"}}, "cluster: expected nodes of one core"),
        ({"faults": {"slow": {"mean_normal_s": 9.0, "mean_slow_s": 9.0, "slowdown": 2.0}}}, "faults.slow: remove it"),
        ({"faults": {"at": [{"at_s": 1.0, "do": "slow", "node": 1, "slowdown": 2.0}]}}, "faults.at[0].do: expected fail or return"),
        ({"workload": {"lublin": 3, "programs": "unifrom"}}, "workload.programs: expected one of FILE.csv, compute, fine"),
        ({"workload": {"nas": 3, "nas_programs": ["EP"]}}, 'time_sharing.nodes: expected "windows" or "exact": processes of nas:EP'),
        ({"workload": {"nas": 3, "nas_programs": ["bt"]}}, "workload.nas_programs[0]: expected one of BT, BlockSolve95, CG, EP"),
        ({"workload": {"nas": 3, "grain": 0.0}}, "workload.grain: expected a number from 0.1 to 10, got 0.0"),
        ({"workload": {"nas": 10**11}}, "workload.nas: expected a number from 1 to 10000000, got 100000000000"),
        ({"workload": {"lublin": 3, "memory_mb": 99}, "time_sharing": {"memory_mb": 64}}, "time_sharing.memory_mb: expected at least"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together_are_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        prepare({**table(), **change})
    assert str(raised.value).startswith(text)


def test_a_scenario_runs_in_windows(tmp_path: Path) -> None:
    sharing = {"nodes": "windows", "local": "linux-epochs", "coscheduling": "sb", "window_max_s": 12.0}
    log = tmp_path / "jobs.swf"
    rows = [f"{job} {3 * job} -1 12 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1" for job in range(1, 7)]
    log.write_text("; MaxProcs: 8\n" + "\n".join(rows) + "\n")
    scenario: dict[str, Any] = {
        "workload": {"swf": str(log), "programs": "nas:SP.C", "limits": "none"},
        "cluster": {"nodes": 8, "preset": "1x1x3"},
        "time_sharing": sharing,
    }
    done = simulate(prepare(scenario), "coscheduling", out=tmp_path / "run")
    assert not done.unfinished
    assert 0 < json.loads((tmp_path / "run" / "timing.json").read_text())["simulated"] < 1
    simulate(prepare(scenario), "coscheduling", out=tmp_path / "again")
    for file in (tmp_path / "run").iterdir():
        if file.name != "timing.json":
            assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name
    alone = {**scenario, "cluster": {"nodes": 8}}
    simulate(prepare(alone), "batch-contiguous", out=tmp_path / "alone")
    assert json.loads((tmp_path / "alone" / "timing.json").read_text())["simulated"] == 0


CSV = """job,program,cpu_share,null_statements,files,iterations,jitter,unpaired
1,fine,0.2,,,,0.5,yes
2,compute,,1000000,,40,,no
3,io,,,5,,,
"""


def test_a_side_file_gives_programs_by_job(tmp_path: Path) -> None:
    file = tmp_path / "programs.csv"
    file.write_text(CSV)
    scenario = tmp_path / "scenario.toml"
    scenario.write_text('[cluster]\nnodes = 8\n[workload]\nlublin = 4\nprograms = "programs.csv"\n[time_sharing]\n')
    prepared = prepare(read_scenario(str(scenario), {}))
    assert [job.spec.unpaired for job in prepared.workload.jobs] == [True, False, False, False]
    first, second, third, fourth = programs_of(prepared)
    assert first.loops[0].body_of(0)[0] == Compute(230, 500_000)
    assert (second.loops[0].times, second.loops[0].body_of(0)[0]) == (40, Compute(30_000, 15_000))
    assert third.loops[0].body_of(0)[0] == WriteFiles(5, True)
    assert fourth.loops[0].body_of(0)[0] == Compute(753, 100_000)
    assert f"programs {file}: 3 jobs; 1 jobs not in it run fine" in prepared.workload.notes
    file.write_text("job,program\n77,io\n")
    assert f"{file} names none of the 4 jobs" in prepare(read_scenario(str(scenario), {})).workload.warnings


def test_programs_with_larger_processes_than_asked_for_are_not_drawn() -> None:
    nas = {"nas": 30, "nas_programs": ["BT"], "nas_sizes": [4], "lublin": None, "run_factor": 1.0}
    largest = {kind.size_class: kind.memory_mb for kind in kinds() if kind.program == "BT" and kind.processes == 4}
    for most_mb, drawn in ((largest["B"], {"A", "B"}), (largest["B"] - 1, {"A"})):
        scenario = table({**nas, "nas_classes": ["A", "B"], "nas_memory_mb": most_mb}, {"nodes": "exact"})
        assert {name.rpartition(".")[2] for name in programs_names(prepare(scenario))} == drawn


def programs_names(prepared: Prepared) -> set[str]:
    programs = prepared.workload.programs
    assert programs is not None
    return {programs.of(job.spec.id).name for job in prepared.workload.jobs}


@pytest.mark.parametrize(
    ("program", "seconds", "alone"),
    [("uniform", 1, None), ("qcrd", 1, "1.08 s, not 1 s"), ("qcrd", 60, None), ("compute", 0.1, "0.0759 s, not 0.1 s")],
)
def test_a_program_of_few_iterations_that_is_not_as_long_as_its_job_is_a_warning(
    program: str, seconds: float, alone: str | None, tmp_path: Path
) -> None:
    """Iterations are whole: such a job was up to a quarter shorter, or much longer, and nothing said so."""
    log = tmp_path / "short.swf"
    log.write_text(f"1 0 -1 {seconds} 1 -1 -1 1 {seconds} -1 1 1 1 1 -1 -1 -1 -1\n", encoding="ascii")
    workload = {"swf": str(log), "programs": program, "cap_runs": False}
    warnings = prepare({"workload": workload, "cluster": {"nodes": 1}, "time_sharing": {}}).workload.warnings
    odd = [text for text in warnings if "whole iterations" in text]
    assert len(odd) == (alone is not None)
    assert all(f"job 1: {alone}" in text for text in odd)
