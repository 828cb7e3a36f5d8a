from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.emulator.parts import VERBATIM

from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_emulator.workload.swf.swf_reader import SwfOptions, load_swf, read_swf
from cosched_emulator.workload.swf.swf_writer import write_swf
from cosched_plugin.protocol.messages import JobSpec

HEADER = "; Version: 2.2\n; MaxProcs: 64 (of 128)\n; Note: first\n; Note: second: part\n;   free text: http://x\n;\n"
SECOND = 1_000_000


def row(**fields: object) -> str:
    """Return a valid row with some fields replaced."""
    values: dict[str, object] = {
        "number": 1, "submit": 100, "wait": -1, "run": 200, "allocated": 4, "cpu": -1, "memory": -1, "requested": 4,
        "estimate": 300, "requested_memory": -1, "status": 1, "user": 7, "group": 1, "name": 9, "queue": 1,
        "partition": -1, "preceding": -1, "think": -1,
    }  # fmt: skip
    assert set(fields) <= set(values)
    return " ".join(str(value) for value in (values | fields).values()) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.swf"


def wrote(path: Path, *rows: str) -> Path:
    path.write_text(HEADER + "".join(rows))
    return path


@pytest.mark.parametrize(
    ("bad", "field", "got"),
    [
        (row(run="12x"), "run time", "'12x'"),
        (row(number="one"), "job number", "'one'"),
        (row(submit="nan"), "submit time", "'nan'"),
        (row(estimate="inf"), "requested time", "'inf'"),
        (row(allocated="1_000"), "allocated processors", "'1_000'"),
        (row(allocated="1-2"), "allocated processors", "'1-2'"),
        (row(think="x" * 500), "think time", "'" + "x" * 37 + "...'"),
        (row(cpu="abc"), "average CPU time", "'abc'"),
        (row(run="1.2.3"), "run time", "'1.2.3'"),
        (row(run="--"), "run time", "'--'"),
        (row(run="."), "run time", "'.'"),
        (row(submit=-1), "submit time", "'-1'"),
        (row(number=-1), "job number", "'-1'"),
        (row(number=1.5), "job number", "'1.5'"),
        (row(allocated=2.5), "allocated processors", "'2.5'"),
        (row(requested="0.5"), "requested processors", "'0.5'"),
        (row(user="1.5"), "user", "'1.5'"),
        (row(group="1.5"), "group", "'1.5'"),
        (row(status="1.5"), "status", "'1.5'"),
        (row(run=10**12), "run time", "'1000000000000'"),
        (row(submit="1e300"), "submit time", "'1e300'"),
        (row(estimate="9" * 400), "requested time", "'" + "9" * 37 + "...'"),
        (row(allocated=10**12), "allocated processors", "'1000000000000'"),
        (row().replace(" -1\n", "\n"), None, "17"),
        ("garbage\n", None, "1"),
        (row(run="1\0"), None, "binary data"),
        (row(run="1\u00b2"), None, "binary data"),
    ],
)
def test_a_malformed_row_is_named_by_file_line_and_field(log: Path, bad: str, field: str | None, got: str) -> None:
    good = [row(number=1), row(number=2), row(number=4)]
    wrote(log, good[0], good[1], bad, good[2])
    with pytest.raises(InputError) as caught:
        read_swf(log)
    error = caught.value
    assert (error.file, error.line, error.field, error.got) == (str(log), 9, field, got)
    assert str(error).startswith(f"{log}:9: " + (f"field '{field}': expected" if field else "expected"))
    assert "\n" not in str(error)
    assert error.exit_code == 2

    trace = load_swf(log, SwfOptions(skip_bad_rows=True))
    assert [job.source_id for job in trace.workload.jobs] == [1, 2, 4]
    assert (trace.report.rows, trace.report.bad_rows_skipped) == (4, 1)
    assert "1 rows malformed: skipped" in trace.workload.notes


@pytest.mark.parametrize("short_first", [True, False])
def test_a_short_row_is_an_error_also_beside_a_long_one(log: Path, short_first: bool) -> None:
    rows = [row().replace(" -1\n", "\n"), row().replace("\n", " -1\n")]
    wrote(log, *(rows if short_first else rows[::-1]))
    with pytest.raises(InputError, match=rf":{7 if short_first else 8}: expected 18 fields, got 17 "):
        read_swf(log)


