"""Jobs that were suspended to disk, in every file and figure of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.emulator.results.samples import (
    SECOND,
    TWO_NODES,
    lines_of,
    preempted_jobs,
    record,
    six_jobs,
    workload_of,
    write_run,
)

from cosched_emulator.errors import InputError
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.figures.comparison import FIGURES, compare
from cosched_emulator.results.figures.metrics import summarise
from cosched_emulator.results.files.run_files import PREEMPTED
from cosched_emulator.results.files.run_reader import read_run


def write(out: Path, records: list[JobRecord], **options: Any) -> Path:
    summary = summarise(records, TWO_NODES)
    return write_run(
        out,
        records,
        TWO_NODES,
        summary=summary,
        resolved_config={},
        workload=workload_of(records),
        timing={},
        **options,
    )


# ---------------------------------------------------------------- records


def test_figures_of_a_job_count_from_its_last_start() -> None:
    one, two, three, four, five = preempted_jobs()
    assert [item.starts for item in (one, two, three, four, five)] == [1, 1, 2, 1, 1]
    assert [len(item.last_stays) for item in (one, two, three, four, five)] == [2, 1, 1, 1, 1]
    assert [item.left_us // SECOND for item in (one, two, three, four, five)] == [130, 70, 150, 100, 110]
    assert (
        three._replace(intervals=three.intervals[:2]).left_us == 75 * SECOND
    )  # requeued while on disk, and never started again
    assert three._replace(intervals=three.intervals[:2]).last_stays == ()
    waiting = record(6, 0, "PENDING")
    assert (waiting.starts, waiting.last_stays) == (0, ())
    with pytest.raises(IndexError):
        _ = waiting.left_us


# ---------------------------------------------------------------- files


def test_allocations_csv_has_every_stay() -> None:
    rows = [line.rstrip("\n").split(",")[:4] for line in lines_of("allocations.csv", preempted_jobs())][1:]
    assert rows == [
        ["1", "0", "0", "40"], ["1", "1", "70", "130"], ["2", "0", "40", "70"], ["3", "0", "30", "40"],
        ["3", "1", "50", "60"], ["3", "2", "130", "150"], ["4", "0", "60", "80"], ["5", "0", "90", "110"],
    ]  # fmt: skip


def test_schedule_swf_goes_from_the_last_start_to_the_end() -> None:
    lines = "".join(lines_of("schedule.swf", preempted_jobs())).splitlines()
    assert f"; Note: {PREEMPTED}" in lines
    rows = [line.split() for line in lines if not line.startswith(";")]
    # job, submission, wait, run, processors, status
    assert [[*row[:5], row[10]] for row in rows] == [
        ["1", "0", "0", "130", "4", "1"],
        ["2", "10", "30", "30", "4", "1"],
        ["3", "20", "110", "20", "1", "1"],
        ["4", "30", "30", "40", "1", "5"],
        ["5", "40", "50", "-1", "1", "-1"],
    ]
    assert PREEMPTED not in "".join(lines_of("schedule.swf", six_jobs()))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("job_id,", "id,", r"preemptions\.csv:1: expected the columns job_id,preemption"),
        ("\n3,0,40", "\n9,0,40", r"preemptions\.csv:3: field 'job_id': expected a job of jobs\.csv, got 9"),
        ("40,70,2048", "soon,70,2048", r"preemptions\.csv:2: field 'start_s'"),
        ("40,70,2048", "40,late,2048", r"preemptions\.csv:2: field 'end_s'"),
        ("40,70,2048", "40,70,-1", r"preemptions\.csv:2: field 'swap_mb'"),
        ("40,70,2048", "40,70", r"preemptions\.csv:2: expected 5 fields, got 4"),
    ],
)
def test_damaged_preemptions_are_named_with_the_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    out = write(tmp_path / "run", preempted_jobs())
    text = (out / "preemptions.csv").read_text()
    assert old in text
    (out / "preemptions.csv").write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        read_run(out)


# ---------------------------------------------------------------- tables


def test_tables_show_preemptions_only_if_there_are_any() -> None:
    optional = [figure.label for figure in FIGURES if figure.optional and figure.path[0] == "machine"]
    without, with_some = summarise(six_jobs(), TWO_NODES), summarise(preempted_jobs(), TWO_NODES)
    assert not {row.label for row in compare([without])} & set(optional)
    rows = {row.label: (row.unit, row.texts) for row in compare([without, with_some])}
    assert [rows[label] for label in optional] == [("", ("–", "5")), ("", ("–", "1.25")), ("MB", ("–", "4,096"))]  # noqa: RUF001
