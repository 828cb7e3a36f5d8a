"""Logs as other people's programs write them: each header and row is read, or told in words with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.emulator.parts import VERBATIM
from tests.emulator.workload.test_swf import row

from cosched_emulator.errors import InputError
from cosched_emulator.workload.swf.swf_reader import SwfOptions, SwfTrace, load_swf


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.swf"


def read(log: Path, *lines: str, options: SwfOptions = VERBATIM) -> SwfTrace:
    log.write_bytes("".join(line.removesuffix("\n") + "\n" for line in lines).encode())
    return load_swf(log, options)


# ---------------------------------------------------------------- the header


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


# ---------------------------------------------------------------- rows


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
