"""Files of plain numbers are read at once: with the values, and the errors, of the reader that goes row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.emulator.results.samples import UNEQUAL_NODES

from cosched_emulator.errors import InputError
from cosched_emulator.results.files import run_reader
from cosched_emulator.results.files.run_files import ALLOCATION_COLUMNS

ROW = ["1", "0", "5", "7.25", "0", "1", "0x3", "1"]
ODD = (
    "", "0", "007", "+1", "-1", " 1", "1 ", "1.5", "1.", ".5", ".", "1.123456", "1.1234567", "1.2.3", "1e5", "1e400", "nan", "inf",
    "999999999.999999", "1000000000.5", "123456789012345678901234567890", "0x1", "0xf", "f", "0x", "0x0", "F", '"1"', "#", "1_0",
    "1,2", "1\n", "\n", "\r", "1\x00", "²", "0x" + "f" * 40,
)  # fmt: skip


def outcome(file: Path) -> Any:
    """Return the stays in ``file`` as plain values, or the error."""
    try:
        stays, numbers = run_reader._read_stays(file, np.full(2, -1), {1: 1, 2: 0}, UNEQUAL_NODES)
    except InputError as error:
        return str(error)
    columns = [stays.job, stays.start_us, stays.end_us, stays.first_node, stays.node_count, stays.threads, numbers]
    return [[*column.tolist()] for column in columns], [*stays.mask], stays.mask.distinct


@pytest.mark.parametrize("place", range(len(ROW)))
def test_odd_values_are_read_or_refused_as_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    file = tmp_path / "allocations.csv"
    by_file: dict[str, Any] = {}
    read_at_once = run_reader._plain_stays
    for odd in ODD:
        rows = [["2", "1", "0", "3", "1", "2", "0x1", "1"], [*ROW[:place], odd, *ROW[place + 1 :]], ROW]
        text = "\n".join([",".join(ALLOCATION_COLUMNS), *map(",".join, rows), ""])
        file.write_text(text, encoding="utf-8", newline="")
        by_file[text] = outcome(file)
        monkeypatch.setattr(run_reader, "_plain_stays", lambda *_: None)
        assert outcome(file) == by_file[text], repr(odd)
        monkeypatch.setattr(run_reader, "_plain_stays", read_at_once)
    assert {type(each) for each in by_file.values()} == {str, tuple}  # some are errors, some are not


@pytest.mark.parametrize("text", ["", "job_id\n", ",".join(ALLOCATION_COLUMNS), ",".join(ALLOCATION_COLUMNS) + "\n"])
def test_files_without_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    file = tmp_path / "allocations.csv"
    file.write_text(text, encoding="utf-8")
    found = outcome(file)
    monkeypatch.setattr(run_reader, "_plain_stays", lambda *_: None)
    assert outcome(file) == found


def test_plain_files_are_read_at_once(tmp_path: Path) -> None:
    file = tmp_path / "allocations.csv"
    file.write_text("\n".join([",".join(ALLOCATION_COLUMNS), ",".join(ROW), ""]), encoding="utf-8")
    found = run_reader._plain_stays(file, {1: 0}, 3)
    assert found is not None
    assert found[0].end_us.tolist() == [7_250_000]
