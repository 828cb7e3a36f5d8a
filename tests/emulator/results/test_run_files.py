"""Results that are written during the run: the same bytes, little memory, and no files left after a failure."""

from __future__ import annotations

import random
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.emulator.results.samples import UNEQUAL_NODES, lines_of, record, records_on_unequal_nodes, stay
from tests.properties import drawn
from tests.runs import run_on

from cosched_emulator import prepare
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.errors import InputError
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results import record_columns as row_buffer
from cosched_emulator.results.ended_jobs import ended_jobs
from cosched_emulator.results.files.run_files import RunFiles
from cosched_emulator.results.files.run_folder import new_run_folder
from cosched_emulator.results.record_columns import ColumnBuilder, RowBuffer
from cosched_emulator.run.run import run, store
from cosched_plugin.config import choose

BUSY = {"seed": 3, "cluster": {"nodes": 16}, "workload": {"lublin": 300, "aarr": 8.83, "lublin_size": "nodes"}}


def test_jobs_that_never_end_are_listed_last(tmp_path: Path) -> None:
    short_of_nodes = {**BUSY, "script": [{"at_s": 20_000, "do": "fail-node", "node": 0}]}
    prepared, choice = prepare(short_of_nodes), choose("easy")
    waiting = [item.job.spec.id for item in run(prepared, DirectLink(choice.scheduler)).records if item.end_us is None]
    with RunFiles(tmp_path / "run", prepared.nodes) as files:
        finished = run(prepared, DirectLink(choice.scheduler), files=files)
        store(finished, str(tmp_path / "run"), policy={}, link="direct", force=False, files=files)
    assert finished.unfinished == waiting
    assert 1 < len(waiting) < 300
    rows = [line.split(",") for line in (tmp_path / "run" / "jobs.csv").read_text().splitlines()[1:]]
    assert len(rows) == len(finished.jobs) == 300
    assert [int(row[0]) for row in rows if row[7] == "SUBMITTED"] == waiting
    assert [int(row[0]) for row in rows[-len(waiting) :]] == waiting


@drawn(records_on_unequal_nodes(), st.randoms(), few=20, many=60)
def test_the_order_of_jobs_that_end_together_does_not_matter(records: list[JobRecord], chance: random.Random) -> None:
    shuffled = chance.sample(records, len(records))
    for name in ("jobs.csv", "allocations.csv", "schedule.swf"):
        assert lines_of(name, shuffled, UNEQUAL_NODES) == lines_of(name, records, UNEQUAL_NODES)


def test_a_full_disk_is_an_error_that_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: open("/dev/full", "wb"))  # noqa: SIM115

    def fill() -> None:
        with RunFiles(tmp_path / "run", UNEQUAL_NODES) as files:
            files.add(ended_jobs([record(n, 0, stays=(stay(0, n, run_on(0, 1, 1, 1)),)) for n in range(10_000)]))

    with pytest.raises(InputError, match="folder that can be written, got No space left on device"):
        fill()


def test_unwritable_temporary_files_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    with pytest.raises(InputError, match="Permission denied"):
        RunFiles(tmp_path / "run", UNEQUAL_NODES)


# ---------------------------------------------------------------- columns that grow


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 32, 33, 100])
def test_columns_grow_beyond_a_block(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "_WAITING", 4)
    monkeypatch.setattr(row_buffer, "_BLOCK", 8)
    columns = RowBuffer({"number": np.int64, "flag": np.bool_, "small": np.uint32})
    for row in range(rows):
        columns.add((row - 3, row % 2 == 0, row))
    assert len(columns) == rows
    assert columns.column("number").tolist() == [row - 3 for row in range(rows)]
    assert columns.column("flag").tolist() == [row % 2 == 0 for row in range(rows)]
    found = columns.drain(np.arange(rows)[::-1])
    assert found["small"].tolist() == list(range(rows))[::-1]
    assert found["small"].dtype == np.uint32
    assert len(columns) == 0
    columns.add((5, True, 6))
    assert columns.column("number").tolist() == [5]


@pytest.mark.slow  # tracemalloc makes it take six seconds; scripts/bench.py measures the memory of whole runs
def test_a_finished_job_takes_little_memory(tmp_path: Path) -> None:
    with RunFiles(tmp_path / "run", UNEQUAL_NODES) as files:
        builder = ColumnBuilder()

        def add(first: int, last: int) -> None:
            for number in range(first, last, 100):
                alike = [(n, (stay(n, n + 1, run_on(0, 1, 1, 1)),)) for n in range(number, number + 100)]
                some = ended_jobs([record(n, n, stays=stays, work_s=1) for n, stays in alike])
                builder.add(some)
                files.add(some)

        add(0, 5_000)
        tracemalloc.start()
        try:
            add(5_000, 35_000)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held / 30_000 < 100  # rows that are not in blocks yet; tracemalloc does not count blocks
    with new_run_folder(tmp_path / "run") as folder:
        assert list(folder.iterdir()) == []
