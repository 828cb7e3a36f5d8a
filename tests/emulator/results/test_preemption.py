"""Jobs that were suspended to disk, in every file and figure of a run."""

from __future__ import annotations

import json
from csv import DictReader
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
    stay,
    workload_of,
    write_run,
)
from tests.runs import run_on

from cosched_emulator.errors import InputError
from cosched_emulator.manager.record import JobRecord, OnDisk
from cosched_emulator.results.figures.comparison import FIGURES, compare
from cosched_emulator.results.figures.gantt import plot_gantt
from cosched_emulator.results.figures.metrics import summarise, summarise_columns
from cosched_emulator.results.figures.occupancy import jobs_waiting, nodes_held, swap_taken, threads_held
from cosched_emulator.results.figures.plot import plot_load
from cosched_emulator.results.figures.plot_over_time import job_outlines, shared_boxes
from cosched_emulator.results.files.run_files import PREEMPTED
from cosched_emulator.results.files.run_reader import read_run
from cosched_emulator.results.record_columns import job_columns, stay_columns


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


def steps(found: Any) -> list[tuple[float, int]]:
    """Return the changes only, as (seconds, value)."""
    kept: list[tuple[float, int]] = []
    for time_us, value in zip(found.times_us.tolist(), found.values.tolist(), strict=True):
        if not kept or kept[-1][1] != value:
            kept.append((time_us / SECOND, value))
    return kept


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


def test_jobs_csv() -> None:
    rows = list(DictReader(lines_of("jobs.csv", preempted_jobs())))
    shown = (
        "job_id", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time",
        "stretch", "allocated_resources",
    )  # fmt: skip
    assert [[row[name] for name in shown] for row in rows] == [
        ["2", "COMPLETED_SUCCESSFULLY", "40", "30", "70", "30", "60", "2", "0-3"],
        ["4", "COMPLETED_KILLED", "60", "40", "100", "30", "70", "1.75", "4"],
        ["1", "COMPLETED_SUCCESSFULLY", "0", "130", "130", "0", "130", "1", "0-3"],
        ["3", "COMPLETED_SUCCESSFULLY", "130", "20", "150", "110", "130", "6.5", "0"],
        ["5", "RUNNING", "90", "20", "", "50", "", "", "5"],
    ]
    assert [row["metadata"] for row in rows] == [
        "state=COMPLETED;run_s=30;work_s=30;expected_s=30",
        "state=CANCELLED;run_s=50;work_s=20;expected_s=50;preemptions=1;suspended_s=20",
        "state=COMPLETED;run_s=90;work_s=90;expected_s=90;preemptions=1;suspended_s=40;user=ada",
        "state=COMPLETED;run_s=20;work_s=20;expected_s=20;starts=2;preemptions=2;suspended_s=0",
        "state=SUSPENDED;run_s=50;work_s=20;expected_s=50;preemptions=1;suspended_s=0",
    ]


def test_allocations_csv_has_every_stay() -> None:
    rows = [line.rstrip("\n").split(",")[:4] for line in lines_of("allocations.csv", preempted_jobs())][1:]
    assert rows == [
        ["1", "0", "0", "40"], ["1", "1", "70", "130"], ["2", "0", "40", "70"], ["3", "0", "30", "40"],
        ["3", "1", "50", "60"], ["3", "2", "130", "150"], ["4", "0", "60", "80"], ["5", "0", "90", "110"],
    ]  # fmt: skip


def test_preemptions_csv() -> None:
    assert "".join(lines_of("preemptions.csv", preempted_jobs()[::-1])) == (
        "job_id,preemption,start_s,end_s,swap_mb\n"
        "1,0,40,70,2048\n"
        "3,0,40,50,1024\n"
        "3,1,60,75,1024\n"
        "4,0,80,100,1024\n"
        "5,0,110,,4096\n"
    )


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


def test_a_run_folder_has_preemptions_csv_only_with_preemptions(tmp_path: Path) -> None:
    out = write(tmp_path / "run", preempted_jobs())
    assert len((out / "preemptions.csv").read_text().splitlines()) == 1 + 5
    run = read_run(out)
    assert summarise_columns(run.jobs, run.stays, run.machine) == run.summary
    assert run.summary == summarise(preempted_jobs(), TWO_NODES)
    expected = job_columns(preempted_jobs())
    assert run.jobs.start_us.tolist() == expected.start_us.tolist()
    assert run.jobs.wall_us.tolist() == expected.wall_us.tolist()
    assert run.jobs.disk.swap_mb.tolist() == expected.disk.swap_mb.tolist()
    write(out, six_jobs(), force=True)  # a run without them leaves none of the old ones
    assert not (out / "preemptions.csv").exists()
    assert len(read_run(out).jobs.disk) == 0