# Up to 46 days: a double tells a nanosecond more from a whole number of seconds.
@given(whole=st.integers(0, 4_000_000), micro=st.integers(0, 999_999), below=st.integers(0, 999))
@settings(deadline=None, max_examples=60)
def test_seconds_round_up_to_microseconds_by_their_digits(
    tmp_path_factory: pytest.TempPathFactory, whole: int, micro: int, below: int
) -> None:
    path = tmp_path_factory.mktemp("swf") / "log.swf"
    wrote(path, row(submit=f"{whole}.{micro:06d}{below:03d}"))
    assert read_swf(path, VERBATIM).jobs[0].spec.submit_us == whole * SECOND + micro + (below > 0)


def test_a_packed_line_without_end_is_not_unpacked(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 7 MB can hold a line of 1.5 GB, which took three times as much memory before it was refused."""
    endless = gzip.compress(HEADER.encode() + b"1 " * 4_000_000)
    number = HEADER.count("\n") + 1
    log.write_bytes(endless)
    expected = f":{number}: expected lines of at most 1048576 bytes, got a longer one"
    with pytest.raises(InputError, match=expected):
        read_swf(log, SwfOptions(skip_bad_rows=True))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(endless)))
    with pytest.raises(InputError, match=expected):
        read_swf("-")
    monkeypatch.setattr("cosched_emulator.workload.swf.swf_table.MOST_LINES", 1_000)
    log.write_bytes(gzip.compress(b"\n" * 1_001))
    with pytest.raises(InputError, match="expected at most 1000 lines, got more"):
        read_swf(log)


def test_unreadable_files_are_input_errors(tmp_path: Path) -> None:
    packed = gzip.compress((HEADER + "".join(row(number=n, submit=n * n) for n in range(1, 500))).encode())
    cases = {
        "truncated": packed[: len(packed) // 2],
        "no_trailer": packed[:-8],
        "flipped": packed[:40] + bytes([packed[40] ^ 0xFF]) + packed[41:],
        "trailing_junk": packed + b"junk",
        "only_magic": b"\x1f\x8b",
    }
    for name, content in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"^{path}: expected a whole gzip file, got a truncated or damaged one"):
            read_swf(path, SwfOptions(skip_bad_rows=True))
    for name, content in {"bzip2": bz2.compress(packed), "xz": lzma.compress(packed)}.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(
            InputError, match=f"^{path}: expected a log as text or gzip, got one packed by {name} .unpack"
        ):
            read_swf(path, SwfOptions(skip_bad_rows=True))
    junk = tmp_path / "junk"
    junk.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(InputError, match=r"junk:1: expected a row of 18 numbers, got binary data"):
        read_swf(junk)
    with pytest.raises(InputError, match="at least one job that can run"):
        read_swf(junk, SwfOptions(skip_bad_rows=True))
    with pytest.raises(InputError, match="expected a file that can be read, got No such file"):
        read_swf(tmp_path / "missing.swf")
    with pytest.raises(InputError, match="expected a regular file, got a directory"):
        read_swf(tmp_path)
    os.mkfifo(tmp_path / "pipe")  # opening the pipe would wait for a writer
    with pytest.raises(InputError, match="expected a regular file, got a pipe"):
        read_swf(tmp_path / "pipe")


REPAIRED = [
    row(number=1, submit=1000, run=50, estimate=10),  # estimate raised to 60
    row(number=2, submit=990, run=500, estimate=300),  # run capped; out of order
    row(number=3, submit=1010, estimate=-1),  # estimate from run
    row(number=4, submit=1020, allocated=-1, requested=8),  # size from request
    row(number=5, submit=1030, run=0),  # dropped
    row(number=6, submit=1040, run=-1, allocated=0, requested=-1),  # dropped, by the first rule that applies
    row(number=7, submit=1050, allocated=0, requested=-1),  # dropped
    row(number=3, submit=1060, status=3),  # a part of number 3
    row(number=9, submit=1000, run=90, estimate=20),  # raised and then capped; out of order, equal to number 1
]


def test_every_repair_is_made_and_counted(log: Path) -> None:
    trace = load_swf(wrote(log, *REPAIRED))
    assert {name: count for name, count in trace.report.as_dict().items() if count} == {
        "rows": 9,
        "bursts_dropped": 1,
        "without_run_time_dropped": 2,
        "without_processors_dropped": 1,
        "sizes_from_request": 1,
        "estimates_from_run": 1,
        "estimates_raised": 2,
        "runs_capped": 2,
        "out_of_order": 2,
        "jobs": 5,
    }
    jobs = trace.workload.jobs
    assert [job.source_id for job in jobs] == [2, 1, 9, 3, 4]
    assert [job.spec.id for job in jobs] == [1, 2, 3, 4, 5]
    assert [job.spec.submit_us // SECOND for job in jobs] == [0, 10, 10, 20, 30]
    assert [job.spec.estimate_us // SECOND for job in jobs] == [300, 60, 60, 200, 300]
    assert [job.run_us // SECOND for job in jobs] == [300, 50, 60, 200, 200]
    assert [job.spec.processes for job in jobs] == [4, 4, 4, 4, 8]
    assert trace.workload.notes[0] == "9 rows, 5 usable jobs"
    assert len(trace.workload.notes) == 9 + 2  # eight rules, the head, the work that is lost, the new origin of time


@pytest.mark.parametrize(
    ("options", "bad", "line", "field"),
    [
        (SwfOptions(drop_empty=False), row(run=0), 8, "run time"),
        (SwfOptions(drop_empty=False), row(allocated=-1, requested=0), 8, "allocated processors"),
        (SwfOptions(drop_empty=False, size_from_request=False), row(allocated=-1), 8, "allocated processors"),
        (SwfOptions(missing_estimate="refuse"), row(estimate=-1), 8, "requested time"),
        (SwfOptions(sort=False), row(submit=99), 8, "submit time"),
    ],
)
def test_without_a_needed_repair_the_row_is_refused(
    log: Path, options: SwfOptions, bad: str, line: int, field: str
) -> None:
    wrote(log, row(number=1), bad, row(number=3))
    assert len(read_swf(log).jobs) >= 2
    with pytest.raises(InputError) as caught:
        read_swf(log, options)
    assert (caught.value.line, caught.value.field) == (line, field)
    trace = load_swf(log, replace(options, skip_bad_rows=True))
    assert [job.source_id for job in trace.workload.jobs] == [1, 3]
    assert (trace.report.bad_rows_skipped, trace.report.out_of_order) == (1, 0)


def test_options_are_checked() -> None:
    with pytest.raises(ConfigurationError, match=r"missing_estimate: expected one of .*did you mean 'drop'"):
        SwfOptions(missing_estimate="dropp")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="limits"):
        SwfOptions(limits="sometimes")  # type: ignore[arg-type]
    for seconds in (-1, float("nan")):
        with pytest.raises(ConfigurationError, match="minimum_estimate_s"):
            SwfOptions(minimum_estimate_s=seconds)


def test_the_window_counts_jobs_after_repair_in_submit_order(log: Path) -> None:
    wrote(log, *REPAIRED)
    window = read_swf(log, first=1, count=3)
    assert [job.source_id for job in window.jobs] == [1, 9, 3]
    assert [job.spec.id for job in window.jobs] == [1, 2, 3]
    assert window.jobs[0].spec.submit_us == 0
    assert "jobs 1 to 3 of them taken, counted from 0" in window.notes
    assert [job.source_id for job in read_swf(log, first=4).jobs] == [4]
    many = read_swf(log, first=3, count=10)
    assert len(many.jobs) == 2
    assert "10 jobs asked for, 2 there" in many.notes
    with pytest.raises(InputError, match=r"more than 5 jobs \(first = 5\), got 5"):
        read_swf(log, first=5)
    with pytest.raises(ConfigurationError, match="first"):
        read_swf(log, first=-1)
    with pytest.raises(ConfigurationError, match="count"):
        read_swf(log, count=0)


times = st.integers(0, 10**15)
jobs_strategy = st.lists(
    st.tuples(times, st.integers(1, 10**15), st.integers(1, 10**6), st.integers(1, 10**15), st.integers(-1, 99)),
    min_size=1,
    max_size=8,
)


@given(rows=jobs_strategy, packed=st.booleans())
@settings(deadline=None, max_examples=60)
def test_a_written_log_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int, int]], packed: bool
) -> None:
    jobs = []
    for job_id, (submit_us, run_us, size, estimate_us, user) in enumerate(sorted(rows), 1):
        text = "" if user < 0 else str(user)
        spec = JobSpec(job_id, submit_us, size, estimate_us, estimate_us, text, text)
        jobs.append(WorkloadJob(spec, run_us, None, 1000 - job_id))
    path = tmp_path_factory.mktemp("swf") / ("w.swf.gz" if packed else "w.swf")
    write_swf(path, Workload(tuple(jobs), 77, "made\nup", ("one\n; two",)))
    trace = load_swf(path, VERBATIM)
    assert trace.workload.jobs == tuple(jobs)
    assert trace.workload.processors == 77
    assert trace.header["Information"] == "made up"
    assert trace.header["Note"] == "one ; two"
    assert trace.header["MaxJobs"] == str(len(jobs))


def test_writing_to_a_stream_and_to_a_path_gives_the_same_text(log: Path, tmp_path: Path) -> None:
    workload = read_swf(wrote(log, row(), row(number=2, run="0.25")))
    stream = io.StringIO()
    write_swf(stream, workload)
    write_swf(tmp_path / "a.swf", workload)
    write_swf(tmp_path / "a.swf.gz", workload)
    write_swf(tmp_path / "b.swf.gz", workload)
    assert (tmp_path / "a.swf").read_text() == stream.getvalue()
    assert gzip.decompress((tmp_path / "a.swf.gz").read_bytes()).decode() == stream.getvalue()
    assert (tmp_path / "a.swf.gz").read_bytes() == (tmp_path / "b.swf.gz").read_bytes()
    assert (tmp_path / "a.swf").stat().st_mode & 0o777 == log.stat().st_mode & 0o777


@pytest.mark.parametrize("name", ["out.swf", "out.swf.gz"])
def test_output_is_complete_or_absent(tmp_path: Path, log: Path, name: str) -> None:
    workload = read_swf(wrote(log, row()))
    broken = workload._replace(jobs=(*list(workload.jobs) * 5000, None))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        write_swf(tmp_path / name, broken)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.swf"]
    write_swf(tmp_path / name, workload)
    before = (tmp_path / name).read_bytes()
    with pytest.raises(InputError, match="expected a new file"):
        write_swf(tmp_path / name, workload)
    with pytest.raises(AttributeError):
        write_swf(tmp_path / name, broken, force=True)
    assert (tmp_path / name).read_bytes() == before
    write_swf(tmp_path / name, workload._replace(origin="other"), force=True)
    assert (tmp_path / name).read_bytes() != before
    for target in (tmp_path, tmp_path / "absent" / name):
        with pytest.raises(InputError):
            write_swf(target, workload, force=True)


# ------------------------------------------------------------------------------------------------ real traces


def test_the_ctc_log_is_read(traces: Path) -> None:
    trace = load_swf(traces / "CTC-SP2-1996-3.1-cln.swf.gz")
    assert trace.report.rows == 77_222
    assert trace.report.jobs == 77_205
    assert trace.report.without_run_time_dropped == 17
    assert trace.report.sizes_from_request == 0  # field 8 is -1 throughout
    assert trace.report.estimates_from_run == 6
    assert trace.report.runs_capped == 7_174
    assert trace.workload.processors == 338
    assert trace.workload.jobs[0].spec == JobSpec(1, 0, 306, 35_100 * SECOND, 35_100 * SECOND, "97", "307")


def test_the_blue_log_is_read(traces: Path) -> None:
    trace = load_swf(traces / "SDSC-BLUE-2000-4.2-cln.swf.gz", first=10_000, count=20_000)
    assert trace.report.rows == 243_306
    assert trace.report.without_run_time_dropped == 10_770
    assert trace.report.jobs == 232_536
    assert trace.workload.processors == 1152
    assert len(trace.workload.jobs) == 20_000
    assert all(job.spec.processes % 8 == 0 for job in trace.workload.jobs)
    assert trace.workload.jobs[0].spec.submit_us == 0


def test_run_times_above_the_estimate_can_be_kept(traces: Path) -> None:
    raw = read_swf(traces / "CTC-SP2-1996-3.1-cln.swf.gz", SwfOptions(cap_run_at_estimate=False), count=5_000)
    over = [job for job in raw.jobs if job.spec.limit_us is not None and job.run_us > job.spec.limit_us]
    assert len(over) > 100


def test_rows_of_jobs_that_were_never_submitted_are_dropped(log: Path) -> None:
    unused = " ".join(["-1"] * 18) + "\n"
    numbered = " ".join(["7", *["-1"] * 17]) + "\n"
    wrote(log, row(number=1), unused, numbered, row(number=2))
    trace = load_swf(log)
    assert [job.source_id for job in trace.workload.jobs] == [1, 2]
    assert (trace.report.rows, trace.report.never_submitted_dropped, trace.report.bad_rows_skipped) == (4, 2, 0)
    assert "2 rows of jobs that were never submitted, all fields -1: dropped" in trace.workload.notes
    with pytest.raises(InputError, match=r"--skip-bad-rows leaves such rows out"):
        read_swf(log, SwfOptions(drop_empty=False))


def test_memory_queue_and_partition_are_kept(log: Path, tmp_path: Path) -> None:
    wrote(log, row(number=1, requested_memory=1025, queue=3, partition=2), row(number=2, queue=-1))
    jobs = read_swf(log).jobs
    assert [(job.spec.memory_mb, job.queue, job.partition) for job in jobs] == [(2, 3, 2), (0, -1, -1)]
    assert {job.spec.memory_mb for job in read_swf(log, SwfOptions(memory=False)).jobs} == {0}
    again = tmp_path / "again.swf"
    write_swf(again, read_swf(log))
    assert read_swf(again, VERBATIM).jobs == jobs
