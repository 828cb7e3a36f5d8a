"""Logs as other people's programs write them: each header and row is read, or told in words with its line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import Commands
from tests.emulator.parts import VERBATIM
from tests.emulator.workload.test_swf import row

from cosched_emulator.errors import InputError
from cosched_emulator.workload.job import Calendar, Epoch
from cosched_emulator.workload.swf.swf_reader import SwfOptions, SwfTrace, load_swf, read_swf
from cosched_emulator.workload.swf.swf_writer import write_swf

SECOND = 1_000_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.swf"


def read(log: Path, *lines: str, options: SwfOptions = VERBATIM) -> SwfTrace:
    log.write_bytes("".join(line.removesuffix("\n") + "\n" for line in lines).encode())
    return load_swf(log, options)


# ---------------------------------------------------------------- the header


@pytest.mark.parametrize(
    ("line", "size"),
    [
        (";      MaxProcs: 128", 128),
        ("; MaxProcs : 128", 128),
        (";MaxProcs:128", 128),
        (";\tMaxProcs\t:\t128\t\r", 128),
        ("  ;; MAXPROCS: 128", 128),
        (";\u00a0MaxProcs:\u00a0128", 128),  # of a web page
        ("\ufeff; MaxProcs: 128", 128),
        ("; MaxProcs = 128", 128),
        ("; MaxProcs 128", 128),
        ("; MaxProcs: 1,152", 1152),
        ("; MaxProcs: 1,152 (144 8-way nodes)", 1152),
        ("; MaxProcs: 163,840, some of which are spare (4)", 163840),
        ("; MaxProcs: 128; 64 nodes", 128),
        ("; MaxProcs: 338(batch partition; 512 total)", 338),
        ("; MaxProcs: 128 processors.", 128),
        ("; MaxProcs: 128.0", 128),
    ],
)
def test_a_header_may_have_any_blanks_and_remarks(log: Path, line: str, size: int) -> None:
    found = read(log, line, "; MaxNodes: 7", row()).workload
    assert found.processors == size
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("about 128", "'about 128'"),
        ("", "''"),
        ("-128", "'-128'"),
        ("128 / 64", "'128 / 64'"),
        ("128, 64", "'128, 64'"),
        ("128-256", "'128-256'"),
        ("16 x 8", "'16 x 8'"),
        ("16 nodes of 8", "'16 nodes of 8'"),
        ("1.152", "'1.152'"),
        ("1,15", "'1,15'"),
        ("1.5e3", "'1.5e3'"),
        ("\u0661\u0662", "'\u0661\u0662'"),  # digits, but not of the format
        ("9" * 400, f"'{'9' * 37}...'"),
        ("\x1b[2J8", "'\\x1b[2J8'"),
    ],
)
def test_nodes_never_take_the_place_of_processors_that_cannot_be_read(log: Path, value: str, told: str) -> None:
    found = read(log, "; MaxNodes: 64", f"; MaxProcs: {value}", row()).workload
    assert found.processors is None
    assert found.warnings == (f"line 2: MaxProcs cannot be read: {told}",)


@pytest.mark.parametrize(
    ("lines", "size", "note"),
    [
        (("; MaxNodes: 64",), 64, "no MaxProcs: MaxNodes, 64, taken for the machine's processors"),
        (("; MaxNodes: 64", "; MaxProcs: -1"), 64, "no MaxProcs: MaxNodes, 64, taken for the machine's processors"),
        (
            ("; MaxNodes: 3",),
            None,
            "warning: no MaxProcs, and jobs of up to 4 processors for MaxNodes, 3: the machine's size is not known",
        ),
        (("; MaxNodes: lots",), None, "warning: line 1: MaxNodes cannot be read: 'lots'"),
        (
            ("; MaxProcs: 64", "; MaxProcs: 128"),
            128,
            "warning: MaxProcs has several values, 64, 128: the largest taken",
        ),
        (("; MaxProcs: 64", "; MaxProcs: some"), 64, "warning: line 2: MaxProcs cannot be read: 'some'"),
    ],
)
def test_what_is_taken_for_the_machine_is_told(log: Path, lines: tuple[str, ...], size: int | None, note: str) -> None:
    found = read(log, *lines, row(allocated=4)).workload
    assert found.processors == size
    assert found.notes[1:] == (note,)


def test_a_header_after_the_rows_counts_and_prose_is_no_key(log: Path) -> None:
    found = read(log, "; the number of MaxProcs: 7", row(), "; MaxProcs: 16", ";; Note: http://x").workload
    assert found.processors == 16
    assert len(found.notes) == 1


def test_the_run_says_why_the_size_of_the_machine_is_unknown(log: Path, commands: Commands) -> None:
    read(log, "; MaxNodes: 64", "; MaxProcs: 1 or 2", row())
    ran = commands.emulator("simulate", "--swf", str(log), "--policy", "easy")
    assert ran.code == 2
    assert (
        "the log names no MaxProcs or MaxNodes that can be read (line 2: MaxProcs cannot be read: '1 or 2')" in ran.err
    )


@pytest.mark.parametrize(
    ("lines", "epoch"),
    [
        (("; UnixStartTime: 749458803", ";      TimeZone: -28800"), Epoch(749458803, -28800)),
        (("; unixstarttime: 749,458,803 (UTC)", "; TIMEZONE: +3600 s"), Epoch(749458803, 3600)),
        (("; UnixStartTime: 5", "; TimeZoneString: US/Pacific"), Epoch(5, None, "US/Pacific")),
        (("; UnixStartTime: 5", "; UnixStartTime: 9", "; TimeZone: 0"), Epoch(5, 0)),
        (("; UnixStartTime: 0", "; TimeZone: -1"), Epoch()),
        (("; UnixStartTime: soon", "; TimeZone: 100000", "; TimeZoneString: \x1b[2J"), Epoch()),
    ],
)
def test_when_time_0_was(log: Path, lines: tuple[str, ...], epoch: Epoch) -> None:
    assert read(log, *lines, row()).workload.epoch == epoch


def test_what_cannot_be_read_of_the_time_is_told(log: Path) -> None:
    lines = ("; UnixStartTime: soon", "; UnixStartTime: 7", "; UnixStartTime: 8", "; TimeZone: 100000 (east)", row())
    assert read(log, *lines).workload.notes[1:] == (
        "line 1: UnixStartTime cannot be read: 'soon'",
        "UnixStartTime has several values, 7, 8: the first taken",
        "line 4: TimeZone cannot be read: '100000 (east)'",
    )


def test_a_log_says_the_same_day_everywhere(log: Path, commands: Commands) -> None:
    """Case 12: a header that is put in columns; the day of the first submission is that of UTC, on a machine of any time zone."""
    head = (";       Version: 2", "; UnixStartTime: 749458803", ";      TimeZone: -28800", ";      MaxProcs: 128")
    read(log, *head, row(submit=0))
    command = (sys.executable, "-m", "cosched_emulator", "workload", "describe", str(log))
    told = {
        subprocess.run(command, env={**os.environ, "TZ": zone}, capture_output=True, text=True, check=True).stdout
        for zone in ("UTC", "Asia/Tokyo", "America/Los_Angeles")
    }
    assert len(told) == 1
    (text,) = told
    assert "machine       128 processors\nbegins        Friday 1 October 1993, 07:00:03 UTC\n" in text
    assert "Thursday   100.0%" in text  # 8 h before: the log's offset, the same all year
    assert json.loads(commands.emulator("workload", "describe", str(log), "--json").out)["began_s"] == 749458803


def test_the_time_zone_of_an_import_is_that_of_the_dump(tmp_path: Path) -> None:
    """Half an hour before clocks in Athens go forward, which in Tokyo is after the hour that they skip."""
    (tmp_path / "dump.txt").write_text(
        "JobIDRaw|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|NodeList|Partition|JobName\n"
        "1|u|COMPLETED|2026-03-29T02:30:00|2026-03-29T02:30:00|2026-03-29T02:40:00|600|60|1|4|n1|p|x\n"
    )
    command = (sys.executable, "-m", "cosched_emulator", "workload", "import", "--sacct", "dump.txt", "--force")
    for zone in ("Asia/Tokyo", "UTC"):
        subprocess.run(
            (*command, "--out", "o", "--time-zone", "Europe/Athens"),
            env={**os.environ, "TZ": zone},
            cwd=tmp_path,
            capture_output=True,
            check=True,
        )
        assert load_swf(tmp_path / "o" / "trace.swf").workload.epoch == Epoch(1774744200, 7200, "Europe/Athens")


# ---------------------------------------------------------------- rows


def test_fields_beyond_18_are_ignored_and_counted(log: Path) -> None:
    """Case 21: recent public logs carry GPUs there, some as texts."""
    rows = [
        row(number=1).replace("\n", " 32 100 m:excl:4x112\n"),
        row(number=2, run="142.10").replace("\n", " ; caf\u00e9\n"),
        row(number=3),
        " ".join(["-1"] * 21),
        row(number=4).replace("\n", " -1\n"),
    ]
    trace = read(log, *rows)
    assert [job.source_id for job in trace.workload.jobs] == [1, 2, 3, 4]
    assert trace.workload.jobs[1].run_us == 142_100_000
    assert trace.workload.notes[:3] == (
        "5 rows, 4 usable jobs",
        "1 rows of jobs that were never submitted, all fields -1: dropped",
        "3 rows of more than 18 fields: the others are ignored",
    )
    plain = read(log, *[line.replace("\n", " 1 2\n") for line in (row(number=1), row(number=2))])  # nothing but numbers
    assert (plain.report.longer, plain.report.jobs) == (2, 2)
    with pytest.raises(InputError, match=r":2: field 'run time': expected a number, got 'x'"):
        read(log, row(), row(run="x").replace("\n", " 7\n"))


def statuses(*rows: tuple[int, int]) -> list[str]:
    return [row(number=number, status=status, run=100 + place) for place, (number, status) in enumerate(rows)]


@pytest.mark.parametrize(
    ("rows", "left", "dropped", "kept"),
    [
        (((1, 3), (2, 4), (3, 5), (4, 1)), [1, 2, 3, 4], 0, 2),  # case 13
        (((1, 1), (1, 2), (1, 3), (2, 4)), [1, 2], 2, 1),
        (((1, 2), (2, 1), (1, 4), (1, 0)), [2, 1], 2, 0),
        (((1, 2), (1, 2), (1, 3)), [1, 1, 1], 0, 3),  # all its parts, each of which held processors
    ],
)
def test_rows_are_parts_only_of_a_job_with_a_row_of_its_own(
    log: Path, rows: tuple[tuple[int, int], ...], left: list[int], dropped: int, kept: int
) -> None:
    trace = read(log, *statuses(*rows))
    assert [job.source_id for job in trace.workload.jobs] == left
    assert (trace.report.bursts_dropped, trace.report.bursts_kept) == (dropped, kept)
    assert ("status 2-4 without a row of the whole job: each is a job" in " ".join(trace.workload.notes)) == (kept > 0)


def test_later_parts_have_no_submit_time(log: Path) -> None:
    parts = [row(number=1, status=2), row(number=1, submit=-1, status=3, wait=60)]
    trace = read(log, row(number=1, run=900), *parts, row(number=2))
    assert [job.source_id for job in trace.workload.jobs] == [1, 2]
    assert trace.report.bursts_dropped == 2
    with pytest.raises(InputError, match=r":2: field 'submit time': expected a number that is not negative, got '-1'"):
        read(log, row(number=2), parts[1])
    trace = read(log, row(number=2), parts[1], options=SwfOptions(skip_bad_rows=True))
    assert (trace.report.jobs, trace.report.bad_rows_skipped) == (1, 1)
    with pytest.raises(InputError, match=r":1: field 'submit time'"):
        read(log, row(submit=-1, status=1), parts[0])


def test_rows_that_stand_twice_are_told(log: Path) -> None:
    rows = [row(number=1), row(number=2), row(number=2).replace(" ", "\t"), row(number=1, run=90), row(number=3, run=0)]
    trace = read(log, *rows, row(number=3, run=0))
    assert [job.source_id for job in trace.workload.jobs] == [1, 2, 2, 1]
    assert trace.workload.warnings == ("1 rows stand twice, equal in all fields to a row above: each is a job",)
    assert "1 rows with the number of a row above: each is a job" in trace.workload.notes


def test_jobs_that_follow_others_are_counted(log: Path) -> None:
    unknown = row(number=1, preceding=0, think=0, cpu=0, memory=0)
    trace = read(log, unknown, row(number=2, preceding=1, think=5), row(number=3, preceding=1, wait=0))
    assert trace.workload.unread == (("wait time", 1), ("preceding job", 2), ("think time", 1))
    assert "2 rows with a preceding job: they do not wait for it" in trace.workload.notes


# ---------------------------------------------------------------- what logs keep that are written of a log


def test_a_written_log_keeps_time_zone_group_and_status(log: Path, tmp_path: Path) -> None:
    head = ("; UnixStartTime: 946854000", "; TimeZone: 3600", "; TimeZoneString: Europe/Athens", "; MaxProcs: 9")
    read(log, *head, row(number=1, submit=5, group=4, status=0), row(number=2, submit="60.5", group=-1, status=5))
    again = tmp_path / "again.swf"
    for options, first, began_s in (
        (VERBATIM, 0, 946854000),
        (SwfOptions(), 0, 946854005),
        (SwfOptions(), 1, 946854060),
    ):
        workload = read_swf(log, options, first)
        write_swf(again, workload, force=True)
        found = load_swf(again, VERBATIM)
        assert (found.workload.jobs, found.workload.epoch) == (
            workload.jobs,
            Epoch(began_s, 3600, "Europe/Athens"),
        )
        assert list(found.header)[3:9] == [
            "MaxRecords", "UnixStartTime", "TimeZone", "TimeZoneString", "MaxProcs", "Note",
        ]  # fmt: skip
    assert found.workload.calendar == Calendar(946854060 + 3600, named_days=True)


def test_a_run_keeps_them_in_both_of_its_logs(log: Path, commands: Commands) -> None:
    read(log, "; UnixStartTime: 946854000", "; TimeZone: -3600", "; MaxProcs: 9", row(submit=5, group=4, status=0))
    assert commands.emulator("simulate", "--swf", str(log), "--policy", "easy", "--out", "run").code == 0
    for name, status in (("workload.swf", 0), ("schedule.swf", 1)):  # the schedule's is how the run ended
        found = load_swf(commands.folder / "run" / name, VERBATIM).workload
        assert found.epoch == Epoch(946854005, -3600)
        assert (found.jobs[0].group, found.jobs[0].status) == (4, status)
    ran = commands.emulator("simulate", "--swf", str(log), "--policy", "easy", "--load", "0.5", "--out", "loaded")
    assert ran.code == 2  # one job: no gaps