def test_an_old_folder_without_swap_space_is_read(tmp_path: Path) -> None:
    out = write(tmp_path / "run", six_jobs())
    description = json.loads((out / "run.json").read_text())
    assert [item.pop("swap_mb") for item in description["machine"]] == [0]
    (out / "run.json").write_text(json.dumps(description))
    assert read_run(out).machine == TWO_NODES


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


def test_a_stay_of_length_zero_adds_nothing(tmp_path: Path) -> None:
    """Suspended to disk at the instant of its start, and resumed at once: the first stay has the start of the second."""
    wide = run_on(0, 2, 0b11, 2)
    back = stay(5, 20, wide)._replace(resumed=True)
    job = record(1, 0, stays=(stay(5, 5, wide), back), work_s=15)._replace(disk=(OnDisk(5 * SECOND, 5 * SECOND),))
    run = read_run(write(tmp_path / "run", [job]))
    columns = job_columns([job])
    assert run.jobs.nodes.tolist() == columns.nodes.tolist() == [2]
    assert run.jobs.wall_us.tolist() == columns.wall_us.tolist() == [15 * SECOND]
    assert run.summary["machine"]["node_efficiency"] == 0.75


# ---------------------------------------------------------------- over time, pictures, tables


def test_held_threads_and_pending_jobs_over_time() -> None:
    jobs, stays = job_columns(preempted_jobs()), stay_columns(preempted_jobs())
    assert steps(threads_held(stays)) == [
        (0, 4), (30, 5), (40, 4), (50, 5), (80, 4), (90, 5), (110, 4), (130, 1), (150, 0),
    ]  # fmt: skip
    assert steps(nodes_held(stays, 2).used) == [(0, 1), (30, 2), (40, 1), (50, 2), (80, 1), (90, 2), (110, 1), (150, 0)]
    # Jobs 2 to 5 wait once, job 3 again once it is requeued; at 30 s and at 40 s one starts when another is submitted.
    waiting = steps(jobs_waiting(jobs, stays))
    assert waiting == [(0, 0), (10, 1), (20, 2), (60, 1), (75, 2), (90, 1), (130, 0)]
    assert steps(swap_taken(jobs.disk)) == [
        (40, 3072), (50, 2048), (60, 3072), (70, 1024), (75, 0), (80, 1024), (100, 0), (110, 4096),
    ]  # fmt: skip


def test_boxes_of_a_picture_equal_the_stays() -> None:
    stays = stay_columns(preempted_jobs())
    boxes = sorted(shared_boxes(TWO_NODES, stays, 0, 150 * SECOND))
    outlines = sorted(job_outlines(TWO_NODES, stays, 0, 150 * SECOND))
    expected = sorted(
        [(0, 40, 0), (40, 70, 1), (70, 130, 0), (30, 40, 2), (50, 60, 2), (130, 150, 2), (60, 80, 3), (90, 110, 4)]
    )
    assert sorted((box.begin_us // SECOND, box.end_us // SECOND, box.job) for box in boxes) == expected
    assert sorted((box.begin_us // SECOND, box.end_us // SECOND, box.job) for box in outlines) == expected


@pytest.mark.parametrize("draw", [plot_gantt, plot_load])
def test_pictures_of_preempted_jobs_are_drawn(draw: Any, tmp_path: Path) -> None:
    run = read_run(write(tmp_path / "run", preempted_jobs()))
    draw(tmp_path / "run.png", run.machine, run.jobs, run.stays)
    assert (tmp_path / "run.png").stat().st_size > 5000


def test_tables_show_preemptions_only_if_there_are_any() -> None:
    optional = [figure.label for figure in FIGURES if figure.optional and figure.path[0] == "machine"]
    without, with_some = summarise(six_jobs(), TWO_NODES), summarise(preempted_jobs(), TWO_NODES)
    assert not {row.label for row in compare([without])} & set(optional)
    rows = {row.label: (row.unit, row.texts) for row in compare([without, with_some])}
    assert [rows[label] for label in optional] == [("", ("–", "5")), ("", ("–", "1.25")), ("MB", ("–", "4,096"))]  # noqa: RUF001
