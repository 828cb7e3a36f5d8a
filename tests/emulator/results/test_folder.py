"""The run folder: written atomically, the same bytes for the same run, readable again, and read by evalys."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.emulator.results.samples import (
    TWO_NODES,
    UNEQUAL_NODES,
    lines_of,
    records_on_unequal_nodes,
    six_jobs,
    workload_of,
    write_run,
)
from tests.properties import drawn

from cosched_emulator.errors import InputError
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.compared_runs import run_names
from cosched_emulator.results.figures.metrics import Selection, summarise, summarise_columns
from cosched_emulator.results.files import run_files as run_files_module
from cosched_emulator.results.files import run_folder as folder_module
from cosched_emulator.results.files.job_rows import JOB_COLUMNS
from cosched_emulator.results.files.run_folder import check_run_folder, new_run_folder, read_summary
from cosched_emulator.results.files.run_reader import read_run
from cosched_emulator.workload.swf.swf_reader import read_swf

FILES = {"jobs.csv", "allocations.csv", "schedule.swf", "workload.swf", "summary.json", "run.json", "timing.json"}


def write(out: Path, records: list[JobRecord] | None = None, **options: Any) -> Path:
    records = six_jobs() if records is None else records
    arguments: dict[str, Any] = {
        "summary": summarise(records, TWO_NODES, Selection(1)),
        "resolved_config": {"policy": {"name": "easy"}, "seed": 7},
        "workload": workload_of(records),
        "timing": {"wall_s": 0.5},
        "seed": 7,
    }
    return write_run(out, records, TWO_NODES, **(arguments | options))


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return write(tmp_path / "run")


# ---------------------------------------------------------------- whole or not at all


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *((run_files_module, name) for name in ("job_rows", "allocation_rows", "schedule_rows", "schedule_header")),
        *((folder_module, name) for name in ("write_swf", "_timing")),
    ],
)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("defect"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, error: BaseException
) -> None:
    def fail(*_: object, **_named: object) -> None:
        raise error

    monkeypatch.setattr(module, name, fail)
    expected = InputError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        write(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("config", [{"x": float("nan")}, {"x": object()}])
def test_a_configuration_that_is_not_json_leaves_nothing_behind(tmp_path: Path, config: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match="JSON"):
        write(tmp_path / "run", resolved_config=config)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_the_run_that_was_to_be_replaced(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in run_folder.iterdir()}
    renames = []
    real_rename = os.rename

    def rename(source: Path, target: Path) -> None:
        renames.append(source)
        if len(renames) == 2:  # the old run is moved away, and the new one is about to be moved there
            raise OSError(5, "Input/output error")
        real_rename(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(InputError, match="Input/output error"):
        write(run_folder, force=True)
    assert len(renames) == 3
    assert {path.name: path.read_bytes() for path in run_folder.iterdir()} == before
    assert list(run_folder.parent.iterdir()) == [run_folder]


def test_an_existing_folder_is_refused(run_folder: Path) -> None:
    before = (run_folder / "timing.json").read_bytes()
    with pytest.raises(InputError, match="one that exists"):
        write(run_folder)
    assert (run_folder / "timing.json").read_bytes() == before


def test_force_never_removes_other_folders(tmp_path: Path) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1.tex").write_text("...")
    with pytest.raises(InputError, match="which is kept"):
        write(precious, force=True)
    file = tmp_path / "file"
    file.write_text("...")
    with pytest.raises(InputError, match="which is kept"):
        write(file, force=True)
    assert (precious / "chapter1.tex").exists()
    assert file.read_text() == "..."


@pytest.mark.parametrize("names", [[], ["jobs.csv"], ["trace.jsonl"]])
def test_the_remains_of_a_killed_run_are_removed(tmp_path: Path, names: list[str]) -> None:
    (tmp_path / "run.partial").mkdir()
    for name in names:
        (tmp_path / "run.partial" / name).write_text("half")
    write(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_of_two_runs_that_replace_a_folder_one_is_refused(run_folder: Path) -> None:
    with new_run_folder(run_folder, force=True) as folder:
        (folder / "jobs.csv").write_text("rows\n")
        with pytest.raises(InputError, match="one that another run is writing"):
            check_run_folder(run_folder, force=True)
        assert (folder / "jobs.csv").exists()
        (folder / "run.json").write_text("{}")
    assert (run_folder / "jobs.csv").read_text() == "rows\n"
    write(run_folder, force=True)


def test_force_spares_a_folder_that_only_looks_left_over(tmp_path: Path) -> None:
    (tmp_path / "run.partial").mkdir()
    (tmp_path / "run.partial" / "thesis.tex").write_text("...")
    with pytest.raises(InputError, match="which is kept"):
        write(tmp_path / "run", force=True)
    assert (tmp_path / "run.partial" / "thesis.tex").read_text() == "..."


def test_a_parent_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="folder that can be written"):
        write(tmp_path / "file" / "run")


# ---------------------------------------------------------------- reading back


def test_the_run_is_read_back(run_folder: Path) -> None:
    run = read_run(run_folder)
    assert run.machine == TWO_NODES
    assert run.selection == Selection(1)
    assert summarise_columns(run.jobs, run.stays, run.machine, run.selection) == run.summary


@drawn(records_on_unequal_nodes(), few=15, many=40)
def test_any_run_reads_back_with_the_same_figures(
    tmp_path_factory: pytest.TempPathFactory, records: list[JobRecord]
) -> None:
    summary = summarise(records, UNEQUAL_NODES, Selection(1, 1))
    out = tmp_path_factory.mktemp("runs") / "run"
    write_run(
        out, records, UNEQUAL_NODES, summary=summary, resolved_config={}, workload=workload_of(records), timing={}
    )
    run = read_run(out)
    assert summarise_columns(run.jobs, run.stays, run.machine, run.selection) == summary


def test_other_folders_are_an_error(tmp_path: Path, run_folder: Path) -> None:
    with pytest.raises(InputError, match="nothing of that name"):
        read_summary(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"without summary\.json"):
        read_summary(tmp_path)
    with pytest.raises(InputError, match="got a file"):
        read_summary(run_folder / "jobs.csv")


def damage(folder: Path, name: str, change: Callable[[str], str]) -> None:
    file = folder / name
    file.write_text(change(file.read_text()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:40], r"summary\.json:\d+: expected JSON"),
        (lambda _: "[]", r"expected a JSON object, got list"),
        (lambda text: text.replace('"format": 1', '"format": 2'), "field 'format': expected 1, got 2"),
        (lambda text: text.replace('"finished"', '"unfinished"'), "field 'finished': expected a value, got none"),
        (lambda _: "[" * 100_000, "expected JSON, got nested too deeply"),
        (lambda text: text.replace('"warmup": 1', f'"warmup": {"9" * 5_000}'), "expected JSON, got Exceeds the limit"),
        (
            lambda text: text.replace('"warmup": 1', f'"warmup": {"9" * 400}'),
            "selection.warmup: an integer of more than 1000 bits",
        ),
        (lambda text: text.replace('"warmup": 1', '"warmup": 1e999'), "selection.warmup: inf is no finite number"),
        (lambda text: text.replace('"warmup": 1', '"warmup": NaN'), "expected JSON, got NaN is no number of JSON"),
    ],
)
def test_a_damaged_summary_is_an_error(run_folder: Path, change: Callable[[str], str], message: str) -> None:
    damage(run_folder, "summary.json", change)
    with pytest.raises(InputError, match=message):
        read_summary(run_folder)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("jobs.csv", "job_id,", "id,", r"jobs\.csv:1: expected the columns job_id"),
        ("jobs.csv", "3,w0,3,20,", "3,w0,3,soon,", r"jobs\.csv:2: field 'submission_time': expected a decimal of seconds, got 'soon'"),
        ("jobs.csv", "3,w0,3,20,", "x,w0,3,20,", r"jobs\.csv:2: field 'job_id'"),
        ("jobs.csv", "3,w0,3,20,", "3,w0,3,", rf"jobs\.csv:2: expected {len(JOB_COLUMNS)} fields, got {len(JOB_COLUMNS) - 1}"),
        ("jobs.csv", "run_s=32;work_s=16", "work_s=16", r"jobs\.csv:2: field 'metadata run_s': expected .*, got none"),
        ("allocations.csv", "\n3,0,", "\n77,0,", r"allocations\.csv:4: field 'job_id': expected a job of jobs\.csv, got 77"),
        ("allocations.csv", "0xf", "0xg", r"allocations\.csv:2: field 'thread_mask'"),
        ("allocations.csv", "0xf", "0x0", r"allocations\.csv:2: field 'thread_mask'"),
        ("allocations.csv", "0,1,0xf", "1,2,0xf", r"allocations\.csv:2: field 'first_node': expected nodes below 2"),
        ("run.json", '"sockets"', '"rockets"', r"run\.json: field 'machine'"),
        ("run.json", '"sockets": ', '"sockets": 999999999', r"node classes, got \[0\]\.sockets: expected an integer in 1"),
        ("run.json", '"nodes": ', '"nodes": -', r"machine': expected node classes, got \[0\]\.nodes: expected an integer in 1"),
        ("run.json", '"machine": [', '"machine": [7, ', r"machine': expected node classes, got \[0\]: expected a map, got 7"),
        ("run.json", '"machine"', '"machines"', r"run\.json: field 'machine': expected a value, got none"),
        ("summary.json", '"warmup": 1', '"warmup": -1', "field 'selection'"),
    ],
)  # fmt: skip
def test_damaged_files_are_named_with_the_place(run_folder: Path, name: str, old: str, new: str, message: str) -> None:
    damage(run_folder, name, lambda text: text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        read_run(run_folder)


def cut_at_a_line(text: str) -> str:
    return text[: text.rindex("\n", 0, -1) + 1]


def with_a_row_twice(text: str) -> str:
    return text + text.splitlines(keepends=True)[1]


def with_a_number_beyond_64_bits(text: str) -> str:
    head, row, rest = text.split("\n", 2)
    return "\n".join((head, f"99999999999999999999{row[row.index(',') :]}", rest))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("allocations.csv", cut_at_a_line, r"allocations\.csv: expected \d+ bytes, as run\.json says, got \d+$"),
        ("jobs.csv", cut_at_a_line, r"job_id': expected a job of jobs\.csv, got|jobs\.csv: expected \d+ bytes"),
        ("jobs.csv", with_a_row_twice, r"jobs\.csv: field 'job_id': expected one row for each job, got 2 of job \d+$"),
        (
            "jobs.csv",
            with_a_number_beyond_64_bits,
            r"jobs\.csv:2: field 'job_id': expected a whole number from 0 to 2\^63 - 1",
        ),
    ],
)
def test_lost_and_added_rows_are_noticed(
    run_folder: Path, name: str, change: Callable[[str], str], message: str
) -> None:
    """Figures of a file that was cut at the end of a line would be wrong without a word."""
    damage(run_folder, name, change)
    with pytest.raises(InputError, match=message):
        read_run(run_folder)


def test_names_need_not_be_utf_8(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/n\xff"))
    folder.mkdir()
    log = folder / "log.swf"
    log.write_text("1 0 -1 10 2 -1 -1 2 20 -1 1 1 1 1 1 -1 -1 -1\n")
    workload = read_swf(str(log))
    assert workload.origin == f"{tmp_path}/n\\xff/log.swf"
    write(
        folder / "run", workload=workload._replace(jobs=workload_of(six_jobs()).jobs), resolved_config={"swf": str(log)}
    )
    assert json.loads((folder / "run" / "run.json").read_text())["config"] == {"swf": str(log)}
    assert run_names([folder / "run", tmp_path / "run"]) == ["n\\xff/run", f"{tmp_path.name}/run"]


def test_the_root_is_no_run_folder() -> None:
    with pytest.raises(InputError, match="/: expected a new folder, got the root of the file system"):
        check_run_folder("/", force=True)


@pytest.mark.parametrize("name", sorted(FILES - {"timing.json", "schedule.swf", "workload.swf"}))
def test_missing_files_are_named(run_folder: Path, name: str) -> None:
    (run_folder / name).unlink()
    with pytest.raises(InputError, match=re.escape(name)):
        read_run(run_folder)


def test_files_that_are_no_utf_8_are_an_error(run_folder: Path) -> None:
    (run_folder / "allocations.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="expected a CSV file"):
        read_run(run_folder)


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
