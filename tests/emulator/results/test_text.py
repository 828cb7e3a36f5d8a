"""Decimals of seconds, interval strings, and the rows of the files of a run."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.emulator.results.samples import SHAPES, UNEQUAL_NODES, lines_of, record, six_jobs, stay
from tests.runs import run_on

from cosched_emulator.results.files.job_rows import JOB_COLUMNS, METADATA
from cosched_emulator.results.files.run_reader import read_owners
from cosched_emulator.results.record_columns import RecordColumns, job_columns
from cosched_emulator.results.thread_intervals import ThreadNumbering, interval_text, mask_intervals
from cosched_emulator.workload.job import Terms
from cosched_hwmodel.text_formats import encoded
from cosched_hwmodel.units import parse_seconds, seconds_text
from cosched_plugin.protocol.messages import Run

BATSIM_HEADER = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
    "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,consumed_energy,"
    "metadata"
)

# ---------------------------------------------------------------- seconds


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0"), (1, "0.000001"), (12_500_000, "12.5"), (3_000_000, "3"), (1_000_010, "1.00001"), (-500_000, "-0.5"),
     (9_007_199_254_740_993, "9007199254.740993")],
)  # fmt: skip
def test_seconds_are_exact_and_short(us: int, text: str) -> None:
    assert seconds_text(us) == text
    assert parse_seconds(text) == us


@given(st.integers(-(2**62), 2**62))
@example(-1)
def test_seconds_are_read_back_as_written(us: int) -> None:
    assert parse_seconds(seconds_text(us)) == us
    assert Decimal(seconds_text(us)) == Decimal(us) / 1_000_000


@pytest.mark.parametrize(
    "text", ["", "-", ".5", "1.", "1.0000001", "1e3", "nan", " 1", "+1", "1,5", "--1", "\N{ARABIC-INDIC DIGIT ONE}"]
)
def test_malformed_seconds_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a decimal"):
        parse_seconds(text)


# ---------------------------------------------------------------- interval strings


@pytest.mark.parametrize(
    "runs",
    [((2, 1, 0b100, 1),), ((0, 3, 0b1111, 4),), ((2, 2, 1, 1),), ((-1, 1, 1, 1),), ((0, 1, 0, 1),), ((0, 0, 1, 1),)],
)
def test_threads_beyond_the_machine_are_an_error(runs: tuple[Run, ...]) -> None:
    with pytest.raises(ValueError, match="thread"):
        ThreadNumbering(UNEQUAL_NODES).text(runs)


@given(st.sets(st.integers(0, 300)))
def test_a_mask_becomes_the_fewest_intervals_of_its_bits(bits: set[int]) -> None:
    intervals = mask_intervals(sum(1 << bit for bit in bits))
    assert {bit for low, high in intervals for bit in range(low, high + 1)} == bits
    assert all(second[0] > first[1] + 1 for first, second in pairwise(intervals))
    # Batsim's form: a single value, or first-last, separated by one space.
    read = set()
    for part in interval_text(intervals).split():
        first, _, last = part.partition("-")
        assert last != first
        read |= set(range(int(first), int(last or first) + 1))
    assert read == bits


@pytest.mark.parametrize("runs", SHAPES)
def test_the_string_names_the_threads_of_the_masks(runs: tuple[Run, ...]) -> None:
    first_thread = [0, 4, 8]
    threads = {
        first_thread[node] + bit
        for first, count, mask, _ in runs
        for node in range(first, first + count)
        for bit in range(4)
        if mask >> bit & 1
    }
    numbering = ThreadNumbering(UNEQUAL_NODES)
    assert (numbering.nodes, numbering.threads) == (3, 10)
    read = set()
    for part in numbering.text(runs).split(" "):
        low, _, high = part.partition("-")
        read |= set(range(int(low), int(high or low) + 1))
    assert read == threads


# ---------------------------------------------------------------- jobs.csv


def test_jobs_csv_of_the_example() -> None:
    lines = lines_of("jobs.csv", six_jobs())
    assert lines == [
        BATSIM_HEADER + "\n",
        "3,w0,3,20,2,64,0,COMPLETED_WALLTIME_REACHED,30,20,50,10,30,1.5,6-7,-1,"
        "state=TIMEOUT;run_s=32;work_s=16;expected_s=32;limit_s=20\n",
        "6,w0,6,50,1,20,0,REJECTED,,,,,,,,-1,state=REJECTED;run_s=10;end_s=50;reason=too large\n",
        "2,w0,cg%2CB,10,2,64,1,COMPLETED_SUCCESSFULLY,20,40,60,10,50,1.25,4-5,-1,"
        "state=COMPLETED;run_s=32;work_s=32;expected_s=32\n",
        "5,w0,5,40,1,20,0,COMPLETED_KILLED,,,60,,20,,,-1,"
        "state=CANCELLED;run_s=10;reason=user%3B changed%2C mind\n",
        "1,w0,1,0,4,200,1,COMPLETED_SUCCESSFULLY,0,100,100,0,100,1,0-3,-1,"
        "state=COMPLETED;run_s=100;work_s=100;expected_s=100;user=ada\n",
        "4,w0,4,30,1,8,1,COMPLETED_SUCCESSFULLY,100,6,106,70,76,12.666667,1,-1,"
        "state=COMPLETED;run_s=4;work_s=4;expected_s=4;starts=2\n",
    ]  # fmt: skip


def test_every_key_of_metadata_has_a_meaning() -> None:
    rows = csv.DictReader(lines_of("jobs.csv", six_jobs()))
    for row in rows:
        keys = [item.partition("=")[0] for item in row["metadata"].split(";")]
        assert keys == [key for key in METADATA if key in keys]  # in this order


@pytest.mark.parametrize("nasty", ['a,"b"\r\nc;d%=é', "=cmd|' /C calc'!A0", "\0\x1b[2J\u202e", "%41"])
def test_every_row_has_all_columns_for_any_text_of_users(nasty: str, tmp_path: Path) -> None:
    job = record(1, 0, stays=(stay(0, 1, run_on(0, 1, 1, 1)),), work_s=1, user=nasty, name=nasty, reason=nasty)
    text = "".join(lines_of("jobs.csv", [job]))
    header, row = csv.reader(io.StringIO(text, newline=""))
    assert len(row) == len(header) == len(JOB_COLUMNS)
    assert all(
        line.isprintable() and '"' not in line for line in text.splitlines()
    )  # Batsim's metadata may not have quotes
    assert not row[2].startswith("=")
    assert f"user={encoded(nasty)}" in row[-1].split(";")
    (tmp_path / "jobs.csv").write_text(text, encoding="utf-8", newline="")
    jobs = cast(RecordColumns, np.array([(1,)], dtype=[("id", np.int64)]).view(np.recarray))
    owners = read_owners(tmp_path, jobs)
    assert (owners.name[0], owners.user[0]) == (nasty, nasty)


def test_what_a_job_asks_for_stands_in_its_row_and_is_read_again(tmp_path: Path) -> None:
    job = record(1, 0, stays=(stay(0, 1, run_on(0, 1, 1, 1)),), work_s=1, user="ann")
    spec = job.job.spec._replace(resources=(("gpu:a100", 2), ("gpu", 2)), licences=(("matlab", 1),))
    asks = job._replace(job=job.job._replace(spec=spec, terms=Terms(("gpu", "all"), "high", "optics")))
    other = record(2, 0, stays=(stay(0, 1, run_on(1, 1, 1, 1)),), work_s=1)
    (tmp_path / "jobs.csv").write_text("".join(lines_of("jobs.csv", [asks, other])), encoding="utf-8", newline="")
    owners = read_owners(tmp_path, job_columns([asks, other]))
    told = {"user": "ann", "partition": "gpu,all", "qos": "high", "account": "optics", "licences": "matlab:1"}
    assert {name: fact[0] for name, fact in owners.facts.items()} == {**told, "resources": "gpu:a100:2"}
    assert {fact[1] for fact in owners.facts.values()} == {""}
    assert [owners.counted(name).tolist() for name in ("gpu", "gpu:a100", "fpga")] == [[2, 0], [2, 0], [0, 0]]


def test_jobs_that_never_ended_come_last() -> None:
    running = record(1, 0, "RUNNING", work_s=3, run_s=9)._replace(present=stay(2, 5, run_on(0, 1, 1, 1)))
    waiting = record(2, 0, "PENDING", run_s=9)
    ended = record(3, 0, stays=(stay(2, 50, run_on(0, 1, 2, 1)),), work_s=48)
    rows = [line.split(",") for line in lines_of("jobs.csv", [running, waiting, ended])][1:]
    assert [row[0] for row in rows] == ["3", "1", "2"]
    assert rows[1][7:14] == ["RUNNING", "2", "", "", "2", "", ""]
    assert rows[2][7:14] == ["SUBMITTED", "", "", "", "", "", ""]
