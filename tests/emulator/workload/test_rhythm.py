"""The weekly rhythm and the users of a workload, against numbers worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cosched_emulator.cli.workload import workload as group
from cosched_emulator.workload.description import describe, rhythm_lines, rhythm_of
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.lublin import generate
from cosched_emulator.workload.swf.swf_reader import read_swf
from cosched_terminal.tables import VIEW, View

HOUR, DAY = 3_600, 86_400
# 2 January 2000, 23:00 UTC, is a Sunday. In the zone of the log it is 0:00 of Monday 3 January.
START = "; UnixStartTime: 946854000\n; TimeZone: 3600\n; MaxProcs: 8\n"
ROW = "{} {} -1 {} {} -1 -1 {} {} -1 1 {} 1 1 -1 -1 -1 -1\n"
# Submission, run time, processors, user: work 100, 300, 200, 400 of 1000.
JOBS = ((2 * HOUR, 100, 1, 1), (3 * HOUR - 1, 100, 3, 1), (DAY + 2 * HOUR, 200, 1, 2), (8 * DAY + 5 * HOUR, 200, 2, 3))


def log_of(tmp_path: Path, header: str, jobs: tuple[tuple[int, int, int, int], ...] = JOBS) -> Path:
    file = tmp_path / "log.swf"
    rows = [ROW.format(n, at, run, size, size, 2 * run, user) for n, (at, run, size, user) in enumerate(jobs, 1)]
    file.write_text(header + "".join(rows))
    return file


def test_the_hours_of_a_model_are_those_of_its_days() -> None:
    model = generate(3_000, 64)
    found = describe(model).rhythm
    assert found.counted_from == "first midnight"
    busiest = max(range(24), key=found.hour_jobs.__getitem__)
    assert 9 <= busiest <= 17
    assert sum(found.hour_jobs[2:6]) < 0.1  # the valley before dawn
    assert rhythm_lines(found)[2].split()[3:5] != []
    token = VIEW.set(View(width=60))  # days stand below hours
    narrow = rhythm_lines(found)
    VIEW.reset(token)
    assert len(narrow) > len(rhythm_lines(found)) + 7
    assert max(map(len, narrow[1:])) <= 60
    assert rhythm_of(columns_of(model.jobs), None).counted_from == "first submission"


def test_the_command_prints_loads_rhythm_and_users(tmp_path: Path) -> None:
    jobs = (*JOBS[:3], (8 * DAY + 5 * HOUR, 5_000, 2, 3))
    file = log_of(tmp_path, START, jobs)
    file.write_text(file.read_text().replace(" 10000 -1 1 3", " 200 -1 1 3"))  # cut from 5000 s to 200 s
    output = json.loads(CliRunner().invoke(group, ["describe", str(file), "--json"]).output)
    span_s = 8 * DAY + 3 * HOUR
    assert output["offered_load"] == pytest.approx(1_000 / (8 * span_s))
    assert output["offered_load_logged"] == pytest.approx(10_600 / (8 * span_s))
    assert output["rhythm"]["counted_from"] == "Monday"
    assert output["rhythm"]["day_jobs"] == [0.5, 0.5, 0, 0, 0, 0, 0]
    assert len(output["rhythm"]["hour_work"]) == 24
    assert output["user_shares"]["jobs"] == [0.5, 1, 1]
    text = CliRunner().invoke(group, ["describe", str(file), "--processors", "1"]).output
    assert f"offered load  {1_000 / span_s:.3f} as run, {10_600 / span_s:.3f} as logged" in text
    logged = json.loads(CliRunner().invoke(group, ["describe", str(file), "--json", "--as-logged"]).output)
    assert logged["offered_load"] == logged["offered_load_logged"] == output["offered_load_logged"]


def test_a_zone_that_is_named_says_the_hours_as_well(tmp_path: Path) -> None:
    """Kolkata is 5.5 hours ahead of UTC; a zone of which this machine has no table is told, and hours count from the first job."""
    named = log_of(tmp_path, START.replace("TimeZone: 3600", "TimeZoneString: Asia/Kolkata"))
    log = read_swf(named)
    assert log.epoch.offset_s == 19_800
    assert describe(log).rhythm == describe(read_swf(log_of(tmp_path, START.replace("3600", "19800")))).rhythm
    unknown = read_swf(log_of(tmp_path, START.replace("TimeZone: 3600", "TimeZoneString: Nowhere/Land")))
    assert describe(unknown).rhythm.counted_from == "first submission"
    assert any("does not know the time zone Nowhere/Land" in note for note in unknown.notes)


def test_a_real_log_is_idle_at_night_and_at_weekends(traces: Path) -> None:
    file = traces / "CTC-SP2-1996-3.1-cln.swf.gz"
    if not file.exists():
        pytest.skip(f"no {file}")
    found = describe(read_swf(file))
    assert min(found.rhythm.day_jobs[:5]) > 0.14
    assert max(found.rhythm.day_jobs[5:]) < 0.1
    assert max(range(24), key=found.rhythm.hour_jobs.__getitem__) == 11
    assert found.user_shares is not None
    assert found.user_shares.work == pytest.approx((0.154, 0.321, 0.436), abs=0.0006)
