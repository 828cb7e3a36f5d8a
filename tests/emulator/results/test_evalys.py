"""evalys, the analysis tool of Batsim's users, reads our ``jobs.csv``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.results.samples import lines_of, six_jobs


@pytest.mark.slow
def test_evalys_reads_and_draws_our_jobs(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # evalys and pandas give warnings
        jobset = pytest.importorskip("evalys.jobset", reason="evalys is not installed: pip install evalys")
        file = tmp_path / "jobs.csv"
        file.write_text("".join(lines_of("jobs.csv", six_jobs())), encoding="utf-8")
        jobs: Any = jobset.JobSet.from_csv(str(file))
        jobs.plot(with_details=True)
    assert len(jobs.df) == 6
    assert jobs.MaxProcs == 8
    rows = jobs.df.set_index("jobID")
    assert str(rows.allocated_resources["3"]) == "6-7"
    assert rows.waiting_time["4"] == 70
    assert rows.finish_time["2"] == rows.submission_time["2"] + rows.waiting_time["2"] + rows.execution_time["2"]
    used = jobs.utilisation
    assert used.load.max() == 8  # between 30 and 50 s, as in `test_occupancy`
