"""The section [time_sharing] and the programs of jobs: what is accepted, what is refused, and what it makes."""

from __future__ import annotations

import gc
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from cosched_emulator import prepare, simulate
from cosched_emulator.errors import ConfigurationError, EmulatorError, InputError
from cosched_emulator.nodeos.programs import Compute, Program, WriteFiles
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.simulated_process import Process
from cosched_emulator.nodeos.work_alone import IterationNeed
from cosched_emulator.offered import LOCAL_SCHEDULERS
from cosched_emulator.run import loop
from cosched_emulator.run.build import build_manager
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.scenario.process_nodes import node_settings, program_maker
from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.scenario.time_sharing import TimeSharingSection
from cosched_emulator.workload.nas import kinds
from cosched_emulator.workload.side_files.job_programs import COLUMNS, PROGRAMS

SECOND = 1_000_000


def table(workload: dict[str, Any] | None = None, sharing: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    jobs = {"lublin": 12, "run_factor": 0.01, **(workload or {})}
    return {"cluster": {"nodes": 8}, "workload": jobs, "time_sharing": sharing or {}, **more}


def warnings_of(scenario: dict[str, Any]) -> list[str]:
    return [note.removeprefix("warning: ") for note in prepare(scenario).workload.notes if note.startswith("warning: ")]


def programs_of(prepared: Prepared) -> list[Program]:
    assert prepared.workload.programs is not None
    section = prepared.scenario.time_sharing
    assert section is not None
    make = program_maker(prepared.workload.programs, node_settings(section), prepared.scenario.seed)
    return [make(job) for job in prepared.workload.jobs]


def test_the_defaults_are_those_of_the_nodes() -> None:
    usual = NodeSettings()
    assert node_settings(TimeSharingSection()) == usual
    given = TimeSharingSection(slice_ms=2.0, tick_ms=0.0, io_logged=1.0, local="rr", memory_mb=512)
    changed: dict[str, Any] = {
        "slice_us": 2_000,
        "tick_us": 0,
        "io_logged_ppm": 1_000_000,
        "memory_mb": 512,
        "local": "rr",
    }
    assert node_settings(given) == replace(usual, **changed)
    named = {item.name for item in fields(NodeSettings)} - {item.name for item in fields(TimeSharingSection)}
    assert named == {"slice_us", "tick_us", "io_logged_ppm"}


def test_jobs_poll_for_messages_in_windows_unless_a_policy_is_given() -> None:
    assert node_settings(TimeSharingSection()).coscheduling == "none"
    assert node_settings(TimeSharingSection(nodes="windows")).coscheduling == "nls"
    given = TimeSharingSection(nodes="windows", coscheduling="pb", coscheduling_parameters={"interval_us": 9_000})
    assert node_settings(given).coscheduling_parameters == (("interval_us", 9_000),)
    assert prepare(table(sharing={"coscheduling": "sb"})).scenario.as_dict()["time_sharing"]["coscheduling"] == "sb"


@pytest.mark.parametrize(
    ("sharing", "text"),
    [
        (
            {"nodes": "fluids"},
            "time_sharing.nodes: expected one of exact, fluid, windows, got 'fluids'; did you mean 'fluid'?",
        ),
        ({"quantum_s": 0.0}, "time_sharing.quantum_s: expected a number of seconds from 0.001 to 1000000, got 0.0"),
        ({"local": "cfs"}, f"time_sharing.local: expected one of {', '.join(sorted(LOCAL_SCHEDULERS))}, got 'cfs'"),
        ({"slice_ms": 0.0}, "time_sharing.slice_ms: expected a number of milliseconds from 0.1 to 1000000, got 0.0"),
        ({"turn_overhead": 1.0}, "time_sharing.turn_overhead: expected a number from 0 to below 1, got 1.0"),
        ({"epoch_ticks": 0}, "time_sharing.epoch_ticks: expected a whole number of ticks from 1 to 10000, got 0"),
        ({"io_logged": 2.0}, "time_sharing.io_logged: expected a number from 0 to 1, got 2.0"),
        ({"io_service_us": 0}, "time_sharing.io_service_us: expected 1 or more, got 0"),
        ({"quanta": 1}, "time_sharing.quanta: expected one of"),
        ({"window_min_s": 0.2}, "time_sharing.window_min_s: expected a number of seconds from 1 to 1000000, got 0.2"),
        ({"window_max_s": 9.0}, "time_sharing.window_max_s: expected at least window_min_s, 10, got 9"),
        ({"coscheduling": "hybird"}, "time_sharing.coscheduling: expected one of cc, dcs, hybrid, nls"),
        (
            {"coscheduling": "SB"},
            "time_sharing.coscheduling: expected one of cc, dcs, hybrid, nls, none, pb, sb, got 'SB'; did you mean 'sb'?",
        ),
        (
            {"coscheduling": "sb", "coscheduling_parameters": {"spin": 3}},
            "time_sharing.coscheduling_parameters.spin: expected one of spin_us, got 'spin'; did you mean 'spin_us'?",
        ),
        (
            {"daemon_us": 2_000, "refill_us": 1_000_000},
            "time_sharing.daemon_us: expected together with switch_us and refill_us less than daemon_period_us, 1000000: else"
            " no process goes on, got 2000 and 1000000",
        ),
        ({"daemon_us": 2_000_000}, "time_sharing.daemon_us: expected less than daemon_period_us, 1000000, got 2000000"),
    ],
)
def test_wrong_settings_of_nodes_are_refused(sharing: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        prepare(read_scenario(None, table(sharing=sharing)))
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cluster": {"nodes": 4, "preset": "2x4x1"}}, "cluster: expected nodes of one core"),
        ({"faults": {"slow": {"mean_normal_s": 9.0, "mean_slow_s": 9.0, "slowdown": 2.0}}}, "faults.slow: expected nothing"),
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


def test_two_threads_a_core_are_two_places_on_one_cpu() -> None:
    prepared = prepare({**table({"programs": "compute"}), "cluster": {"nodes": 4, "preset": "1x1x2"}})
    done = simulate(prepared, "easy")
    assert not done.unfinished
    assert build_manager(prepared).machine.depth == 2
    assert 0 < done.summary["machine"]["utilisation"] <= 1


def test_jobs_that_only_page_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # To read 60 MB takes 2.4 s, and in each quantum of a second another job displaces what was read.
    monkeypatch.setattr(loop, "MOST_IDLE_QUANTA", 300)
    with pytest.raises(
        EmulatorError, match=r"no job has used any CPU time in 301 quanta, and these still run: \d+, \d+"
    ):
        simulate(table({"run_factor": 0.025, "memory_mb": 60}, {"memory_mb": 100}), "gang")


def test_settings_without_effect_are_noted() -> None:
    assert warnings_of(table()) == []
    scenario = table(
        {"mix": "high", "cpu_share": 0.3, "programs": "io"},
        {"nodes": "exact", "rounded": False, "local": "linux-epochs", "slice_ms": 9.0, "swap_mb_s": 9},
        truth={"contention": "lomarc"},
        monitoring={"after_s": 9.0},
    )
    assert {text for text in warnings_of(scenario) if "whole iterations" not in text} == {
        "truth.contention has no effect with [time_sharing]",
        "workload.mix has no effect with [time_sharing]",
        "monitoring.after_s has no effect with [time_sharing]",
        'workload.cpu_share has no effect without programs = "fine"',
        'time_sharing.rounded has no effect without nodes = "fluid"',
        'time_sharing.slice_ms has no effect without local = "wake-first" or "rr"',
        "time_sharing.swap_mb_s has no effect without time_sharing.memory_mb",
    }
    windows = {"nodes": "windows", "rounded": False, "daemon_period_us": 9}
    assert set(warnings_of(table(sharing=windows))) == {
        'time_sharing.rounded has no effect without nodes = "fluid"',
        "time_sharing.daemon_period_us has no effect without time_sharing.daemon_us",
    }
    nas = {"nas": 2, "nas_programs": ["EP"], "lublin": None, "run_factor": 1.0}
    assert warnings_of(table(nas, {"nodes": "exact", "barrier_us": 9})) == [
        "time_sharing.barrier_us has no effect with nas"
    ]
    fluid = {"coscheduling": "sb", "window_min_s": 9.0, "turn_overhead": 0.1, "network_mb_s": 9}
    assert {note.split()[0] for note in warnings_of(table(sharing=fluid))} == {
        "time_sharing.coscheduling",
        "time_sharing.window_min_s",
        "time_sharing.turn_overhead",
        "time_sharing.network_mb_s",
    }
    assert warnings_of(table({"grain": 0.5}, {"epoch_ticks": 3})) == [
        'workload.grain has no effect without programs = "nas:..."',
        'time_sharing.epoch_ticks has no effect without local = "linux-epochs"',
    ]
    plain = {"cluster": {"nodes": 8}, "workload": {"lublin": 3, "programs": "qcrd", "jitter": 0.5}}
    assert set(warnings_of(plain)) == {
        "workload.programs has no effect without [time_sharing]",
        "workload.jitter has no effect without [time_sharing]",
    }


def test_a_scenario_without_the_section_says_nothing_of_it() -> None:
    plain = read_scenario(None, {"workload": {"lublin": 3}}).as_dict()
    assert "time_sharing" not in plain
    assert not {"programs", "cpu_share", "null_statements", "files", "jitter"} & plain["workload"].keys()
    assert read_scenario(None, table()).as_dict()["workload"]["cpu_share"] == 0.45


@pytest.mark.parametrize("name", ["fine", "uniform", "qcrd", "qcrd-even", "compute", "io"])
@pytest.mark.parametrize("sharing", [{}, {"barrier_us": 40_000}])
def test_programs_take_the_run_time_alone(name: str, sharing: dict[str, Any]) -> None:
    prepared = prepare(table({"programs": name, "run_factor": 1.0}, sharing))
    section = prepared.scenario.time_sharing
    assert section is not None
    settings = node_settings(section)
    for job, program in zip(prepared.workload.jobs, programs_of(prepared), strict=True):
        alone_us = sum(
            loop.times * IterationNeed(loop.body_of(0), job.spec.processes, settings).length_us
            for loop in program.loops
        )
        step_us = max(IterationNeed(loop.body_of(0), job.spec.processes, settings).length_us for loop in program.loops)
        assert abs(alone_us - job.run_us) <= max(0.03 * job.run_us, 25 * step_us)
    again = programs_of(prepare(table({"programs": name, "run_factor": 1.0}, sharing)))
    assert again == programs_of(prepared)


def test_parameters_of_programs() -> None:
    def body(workload: dict[str, Any]) -> tuple[object, ...]:
        return programs_of(prepare(table(workload)))[0].loops[0].body_of(0)

    share = body({"cpu_share": 0.25, "jitter": 0.0})
    assert share[0] == Compute(round(920 / 3), 0)
    slower = programs_of(prepare(table({"cpu_share": 0.25, "jitter": 0.0}, {"barrier_us": 9_000})))[0]
    assert slower.loops[0].body_of(0)[0] == Compute(3_000, 0)  # the share is that of the time alone
    assert body({"programs": "compute", "null_statements": 1_000_000})[0] == Compute(30_000, 15_000)
    assert body({"programs": "io", "files": 7})[0] == WriteFiles(7, True)


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


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "job,programm\n1,io\n",
            f":1: expected the names {', '.join(COLUMNS)}, got 'programm'; did you mean 'program'?",
        ),
        ("job,program\n1,oi\n", f":2: field 'program': expected one of {', '.join(PROGRAMS)}, nas:PROGRAM.CLASS, got 'oi'"),
        ("job,program\nx,io\n", ":2: field 'job': expected a job's number in the source, got 'x'"),
        ("job,program\n,io\n", ":2: field 'job': expected a job's number in the source, got none"),
        ("job,program\n1,io\n1,io\n", ":3: field 'job': expected each job once, got 1 again"),
        ("job,program,cpu_share\n1,io,0.3\n", ":2: field 'cpu_share': expected nothing: it has no effect on io, got '0.3'"),
        ("job,program,cpu_share\n1,fine,1.3\n", ":2: field 'cpu_share': expected a number from 0 to 1, got '1.3'"),
        ("job,program,files\n1,io,2.5\n", ":2: field 'files': expected a whole number from 1 to 1000000000, got '2.5'"),
        ("job,program,unpaired\n1,io,maybe\n", ":2: field 'unpaired': expected yes or no, got 'maybe'"),
        ("job,program\n1\n", ":2: expected 2 fields, got 1"),
        ("job,program\n", ": expected at least one row of values, got none"),
    ],
)  # fmt: skip
def test_errors_in_a_side_file_have_their_place(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "programs.csv"
    file.write_text(text)
    with pytest.raises(InputError) as raised:
        prepare(table({"programs": str(file)}))
    assert str(raised.value) == f"{file}{error}"


def test_where_rates_are_kept_changes_no_result(tmp_path: Path) -> None:
    scenario = table({"cpu_share": 0.4, "jitter": 0.2})
    kept = {**scenario, "time_sharing": {"windows": str(tmp_path / "rates")}}
    gang = "tests.emulator.manager.time_sharing.gangs:PairedGang"
    plain = simulate(scenario, gang, out=tmp_path / "plain")
    for name in ("cold", "warm"):
        made = simulate(kept, gang, out=tmp_path / name)
        for file in ("run.json", "jobs.csv", "quanta.csv", "summary.json"):
            assert (tmp_path / name / file).read_bytes() == (tmp_path / "plain" / file).read_bytes()
        assert made.summary == plain.summary
    assert len(list((tmp_path / "rates").iterdir())) == 1
    with pytest.raises(InputError):
        simulate({**scenario, "time_sharing": {"windows": str(tmp_path / "plain" / "jobs.csv")}}, "easy")


def test_settings_that_were_added_are_named_only_if_they_are_changed() -> None:
    """So studies find the runs that were made before."""
    usual = read_scenario(None, table({"grain": 1.0}, {"epoch_ticks": 6})).as_dict()
    assert usual == read_scenario(None, table()).as_dict()
    assert ("grain" in usual["workload"], "epoch_ticks" in usual["time_sharing"]) == (False, False)
    changed = read_scenario(None, table({"grain": 0.5}, {"epoch_ticks": 3})).as_dict()
    assert (changed["workload"]["grain"], changed["time_sharing"]["epoch_ticks"]) == (0.5, 3)
    assert "grain" not in read_scenario(None, {"workload": {"lublin": 3, "grain": 0.5}}).as_dict()["workload"]


def test_runs_are_the_same_again_and_after_others() -> None:
    """Rates that other runs of the process have measured change nothing."""
    scenario = table({"cpu_share": 0.4})
    first = simulate(scenario, "easy")
    simulate({**scenario, "seed": 2}, "easy")
    assert simulate(scenario, "easy").records == first.records


def test_runs_one_after_the_other_free_their_memory() -> None:
    """Processes and jobs refer to each other, so a study's worker once grew by 25 MB a run."""
    nas = {"nas": 4, "nas_classes": ["A"], "nas_sizes": [4]}
    gc.collect()
    before = _processes()
    for _ in range(4):
        simulate({"cluster": {"nodes": 4}, "workload": nas, "time_sharing": {"nodes": "windows"}}, "easy")
    assert _processes() - before <= 4 * 4  # of the last run


def _processes() -> int:
    return sum(isinstance(item, Process) for item in gc.get_objects())


@pytest.mark.parametrize(("setting", "changed"), [("paged_first_mb", 10), ("paged_mb_s", 200)])
def test_what_processes_touch_where_memory_is_short_reaches_the_nodes(setting: str, changed: int) -> None:
    sharing = {"nodes": "exact", "memory_mb": 100, setting: changed}
    prepared = prepare(table({}, sharing))
    section = prepared.scenario.time_sharing
    assert section is not None
    assert getattr(node_settings(section), setting) == changed != getattr(NodeSettings(), setting)


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


def test_jobs_of_a_log_run_nas_programs_as_long_as_their_run_times(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text(
        "".join(
            f"{n} {n} -1 {run} {size} -1 -1 {size} 9999 -1 1 1 1 1 -1 -1 -1 -1\n"
            for n, run, size in ((1, 62, 9), (2, 10, 4))
        )
    )
    side = tmp_path / "programs.csv"
    side.write_text("job,program,iterations,jitter,grain\n1,nas:SP.A,,0.2,0.5\n2,nas:EP.B,3,,0.1\n")
    scenario = {
        "cluster": {"nodes": 9},
        "workload": {"swf": str(log), "programs": str(side)},
        "time_sharing": {"nodes": "exact"},
    }
    prepared = prepare(scenario)
    sp, ep = programs_of(prepared)
    assert sp.loops[0].times == round(800 * 62 / (34.5 * 16 / 9))
    assert {item.jitter_ppm for item in sp.loops[0].body_of(4) if isinstance(item, Compute)} == {200_000}
    assert ep.loops[0].times == 3
    (warning,) = prepared.workload.warnings
    assert "programs of 1 jobs take other times alone" in warning
    assert "; job 2: 0.293 s, not 10 s" in warning
    programs = prepared.workload.programs
    assert programs is not None
    assert [programs.memory_mb(job) for job in prepared.workload.jobs] == [13, 8]
    side.write_text("job,program,grain\n1,nas:SP.A,\n2,nas:EP.B,1000\n")
    with pytest.raises(
        InputError, match=r"programs\.csv:3: field 'grain': expected a number from 0\.1 to 10, got '1000'"
    ):
        prepare(scenario)
    side.write_text("job,program\n1,nas:CG.A\n")
    with pytest.raises(ConfigurationError, match=r"job 1: expected jobs of 4, 8 or 16 processes for CG\.A"):
        prepare(scenario)
    with pytest.raises(ConfigurationError, match=r"did you mean .nas:CG\.C"):
        prepare({**scenario, "workload": {"swf": str(log), "programs": "nas:CG-C"}})


@pytest.mark.parametrize("sharing", [{}, {"time_sharing": {"nodes": "fluid"}}])
@pytest.mark.parametrize("preset", ["single", "1x1x2", "1x2x2"])
def test_under_batch_no_node_has_two_jobs(sharing: dict[str, Any], preset: str, tmp_path: Path) -> None:
    """Its jobs took hardware threads: where a node has several, it was shared."""
    if sharing and preset == "1x2x2":
        return  # nodes with processes have one core
    log = tmp_path / "four.swf"
    rows = [f"{number} 0 -1 20 1 -1 -1 1 20 -1 1 1 1 1 -1 -1 -1 -1\n" for number in range(1, 5)]
    log.write_text("".join(rows), encoding="ascii")
    cluster = {"nodes": 2, "preset": preset}
    run = simulate({"workload": {"swf": str(log), "limits": "none"}, "cluster": cluster, **sharing}, "batch")
    assert run.summary["states"]["COMPLETED"] == 4
    assert run.summary["machine"]["node_sharing"] == 0


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
