"""The energy of runs: by hand, against a literal sum, in files, and by the formula."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from tests.emulator.results.samples import (
    SECOND,
    UNEQUAL_NODES,
    record,
    records_on_unequal_nodes,
    stay,
    workload_of,
    write_run,
)
from tests.runs import run_on

from cosched_emulator import simulate
from cosched_emulator.cli.results import compare
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.manager.time_sharing.cpu_meter import CpuUse
from cosched_emulator.results.figures.metrics import ALL_JOBS, summarise
from cosched_emulator.results.figures.run_energy import (
    MOST,
    CpuEnergy,
    EnergyBins,
    energy_of,
    machine_power,
    run_energy,
)
from cosched_emulator.results.files.run_reader import read_power, read_run
from cosched_emulator.results.record_columns import job_columns, stay_columns
from cosched_hwmodel.energy import NodePower
from cosched_plugin.protocol.messages import NodeClass

GANG = "tests.emulator.manager.time_sharing.gangs"
POWER = (NodePower(200.0, 20.0, 20.0), NodePower(100.0, 50.0, 50.0))  # of the classes of UNEQUAL_NODES
THREADED = (NodeClass(2, 1, 2, 2, 100, 0, 0, 0),)  # threads 0 and 2 are of core 0
CLUSTER = {"nodes": 8, "idle_w": 219.1, "busy_w": 18.968}
GANG_RUN = {
    "cluster": CLUSTER,
    "workload": {"lublin": 25, "run_factor": 0.01, "load": 0.9},
    "time_sharing": {"nodes": "fluid"},
}


def two_jobs() -> list[JobRecord]:
    """Return two jobs: they share core 0 of node 0 from 10 s to 20 s; the second one has node 1 as well."""
    return [
        record(1, 0, stays=(stay(0, 20, run_on(0, 1, 0b0001, 1)),), work_s=20),
        record(2, 0, stays=(stay(10, 40, run_on(0, 1, 0b0110, 2), run_on(1, 1, 0b0001, 1)),), work_s=30, processes=3),
    ]


def test_energy_by_hand() -> None:
    energy = energy_of(two_jobs(), THREADED, (NodePower(100.0, 10.0, 10.0),), ALL_JOBS)
    # Node 0: job 1 has core 0 for 10 s, shares it for 10 s; job 2 has core 1 for 30 s, and core 0 for 20 s after job 1.
    busy = (10 + 5) * 10, (5 + 20 + 30 + 30) * 10
    idle = (10 + 5) * 100, (5 + 20 + 30) * 100
    assert energy.by_job == {1: busy[0] + idle[0], 2: busy[1] + idle[1]}
    assert {key: energy.figures[key] for key in list(energy.figures)[:7]} == {
        "total_j": 2 * 40 * 100 + sum(busy),
        "idle_j": 8000,
        "busy_j": sum(busy),
        "unheld_j": 8000 - sum(idle),
        "mean_w": 225,
        "utilisation": 100 / 160,
        "formula_j": 9000,
    }
    assert energy.figures["finished"]["energy_j"]["max"] == energy.by_job[2]
    assert energy.trace.watts[[0, 9, 10, 19, 20, 39]].tolist() == [210, 210, 230, 230, 230, 230]
    empty = energy_of([], THREADED, (NodePower(100.0, 10.0, 10.0),), ALL_JOBS)
    assert (empty.figures["total_j"], empty.figures["mean_w"], empty.by_job) == (0, None, {})
    json.dumps(empty.figures, allow_nan=False)


def literal(records: Sequence[JobRecord]) -> tuple[dict[int, float], float]:
    """Return the energy of each job, and that of all busy cores, interval by interval and core by core."""
    found = {record.job.spec.id: 0.0 for record in records}
    cores = [4, 4, 2]
    watts = [POWER[0], POWER[0], POWER[1]]
    busy_j = 0.0
    for node in range(3):
        here = [
            (found_in.start_us, found_in.end_us, run.mask, record.job.spec.id)
            for record in records
            for found_in in record.stays
            for run in found_in.runs
            if run.first <= node < run.first + run.count
        ]
        for begin_us, end_us in pairwise(sorted({time for row in here for time in row[:2]})):
            span_s = (end_us - begin_us) / SECOND
            present = [(mask, job) for start_us, stop_us, mask, job in here if start_us <= begin_us < stop_us]
            for _, job in present:
                found[job] += watts[node].idle_w * span_s / len(present)
            for core in range(cores[node]):
                on = [job for mask, job in present for thread in range(core, 8, cores[node]) if mask >> thread & 1]
                for job in on:
                    found[job] += watts[node].busy_w * span_s / len(on)
                busy_j += watts[node].busy_w * span_s * bool(on)
    return found, busy_j


@settings(max_examples=60, deadline=None)
@given(records_on_unequal_nodes())
def test_energy_is_that_of_a_literal_sum(records: list[JobRecord]) -> None:
    energy = energy_of(records, UNEQUAL_NODES, POWER, ALL_JOBS)
    expected, busy_j = literal(records)
    assert energy.by_job == pytest.approx(expected, abs=1e-3)
    figures = energy.figures
    assert figures["busy_j"] == pytest.approx(busy_j, abs=1e-3)
    assert sum(energy.by_job.values()) + figures["unheld_j"] == pytest.approx(figures["total_j"], abs=1e-2)
    span_s = (energy.trace.end_us - energy.trace.start_us) / SECOND
    assert float(energy.trace.watts @ span_s) == pytest.approx(figures["total_j"], abs=1e-2)


def test_bins_keep_what_was_added_when_they_get_longer() -> None:
    bins = EnergyBins()
    bins.add(500_000, 2 * SECOND, 30.0)
    assert bins.trace(0.0, 0, 2 * SECOND).watts.tolist() == pytest.approx([10, 20])
    bins.add(MOST * SECOND, (MOST + 3) * SECOND, 60.0)
    assert bins.width_us == 2 * SECOND
    bins.add(MOST * SECOND, MOST * SECOND, 1.0)  # of no length
    trace = bins.trace(5.0, 0, (MOST + 3) * SECOND)
    assert trace.watts[[0, 1]].tolist() == [20, 5]
    assert trace.watts[-2:].tolist() == pytest.approx([5 + 20.5, 5 + 20])
    assert trace.end_us[-1] - trace.start_us[-1] == SECOND
    assert float(trace.watts @ np.diff(np.append(trace.start_us, trace.end_us[-1]))) / SECOND == pytest.approx(
        91 + 5 * (MOST + 3)
    )


def test_a_run_without_length_has_no_power() -> None:
    assert EnergyBins().trace(5.0, SECOND // 2, SECOND // 2).watts.tolist() == []


@pytest.mark.parametrize("sharing", [{}, {"time_sharing": {"nodes": "fluid"}}])
def test_the_power_of_a_run_that_ends_long_after_its_last_busy_core(sharing: dict[str, Any], tmp_path: Path) -> None:
    """The last end is that of a job that is refused: a trace of more intervals than had been made was an IndexError."""
    rows = ["1 0 -1 100 1 -1 -1 1 100", "2 6000 -1 100 9 -1 -1 9 100"]
    log = tmp_path / "late.swf"
    log.write_text("".join(f"{row} -1 1 1 1 1 -1 -1 -1 -1\n" for row in rows), encoding="ascii")
    cluster = {"nodes": 2, "idle_w": 100.0, "busy_w": 10.0}
    run = simulate({"workload": {"swf": str(log)}, "cluster": cluster, **sharing}, "easy")
    assert run.summary["states"]["REJECTED"] == 1
    energy = run.energy
    assert energy is not None
    start_us, end_us, watts = energy.trace
    assert end_us[-1] == 6_000 * SECOND
    assert float((watts * (end_us - start_us)).sum()) / SECOND == pytest.approx(energy.figures["total_j"])


def test_files_of_a_run_with_watts(tmp_path: Path) -> None:
    records = [each._replace(job=each.job._replace(spec=each.job.spec._replace(name='a,\n"b'))) for each in two_jobs()]
    power = (NodePower(100.0, 10.0, 10.0),)
    energy = energy_of(records, THREADED, power, ALL_JOBS)
    given: dict[str, Any] = {
        "summary": {**summarise(records, THREADED), "energy": energy.figures},
        "resolved_config": {},
        "workload": workload_of(records),
        "timing": {},
    }
    out = write_run(tmp_path / "with", records, THREADED, **given, energy=energy, power=power)
    plain = write_run(tmp_path / "without", records, THREADED, **given)
    with open(out / "jobs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["consumed_energy"] for row in rows] == ["1650", "6350"]
    assert [row["profile"] for row in rows] == ["a%2C%0A%22b"] * 2
    assert (plain / "jobs.csv").read_text() == (out / "jobs.csv").read_text().replace(",1650,", ",-1,").replace(
        ",6350,", ",-1,"
    )
    assert (out / "power.csv").read_text().splitlines()[:2] == ["start_s,end_s,watts", "0,1,210.000"]
    assert not (plain / "power.csv").exists()
    assert "power" not in json.loads((plain / "run.json").read_text())
    assert json.loads((out / "run.json").read_text())["power"] == [{"idle_w": 100, "busy_w": 10, "spin_w": 10}]
    trace = read_power(out)
    assert trace is not None
    assert trace.watts.tolist() == energy.trace.watts.tolist()
    assert read_power(plain) is None
    stored = read_run(out)
    assert run_energy(stored.jobs, stored.stays, THREADED, power, ALL_JOBS).figures == energy.figures


def test_watts_change_nothing_but_the_energy(tmp_path: Path) -> None:
    for name, policy, scenario in (
        ("gang", f"{GANG}:PairedGang", GANG_RUN),
        ("easy", "easy", {**GANG_RUN, "time_sharing": None}),
    ):
        told = {key: value for key, value in scenario.items() if value is not None}
        simulate(told, policy, out=tmp_path / name)
        simulate({**told, "cluster": {"nodes": 8}}, policy, out=tmp_path / f"{name}-plain")
        for file in (tmp_path / f"{name}-plain").iterdir():
            if file.name not in ("timing.json", "run.json", "summary.json", "jobs.csv"):
                assert file.read_bytes() == (tmp_path / name / file.name).read_bytes(), file.name
        assert (tmp_path / name / "power.csv").exists()


@pytest.mark.parametrize("policy", ["Gang", "PairedGang"])
def test_the_formula_agrees_with_the_traces_of_the_nodes(policy: str) -> None:
    run = simulate(GANG_RUN, f"{GANG}:{policy}")
    energy = run.energy
    assert energy is not None
    figures = energy.figures
    assert figures["total_j"] == pytest.approx(figures["formula_j"], rel=0.01)
    assert figures["busy_j"] == pytest.approx(figures["formula_j"] - figures["idle_j"], rel=0.01)
    assert figures["busy_j"] > 0.05 * figures["idle_j"] * 18.968 / 219.1
    assert sum(energy.by_job.values()) + figures["unheld_j"] == pytest.approx(figures["total_j"])
    # Without traces of the nodes, the records of the jobs alone give the same.
    again = energy_of(
        run.finished.records,
        run.finished.prepared.nodes,
        run.finished.prepared.power or (),
        ALL_JOBS,
        run.summary["time_sharing"],
    )
    assert again.by_job == pytest.approx(energy.by_job, rel=0.01)


NAS_RUN: dict[str, Any] = {
    "cluster": {"nodes": 8, "preset": "1x1x3", "idle_w": 200.0, "busy_w": 20.0},
    "workload": {"nas": 6, "nas_classes": ["A"], "nas_sizes": [4, 8], "nas_programs": ["MG", "IS"], "gap_s": 2.0},
    "time_sharing": {"nodes": "exact", "local": "linux-epochs", "coscheduling": "nls"},
}


@pytest.mark.parametrize("policy", ["coscheduling", "gang-contiguous"])
def test_a_machine_takes_no_more_power_than_it_can(policy: str, tmp_path: Path) -> None:
    simulate(NAS_RUN, policy, out=tmp_path / "run")
    trace = read_power(tmp_path / "run")
    assert trace is not None
    assert 8 * 200 <= trace.watts.min() < trace.watts.max() <= 8 * 220.001


def test_power_is_that_of_the_quanta(tmp_path: Path) -> None:
    """Two jobs take turns; the CPU time of a quantum is in that quantum."""
    simulate({**NAS_RUN, "workload": {**NAS_RUN["workload"], "nas": 2}}, "gang-contiguous", out=tmp_path / "run")
    trace = read_power(tmp_path / "run")
    assert trace is not None
    busy_s: dict[int, float] = {}
    with (tmp_path / "run" / "quanta.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            if float(row["length_s"]) == 1:
                busy_s[int(float(row["start_s"]))] = busy_s.get(int(float(row["start_s"])), 0.0) + float(row["cpu_s"])
    watts = dict(zip((trace.start_us / SECOND).tolist(), trace.watts.tolist(), strict=True))
    assert len(busy_s) > 5
    for begin_s, used_s in busy_s.items():
        assert watts[begin_s] == pytest.approx(1_600 + 20 * used_s, abs=0.01)


def test_the_formula_does_not_tell_polling_apart() -> None:
    machine, records = (NodeClass(2, 1, 1, 3, 100, 0, 0, 0),), []
    for job_id in (1, 2):
        each = record(job_id, 0, stays=(stay(0, 100, run_on(0, 2, 1 << job_id, 1)),), work_s=50, processes=2)
        records.append(each._replace(cpu_us=50 * SECOND, dispatched_us=100 * SECOND))
    uses = [CpuUse(job, node, 0, 100 * SECOND, 50 * SECOND, 20 * SECOND) for job in (1, 2) for node in (0, 1)]
    columns = (job_columns(records), stay_columns(records))
    totals = {}
    for spin_w in (18.968, 120.0):
        power = (NodePower(219.1, 18.968, spin_w),)
        cpu = CpuEnergy(machine_power(machine, power))
        cpu.add(uses)
        totals[spin_w] = run_energy(*columns, machine, power, ALL_JOBS, cpu, 1.0).figures
    assert totals[18.968]["total_j"] == pytest.approx(totals[18.968]["formula_j"], rel=1e-9)
    assert totals[120.0]["total_j"] == pytest.approx(200 * 219.1 + 120 * 18.968 + 80 * 120)
    assert totals[120.0]["spin_j"] == pytest.approx(80 * 120)
    assert totals[120.0]["total_j"] > 1.05 * totals[120.0]["formula_j"]


def test_compare_shows_energy_where_watts_are_known(tmp_path: Path) -> None:
    scenario = {"cluster": CLUSTER, "workload": {"lublin": 20, "run_factor": 0.01}}
    for policy in ("fcfs", "easy"):
        simulate(scenario, policy, out=tmp_path / policy)
    simulate({**scenario, "cluster": {"nodes": 8}}, "easy", out=tmp_path / "plain")
    runs = [str(tmp_path / name) for name in ("fcfs", "easy")]
    shown = CliRunner().invoke(compare, runs)
    assert shown.exit_code == 0
    labels = [line.split("  ")[0] for line in shown.output.splitlines() if "energy" in line or "power" in line]
    assert labels == [
        "energy", "energy of busy cores", "energy by the formula", "energy of a job, mean", "power, mean",
    ]  # fmt: skip
    assert "energy" not in CliRunner().invoke(compare, [str(tmp_path / "plain")]).output
