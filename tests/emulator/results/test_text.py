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
from tests.emulator.parts import VERBATIM
from tests.emulator.results.samples import SHAPES, TWO_NODES, UNEQUAL_NODES, lines_of, record, six_jobs, stay
from tests.runs import run_on

from cosched_emulator.results.figures.metrics import summarise
from cosched_emulator.results.files.job_rows import JOB_COLUMNS, METADATA
from cosched_emulator.results.files.run_reader import read_owners
from cosched_emulator.results.record_columns import RecordColumns, job_columns
from cosched_emulator.results.thread_intervals import ThreadNumbering, interval_text, mask_intervals
from cosched_emulator.workload.job import Terms
from cosched_emulator.workload.swf.swf_reader import load_swf
from cosched_hwmodel.text_formats import encoded
from cosched_hwmodel.units import parse_seconds, seconds_text
from cosched_plugin.protocol.messages import CANCELLED, Run

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
    ("runs", "text"),
    [
        (((0, 1, 0b1111, 4),), "0-3"),
        (((0, 2, 0b1111, 4),), "0-7"),  # whole nodes merge
        (((0, 2, 0b1111, 4), (2, 1, 0b11, 2)), "0-9"),
        (((0, 3, 0b01, 1),), "0 4 8"),
        (((0, 1, 0b1000, 1), (1, 1, 0b0011, 2)), "3-5"),  # neighbours over a node's edge merge
        (((1, 1, 0b1011, 3),), "4-5 7"),
        (((2, 1, 0b11, 2), (0, 1, 0b10, 1)), "1 8-9"),  # ascending whatever the order of runs
        (((0, 3, 0b11, 2),), "0-1 4-5 8-9"),  # whole node 2, half of nodes 0 and 1
    ],
)
def test_interval_strings_of_allocations(runs: tuple[Run, ...], text: str) -> None:
    assert ThreadNumbering(UNEQUAL_NODES).text(runs) == text


def test_masks_may_be_wider_than_a_machine_word() -> None:
    assert mask_intervals((1 << 200) | (0b111 << 63)) == ((63, 65), (200, 200))


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


def test_a_job_that_is_cancelled_while_it_waits_again_has_no_start() -> None:
    """Its rows had the start before the requeue: no execution time led from there to its end, and schedule.swf ended it early."""
    lost = stay(5, 20, run_on(0, 1, 0b11, 2))
    cancelled = record(1, 0, CANCELLED, 60, (lost,), 15, 100, processes=2)
    unfinished = record(2, 0, "PENDING", None, (lost, stay(30, 40, run_on(0, 1, 0b11, 2))), 10, 100)._replace(
        end_us=None
    )
    records = [cancelled, unfinished]
    first, second = [line.rstrip("\n").split(",") for line in lines_of("jobs.csv", records)[1:]]
    assert first[7:14] == ["COMPLETED_KILLED", "", "", "60", "", "60", ""]
    assert first[16] == "state=CANCELLED;run_s=100;starts=1"
    assert second[7:14] == ["SUBMITTED", "", "", "", "", "", ""]
    assert second[16] == "state=PENDING;run_s=100;starts=2"
    swf = [line.split()[:5] for line in lines_of("schedule.swf", records) if not line.startswith(";")]
    assert swf == [["1", "0", "60", "-1", "-1"], ["2", "0", "-1", "-1", "-1"]]
    assert len(lines_of("allocations.csv", records)) == 1 + 3  # where they were before stays on record
    summary = summarise(records, TWO_NODES)
    assert (summary["ran"], summary["states"]["CANCELLED"], summary["all"]["wait_s"]["count"]) == (0, 1, 0)


def test_equal_ends_are_ordered_by_the_numeric_id() -> None:
    jobs = [record(number, 0, stays=(stay(0, 5, run_on(0, 1, 1, 1)),), work_s=5) for number in (10, 9, 2)]
    rows = lines_of("jobs.csv", jobs)[1:]
    assert [row.split(",")[0] for row in rows] == ["2", "9", "10"]


# ---------------------------------------------------------------- allocations.csv, schedule.swf


def test_allocations_csv_of_the_example() -> None:
    wide = record(7, 60, stays=(stay(106, 106.5, run_on(0, 1, 3, 2), run_on(1, 1, 1, 1)),), work_s=0.5)
    assert "".join(lines_of("allocations.csv", [wide, *six_jobs()[::-1]])) == (
        "job_id,interval,start_s,end_s,first_node,node_count,thread_mask,processes_per_node\n"
        "1,0,0,100,0,1,0xf,4\n"
        "2,0,20,60,1,1,0x3,2\n"
        "3,0,30,50,1,1,0xc,2\n"
        "4,0,60,70,1,1,0x1,1\n"
        "4,1,100,106,0,1,0x2,1\n"
        "7,0,106,106.5,0,1,0x3,2\n"
        "7,0,106,106.5,1,1,0x1,1\n"
    )


def test_schedule_swf_of_the_example() -> None:
    text = "".join(lines_of("schedule.swf", six_jobs()))
    rows = [line for line in text.splitlines() if not line.startswith(";")]
    assert rows == [
        "1 0 0 100 4 -1 -1 4 200 -1 1 -1 -1 -1 -1 -1 -1 -1",
        "2 10 10 40 2 -1 -1 2 64 -1 1 -1 -1 -1 -1 -1 -1 -1",
        "3 20 10 20 2 -1 -1 2 64 -1 0 -1 -1 -1 -1 -1 -1 -1",
        "4 30 70 6 1 -1 -1 1 8 -1 1 -1 -1 -1 -1 -1 -1 -1",
        "5 40 20 -1 -1 -1 -1 1 20 -1 5 -1 -1 -1 -1 -1 -1 -1",
        "6 50 0 -1 -1 -1 -1 1 20 -1 5 -1 -1 -1 -1 -1 -1 -1",
    ]
    assert "; MaxProcs: 8\n" in text
    assert "; MaxNodes: 2\n" in text


def test_schedule_swf_rounds_up_without_making_jobs_overlap() -> None:
    first = record(1, 0.1, stays=(stay(0.2, 5.3, run_on(0, 1, 1, 1)),), work_s=5)
    second = record(2, 0.3, stays=(stay(5.3, 7.9, run_on(0, 1, 1, 1)),), work_s=2)
    rows = [line.split() for line in lines_of("schedule.swf", [first, second]) if not line.startswith(";")]
    assert [row[1:4] for row in rows] == [["1", "0", "5"], ["1", "5", "2"]]


def test_schedule_swf_reads_as_a_log(tmp_path: Path) -> None:
    file = tmp_path / "schedule.swf"
    file.write_text("".join(lines_of("schedule.swf", six_jobs())))
    trace = load_swf(file, VERBATIM)
    assert [(job.source_id, job.run_us // 1_000_000) for job in trace.workload.jobs] == [
        (1, 100),
        (2, 40),
        (3, 20),
        (4, 6),
    ]
    assert trace.workload.processors == 8
