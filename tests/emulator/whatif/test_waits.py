"""Waits in hours and jobs: only jobs that count, each in one group, and what the log records of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.emulator.whatif.made import asked

from cosched_emulator.whatif.measures import RESPONSES, WAITS
from cosched_emulator.whatif.waits import by_week, groups_of, size_map, summary_of, user_hours, waits_of
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.swf.swf_reader import read_swf


def test_hours_jobs_and_groups_are_those_of_the_jobs_that_count(tmp_path: Path) -> None:
    """Two windows of 80 jobs that count each; half a minute less for each job, whose runs are a second longer."""
    prepared = asked(tmp_path)
    counted, recorded_s = prepared.window_jobs - 20, np.arange(400.0)
    present = [{WAITS: [60.0] * counted, RESPONSES: [100.0] * counted} for _ in range(2)]
    candidate = [{WAITS: [30.0] * counted, RESPONSES: [71.0] * counted} for _ in range(2)]
    found = waits_of(prepared, recorded_s, dict(enumerate(candidate, 1)), dict(enumerate(present, 1)))
    assert found is not None
    assert found.rows.tolist() == [*range(10, 90), *range(110, 190)]
    assert found.recorded_s.tolist() == found.rows.tolist()
    assert found.fewer_hours * found.weeks == pytest.approx(160 * 30 / 3600)
    assert found.longer_hours * found.weeks == pytest.approx(160 / 3600)
    users = user_hours(prepared, found)
    assert sum(users.values()) == pytest.approx(-found.fewer_hours)
    assert len(users) == 5
    ((kind, groups),) = groups_of(prepared, found)
    assert (kind, sum(group.jobs for group in groups), {group.candidate for group in groups}) == ("user", 160, {0.5})
    cells = [cell for row in size_map(prepared, found) for cell in row if cell is not None]
    weeks, found_weeks = by_week(prepared, found)
    assert (weeks.tolist(), [week and week.jobs for week in found_weeks]) == ([1], [160])
    assert (sum(cell.jobs for cell in cells), {cell.present for cell in cells}) == (160, {1.0})


def test_mean_median_and_percentile_are_of_known_waits_in_minutes() -> None:
    found = summary_of(np.array([60.0, np.nan, 120.0, 600.0]))
    assert found is not None
    assert (found.jobs, found.mean, found.median, found.p95) == pytest.approx((3, 13 / 3, 2.0, 9.2))
    assert summary_of(np.array([np.nan])) is None


def test_the_waits_that_a_log_records_stay_beside_its_jobs(tmp_path: Path) -> None:
    """Also where two rows have one number, and rows are out of order; -1 is unknown."""
    rows = [(1, "5"), (2, "-1"), (4, "7.25"), (3, "0"), (4, "8")]
    lines = [f"{number} {number} {wait} 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1" for number, wait in rows]
    (tmp_path / "log.swf").write_text("; MaxProcs: 4\n" + "\n".join(lines) + "\n")
    jobs = columns_of(read_swf(tmp_path / "log.swf").jobs)
    assert [*jobs.each(jobs.source_id)] == [1, 2, 3, 4, 4]
    assert [*jobs.each(jobs.waited_us)] == [5_000_000, -1_000_000, 0, 7_250_000, 8_000_000]
