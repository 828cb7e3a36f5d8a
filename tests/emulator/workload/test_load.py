"""Workloads brought to an offered load: against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.reader import scenario_of_table
from cosched_emulator.scenario.scenario_jobs import build_workload
from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.scaling import offered_load, with_load
from cosched_emulator.workload.swf.swf_reader import read_swf
from cosched_plugin.protocol.messages import JobSpec

SECOND = 1_000_000


def job(job_id: int, submit_us: int, size: int, run_s: int) -> WorkloadJob:
    spec = JobSpec(job_id, submit_us, size, run_s * SECOND, None, "")
    return WorkloadJob(spec, run_s * SECOND, None, 100 + job_id)


# Work 100 + 150 + 800 = 1050 processor seconds in 50 s: a load of 1050 / (8 x 50) = 2.625 on 8 cores.
SMALL = Workload((job(1, 0, 1, 100), job(2, 10 * SECOND, 3, 50), job(3, 50 * SECOND, 4, 200)), 8, "by hand")


def submissions(workload: Workload) -> list[int]:
    return [one.spec.submit_us for one in workload.jobs]


def test_the_load_by_hand() -> None:
    assert offered_load(columns_of(SMALL.jobs), 8) == 2.625
    assert offered_load(columns_of(SMALL.jobs), 4) == 5.25


def test_gaps_by_hand() -> None:
    found = with_load(SMALL, 1.3125, 8)
    assert submissions(found) == [0, 20 * SECOND, 100 * SECOND]
    assert offered_load(columns_of(found.jobs), 8) == 1.3125
    assert found.notes == ("offered load 1.3125 instead of 2.625: gaps multiplied by 2",)
    assert [(one.run_us, one.source_id, one.spec.processes) for one in found.jobs] == [
        (one.run_us, one.source_id, one.spec.processes) for one in SMALL.jobs
    ]
    assert submissions(with_load(SMALL, 5.25, 8)) == [0, 5 * SECOND, 25 * SECOND]
    assert submissions(with_load(SMALL, 2.625, 8)) == submissions(SMALL)
    assert submissions(with_load(SMALL, 2.0, 8)) == [0, 13_125_000, 65_625_000]


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ((), "workload.load: expected jobs that are submitted one after the other, got none"),
        (SMALL.jobs[:1], "workload.load: expected .*, got 1 at one instant"),
    ],
)
def test_what_cannot_be(jobs: tuple[WorkloadJob, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{message}"):
        with_load(Workload(jobs, 8, "bad"), 0.5, 8)


def test_predictions_know_what_has_ended_at_the_load(tmp_path: Path) -> None:
    # Gaps are halved: the second job would end after the third is submitted, the third after the fourth.
    rows = [f"{job} {at_s} -1 {run_s} 1 -1 -1 1 1000 -1 1 1 1 1 -1 -1 -1 -1" for job, at_s, run_s in
            ((1, 0, 100), (2, 200, 200), (3, 500, 300), (4, 1000, 10))]  # fmt: skip
    (tmp_path / "log.swf").write_text("\n".join(["; MaxProcs: 1", *rows]) + "\n")
    table = {"workload": {"swf": str(tmp_path / "log.swf"), "estimates": "predicted"}}
    for load, seconds in ((None, [1000, 1000, 150, 250]), (1.22, [1000, 1000, 1000, 150])):
        workload = build_workload(scenario_of_table(table, {"workload": {"load": load}} if load else {}), 1)
        assert [one.spec.estimate_us // SECOND for one in workload.jobs] == seconds


def test_a_real_log(traces: Path) -> None:
    file = traces / "SDSC-SP2-1998-4.2-cln.swf.gz"
    if not file.exists():
        pytest.skip(f"no {file}")
    log = read_swf(file)
    for load in (0.6, 1.0):
        found = with_load(log, load, 128)
        assert offered_load(columns_of(found.jobs), 128) == pytest.approx(load, abs=1e-6)
    assert "instead of 0.824629: gaps multiplied by" in found.notes[-1]
