"""The energy of jobs in the accounts is that of the run folder."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from tests.emulator.live.shared_time import Site, scenario_of
from tests.emulator.results.samples import UNEQUAL_NODES, records_on_unequal_nodes
from tests.emulator.run.test_energy import CLUSTER, GANG, GANG_RUN, POWER

from cosched_emulator import simulate
from cosched_emulator.manager.diary import JobEnergy
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.figures.metrics import ALL_JOBS
from cosched_emulator.results.figures.run_energy import energy_of

FAILING = {"faults": {"nodes": {"mean_up_s": 4_000.0, "mean_down_s": 400.0}}, "requeue": True}


def in_accounts(path: Path) -> dict[int, float | None]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT id, energy_j FROM jobs"))


@settings(max_examples=30, deadline=None)
@given(records_on_unequal_nodes())
def test_energy_that_is_added_up_as_jobs_come_and_go_is_that_of_their_records(records: list[JobRecord]) -> None:
    meter = JobEnergy(UNEQUAL_NODES, POWER, time_shared=False)
    jobs = {record.job.spec.id: ManagedJob(record.job) for record in records}
    moments = [
        (time_us, begins, record.job.spec.id, stay)
        for record in records
        for stay in record.stays
        if stay.start_us < stay.end_us
        for begins, time_us in ((True, stay.start_us), (False, stay.end_us))
    ]
    for _, begins, job_id, stay in sorted(moments, key=lambda moment: moment[:3]):
        job = jobs[job_id]
        job.since_us, job.runs = stay.start_us, stay.runs
        if begins:
            meter.begin(job)
            meter.begin(job)  # it goes on
        else:
            job.intervals += (stay,)
            meter.end(job)
    expected = energy_of(records, UNEQUAL_NODES, POWER, ALL_JOBS).by_job
    assert {job_id: meter.take(job_id) for job_id in jobs} == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("policy", "scenario", "within"),
    [
        ("easy", {"cluster": CLUSTER, "workload": {"lublin": 40, "run_factor": 0.1}, **FAILING}, 1e-6),
        ("glts", {"cluster": {**CLUSTER, "preset": "1x4x2"}, "workload": {"lublin": 40, "run_factor": 0.1}}, 1e-6),
        (f"{GANG}:PairedGang", GANG_RUN, 0.01),
    ],
)
def test_the_accounts_have_the_energy_of_the_run(
    policy: str, scenario: dict[str, Any], within: float, tmp_path: Path
) -> None:
    run = simulate(scenario, policy, db=tmp_path / "accounts.db")
    assert run.energy is not None
    assert not run.unfinished
    assert in_accounts(tmp_path / "accounts.db") == pytest.approx(run.energy.by_job, rel=within, abs=1e-5)
    if "faults" in scenario:
        assert any(record.starts > 1 for record in run.records)


def test_without_watts_there_is_no_energy(tmp_path: Path) -> None:
    run = simulate({"cluster": {"nodes": 8}, "workload": {"lublin": 5}}, "easy", db=tmp_path / "accounts.db")
    assert in_accounts(tmp_path / "accounts.db") == dict.fromkeys([record.job.spec.id for record in run.records])


def test_a_live_manager_adds_up_energy_as_jobs_end(tmp_path: Path) -> None:
    jobs = [(0.0, 8, 6.0, 0.45), (0.0, 8, 9.0, 0.3), (2.0, 16, 4.0, 0.4)]
    scenario = scenario_of(tmp_path, jobs)
    site = Site({**scenario, "cluster": {**CLUSTER, "nodes": 16}})
    site.run_until(60)
    assert len(site.finished) == len(jobs)
    power, machine = site.prepared.power, site.prepared.nodes
    assert power is not None
    records = [change.record for change in site.finished]
    expected = energy_of(records, machine, power, ALL_JOBS, {"cpu_utilisation": 0.5}).by_job
    assert {change.record.job.spec.id: change.energy_j for change in site.finished} == pytest.approx(expected, rel=1e-6)
