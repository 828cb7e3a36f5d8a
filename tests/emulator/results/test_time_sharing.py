"""Runs whose jobs take turns: their figures, worked out by hand, their files, and their pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.emulator.results.samples import record, stay, workload_of, write_run
from tests.runs import run_on

from cosched_emulator import simulate
from cosched_emulator.cli.results import plot
from cosched_emulator.errors import EmulatorError, InputError
from cosched_emulator.manager.record import JobRecord, QuantumPart, QuantumRecord
from cosched_emulator.results.figures import plot_turns as pictures
from cosched_emulator.results.figures.metrics import TIME_SHARING, figures_of, jobs_in_system, summarise
from cosched_emulator.results.figures.occupancy import threads_in_use
from cosched_emulator.results.figures.plot_turns import TurnBox, turn_boxes
from cosched_emulator.results.files.run_reader import read_quanta, read_run
from cosched_emulator.results.record_columns import NOT_MEASURED, job_columns, quanta_columns, stay_columns
from cosched_plugin.protocol.messages import NodeClass

S = 1_000_000
MACHINE = (NodeClass(2, 1, 1, 1, 100, 0, 0, 0),)
GANG = "tests.emulator.manager.time_sharing.gangs"


def shared_jobs() -> list[JobRecord]:
    """Return two jobs that take turns on node 0, and one on node 1 that is paired with neither, in 4 s."""
    jobs = [
        record(1, 0, stays=(stay(0, 4, run_on(0, 2, 1, 1)),), work_s=1, processes=2),
        record(2, 1, stays=(stay(1, 3, run_on(0, 1, 1, 1)),), work_s=2),
        record(3, 2, stays=(stay(2, 3, run_on(1, 1, 1, 1)),), work_s=1),
    ]
    used = [(800_000, 2 * S), (500_000, S), (0, 0)]
    return [
        each._replace(cpu_us=cpu_us, dispatched_us=ran_us) for each, (cpu_us, ran_us) in zip(jobs, used, strict=True)
    ]


def quanta() -> list[QuantumRecord]:
    first = QuantumPart(1, 0, "row", False, S, 900_000, 450_000)
    row = QuantumPart(2, 1, "row", True, S, 500_000, 500_000)
    partner = QuantumPart(1, 0, "partner", True, S, 700_000, 350_000)
    guest = QuantumPart(3, 2, "guest", False, 400_000, 0, None)
    return [
        QuantumRecord(1, 0, S, 0, 1, 2, 0, (first,)),
        QuantumRecord(2, S, 2 * S, 1, 2, 2, 1, (row, partner)),
        QuantumRecord(3, 2 * S, 3 * S, 0, 3, 1, 0, (guest,)),
    ]


def test_the_figures_of_time_sharing() -> None:
    found = figures_of(shared_jobs(), quanta(), MACHINE, S)
    finished = found.pop("finished")
    assert {key: found[key] for key in list(found)[:10]} == {
        "quantum_s": 1.0,
        "quanta": 3,
        "quanta_paired": 1,
        "slots_used": round(5 / 6, 6),
        "cpu_used": round(2.1 / 6, 6),
        "cpu_utilisation": round(2.1 / 8, 6),
        "mean_jobs": round((4 + 2 + 1) / 4, 6),
        "max_jobs": 3,
        "jobs_at_last_submission": 3,
        "drain_s": 2.0,
    }
    # Job 3 has used no time: its slowdowns are not defined, its bounded ones neither.
    assert finished["slowdown_cpu"]["count"] == 2
    assert finished["slowdown_cpu"]["mean"] == (4 / 0.8 + 2 / 0.5) / 2
    assert finished["slowdown_dispatched"]["mean"] == 2.0
    assert finished["bounded_slowdown_10s_cpu"]["mean"] == 1.0
    json.dumps(found, allow_nan=False)
    empty = figures_of([], [], MACHINE, S)
    assert (empty["slots_used"], empty["drain_s"], empty["max_jobs"]) == (None, None, 0)


def test_a_thread_counts_once_where_jobs_take_turns() -> None:
    jobs, stays = job_columns(shared_jobs()), stay_columns(shared_jobs())
    machine = summarise(shared_jobs(), MACHINE)["machine"]
    assert machine["utilisation"] == machine["node_utilisation"] == 1.0
    in_use = threads_in_use(stays, 2, 1)
    assert (in_use.times_us.tolist(), in_use.values.tolist()) == ([0, 4 * S], [2, 0])
    present = jobs_in_system(jobs)
    assert list(zip(present.times_us.tolist(), present.values.tolist(), strict=True)) == [
        (0, 1), (S, 2), (2 * S, 3), (3 * S, 1), (4 * S, 0),
    ]  # fmt: skip
    two = (NodeClass(1, 1, 1, 2, 100, 0, 0, 0),)
    halves = [
        record(1, 0, stays=(stay(0, 4, run_on(0, 1, 0b01, 1)),), work_s=1)._replace(cpu_us=1, dispatched_us=1),
        record(2, 0, stays=(stay(0, 2, run_on(0, 1, 0b11, 2)),), work_s=1)._replace(cpu_us=1, dispatched_us=1),
    ]
    assert summarise(halves, two)["machine"]["utilisation"] == 0.75


def test_files_and_memory_hold_the_same(tmp_path: Path) -> None:
    records = shared_jobs()
    summary = summarise(records, MACHINE)
    summary[TIME_SHARING] = figures_of(records, quanta(), MACHINE, S)
    out = write_run(
        tmp_path / "run", records, MACHINE, summary=summary, resolved_config={}, workload=workload_of(records), timing={},
        quanta=quanta(),
    )  # fmt: skip
    assert (out / "quanta.csv").read_text().splitlines() == [
        "quantum,start_s,length_s,turn,jobs,job_id,slot,role,paired,allowed_s,cpu_s,share_ppm",
        "1,0,1,0,1,1,0,row,0,1,0.9,450000",
        "2,1,1,1,2,2,1,row,1,1,0.5,500000",
        "2,1,1,1,2,1,0,partner,1,1,0.7,350000",
        "3,2,1,0,3,3,2,guest,0,0.4,0,",
    ]
    found, expected = read_quanta(out), quanta_columns(quanta())
    assert found is not None
    for name in (
        "quantum",
        "start_us",
        "end_us",
        "turn",
        "jobs",
        "job_id",
        "slot",
        "paired",
        "allowed_us",
        "consumed_us",
    ):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    assert list(found.role) == list(expected.role) == ["row", "row", "partner", "guest"]
    assert found.share_ppm.tolist() == [450_000, 500_000, 350_000, NOT_MEASURED]
    stored, made = read_run(out).jobs, job_columns(records)
    assert stored.cpu_us is not None
    assert made.cpu_us is not None
    assert stored.cpu_us.tolist() == made.cpu_us.tolist() == [800_000, 500_000, 0]
    assert stored.dispatched_us is not None
    assert stored.dispatched_us.tolist() == [2 * S, S, 0]
    damaged = (out / "quanta.csv").read_text().replace("guest", "ghost")
    (out / "quanta.csv").write_text(damaged)
    with pytest.raises(InputError, match=r"quanta.csv:5: field 'role': expected one of row, partner, guest"):
        read_quanta(out)


def test_boxes_of_quanta() -> None:
    jobs, stays = job_columns(shared_jobs()), stay_columns(shared_jobs())
    boxes = turn_boxes(quanta_columns(quanta()), jobs, stays, 0, 3 * S)
    assert boxes == [
        TurnBox(0, S, 0, 2, 1, 0),  # both nodes in one box
        TurnBox(S, 2 * S, 0, 0.5, 2, 1),
        TurnBox(S, 2 * S, 0.5, 2, 1, 0),
        TurnBox(2 * S, 2_400_000, 1, 2, 3, 2),
    ]
    cut = turn_boxes(quanta_columns(quanta()), jobs, stays, 500_000, S)
    assert cut == [TurnBox(500_000, S, 0, 2, 1, 0)]


def test_a_run_is_the_same_in_memory_and_in_its_folder(tmp_path: Path) -> None:
    scenario = {
        "cluster": {"nodes": 8},
        "workload": {"lublin": 25, "run_factor": 0.01, "load": 0.9},
        "time_sharing": {},
    }
    kept = simulate(scenario, f"{GANG}:Gang")
    kept.write(tmp_path / "kept")
    streamed = simulate(scenario, f"{GANG}:Gang", out=tmp_path / "streamed")
    for file in (tmp_path / "kept").iterdir():
        if file.name != "timing.json":
            assert file.read_bytes() == (tmp_path / "streamed" / file.name).read_bytes(), file.name
    assert kept.quanta is not None
    assert streamed.quanta is not None
    assert kept.quanta.share_ppm.tolist() == streamed.quanta.share_ppm.tolist()
    figures = kept.summary[TIME_SHARING]
    assert 0 < figures["cpu_used"] < figures["slots_used"] <= 1
    assert figures["quanta"] == np.unique(kept.quanta.start_us).size
    assert kept.summary["machine"]["utilisation"] <= 1
    alone = simulate(scenario, "easy")
    assert alone.quanta is None
    assert alone.summary[TIME_SHARING]["slots_used"] is None


def test_pictures_of_time_sharing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    scenario = {"cluster": {"nodes": 4}, "workload": {"lublin": 6, "run_factor": 0.01}, "time_sharing": {}}
    run, plain = tmp_path / "gang", tmp_path / "easy"
    simulate(scenario, f"{GANG}:Gang", out=run)
    simulate(scenario, "easy", out=plain)

    def drawn(kind: str, *folders: Path) -> tuple[int, str]:
        out = tmp_path / f"{kind}.png"
        result = CliRunner().invoke(plot, [*map(str, folders), "--kind", kind, "--out", str(out)])
        return result.exit_code, result.output

    assert drawn("quanta", run) == (0, f"picture: {tmp_path / 'quanta.png'}\n")
    code, text = drawn("quanta", plain)
    assert code == 2
    assert "has no quanta: its jobs do not take turns" in text
    monkeypatch.setattr(pictures, "MOST_BOXES", 2)
    with pytest.raises(EmulatorError, match=r"boxes are too many for one picture \(at most 2\)"):
        CliRunner().invoke(
            plot, [str(run), "--kind", "quanta", "--out", str(tmp_path / "x.png")], catch_exceptions=False
        )
